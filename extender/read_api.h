// The read API: what the numafit command asks a running extender. On a port and threads of its own,
// so that no question delays the scheduler.
#pragma once

#include "cache/fleet.h"
#include "extender/http/parked_server.h"
#include "extender/pod_question.h"
#include "extender/quota_service.h"
#include "extender/workload_service.h"

namespace numafit::extender {

// Thread-safe. Answers are the JSON of cache/explain.h and cache/pods_json.h; errors are 400 (404
// for an unknown node) with
// {"error": …}.
class ReadApi {
 public:
  // All outlive it. `workloads` and `quotas` may be null: nobody watches them.
  ReadApi(const cache::Fleet& fleet, const PodRules& rules, const WorkloadService* workloads,
          const QuotaService* quotas)
      : fleet_(fleet), rules_(rules), workloads_(workloads), quotas_(quotas) {}

  // GET /v1/nodes: the fleet, per node and NUMA node what is free.
  void Nodes(const http::Request& request, http::Response& response) const;
  // GET /v1/pods: the Pods that hold accelerators or endpoints. Query: node=NAME of one node,
  // misaligned=true those with a misaligned container.
  void Pods(const http::Request& request, http::Response& response) const;
  // POST /v1/explain with a Pod as JSON: per node the verdict and what leads to it. Query:
  // node=NAME asks about one node, all=true gives every node an entry of its own.
  void Explain(const http::Request& request, http::Response& response) const;
  // GET /v1/workloads: Kueue's Workloads that cannot be placed (workloads/status_json.h). Query:
  // all=true for every Workload, name=NAMESPACE/NAME for one. 404: there is no such Workload, or
  // this extender watches none.
  void Workloads(const http::Request& request, http::Response& response) const;
  // GET /v1/cluster-queues: how much of the quotas of Kueue's ClusterQueues could be placed
  // (workloads/quota.h; extender/quota_service.h has the states). 404: this extender watches none.
  void ClusterQueues(const http::Request& request, http::Response& response) const;

 private:
  const cache::Fleet& fleet_;
  const PodRules& rules_;
  const WorkloadService* const workloads_;
  const QuotaService* const quotas_;
};

// The decoded value of `key` in a query ("a=1&b=x%20y"), empty when absent.
std::string QueryValue(std::string_view query, std::string_view key);

}  // namespace numafit::extender
