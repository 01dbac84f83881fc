#include "test/bench/workload_load.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "test/bench/api_stub.h"
#include "test/bench/made_up_nodes.h"
#include "test/kube/encode.h"

namespace numafit::bench {
namespace {

constexpr int kMix = 20;
constexpr std::size_t kQueues = 8;
constexpr std::int64_t kLongAgo = 1'795'991'000;

enum class Story { kRuns, kBlocked, kWaitsForQuota, kGoesRound };
enum class Stage { kPending, kAdmitted, kEvicted };

struct WorkloadState {
  Story story = Story::kRuns;
  Stage stage = Stage::kPending;
  std::int64_t admitted = 0;
  int devices = 1;  // of each Pod
  bool pinned = false;
  bool refused = false;  // a scheduler has tried its Pods
};

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string TimeText(std::int64_t seconds) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

WorkloadState StateOf(int index, bool goes_round) {
  WorkloadState state;
  state.devices = 2 + index / kMix % 3;
  state.pinned = index / kMix % 2 == 0;
  if (goes_round) {
    state.story = Story::kGoesRound;
  } else if (index % kMix == 0) {
    state.story = Story::kBlocked;
    state.refused = true;
  } else if (index % kMix == 1) {
    state.story = Story::kWaitsForQuota;
  } else {
    state.devices = 1;
    state.pinned = false;
  }
  if (state.story == Story::kRuns || state.story == Story::kBlocked) {
    state.stage = Stage::kAdmitted;
    state.admitted = kLongAgo;
  }
  return state;
}

std::string ConditionJson(std::string_view type, bool is_true, std::int64_t since) {
  return fmt::format(
      R"({{"type":"{}","status":"{}","lastTransitionTime":"{}","reason":"{}","message":"",)"
      R"("observedGeneration":1}})",
      type, is_true ? "True" : "False", TimeText(since), type);
}

std::string QueueJson(std::size_t index) {
  return fmt::format(
      R"({{"metadata":{{"name":"gpus-{0}","uid":"queue-{0}","resourceVersion":"1"}},"spec":{{)"
      R"("resourceGroups":[{{"coveredResources":["nvidia.com/gpu"],"flavors":[{{"name":"h100",)"
      R"("resources":[{{"name":"nvidia.com/gpu","nominalQuota":"8000"}}]}}]}}]}}}})",
      index);
}

std::string NameOfWorkload(int index) {
  return fmt::format("job-train-{:05}-1a2b3", index);
}

}  // namespace

class WorkloadLoad::Impl {
 public:
  Impl(int count, int pods_each) : pods_each_(pods_each) {
    int running = 0;
    for (int i = 0; i < count + count / kMix; ++i) {
      workloads_.push_back(StateOf(i, /*goes_round=*/i >= count));
      running += workloads_.back().story == Story::kRuns ? pods_each : 0;
      if (workloads_.back().story == Story::kBlocked) ++blocked_;
      if (i >= count) round_.push_back(i);
    }
    // 7.5 of 8 devices in use.
    nodes_.resize(static_cast<std::size_t>(running) * 2 / 15 + 1);
    PlaceAll();
    Serve();
  }

  [[nodiscard]] int port() const { return api_.port(); }
  [[nodiscard]] int nodes() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int pods() {
    const std::lock_guard lock(api_.mutex());
    int sum = 0;
    for (const NodeLoad& node : nodes_) sum += static_cast<int>(node.pods.size());
    for (std::size_t i = 0; i < workloads_.size(); ++i) sum += HasWaitingPods(i) ? pods_each_ : 0;
    return sum;
  }
  [[nodiscard]] int blocked() const { return blocked_; }
  [[nodiscard]] int going_round() const { return static_cast<int>(round_.size()); }
  [[nodiscard]] std::string NameOf(int one) const {
    return "team-a/" + NameOfWorkload(round_[static_cast<std::size_t>(one)]);
  }
  [[nodiscard]] bool watched(bool workloads) const {
    return api_.watched(pods_) && api_.watched(reports_) &&
           (!workloads || api_.watched(workload_kind_));
  }

