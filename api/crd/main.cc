// Writes the CustomResourceDefinition of NodeReports to standard output; hack/generate.sh runs it.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "api/crd/node_report_crd.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: numafit_generate_crd DESCRIPTOR-SET\n";
    return 2;
  }
  std::ifstream stream(argv[1], std::ios::binary);
  const std::string descriptors(std::istreambuf_iterator<char>(stream), {});
  const auto crd = numafit::api::NodeReportCrd(descriptors);
  if (!crd.ok()) {
    std::cerr << crd.status().message() << "\n";
    return 1;
  }
  std::cout << *crd;
  return 0;
}
