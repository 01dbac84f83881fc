#include "policy/predicates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace numafit::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Kind = ContainerDemand::Kind;

constexpr const char* kGpu = "nvidia.com/gpu";

PodRequestSpec App(ResourceAmounts requests) {
  PodRequestSpec pod;
  pod.containers.push_back({Kind::kApp, std::move(requests)});
  return pod;
}

// A node with room for four CPUs, 1,000 bytes, two GPUs and two Pods.
NodeCounts Node() {
  NodeCounts node;
  node.allocatable = {{"cpu", 4000}, {"memory", 1000}, {kGpu, 2}, {"pods", 2}};
  return node;
}

TEST(EffectiveRequests, IsTheLargerOfRunningAndStarting) {
  PodRequestSpec pod;
  pod.containers = {{Kind::kInit, {{"cpu", 3000}, {"memory", 1}}},
                    {Kind::kSidecar, {{"cpu", 1000}}},
                    {Kind::kInit, {{"cpu", 2500}, {"a.b/c", 1000}}},
                    {Kind::kApp, {{"cpu", 2000}}},
                    {Kind::kApp, {{"memory", 5}}}};
  EXPECT_THAT(EffectiveRequests(pod),
              ElementsAre(Pair("a.b/c", 1000), Pair("cpu", 3500), Pair("memory", 5)));
}

TEST(EffectiveRequests, PodLevelRequestsReplaceTheSumAndOverheadComesOnTop) {
  PodRequestSpec pod = App({{"cpu", 500}, {"ephemeral-storage", 7}, {kGpu, 1000}});
  pod.pod_level = {{"cpu", 2000}, {"hugepages-2Mi", 9}, {kGpu, 8000}};
  pod.overhead = {{"cpu", 250}, {"memory", 3}};
  EXPECT_THAT(EffectiveRequests(pod),
              ElementsAre(Pair("cpu", 2250), Pair("ephemeral-storage", 7), Pair("hugepages-2Mi", 9),
                          Pair("memory", 3), Pair(kGpu, 1000)));
}

TEST(ToUnits, RoundsUpWholeUnitsAndKeepsThousandthsOfCpus) {
  EXPECT_THAT(ToUnits({{"cpu", 1}, {"memory", 1001}, {kGpu, 2000}}),
              ElementsAre(Pair("cpu", 1), Pair("memory", 2), Pair(kGpu, 2)));
}

struct Case {
  const char* name;
  PodRequestSpec pod;
  NodeCounts node;
  std::vector<std::string> reasons;
};

NodeCounts With(NodeCounts node, const PodRequestSpec& other) {
  node.Add(other);
  return node;
}
NodeCounts Given(NodeCounts node, ResourceUnits devices) {
  node.devices_given = std::move(devices);
  return node;
}
NodeCounts Of(ResourceUnits allocatable) {
  NodeCounts node;
  node.allocatable = std::move(allocatable);
  return node;
}

TEST(OutOfResource, NamesWhatTheKubeletNames) {
  const ResourceAmounts nothing;
  const Case cases[] = {
      {"what is left suffices to the last unit",
       App({{"cpu", 1000}, {"memory", 400'000}, {kGpu, 1000}}),
       With(Node(), App({{"cpu", 3000}, {"memory", 600'000}, {kGpu, 1000}})),
       {}},
      {"a thousandth of a CPU too much", App({{"cpu", 4001}}), Node(), {"OutOfcpu"}},
      {"part of a byte is a byte", App({{"memory", 1'000'001}}), Node(), {"OutOfmemory"}},
      {"CPU comes before memory",
       App({{"memory", 2'000'000}, {"cpu", 5000}, {kGpu, 9000}}),
       Node(),
       {"OutOfcpu"}},
      {"memory comes before devices",
       App({{"memory", 2'000'000}, {kGpu, 9000}}),
       Node(),
       {"OutOfmemory"}},
      {"a node that reports no storage has none",
       App({{"ephemeral-storage", 1000}}),
       Node(),
       {"OutOfephemeral-storage"}},
      {"Pods are counted first",
       App({{"cpu", 9000}}),
       With(With(Node(), App(nothing)), App(nothing)),
       {"OutOfpods"}},
      {"a Pod that asks for nothing is a Pod",
       App(nothing),
       With(With(Node(), App(nothing)), App(nothing)),
       {"OutOfpods"}},
      {"a node without a number of Pods takes none", App(nothing), Of({}), {"OutOfpods"}},
      {"zero is not short even on a node that has given out too much",
       App({{"cpu", 0}, {kGpu, 0}}),
       With(Node(), App({{"cpu", 9000}, {kGpu, 5000}})),
       {}},
      {"devices", App({{kGpu, 3000}}), Node(), {std::string("OutOf") + kGpu}},
      {"an extended resource that the node has not is dropped", App({{"a.b/c", 1000}}), Node(), {}},
      {"one that it has none of is not",
       App({{"a.b/c", 1000}}),
       Of({{"pods", 1}, {"a.b/c", 0}}),
       {"OutOfa.b/c"}},
      {"hugepages that the node has not are not dropped",
       App({{"hugepages-2Mi", 1000}}),
       Node(),
       {"OutOfhugepages-2Mi"}},
      {"several of unknown order",
       App({{kGpu, 3000}, {"hugepages-2Mi", 1000}}),
       Node(),
       {"OutOfhugepages-2Mi", std::string("OutOf") + kGpu}},
      {"storage counts nowhere", App({{"storage", 1000}}), Node(), {}},
      {"devices given out count as there, unhealthy or not",
       App({{kGpu, 2000}}),
       Given(Of({{"pods", 1}, {kGpu, 1}}), {{kGpu, 2}}),
       {}},
      {"but what others requested of them is gone",
       App({{kGpu, 2000}}),
       With(Given(Of({{"pods", 2}, {kGpu, 1}}), {{kGpu, 2}}), App({{kGpu, 1000}})),
       {std::string("OutOf") + kGpu}},
      {"a resource that is given out is not missing",
       App({{"a.b/c", 2000}}),
       Given(Of({{"pods", 1}}), {{"a.b/c", 1}}),
       {"OutOfa.b/c"}},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(OutOfResource(each.pod, each.node), each.reasons) << each.name;
  }
}

TEST(OutOfResource, LooksAtEveryContainerForWhatIsMissing) {
  PodRequestSpec pod = App({{"cpu", 1000}});
  pod.containers.insert(pod.containers.begin(), {Kind::kInit, {{"a.b/c", 9000}}});
  EXPECT_THAT(OutOfResource(pod, Node()), IsEmpty());
  pod.containers.front().requests = {{kGpu, 9000}};
  EXPECT_THAT(OutOfResource(pod, Node()), ElementsAre(std::string("OutOf") + kGpu));
}

}  // namespace
}  // namespace numafit::policy
