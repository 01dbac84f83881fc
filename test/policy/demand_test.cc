#include "policy/demand.h"

#include <gtest/gtest.h>

#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::kGpu;
using testing::kNic;
using testing::PodOf;

TEST(Demand, TheFingerprintForgetsContainerNamesAndNothingElse) {
  const Demand base = PodOf().Init({{kGpu, 1}}).App({{kGpu, 2}});
  Demand named = base;
  named.containers[0].name = "warm-up";
  EXPECT_EQ(named.Fingerprint(), base.Fingerprint());
  Demand other = base;
  other.containers[0].kind = ContainerDemand::Kind::kSidecar;
  EXPECT_NE(other.Fingerprint(), base.Fingerprint());
  other = base;
  other.containers[1].devices[kNic] = 0;
  EXPECT_NE(other.Fingerprint(), base.Fingerprint());
  other = base;
  other.alignment = AlignmentNeed::kGuaranteed;
  EXPECT_NE(other.Fingerprint(), base.Fingerprint());
  other = base;
  other.distinct_endpoints = true;
  EXPECT_NE(other.Fingerprint(), base.Fingerprint());
  other = base;
  other.endpoints.clear();
  EXPECT_NE(other.Fingerprint(), base.Fingerprint());
}

TEST(Demand, TheFingerprintHasWhatThePodAsksForAsAWhole) {
  const Demand base = PodOf().App({}).With(1000, 1).Whole(2000, 2);
  Demand other = base;
  other.pod_requests["cpu"] = 3000;
  EXPECT_NE(other.Fingerprint(), base.Fingerprint());
  other = base;
  other.containers[0].requests_equal_limits = true;
  EXPECT_NE(other.Fingerprint(), base.Fingerprint());
}

TEST(Demand, KnowsThatItAsksForNoDevice) {
  EXPECT_TRUE(static_cast<const Demand&>(PodOf().App({})).AsksForNoDevice());
  EXPECT_FALSE(static_cast<const Demand&>(PodOf().App({}).App({{kGpu, 0}})).AsksForNoDevice());
}

}  // namespace
}  // namespace numafit::policy
