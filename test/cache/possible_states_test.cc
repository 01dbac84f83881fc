#include "cache/possible_states.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "test/cache/machines.h"

namespace numafit::cache {
namespace {

using Handle = PossibleStates::Handle;

// A kubelet that does what the mirror says is possible, in an order and with picks of its own, and
// whose news travel in the order of its decisions.
class SimulatedKubelet {
 public:
  SimulatedKubelet(std::shared_ptr<const policy::Topology> topology, std::mt19937& random)
      : topology_(std::move(topology)), random_(random), usage_(*topology_) {}

  void Bind(Handle pod, std::shared_ptr<const policy::Demand> demand) {
    waiting_[pod] = std::move(demand);
  }
  void AdmitOne() {
    if (waiting_.empty()) return;
    auto pod = waiting_.begin();
    std::advance(pod, Below(waiting_.size()));
    const policy::AdmitResult result = policy::Admit(*topology_, usage_, *pod->second);
    const policy::Outcome& outcome = result.outcomes[Below(result.outcomes.size())];
    policy::Apply(*topology_, outcome, usage_);
    if (outcome.admitted) {
      held_[pod->first] = outcome.held;
      news_.push_back({pod->first, News::kAdmitted});
    } else {
      ++refused_;
      news_.push_back({pod->first, News::kRefused});
    }
    waiting_.erase(pod);
  }
  void FinishOne() {
    if (held_.empty()) return;
    auto pod = held_.begin();
    std::advance(pod, Below(held_.size()));
    usage_.Release(*topology_, pod->second);
    news_.push_back({pod->first, News::kGone});
    held_.erase(pod);
  }
  // A Pod is deleted: the news are out before the kubelet acts.
  void DeleteOne(PossibleStates& states) {
    if (held_.empty()) return;
    auto pod = held_.begin();
    std::advance(pod, Below(held_.size()));
    states.StartLeaving(pod->first);
    leaving_.insert(pod->first);
  }
  // The kubelet lets go of a deleted Pod; nobody hears of it for now.
  void LeaveOne() {
    for (auto pod = leaving_.begin(); pod != leaving_.end(); ++pod) {
      const auto held = held_.find(*pod);
      if (held == held_.end()) continue;
      usage_.Release(*topology_, held->second);
      held_.erase(held);
      gone_.push_back(*pod);
      leaving_.erase(pod);
      return;
    }
  }
  void TellWhoIsGone(PossibleStates& states) {
    for (const Handle pod : gone_) states.Remove(pod, /*never_admitted=*/false);
    gone_.clear();
  }
  // Tells `states` the oldest news. False: there are none.
  bool Tell(PossibleStates& states) {
    if (news_.empty()) return false;
    const auto [pod, news] = news_.front();
    news_.pop_front();
    if (news == News::kAdmitted) {
      states.ShowAdmitted(pod);
    } else {
      states.Remove(pod, news == News::kRefused);
    }
    return true;
  }

  [[nodiscard]] const policy::Usage& usage() const { return usage_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] std::size_t unheard() const { return gone_.size(); }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  enum class News { kAdmitted, kRefused, kGone };

  std::size_t Below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }

