#include "policy/cpu_manager/static_policy.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "test/policy/cpu_manager/cpu_machines.h"

namespace numafit::policy {
namespace {

using Kind = ResourceHints::Kind;
using Outcome = CpuAllocation::Outcome;
using testing::Cpus;
using testing::TopologyOf;
using testing::Uniform;

NumaMask MaskOf(std::initializer_list<int> ids) {
  NumaMask mask;
  for (const int id : ids) mask.add(id);
  return mask;
}

KubeletSettings Settings(std::vector<std::string> options, std::vector<int> reserved = {0},
                         int minor = 36) {
  KubeletSettings kubelet;
  kubelet.version = {1, minor};
  kubelet.policy = TopologyPolicy::kRestricted;
  kubelet.cpu_policy = CpuPolicy::kStatic;
  for (const std::string& option : options) kubelet.cpu_options[option] = "true";
  kubelet.feature_gates["CPUManagerPolicyAlphaOptions"] = true;
  kubelet.reserved_cpus = std::move(reserved);
  return kubelet;
}
CpuManager Manager(std::vector<CpuInfo> cpus, const KubeletSettings& kubelet) {
  return *CpuManager::Create(TopologyOf(std::move(cpus)), kubelet);
}
absl::Status Start(const KubeletSettings& kubelet) {
  return CpuManager::Create(TopologyOf(Uniform(2, 4, 2, 1)), kubelet).status();
}
// What a container gets on an empty machine.
std::string Given(const CpuManager& manager, std::int64_t cpus,
                  std::optional<NumaMask> affinity = std::nullopt) {
  CpuSet defaults = manager.InitialDefaultCpus();
  const CpuAllocation allocation = manager.Allocate(defaults, cpus, affinity, {});
  EXPECT_EQ(allocation.outcome, Outcome::kAllocated);
  EXPECT_EQ(defaults, manager.InitialDefaultCpus() - allocation.cpus);
  return FormatCpuSet(allocation.cpus);
}

TEST(CpuManagerStart, ReservesWholeCoresFromTheLowestOn) {
  KubeletSettings kubelet = Settings({}, {});
  kubelet.reserved_cpu_milli = 1500;  // two
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), kubelet);
  EXPECT_EQ(FormatCpuSet(manager.reserved()), "0,8");
  EXPECT_EQ(FormatCpuSet(manager.InitialDefaultCpus()), "0-15");
}

TEST(CpuManagerStart, StrictReservationTakesThemOutOfTheDefaultSet) {
  const CpuManager manager =
      Manager(Uniform(2, 4, 2, 1), Settings({"strict-cpu-reservation"}, {0, 4}));
  EXPECT_EQ(FormatCpuSet(manager.InitialDefaultCpus()), "1-3,5-15");
}

TEST(CpuManagerStart, RefusesReservationsThatDoNotAddUp) {
  EXPECT_TRUE(Start(Settings({}, {0, 4, 4})).ok());
  EXPECT_FALSE(Start(Settings({}, {})).ok());
  EXPECT_FALSE(Start(Settings({}, {16})).ok());
  EXPECT_FALSE(Start(Settings({}, {-1})).ok());
  EXPECT_FALSE(Start(Settings({}, {5000})).ok());
  KubeletSettings kubelet = Settings({}, {0, 4});
  kubelet.reserved_cpu_milli = 1001;
  EXPECT_TRUE(Start(kubelet).ok());
  kubelet.reserved_cpu_milli = 1000;
  EXPECT_FALSE(Start(kubelet).ok());
  kubelet = Settings({}, {});
  kubelet.reserved_cpu_milli = 16'000;
  EXPECT_TRUE(Start(kubelet).ok());
  kubelet.reserved_cpu_milli = 16'001;
  EXPECT_FALSE(Start(kubelet).ok());
  kubelet.reserved_cpu_milli = INT64_MAX;
  EXPECT_FALSE(Start(kubelet).ok());
  kubelet.reserved_cpu_milli = -1000;
  EXPECT_FALSE(Start(kubelet).ok());
}

