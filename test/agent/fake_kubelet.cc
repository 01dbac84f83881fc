#include "test/agent/fake_kubelet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>

#include "agent/kubelet/go_dump.h"
#include "api/podresources.grpc.pb.h"

namespace numafit::agent {

class FakeKubelet::Service : public v1::PodResourcesLister::Service {
 public:
  grpc::Status GetAllocatableResources(grpc::ServerContext*, const v1::AllocatableResourcesRequest*,
                                       v1::AllocatableResourcesResponse* out) override {
    const std::lock_guard lock(mutex);
    ++calls;
    if (!error.empty()) return {grpc::StatusCode::RESOURCE_EXHAUSTED, error};
    for (const auto& [resource, devices] : allocatable) {
      for (const FakeDevice& device : devices) Add(resource, device, out->mutable_devices());
    }
    return grpc::Status::OK;
  }

  grpc::Status List(grpc::ServerContext*, const v1::ListPodResourcesRequest*,
                    v1::ListPodResourcesResponse* out) override {
    const std::lock_guard lock(mutex);
    ++calls;
    if (!error.empty()) return {grpc::StatusCode::RESOURCE_EXHAUSTED, error};
    for (const FakePod& pod : pods) {
      v1::PodResources* listed = out->add_pod_resources();
      listed->set_namespace_(pod.namespace_);
      listed->set_name(pod.name);
      for (const FakeContainer& container : pod.containers) {
        v1::ContainerResources* resources = listed->add_containers();
        resources->set_name(container.name);
        for (const auto& [resource, devices] : container.devices) {
          for (const FakeDevice& device : devices) {
            Add(resource, device, resources->mutable_devices());
          }
        }
        for (const int cpu : container.cpus) resources->add_cpu_ids(cpu);
      }
    }
    return grpc::Status::OK;
  }

  std::mutex mutex;
  std::map<std::string, std::vector<FakeDevice>> allocatable;
  std::vector<FakePod> pods;
  std::string error;
  std::atomic<int> calls{0};
  std::unique_ptr<grpc::Server> server;

 private:
  static void Add(const std::string& resource, const FakeDevice& device,
                  google::protobuf::RepeatedPtrField<v1::ContainerDevices>* out) {
    const std::size_t entries = device.numa_nodes.empty() ? 1 : device.numa_nodes.size();
    for (std::size_t i = 0; i < entries; ++i) {
      v1::ContainerDevices* entry = out->Add();
      entry->set_resource_name(resource);
      entry->add_device_ids(device.id);
      if (!device.topology) continue;
      v1::TopologyInfo* topology = entry->mutable_topology();
      if (i < device.numa_nodes.size()) topology->add_nodes()->set_id(device.numa_nodes[i]);
    }
  }
};

FakeKubelet::FakeKubelet(std::string socket)
    : socket_(std::move(socket)), service_(std::make_unique<Service>()) {}

FakeKubelet::~FakeKubelet() {
  Stop();
}

void FakeKubelet::Start() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  service_->server = builder.BuildAndStart();
}

void FakeKubelet::Stop() {
  if (service_->server == nullptr) return;
  service_->server->Shutdown();
  service_->server.reset();
  ::unlink(socket_.c_str());
}

void FakeKubelet::SetAllocatable(std::map<std::string, std::vector<FakeDevice>> devices) {
  const std::lock_guard lock(service_->mutex);
  service_->allocatable = std::move(devices);
}

void FakeKubelet::SetPods(std::vector<FakePod> pods) {
  const std::lock_guard lock(service_->mutex);
  service_->pods = std::move(pods);
}

void FakeKubelet::SetError(std::string error) {
  const std::lock_guard lock(service_->mutex);
  service_->error = std::move(error);
}

int FakeKubelet::calls() const {
  return service_->calls;
}

std::string CheckpointText(const std::vector<FakeEntry>& entries,
                           const std::map<std::string, std::vector<std::string>>& registered) {
  nlohmann::json data = {{"PodDeviceEntries", nlohmann::json::array()},
                         {"RegisteredDevices", nlohmann::json::object()}};
  std::vector<std::string> dumps;
  for (const FakeEntry& entry : entries) {
    nlohmann::json ids = nlohmann::json::object();
    std::vector<std::string> parts;
    for (const auto& [numa, list] : entry.ids) {
      ids[std::to_string(numa)] = list;
      parts.push_back(fmt::format("{}:[{}]", numa, fmt::join(list, " ")));
    }
    data["PodDeviceEntries"].push_back({{"PodUID", entry.uid},
                                        {"ContainerName", entry.container},
                                        {"ResourceName", entry.resource},
                                        {"DeviceIDs", ids},
                                        {"AllocResp", "CgE="}});
    dumps.push_back(
        fmt::format("{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} "
                    "DeviceIDs:(checkpoint.DevicesPerNUMA)map[{}] AllocResp:([]uint8)[10 1]}}",
                    entry.uid, entry.container, entry.resource, fmt::join(parts, " ")));
  }
  std::vector<std::string> lists;
  for (const auto& [resource, ids] : registered) {
    data["RegisteredDevices"][resource] = ids;
    lists.push_back(fmt::format("{}:[{}]", resource, fmt::join(ids, " ")));
  }
  const std::uint32_t checksum = Fnv32a(fmt::format(
      "(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{}] "
      "RegisteredDevices:(map[string][]string)map[{}]}}",
      fmt::join(dumps, " "), fmt::join(lists, " ")));
  return nlohmann::json({{"Data", data}, {"Checksum", checksum}}).dump();
}

}  // namespace numafit::agent
