// The index remembers what it has counted, so it is told of Workloads and Pods in random orders and
// compared with one that was told everything at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test/workloads/objects.h"
#include "workloads/workload_index.h"

namespace numafit::workloads {
namespace {

using test::kAdmitted;

constexpr char kWorkload[] = "kueue.x-k8s.io/workload";
constexpr char kSlice[] = "kueue.x-k8s.io/workload-slice-name";
constexpr char kGroup[] = "kueue.x-k8s.io/pod-group-name";

std::string Describe(const WorkloadStatus& status) {
  std::ostringstream out;
  out << status.FullName() << ' ' << status.uid << ' ' << PhaseName(status.phase) << ' '
      << status.admitted_since << ' ' << status.expected << ' ' << status.missing << ' '
      << status.accelerators << ' ' << status.has_owner;
  for (const int count : status.pods) out << ' ' << count;
  for (const Blocked& each : status.blocked) {
    out << "\n  " << each.pod_set << ' ' << PodStateName(each.state) << ' ' << each.pinned_node
        << ' ' << each.pinned_by_topology << ' ' << each.pods << ' ' << each.since << ' '
        << each.example << ' ' << each.message << ' '
        << (each.demand == nullptr ? std::string() : each.demand->Fingerprint());
  }
  out << '\n';
  return out.str();
}

std::string Describe(const QuotaHolder& holder) {
  std::ostringstream out;
  out << holder.FullName() << ' ' << holder.uid << ' ' << holder.admitted << ' '
      << holder.quota_since;
  for (const PodsToPlace& each : holder.to_place) {
    out << "\n  " << each.pod_set << ' ' << each.pods << ' ' << each.demand->Fingerprint();
    for (const auto& [key, value] : each.node_selector) out << ' ' << key << '=' << value;
  }
  out << '\n';
  return out.str();
}

class News {
 public:
  explicit News(unsigned seed) : random_(seed) {}

  // One thing happens to the objects, and the index is told.
  void Next(WorkloadIndex& index) {
    switch (Some(8)) {
      case 0:
      case 1: {
        api::Workload workload = SomeWorkload();
        workloads_[workload.metadata.uid] = workload;
        index.UpsertWorkload(workload);
        break;
      }
      case 2: {
        const std::string uid = "workload-" + std::to_string(Some(6));
        workloads_.erase(uid);
        index.DeleteWorkload(uid);
        break;
      }
      case 3: {
        const std::string uid = PodUid(Some(10));
        pods_.erase(uid);
        index.DeletePod(uid);
        break;
      }
      case 4:
        if (Some(10) == 0) {
          for (int i = 0; i < 3; ++i) workloads_.erase("workload-" + std::to_string(Some(6)));
          index.ReplaceWorkloads(Workloads());
        } else if (Some(10) == 0) {
          for (int i = 0; i < 4; ++i) pods_.erase(PodUid(Some(10)));
          index.ReplacePods(Pods());
        }
        break;
      default: {
        const api::Pod pod = SomePod();
        pods_[pod.metadata.uid] = FactsOf(pod, classes_, {});
        index.UpsertPod(pods_[pod.metadata.uid]);
      }
    }
  }

  // What an index says that is told how things are now.
  [[nodiscard]] std::string Truth() const {
    WorkloadIndex index{classes_};
    index.ReplacePods(Pods());
    index.ReplaceWorkloads(Workloads());
    return Says(index);
  }
  [[nodiscard]] std::string Says(const WorkloadIndex& index) const {
    std::string text;
    for (const WorkloadStatus& status : index.Statuses()) text += Describe(status);
    for (const QuotaHolder& holder : index.QuotaHolders()) text += Describe(holder);
    for (const auto& [uid, facts] : pods_) text += uid + " is of " + index.WorkloadOf(uid) + '\n';
    return text;
  }