TEST(CpuManagerStart, RefusesOptions) {
  EXPECT_FALSE(Start(Settings({"no-such-option"})).ok());
  KubeletSettings kubelet = Settings({"align-by-socket"});
  EXPECT_TRUE(Start(kubelet).ok());
  kubelet.policy = TopologyPolicy::kSingleNumaNode;
  EXPECT_FALSE(Start(kubelet).ok());
}

TEST(CpuHints, ReservedCpusAreNotThere) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}, {0, 8}));
  const CpuSet& all = manager.InitialDefaultCpus();
  EXPECT_EQ(manager.Hints(all, 0, {}).kind, Kind::kDontCare);
  const ResourceHints seven = manager.Hints(all, 7, {});
  EXPECT_EQ(seven.kind, Kind::kMasks);
  EXPECT_FALSE(seven.Contains(MaskOf({0})));
  EXPECT_TRUE(seven.Contains(MaskOf({1})));
  EXPECT_TRUE(seven.Contains(MaskOf({0, 1})));
  // The width counts reserved and allocated CPUs.
  EXPECT_EQ(seven.preferred_width, 1);
  EXPECT_FALSE(seven.Prefers(MaskOf({0, 1})));
  EXPECT_EQ(manager.Hints(all, 14, {}).preferred_width, 2);
  EXPECT_EQ(manager.Hints(all, 15, {}).kind, Kind::kImpossible);
}

TEST(CpuHints, OutlandishRequests) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}));
  EXPECT_EQ(manager.Hints(manager.InitialDefaultCpus(), INT64_MAX, {}).kind, Kind::kImpossible);
  const ResourceHints negative = manager.Hints({}, -3, {});
  EXPECT_EQ(negative.kind, Kind::kMasks);
  EXPECT_TRUE(negative.Contains(MaskOf({1})));
  CpuSet defaults = manager.InitialDefaultCpus();
  EXPECT_EQ(manager.Allocate(defaults, -3, MaskOf({1}), {}).outcome, Outcome::kAllocated);
  EXPECT_EQ(manager.Allocate(defaults, INT64_MAX, MaskOf({1}), {}).outcome,
            Outcome::kUnexpectedAdmissionError);
  EXPECT_EQ(defaults, manager.InitialDefaultCpus());
}

TEST(CpuHints, ReusableCpusMustBeInEveryHint) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}));
  const ResourceHints hints = manager.Hints(Cpus("0-6,8-14"), 2, Cpus("7,15"));
  EXPECT_FALSE(hints.Contains(MaskOf({0})));
  EXPECT_TRUE(hints.Contains(MaskOf({1})));
  // They count too.
  EXPECT_EQ(manager.Hints(Cpus("0,1"), 3, Cpus("7,15")).kind, Kind::kMasks);
  EXPECT_EQ(manager.Hints(Cpus("0,1"), 4, Cpus("7,15")).kind, Kind::kImpossible);
}

TEST(CpuHints, OfCpusThatAreHeldAlready) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}));
  const ResourceHints hints = manager.AllocatedHints(Cpus("4,12"), 2);
  EXPECT_FALSE(hints.Contains(MaskOf({0})));
  EXPECT_TRUE(hints.Contains(MaskOf({1})));
  EXPECT_EQ(manager.AllocatedHints(Cpus("4,12"), 3).kind, Kind::kImpossible);
  EXPECT_EQ(manager.AllocatedHints(Cpus("4,12"), 0).kind, Kind::kDontCare);
}