  void Admit(int one) {
    const std::lock_guard lock(api_.mutex());
    WorkloadState& state = StateOfRound(one);
    state.stage = Stage::kAdmitted;
    state.admitted = Now();
    state.refused = false;
    SendWorkload(one);
    SendPods(one, "ADDED");
  }
  void Refuse(int one) {
    const std::lock_guard lock(api_.mutex());
    StateOfRound(one).refused = true;
    SendPods(one, "MODIFIED");
  }
  void Evict(int one) {
    const std::lock_guard lock(api_.mutex());
    WorkloadState& state = StateOfRound(one);
    state.stage = Stage::kEvicted;
    SendWorkload(one);
    SendPods(one, "DELETED");
    state.stage = Stage::kPending;
    SendWorkload(one);
  }
  void Touch() {
    const std::lock_guard lock(api_.mutex());
    const std::size_t node = random_() % nodes_.size();
    const std::vector<PodLoad>& pods = nodes_[node].pods;
    if (pods.empty()) return;
    const PodLoad& pod = pods[random_() % pods.size()];
    SendPod("MODIFIED", PodOf(pod, static_cast<int>(node), ++version_));
  }

 private:
  void PlaceAll() {
    std::size_t node = 0;
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      if (workloads_[i].story != Story::kRuns) continue;
      for (int k = 0; k < pods_each_; ++k) {
        nodes_[node].Add({.serial = SerialOf(i, k), .devices = 1});
        node = (node + 1) % nodes_.size();
      }
    }
  }

  void Serve() {
    const auto nodes = [this] { return nodes_.size(); };
    // Nodes with what runs there, then Workloads with what waits.
    pods_ = api_.Serve(
        "/api/v1/pods", ApiStub::Encoding::kProtobuf,
        [this] { return nodes_.size() + workloads_.size(); },
        [this](auto begin, auto end, const auto& next) { return ListPods(begin, end, next); });
    reports_ = api_.Serve("/apis/numafit.io/v1alpha1/nodereports", ApiStub::Encoding::kJson, nodes,
                          [this](auto begin, auto end, const auto& next) {
                            std::vector<std::string> items;
                            for (std::size_t i = begin; i < end; ++i) {
                              items.push_back(MakeReport(static_cast<int>(i), nodes_[i], version_));
                            }
                            return EncodeJsonList("NodeReportList", items, version_, next);
                          });
    workload_kind_ = api_.Serve(
        "/apis/kueue.x-k8s.io/v1beta2/workloads", ApiStub::Encoding::kJson,
        [this] { return workloads_.size(); },
        [this](auto begin, auto end, const auto& next) {
          std::vector<std::string> items;
          for (std::size_t i = begin; i < end; ++i) {
            items.push_back(WorkloadJson(static_cast<int>(i)));
          }
          return EncodeJsonList("WorkloadList", items, version_, next);
        });
    ServeSetup();
    api_.Answer("/apis/kueue.x-k8s.io",
                R"({"kind":"APIGroup","versions":[{"version":"v1beta2"},{"version":"v1beta1"}]})");
    api_.Start();
  }

  // What administrators set up: nothing of it changes.
  void ServeSetup() {
    const auto serve = [this](const std::string& plural, const std::string& kind, std::size_t count,
                              const std::function<std::string(std::size_t)>& object) {
      api_.Serve(
          "/apis/kueue.x-k8s.io/v1beta2/" + plural, ApiStub::Encoding::kJson,
          [count] { return count; },
          [this, kind, object](auto begin, auto end, const auto& next) {
            std::vector<std::string> items;
            for (std::size_t i = begin; i < end; ++i) items.push_back(object(i));
            return EncodeJsonList(kind + "List", items, version_, next);
          });
    };
    serve("clusterqueues", "ClusterQueue", kQueues, [](std::size_t i) { return QueueJson(i); });
    serve("resourceflavors", "ResourceFlavor", 1, [](std::size_t) {
      return R"({"metadata":{"name":"h100","uid":"flavor","resourceVersion":"1"},)"
             R"("spec":{"nodeLabels":{"accelerator":"h100"}}})";
    });
    serve("admissionchecks", "AdmissionCheck", 0, [](std::size_t) { return std::string(); });
    api_.Serve(
        "/api/v1/nodes", ApiStub::Encoding::kProtobuf, [this] { return nodes_.size(); },
        [this](auto begin, auto end, const auto& next) {
          std::vector<std::string> items;
          for (std::size_t i = begin; i < end; ++i) {
            items.push_back(kube_testing::EncodeNode(MakeNode(static_cast<int>(i), version_)));
          }
          return kube_testing::EncodeList("NodeList", items, std::to_string(version_), next);
        });
  }

