#include "cli/admit/admit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "nlohmann/json.hpp"

namespace numafit::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// 2+2 GPUs, a NIC on NUMA 0.
Json Base(const char* policy = "restricted") {
  return Json::parse(R"({"id": 7, "numa": [{"id": 0}, {"id": 1}],
      "devices": {"gpu": [{"id": "g0", "numa": [0]}, {"id": "g1", "numa": [0]},
                          {"id": "g2", "numa": [1]}, {"id": "g3", "numa": [1]}],
                  "nic": [{"id": "n0", "numa": [0]}]},
      "steps": []})")
      .patch({{{"op", "add"}, {"path", "/topologyPolicy"}, {"value", policy}}});
}

Json AdmitStep(const std::string& name, const Json& limits) {
  return {{"admit",
           {{"name", name},
            {"containers", Json::array({{{"name", "c"}, {"resources", {{"limits", limits}}}}})}}}};
}

Json Ask(const Json& replayed) {
  return Json::parse(AnswerCase(replayed.dump()));
}

std::string ErrorOf(const Json& replayed) {
  const Json answer = Ask(replayed);
  EXPECT_FALSE(answer.contains("steps"));
  return answer.value("error", "");
}

std::string ErrorWith(const std::string& path, const Json& value) {
  Json replayed = Base();
  replayed[Json::json_pointer(path)] = value;
  return ErrorOf(replayed);
}

TEST(AnswerCase, SaysWhatEachStepDid) {
  Json replayed = Base();
  replayed["steps"] = {AdmitStep("p", {{"gpu", "2"}, {"nic", "1"}}), {{"remove", "p"}}};
  EXPECT_EQ(Ask(replayed), Json::parse(R"({"id": 7, "steps": [
      {"pod": "p", "admitted": true, "containers": [
          {"name": "c", "affinity": [0], "preferred": true,
           "devices": {"gpu": ["g0", "g1"], "nic": ["n0"]}}]},
      {}]})"));
}

TEST(AnswerCase, ARefusalHasTheKubeletsReason) {
  Json replayed = Base("single-numa-node");
  replayed["steps"] = Json::array({AdmitStep("p", {{"gpu", "3"}})});
  EXPECT_EQ(Ask(replayed)["steps"][0],
            Json::parse(R"({"pod": "p", "admitted": false, "reason": "TopologyAffinityError",
                            "reasons": ["TopologyAffinityError"]})"));
}

