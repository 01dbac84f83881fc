#include "cli/admit/device_kinds.h"

#include <gtest/gtest.h>

namespace numafit::cli {
namespace {

CaseDevice On(const std::string& id, std::optional<std::vector<int>> numa, bool healthy = true) {
  return {.id = id, .numa = std::move(numa), .healthy = healthy};
}

CaseStep Lists(const std::string& resource, std::vector<CaseDevice> devices) {
  CaseStep step;
  step.kind = CaseStep::Kind::kDevices;
  step.devices[resource] = std::move(devices);
  return step;
}

TEST(DeviceKinds, DevicesThatStayAlikeAreOneKind) {
  Case replayed;
  replayed.devices["gpu"] = {On("a", {{0}}), On("b", {{0}}), On("c", {{1}})};
  const DeviceKinds kinds(replayed);
  EXPECT_EQ(kinds.Find("gpu", "a"), kinds.Find("gpu", "b"));
  EXPECT_NE(kinds.Find("gpu", "a"), kinds.Find("gpu", "c"));
  EXPECT_EQ(kinds.Find("gpu", "d"), -1);
  EXPECT_EQ(kinds.Find("nic", "a"), -1);
}

TEST(DeviceKinds, ALaterListTellsDevicesApartFromTheStart) {
  Case replayed;
  replayed.devices["gpu"] = {On("a", {{0}}), On("b", {{0}}), On("c", {{0}})};
  replayed.steps.push_back(Lists("gpu", {On("a", {{0}}), On("b", {{0}}, false)}));
  const DeviceKinds kinds(replayed);
  EXPECT_NE(kinds.Find("gpu", "a"), kinds.Find("gpu", "b"));
  EXPECT_NE(kinds.Find("gpu", "a"), kinds.Find("gpu", "c"));
}

TEST(DeviceKinds, APreferenceTellsEveryDeviceApart) {
  Case replayed;
  replayed.devices["gpu"] = {On("a", {{0}}), On("b", {{0}})};
  CaseStep prefer;
  prefer.kind = CaseStep::Kind::kPrefer;
  prefer.prefer["gpu"] = {"b"};
  replayed.steps.push_back(prefer);
  const DeviceKinds kinds(replayed);
  EXPECT_NE(kinds.Find("gpu", "a"), kinds.Find("gpu", "b"));
}

TEST(NumaSetName, IsSortedAndTellsNoneFromEmpty) {
  EXPECT_EQ(NumaSetName(On("a", {{3, 0, 3}})), "0,3");
  EXPECT_EQ(NumaSetName(On("a", std::vector<int>{})), "empty");
  EXPECT_EQ(NumaSetName(On("a", std::nullopt)), "none");
}

}  // namespace
}  // namespace numafit::cli
