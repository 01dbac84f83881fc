#include "test/extender/support.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "api/pod_json.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/paths.h"

namespace numafit::extender {

cache::FleetFile TestFleet(int count, std::string_view policy) {
  const std::string yaml = fmt::format(R"(
apiVersion: numafit.io/v1alpha1
kind: Fleet
shapes:
  - name: two-numa
    kubelet:
      version: v1.36.3
      topologyManagerPolicy: {}
      topologyManagerScope: container
    numa:
      - {{id: 0, cpus: "0-7", memory: 64Gi}}
      - {{id: 1, cpus: "8-15", memory: 64Gi}}
    devices:
      - {{resource: nvidia.com/gpu, numa: 0, count: 4}}
      - {{resource: nvidia.com/gpu, numa: 1, count: 4}}
      - {{resource: device.gpustack.ai/rdma, numa: 0, count: 4}}
      - {{resource: device.gpustack.ai/rdma, numa: 1, count: 4}}
nodes:
)",
                                       policy);
  std::string all = yaml;
  for (const std::string& name : NodeNames(count)) {
    all += fmt::format("  - {{shape: two-numa, name: {}}}\n", name);
  }
  absl::StatusOr<cache::FleetFile> file = cache::ParseFleetFile(all, "test.yaml");
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

std::vector<std::string> NodeNames(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("node-{:04}", i));
  return names;
}

std::string PodJson(std::string_view name, int gpus, int endpoints, std::string_view annotations) {
  std::string limits;
  if (gpus > 0) limits += fmt::format(R"("nvidia.com/gpu":"{}")", gpus);
  if (endpoints > 0) {
    limits += fmt::format(R"({}"device.gpustack.ai/rdma":"{}")", gpus > 0 ? "," : "", endpoints);
  }
  return fmt::format(
      R"({{"metadata":{{"name":"{0}","namespace":"default","uid":"uid-{0}","annotations":{1}}},)"
      R"("spec":{{"containers":[{{"name":"main","resources":{{"limits":{{{2}}},"requests":{{{2}}}}}}}]}},)"
      R"("status":{{"phase":"Pending"}}}})",
      name, annotations, limits);
}

std::string ArgsJson(std::string_view pod, const std::vector<std::string>& names) {
  return fmt::format(R"({{"Pod":{},"Nodes":null,"NodeNames":{}}})", pod,
                     nlohmann::json(names).dump());
}

std::string BindJson(std::string_view pod, std::string_view node) {
  return fmt::format(
      R"({{"PodName":"{0}","PodNamespace":"default","PodUID":"uid-{0}","Node":"{1}"}})", pod, node);
}

std::string ReadTestFile(const std::string& path_below_test_extender) {
  std::ifstream file(test::SourceDir() + "/test/extender/" + path_below_test_extender);
  EXPECT_TRUE(file.good()) << path_below_test_extender;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Status FakeClient::Bind(const kube::BindRequest& request) {
  const int call = binds_++;
  Fault fault{absl::OkStatus(), true};
  if (on_bind) fault = on_bind(call);
  if (fault.status.ok() || fault.happens) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = pods_.find(request.pod_namespace + "/" + request.pod_name);
    if (it == pods_.end())
      return absl::NotFoundError("pods \"" + request.pod_name + "\" not found");
    if (it->second.metadata.uid != request.pod_uid || !it->second.node_name.empty()) {
      return absl::AbortedError("pod " + request.pod_name + " is already assigned to node \"" +
                                it->second.node_name + "\"");
    }
    it->second.node_name = request.node;
    bound_[request.pod_name] = request;
  }
  return fault.status;
}

absl::Status FakeClient::AnnotatePod(const std::string& pod_namespace, const std::string& name,
                                     const std::string& uid, const std::string& key,
                                     const std::string& value) {
  if (!annotate_fails.ok()) return annotate_fails;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = pods_.find(pod_namespace + "/" + name);
  if (it == pods_.end()) return absl::NotFoundError("not found");
  if (it->second.metadata.uid != uid) return absl::AbortedError("another uid");
  it->second.metadata.annotations[key] = value;
  annotated_.push_back(name);
  return absl::OkStatus();
}

std::vector<std::string> FakeClient::TakeAnnotated() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(annotated_, {});
}

absl::StatusOr<api::Pod> FakeClient::GetPod(const std::string& pod_namespace,
                                            const std::string& name) {
  if (get_fails) return absl::UnavailableError("connection refused");
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = pods_.find(pod_namespace + "/" + name);
  if (it == pods_.end()) return absl::NotFoundError("not found");
  return it->second;
}

absl::StatusOr<api::Node> FakeClient::GetNode(const std::string&) {
  return absl::NotFoundError("not found");
}

void FakeClient::AddPod(std::string_view name, int gpus, int endpoints) {
  absl::StatusOr<api::Pod> pod = api::PodFromJson(PodJson(name, gpus, endpoints));
  ASSERT_TRUE(pod.ok()) << pod.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string key = pod->FullName();
  pods_[std::move(key)] = *std::move(pod);
}

void FakeClient::Remove(std::string_view name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  pods_.erase(fmt::format("default/{}", name));
}

std::map<std::string, kube::BindRequest> FakeClient::bound() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bound_;
}

}  // namespace numafit::extender
