#include "policy/cpu_manager/options.h"

#include <gtest/gtest.h>

#include "test/policy/cpu_manager/cpu_machines.h"

namespace numafit::policy {
namespace {

using testing::TopologyOf;
using testing::TwoSocketsEach;
using testing::Uniform;

constexpr KubeletVersion k134{1, 34};
constexpr KubeletVersion k135{1, 35};
constexpr KubeletVersion k136{1, 36};
using Map = std::map<std::string, std::string>;
using Gates = std::map<std::string, bool>;
const Gates kAlpha = {{"CPUManagerPolicyAlphaOptions", true}};
const Gates kNoBeta = {{"CPUManagerPolicyBetaOptions", false}};

bool Starts(const Map& options, KubeletVersion version, const Gates& gates = {}) {
  return CpuManagerOptions::Parse(options, version, gates).ok();
}

TEST(CpuManagerOptions, ReadsEachOption) {
  const auto options = CpuManagerOptions::Parse({{"full-pcpus-only", "true"},
                                                 {"align-by-socket", "1"},
                                                 {"distribute-cpus-across-numa", "T"},
                                                 {"strict-cpu-reservation", "True"}},
                                                k136, kAlpha);
  ASSERT_TRUE(options.ok());
  CpuManagerOptions want;
  want.full_pcpus_only = want.align_by_socket = want.distribute_cpus_across_numa =
      want.strict_cpu_reservation = true;
  EXPECT_EQ(*options, want);
  EXPECT_TRUE(CpuManagerOptions::Parse({{"distribute-cpus-across-cores", "true"}}, k136, kAlpha)
                  ->distribute_cpus_across_cores);
  EXPECT_TRUE(CpuManagerOptions::Parse({{"prefer-align-cpus-by-uncorecache", "true"}}, k136, {})
                  ->prefer_align_cpus_by_uncorecache);
}

TEST(CpuManagerOptions, ErrorsNameOptionAndValue) {
  const absl::Status status =
      CpuManagerOptions::Parse({{"full-pcpus-only", "yes"}}, k136, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("full-pcpus-only=yes"), absl::string_view::npos);
  EXPECT_FALSE(Starts({{"full-pcpus", "true"}}, k136));
  EXPECT_FALSE(Starts({{"full-pcpus-only", ""}}, k136));
}

TEST(CpuManagerOptions, AlphaOptionsNeedTheirGate) {
  for (const char* name : {"align-by-socket", "distribute-cpus-across-cores"}) {
    // Also when it is switched off.
    EXPECT_FALSE(Starts({{name, "false"}}, k136)) << name;
    EXPECT_TRUE(Starts({{name, "true"}}, k136, kAlpha)) << name;
    EXPECT_TRUE(Starts({{name, "true"}}, k136, {{"AllAlpha", true}})) << name;
    EXPECT_FALSE(Starts({{name, "true"}}, k136,
                        {{"AllAlpha", true}, {"CPUManagerPolicyAlphaOptions", false}}))
        << name;
  }
}

TEST(CpuManagerOptions, BetaOptionsCanBeSwitchedOff) {
  EXPECT_TRUE(Starts({{"distribute-cpus-across-numa", "true"}}, k136));
  EXPECT_FALSE(Starts({{"distribute-cpus-across-numa", "true"}}, k136, kNoBeta));
  EXPECT_FALSE(Starts({{"distribute-cpus-across-numa", "true"}}, k136, {{"AllBeta", false}}));
  EXPECT_TRUE(Starts({{"full-pcpus-only", "true"}}, k134, kNoBeta));
}

TEST(CpuManagerOptions, WhatWasBetaOnce) {
  EXPECT_FALSE(Starts({{"strict-cpu-reservation", "true"}}, k134, kNoBeta));
  EXPECT_TRUE(Starts({{"strict-cpu-reservation", "true"}}, k135, kNoBeta));
  EXPECT_FALSE(Starts({{"prefer-align-cpus-by-uncorecache", "true"}}, k135, kNoBeta));
  EXPECT_TRUE(Starts({{"prefer-align-cpus-by-uncorecache", "true"}}, k136, kNoBeta));
}

TEST(CpuManagerOptions, SomeExcludeEachOther) {
  const char* const cores = "distribute-cpus-across-cores";
  const char* const numa = "distribute-cpus-across-numa";
  const char* const uncore = "prefer-align-cpus-by-uncorecache";
  EXPECT_FALSE(Starts({{cores, "true"}, {"full-pcpus-only", "true"}}, k136, kAlpha));
  EXPECT_FALSE(Starts({{cores, "true"}, {numa, "true"}}, k136, kAlpha));
  EXPECT_FALSE(Starts({{cores, "true"}, {uncore, "true"}}, k136, kAlpha));
  EXPECT_FALSE(Starts({{numa, "true"}, {uncore, "true"}}, k136, kAlpha));
  EXPECT_TRUE(Starts({{numa, "true"}, {uncore, "false"}}, k136, kAlpha));
  EXPECT_TRUE(Starts({{numa, "true"}, {"full-pcpus-only", "true"}, {"align-by-socket", "true"}},
                     k136, kAlpha));
}

TEST(CpuManagerOptions, AlignBySocketDependsOnPolicyAndMachine) {
  CpuManagerOptions options;
  options.align_by_socket = true;
  const CpuTopology two_per_socket = TopologyOf(Uniform(4, 2, 1, 2));
  EXPECT_TRUE(options.Check(two_per_socket, TopologyPolicy::kRestricted).ok());
  EXPECT_TRUE(options.Check(two_per_socket, TopologyPolicy::kNone).ok());
  EXPECT_FALSE(options.Check(two_per_socket, TopologyPolicy::kSingleNumaNode).ok());
  EXPECT_TRUE(options.Check(TopologyOf(Uniform(2, 2, 1, 1)), TopologyPolicy::kRestricted).ok());
  EXPECT_FALSE(options.Check(TopologyOf(TwoSocketsEach(2, 4)), TopologyPolicy::kRestricted).ok());
  EXPECT_TRUE(CpuManagerOptions()
                  .Check(TopologyOf(TwoSocketsEach(2, 4)), TopologyPolicy::kSingleNumaNode)
                  .ok());
}

}  // namespace
}  // namespace numafit::policy
