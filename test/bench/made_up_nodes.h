// Nodes of a made-up cluster, and what runs on them, as an API server tells it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/objects.h"

namespace numafit::bench {

// Each NUMA node has so many GPUs and so many adapters.
inline constexpr int kPerNuma = 4;

struct PodLoad {
  int serial = 0;
  int numa = 0;
  int devices = 0;  // so many GPUs and adapters
};

// Two NUMA nodes with four GPUs and four adapters each, 64 shared tokens per adapter, 128 CPUs.
struct NodeLoad {
  std::vector<PodLoad> pods;
  int generation = 1;

  [[nodiscard]] int Free(int numa) const;
  // Puts it where a kubelet would; false: there is no room.
  bool Add(PodLoad pod);
};

[[nodiscard]] std::string NodeName(int node);
// The Node, with what it offers and a label or two.
[[nodiscard]] api::Node MakeNode(int index, std::int64_t version);
[[nodiscard]] std::string PodName(int serial);
// On a node, or waiting for one (-1). `runs`: its kubelet has shown it.
[[nodiscard]] api::Pod MakePod(const PodLoad& pod, int node, bool runs, std::int64_t version);
// The NodeReport as JSON, of the size of a real one (about 5 kB).
[[nodiscard]] std::string MakeReport(int index, const NodeLoad& node, std::int64_t version);

}  // namespace numafit::bench
