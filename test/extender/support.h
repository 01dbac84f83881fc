// Fleets, requests and an API server for the extender's tests.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cache/fleet_file.h"
#include "kube/client.h"

namespace numafit::extender {

// `count` nodes node-0000… with 4 GPUs and 4 adapters on each of two NUMA nodes.
cache::FleetFile TestFleet(int count, std::string_view policy = "single-numa-node");

// The JSON of a Pod that asks for so many GPUs and adapters; 0 leaves the resource out.
std::string PodJson(std::string_view name, int gpus, int endpoints,
                    std::string_view annotations = "{}");
// What kube-scheduler posts to filter and prioritize.
std::string ArgsJson(std::string_view pod, const std::vector<std::string>& names);
std::string BindJson(std::string_view pod, std::string_view node);
std::vector<std::string> NodeNames(int count);

std::string ReadTestFile(const std::string& path_below_test_extender);

// An API server in memory. Thread-safe.
class FakeClient : public kube::Client {
 public:
  absl::Status Bind(const kube::BindRequest& request) override;
  absl::Status AnnotatePod(const std::string& pod_namespace, const std::string& name,
                           const std::string& uid, const std::string& key,
                           const std::string& value) override;
  absl::StatusOr<api::Pod> GetPod(const std::string& pod_namespace,
                                  const std::string& name) override;
  absl::StatusOr<api::Node> GetNode(const std::string& name) override;

  // Adds a Pod as PodJson makes it, without a node.
  void AddPod(std::string_view name, int gpus, int endpoints);
  void Remove(std::string_view name);
  // Called at the start of each Bind, outside the lock, with the number of the call (from 0). What
  // it returns instead of OK is answered; `happens` tells whether the bind takes place before that.
  struct Fault {
    absl::Status status;
    bool happens = false;
  };
  std::function<Fault(int call)> on_bind;
  std::atomic<bool> get_fails{false};
  // What AnnotatePod answers when it is not OK.
  absl::Status annotate_fails;

  [[nodiscard]] int binds() const { return binds_; }
  [[nodiscard]] std::map<std::string, kube::BindRequest> bound() const;
  // The names of the Pods that were annotated since the last call, in order.
  std::vector<std::string> TakeAnnotated();

 private:
  std::atomic<int> binds_{0};
  mutable std::mutex mutex_;
  std::map<std::string, api::Pod> pods_;  // by namespace/name
  std::map<std::string, kube::BindRequest> bound_;
  std::vector<std::string> annotated_;
};

}  // namespace numafit::extender
