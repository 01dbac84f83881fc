#include "cache/fleet_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "api/resource_class.h"
#include "cache/fleet.h"
#include "test/paths.h"

namespace numafit::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kHead = "apiVersion: numafit.io/v1alpha1\nkind: Fleet\n";

std::string WithShape(std::string_view kubelet, std::string_view numa, std::string_view devices,
                      std::string_view nodes = "[{shape: s, name: n}]") {
  std::string text(kHead);
  text += "shapes:\n- name: s\n  kubelet: ";
  text += kubelet;
  text += "\n  numa: ";
  text += numa;
  text += "\n  devices: ";
  text += devices;
  text += "\nnodes: ";
  text += nodes;
  text += "\n";
  return text;
}

constexpr std::string_view kTwoNuma = "[{id: 0, cpus: 0-1}, {id: 1, cpus: 2-3}]";
constexpr std::string_view kBigNuma =
    "[{id: 0, cpus: 0-1, memory: 8Gi}, {id: 1, cpus: 2-3, memory: 8Gi}]";

struct Wrong {
  std::string name;
  std::string text;
  std::string error;
};

class WrongFleetFile : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongFleetFile, IsRefusedWithFileLineAndPath) {
  const absl::StatusOr<FleetFile> fleet = ParseFleetFile(GetParam().text, "f.yaml");
  ASSERT_FALSE(fleet.ok());
  EXPECT_EQ(fleet.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(fleet.status().message()), HasSubstr(GetParam().error));
}