  [[nodiscard]] int SerialOf(std::size_t workload, int pod) const {
    return static_cast<int>(workload) * pods_each_ + pod;
  }
  WorkloadState& StateOfRound(int one) {
    return workloads_[static_cast<std::size_t>(round_[static_cast<std::size_t>(one)])];
  }
  [[nodiscard]] bool HasWaitingPods(std::size_t workload) const {
    const WorkloadState& state = workloads_[workload];
    return state.story == Story::kBlocked || state.story == Story::kWaitsForQuota ||
           (state.story == Story::kGoesRound && state.stage != Stage::kPending);
  }

  // On a node, or waiting (-1).
  [[nodiscard]] api::Pod PodOf(const PodLoad& pod, int node, std::int64_t version) const {
    const int index = pod.serial / pods_each_;
    const WorkloadState& state = workloads_[static_cast<std::size_t>(index)];
    api::Pod object = MakePod(pod, node, /*runs=*/node >= 0, version);
    object.metadata.owners.push_back({.kind = "Job",
                                      .name = fmt::format("train-{:05}", index),
                                      .uid = JobUid(index),
                                      .controller = true});
    object.metadata.labels["kueue.x-k8s.io/podset"] = "main";
    object.metadata.labels["batch.kubernetes.io/job-name"] = fmt::format("train-{:05}", index);
    object.metadata.annotations["kueue.x-k8s.io/workload"] = NameOfWorkload(index);
    if (node >= 0) return object;
    object.metadata.creation_time = state.admitted == 0 ? kLongAgo : state.admitted;
    if (state.story == Story::kWaitsForQuota) {
      object.scheduling_gates = {"kueue.x-k8s.io/admission"};
    } else if (state.refused) {
      object.status.conditions = {
          {.type = "PodScheduled",
           .status = "False",
           .reason = "Unschedulable",
           .message = fmt::format("0/{0} nodes are available: {0} no NUMA node has both the "
                                  "accelerators and the endpoints free. preemption: 0/{0} nodes "
                                  "are available: {0} Preemption is not helpful for scheduling.",
                                  nodes_.size())}};
    }
    if (state.pinned) {
      object.node_selector["kubernetes.io/hostname"] =
          NodeName(pod.serial % static_cast<int>(nodes_.size()));
    }
    return object;
  }
  static std::string JobUid(int workload) {
    return fmt::format("7c1de1f0-2222-4333-8444-{:012}", workload);
  }

  [[nodiscard]] std::string WorkloadJson(int index) const {
    const WorkloadState& state = workloads_[static_cast<std::size_t>(index)];
    const bool admitted = state.stage != Stage::kPending;
    std::string conditions = ConditionJson("QuotaReserved", admitted, state.admitted);
    conditions += "," + ConditionJson("Admitted", admitted, state.admitted);
    if (state.stage == Stage::kEvicted) conditions += "," + ConditionJson("Evicted", true, Now());
    std::string admission;
    if (admitted) {
      admission = fmt::format(
          R"("admission":{{"clusterQueue":"gpus-{0}","podSetAssignments":[{{"name":"main",)"
          R"("count":{1},"flavors":{{"nvidia.com/gpu":"h100"}},)"
          R"("resourceUsage":{{"nvidia.com/gpu":"{2}"}}}}]}},)",
          static_cast<std::size_t>(index) % kQueues, pods_each_, pods_each_ * state.devices);
    }
    return fmt::format(
        R"({{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{{"name":"{0}",)"
        R"("namespace":"team-a","uid":"9ad0c3b2-3333-4444-8555-{1:012}","resourceVersion":"{2}",)"
        R"("creationTimestamp":"{3}","labels":{{"kueue.x-k8s.io/job-uid":"{4}"}},)"
        R"("ownerReferences":[{{"apiVersion":"batch/v1","kind":"Job","name":"train-{1:05}",)"
        R"("uid":"{4}","controller":true}}]}},"spec":{{"active":true,"queueName":"team-a",)"
        R"("podSets":[{{"name":"main","count":{5},"template":{{"spec":{{"containers":[{{)"
        R"("name":"main","image":"registry.example/train:1","resources":{{"limits":{{)"
        R"("nvidia.com/gpu":"{6}","device.gpustack.ai/rdma":"{6}"}}}}}}]}}}}}}]}},)"
        R"("status":{{{7}"conditions":[{8}]}}}})",
        NameOfWorkload(index), index, version_, TimeText(kLongAgo - 60), JobUid(index), pods_each_,
        state.devices, admission, conditions);
  }