  std::shared_ptr<const policy::Topology> topology_;
  std::mt19937& random_;
  policy::Usage usage_;
  std::map<Handle, std::shared_ptr<const policy::Demand>> waiting_;
  std::map<Handle, policy::Holding> held_;
  std::set<Handle> leaving_;  // deleted, and holding devices
  std::vector<Handle> gone_;  // deleted, and not any more
  std::deque<std::pair<Handle, News>> news_;
  int refused_ = 0;
};

// The same, whatever the ids of the CPUs.
bool IsSame(const policy::Topology& topology, const policy::Usage& a, const policy::Usage& b) {
  if (a.raw() != b.raw() || a.compute().memory != b.compute().memory) return false;
  if (topology.cpu_manager() == nullptr) return true;
  const auto& numa = topology.cpu_manager()->topology().numa_nodes();
  return std::all_of(numa.begin(), numa.end(), [&](const auto& node) {
    return node.cpus.CountAnd(a.compute().default_cpus) ==
           node.cpus.CountAnd(b.compute().default_cpus);
  });
}

bool SaysPossible(const NodeState& state, const policy::Usage& usage, bool someone_waits) {
  if (state.knowledge.settling || !state.exhaustive) return true;  // "cannot tell"
  if (!state.pending.empty()) {
    return std::any_of(state.now.begin(), state.now.end(),
                       [&](const auto& now) { return IsSame(*state.topology, now.usage, usage); });
  }
  if (someone_waits) return true;  // a kubelet that does not enforce: judged once they are in
  const auto& usages = state.knowledge.usages;
  return std::any_of(usages.begin(), usages.end(), [&](const policy::Usage& possible) {
    return IsSame(*state.topology, possible, usage);
  });
}

// One life of a node: a kubelet, and what is known of it.
struct Scene {
  Scene(const test::Machine& machine, unsigned seed)
      : random(seed),
        topology(test::Make(machine)),
        states(topology, {}),
        kubelet(topology, random) {}

  void Bind(std::shared_ptr<const policy::Demand> demand) {
    kubelet.Bind(states.AddWaiting(demand), demand);
  }
  void HearAll() {
    while (kubelet.Tell(states)) {
    }
  }

  std::mt19937 random;
  std::shared_ptr<const policy::Topology> topology;
  PossibleStates states;
  SimulatedKubelet kubelet;
};

// Lives of 60 steps each, one for each seed; returns how many Pods were refused in all. After every
// step that returns true the truth must be among the possible states; `judged` counts where these
// say more than "cannot tell".
template <typename Step>
int Live(const test::Machine& machine, unsigned seeds, int& judged, Step&& step) {
  int refused = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    Scene scene(machine, seed);
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(testing::Message() << machine.name << ", seed " << seed << ", step " << i);
      if (!step(scene)) continue;
      const NodeState state = scene.states.Describe();
      EXPECT_FALSE(state.knowledge.usages.empty());
      EXPECT_TRUE(SaysPossible(state, scene.kubelet.usage(), scene.kubelet.waiting() > 0));
      if (testing::Test::HasFailure()) return refused;
      if (!state.knowledge.settling) ++judged;
    }
    refused += scene.kubelet.refused();
  }
  return refused;
}

class AnyMachine : public ::testing::TestWithParam<test::Machine> {};

// Whoever binds Pods, whatever the kubelet makes of them: the truth is among what is possible.
TEST_P(AnyMachine, TheTruthIsAlwaysAmongThePossibleStates) {
  int judged = 0;
  const int refused = Live(GetParam(), 60, judged, [](Scene& scene) {
    switch (scene.random() % 5) {
      case 0:
      case 1:
        scene.Bind(test::RandomDemand(scene.random));
        break;
      case 2:
        scene.kubelet.AdmitOne();
        break;
      case 3:
        if (scene.random() % 2 == 0) scene.kubelet.FinishOne();
        break;
      default:
        scene.kubelet.Tell(scene.states);
    }
    if (scene.random() % 4 != 0) return false;
    scene.HearAll();
    return true;
  });
  // The test would mean little if the answer were always "cannot tell" or nothing ever clashed.
  EXPECT_GT(judged, 200);
  EXPECT_GT(refused, 10);
}

