// The kubelet's state files, as kubelets of four versions wrote them (testdata/README.md), and
// broken in many ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "agent/kubelet/cpu_state.h"
#include "agent/kubelet/device_checkpoint.h"
#include "agent/kubelet/go_dump.h"
#include "agent/kubelet/memory_state.h"
#include "test/paths.h"

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kUidA[] = "0b0f8f3e-6f3c-4a55-9d4e-0e6e5f0a1a01";
constexpr char kUidB[] = "0b0f8f3e-6f3c-4a55-9d4e-0e6e5f0a1a02";

std::string ReadFixture(const std::string& version, const std::string& name) {
  std::ifstream file(test::SourceDir() + "/test/agent/testdata/" + version + "/" + name,
                     std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << version << "/" << name;
  return text.str();
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class KubeletVersions : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(StateFiles, KubeletVersions,
                         ::testing::Values("k134", "k135", "k136", "k137"),
                         [](const auto& param) { return param.param; });

TEST_P(KubeletVersions, DeviceCheckpointIsReadWithItsChecksum) {
  const auto checkpoint =
      ParseDeviceCheckpoint(ReadFixture(GetParam(), "kubelet_internal_checkpoint"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_EQ(checkpoint->entries.size(), 4U);
  const DeviceCheckpoint::Entry& main = checkpoint->entries[0];
  EXPECT_EQ(main.pod_uid, kUidA);
  EXPECT_EQ(main.container, "main");
  EXPECT_EQ(main.resource, "nvidia.com/gpu");
  EXPECT_THAT(main.devices,
              ElementsAre(Pair("GPU-0", ElementsAre(0)), Pair("GPU-1", ElementsAre(0)),
                          Pair("GPU-4", ElementsAre(1))));
  // A regular init container, which PodResources never lists.
  EXPECT_EQ(checkpoint->entries[1].container, "warm-up");
  // On three NUMA nodes, and on none.
  EXPECT_THAT(checkpoint->entries[2].devices,
              ElementsAre(Pair("ib0:ib0:0003", ElementsAre(0, 3, 10))));
  EXPECT_THAT(checkpoint->entries[3].devices, ElementsAre(Pair("7", IsEmpty())));
  EXPECT_THAT(checkpoint->registered.at("nvidia.com/gpu"),
              ElementsAre("GPU-0", "GPU-1", "GPU-2", "GPU-4"));
  EXPECT_THAT(checkpoint->registered.at("device.gpustack.ai/rdma"), IsEmpty());
  EXPECT_THAT(checkpoint->registered.at("gone.example.com/dev"), IsEmpty());
}

TEST_P(KubeletVersions, DeviceCheckpointWithNothingIsNoError) {
  for (const std::string name : {"empty_devices", "no_devices"}) {
    const auto checkpoint = ParseDeviceCheckpoint(ReadFixture(GetParam(), name));
    ASSERT_TRUE(checkpoint.ok()) << name << ": " << checkpoint.status();
    EXPECT_THAT(checkpoint->entries, IsEmpty());
    EXPECT_THAT(checkpoint->registered, IsEmpty());
  }
}

TEST_P(KubeletVersions, CpuStateIsReadWithItsChecksum) {
  const auto state = ParseCpuState(ReadFixture(GetParam(), "cpu_manager_state"));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->policy, "static");
  EXPECT_EQ(policy::FormatCpuSet(state->default_cpus), "0-1,6-9,14-15");
  EXPECT_EQ(policy::FormatCpuSet(state->containers.at(kUidA).at("main")), "2-3,10-11");
  EXPECT_EQ(policy::FormatCpuSet(state->containers.at(kUidA).at("warm-up")), "4,12");
  EXPECT_EQ(policy::FormatCpuSet(state->containers.at(kUidB).at("server")), "5,13");
  EXPECT_THAT(state->pods, IsEmpty());
}

TEST_P(KubeletVersions, MemoryStateIsReadWithItsChecksum) {
  const auto state = ParseMemoryState(ReadFixture(GetParam(), "memory_manager_state"));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->policy, "Static");
  ASSERT_EQ(state->books.size(), 2U);
  const v1alpha1::MemoryBook& book = state->books[0];
  EXPECT_EQ(book.numa_node(), 0);
  EXPECT_EQ(book.assignments(), 2);
  EXPECT_THAT(book.cells(), ElementsAre(0, 1));
  EXPECT_EQ(book.free().at("memory"), "6369050624");
  EXPECT_EQ(book.reserved().at("memory"), "8589934592");
  EXPECT_EQ(book.free().at("hugepages-2Mi"), "1073741824");
  const std::vector<MemoryBlock>& blocks = state->containers.at(kUidB).at("server");
  EXPECT_THAT(blocks, ElementsAre(MemoryBlock{"hugepages-2Mi", {0}, 4194304},
                                  MemoryBlock{"memory", {0}, 1}));
  EXPECT_THAT(state->containers.at(kUidA).at("main"),
              ElementsAre(MemoryBlock{"memory", {0, 1}, 8589934592}));
}

TEST(StateFiles, PodLevelEntriesOfNewKubelets) {
  for (const std::string version : {"k136", "k137"}) {
    const auto cpus = ParseCpuState(ReadFixture(version, "cpu_pod_level"));
    ASSERT_TRUE(cpus.ok()) << version << ": " << cpus.status();
    EXPECT_EQ(policy::FormatCpuSet(cpus->pods.at(kUidB)), "5,13") << version;
    const auto memory = ParseMemoryState(ReadFixture(version, "memory_pod_level"));
    ASSERT_TRUE(memory.ok()) << version << ": " << memory.status();
    EXPECT_THAT(memory->pods.at(kUidB), ElementsAre(MemoryBlock{"memory", {0}, 5})) << version;
  }
}

TEST(StateFiles, EmptyOnesOfPolicyNone) {
  for (const std::string version : {"k134", "k136"}) {
    const auto cpus = ParseCpuState(ReadFixture(version, "cpu_empty"));
    ASSERT_TRUE(cpus.ok()) << cpus.status();
    EXPECT_EQ(cpus->policy, "none");
    const auto memory = ParseMemoryState(ReadFixture(version, "memory_empty"));
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->policy, "None");
  }
  // With the gate on and no Pod of that kind the file looks like an older one.
  EXPECT_TRUE(ParseCpuState(ReadFixture("k136", "cpu_pod_level_empty")).ok());
  EXPECT_TRUE(ParseMemoryState(ReadFixture("k136", "memory_pod_level_empty")).ok());
}

TEST(StateFiles, ChecksumOfZeroIsNone) {
  EXPECT_TRUE(ParseCpuState(R"({"policyName":"none","defaultCpuSet":"","checksum":0})").ok());
}

// Every cut of every file is an error, and none a crash.
TEST(StateFiles, CutOffAnywhereIsAnError) {
  for (const std::string version : {"k134", "k137"}) {
    const std::string devices = ReadFixture(version, "kubelet_internal_checkpoint");
    const std::string cpus = ReadFixture(version, "cpu_manager_state");
    const std::string memory = ReadFixture(version, "memory_manager_state");
    for (std::size_t n = 0; n < devices.size(); n += 7) {
      EXPECT_FALSE(ParseDeviceCheckpoint(devices.substr(0, n)).ok()) << n;
    }
    for (std::size_t n = 0; n < cpus.size(); n += 3) {
      EXPECT_FALSE(ParseCpuState(cpus.substr(0, n)).ok()) << n;
    }
    for (std::size_t n = 0; n < memory.size(); n += 11) {
      EXPECT_FALSE(ParseMemoryState(memory.substr(0, n)).ok()) << n;
    }
  }
}

// One digit or letter changed: JSON stays JSON, and the checksum tells.
TEST(StateFiles, OneCharacterChangedIsAnError) {
  const std::string devices = ReadFixture("k134", "kubelet_internal_checkpoint");
  const std::string cpus = ReadFixture("k136", "cpu_manager_state");
  const std::string memory = ReadFixture("k135", "memory_manager_state");
  int changed = 0;
  const auto each = [&changed](const std::string& text, const auto& parse) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] < '1' || text[i] > '8') continue;
      // The last letter of this base64 text has bits that no reader looks at.
      if (text.substr(i, 2) == "8=") continue;
      std::string other = text;
      other[i] = static_cast<char>(text[i] + 1);
      const auto result = parse(other);
      EXPECT_FALSE(result.ok()) << "at " << i;
      ++changed;
    }
  };
  each(devices, ParseDeviceCheckpoint);
  each(cpus, ParseCpuState);
  each(memory, ParseMemoryState);
  EXPECT_GT(changed, 250);
}