  void SendPod(const char* type, const api::Pod& pod) {
    api_.Send(pods_, kube_testing::EncodeEvent(
                         type, kube_testing::Envelope("Pod", kube_testing::EncodePod(pod))));
  }
  void SendPods(int one, const char* type) {
    const auto index = static_cast<std::size_t>(round_[static_cast<std::size_t>(one)]);
    for (int k = 0; k < pods_each_; ++k) {
      const PodLoad pod{.serial = SerialOf(index, k), .devices = workloads_[index].devices};
      SendPod(type, PodOf(pod, -1, ++version_));
    }
  }
  void SendWorkload(int one) {
    ++version_;
    api_.Send(workload_kind_, fmt::format("{{\"type\":\"MODIFIED\",\"object\":{}}}\n",
                                          WorkloadJson(round_[static_cast<std::size_t>(one)])));
  }

  [[nodiscard]] std::string ListPods(std::size_t begin, std::size_t end,
                                     const std::string& next) const {
    std::vector<std::string> items;
    for (std::size_t i = begin; i < end; ++i) {
      if (i < nodes_.size()) {
        for (const PodLoad& pod : nodes_[i].pods) {
          items.push_back(kube_testing::EncodePod(PodOf(pod, static_cast<int>(i), version_)));
        }
        continue;
      }
      const std::size_t index = i - nodes_.size();
      for (int k = 0; HasWaitingPods(index) && k < pods_each_; ++k) {
        const PodLoad pod{.serial = SerialOf(index, k), .devices = workloads_[index].devices};
        items.push_back(kube_testing::EncodePod(PodOf(pod, -1, version_)));
      }
    }
    return kube_testing::EncodeList("PodList", items, std::to_string(version_), next);
  }

  const int pods_each_;
  std::vector<WorkloadState> workloads_;
  std::vector<int> round_;  // which of them go round
  std::vector<NodeLoad> nodes_;
  int blocked_ = 0;
  std::mt19937 random_{7};
  std::int64_t version_ = 1000;
  int pods_ = 0;
  int reports_ = 0;
  int workload_kind_ = 0;
  ApiStub api_;  // last: its threads use all of the above
};

WorkloadLoad::WorkloadLoad(int workloads, int pods_each)
    : impl_(std::make_unique<Impl>(workloads, pods_each)) {}
WorkloadLoad::~WorkloadLoad() = default;
int WorkloadLoad::port() const {
  return impl_->port();
}
int WorkloadLoad::nodes() const {
  return impl_->nodes();
}
int WorkloadLoad::pods() const {
  return impl_->pods();
}
int WorkloadLoad::blocked() const {
  return impl_->blocked();
}
bool WorkloadLoad::watched(bool workloads) const {
  return impl_->watched(workloads);
}
int WorkloadLoad::going_round() const {
  return impl_->going_round();
}
std::string WorkloadLoad::NameOf(int one) const {
  return impl_->NameOf(one);
}
void WorkloadLoad::Admit(int one) {
  impl_->Admit(one);
}
void WorkloadLoad::Refuse(int one) {
  impl_->Refuse(one);
}
void WorkloadLoad::Evict(int one) {
  impl_->Evict(one);
}
void WorkloadLoad::Touch() {
  impl_->Touch();
}

}  // namespace numafit::bench
