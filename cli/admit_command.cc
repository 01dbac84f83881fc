// numafit admit: cases through the mirror of the kubelet's admission.
#include <iostream>

#include "cli/admit/admit.h"
#include "cli/command.h"

namespace numafit::cli {

const Command kAdmitCommand = {
    .name = "admit",
    .summary = "Replay admission cases, one JSON line each, as a kubelet would decide",
    .usage = "numafit admit < CASES",
    .details =
        "The form of cases and answers is docs/case-format.md. It is the form of bug reports: a "
        "case\nin which numafit and your kubelet differ is all that is needed.\n\n"
        "Example:\n"
        "  echo '{\"numa\": [{\"id\": 0}], \"topologyPolicy\": \"single-numa-node\", \"devices\": "
        "{\"a/b\":\n  [{\"id\": \"x\", \"numa\": [0]}]}, \"steps\": [{\"admit\": {\"name\": \"p\", "
        "\"containers\":\n  [{\"name\": \"c\", \"resources\": {\"limits\": {\"a/b\": "
        "\"1\"}}}]}}]}' "
        "| numafit admit\n",
    .options = {},
    .run = [](const Arguments&) { return RunAdmit(std::cin, std::cout); }};

}  // namespace numafit::cli