// Since 1.37 only the inner text counts; the fields beside it are for older kubelets.
TEST(StateFiles, InnerTextOfNewKubeletsIsTheTruth) {
  std::string text = ReadFixture("k137", "cpu_manager_state");
  const std::size_t outer = text.find("\"defaultCpuSet\":\"0-1");
  ASSERT_NE(outer, std::string::npos);
  text.replace(outer, 20, "\"defaultCpuSet\":\"0-2");
  const auto state = ParseCpuState(text);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(policy::FormatCpuSet(state->default_cpus), "0-1,6-9,14-15");
  const std::size_t inner = text.find("\\\"defaultCpuSet\\\":\\\"0-1");
  ASSERT_NE(inner, std::string::npos);
  text.replace(inner, 24, "\\\"defaultCpuSet\\\":\\\"0-2");
  EXPECT_EQ(ParseCpuState(text).status().code(), absl::StatusCode::kDataLoss);
}

struct BadFile {
  std::string text;
  std::string message;
};

TEST(StateFiles, BadCheckpointsNameTheField) {
  const std::vector<BadFile> cases = {
      {"", "the file is empty"},
      {"[]", "expected an object, got array"},
      {"{}", "Data: is missing"},
      {R"({"Data":7})", "Data: expected an object"},
      {R"({"Data":{"PodDeviceEntries":{}}})", "Data.PodDeviceEntries: expected a list"},
      {R"({"Data":{"PodDeviceEntries":[{"PodUID":7}]}})", "Data.PodDeviceEntries[0].PodUID"},
      {R"({"Data":{"PodDeviceEntries":[{"PodUID":"a"}]}})",
       "Data.PodDeviceEntries[0].ResourceName: is empty"},
      {R"({"Data":{"PodDeviceEntries":[{"PodUID":"a","ResourceName":"r","DeviceIDs":{"x":[]}}]}})",
       "Data.PodDeviceEntries[0].DeviceIDs.x: the key is no NUMA node"},
      {R"({"Data":{"PodDeviceEntries":[{"PodUID":"a","ResourceName":"r","AllocResp":"%"}]}})",
       "AllocResp: is no base64"},
      {R"({"Data":{"RegisteredDevices":{"r":"id"}}})", "Data.RegisteredDevices.r: expected a list"},
      {R"({"Data":{"RegisteredDevices":{"r":[1]}}})", "Data.RegisteredDevices.r[0]"},
      {R"({"Data":{},"Checksum":-1})", "Checksum: -1 is outside"},
      {R"({"Data":{},"Checksum":"x"})", "Checksum: expected an integer"},
      {R"({"Data":{},"Checksum":1})", "checksum: the file says 1, its content has 1944006890"},
      {std::string(100'000, '['), "no JSON, or cut off (100000 bytes)"},
      {"{\"Data\":\xff}", "no JSON"},
  };
  for (const BadFile& bad : cases) {
    const auto result = ParseDeviceCheckpoint(bad.text);
    ASSERT_FALSE(result.ok()) << bad.message;
    EXPECT_THAT(Message(result.status()), HasSubstr(bad.message));
  }
}

TEST(StateFiles, BadManagerStatesNameTheField) {
  const std::vector<BadFile> cpus = {
      {"{}", "policyName: is missing"},
      {R"({"policyName":"static","defaultCpuSet":"0-x"})", "defaultCpuSet"},
      {R"({"policyName":"static","defaultCpuSet":"5-1"})", "defaultCpuSet"},
      {R"({"policyName":"static","entries":{"u":{"c":7}}})", "entries.u.c: expected a string"},
      {R"({"policyName":"static","entries":{"u":"c"}})", "entries.u: expected an object"},
      {R"({"policyName":"static","data":7})", "data: expected a string"},
      {R"({"data":"{}","dataChecksum":1})", "checksum: the file says 1"},
      {R"({"data":"{","dataChecksum":)" + std::to_string(Fnv32a("(string){")) + "}",
       "data: no JSON, or cut off"},
  };
  for (const BadFile& bad : cpus) {
    const auto result = ParseCpuState(bad.text);
    ASSERT_FALSE(result.ok()) << bad.message;
    EXPECT_THAT(Message(result.status()), HasSubstr(bad.message));
  }
  const std::vector<BadFile> memory = {
      {"{}", "policyName: is missing"},
      {R"({"policyName":"Static","machineState":{"x":{}}})",
       "machineState.x: the key is no NUMA node"},
      {R"({"policyName":"Static","machineState":{"0":{"cells":[-1]}}})",
       "machineState.0.cells[0]: -1 is outside"},
      {R"({"policyName":"Static","machineState":{"0":{"numberOfAssignments":-3}}})",
       "machineState.0.numberOfAssignments: -3 is outside"},
      {R"({"policyName":"Static","machineState":{"0":{"memoryMap":{"memory":{"free":-1}}}}})",
       "machineState.0.memoryMap.memory.free: -1 is outside"},
      {R"({"policyName":"Static","entries":{"u":{"c":[{"size":18446744073709551615}]}}})",
       "entries.u.c[0].size: 18446744073709551615 is outside"},
  };
  for (const BadFile& bad : memory) {
    const auto result = ParseMemoryState(bad.text);
    ASSERT_FALSE(result.ok()) << bad.message;
    EXPECT_THAT(Message(result.status()), HasSubstr(bad.message));
  }
}

}  // namespace
}  // namespace numafit::agent
