// The step "resize" of a case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/admit/admit.h"
#include "nlohmann/json.hpp"

namespace numafit::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// 2+2 GPUs, a NIC on NUMA 0, as in admit_test.cc; kubelet 1.36.
Json Base(const char* policy = "restricted") {
  Json base = Json::parse(R"({"numa": [{"id": 0}, {"id": 1}], "kubeletVersion": "v1.36.3",
      "devices": {"gpu": [{"id": "g0", "numa": [0]}, {"id": "g1", "numa": [0]},
                          {"id": "g2", "numa": [1]}, {"id": "g3", "numa": [1]}],
                  "nic": [{"id": "n0", "numa": [0]}]},
      "steps": []})");
  base["topologyPolicy"] = policy;
  return base;
}

Json Pod(const std::string& name, const Json& limits) {
  return {{"name", name},
          {"containers", Json::array({{{"name", "c"}, {"resources", {{"limits", limits}}}}})}};
}

Json Limits(const std::string& cpu, const Json& more = Json::object()) {
  Json limits = more;
  limits["cpu"] = cpu;
  limits["memory"] = "1Gi";
  return limits;
}

Json Admit(const Json& pod) {
  return {{"admit", pod}};
}
Json Resize(const Json& pod) {
  return {{"resize", pod}};
}

Json StepsOf(const Json& replayed) {
  const Json answer = Json::parse(AnswerCase(replayed.dump()));
  EXPECT_TRUE(answer.contains("steps")) << answer;
  return answer.value("steps", Json::array());
}

std::string ErrorOf(const Json& replayed) {
  return Json::parse(AnswerCase(replayed.dump())).value("error", "");
}

TEST(Resize, IsTakenAndTheDevicesStay) {
  Json replayed = Base();
  const Json gpus = {{"gpu", "2"}};
  replayed["steps"] = {Admit(Pod("p", Limits("1", gpus))), Resize(Pod("p", Limits("2", gpus)))};
  EXPECT_EQ(StepsOf(replayed)[1], Json::parse(R"({"pod": "p", "resize": "taken", "containers": [
      {"name": "c", "affinity": [0], "preferred": true, "devices": {"gpu": ["g0", "g1"]}}]})"));
}

TEST(Resize, OfNothingOrOfNobodyAsksNobody) {
  Json replayed = Base();
  replayed["steps"] = {Admit(Pod("p", Limits("1"))),
                       Resize(Pod("p", Limits("1000m"))),
                       {{"remove", "p"}},
                       Resize(Pod("p", Limits("2")))};
  const Json steps = StepsOf(replayed);
  EXPECT_EQ(
      steps[1],
      Json::parse(
          R"({"pod": "p", "resize": "none", "reason": "unchanged", "reasons": ["unchanged"]})"));
  EXPECT_EQ(
      steps[3],
      Json::parse(R"({"pod": "p", "resize": "none", "reason": "gone", "reasons": ["gone"]})"));
}

TEST(Resize, IsDeferredByABrokenDeviceAndCanBeAskedForAgain) {
  Json replayed = Base("none");
  const Json nic = {{"nic", "1"}};
  const auto listed = [](bool healthy) {
    Json step;
    step["devices"]["nic"] = {{{"id", "n0"}, {"numa", {0}}, {"healthy", healthy}}};
    return step;
  };
  replayed["steps"] = {Admit(Pod("p", Limits("1", nic))),  listed(false),
                       Resize(Pod("p", Limits("2", nic))), listed(true),
                       Resize(Pod("p", Limits("2", nic))), Resize(Pod("p", Limits("2", nic)))};
  const Json steps = StepsOf(replayed);
  EXPECT_EQ(steps[2]["resize"], "Deferred");
  EXPECT_EQ(steps[2]["reason"], "UnexpectedAdmissionError");
  EXPECT_EQ(steps[4]["resize"], "taken");
  EXPECT_EQ(steps[5]["reason"], "unchanged");

  replayed["kubeletVersion"] = "v1.37.0";
  EXPECT_EQ(StepsOf(replayed)[2]["resize"], "taken");
}

