#include "policy/cpu_manager/demand.h"

#include <gtest/gtest.h>

#include <vector>

namespace numafit::policy {
namespace {

using Kind = ContainerDemand::Kind;

CpuDemand Of(Kind kind, std::int64_t milli) {
  return {.kind = kind, .requests_cpu = true, .milli = milli};
}

TEST(GuaranteedCpus, OnlyWholeCpus) {
  EXPECT_EQ(GuaranteedCpus(Of(Kind::kApp, 2000)), 2);
  EXPECT_EQ(GuaranteedCpus(Of(Kind::kApp, 1999)), 0);
  EXPECT_EQ(GuaranteedCpus(Of(Kind::kApp, 500)), 0);
  EXPECT_EQ(GuaranteedCpus(Of(Kind::kApp, 0)), 0);
  EXPECT_EQ(GuaranteedCpus({.kind = Kind::kApp, .requests_cpu = false, .milli = 1000}), 0);
  EXPECT_EQ(GuaranteedCpus(Of(Kind::kApp, 9'000'000'000'000'000'000)), 9'000'000'000'000'000);
}

std::int64_t Pod(std::vector<CpuDemand> containers) {
  return PodGuaranteedCpus(containers);
}

TEST(PodGuaranteedCpus, AppsAndSidecarsAreAddedUp) {
  EXPECT_EQ(Pod({}), 0);
  EXPECT_EQ(Pod({Of(Kind::kApp, 2000), Of(Kind::kApp, 1000)}), 3);
  EXPECT_EQ(Pod({Of(Kind::kSidecar, 1000), Of(Kind::kApp, 2000)}), 3);
}

TEST(PodGuaranteedCpus, ALargerInitContainerCounts) {
  EXPECT_EQ(Pod({Of(Kind::kInit, 4000), Of(Kind::kApp, 2000)}), 4);
  EXPECT_EQ(Pod({Of(Kind::kInit, 1000), Of(Kind::kInit, 2000), Of(Kind::kApp, 2000)}), 2);
}

TEST(PodGuaranteedCpus, AnInitContainerRunsBesideTheSidecarsBeforeItOnly) {
  EXPECT_EQ(Pod({Of(Kind::kSidecar, 3000), Of(Kind::kInit, 4000), Of(Kind::kApp, 1000)}), 7);
  EXPECT_EQ(Pod({Of(Kind::kInit, 4000), Of(Kind::kSidecar, 3000), Of(Kind::kApp, 1000)}), 4);
}

TEST(PodGuaranteedCpus, FractionsAreNotCounted) {
  EXPECT_EQ(Pod({Of(Kind::kApp, 1500), Of(Kind::kApp, 1500)}), 0);
  EXPECT_EQ(Pod({Of(Kind::kApp, 1500), Of(Kind::kApp, 2000)}), 2);
}

}  // namespace
}  // namespace numafit::policy
