#include "cache/demand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/pod_json.h"

namespace numafit::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Kind = policy::ContainerDemand::Kind;

policy::Demand FromJson(std::string_view json, const DemandOptions& options = {}) {
  const absl::StatusOr<api::Pod> pod = api::PodFromJson(json);
  EXPECT_TRUE(pod.ok()) << pod.status();
  const absl::StatusOr<policy::Demand> demand =
      DemandFromPod(*pod, api::ResourceClasses(), options);
  EXPECT_TRUE(demand.ok()) << demand.status();
  return demand.ok() ? *demand : policy::Demand{};
}

std::string ErrorOf(std::string_view json) {
  const absl::StatusOr<api::Pod> pod = api::PodFromJson(json);
  EXPECT_TRUE(pod.ok()) << pod.status();
  return std::string(DemandFromPod(*pod, api::ResourceClasses(), {}).status().message());
}

TEST(Demand, KeepsTheKubeletsOrderOfContainers) {
  const policy::Demand demand = FromJson(R"({"spec": {
    "initContainers": [
      {"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
      {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"a/b": "2"}}}],
    "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "0", "cpu": "4"}}}]}})");
  ASSERT_EQ(demand.containers.size(), 3U);
  EXPECT_EQ(demand.containers[0].kind, Kind::kInit);
  EXPECT_EQ(demand.containers[1].kind, Kind::kSidecar);
  EXPECT_EQ(demand.containers[2].kind, Kind::kApp);
  EXPECT_THAT(demand.containers[1].devices, ElementsAre(Pair("a/b", 2)));
  // Zero is kept: the kubelet makes hints of it. CPU is no device.
  EXPECT_THAT(demand.containers[2].devices, ElementsAre(Pair("nvidia.com/gpu", 0)));
}

TEST(Demand, TellsAcceleratorsFromEndpoints) {
  const policy::Demand demand = FromJson(R"({"spec": {"containers": [{"name": "c", "resources":
    {"limits": {"nvidia.com/gpu": "1", "device.gpustack.ai/rdma": "1", "rdma/pool_a": "1",
                "device.gpustack.ai/rdma.shared": "1", "example.com/disk": "1",
                "hugepages-2Mi": "1Gi"}}}]}})");
  EXPECT_THAT(demand.accelerators, ElementsAre("nvidia.com/gpu"));
  EXPECT_THAT(demand.endpoints, ElementsAre("device.gpustack.ai/rdma",
                                            "device.gpustack.ai/rdma.shared", "rdma/pool_a"));
  EXPECT_THAT(demand.shared_endpoints,
              ElementsAre("device.gpustack.ai/rdma.shared", "rdma/pool_a"));
  EXPECT_EQ(demand.containers[0].devices.count("example.com/disk"), 1U);
  EXPECT_EQ(demand.containers[0].devices.count("hugepages-2Mi"), 0U);
}

struct QosCase {
  std::string name;
  std::string pod;
  policy::QosClass qos;
};
class Qos : public ::testing::TestWithParam<QosCase> {};
TEST_P(Qos, IsComputedAsTheKubeletDoes) {
  EXPECT_EQ(FromJson(GetParam().pod).qos, GetParam().qos);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Qos,
    ::testing::Values(
        QosCase{"NothingAskedIsBestEffort", R"({"spec":{"containers":[{"name":"c"}]}})",
                policy::QosClass::kBestEffort},
        QosCase{"DevicesAloneAreBestEffort",
                R"({"spec":{"containers":[{"name":"c","resources":{"limits":{"a/b":"1"}}}]}})",
                policy::QosClass::kBestEffort},
        QosCase{
            "EqualCpuAndMemoryAreGuaranteed",
            R"({"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1Gi"},
                   "requests":{"cpu":"1","memory":"1Gi"}}}]}})",
            policy::QosClass::kGuaranteed},
        QosCase{
            "MissingRequestsTakeTheLimit",
            R"({"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}})",
            policy::QosClass::kGuaranteed},
        QosCase{
            "OneContainerWithoutLimitsIsBurstable",
            R"({"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1Gi"}}},
                   {"name":"d"}]}})",
            policy::QosClass::kBurstable},
        QosCase{"AnInitContainerCounts",
                R"({"spec":{"initContainers":[{"name":"i"}],"containers":[{"name":"c",
                   "resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}})",
                policy::QosClass::kBurstable},
        QosCase{
            "LowerRequestIsBurstable",
            R"({"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Gi"},
                   "requests":{"cpu":"1","memory":"1Gi"}}}]}})",
            policy::QosClass::kBurstable},
        QosCase{"TheStatusOutranksTheSpec",
                R"({"spec":{"containers":[{"name":"c"}]},"status":{"qosClass":"Guaranteed"}})",
                policy::QosClass::kGuaranteed}),
    [](const auto& row) { return row.param.name; });

TEST(Demand, ReadsTheAnnotations) {
  const policy::Demand demand = FromJson(R"({"metadata": {"annotations":
    {"numafit.io/alignment": "guaranteed", "numafit.io/distinct-endpoints": "true"}},
    "spec": {"containers": []}})");
  EXPECT_EQ(demand.alignment, policy::AlignmentNeed::kGuaranteed);
  EXPECT_TRUE(demand.distinct_endpoints);
  EXPECT_THAT(demand.accelerators, IsEmpty());
}

TEST(Demand, TheNamespaceHasADefaultOfItsOwn) {
  DemandOptions options;
  options.namespace_alignment["batch"] = policy::AlignmentNeed::kPreferred;
  const auto in = [&](const std::string& name_space) {
    return FromJson(R"({"metadata":{"namespace":")" + name_space + R"("},"spec":{}})", options)
        .alignment;
  };
  EXPECT_EQ(in("batch"), policy::AlignmentNeed::kPreferred);
  EXPECT_EQ(in("other"), policy::AlignmentNeed::kFit);
}

TEST(Demand, NamesWhatItCannotRead) {
  EXPECT_THAT(
      ErrorOf(R"({"metadata":{"annotations":{"numafit.io/alignment":"always"}}})"),
      HasSubstr("numafit.io/alignment is \"always\", expected guaranteed, fit or preferred"));
  EXPECT_THAT(ErrorOf(R"({"metadata":{"annotations":{"numafit.io/distinct-endpoints":"yes"}}})"),
              HasSubstr("numafit.io/distinct-endpoints is \"yes\""));
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[{"name":"c","resources":{"limits":
              {"nvidia.com/gpu":"500m"}}}]}})"),
              HasSubstr("container c: resources.limits.nvidia.com/gpu is 500m"));
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[{"name":"c","resources":{"limits":
              {"nvidia.com/gpu":"-1"}}}]}})"),
              HasSubstr("is -1, expected a whole number of devices"));
}

}  // namespace
}  // namespace numafit::cache
