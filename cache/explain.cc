#include "cache/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "cache/explain_change.h"
#include "cache/explain_compute.h"

namespace numafit::cache {
namespace {

using policy::Alignment;
using policy::Reason;

// Moving a Pod is looked for on so many nodes at most.
constexpr std::size_t kMostNodesForMoves = 512;
constexpr std::size_t kMostMoves = 3;

bool IsCertain(const policy::Judgement& judgement) {
  return judgement.alignment == Alignment::kGuaranteed ||
         judgement.alignment == Alignment::kNotNeeded;
}

// Best first: certain, possible, to be waited for, no.
int Rank(const policy::Judgement& judgement) {
  switch (judgement.reason) {
    case Reason::kFits:
      return IsCertain(judgement) ? 0 : 1;
    case Reason::kSettling:
      return 2;
    case Reason::kNumaFragmented:
      return 3;
    case Reason::kKubeletRefuses:
      return 4;
    case Reason::kNeverFits:
      return 6;
    default:
      return 5;
  }
}

bool IsAccelerator(const policy::Demand& demand, const std::string& resource) {
  return std::binary_search(demand.accelerators.begin(), demand.accelerators.end(), resource);
}

// "4 nvidia.com/gpu + 4 device.gpustack.ai/rdma", accelerators first, as people name them.
std::string DevicesText(const policy::Demand& demand, const policy::ContainerDemand& container,
                        bool short_names) {
  std::string text;
  for (const bool accelerators : {true, false}) {
    for (const auto& [resource, count] : container.devices) {
      if (IsAccelerator(demand, resource) != accelerators) continue;
      text += fmt::format("{}{} {}", text.empty() ? "" : " + ", count,
                          short_names ? ShortName(resource) : resource);
    }
  }
  return text;
}

std::string ContainerText(const policy::Demand& demand, const policy::ContainerDemand& container) {
  const char* kind = container.kind == policy::ContainerDemand::Kind::kInit      ? "init container"
                     : container.kind == policy::ContainerDemand::Kind::kSidecar ? "sidecar"
                                                                                 : "container";
  return fmt::format("{} ({} {})", DevicesText(demand, container, false), kind, container.name);
}

std::string Wants(const policy::Demand& demand) {
  std::string text;
  for (const policy::ContainerDemand& container : demand.containers) {
    if (container.devices.empty()) continue;
    text += (text.empty() ? "" : "; ") + ContainerText(demand, container);
  }
  if (text.empty()) return "asks for no devices: any node will do";
  const bool together = !demand.accelerators.empty() && !demand.endpoints.empty();
  return (together ? "needs, together on one NUMA node or the fewest: " : "needs: ") + text;
}

std::vector<ResourceFree> Asked(const NodeState& state, const policy::Demand& demand) {
  std::vector<std::string> resources;
  for (const policy::ContainerDemand& container : demand.containers) {
    for (const auto& [resource, count] : container.devices) resources.push_back(resource);
  }
  std::sort(resources.begin(), resources.end());
  resources.erase(std::unique(resources.begin(), resources.end()), resources.end());
  // Accelerators first, as people name them.
  std::stable_partition(resources.begin(), resources.end(), [&](const std::string& resource) {
    return IsAccelerator(demand, resource);
  });
  std::vector<ResourceFree> free;
  for (const std::string& resource : resources) {
    const int pool = state.topology->FindPool(resource);
    if (pool >= 0) free.push_back(FreeDevices(state, pool));
  }
  return free;
}

// Refusals that differ in their numbers only are folded: the nearest miss stands for them.
std::string FoldKey(const policy::Judgement& judgement, const std::string& answer) {
  if (judgement.fits()) return answer;
  std::string key;
  for (const char c : answer) {
    if (c < '0' || c > '9') key += c;
  }
  return key;
}

// Changes of the request are looked for on so many distinct states at most.
constexpr int kMostStatesForChanges = 64;

// Judges every distinct state once; with nominees, once for each node that has some.
class Judge {
 public:
  // Ranks by `strategy`, whatever the options say. Both references are kept.
  Judge(const policy::Demand& demand, const ExplainOptions& options,
        const policy::ScoreStrategy* strategy)
      : demand_(demand), options_(options), strategy_(strategy) {}

