// A node as its device plugins make it, and the whole way from there to the answers that
// kube-scheduler gets: what the kubelet answers and writes, the agent, the report as JSON, its
// decoder and checks, the fleet, filter and the gate.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/collector.h"
#include "api/node_report.pb.h"
#include "api/objects.h"
#include "cache/fleet.h"
#include "test/agent/fake_kubelet.h"
#include "test/agent/made_up_host.h"

namespace numafit::systems {

using agent::FakeDevice;

using Counts = std::map<std::string, int>;                    // by resource
using Ids = std::map<std::string, std::vector<std::string>>;  // by resource

struct Wish {
  Counts limits;  // of its one container
  std::map<std::string, std::string> annotations;
};

// Two annotations that the cases need.
[[nodiscard]] Wish Distinct(Wish wish);
[[nodiscard]] Wish Guaranteed(Wish wish);

class SystemNode {
 public:
  // A host of so many NUMA nodes with four CPUs each.
  explicit SystemNode(std::string_view policy = "single-numa-node", int numa_nodes = 2,
                      std::string_view scope = "container");
  ~SystemNode();

  // sysfs; before the first Report.
  [[nodiscard]] const agent::MadeUpHost& host() const { return host_; }
  // The agent's; before the first Report.
  [[nodiscard]] agent::AgentConfig& config() { return config_; }

  // A plugin tells the kubelet these devices, all healthy.
  void Serve(const std::string& resource, std::vector<FakeDevice> devices);
  // It tells that this one is not healthy any more.
  void Fail(const std::string& resource, const std::string& id);
  // The kubelet has admitted a Pod of that name with these devices.
  void Run(const std::string& name, const Ids& devices);

  // The agent looks, and its report goes to the fleet. Fails the test when a check refuses it.
  cache::Fleet::ReportNews Report();
  // The last one, as it came out of the decoder.
  [[nodiscard]] const v1alpha1::NodeReportStatus& report() const { return *report_; }
  // The group of the device's endpoint, or nullptr.
  [[nodiscard]] const v1alpha1::DeviceGroup* FindGroup(const std::string& resource,
                                                       const std::string& endpoint) const;

  // "fits", with what is known of the alignment and of the endpoints ("fits, aligned: guaranteed",
  // "fits, distinct: possible"), or the code of the reason ("numa-fragmented").
  [[nodiscard]] std::string Filter(const Wish& wish) const;
  // The same from the gate. What fits is bound: it counts from now on.
  std::string Bind(const std::string& name, const Wish& wish);

 private:
  [[nodiscard]] api::Pod PodOf(const std::string& name, const Wish& wish) const;
  void TellKubelet();

  agent::MadeUpHost host_;
  agent::FakeKubelet kubelet_;
  agent::AgentConfig config_;
  std::map<std::string, std::map<std::string, FakeDevice>> devices_;  // by resource and id
  std::map<std::string, std::vector<std::string>> healthy_;
  std::map<std::string, Ids> running_;
  std::unique_ptr<agent::Collector> collector_;
  std::shared_ptr<const v1alpha1::NodeReportStatus> report_;
  int generation_ = 0;
  std::unique_ptr<cache::Fleet> fleet_;
};

// One line of a table: what runs already, what a Pod asks for, what it is answered. `lands`: the
// devices that its kubelet gives it where the answer is yes; the agent's next report must confirm
// what was foretold. Left out where the kubelet's pick is not determined.
struct Case {
  const char* what;
  std::vector<Ids> running;
  Wish asks;
  const char* answer;
  Ids lands;
};
// Fails the test unless filter and the gate answer so.
void Check(SystemNode& node, const Case& line);

}  // namespace numafit::systems