// The same with Pods that are deleted, and whose devices are free before anybody hears of it.
TEST_P(AnyMachine, TheTruthIsPossibleWhilePodsAreBeingDeleted) {
  int judged = 0;
  int left_unheard = 0;
  const bool enforces = policy::Enforces(GetParam().policy);
  Live(GetParam(), 60, judged, [&](Scene& scene) {
    switch (scene.random() % 6) {
      case 0:
        scene.Bind(test::RandomDemand(scene.random));
        break;
      case 1:
      case 2:
        scene.kubelet.AdmitOne();
        break;
      case 3:
        scene.kubelet.DeleteOne(scene.states);
        break;
      case 4:
        scene.kubelet.LeaveOne();
        break;
      default:
        scene.kubelet.TellWhoIsGone(scene.states);
    }
    scene.HearAll();
    if (scene.kubelet.unheard() == 0) return true;
    if (!scene.states.Describe().knowledge.settling) ++left_unheard;
    // A kubelet that does not enforce counts; there the devices count as held until the news.
    return enforces;
  });
  EXPECT_GT(judged, 200);
  if (enforces) {
    EXPECT_GT(left_unheard, 50);
  }
}

class AnyMachineWithManagers : public ::testing::TestWithParam<test::Machine> {};

// With books of CPUs and memory: the truth is possible, and a Pod that is let in when nobody waits
// is admitted.
TEST_P(AnyMachineWithManagers, WhatFitsIsAdmitted) {
  int judged = 0;
  int let_in = 0;
  int kept_out = 0;
  Live(GetParam(), 40, judged, [&](Scene& scene) {
    SimulatedKubelet& kubelet = scene.kubelet;
    switch (scene.random() % 6) {
      case 0:
      case 1: {
        const auto demand = test::RandomDemandWithCpus(scene.random);
        const bool fits = JudgeOnNode(scene.states.Describe(), *demand, nullptr).fits();
        (fits ? let_in : kept_out) += 1;
        if (fits && kubelet.waiting() == 0 && kubelet.unheard() == 0) {
          EXPECT_EQ(policy::Admit(*scene.topology, kubelet.usage(), *demand).verdict(),
                    policy::Verdict::kAdmitted);
        }
        // Others bind whatever they want.
        if (fits || scene.random() % 8 == 0) scene.Bind(demand);
        break;
      }
      case 2:
        kubelet.AdmitOne();
        break;
      case 3:
        if (scene.random() % 2 == 0) kubelet.FinishOne();
        break;
      case 4:
        if (scene.random() % 2 == 0) kubelet.DeleteOne(scene.states);
        break;
      default:
        kubelet.LeaveOne();
        kubelet.TellWhoIsGone(scene.states);
    }
    scene.HearAll();
    return true;
  });
  EXPECT_GT(judged, 200);
  EXPECT_GT(let_in, 50);
  EXPECT_GT(kept_out, 50);
}

INSTANTIATE_TEST_SUITE_P(Machines, AnyMachineWithManagers,
                         ::testing::ValuesIn(test::kMachinesWithManagers),
                         [](const auto& machine) { return std::string(machine.param.name); });