  struct Answer {
    policy::Judgement judgement;
    std::string text;
    int free = 0;  // of what the Pod asks for: who comes nearest
    // Empty until they are asked for.
    std::optional<Changes> changes;
  };
  const Answer& Of(const NodeView& view) {
    const NodeState& state = *view.state;
    const auto [found, is_new] = answers_.try_emplace(KeyOf(view));
    if (is_new) {
      found->second.judgement = JudgeOnNode(state, demand_, strategy_);
      if (found->second.judgement.fits() && !LeavesRoom(view, state)) {
        found->second.judgement.reason = Reason::kKeptForNominee;
      }
      found->second.text = AnswerOf(state, demand_, found->second.judgement);
      for (const ResourceFree& resource : Asked(state, demand_)) {
        found->second.free += resource.total.at_least;
      }
    }
    return found->second;
  }

  const Changes& ChangesOn(const NodeView& view) {
    Answer& answer = answers_.at(KeyOf(view));
    if (!answer.changes) {
      answer.changes.emplace();
      if (++states_with_changes_ <= kMostStatesForChanges) {
        answer.changes = ChangesThatPass(*view.state, demand_, answer.judgement);
      }
    }
    return *answer.changes;
  }

  // Of the Pod that fits in `state`, which may be another than the node has now.
  [[nodiscard]] bool LeavesRoom(const NodeView& view, const NodeState& state) const {
    return view.nominees == nullptr ||
           view.nominees->LeavesRoom(state, options_.uid, options_.priority, demand_);
  }

 private:
  using Key = std::pair<std::uint64_t, const Nominees*>;
  static Key KeyOf(const NodeView& view) { return {view.state->id, view.nominees.get()}; }

