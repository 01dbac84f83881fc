// Moments of a real Kueue (testdata/README.md): each Pod finds its Workload, each Workload is in
// the phase that it was in, and both versions of the API say the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/pod_json.h"
#include "test/paths.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {
namespace {

using nlohmann::json;

std::string Folder() {
  return numafit::test::SourceDir() + "/test/workloads/testdata";
}

json Read(const std::string& name) {
  std::ifstream file(Folder() + "/" + name + ".json");
  EXPECT_TRUE(file.is_open()) << name;
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

std::vector<api::Workload> WorkloadsIn(const json& moment, const char* key) {
  std::vector<api::Workload> workloads;
  for (const json& object : moment.value(key, json::array())) {
    absl::StatusOr<api::Workload> workload = api::WorkloadFromJsonValue(object);
    EXPECT_TRUE(workload.ok()) << workload.status();
    if (workload.ok()) workloads.push_back(*std::move(workload));
  }
  return workloads;
}

struct Moment {
  WorkloadIndex index{api::ResourceClasses()};
  std::vector<api::Pod> pods;
};

Moment Load(const json& recorded, const char* key = "workloads") {
  Moment moment;
  moment.index.ReplaceWorkloads(WorkloadsIn(recorded, key));
  for (const json& object : recorded.value("pods", json::array())) {
    absl::StatusOr<api::Pod> pod = api::PodFromJsonValue(object);
    EXPECT_TRUE(pod.ok()) << pod.status();
    if (!pod.ok()) continue;
    moment.index.UpsertPod(FactsOf(*pod, api::ResourceClasses(), {}));
    moment.pods.push_back(*std::move(pod));
  }
  return moment;
}

std::string Describe(const WorkloadStatus& status) {
  std::string text = std::string(PhaseName(status.phase)) + " " + std::to_string(status.expected);
  for (int i = 0; i < kPodStates; ++i) {
    const int count = status.pods[static_cast<std::size_t>(i)];
    if (count == 0) continue;
    text += " " + std::to_string(count) + " " + std::string(PodStateName(static_cast<PodState>(i)));
  }
  if (status.missing > 0) text += " " + std::to_string(status.missing) + " missing";
  return text;
}

TEST(RecordedWorkloads, EachMomentIsWhatItWas) {
  const std::map<std::string, std::vector<std::string>> moments = {
      {"job-unschedulable", {"admitted 1 1 unschedulable"}},
      {"job-running", {"admitted 1 1 placed"}},
      {"job-waiting-for-quota", {"pending 1 1 missing"}},
      {"job-uncovered-resource", {"pending 1 1 missing"}},
      {"job-finished", {"finished 1 1 ended"}},
      {"job-of-eight", {"admitted 8 1 unschedulable 7 placed"}},
      {"job-partial", {"admitted 3 3 placed"}},
      {"multikueue-by-hand", {"elsewhere 1 1 unschedulable"}},
      {"plain-pod-gated", {"pending 1 1 gated"}},
      {"plain-pod-running", {"admitted 1 1 placed"}},
      {"pod-group-running", {"admitted 3 3 placed"}},
      {"statefulset-running", {"admitted 2 2 placed"}},
      {"check-pending", {"pending 1 1 missing"}},
      {"check-rejected", {"inactive 1 1 missing"}},
      {"ready-evicted", {"evicted 1 1 missing"}},
      {"ready-deactivated", {"inactive 1 1 missing"}},
  };
  for (const auto& [name, wanted] : moments) {
    std::vector<std::string> got;
    for (const WorkloadStatus& status : Load(Read(name)).index.Statuses()) {
      got.push_back(Describe(status));
    }
    EXPECT_EQ(got, wanted) << name;
  }
}

TEST(RecordedWorkloads, EveryPodFindsTheWorkloadThatKueueNames) {
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(Folder())) {
    if (file.path().extension() != ".json") continue;
    const std::string name = file.path().stem();
    const Moment moment = Load(Read(name));
    std::map<std::string, std::string> uids;
    for (const api::Workload& workload : WorkloadsIn(Read(name), "workloads")) {
      uids[workload.metadata.name] = workload.metadata.uid;
    }
    for (const api::Pod& pod : moment.pods) {
      const auto named = pod.metadata.annotations.find("kueue.x-k8s.io/workload");
      if (named == pod.metadata.annotations.end() || !uids.contains(named->second)) continue;
      ++found;
      EXPECT_EQ(moment.index.WorkloadOf(pod.metadata.uid), uids[named->second])
          << name << " " << pod.metadata.name;
      // Without the annotation (topology-aware scheduling switched off) the owner leads there, but
      // for Pods whose owner has an owner itself, and for those that a test made for a bare
      // Workload.
      api::Pod plain = pod;
      plain.metadata.annotations.erase("kueue.x-k8s.io/workload");
      Moment again = Load(Read(name));
      again.index.UpsertPod(FactsOf(plain, api::ResourceClasses(), {}));
      const std::string by_owner = again.index.WorkloadOf(pod.metadata.uid);
      if (name != "owner-chain" && name != "bare-workload") {
        EXPECT_EQ(by_owner, uids[named->second]) << name << " " << pod.metadata.name;
      }
    }
  }
  EXPECT_GT(found, 40);
}

TEST(RecordedWorkloads, TheOwnersOfOwnersLeadThereWhereNoPodNamesIt) {
  const json recorded = Read("owner-chain");
  std::map<std::string, std::optional<api::OwnerReference>> controllers;
  for (const json& object : recorded["owners"]) {
    const absl::StatusOr<api::ObjectMeta> meta = api::ObjectMetaFromJsonValue(object);
    ASSERT_TRUE(meta.ok()) << meta.status();
    controllers[meta->uid] = std::nullopt;
    for (const api::OwnerReference& owner : meta->owners) controllers[meta->uid] = owner;
  }
  Moment moment = Load(recorded);
  std::vector<WorkloadStatus> statuses = moment.index.Statuses();
  EXPECT_EQ(Describe(statuses.front()), "admitted 2 2 missing");
  std::vector<std::string> asked;
  for (int i = 0; i < 10; ++i) {
    statuses = moment.index.Statuses();
    for (const OwnerQuestion& question : moment.index.OwnersToRead(10, 0, &statuses)) {
      asked.push_back(question.owner.api_version + " " + question.owner.kind);
      moment.index.LearnOwner(question, controllers[question.owner.uid], 0);
    }
  }
  EXPECT_EQ(asked, std::vector<std::string>{"batch/v1 Job"});
  EXPECT_EQ(Describe(moment.index.Statuses().front()), "admitted 2 2 placed");
}

TEST(RecordedWorkloads, BothVersionsSayTheSame) {
  int compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(Folder())) {
    const std::string name = file.path().stem();
    if (file.path().extension() != ".json") continue;
    const json recorded = Read(name);
    if (!recorded.contains("workloadsV1beta1")) continue;
    const auto now = Load(recorded).index.Statuses();
    const auto before = Load(recorded, "workloadsV1beta1").index.Statuses();
    ASSERT_EQ(now.size(), before.size()) << name;
    for (std::size_t i = 0; i < now.size(); ++i) {
      EXPECT_EQ(Describe(now[i]), Describe(before[i])) << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

TEST(RecordedWorkloads, APodPinnedByTopologyIsKnownAsSuch) {
  for (const WorkloadStatus& status : Load(Read("tas-pinned-full")).index.Statuses()) {
    for (const Blocked& blocked : status.blocked) {
      EXPECT_NE(blocked.pinned_node, "");
      EXPECT_TRUE(blocked.pinned_by_topology);
    }
  }
}

}  // namespace
}  // namespace numafit::workloads
