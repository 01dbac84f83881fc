#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

#include "api/node_report.h"
#include "api/node_report.pb.h"
#include "api/node_report_bounds.h"
#include "test/api/node_reports.h"

namespace numafit::api {
namespace {

using api_testing::SampleReport;
using v1alpha1::NodeReportStatus;

std::string ErrorOf(const NodeReportStatus& status) {
  const absl::Status result = CheckNodeReport(status);
  return result.ok() ? "" : std::string(result.message());
}

TEST(CheckNodeReportTest, AnHonestReportPasses) {
  EXPECT_EQ(ErrorOf(SampleReport()), "");
  EXPECT_EQ(ErrorOf(NodeReportStatus()), "");
}

TEST(CheckNodeReportTest, NegativeNumbers) {
  NodeReportStatus status = SampleReport();
  status.mutable_resources(1)->mutable_groups(0)->set_count(-1);
  EXPECT_EQ(ErrorOf(status), "status.resources[1].groups[0].count: -1 is outside of 0 to 1048576");
  status = SampleReport();
  status.mutable_pods(0)->mutable_containers(1)->mutable_devices(0)->set_count(-3);
  EXPECT_EQ(ErrorOf(status),
            "status.pods[0].containers[1].devices[0].count: -3 is outside of 0 to 1048576");
  status = SampleReport();
  status.mutable_pods(1)->mutable_devices(0)->set_group(-1);
  EXPECT_EQ(ErrorOf(status), "status.pods[1].devices[0].group: -1 is outside of 0 to 4095");
  status = SampleReport();
  status.mutable_numa_nodes(1)->set_distances(0, -10);
  EXPECT_EQ(ErrorOf(status), "status.numaNodes[1].distances[0]: -10 is outside of 0 to 255");
}

TEST(CheckNodeReportTest, NumaIdsOutsideOf64Bits) {
  NodeReportStatus status = SampleReport();
  status.mutable_resources(0)->mutable_groups(1)->add_numa_nodes(64);
  EXPECT_EQ(ErrorOf(status),
            "status.resources[0].groups[1].numaNodes[1]: 64 is outside of -1 to 63");
  status.mutable_resources(0)->mutable_groups(1)->set_numa_nodes(1, -1);
  EXPECT_EQ(ErrorOf(status), "");
  status = SampleReport();
  status.mutable_numa_nodes(0)->set_id(-1);
  EXPECT_EQ(ErrorOf(status), "status.numaNodes[0].id: -1 is outside of 0 to 63");
  status = SampleReport();
  status.mutable_rdma_devices(0)->set_numa_node(-2);
  EXPECT_EQ(ErrorOf(status), "status.rdmaDevices[0].numaNode: -2 is outside of -1 to 63");
}

TEST(CheckNodeReportTest, TextsThatAreNoUtf8) {
  for (const char* bad : {"\xff", "ib\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe4\xbd",
                          "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\x80"}) {
    NodeReportStatus status = SampleReport();
    status.mutable_resources(1)->mutable_groups(0)->set_endpoint(bad);
    EXPECT_EQ(ErrorOf(status), "status.resources[1].groups[0].endpoint: not UTF-8");
  }
  for (const char* good : {"ib0", "gr\xc3\xbc\xc3\x9f", "\xe4\xbd\xa0", "\xf0\x9f\x92\xa9",
                           "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    NodeReportStatus status = SampleReport();
    status.mutable_resources(1)->mutable_groups(0)->set_endpoint(good);
    EXPECT_EQ(ErrorOf(status), "");
  }
  NodeReportStatus status = SampleReport();
  (*status.mutable_kubelet()->mutable_cpu_manager_policy_options())["\xff"] = "true";
  EXPECT_EQ(ErrorOf(status), "status.kubelet.cpuManagerPolicyOptions: a key that is not UTF-8");
}

TEST(CheckNodeReportTest, MoreDevicesThanAnyHostHas) {
  NodeReportStatus status;
  for (int r = 0; r < 3; ++r) {
    v1alpha1::Resource* resource = status.add_resources();
    resource->set_name("example.com/r" + std::to_string(r));
    for (int g = 0; g < 2; ++g) resource->add_groups()->set_count(10'922);
  }
  EXPECT_EQ(ErrorOf(status), "");
  status.mutable_resources(2)->mutable_groups(1)->set_count(10'927);
  EXPECT_EQ(ErrorOf(status),
            "status.resources[2].groups[1].count: 65537 devices with this 10927, more than 65536");
}

TEST(CheckNodeReportTest, GroupsBeyondTheList) {
  NodeReportStatus status = SampleReport();
  status.mutable_pods(1)->mutable_devices(0)->set_group(2);
  EXPECT_EQ(ErrorOf(status),
            "status.pods[1].devices[0].group: 2 where nvidia.com/gpu has 2 groups");
  status = SampleReport();
  status.mutable_pods(0)->mutable_containers(1)->mutable_devices(1)->set_resource("x.io/y");
  EXPECT_EQ(ErrorOf(status),
            "status.pods[0].containers[1].devices[1].resource: \"x.io/y\" is no resource here");
}

TEST(CheckNodeReportTest, MoreHeldThanThereIs) {
  NodeReportStatus status = SampleReport();
  status.mutable_pods(1)->mutable_devices(0)->set_count(5);
  EXPECT_EQ(ErrorOf(status),
            "status.pods[1].devices[0].count: 5 of nvidia.com/gpu group 1 are held with it, which "
            "has 4");
  // Each of two Pods could, both cannot.
  status = SampleReport();
  status.mutable_pods(1)->mutable_devices(0)->set_group(0);
  EXPECT_EQ(ErrorOf(status),
            "status.pods[1].devices[0].count: 6 of nvidia.com/gpu group 0 are held with it, which "
            "has 4");
  // Nor does it help to say so in two rows.
  status = SampleReport();
  *status.mutable_pods(1)->add_devices() = status.pods(1).devices(0);
  EXPECT_EQ(ErrorOf(status),
            "status.pods[1].devices[1].count: 8 of nvidia.com/gpu group 1 are held with it, which "
            "has 4");
  status = SampleReport();
  status.mutable_pods(0)->mutable_containers(0)->mutable_devices(0)->set_count(3);
  EXPECT_EQ(ErrorOf(status),
            "status.pods[0].containers[0].devices[0].count: 3 of nvidia.com/gpu group 0, more than "
            "its Pod's 2");
  // More than int32 can count, in rows of which each is within its bounds.
  status = SampleReport();
  for (int i = 0; i < 4000; ++i) {
    auto& held = *status.mutable_pods(1)->add_devices();
    held.set_resource("nvidia.com/gpu");
    held.set_count(1 << 20);
  }
  EXPECT_NE(ErrorOf(status), "");
}

TEST(CheckNodeReportTest, WhatIsThereTwice) {
  NodeReportStatus status = SampleReport();
  status.mutable_pods(1)->set_uid("640de90c");
  EXPECT_EQ(ErrorOf(status), "status.pods[1].uid: \"640de90c\" is that of pods[0].uid too");
  status = SampleReport();
  *status.add_pods() = status.pods(1);
  EXPECT_EQ(ErrorOf(status), "status.pods[2].name: \"team-b/serve\" is that of pods[1].name too");
  // A Pod that was recreated while its predecessor is not gone yet.
  status = SampleReport();
  auto& again = *status.add_pods();
  again.set_namespace_("team-a");
  again.set_name("train");
  again.set_uid("another");
  EXPECT_EQ(ErrorOf(status), "");
  status = SampleReport();
  status.mutable_numa_nodes(1)->set_id(0);
  EXPECT_EQ(ErrorOf(status), "status.numaNodes[1].id: 0 is that of numaNodes[0].id too");
  status = SampleReport();
  status.mutable_resources(2)->set_name("nvidia.com/gpu");
  EXPECT_EQ(ErrorOf(status),
            "status.resources[2].name: \"nvidia.com/gpu\" is that of resources[1].name too");
  status = SampleReport();
  status.add_memory_books();
  EXPECT_EQ(ErrorOf(status),
            "status.memoryBooks[1].numaNode: 0 is that of memoryBooks[0].numaNode too");
}

TEST(CheckNodeReportTest, TopologyThatIsNoTopology) {
  NodeReportStatus status = SampleReport();
  status.mutable_resources(0)->mutable_groups(0)->set_no_topology(true);
  EXPECT_EQ(ErrorOf(status),
            "status.resources[0].groups[0].noTopology: true beside numaNodes, which are topology");
}

TEST(CheckNodeReportTest, FormsOfTexts) {
  const auto with_cpus = [](const char* cpus) {
    NodeReportStatus status;
    status.set_default_cpus(cpus);
    return ErrorOf(status);
  };
  for (const char* good : {"", "0", "0-3,8", "4095", "7,3-5", "5-5"})
    EXPECT_EQ(with_cpus(good), "");
  for (const char* bad :
       {"4096", "3-1", "-1", "1-", ",", "1,", "a", "1 ", "0-4294967295", "1--2"}) {
    EXPECT_EQ(with_cpus(bad),
              "status.defaultCpus: \"" + std::string(bad) + "\" is not a set of CPUs (0-3,8)");
  }
  NodeReportStatus status = SampleReport();
  (*status.mutable_memory_books(0)->mutable_free())["memory"] = "-1";
  EXPECT_EQ(ErrorOf(status), "status.memoryBooks[0].free.memory: \"-1\" is not a number of bytes");
  status = SampleReport();
  status.mutable_numa_nodes(0)->set_memory("9223372036854775808");
  EXPECT_EQ(ErrorOf(status),
            "status.numaNodes[0].memory: \"9223372036854775808\" is not a number of bytes");
  status = SampleReport();
  status.set_observed_time("yesterday");
  EXPECT_EQ(ErrorOf(status), "status.observedTime: \"yesterday\" is not an RFC 3339 time");
}

TEST(CheckNodeReportTest, AbsurdSizes) {
  NodeReportStatus status = SampleReport();
  auto& groups = *status.mutable_resources(1);
  for (int i = 0; i < 200'000; ++i) {
    auto& group = *groups.add_groups();
    group.set_endpoint("GPU-8f2f1c8e-0000-4000-8000-" + std::to_string(i));
    group.set_count(1);
  }
  EXPECT_NE(ErrorOf(status).find(" bytes, more than 1048576"), std::string::npos)
      << ErrorOf(status);
  groups.mutable_groups()->DeleteSubrange(4097, 200'002 - 4097);
  EXPECT_EQ(ErrorOf(status), "status.resources[1].groups: 4097 entries, more than 4096");
  status = SampleReport();
  status.set_boot_id(std::string(254, 'x'));
  EXPECT_EQ(ErrorOf(status), "status.bootId: 254 bytes, more than 253");
  status = SampleReport();
  (*status.mutable_kubelet()->mutable_feature_gates())[std::string(300, 'x')] = true;
  EXPECT_EQ(ErrorOf(status), "status.kubelet.featureGates: a key of 300 bytes, more than 253");
}

TEST(NodeReportBoundsTest, EachRowNamesAField) {
  const auto& file = *NodeReportStatus::descriptor()->file();
  for (const FieldBounds& bounds : NodeReportBounds()) {
    const std::string name(bounds.field);
    const std::size_t dot = name.find('.');
    const auto* message = file.FindMessageTypeByName(name.substr(0, dot));
    ASSERT_NE(message, nullptr) << name;
    EXPECT_NE(message->FindFieldByName(name.substr(dot + 1)), nullptr) << name;
    EXPECT_EQ(BoundsOf(message->name(), name.substr(dot + 1)).field, bounds.field);
  }
  EXPECT_EQ(BoundsOf("Pod", "nobody").max_length, 253);
}

}  // namespace
}  // namespace numafit::api
