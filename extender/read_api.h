// The read API: what the numafit command asks a running extender. On a port and threads of its own,
// so that no question delays the scheduler.
#pragma once

#include "cache/fleet.h"
#include "extender/http/parked_server.h"
#include "extender/pod_question.h"

namespace numafit::extender {

// Thread-safe. Answers are cache/explain.h's JSON; errors are 400 (404 for an unknown node) with
// {"error": …}.
class ReadApi {
 public:
  // Both outlive it.
  ReadApi(const cache::Fleet& fleet, const PodRules& rules) : fleet_(fleet), rules_(rules) {}

  // GET /v1/nodes: the fleet, per node and NUMA node what is free.
  void Nodes(const http::Request& request, http::Response& response) const;
  // POST /v1/explain with a Pod as JSON: per node the verdict and what leads to it. Query:
  // node=NAME asks about one node, all=true gives every node an entry of its own.
  void Explain(const http::Request& request, http::Response& response) const;

 private:
  const cache::Fleet& fleet_;
  const PodRules& rules_;
};

// The decoded value of `key` in a query ("a=1&b=x%20y"), empty when absent.
std::string QueryValue(std::string_view query, std::string_view key);

}  // namespace numafit::extender