TEST(CpuHints, AlignBySocketPrefersHintsOfOneSocket) {
  const CpuManager manager = Manager(Uniform(4, 2, 2, 2), Settings({"align-by-socket"}));
  const ResourceHints hints = manager.Hints(manager.InitialDefaultCpus(), 2, {});
  EXPECT_TRUE(hints.Prefers(MaskOf({0})));
  EXPECT_TRUE(hints.Prefers(MaskOf({0, 1})));
  EXPECT_FALSE(hints.Prefers(MaskOf({1, 2})));
  // Three NUMA nodes' worth is two sockets' worth.
  EXPECT_TRUE(manager.Hints(manager.InitialDefaultCpus(), 9, {}).Prefers(MaskOf({0, 1, 2})));
  EXPECT_TRUE(manager.Hints(manager.InitialDefaultCpus(), 9, {}).Prefers(MaskOf({0, 2})));
}

TEST(CpuHints, ManyNumaNodesTakeTheKubeletMinutes) {
  EXPECT_TRUE(Manager(Uniform(20, 1, 1, 1), Settings({})).TractableHints());
  EXPECT_FALSE(Manager(Uniform(21, 1, 1, 1), Settings({})).TractableHints());
}

TEST(CpuAllocate, TheAffinityFirstThenTheRest) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}));
  EXPECT_EQ(Given(manager, 2), "1,9");
  EXPECT_EQ(Given(manager, 2, MaskOf({1})), "4,12");
  EXPECT_EQ(Given(manager, 10, MaskOf({1})), "1,4-7,9,12-15");
  // NUMA nodes that the machine has not, or without CPUs.
  EXPECT_EQ(Given(manager, 2, MaskOf({40})), "1,9");
  EXPECT_EQ(Given(manager, 0, MaskOf({1})), "");
}

TEST(CpuAllocate, AlignBySocketWidensTheAffinity) {
  EXPECT_EQ(Given(Manager(Uniform(4, 2, 2, 2), Settings({}, {0})), 2, MaskOf({1})), "2,10");
  EXPECT_EQ(Given(Manager(Uniform(4, 2, 2, 2), Settings({"align-by-socket"}, {0})), 2, MaskOf({1})),
            "1,9");
}

TEST(CpuAllocate, TooFewCpus) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}, {0}));
  CpuSet defaults = Cpus("0,1,9");
  const CpuAllocation allocation = manager.Allocate(defaults, 3, std::nullopt, {});
  EXPECT_EQ(allocation.outcome, Outcome::kUnexpectedAdmissionError);
  EXPECT_EQ(allocation.failure, TakeFailure::kNotEnough);
  EXPECT_EQ(FormatCpuSet(defaults), "0-1,9");
}

TEST(CpuAllocate, FullPcpusOnly) {
  // CPU 0 is reserved, so its sibling 8 does not count.
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({"full-pcpus-only"}, {0}));
  CpuSet defaults = manager.InitialDefaultCpus();
  EXPECT_EQ(manager.Allocate(defaults, 3, std::nullopt, {}).outcome, Outcome::kSmtAlignmentError);
  EXPECT_EQ(manager.Allocate(defaults, 16, std::nullopt, {}).outcome, Outcome::kSmtAlignmentError);
  EXPECT_EQ(manager.Allocate(defaults, INT64_MAX - 1, std::nullopt, {}).outcome,
            Outcome::kSmtAlignmentError);
  EXPECT_EQ(FormatCpuSet(manager.Allocate(defaults, 14, std::nullopt, {}).cpus), "1-7,9-15");
  EXPECT_EQ(FormatCpuSet(defaults), "0,8");
  // What init containers leave does not count for the check.
  EXPECT_EQ(manager.Allocate(defaults, 2, std::nullopt, Cpus("1,9")).outcome,
            Outcome::kSmtAlignmentError);
}