INSTANTIATE_TEST_SUITE_P(Machines, AnyMachine, ::testing::ValuesIn(test::kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

std::vector<policy::Usage> Usages(const PossibleStates& states) {
  return states.Describe().knowledge.usages;
}

TEST(PossibleStates, OrderDecidesAndANewsSettles) {
  // 4 + 4: three and two go on NUMA 0 and 1, whoever comes first gets NUMA 0.
  PossibleStates states(test::Make(test::kEven), {});
  const Handle three = states.AddWaiting(test::Want(3, 3));
  const Handle two = states.AddWaiting(test::Want(2, 2));
  EXPECT_EQ(Usages(states).size(), 2U);
  EXPECT_EQ(states.HeldBy(three).size(), 2U);
  states.ShowAdmitted(three);
  states.ShowAdmitted(two);
  EXPECT_EQ(Usages(states).size(), 2U) << "that both are in says nothing about the order";
  states.Remove(two, /*never_admitted=*/false);
  states.Remove(three, /*never_admitted=*/false);
  EXPECT_EQ(Usages(states), std::vector<policy::Usage>{policy::Usage(*test::Make(test::kEven))});
}

TEST(PossibleStates, APodThatWasSeenFirstIsKnown) {
  PossibleStates states(test::Make(test::kEven), {});
  states.ShowAdmitted(states.AddWaiting(test::Want(3, 3)));
  states.ShowAdmitted(states.AddWaiting(test::Want(2, 2)));
  EXPECT_EQ(Usages(states).size(), 1U);
}

TEST(PossibleStates, RoomOfAPodThatLeftIsFoundByThoseThatWait) {
  PossibleStates states(test::Make(test::kEven), {});
  const Handle first = states.AddWaiting(test::Want(4, 4));
  states.ShowAdmitted(first);
  const Handle second = states.AddWaiting(test::Want(4, 4));
  EXPECT_EQ(states.HeldBy(second).size(), 1U);
  states.Remove(first, /*never_admitted=*/false);
  // It may have been admitted before the first one left, or after.
  EXPECT_EQ(states.HeldBy(second).size(), 2U);
}

TEST(PossibleStates, ARefusedPodHoldsNothing) {
  PossibleStates states(test::Make(test::kEven), {});
  states.ShowAdmitted(states.AddWaiting(test::Want(4, 4)));
  states.ShowAdmitted(states.AddWaiting(test::Want(4, 4)));
  const std::vector<policy::Usage> full = Usages(states);
  const Handle third = states.AddWaiting(test::Want(1, 1));
  EXPECT_TRUE(states.Contradicts(third));
  EXPECT_EQ(Usages(states), full);
  states.Remove(third, /*never_admitted=*/true);
  EXPECT_EQ(Usages(states), full);
}

TEST(PossibleStates, APodThatCannotBeThereMakesTheNodeCautious) {
  PossibleStates states(test::Make(test::kEven), {});
  states.ShowAdmitted(states.AddWaiting(test::Want(3, 3)));
  states.ShowAdmitted(states.AddWaiting(test::Want(3, 3)));
  const Handle impossible = states.AddWaiting(test::Want(2, 2));
  states.ShowAdmitted(impossible);
  EXPECT_TRUE(states.Contradicts(impossible));
  // Three and three are certain; the last two can only be the rest, one on each side.
  const NodeState state = states.Describe();
  EXPECT_FALSE(state.knowledge.settling);
  ASSERT_EQ(state.knowledge.usages.size(), 1U);
  for (const std::int32_t taken : state.knowledge.usages[0].raw()) EXPECT_EQ(taken, 4);
}

TEST(PossibleStates, TooManyThatWaitMakeTheNodeSettle) {
  PossibleStates states(test::Make(test::kEven), {.max_states = 64, .max_unadmitted = 2});
  std::vector<Handle> pods;
  for (int i = 0; i < 4; ++i) pods.push_back(states.AddWaiting(test::Want(1, 1)));
  EXPECT_TRUE(states.Describe().knowledge.settling);
  for (const Handle pod : pods) states.ShowAdmitted(pod);
  EXPECT_FALSE(states.Describe().knowledge.settling);
}

TEST(PossibleStates, AKubeletThatDoesNotEnforceNeverSettles) {
  PossibleStates states(test::Make(test::kUnaligned), {.max_states = 8, .max_unadmitted = 2});
  for (int i = 0; i < 6; ++i) {
    states.AddWaiting(test::Want(1, 1));
    const NodeState state = states.Describe();
    EXPECT_FALSE(state.knowledge.settling);
    EXPECT_LE(state.knowledge.usages.size(), 8U);
    // However they are spread, as many are taken.
    for (const policy::Usage& usage : state.knowledge.usages) {
      int taken = 0;
      for (const std::int32_t count : usage.raw()) taken += count;
      EXPECT_EQ(taken, 2 * (i + 1));
    }
  }
}

TEST(PossibleStates, ARunningPodOfUnknownPlaceMayBeWhereItsKubeletPutsPods) {
  PossibleStates states(test::Make(test::kEven), {});
  const Handle pod = states.AddRunning(test::Want(2, 2), {});
  EXPECT_EQ(states.HeldBy(pod).size(), 2U) << "both on NUMA 0 or both on NUMA 1";
}

}  // namespace
}  // namespace numafit::cache