std::string WithPod(std::string_view pod) {
  return WithShape("{topologyManagerPolicy: single-numa-node}", kTwoNuma,
                   "[{resource: nvidia.com/gpu, numa: 0, ids: [a, b]}, "
                   "{resource: nvidia.com/gpu, numa: 1, ids: [c]}]") +
         "pods:\n- " + std::string(pod) + "\n";
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongFleetFile,
    ::testing::Values(
        Wrong{"NotYaml", "a: [", "f.yaml:"}, Wrong{"Empty", "", "f.yaml:1: has 0 documents"},
        Wrong{"TwoDocuments", "a: 1\n---\nb: 2\n", "f.yaml:1: has 2 documents"},
        Wrong{"KeyTwice", "kind: Fleet\nkind: Fleet\n", "f.yaml:2: key \"kind\" is given twice"},
        Wrong{"OtherKind", "apiVersion: numafit.io/v1alpha1\nkind: Pod\n",
              "f.yaml:2: kind: is \"Pod\", expected Fleet"},
        Wrong{"OtherVersion", "apiVersion: v1\nkind: Fleet\n", "expected numafit.io/v1alpha1"},
        Wrong{"UnknownKey", std::string(kHead) + "shape: []\n",
              "f.yaml:3: shape: unknown key, expected one of apiVersion, kind, shapes"},
        Wrong{"NoShapes", std::string(kHead) + "nodes: []\n", "shapes: is missing"},
        Wrong{"ShapesIsNoList", std::string(kHead) + "shapes: 3\n",
              "f.yaml:3: shapes: is text \"3\", expected a list"},
        Wrong{"UnknownPolicy", WithShape("{topologyManagerPolicy: strict}", kTwoNuma, "[]"),
              "f.yaml:5: shapes[0].kubelet.topologyManagerPolicy: is \"strict\", expected one of "
              "none"},
        Wrong{"UnknownCpuPolicy", WithShape("{cpuManagerPolicy: Static}", kTwoNuma, "[]"),
              "cpuManagerPolicy: is \"Static\", expected one of none, static"},
        Wrong{"UnknownMemoryPolicy", WithShape("{memoryManagerPolicy: static}", kTwoNuma, "[]"),
              "memoryManagerPolicy: is \"static\", expected one of None, Static"},
        Wrong{"StaticCpusWithoutReserved", WithShape("{cpuManagerPolicy: static}", kTwoNuma, "[]"),
              "f.yaml:5: shapes[0].kubelet"},
        Wrong{"UnknownCpuOption",
              WithShape("{cpuManagerPolicy: static, reservedSystemCPUs: \"0\", "
                        "cpuManagerPolicyOptions: {fast: \"true\"}}",
                        kTwoNuma, "[]"),
              "f.yaml:5: shapes[0].kubelet.cpuManagerPolicyOptions: "},
        Wrong{"ReservedCpuNotThere", WithShape("{reservedSystemCPUs: 3-4}", kTwoNuma, "[]"),
              "f.yaml:5: shapes[0].kubelet.reservedSystemCPUs: names CPU 4, which this shape has "
              "not"},
        Wrong{"ReservedCpusNoList", WithShape("{reservedSystemCPUs: all}", kTwoNuma, "[]"),
              "reservedSystemCPUs: is \"all\": not CPUs"},
        Wrong{"ReservedBelowZero", WithShape("{kubeReserved: {cpu: -1}}", kTwoNuma, "[]"),
              "kubeReserved.cpu: is \"-1\", expected an amount"},
        Wrong{"ReservedHugepages",
              WithShape("{systemReserved: {hugepages-2Mi: 2Mi}}", kTwoNuma, "[]"),
              "systemReserved.hugepages-2Mi: unknown key, expected one of cpu, memory"},
        Wrong{"EvictionOfSomethingElse",
              WithShape("{evictionHard: {nodefs.available: 10%}}", kTwoNuma, "[]"),
              "evictionHard.nodefs.available: unknown key"},
        Wrong{"EvictionInPercent",
              WithShape("{evictionHard: {memory.available: 5%}}", kTwoNuma, "[]"),
              "evictionHard.memory.available: is \"5%\", expected an amount"},
        Wrong{"ReservedMemoryDoesNotAddUp",
              WithShape("{memoryManagerPolicy: Static, kubeReserved: {memory: 1Gi}, "
                        "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]}",
                        kBigNuma, "[]"),
              "f.yaml:5: shapes[0].kubelet.reservedMemory: memory adds up to 1Gi, expected 1124Mi"},
        Wrong{"ReservedHugepagesDoNotAddUp",
              WithShape("{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: "
                        "{memory: 100Mi, hugepages-2Mi: 2Mi}}]}",
                        kBigNuma, "[]"),
              "reservedMemory: hugepages-2Mi adds up to 2Mi, expected 0"},
        Wrong{"ReservedMemoryMissing", WithShape("{memoryManagerPolicy: Static}", kBigNuma, "[]"),
              "f.yaml:5: shapes[0].kubelet.reservedMemory: memory adds up to 0, expected 100Mi"},
        Wrong{"NoMemoryReserved",
              WithShape("{memoryManagerPolicy: Static, evictionHard: {memory.available: 0}}",
                        kBigNuma, "[]"),
              "f.yaml:4: shapes[0]: reservedMemory: "},
        Wrong{"ReservedMemoryOnNoNuma",
              WithShape("{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 7, limits: "
                        "{memory: 100Mi}}]}",
                        kBigNuma, "[]"),
              "f.yaml:5: shapes[0].kubelet.reservedMemory: NUMA node 7 is not"},
        Wrong{"ReservedMemoryTwice",
              WithShape("{reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 0, "
                        "limits: {memory: 1Gi}}]}",
                        kBigNuma, "[]"),
              "reservedMemory[1].limits.memory: is given twice for NUMA 0"},
        Wrong{"ReservedMemoryOfOtherType",
              WithShape("{reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]}", kBigNuma, "[]"),
              "reservedMemory[0].limits.cpu: unknown type, expected memory or hugepages-<size>"},
        Wrong{"ReservedMemoryZero",
              WithShape("{reservedMemory: [{numaNode: 0, limits: {memory: 0}}]}", kBigNuma, "[]"),
              "reservedMemory[0].limits.memory: is \"0\", expected an amount"},
        Wrong{"FeatureGateNoBool", WithShape("{featureGates: {X: yes}}", kTwoNuma, "[]"),
              "featureGates.X: is \"yes\", expected true or false"},
        Wrong{"NoVersion", WithShape("{version: newest}", kTwoNuma, "[]"),
              "version: is \"newest\", expected a version such as v1.36.3"},
        Wrong{"UnknownOption",
              WithShape("{topologyManagerPolicyOptions: {fast: true}}", kTwoNuma, "[]"),
              "topologyManagerPolicyOptions.fast: unknown key"},
        Wrong{"NumaOutOfRange", WithShape("{}", "[{id: 64}]", "[]"),
              "numa[0].id: is \"64\", expected a whole number from 0 to 63"},
        Wrong{"NumaTwice", WithShape("{}", "[{id: 1}, {id: 1}]", "[]"),
              "f.yaml:6: shapes[0].numa: "},
        Wrong{"CpusBackwards", WithShape("{}", "[{id: 0, cpus: 3-1}]", "[]"),
              "numa[0].cpus: is \"3-1\": not CPUs: \"3-1\""},
        Wrong{"CpuTwice", WithShape("{}", "[{id: 0, cpus: 0-1}, {id: 1, cpus: 1-2}]", "[]"),
              "f.yaml:6: shapes[0].numa: CPU 1 is there twice"},
        Wrong{"CpusAndCores", WithShape("{}", "[{id: 0, cpus: 0-1, cores: []}]", "[]"),
              "numa[0].cpus: cannot be given beside cores"},
        Wrong{"CoreWithoutThreads", WithShape("{}", "[{id: 0, cores: [{socket: 0}]}]", "[]"),
              "numa[0].cores[0].threads: is missing"},
        Wrong{"SiblingsTooFew", WithShape("{}", "[{id: 0, cpus: 0-1, siblings: \"2\"}]", "[]"),
              "numa[0].siblings: names 1 CPUs, expected one for each of the 2 in cpus"},
        Wrong{"SiblingsAndThreads",
              WithShape("{}", "[{id: 0, cpus: 0-1, siblings: 2-3, threadsPerCore: 2}]", "[]"),
              "numa[0].threadsPerCore: cannot be given beside siblings"},
        Wrong{"PageSizeNotSpelledSo",
              WithShape("{}", "[{id: 0, memory: 4Gi, hugepages: {1024Mi: 1}}]", "[]"),
              "numa[0].hugepages.1024Mi: is no page size"},
        Wrong{"MoreHugepagesThanMemory",
              WithShape("{}", "[{id: 0, memory: 4Gi, hugepages: {1Gi: 4, 2Mi: 1}}]", "[]"),
              "numa[0].hugepages: is more than the 4Gi of memory that NUMA 0 has"},
        Wrong{"MemoryInBytes", WithShape("{}", "[{id: 0, memory: 1025}]", "[]"),
              "numa[0].memory: is 1025 bytes, expected whole KiB"},
        Wrong{"DistancesTooShort", WithShape("{}", "[{id: 0, distances: [10]}, {id: 1}]", "[]"),
              "f.yaml:6: shapes[0].numa: NUMA 0 has 1 distances, expected one for each of 2"},
        Wrong{"DeviceOnNoNuma", WithShape("{}", kTwoNuma, "[{resource: a/b, numa: 2, count: 1}]"),
              "devices[0].numa: names NUMA 2, which this shape has not"},
        Wrong{"DeviceWithoutCount", WithShape("{}", kTwoNuma, "[{resource: a/b}]"),
              "devices[0]: needs count or ids"},
        Wrong{"NegativeCount", WithShape("{}", kTwoNuma, "[{resource: a/b, count: -1}]"),
              "devices[0].count: is \"-1\", expected a whole number from 0"},
        Wrong{"IdTwice", WithShape("{}", kTwoNuma, "[{resource: a/b, ids: [x, x]}]"), "x"},
        Wrong{"UnhealthyAboveCount",
              WithShape("{}", kTwoNuma, "[{resource: a/b, count: 1, unhealthy: 2}]"),
              "devices[0].unhealthy: is \"2\""},
        Wrong{"NodeOfNoShape", WithShape("{}", kTwoNuma, "[]", "[{shape: t, name: n}]"),
              "nodes[0].shape: \"t\" is no shape of this file"},
        Wrong{"NodeTwice",
              WithShape("{}", kTwoNuma, "[]", "[{shape: s, name: n}, {shape: s, name: n}]"),
              "nodes[1]: node \"n\" is there twice"},
        Wrong{"NodeWithoutName", WithShape("{}", kTwoNuma, "[]", "[{shape: s}]"),
              "nodes[0]: needs name or namePrefix"},
        Wrong{"PodOnNoNode", WithPod("{name: p, node: m, containers: []}"),
              "f.yaml:10: pods[0].node: \"m\" is no node of this file"},
        Wrong{"PodDeviceUnknown",
              WithPod("{name: p, node: n, containers: [{name: c, resources: {limits: "
                      "{nvidia.com/gpu: 1}}, devices: {nvidia.com/gpu: [z]}}]}"),
              "node n has no device \"z\""},
        Wrong{"PodDeviceCount",
              WithPod("{name: p, node: n, containers: [{name: c, resources: {limits: "
                      "{nvidia.com/gpu: 2}}, devices: {nvidia.com/gpu: [a]}}]}"),
              "lists 1 devices, but the container's limit is 2"},
        Wrong{"PodDeviceTaken",
              WithPod("{name: p, node: n, containers: ["
                      "{name: c, resources: {limits: {nvidia.com/gpu: 1}}, devices: "
                      "{nvidia.com/gpu: [a]}}, {name: d, resources: {limits: {nvidia.com/gpu: 1}}, "
                      "devices: {nvidia.com/gpu: [a]}}]}"),
              "device \"a\" of node n is taken already"},
        Wrong{"PodNumaFull",
              WithPod("{name: p, node: n, containers: [{name: c, numa: 1, resources: {limits: "
                      "{nvidia.com/gpu: 2}}}]}"),
              "NUMA 1 of node n has 1 nvidia.com/gpu free, the container wants 2"},
        Wrong{"PodQuantity",
              WithPod("{name: p, node: n, containers: [{name: c, resources: {limits: "
                      "{nvidia.com/gpu: many}}}]}"),
              "is \"many\", expected an amount"}),
    [](const auto& row) { return row.param.name; });

