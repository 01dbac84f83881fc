#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "policy/kubelet_version.h"

namespace numafit::cli {
namespace {

int RunVersion(const Arguments&) {
  fmt::print("numafit {}\nknows the admission rules of kubelet 1.{} to 1.{}\n", NUMAFIT_VERSION,
             policy::KubeletVersion::kOldestMinor, policy::KubeletVersion::kNewestMinor);
  return kYes;
}

}  // namespace

const Command kVersionCommand = {.name = "version",
                                 .summary = "Print the version and the kubelet versions it knows",
                                 .usage = "numafit version",
                                 .details = "",
                                 .options = {},
                                 .run = RunVersion};

}  // namespace numafit::cli