TEST(Resize, IsInfeasibleBesideAStaticManager) {
  Json replayed = Base();
  for (Json& numa : replayed["numa"]) {
    const int first = numa["id"].get<int>() * 4;
    numa["cpus"] = {first, first + 1, first + 2, first + 3};
  }
  replayed["numa"][0]["reservedCpus"] = {0};
  replayed["cpuPolicy"] = "static";
  replayed["steps"] = {Admit(Pod("p", Limits("2"))), Resize(Pod("p", Limits("3"))),
                       Resize(Pod("p", {{"cpu", "2"}, {"memory", "2Gi"}}))};
  const Json steps = StepsOf(replayed);
  EXPECT_EQ(steps[1]["resize"], "Infeasible");
  EXPECT_EQ(steps[1]["reason"], "guaranteed_pod_cpu_manager_static_policy");
  EXPECT_EQ(steps[1]["left"], Json::parse(R"([{"name": "c", "cpus": "1-2"}])"));
  EXPECT_EQ(steps[1]["defaultCpus"], "0,3-7");
  EXPECT_EQ(steps[2]["resize"], "taken");
  EXPECT_EQ(steps[2]["containers"][0]["cpus"], "1-2");
}

TEST(Resize, IsAskedOfEveryState) {
  // q has one GPU of those that are left, on the NIC's NUMA node or not; it may have been refused.
  Json replayed = Base();
  const Json both = {{"gpu", "1"}, {"nic", "1"}};
  replayed["steps"] = {Admit(Pod("p", Limits("1", {{"gpu", "3"}}))),
                       Admit(Pod("q", Limits("1", both))), Resize(Pod("q", Limits("2", both)))};
  Json steps = StepsOf(replayed);
  EXPECT_EQ(steps[2]["resize"], nullptr);
  EXPECT_EQ(steps[2]["resizes"], Json::array({"none", "taken"}));
  EXPECT_EQ(steps[2]["reasons"], Json::array({"gone"}));
  replayed["steps"][2]["observed"] = Json::parse(R"({"resize": "taken", "containers":
      [{"name": "c", "devices": {"gpu": ["g0"], "nic": ["n0"]}}]})");
  replayed["steps"].push_back(Resize(Pod("q", Limits("3", both))));
  EXPECT_EQ(StepsOf(replayed)[3]["resize"], "taken");
}

// Refused for one resource, it may have been given any part of what came since: 2 to the 70th.
TEST(Resize, ThatMayGiveMoreThanCanBeCountedIsSettling) {
  Json replayed = Base("none");
  Json asks = {{"gpu", "1"}};
  Json late = {{"gpu", Json::array()}};
  for (int i = 0; i < 70; ++i) {
    const std::string resource = "late" + std::to_string(i);
    asks[resource] = "1";
    late[resource] = Json::array({{{"id", "d"}}});
  }
  replayed["steps"] = {
      Admit(Pod("p", Limits("1", asks))), {{"devices", late}}, Resize(Pod("p", Limits("2", asks)))};
  const Json steps = StepsOf(replayed);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0]["admitted"], true);
  EXPECT_EQ(steps[2], Json::parse(R"({"pod": "p", "resize": null, "settling": true})"));
}

TEST(Resize, CountsAfterARestartOnlyWhenItWasTaken) {
  Json replayed = Base("none");
  const Json nic = {{"nic", "1"}};
  Json broken;
  broken["devices"]["nic"] = {{{"id", "n0"}, {"numa", {0}}, {"healthy", false}}};
  replayed["steps"] = {Admit(Pod("p", Limits("1", nic))),  {{"start", "p"}},
                       Resize(Pod("p", Limits("2", nic))), broken,
                       Resize(Pod("p", Limits("3", nic))), {{"restart", true}},
                       Resize(Pod("p", Limits("2", nic)))};
  const Json steps = StepsOf(replayed);
  EXPECT_EQ(steps[2]["resize"], "taken");
  EXPECT_EQ(steps[4]["resize"], "Deferred");
  EXPECT_EQ(steps[5]["readmitted"][0]["admitted"], true);
  EXPECT_EQ(steps[6]["reason"], "unchanged");
}

