// Writes what is made from api/node_report.proto to standard output; hack/generate.sh runs it.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "api/crd/node_report_crd.h"
#include "api/crd/node_report_fields.h"

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  if (what != "crd" && what != "fields") {
    std::cerr << "usage: numafit_generate crd|fields DESCRIPTOR-SET\n";
    return 2;
  }
  std::ifstream stream(argv[2], std::ios::binary);
  const std::string descriptors(std::istreambuf_iterator<char>(stream), {});
  const auto text = what == "crd" ? numafit::api::NodeReportCrd(descriptors)
                                  : numafit::api::NodeReportFields(descriptors);
  if (!text.ok()) {
    std::cerr << text.status().message() << "\n";
    return 1;
  }
  std::cout << *text;
  return 0;
}
