#include "cache/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cache/books.h"
#include "policy/admit.h"
#include "test/cache/machines.h"
#include "test/cache/reports.h"

namespace numafit::cache {
namespace {

using ::testing::HasSubstr;

v1alpha1::NodeReportStatus EvenReport() {
  return test::ReportOf(test::SpecOf(test::kEven));
}

v1alpha1::NodeReportStatus ReportWithManagers() {
  return test::ReportOf(test::SpecOf(test::kMachinesWithManagers[0]));
}

TEST(ReportReader, MakesTheMachineOfTheReport) {
  const policy::TopologySpec spec = test::SpecOf(test::kMachinesWithManagers[0]);
  const auto expected = policy::Topology::Create(spec).value();
  ReportReader reader;
  const auto read = reader.Read(test::ReportOf(spec));
  ASSERT_TRUE(read.ok()) << read.status();
  const policy::Topology& topology = *read->topology;
  EXPECT_EQ(topology.kubelet(), expected->kubelet());
  ASSERT_EQ(topology.classes().size(), expected->classes().size());
  for (std::size_t i = 0; i < topology.classes().size(); ++i) {
    EXPECT_EQ(topology.classes()[i].numa, expected->classes()[i].numa);
    EXPECT_EQ(topology.classes()[i].count, expected->classes()[i].count);
  }
  EXPECT_EQ(read->books, expected->initial_compute());
}

TEST(ReportReader, NodesThatDifferInNamesShareOneTopology) {
  ReportReader reader;
  v1alpha1::NodeReportStatus other = EvenReport();
  for (v1alpha1::Resource& resource : *other.mutable_resources()) {
    for (int i = 0; i < resource.groups_size(); ++i) {
      resource.mutable_groups(i)->set_endpoint(resource.name() +
                                               std::to_string(resource.groups_size() - i));
    }
  }
  other.set_boot_id("another");
  const auto one = reader.Read(EvenReport());
  const auto two = reader.Read(other);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->topology, two->topology);
  EXPECT_EQ(reader.topologies(), 1U);
}

TEST(ReportReader, TokensOfOneEndpointStayTokensOfOneEndpoint) {
  policy::TopologySpec spec = test::SpecOf(test::kEven);
  for (int i = 0; i < 4; ++i) {
    policy::DeviceSpec& token = spec.devices["device.gpustack.ai/rdma.shared"].emplace_back();
    token.id = "t" + std::to_string(i);
    token.numa = std::vector<int>{0};
    token.endpoint = "e0-0";
  }
  ReportReader reader;
  const auto read = reader.Read(test::ReportOf(spec));
  ASSERT_TRUE(read.ok()) << read.status();
  const int shared = read->topology->FindPool("device.gpustack.ai/rdma.shared");
  const auto& pool = read->topology->pools()[static_cast<std::size_t>(shared)];
  EXPECT_EQ(pool.devices, 4);
  EXPECT_EQ(pool.endpoints.size(), 1U);
}

TEST(ReportReader, SaysWhatPodsHold) {
  const auto topology = test::Make(test::kMachinesWithManagers[0]);
  v1alpha1::NodeReportStatus report = ReportWithManagers();
  policy::Usage usage(*topology);
  std::mt19937 random(3);
  test::ReportedPods pods(*topology, report);
  std::vector<policy::Holding> held;
  for (int i = 0; i < 12; ++i) {
    const auto demand = test::RandomDemandWithCpus(random);
    const policy::AdmitResult result = policy::Admit(*topology, usage, *demand);
    if (!result.outcomes.front().admitted) continue;
    policy::Apply(*topology, result.outcomes.front(), usage);
    held.push_back(result.outcomes.front().held);
    pods.Add("p" + std::to_string(i), "u" + std::to_string(i), held.back());
  }
  pods.SetBooks(usage.compute());
  ReportReader reader;
  const auto read = reader.Read(report);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->pods.size(), held.size());
  ASSERT_GE(held.size(), 3U);
  policy::Usage listed(*read->topology);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(read->pods[i].held.devices, held[i].devices);
    EXPECT_EQ(read->pods[i].held.cpus, held[i].cpus);
    listed.Add(read->pods[i].held.devices);
  }
  EXPECT_EQ(listed.raw(), usage.raw());
  EXPECT_EQ(read->books, usage.compute());
}