TEST(CpuAllocate, AnInitContainersCpusAreUsedAgain) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}, {0}));
  CpuSet defaults = manager.InitialDefaultCpus();
  CpuSet reusable;
  const CpuSet init = manager.Allocate(defaults, 4, MaskOf({1}), reusable).cpus;
  UpdateReusableCpus(reusable, init, /*is_init_container=*/true);
  EXPECT_EQ(FormatCpuSet(reusable), "4-5,12-13");
  const CpuSet app = manager.Allocate(defaults, 2, MaskOf({1}), reusable).cpus;
  EXPECT_EQ(FormatCpuSet(app), "4,12");
  UpdateReusableCpus(reusable, app, /*is_init_container=*/false);
  EXPECT_EQ(FormatCpuSet(reusable), "5,13");
  // The init container's leftovers stay taken.
  EXPECT_EQ(FormatCpuSet(defaults), "0-3,6-11,14-15");
  ReleaseCpus(defaults, init, app);
  EXPECT_EQ(FormatCpuSet(defaults), "0-3,5-11,13-15");
  ReleaseCpus(defaults, app, {});
  EXPECT_EQ(defaults, manager.InitialDefaultCpus());
}

// A reserved CPU on each of four NUMA nodes breaks a core there. Shares of four leave three CPUs
// per NUMA node and six to give: two NUMA nodes have six, but only four in whole cores.
TEST(CpuAllocate, AnEndlessSearchIsNotWaitedFor) {
  const CpuManager manager =
      Manager(Uniform(4, 4, 2, 1),
              Settings({"full-pcpus-only", "distribute-cpus-across-numa"}, {0, 4, 8, 12}));
  CpuSet defaults = manager.InitialDefaultCpus();
  const CpuAllocation allocation = manager.Allocate(defaults, 22, std::nullopt, {});
  EXPECT_EQ(allocation.outcome, Outcome::kIntractable);
  EXPECT_EQ(allocation.failure, TakeFailure::kEndless);
  EXPECT_EQ(defaults, manager.InitialDefaultCpus());
  EXPECT_EQ(Given(manager, 20), "1-3,5-7,9-10,13-14,17-19,21-23,25-26,29-30");
}

TEST(CpuAllocate, WhatIsHeldIsCheckedAgainBefore137) {
  const CpuSet few = Cpus("0,8");
  const auto check = [&](int minor) {
    return Manager(Uniform(2, 4, 2, 1), Settings({"full-pcpus-only"}, {0}, minor))
        .CheckAllocated(few, 2);
  };
  EXPECT_EQ(check(34), Outcome::kSmtAlignmentError);
  EXPECT_EQ(check(36), Outcome::kSmtAlignmentError);
  EXPECT_EQ(check(37), Outcome::kAllocated);
  EXPECT_EQ(Manager(Uniform(2, 4, 2, 1), Settings({})).CheckAllocated(few, 3), Outcome::kAllocated);
}

TEST(CpuState, IsCheckedWhenTheKubeletStarts) {
  const CpuManager manager = Manager(Uniform(2, 4, 2, 1), Settings({}, {0}));
  const auto ok = [](const CpuManager& judge, std::string_view defaults,
                     const std::vector<CpuSet>& held) {
    return judge.CheckState(Cpus(defaults), held).ok();
  };
  EXPECT_TRUE(ok(manager, "", {}));
  EXPECT_TRUE(ok(manager, "0-15", {}));
  EXPECT_TRUE(ok(manager, "0-7", {Cpus("8-12"), Cpus("12-15")}));
  EXPECT_FALSE(ok(manager, "", {Cpus("0-15")}));
  EXPECT_FALSE(ok(manager, "1-15", {Cpus("0")}));
  EXPECT_FALSE(ok(manager, "0-7", {Cpus("7-15")}));
  EXPECT_FALSE(ok(manager, "0-7", {Cpus("8-14")}));
  EXPECT_FALSE(ok(manager, "0-16", {}));
  const CpuManager strict = Manager(Uniform(2, 4, 2, 1), Settings({"strict-cpu-reservation"}, {0}));
  EXPECT_TRUE(ok(strict, "1-15", {}));
  EXPECT_FALSE(ok(strict, "0-15", {}));
}

}  // namespace
}  // namespace numafit::policy
