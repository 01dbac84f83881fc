// Plays the steps of one case through policy::Admit.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/admit/case.h"
#include "cli/admit/device_kinds.h"
#include "nlohmann/json_fwd.hpp"
#include "policy/admit.h"

namespace numafit::cli {

// The state of the node is one of `worlds_`: who holds how many devices of which kind. Every world
// that the kubelet may be in is there, bounded by kMaxWorlds; past the bound the Pods whose devices
// were not followed are `lost_pods_`, and until the last of them is gone nothing is claimed.
class Replay {
 public:
  static constexpr std::size_t kMaxWorlds = 512;

  explicit Replay(const Case& replayed);

  // Before the first step: a kubelet would not start like this.
  [[nodiscard]] absl::Status Start();
  // The answer to one step, {} for all but admit.
  [[nodiscard]] absl::Status Play(const CaseStep& step, nlohmann::ordered_json& answer);

 private:
  // Counts by kind, in the clothes of counts by class.
  using Kinds = policy::DeviceHolding;
  using World = std::map<std::string, Kinds>;  // by Pod
  // What one outcome gives a container.
  struct Given {
    policy::ContainerAllocation allocation;
    Kinds devices;
  };
  struct Verdicts {
    bool admits = false;
    bool refuses = false;
    std::set<std::string> reasons;
    // Some outcomes were left out, and the verdict is unknown, or only where devices land.
    bool unknown = false;
    bool truncated = false;
    bool same_affinities = true;
    std::vector<std::vector<Given>> given;  // distinct, of the admitting outcomes
    std::set<World> worlds;                 // after the step
    std::set<World> observed_worlds;        // before the step: those that can do what was observed
  };

  absl::Status Rebuild();
  [[nodiscard]] policy::Usage UsageOf(const World& world) const;
  [[nodiscard]] Kinds KindsOf(const policy::DeviceHolding& holding) const;
  absl::Status Admit(const CaseStep& step, nlohmann::ordered_json& answer);
  [[nodiscard]] Verdicts Ask(const CaseStep& step) const;
  void Collect(const World& world, const policy::AdmitResult& result, const CaseStep& step,
               Verdicts& verdicts) const;
  [[nodiscard]] bool IsObserved(const CaseStep& step, const policy::Outcome& outcome,
                                const std::vector<Given>& given) const;
  absl::Status GoOnFromObserved(const CaseStep& step, const Verdicts& verdicts);
  void Write(const CaseStep& step, const Verdicts& verdicts, nlohmann::ordered_json& answer) const;
  [[nodiscard]] nlohmann::ordered_json WriteDevices(const std::vector<std::vector<Given>>& given,
                                                    std::size_t container) const;
  [[nodiscard]] std::map<std::string, int> CountByNumaSet(const Kinds& kinds, int pool) const;
  // Whether these kinds are all their devices, so that the ids are known.
  [[nodiscard]] bool IdsAreKnown(const Kinds& kinds, int pool) const;

  const Case& case_;
  DeviceKinds kinds_;
  DevicesByResource devices_;  // as last listed; unhealthy once disconnected
  OrderByResource prefer_;
  std::shared_ptr<const policy::Topology> topology_;
  std::vector<int> kind_of_class_;
  std::map<int, int> class_of_kind_;
  std::vector<std::string> numa_set_of_class_;

  std::set<World> worlds_;
  std::set<std::string> lost_pods_;
};

}  // namespace numafit::cli