  const policy::Demand& demand_;
  const ExplainOptions& options_;
  const policy::ScoreStrategy* strategy_;
  std::map<Key, Answer> answers_;
  int states_with_changes_ = 0;
};

NodeAnswer AnswerFor(const NodeView& view, const policy::Demand& demand, Judge& judge) {
  const Judge::Answer& answer = judge.Of(view);
  NodeAnswer result;
  result.node = view.name;
  const policy::KubeletSettings& kubelet = view.state->topology->kubelet();
  const bool known = view.state->HasInventory();
  result.policy = known ? std::string(policy::TopologyPolicyName(kubelet.policy)) : "unknown";
  result.scope = known ? std::string(policy::TopologyScopeName(kubelet.scope)) : "unknown";
  result.reason = answer.judgement.reason;
  result.alignment = answer.judgement.alignment;
  result.score = answer.judgement.score;
  result.answer = answer.text;
  if (!known) return result;
  result.resources = Asked(*view.state, demand);
  result.compute = FreeCompute(*view.state, demand);
  const Changes& changes = judge.ChangesOn(view);
  result.changes = changes.texts;
  result.notes = changes.faults;
  if (view.state->counts_only) {
    result.notes.emplace_back(
        "counts only, from NodeResourceTopology: which devices are free, and who has the others, "
        "is "
        "not known");
  }
  if (std::string note = VersionNote(kubelet.version); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  return result;
}

bool Halve(policy::Demand& demand) {
  bool changed = false;
  for (policy::ContainerDemand& container : demand.containers) {
    for (auto& [resource, count] : container.devices) {
      if (count % 2 != 0) return false;
      changed |= count > 0;
      count /= 2;
    }
  }
  return changed;
}

// Fewer devices per container.
void HelpBySize(const std::vector<const NodeView*>& nodes, const policy::Demand& demand,
                const ExplainOptions& options, std::vector<Help>& help) {
  policy::Demand smaller = demand;
  while (Halve(smaller)) {
    Judge judge(smaller, options, nullptr);
    const auto fits = std::count_if(nodes.begin(), nodes.end(), [&](const NodeView* view) {
      return judge.Of(*view).judgement.fits();
    });
    if (fits == 0) continue;
    std::string sizes;
    for (const policy::ContainerDemand& container : smaller.containers) {
      if (container.devices.empty()) continue;
      sizes += (sizes.empty() ? "" : ", ") + DevicesText(smaller, container, true);
    }
    help.push_back(
        {.kind = "smaller",
         .nodes = static_cast<int>(fits),
         .node = "",
         .pod = "",
         .text = fmt::format("{} per Pod fits on {} node{}", sizes, fits, fits == 1 ? "" : "s")});
    return;
  }
}

int CountOf(const policy::DeviceHolding& holding) {
  int count = 0;
  for (const policy::ClassCount& item : holding) count += item.count;
  return count;
}

// A running Pod that would make room elsewhere, the ones with fewest devices first.
void HelpByMove(const std::vector<const NodeView*>& nodes, const policy::Demand& demand,
                const ExplainOptions& options, std::vector<Help>& help) {
  const Judge judge(demand, options, nullptr);
  std::vector<std::tuple<int, std::string, std::string>> moves;
  std::size_t looked_at = 0;
  for (const NodeView* const node : nodes) {
    const NodeView& view = *node;
    if (!view.state->HasInventory() || !view.state->pending.empty()) continue;
    if (view.state->knowledge.usages.size() != 1 || ++looked_at > kMostNodesForMoves) continue;
    for (const PodOnNode& pod : view.pods) {
      const policy::DeviceHolding held = pod.held();
      if (held.empty()) continue;
      NodeState without = *view.state;
      without.knowledge.usages.front().Remove(held);
      if (!JudgeOnNode(without, demand, nullptr).fits() || !judge.LeavesRoom(view, without))
        continue;
      moves.emplace_back(CountOf(held), view.name, pod.name);
    }
  }
  std::sort(moves.begin(), moves.end());
  if (moves.size() > kMostMoves) moves.resize(kMostMoves);
  for (const auto& [devices, node, pod] : moves) {
    help.push_back({.kind = "move",
                    .nodes = 1,
                    .node = node,
                    .pod = pod,
                    .text = fmt::format("moving {} ({} device{}) off {} makes room there", pod,
                                        devices, devices == 1 ? "" : "s", node)});
  }
}

}  // namespace

absl::StatusOr<Explanation> Explain(const std::vector<NodeView>& fleet, const std::string& pod_name,
                                    const policy::Demand& demand, const ExplainOptions& options) {
  Explanation result;
  result.pod = pod_name;
  result.wants = Wants(demand);
  Judge judge(demand, options, options.strategy);
  std::vector<const NodeView*> order;
  for (const NodeView& view : fleet) {
    if (!options.node.empty() && view.name != options.node) continue;
    order.push_back(&view);
    const policy::Judgement& judgement = judge.Of(view).judgement;
    result.fit += judgement.fits() ? 1 : 0;
    result.guaranteed += judgement.fits() && IsCertain(judgement) ? 1 : 0;
  }
  if (!options.node.empty() && order.empty()) {
    return absl::NotFoundError(fmt::format("node {} is not in the fleet", options.node));
  }
  result.nodes = static_cast<int>(order.size());
  std::stable_sort(order.begin(), order.end(), [&](const NodeView* a, const NodeView* b) {
    const Judge::Answer& left = judge.Of(*a);
    const Judge::Answer& right = judge.Of(*b);
    return std::forward_as_tuple(Rank(left.judgement), -left.judgement.score,
                                 left.judgement.fits() ? 0 : -left.free, a->name) <
           std::forward_as_tuple(Rank(right.judgement), -right.judgement.score,
                                 right.judgement.fits() ? 0 : -right.free, b->name);
  });
  if (result.fit > 0) result.best = order.front()->name;
  std::map<std::pair<std::string, std::string>, std::size_t> groups;
  for (const NodeView* view : order) {
    const Judge::Answer& answer = judge.Of(*view);
    const policy::KubeletSettings& kubelet = view->state->topology->kubelet();
    const std::string settings =
        std::string(policy::TopologyPolicyName(kubelet.policy)) + VersionNote(kubelet.version);
    const auto [group, is_new] = groups.try_emplace(
        {FoldKey(answer.judgement, answer.text), settings}, result.answers.size());
    if (options.fold && !is_new) {
      result.answers[group->second].alike.push_back(view->name);
    } else {
      result.answers.push_back(AnswerFor(*view, demand, judge));
    }
  }
  if (result.fit == 0) {
    HelpBySize(order, demand, options, result.help);
    HelpByMove(order, demand, options, result.help);
  }
  return result;
}

}  // namespace numafit::cache
