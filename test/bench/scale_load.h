// A made-up API server of a large cluster: NodeReports and Pods that come and go at a given pace.
// No more of the API than what the extender asks for, so that the machine's time is left to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace numafit::bench {

// Every node has two NUMA nodes with four GPUs and four adapters each, 64 shared tokens per
// adapter, 128 CPUs, and some Pods; its report is of the size of a real one (about 8 kB).
class ScaleLoad {
 public:
  explicit ScaleLoad(int nodes);
  ~ScaleLoad();

  [[nodiscard]] int port() const;
  [[nodiscard]] static std::string NodeName(int node);
  [[nodiscard]] int pods() const;
  [[nodiscard]] std::size_t report_bytes() const;

  // Watches are open on both Pods and NodeReports.
  [[nodiscard]] bool watched() const;
  // A Pod comes to a random node, or leaves it: news of the Pod, and the node's next report.
  void Change();
  // How many reports have been changed by now.
  [[nodiscard]] std::int64_t changes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace numafit::bench
