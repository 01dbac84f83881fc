#include "policy/cpu_manager/demand.h"

#include <algorithm>

#include "policy/mutation.h"

namespace numafit::policy {

std::int64_t GuaranteedCpus(const CpuDemand& container) {
  constexpr std::int64_t kMilli = 1000;
  if (!container.requests_cpu) return 0;
  if (Mutated(Mutation::kCpuFractionRoundsUp)) return (container.milli + kMilli - 1) / kMilli;
  if (container.milli % kMilli != 0) return 0;
  return container.milli / kMilli;
}

std::int64_t PodGuaranteedCpus(std::span<const CpuDemand> containers) {
  std::int64_t init = 0;
  std::int64_t sidecars = 0;
  std::int64_t apps = 0;
  for (const CpuDemand& container : containers) {
    const std::int64_t cpus = GuaranteedCpus(container);
    switch (container.kind) {
      case ContainerDemand::Kind::kInit:
        init = std::max(init, sidecars + cpus);
        break;
      case ContainerDemand::Kind::kSidecar:
        sidecars += cpus;
        break;
      case ContainerDemand::Kind::kApp:
        apps += cpus;
        break;
    }
  }
  return std::max(init, apps + sidecars);
}

}  // namespace numafit::policy