TEST(AnswerCase, CarriesEveryStateThatIsPossible) {
  Json replayed = Base();
  replayed["steps"] = {AdmitStep("p", {{"gpu", "3"}}),
                       AdmitStep("q", {{"gpu", "1"}, {"nic", "1"}}),
                       {{"remove", "p"}},
                       AdmitStep("r", {{"gpu", "1"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[0]["containers"][0]["devices"]["gpu"],
            Json::parse(R"([{"0": 1, "1": 2}, {"0": 2, "1": 1}])"));
  EXPECT_EQ(steps[1]["admitted"], nullptr);
  EXPECT_EQ(steps[1]["reasons"], Json::array({"TopologyAffinityError"}));
  EXPECT_FALSE(steps[1].contains("reason"));
  EXPECT_EQ(steps[1]["containers"][0]["affinity"], Json::array({0}));
  // Whether q holds the GPU is open, that one is free on NUMA 0 is not.
  EXPECT_EQ(steps[3]["admitted"], true);
  EXPECT_EQ(steps[3]["containers"][0]["affinity"], Json::array({0}));
}

TEST(AnswerCase, GoesOnFromWhatWasObserved) {
  Json replayed = Base();
  Json first = AdmitStep("p", {{"gpu", "3"}});
  first["observed"] = Json::parse(
      R"({"admitted": true, "containers": [{"name": "c", "devices": {"gpu": ["g0", "g2", "g3"]}}]})");
  const Json second = AdmitStep("q", {{"gpu", "1"}, {"nic", "1"}});
  replayed["steps"] = {first, second};
  EXPECT_EQ(Ask(replayed)["steps"][1]["admitted"], true);
  first["observed"]["containers"][0]["devices"]["gpu"] = {"g0", "g1", "g3"};
  replayed["steps"] = {first, second};
  EXPECT_EQ(Ask(replayed)["steps"][1]["admitted"], false);
  first["observed"] = {{"admitted", false}};
  replayed["steps"] = {first, second};
  EXPECT_EQ(Ask(replayed)["steps"][1]["admitted"], true);
}

// PodResources has an entry for each NUMA node of a device.
TEST(AnswerCase, ADeviceThatIsObservedTwiceIsOneDevice) {
  Json replayed = Base();
  replayed["devices"]["gpu"] = Json::parse(R"([{"id": "w", "numa": [0, 1]}])");
  Json first = AdmitStep("p", {{"gpu", "1"}});
  first["observed"] = Json::parse(
      R"({"admitted": true, "containers": [{"name": "c", "devices": {"gpu": ["w", "w"]}}]})");
  replayed["steps"] = {first, {{"remove", "p"}}, AdmitStep("q", {{"gpu", "1"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[2]["admitted"], true);
  EXPECT_EQ(steps[2]["containers"][0]["devices"]["gpu"], Json::array({"w"}));
}

// The kubelet did what the mirror held impossible, and nobody saw its books: the Pods that had left
// before are released all the same, and once.
TEST(AnswerCase, WhatHasLeftIsReleasedOnceWhateverIsObserved) {
  Json replayed = Base();
  for (Json& numa : replayed["numa"]) numa["memory"] = std::int64_t{8} << 30;
  replayed["memoryPolicy"] = "Static";
  replayed["reservedMemory"] = Json::parse(R"([{"numa": 0, "limits": {"memory": "1Gi"}}])");
  const Json guaranteed = {{"cpu", "1"}, {"memory", "1Gi"}};
  Json impossible = AdmitStep("q", {{"gpu", "1"}});
  impossible["observed"] = Json::parse(R"({"admitted": false})");
  replayed["steps"] = {
      AdmitStep("p", guaranteed), {{"remove", "p"}}, impossible, AdmitStep("r", {{"gpu", "1"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[0]["memoryState"][0]["assignments"], 1);
  EXPECT_EQ(steps[2]["admitted"], true);
  EXPECT_EQ(steps[3]["memoryState"][0]["assignments"], 0);
}

TEST(AnswerCase, AnObservationSettlesWhatWasOpenBefore) {
  // After p one GPU is free on NUMA 0 or on NUMA 1; q's success says which.
  Json replayed = Base();
  Json second = AdmitStep("q", {{"gpu", "1"}, {"nic", "1"}});
  second["observed"] = Json::parse(
      R"({"admitted": true, "containers": [{"name": "c", "devices": {"gpu": ["g1"], "nic": ["n0"]}}]})");
  replayed["steps"] = {
      AdmitStep("p", {{"gpu", "3"}}), second, {{"remove", "q"}}, AdmitStep("r", {{"gpu", "1"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[1]["admitted"], nullptr);
  EXPECT_EQ(steps[3]["containers"][0]["affinity"], Json::array({0}));
}

TEST(AnswerCase, DevicesThatWereHeldComeBackHeld) {
  Json replayed = Base();
  const Json all = replayed["devices"]["gpu"];
  const Json but_first = Json::array({all[1], all[2], all[3]});
  replayed["steps"] = {AdmitStep("p", {{"gpu", "4"}}), {{"devices", {{"gpu", but_first}}}},
                       AdmitStep("q", {{"gpu", "1"}}), {{"devices", {{"gpu", all}}}},
                       AdmitStep("r", {{"gpu", "1"}}), {{"remove", "p"}},
                       AdmitStep("s", {{"gpu", "4"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[0]["admitted"], true);
  EXPECT_EQ(steps[2]["admitted"], false);
  EXPECT_EQ(steps[4]["admitted"], false);
  EXPECT_EQ(steps[6]["admitted"], true);
}

TEST(AnswerCase, APluginThatIsGoneLeavesOnlyUnhealthyDevices) {
  Json replayed = Base("none");
  const Json gpus = replayed["devices"]["gpu"];
  replayed["steps"] = {{{"disconnect", "gpu"}},
                       AdmitStep("p", {{"gpu", "0"}}),
                       {{"devices", {{"gpu", gpus}}}},
                       AdmitStep("q", {{"gpu", "4"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[1]["reason"], "UnexpectedAdmissionError");
  EXPECT_EQ(steps[3]["admitted"], true);
}

TEST(AnswerCase, APreferenceMakesIdsExact) {
  Json replayed = Base("none");
  replayed["preferredAllocation"] = {{"gpu", {"g3"}}};
  replayed["steps"] = {AdmitStep("p", {{"gpu", "2"}}),
                       {{"prefer", {{"gpu", {"g2"}}}}},
                       AdmitStep("q", {{"gpu", "1"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[0]["containers"][0]["devices"]["gpu"], Json::array({"g0", "g3"}));
  EXPECT_EQ(steps[0]["containers"][0]["affinity"], nullptr);
  EXPECT_EQ(steps[2]["containers"][0]["devices"]["gpu"], Json::array({"g2"}));
}

TEST(AnswerCase, ClaimsNothingUntilALostPodIsGone) {
  // 10 + 10 of 20 + 20 over eight NUMA nodes: more states than are carried.
  Json replayed = {{"numa", Json::array()}, {"steps", Json::array()}};
  for (int node = 0; node < 8; ++node) {
    replayed["numa"].push_back({{"id", node}});
    for (int i = 0; i < 4; ++i) {
      const std::string id = std::to_string(node) + "-" + std::to_string(i);
      replayed["devices"]["gpu"].push_back({{"id", id}, {"numa", {node}}});
      replayed["devices"]["nic"].push_back({{"id", id}, {"numa", {node}}});
    }
  }
  replayed["steps"] = {AdmitStep("p", {{"gpu", "10"}, {"nic", "10"}}),
                       AdmitStep("q", {{"gpu", "1"}}),
                       {{"remove", "q"}},
                       {{"remove", "p"}},
                       AdmitStep("r", {{"gpu", "32"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[0]["admitted"], true);  // counts decide that
  EXPECT_FALSE(steps[0]["containers"][0].contains("devices"));
  EXPECT_EQ(steps[1]["admitted"], nullptr);
  EXPECT_EQ(steps[1]["settling"], true);
  EXPECT_EQ(steps[4]["admitted"], true);
}

TEST(AnswerCase, InitContainersAndSidecarsAreInKubeletOrder) {
  Json replayed = Base("single-numa-node");
  Json step = AdmitStep("p", {{"gpu", "1"}});
  step["admit"]["initContainers"] = {
      {{"name", "i"}, {"resources", {{"limits", {{"gpu", "1"}}}}}},
      {{"name", "s"}, {"restartPolicy", "Always"}, {"resources", {{"limits", {{"gpu", "1"}}}}}}};
  replayed["steps"] = Json::array({step});
  const Json containers = Ask(replayed)["steps"][0]["containers"];
  ASSERT_EQ(containers.size(), 3U);
  EXPECT_EQ(containers[0]["name"], "i");
  EXPECT_EQ(containers[1]["name"], "s");
  EXPECT_EQ(containers[2]["devices"]["gpu"], Json::parse(R"({"0": 1})"));
}

// One NUMA node, 4 CPUs, the first reserved, the rest for Pods of their own.
Json StaticCpus(const char* version = "v1.37.2") {
  Json replayed = Base("restricted");
  replayed["kubeletVersion"] = version;
  replayed["numa"][0]["cpus"] = {0, 1, 2, 3};
  replayed["numa"][0]["reservedCpus"] = {0};
  replayed["cpuPolicy"] = "static";
  return replayed;
}

Json Guaranteed(const std::string& name, const std::string& cpus) {
  return AdmitStep(name, {{"cpu", cpus}, {"memory", "1Gi"}});
}

TEST(AnswerCase, ARestartAdmitsActivePodsAgainOldestFirst) {
  Json replayed = StaticCpus();
  replayed["steps"] = {Guaranteed("z", "1"),           Guaranteed("b", "1"),
                       Guaranteed("gone", "1"),        {{"remove", "gone"}},
                       AdmitStep("a", {{"gpu", "2"}}), {{"restart", true}},
                       Guaranteed("next", "1")};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[5], Json::parse(R"({"restarted": true, "readmitted": [
      {"pod": "z", "admitted": true, "containers": [
          {"name": "c", "affinity": [0], "preferred": true, "cpus": "1"}]},
      {"pod": "b", "admitted": true, "containers": [
          {"name": "c", "affinity": [0], "preferred": true, "cpus": "2"}]},
      {"pod": "a", "admitted": false, "reason": "UnexpectedAdmissionError",
       "reasons": ["UnexpectedAdmissionError"]}],
      "defaultCpus": "0,3"})"))
      << steps[5];
  // What is gone is taken back only now.
  EXPECT_EQ(steps[6]["containers"][0]["cpus"], "3") << steps[6];
}

TEST(AnswerCase, APodThatRunsKeepsItsDevicesOverARestart) {
  Json replayed = Base();
  const Json list = {{"devices", {{"gpu", replayed["devices"]["gpu"]}}}};
  replayed["steps"] = {AdmitStep("p", {{"gpu", "4"}}),
                       {{"start", "p"}},
                       {{"restart", true}},
                       AdmitStep("early", {{"gpu", "1"}}),
                       list,
                       AdmitStep("none-left", {{"gpu", "1"}}),
                       {{"remove", "p"}},
                       AdmitStep("q", {{"gpu", "4"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[2]["readmitted"][0]["admitted"], true) << steps[2];
  EXPECT_FALSE(steps[2]["readmitted"][0]["containers"][0].contains("devices"));
  EXPECT_EQ(steps[3]["reason"], "UnexpectedAdmissionError") << steps[3];
  EXPECT_EQ(steps[5]["admitted"], false) << steps[5];
  EXPECT_EQ(steps[7]["admitted"], true) << steps[7];
}

TEST(AnswerCase, AKubeletThatDoesNotStartAgainEndsTheCase) {
  Json replayed = StaticCpus();
  replayed["cpuOptions"] = {{"strict-cpu-reservation", "true"}};
  replayed["steps"] = {Guaranteed("all", "3"), {{"restart", true}}, Guaranteed("p", "1")};
  const Json steps = Ask(replayed)["steps"];
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0]["defaultCpus"], "");
  EXPECT_EQ(steps[1], Json::parse(R"({"restarted": false})"));
}

TEST(AnswerCase, GoesOnFromAnObservedRestart) {
  Json replayed = StaticCpus();
  replayed["steps"] = {
      Guaranteed("p", "1"),
      {{"restart", true}, {"observed", Json::parse(R"({"restarted": true, "readmitted": [
            {"pod": "p", "admitted": false, "left": [{"name": "c", "cpus": "1"}]}]})")}},
      Guaranteed("q", "3")};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[1]["readmitted"][0]["admitted"], true);  // what it says itself
  EXPECT_EQ(steps[2]["containers"][0]["cpus"], "1-3") << steps[2];
}

TEST(AnswerCase, SaysNothingOfPodsThatMayNotHaveBeenActive) {
  // Where the first Pod's GPU is decides about the second Pod.
  Json replayed = Base("single-numa-node");
  replayed["numa"].push_back({{"id", 2}});
  replayed["devices"] =
      Json::parse(R"({"gpu": [{"id": "g0", "numa": null}, {"id": "g1", "numa": null}],
      "nic": [{"id": "n0", "numa": [0]}, {"id": "n1", "numa": [1]}]})");
  replayed["devices"]["gpu"][0]["numa"] = {0, 1};
  replayed["devices"]["gpu"][1]["numa"] = {0};
  replayed["steps"] = {AdmitStep("p", {{"gpu", "1"}}),
                       {{"start", "p"}},
                       AdmitStep("q", {{"gpu", "1"}, {"nic", "2"}}),
                       {{"restart", true}}};
  Json steps = Ask(replayed)["steps"];
  EXPECT_TRUE(steps[3].contains("readmitted")) << steps;
  replayed["steps"][2] = AdmitStep("q", {{"gpu", "1"}, {"nic", "1"}});
  replayed["devices"]["nic"][0]["numa"] = {1};
  steps = Ask(replayed)["steps"];
  ASSERT_TRUE(steps[2]["admitted"].is_null()) << steps;
  EXPECT_EQ(steps[3], Json::parse(R"({"restarted": true})")) << steps;
}

// What was observed is somebody's text, too.
TEST(CaseErrors, ObservedMemoryThatTheMachineHasNot) {
  const std::string before =
      R"({"numa": [{"id": 0, "cpus": [0, 1], "memory": 8589934592}], "topologyPolicy": "restricted",
          "memoryPolicy": "Static", "reservedMemory": [{"numa": 0, "limits": {"memory": "1Gi"}}],
          "steps": [{"admit": {"name": "p", "containers": [{"name": "c", "resources":
            {"limits": {"cpu": "1", "memory": "1Gi"}}}]}, "observed": {"pod": "p", "admitted": true,
            "containers": [{"name": "c", "affinity": [0], "preferred": true, "memory": [)";
  const auto error = [&](const std::string& block) {
    return Json::parse(AnswerCase(before + block + "]}]}}]}")).value("error", "");
  };
  EXPECT_EQ(error(R"({"type": "memory", "numa": [0], "size": 1073741824})"), "");
  EXPECT_THAT(error(R"({"type": "memor:y", "numa": [0], "size": 1073741824})"),
              HasSubstr("no memory of the type \"memor:y\""));
  EXPECT_THAT(error(R"({"type": "hugepages-2Mi", "numa": [0], "size": 1073741824})"),
              HasSubstr("hugepages-2Mi"));
  EXPECT_THAT(error(R"({"type": "memory", "numa": [5], "size": 1073741824})"),
              HasSubstr("NUMA node 5 has no memory"));
}

TEST(CaseErrors, NumbersThatCannotBe) {
  for (const char* line :
       {R"({"numa": [{"id": 0, "memory": 429e4967296}]})", "1e999", "[-1e999]"}) {
    const Json answer = Json::parse(AnswerCase(line));
    EXPECT_THAT(answer.value("error", ""), HasSubstr("number overflow")) << line;
  }
}

TEST(CaseErrors, GatesThatTheMirrorGoesBy) {
  Json replayed = StaticCpus("v1.36.3");
  replayed["featureGates"] = {{"PodLevelResourceManagers", true}};
  replayed["steps"] = Json::array({Guaranteed("p", "1")});
  EXPECT_TRUE(Ask(replayed).contains("steps"));
  replayed["steps"][0]["admit"]["resources"] = {{"limits", {{"cpu", "2"}, {"memory", "1Gi"}}}};
  EXPECT_TRUE(Ask(replayed).contains("steps"));
  replayed["topologyPolicy"] = "restricted";
  replayed["scope"] = "pod";
  replayed["devices"] = Json::parse(R"({"gpu": [{"id": "g0"}]})");
  EXPECT_TRUE(Ask(replayed).contains("steps")) << "it asks for no device";
  replayed["steps"][0]["admit"]["containers"][0]["resources"]["limits"]["gpu"] = "0";
  EXPECT_TRUE(Ask(replayed).contains("steps"));
  replayed["steps"][0]["admit"]["containers"][0]["resources"]["limits"]["gpu"] = "1";
  EXPECT_THAT(ErrorOf(replayed), HasSubstr("steps[0].admit.resources: with the gate"));
  replayed["featureGates"] = {{"AllAlpha", true}};
  EXPECT_THAT(ErrorOf(replayed), HasSubstr("PodLevelResourceManagers"));
  replayed["featureGates"] = {{"PodLevelResourceManagers", false}};
  EXPECT_TRUE(Ask(replayed).contains("steps"));
  replayed["featureGates"] = {{"PodLevelResourceManagers", true}, {"PodLevelResources", false}};
  EXPECT_THAT(ErrorOf(replayed), HasSubstr("without PodLevelResources"));
  replayed["kubeletVersion"] = "v1.35.4";
  EXPECT_THAT(ErrorOf(replayed), HasSubstr("no such gate"));

  Json options = Base();
  options["kubeletVersion"] = "v1.34.4";
  options["options"] = {{"max-allowable-numa-nodes", "9"}};
  options["featureGates"] = {{"TopologyManagerPolicyBetaOptions", false}};
  EXPECT_THAT(ErrorOf(options), HasSubstr("TopologyManagerPolicyBetaOptions"));
  options["kubeletVersion"] = "v1.35.4";
  EXPECT_TRUE(Ask(options).contains("steps"));
}

TEST(CaseErrors, NameTheKeyAndTheValue) {
  EXPECT_THAT(AnswerCase("{"), HasSubstr("\"error\""));
  EXPECT_THAT(ErrorOf(Json::array()), HasSubstr("an object is wanted"));
  EXPECT_THAT(ErrorOf({{"numa", Json::array({{{"id", 0}}})}}), HasSubstr("\"steps\" is missing"));
  EXPECT_THAT(ErrorWith("/topologypolicy", "none"), HasSubstr("unknown key \"topologypolicy\""));
  EXPECT_THAT(ErrorWith("/topologyPolicy", "strict"), HasSubstr("\"strict\""));
  EXPECT_THAT(ErrorWith("/kubeletVersion", "v1.20.0"), HasSubstr("v1.20.0"));
  EXPECT_THAT(ErrorWith("/numa/0/id", 64), HasSubstr("numa[0].id: 64 is not in 0..63"));
  EXPECT_THAT(ErrorWith("/numa/0/id", 1), HasSubstr("id 1 is there twice"));
  EXPECT_THAT(ErrorWith("/numa/0/color", "red"), HasSubstr("numa[0]: unknown key \"color\""));
  EXPECT_THAT(ErrorWith("/devices/gpu/0/id", "g1"), HasSubstr("\"g1\" is empty or there twice"));
  EXPECT_THAT(ErrorWith("/devices/gpu/0/healthy", 1), HasSubstr("true or false is wanted"));
  EXPECT_THAT(ErrorWith("/options", {{"max-allowable-numa-nodes", "7"}}), HasSubstr("\"7\""));
  EXPECT_THAT(ErrorWith("/options", {{"prefer-closest-numa-nodes", "true"}}),
              HasSubstr("needs distances"));
  EXPECT_THAT(ErrorWith("/options", {{"colour", "red"}}), HasSubstr("no such option"));
}

TEST(CaseErrors, NameTheStep) {
  const auto error_of = [](const Json& steps) {
    Json replayed = Base();
    replayed["steps"] = steps;
    return ErrorOf(replayed);
  };
  EXPECT_THAT(error_of({{{"remove", "p"}}}), HasSubstr("steps[0].remove: no Pod \"p\""));
  EXPECT_THAT(error_of(Json::array({Json::object()})), HasSubstr("steps[0]: one of admit, remove"));
  EXPECT_THAT(error_of({{{"disconnect", "fpga"}}}), HasSubstr("no resource \"fpga\""));
  EXPECT_THAT(error_of({{{"restart", false}}}), HasSubstr("steps[0].restart: true is wanted"));
  const Json twice = AdmitStep("p", Json::object());
  EXPECT_THAT(error_of({twice, twice}), HasSubstr("steps[1].admit: Pod \"p\" was admitted before"));
  EXPECT_THAT(error_of(Json::array({AdmitStep("p", {{"gpu", "many"}})})), HasSubstr("many"));
  EXPECT_THAT(error_of(Json::array({AdmitStep("p", {{"gpu", "-1"}})})), HasSubstr("below zero"));
  Json observed = AdmitStep("p", {{"gpu", "1"}});
  observed["observed"] = Json::parse(
      R"({"admitted": true, "containers": [{"name": "c", "devices": {"gpu": ["g9"]}}]})");
  EXPECT_THAT(error_of(Json::array({observed})),
              HasSubstr("steps[0]: observed: gpu has no device \"g9\""));
}

TEST(CaseErrors, SayWhyAKubeletWouldNotStart) {
  EXPECT_THAT(ErrorWith("/cpuPolicy", "static"), HasSubstr("no CPU"));
  EXPECT_THAT(ErrorWith("/memoryPolicy", "Static"), HasSubstr("reservedMemory"));
  Json off = Base();
  off["cpuPolicy"] = "none";
  off["memoryPolicy"] = "None";
  off["numa"][0]["cpus"] = {0, 1};
  EXPECT_TRUE(Ask(off).contains("steps"));
}

TEST(CaseErrors, WithPolicyNoneScopeAndOptionsAreNotLookedAt) {
  Json replayed = Base("none");
  replayed["scope"] = "node";
  replayed["options"] = {{"colour", "red"}};
  EXPECT_TRUE(Ask(replayed).contains("steps"));
}

TEST(RunAdmit, AnswersLineByLineAndKeepsGoingAfterAnError) {
  std::istringstream in("{\"id\":\"a\"}\n\n" + Base().dump() + "\n");
  std::ostringstream out;
  EXPECT_EQ(RunAdmit(in, out), 0);
  std::istringstream lines(out.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(Json::parse(line)["id"], "a");
  EXPECT_TRUE(Json::parse(line).contains("error"));
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, R"({"id":7,"steps":[]})");
  EXPECT_FALSE(std::getline(lines, line));
}

// Four NUMA nodes with four cores of two threads, a CPU of each reserved: the search for 22 CPUs
// in whole cores, spread evenly, never ends (policy/cpu_manager/distribution.cc).
Json WithEndlessSearch() {
  Json numa = Json::array();
  for (int id = 0; id < 4; ++id) {
    Json cpus = Json::array();
    for (int core = 4 * id; core < 4 * id + 4; ++core) {
      cpus.push_back(core);
      cpus.push_back(core + 16);
    }
    numa.push_back({{"id", id}, {"cpus", cpus}, {"threadsPerCore", 2}, {"reservedCpus", {4 * id}}});
  }
  return {{"numa", numa},
          {"cpuPolicy", "static"},
          {"cpuOptions", {{"full-pcpus-only", "true"}, {"distribute-cpus-across-numa", "true"}}},
          {"steps", Json::array()}};
}

TEST(AnswerCase, ASearchThatNeverEndsIsUnsupported) {
  Json replayed = WithEndlessSearch();
  replayed["steps"] = {AdmitStep("many", {{"cpu", "22"}, {"memory", "1Gi"}}),
                       AdmitStep("few", {{"cpu", "2"}, {"memory", "1Gi"}})};
  const Json steps = Ask(replayed)["steps"];
  EXPECT_EQ(steps[0], Json::parse(R"({"pod": "many", "admitted": null, "unsupported": true,
                                      "endless": true})"));
  EXPECT_EQ(steps[1]["settling"], true);
}

TEST(AnswerCase, APodAsAWholeGoesOnFromWhatWasObserved) {
  Json replayed = StaticCpus("v1.37.2");
  replayed["featureGates"] = {{"PodLevelResourceManagers", true}};
  replayed["topologyPolicy"] = "restricted";
  replayed["scope"] = "pod";
  replayed["steps"] =
      Json::array({Guaranteed("p", "1"), Json{{"remove", "p"}}, Guaranteed("q", "1")});
  replayed["steps"][0]["admit"]["resources"] = {{"limits", {{"cpu", "2"}, {"memory", "1Gi"}}}};
  const Json own = Ask(replayed)["steps"];
  ASSERT_TRUE(own[0].contains("podCpus")) << own;
  const std::string all = own[2]["defaultCpus"];
  // Not what the kubelet would do; but it was seen to.
  Json seen = own[0];
  seen["podCpus"] = "2-3";
  seen["defaultCpus"] = "0-1";
  seen["containers"][0]["cpus"] = "2";
  replayed["steps"][0]["observed"] = seen;
  EXPECT_EQ(Ask(replayed)["steps"][2]["defaultCpus"], all) << "all of it came back";
}

TEST(AnswerCase, APodThatIsNotMirroredIsUnsupported) {
  Json replayed = Base();
  replayed["topologyPolicy"] = "restricted";
  replayed["scope"] = "pod";
  replayed["featureGates"] = {{"PodLevelResourceManagers", true}};
  replayed["kubeletVersion"] = "v1.36.3";
  replayed["steps"] = Json::array({AdmitStep("p", {{"gpu", "1"}})});
  replayed["steps"][0]["admit"]["resources"] = {{"limits", {{"cpu", "1"}}}};
  const Json answer = Ask(replayed);
  EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr("cannot be judged"));
  EXPECT_EQ(answer["unsupported"], true);
}

TEST(AnswerCase, HugepagesThatAWholePodHasNoneOfAreUnsupported) {
  Json replayed = Base();
  replayed["topologyPolicy"] = "restricted";
  replayed["featureGates"] = {{"PodLevelResourceManagers", true}};
  replayed["kubeletVersion"] = "v1.36.3";
  replayed["steps"] =
      Json::array({AdmitStep("p", {{"cpu", "1"}, {"memory", "1"}, {"hugepages-1Gi", "1Gi"}})});
  for (const char* own : {"", "0", "1Gi"}) {
    Json limits = {{"cpu", "1"}, {"memory", "1"}};
    if (*own != 0) limits["hugepages-1Gi"] = own;
    replayed["steps"][0]["admit"]["resources"] = {{"limits", limits}};
    replayed["scope"] = "pod";
    const Json answer = Ask(replayed);
    replayed["scope"] = "container";
    EXPECT_FALSE(Ask(replayed).contains("error"));
    if (std::string_view(own) == "1Gi") {
      EXPECT_FALSE(answer.contains("error"));
      continue;
    }
    EXPECT_THAT(answer["error"].get<std::string>(),
                HasSubstr("asks for hugepages-1Gi, of which the Pod as a whole has none"));
    EXPECT_EQ(answer["unsupported"], true);
  }
}

TEST(AnswerCase, APodWithoutContainersIsRefused) {
  Json replayed = Base();
  replayed["steps"] = Json::array({AdmitStep("p", {})});
  Json& pod = replayed["steps"][0]["admit"];
  pod["initContainers"] = pod["containers"];
  for (const bool is_there : {true, false}) {
    pod["containers"] = Json::array();
    if (!is_there) pod.erase("containers");
    const Json answer = Ask(replayed);
    EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr("has no containers"));
    EXPECT_FALSE(answer.contains("unsupported"));
  }
}

}  // namespace
}  // namespace numafit::cli
