// Twin of topologymanager/policy_none.go.
#include "policy/topology_manager/policy.h"

namespace numafit::policy {

MergeResult MergeNone() {
  return {.hint = {}, .admit = true};
}

}  // namespace numafit::policy
