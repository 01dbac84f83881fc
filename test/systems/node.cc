#include "test/systems/node.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/node_report.h"
#include "cache/demand.h"

namespace numafit::systems {
namespace {

constexpr char kNode[] = "gpu-a-012";
constexpr char kCheckpoint[] = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
constexpr char kSocket[] = "/var/lib/kubelet/pod-resources/kubelet.sock";

std::string UidOf(const std::string& name) {
  return "uid-" + name;
}

std::string TextOf(const policy::Judgement& judgement) {
  if (!judgement.fits()) return std::string(policy::ReasonCode(judgement.reason));
  std::string text = "fits";
  if (judgement.alignment != policy::Alignment::kNotNeeded) {
    text += fmt::format(", aligned: {}", policy::AlignmentName(judgement.alignment));
  }
  if (judgement.distinct_endpoints != policy::Alignment::kNotNeeded) {
    text += fmt::format(", distinct: {}", policy::AlignmentName(judgement.distinct_endpoints));
  }
  return text;
}

}  // namespace

Wish Distinct(Wish wish) {
  wish.annotations["numafit.io/distinct-endpoints"] = "true";
  return wish;
}

Wish Guaranteed(Wish wish) {
  wish.annotations["numafit.io/alignment"] = "guaranteed";
  return wish;
}

SystemNode::SystemNode(std::string_view policy, int numa_nodes, std::string_view scope)
    : kubelet_(host_.Path(kSocket)), fleet_(cache::Fleet::FromReports(api::ResourceClasses(), {})) {
  for (int id = 0; id < numa_nodes; ++id) {
    host_.AddNumaNode(id, numa_nodes, fmt::format("{}-{}", 4 * id, 4 * id + 3), id);
  }
  host_.Write("/proc/sys/kernel/random/boot_id", "3f0c9a52-7a52-4d7e-9b0e-3a1e5d0c4a11\n");
  host_.Write("/var/lib/kubelet/config.yaml",
              fmt::format("apiVersion: kubelet.config.k8s.io/v1beta1\n"
                          "kind: KubeletConfiguration\n"
                          "topologyManagerPolicy: {}\ntopologyManagerScope: {}\n"
                          "cpuManagerPolicy: none\nmemoryManagerPolicy: None\n",
                          policy, scope));
  host_.MakeFolder("/sys/class");
  host_.MakeFolder("/var/lib/kubelet/pod-resources");
  config_.root = host_.root();
  kubelet_.Start();
}

SystemNode::~SystemNode() = default;

void SystemNode::Serve(const std::string& resource, std::vector<FakeDevice> devices) {
  for (FakeDevice& device : devices) {
    healthy_[resource].push_back(device.id);
    devices_[resource][device.id] = std::move(device);
  }
  if (devices.empty()) healthy_[resource];
}

void SystemNode::Fail(const std::string& resource, const std::string& id) {
  ASSERT_EQ(std::erase(healthy_[resource], id), 1U) << resource << " " << id;
}

void SystemNode::Run(const std::string& name, const Ids& devices) {
  running_[name] = devices;
}

// What the kubelet would answer and write.
void SystemNode::TellKubelet() {
  std::map<std::string, std::vector<FakeDevice>> allocatable;
  for (const auto& [resource, ids] : healthy_) {
    for (const std::string& id : ids) allocatable[resource].push_back(devices_[resource][id]);
  }
  std::vector<agent::FakePod> pods;
  std::vector<agent::FakeEntry> entries;
  for (const auto& [name, held] : running_) {
    agent::FakeContainer container{"main", {}, {}};
    for (const auto& [resource, ids] : held) {
      agent::FakeEntry& entry = entries.emplace_back();
      entry = {UidOf(name), "main", resource, {}};
      for (const std::string& id : ids) {
        ASSERT_TRUE(devices_[resource].contains(id)) << resource << " " << id;
        const FakeDevice& device = devices_[resource][id];
        container.devices[resource].push_back(device);
        if (device.numa_nodes.empty()) entry.ids[-1].push_back(id);
        for (const int numa : device.numa_nodes) entry.ids[numa].push_back(id);
      }
    }
    pods.push_back({"team", name, {std::move(container)}});
  }
  kubelet_.SetAllocatable(std::move(allocatable));
  kubelet_.SetPods(std::move(pods));
  host_.Write(kCheckpoint, agent::CheckpointText(entries, healthy_));
}

cache::Fleet::ReportNews SystemNode::Report() {
  TellKubelet();
  if (collector_ == nullptr) {
    collector_ = std::make_unique<agent::Collector>(
        config_, [] { return absl::FromUnixSeconds(1'800'000'000); },
        []() -> absl::StatusOr<agent::Collector::NodeFacts> {
          return agent::Collector::NodeFacts{.kubelet_version = "v1.36.3"};
        });
  }
  api::NodeReport written;
  written.metadata.name = kNode;
  auto status = std::make_shared<v1alpha1::NodeReportStatus>(collector_->Collect());
  status->set_generation(++generation_);
  written.status = std::move(status);
  const auto json = nlohmann::json::parse(api::NodeReportToJson(written));
  const absl::StatusOr<api::NodeReport> read = api::ReadNodeReport(json);
  cache::Fleet::ReportNews news;
  if (!read.ok() || read->status == nullptr) {
    ADD_FAILURE() << (read.ok() ? read->problem : read.status());
    return news;
  }
  report_ = read->status;
  // The API server shows those that run.
  for (const auto& [name, held] : running_) {
    Wish wish;
    for (const auto& [resource, ids] : held) wish.limits[resource] = static_cast<int>(ids.size());
    api::Pod pod = PodOf(name, wish);
    pod.node_name = kNode;
    pod.status.phase = "Running";
    pod.status.container_statuses = 1;
    fleet_->UpsertPod(pod);
  }
  news = fleet_->UpsertReport(kNode, *report_);
  EXPECT_TRUE(news.applied) << news.error;
  return news;
}

const v1alpha1::DeviceGroup* SystemNode::FindGroup(const std::string& resource,
                                                   const std::string& endpoint) const {
  for (const v1alpha1::Resource& each : report_->resources()) {
    if (each.name() != resource) continue;
    for (const v1alpha1::DeviceGroup& group : each.groups()) {
      if (group.endpoint() == endpoint) return &group;
    }
  }
  return nullptr;
}

api::Pod SystemNode::PodOf(const std::string& name, const Wish& wish) const {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "team";
  pod.metadata.uid = UidOf(name);
  for (const auto& [key, value] : wish.annotations) pod.metadata.annotations[key] = value;
  api::Container& container = pod.containers.emplace_back();
  container.name = "main";
  for (const auto& [resource, count] : wish.limits) {
    container.resources.limits[resource] = api::Quantity::FromInt(count);
  }
  return pod;
}

std::string SystemNode::Filter(const Wish& wish) const {
  const auto demand = cache::DemandFromPod(PodOf("asks", wish), api::ResourceClasses(), {});
  if (!demand.ok()) return std::string(demand.status().message());
  const cache::Fleet::ReadGuard guard(*fleet_);
  const int index = fleet_->FindNode(guard, kNode, -1);
  if (index < 0) return "unknown node";
  return TextOf(cache::JudgeOnNode(*fleet_->State(guard, index), *demand, nullptr));
}

std::string SystemNode::Bind(const std::string& name, const Wish& wish) {
  api::Pod pod = PodOf(name, wish);
  const auto demand = cache::DemandFromPod(pod, api::ResourceClasses(), {});
  if (!demand.ok()) return std::string(demand.status().message());
  const cache::Fleet::ReserveResult result =
      fleet_->Reserve(kNode, pod.metadata.uid, pod.FullName(), *demand);
  if (!result.error.empty()) return result.error;
  if (result.judgement.fits()) {
    fleet_->Commit(pod.metadata.uid);
    pod.node_name = kNode;
    pod.status.phase = "Pending";
    fleet_->UpsertPod(pod);
  }
  return TextOf(result.judgement);
}

void Check(SystemNode& node, const Case& line) {
  SCOPED_TRACE(line.what);
  int number = 0;
  for (const Ids& held : line.running) node.Run(fmt::format("runs-{}", number++), held);
  node.Report();
  EXPECT_EQ(node.Filter(line.asks), line.answer);
  EXPECT_EQ(node.Bind("train", line.asks), line.answer);
  if (line.lands.empty()) return;
  node.Run("train", line.lands);
  const cache::Fleet::ReportNews news = node.Report();
  EXPECT_EQ(news.confirmed, 1);
  for (const auto& difference : news.differences) {
    ADD_FAILURE() << "foretold " << difference.foretold << ", observed " << difference.observed;
  }
}

}  // namespace numafit::systems