// As the admission foretells it: the ledger finds the Pod again by what it holds.
TEST(ReportReader, APodThatWasAllocatedAsAWholeHoldsWhatThePodHas) {
  v1alpha1::NodeReportStatus report = ReportWithManagers();
  v1alpha1::Pod* pod = report.add_pods();
  pod->set_namespace_("default");
  pod->set_name("p");
  const auto add = [](auto* list, const std::string& bytes) {
    v1alpha1::HeldMemory* memory = list->Add();
    memory->set_type("memory");
    memory->set_bytes(bytes);
    memory->add_numa_nodes(0);
  };
  for (const char* cpus : {"2", "3"}) {
    v1alpha1::Container* container = pod->add_containers();
    container->set_cpus(cpus);
    add(container->mutable_memory(), "1024");
  }
  pod->set_cpus("2-4");
  add(pod->mutable_memory(), "4096");
  ReportReader reader;
  const auto read = reader.Read(report);
  ASSERT_TRUE(read.ok()) << read.status();
  const policy::Holding& held = read->pods[0].held;
  EXPECT_EQ(policy::FormatCpuSet(held.cpus), "2-4");
  ASSERT_EQ(held.memory.size(), 1U);
  EXPECT_EQ(held.memory[0].blocks[0].size, 4096U);
  policy::Holding foretold;
  foretold.cpus = foretold.container_cpus = held.cpus;
  foretold.memory.resize(2);
  foretold.pod_memory = held.memory[0].blocks;
  EXPECT_EQ(AsOneContainer(foretold), held);
}

TEST(ReportReader, WithoutStateFilesTheBooksFollowFromThePods) {
  const auto topology = test::Make(test::kMachinesWithManagers[0]);
  v1alpha1::NodeReportStatus report = ReportWithManagers();
  policy::Holding held;
  held.cpus = {2, 3};
  test::ReportedPods(*topology, report).Add("p", "u", held);
  ReportReader reader;
  const auto read = reader.Read(report);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->books.default_cpus.contains(2));
  EXPECT_TRUE(read->books.default_cpus.contains(4));
}

struct BadReport {
  const char* name;
  std::function<void(v1alpha1::NodeReportStatus&)> spoil;
  const char* message;
};

v1alpha1::HeldDevices& Held(v1alpha1::NodeReportStatus& report) {
  v1alpha1::Pod* pod = report.add_pods();
  pod->set_namespace_("default");
  pod->set_name("p");
  pod->set_uid("u");
  v1alpha1::HeldDevices* devices = pod->add_devices();
  devices->set_resource(test::kGpu);
  devices->set_count(1);
  return *devices;
}

const BadReport kBadReports[] = {
    {"NoPolicy", [](auto& report) { report.mutable_kubelet()->set_topology_manager_policy(""); },
     "kubelet.topologyManagerPolicy: is \"\", expected none, best-effort"},
    {"NoVersion", [](auto& report) { report.mutable_kubelet()->set_version("new"); },
     "kubelet.version: is \"new\""},
    {"UnknownScope",
     [](auto& report) { report.mutable_kubelet()->set_topology_manager_scope("node"); },
     "kubelet.topologyManagerScope: is \"node\""},
    {"ReservedCpus", [](auto& report) { report.mutable_kubelet()->set_reserved_system_cpus("4-"); },
     "kubelet.reservedSystemCpus: is \"4-\""},
    {"NoNumaNode", [](auto& report) { report.clear_numa_nodes(); }, "NUMA"},
    {"NumaTwice", [](auto& report) { *report.add_numa_nodes() = report.numa_nodes(0); }, "twice"},
    {"NumaId", [](auto& report) { report.mutable_numa_nodes(0)->set_id(64); }, "64"},
    {"Memory", [](auto& report) { report.mutable_numa_nodes(0)->set_memory("-1"); },
     "numaNodes[id 0].memory: is \"-1\""},
    {"NegativeCount",
     [](auto& report) { report.mutable_resources(0)->mutable_groups(0)->set_count(-1); },
     ".count: is \"-1\", expected 0 to 65536"},
    {"HugeCount",
     [](auto& report) { report.mutable_resources(0)->mutable_groups(0)->set_count(1'000'000'000); },
     ".count: is \"1000000000\""},
    {"DeviceNuma",
     [](auto& report) { report.mutable_resources(0)->mutable_groups(0)->set_numa_nodes(0, 99); },
     ".numaNodes: is \"99\""},
    {"UnknownResource", [](auto& report) { Held(report).set_resource("a/b"); },
     "pods[default/p].devices.resource: is \"a/b\""},
    {"GroupBelow", [](auto& report) { Held(report).set_group(-1); },
     "pods[default/p].devices.group: is \"-1\""},
    {"GroupAbove", [](auto& report) { Held(report).set_group(8); },
     "pods[default/p].devices.group: is \"8\""},
    {"HeldMore", [](auto& report) { Held(report).set_count(5); },
     "pods[default/p].devices.count: is \"5\", expected 1 to 4"},
    {"HeldNothing", [](auto& report) { Held(report).set_count(0); }, "is \"0\""},
    {"PodTwice",
     [](auto& report) {
       Held(report);
       Held(report).set_group(1);
     },
     "pods[default/p].uid: is \"u\", expected each Pod once"},
};

class RefusedReport : public ::testing::TestWithParam<BadReport> {};

TEST_P(RefusedReport, NamesFieldAndValue) {
  v1alpha1::NodeReportStatus report = EvenReport();
  GetParam().spoil(report);
  ReportReader reader;
  const auto read = reader.Read(report);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, RefusedReport, ::testing::ValuesIn(kBadReports),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace numafit::cache