TEST(Resize, OfOtherThingsIsAnError) {
  const auto error = [](const Json& asked) {
    Json replayed = Base();
    replayed["steps"] = {Admit(Pod("p", Limits("1", {{"gpu", "1"}}))), Resize(asked)};
    return ErrorOf(replayed);
  };
  EXPECT_THAT(error(Pod("q", Limits("1"))), HasSubstr("no Pod \"q\""));
  EXPECT_THAT(error(Pod("p", Limits("1", {{"gpu", "2"}}))), HasSubstr("only cpu and memory"));
  EXPECT_THAT(error(Pod("p", {{"gpu", "1"}})), HasSubstr("QoS class"));
  Json other = Pod("p", Limits("2", {{"gpu", "1"}}));
  other["containers"][0]["name"] = "d";
  EXPECT_THAT(error(other), HasSubstr("changes no containers"));
  other = Pod("p", Limits("2", {{"gpu", "1"}}));
  other["resources"]["limits"]["cpu"] = "4";
  EXPECT_THAT(error(other), HasSubstr("of its own"));
}

TEST(Resize, OfInitContainersAndWholePodsNeeds136) {
  Json has = Pod("p", Limits("1"));
  has["initContainers"] = Json::array({{{"name", "i"}, {"resources", {{"limits", Limits("1")}}}}});
  Json asked = has;
  asked["initContainers"][0]["resources"]["limits"]["cpu"] = "2";
  Json replayed = Base();
  replayed["steps"] = {Admit(has), Resize(asked)};
  EXPECT_EQ(ErrorOf(replayed), "");
  replayed["kubeletVersion"] = "v1.35.0";
  EXPECT_THAT(ErrorOf(replayed), HasSubstr("init container"));

  has = Pod("p", Limits("1"));
  has["resources"]["limits"] = {{"cpu", "2"}, {"memory", "2Gi"}};
  asked = has;
  asked["resources"]["limits"]["cpu"] = "3";
  replayed["steps"] = {Admit(has), Resize(asked)};
  EXPECT_THAT(ErrorOf(replayed), HasSubstr("before 1.36"));
  replayed["kubeletVersion"] = "v1.36.0";
  EXPECT_EQ(StepsOf(replayed)[1]["resize"], "taken");
}

bool IsUnsupported(const Json& replayed) {
  return Json::parse(AnswerCase(replayed.dump())).value("unsupported", false);
}

TEST(Resize, WithSomeGatesOffTheirDefaultIsNotJudged) {
  Json replayed = Base();
  replayed["steps"] = {Admit(Pod("p", Limits("1"))), Resize(Pod("p", Limits("2")))};
  for (const char* gate :
       {"InPlacePodVerticalScaling", "InPlacePodVerticalScalingInitContainers", "AllBeta"}) {
    replayed["featureGates"] = {{gate, false}};
    EXPECT_TRUE(IsUnsupported(replayed)) << gate;
    // Only where Pods are resized.
    Json without = replayed;
    without["steps"].erase(1);
    EXPECT_FALSE(IsUnsupported(without)) << gate;
  }
  for (const char* gate :
       {"InPlacePodVerticalScalingExclusiveCPUs", "InPlacePodVerticalScalingExclusiveMemory"}) {
    replayed["featureGates"] = {{gate, true}};
    for (const int minor : {34, 35, 36, 37}) {
      replayed["kubeletVersion"] = "v1." + std::to_string(minor) + ".0";
      EXPECT_EQ(IsUnsupported(replayed), minor == 34) << gate << minor;
    }
  }
}

TEST(Resize, OfExclusiveCpusChangesNoneOfThem) {
  Json replayed = Base("none");
  replayed["numa"][0]["cpus"] = {0, 1, 2, 3};
  replayed["numa"][0]["reservedCpus"] = {0};
  replayed["cpuPolicy"] = "static";
  replayed["featureGates"] = {{"InPlacePodVerticalScalingExclusiveCPUs", true}};
  replayed["steps"] = {Admit(Pod("p", Limits("2"))), Resize(Pod("p", Limits("1"))),
                       Resize(Pod("p", Limits("500m")))};
  for (const char* version : {"v1.36.0", "v1.37.0"}) {
    replayed["kubeletVersion"] = version;
    const Json steps = StepsOf(replayed);
    for (const std::size_t step : {1U, 2U}) {
      EXPECT_EQ(steps[step]["resize"], "taken");
      EXPECT_EQ(steps[step]["containers"][0]["cpus"], "1-2");
    }
  }
  replayed["topologyPolicy"] = "restricted";
  replayed["kubeletVersion"] = "v1.36.0";
  EXPECT_EQ(StepsOf(replayed)[1]["resize"], "Deferred");
}

}  // namespace
}  // namespace numafit::cli