TEST(FleetFile, TakesVersionsWhoseRulesAreNotKnown) {
  for (const int minor : {20, 38}) {
    const absl::StatusOr<FleetFile> fleet =
        ParseFleetFile(WithShape("{version: v1." + std::to_string(minor) + ".1}", kTwoNuma, "[]",
                                 "[{shape: s, count: 1, namePrefix: n-}]"),
                       "f.yaml");
    ASSERT_TRUE(fleet.ok()) << fleet.status();
    EXPECT_EQ(fleet->nodes[0].topology->kubelet().version.minor, minor);
    EXPECT_FALSE(fleet->nodes[0].topology->kubelet().version.IsKnown());
  }
}

TEST(FleetFile, ReadsAShapeIntoATopology) {
  const absl::StatusOr<FleetFile> fleet = ParseFleetFile(
      WithShape("{version: v1.35.4, topologyManagerPolicy: restricted, topologyManagerScope: pod, "
                "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: \"true\"}}",
                "[{id: 0, cpus: \"0-1,4\", memory: 1Gi, socket: 1, distances: [10, 21]}, {id: 3}]",
                "[{resource: a/b, numa: 3, count: 2, unhealthy: 1}, {resource: a/b, count: 1}, "
                "{resource: a/b, numa: [], count: 1}, {resource: a/c, numa: [0, 3], ids: [x]}]",
                "[{shape: s, count: 2, namePrefix: n-, labels: {pool: x}}]"),
      "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  ASSERT_EQ(fleet->nodes.size(), 2U);
  EXPECT_EQ(fleet->nodes[0].name, "n-001");
  EXPECT_EQ(fleet->nodes[1].name, "n-002");
  EXPECT_EQ(fleet->nodes[0].labels.at("pool"), "x");
  EXPECT_EQ(fleet->nodes[0].topology, fleet->nodes[1].topology);
  const policy::TopologySpec& spec = fleet->nodes[0].topology->spec();
  EXPECT_EQ(spec.kubelet.version.minor, 35);
  EXPECT_EQ(spec.kubelet.policy, policy::TopologyPolicy::kRestricted);
  EXPECT_EQ(spec.kubelet.scope, policy::TopologyScope::kPod);
  EXPECT_TRUE(spec.kubelet.prefer_closest_numa_nodes);
  ASSERT_EQ(spec.numa[0].cores.size(), 3U);
  EXPECT_THAT(spec.numa[0].cores[2].threads, ElementsAre(4));
  EXPECT_EQ(spec.numa[0].memory, std::int64_t{1} << 30);
  EXPECT_EQ(fleet->nodes[0].topology->Distance(0, 3), 21);
  const std::vector<policy::DeviceSpec>& devices = spec.devices.at("a/b");
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_TRUE(devices[0].healthy);
  EXPECT_FALSE(devices[1].healthy);
  EXPECT_EQ(devices[2].numa, std::nullopt);        // publishes no topology
  EXPECT_EQ(devices[3].numa, std::vector<int>{});  // publishes one without NUMA nodes
  EXPECT_EQ(spec.devices.at("a/c")[0].id, "x");
}

TEST(FleetFile, ReadsWhatTheStaticManagersGoBy) {
  const absl::StatusOr<FleetFile> fleet = ParseFleetFile(
      WithShape("{cpuManagerPolicy: static, cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}, "
                "kubeReserved: {cpu: 500m, memory: 1Gi}, systemReserved: {cpu: 1200m, memory: "
                "512Mi}, evictionHard: {memory.available: 512Mi}, memoryManagerPolicy: Static, "
                "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: "
                "{memory: 1Gi}}], featureGates: {CPUManagerPolicyAlphaOptions: true}}",
                "[{id: 0, cpus: 0-1, siblings: 4-5, memory: 8Gi, hugepages: {2Mi: 512}}, "
                "{id: 1, memory: 8Gi, hugepages: {1Gi: 2}, cores: [{threads: \"2,6\", socket: 1, "
                "uncore: 3}, {threads: [3, 7], socket: 1}]}]",
                "[]"),
      "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  const policy::TopologySpec& spec = fleet->nodes[0].topology->spec();
  EXPECT_EQ(spec.kubelet.cpu_policy, policy::CpuPolicy::kStatic);
  EXPECT_EQ(spec.kubelet.cpu_options.at("full-pcpus-only"), "true");
  EXPECT_EQ(spec.kubelet.reserved_cpu_milli, 1700);
  EXPECT_EQ(spec.kubelet.memory_policy, policy::MemoryPolicy::kStatic);
  EXPECT_EQ(spec.kubelet.reserved_memory[1],
            (policy::MemoryReservation{1, {{"memory", std::int64_t{1} << 30}}}));
  EXPECT_TRUE(spec.kubelet.feature_gates.at("CPUManagerPolicyAlphaOptions"));
  EXPECT_THAT(spec.numa[0].cores,
              ElementsAre(policy::CoreSpec{{0, 4}, 0, {}}, policy::CoreSpec{{1, 5}, 0, {}}));
  EXPECT_THAT(spec.numa[1].cores,
              ElementsAre(policy::CoreSpec{{2, 6}, 1, 3}, policy::CoreSpec{{3, 7}, 1, {}}));
  // Every NUMA node has the kernel's page sizes, if with no page.
  const policy::HugepagePool two_mi{"2Mi", std::int64_t{2} << 20, 512};
  const policy::HugepagePool no_two_mi{"2Mi", std::int64_t{2} << 20, 0};
  const policy::HugepagePool one_gi{"1Gi", std::int64_t{1} << 30, 2};
  const policy::HugepagePool no_one_gi{"1Gi", std::int64_t{1} << 30, 0};
  EXPECT_THAT(spec.numa[0].hugepages, ElementsAre(two_mi, no_one_gi));
  EXPECT_THAT(spec.numa[1].hugepages, ElementsAre(no_two_mi, one_gi));
}

TEST(FleetFile, ReservedSystemCpusTakeThePlaceOfAmounts) {
  const absl::StatusOr<FleetFile> fleet =
      ParseFleetFile(WithShape("{cpuManagerPolicy: static, reservedSystemCPUs: \"0,2\", "
                               "kubeReserved: {cpu: 3}}",
                               kTwoNuma, "[]"),
                     "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  const policy::KubeletSettings& kubelet = fleet->nodes[0].topology->kubelet();
  EXPECT_THAT(kubelet.reserved_cpus, ElementsAre(0, 2));
  EXPECT_EQ(kubelet.reserved_cpu_milli, 0);
}

TEST(FleetFile, MakesIdsThatTheIdParsersUnderstand) {
  const absl::StatusOr<FleetFile> fleet = ParseFleetFile(
      WithShape("{}", kTwoNuma,
                "[{resource: device.gpustack.ai/rdma.shared, numa: 0, count: 2, tokens: 3}, "
                "{resource: nvidia.com/gpu, numa: 0, count: 2, tokens: 2}, "
                "{resource: device.gpustack.ai/rdma.partitioned, numa: 1, count: 1, tokens: 2}]"),
      "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  const auto& devices = fleet->nodes[0].topology->spec().devices;
  std::set<std::string> shared;
  for (const auto& device : devices.at("device.gpustack.ai/rdma.shared")) {
    shared.insert(device.endpoint);
  }
  EXPECT_THAT(shared, ElementsAre("ib0:ib0", "ib1:ib1"));
  EXPECT_EQ(devices.at("nvidia.com/gpu").size(), 4U);
  EXPECT_EQ(devices.at("nvidia.com/gpu")[0].endpoint, devices.at("nvidia.com/gpu")[1].endpoint);
  EXPECT_NE(devices.at("nvidia.com/gpu")[1].endpoint, devices.at("nvidia.com/gpu")[2].endpoint);
  // Every virtual function is an endpoint of its own.
  EXPECT_NE(devices.at("device.gpustack.ai/rdma.partitioned")[0].endpoint,
            devices.at("device.gpustack.ai/rdma.partitioned")[1].endpoint);
}

TEST(FleetFile, PutsAPodOnTheNumaNodeThatItNames) {
  const absl::StatusOr<FleetFile> fleet = ParseFleetFile(
      WithPod("{name: p, node: n, containers: [{name: c, numa: 0, resources: {limits: "
              "{nvidia.com/gpu: 1}}}]}\n- {name: q, node: n, containers: [{name: c, numa: 0, "
              "resources: {limits: {nvidia.com/gpu: 1}}}]}"),
      "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  ASSERT_EQ(fleet->pods.size(), 2U);
  EXPECT_THAT(fleet->pods[0].devices.at("c").at("nvidia.com/gpu"), ElementsAre("a"));
  EXPECT_THAT(fleet->pods[1].devices.at("c").at("nvidia.com/gpu"), ElementsAre("b"));
}

TEST(FleetFile, LetsAContainerHaveWhatAnInitContainerLeaves) {
  const absl::StatusOr<FleetFile> fleet = ParseFleetFile(
      WithPod("{name: p, node: n, initContainers: [{name: i, numa: 0, resources: {limits: "
              "{nvidia.com/gpu: 2}}}], containers: [{name: c, numa: 0, resources: {limits: "
              "{nvidia.com/gpu: 1}}}]}"),
      "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  EXPECT_THAT(fleet->pods[0].devices.at("c").at("nvidia.com/gpu"), ElementsAre("a"));
}

TEST(FleetFile, ExpandsIntoOneEntryPerNodeAndDevice) {
  const absl::StatusOr<FleetFile> fleet =
      ParseFleetFile(WithShape("{version: v1.36.3, topologyManagerPolicy: restricted}", kTwoNuma,
                               "[{resource: a/b, numa: 1, ids: [x]}, {resource: a/b, ids: [y]}]",
                               "[{shape: s, name: n}, {shape: s, name: m}]"),
                     "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  const nlohmann::json json = nlohmann::json::parse(ExpandFleet(*fleet));
  ASSERT_EQ(json["nodes"].size(), 2U);
  const nlohmann::json& node = json["nodes"][1];
  EXPECT_EQ(node["name"], "m");
  EXPECT_EQ(node["shape"], "s");
  EXPECT_EQ(node["kubelet"]["version"], "v1.36.3");
  EXPECT_EQ(node["kubelet"]["topologyManagerPolicy"], "restricted");
  EXPECT_EQ(node["kubelet"]["topologyManagerScope"], "container");
  EXPECT_EQ(node["kubelet"]["cpuManagerPolicy"], "none");
  EXPECT_EQ(node["kubelet"]["memoryManagerPolicy"], "None");
  EXPECT_FALSE(node["kubelet"].contains("reservedMemory"));
  EXPECT_EQ(node["numa"][1]["cores"][1]["threads"], nlohmann::json({3}));
  EXPECT_EQ(node["devices"]["a/b"][0]["numa"], nlohmann::json({1}));
  EXPECT_TRUE(node["devices"]["a/b"][1]["numa"].is_null());
}

// What comes out is what a kubelet's configuration takes: the lab writes it down as it is.
TEST(FleetFile, ExpandsTheManagersAsAKubeletTakesThem) {
  const absl::StatusOr<FleetFile> fleet = ParseFleetFile(
      WithShape("{cpuManagerPolicy: static, cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}, "
                "reservedSystemCPUs: 0-1, kubeReserved: {memory: 1Gi}, systemReserved: {memory: "
                "512Mi}, evictionHard: {memory.available: 512Mi}, memoryManagerPolicy: Static, "
                "reservedMemory: [{numaNode: 1, limits: {memory: 2Gi}}], featureGates: "
                "{MemoryManager: true}}",
                "[{id: 0, cpus: 0-1, siblings: 2-3, memory: 8Gi, hugepages: {2Mi: 4}}, {id: 1, "
                "memory: 8Gi, cores: [{threads: [4], socket: 1, uncore: 2}]}]",
                "[]"),
      "f.yaml");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  const nlohmann::json node = nlohmann::json::parse(ExpandFleet(*fleet))["nodes"][0];
  EXPECT_EQ(node["kubelet"], nlohmann::json::parse(R"({
      "version": "v1.37.0", "topologyManagerPolicy": "none", "topologyManagerScope": "container",
      "topologyManagerPolicyOptions": {},
      "cpuManagerPolicy": "static", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
      "reservedSystemCPUs": "0-1", "kubeReserved": {"memory": "1Gi"},
      "systemReserved": {"memory": "512Mi"}, "evictionHard": {"memory.available": "512Mi"},
      "memoryManagerPolicy": "Static",
      "reservedMemory": [{"numaNode": 1, "limits": {"memory": "2147483648"}}],
      "featureGates": {"MemoryManager": true}})"));
  EXPECT_EQ(node["numa"], nlohmann::json::parse(R"([
      {"id": 0, "memory": 8589934592, "hugepages": {"2Mi": 4}, "distances": [10, 20],
       "cores": [{"threads": [0, 2], "socket": 0}, {"threads": [1, 3], "socket": 0}]},
      {"id": 1, "memory": 8589934592, "hugepages": {"2Mi": 0}, "distances": [20, 10],
       "cores": [{"threads": [4], "socket": 1, "uncore": 2}]}])"));
}

TEST(FleetFile, SaysWhenAFileIsNotThere) {
  EXPECT_EQ(LoadFleetFile("no/such/file.yaml").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(LoadFleetFile("no/such/file.yaml").status().message()),
              HasSubstr("no/such/file.yaml"));
}

TEST(FleetFile, AliasesDoNotBlowItUp) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below;
    for (int k = 1; k < 10; ++k) bomb += ", " + below;
    bomb += "]\n";
  }
  const absl::Status status = ParseFleetFile(bomb, "f.yaml").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("aliases counted"));
}

// Every fleet file that ships is sound, down to what its Pods hold.
TEST(FleetFile, ShippedFilesLoad) {
  int files = 0;
  std::vector<std::filesystem::path> paths = {std::filesystem::path(test::SourceDir()) /
                                              "deploy/examples/fleet.yaml"};
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(test::SourceDir()) / "test/fleets")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  for (const std::filesystem::path& path : paths) {
    const absl::StatusOr<FleetFile> fleet = LoadFleetFile(path.string());
    ASSERT_TRUE(fleet.ok()) << fleet.status();
    const auto loaded = Fleet::FromFile(*fleet, api::ResourceClasses(), {});
    EXPECT_TRUE(loaded.ok()) << path << ": " << loaded.status();
    ++files;
  }
  EXPECT_GT(files, 1);
  EXPECT_EQ(EmbeddedFleet().nodes.size(), LoadFleetFile(paths[0].string())->nodes.size());
}

}  // namespace
}  // namespace numafit::cache