 private:
  int Some(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  static std::string PodUid(int pod) { return "uid-of-a-pod-" + std::to_string(pod); }
  std::string SomeName() { return "name-" + std::to_string(Some(6)); }
  std::string SomeOwner() {
    return Some(3) == 0 ? PodUid(Some(10)) : "owner-" + std::to_string(Some(3));
  }

  api::Workload SomeWorkload() {
    // A uid has one name for ever; two uids may have the same.
    const int number = Some(6);
    api::Workload workload = test::WorkloadOf("name-" + std::to_string(number % 5), 3, 2, 1);
    workload.metadata.uid = "workload-" + std::to_string(number);
    workload.metadata.namespace_ = number == 3 ? "other" : "default";
    workload.metadata.creation_time = kAdmitted - Some(3);
    workload.metadata.owners.clear();
    for (int i = Some(3); i > 0; --i) {
      workload.metadata.owners.push_back({.kind = "Job", .name = "x", .uid = SomeOwner()});
    }
    if (Some(4) == 0) workload.metadata.annotations[kSlice] = SomeName();
    if (Some(4) > 0) workload = test::Admitted(workload, kAdmitted + Some(3));
    if (!workload.assignments.empty() && Some(2) == 0) {
      api::PodSetAssignment& assignment = workload.assignments.front();
      assignment.has_topology = true;
      assignment.levels = {"kubernetes.io/hostname"};
      assignment.domains = {{.values = {"n0"}, .count = 2}, {.values = {"n1"}, .count = 1}};
    }
    if (Some(5) == 0) test::SetCondition(workload, "Finished", true);
    return workload;
  }

  api::Pod SomePod() {
    const int number = Some(10);
    const int devices = 1 + Some(2);
    api::Pod pod = test::PodOf("pod-" + std::to_string(number), devices, 1);
    pod.metadata.uid = PodUid(number);
    pod.metadata.namespace_ = number == 7 ? "other" : "default";
    pod.metadata.creation_time = kAdmitted + Some(4);
    if (Some(4) == 0) pod.metadata.annotations[kSlice] = SomeName();
    if (Some(3) == 0) pod.metadata.annotations[kWorkload] = SomeName();
    if (Some(4) == 0) pod.metadata.labels[kGroup] = SomeName();
    for (int i = Some(3); i > 0; --i) pod = test::OwnedBy(std::move(pod), "Job", SomeOwner());
    if (Some(4) == 0) pod.node_selector["kubernetes.io/hostname"] = "n" + std::to_string(Some(2));
    switch (Some(4)) {
      case 0:
        return test::Tried(std::move(pod));
      case 1:
        return test::RefusedBy(std::move(pod), "n0");
      case 2:
        return test::On(std::move(pod), "n0");
      default:
        return pod;
    }
  }

  [[nodiscard]] std::vector<api::Workload> Workloads() const {
    std::vector<api::Workload> all;
    for (const auto& [uid, workload] : workloads_) all.push_back(workload);
    return all;
  }
  [[nodiscard]] std::vector<PodFacts> Pods() const {
    std::vector<PodFacts> all;
    for (const auto& [uid, facts] : pods_) all.push_back(facts);
    return all;
  }

  const api::ResourceClasses classes_;
  std::mt19937 random_;
  std::map<std::string, api::Workload> workloads_;
  std::map<std::string, PodFacts> pods_;
};

TEST(WorkloadIndexNews, WhateverTheOrderItSaysWhatIsTrue) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    News news(seed);
    WorkloadIndex index{api::ResourceClasses()};
    std::string before = news.Says(index);
    std::uint64_t seen = index.version();
    for (int step = 0; step < 150; ++step) {
      news.Next(index);
      const bool changed = std::exchange(seen, index.version()) != index.version();
      const std::string now = news.Says(index);
      ASSERT_EQ(now, news.Truth()) << "seed " << seed << ", step " << step;
      // The Pods that are asked about are not part of what it tells.
      const auto statuses = [](const std::string& text) {
        return text.substr(0, text.find("uid-of"));
      };
      if (!changed) {
        ASSERT_EQ(statuses(now), statuses(before)) << "seed " << seed << ", step " << step;
      }
      before = now;
    }
  }
}

TEST(WorkloadIndexNews, WhatSaysNothingNewIsNoChange) {
  WorkloadIndex index{api::ResourceClasses()};
  std::uint64_t seen = index.version();
  const auto changed = [&] { return std::exchange(seen, index.version()) != index.version(); };
  index.UpsertWorkload(test::Admitted(test::WorkloadOf("a", 2, 1, 1)));
  const api::Pod runs = test::Annotated(test::On(test::PodOf("p", 1, 1), "n0"), kWorkload, "a");
  const api::Pod waits = test::Annotated(test::Tried(test::PodOf("q", 1, 1)), kWorkload, "a");
  index.UpsertPod(FactsOf(runs, api::ResourceClasses(), {}));
  index.UpsertPod(FactsOf(waits, api::ResourceClasses(), {}));
  EXPECT_TRUE(changed());
  EXPECT_FALSE(changed());
  // Their status was written again.
  index.UpsertPod(FactsOf(runs, api::ResourceClasses(), {}));
  index.UpsertPod(FactsOf(waits, api::ResourceClasses(), {}));
  EXPECT_FALSE(changed());
  // Nobody's.
  index.UpsertPod(FactsOf(test::PodOf("foreign", 1, 1), api::ResourceClasses(), {}));
  index.DeletePod("uid-foreign");
  EXPECT_FALSE(changed());
  index.UpsertPod(FactsOf(test::On(waits, "n1"), api::ResourceClasses(), {}));
  EXPECT_TRUE(changed());
  index.DeletePod("uid-q");
  EXPECT_TRUE(changed());
}

}  // namespace
}  // namespace numafit::workloads
