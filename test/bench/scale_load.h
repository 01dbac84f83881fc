// A made-up API server of a large cluster: NodeReports and Pods that come and go at a given pace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace numafit::bench {

// Nodes as made_up_nodes.h has them, with some Pods each.
class ScaleLoad {
 public:
  explicit ScaleLoad(int nodes);
  ~ScaleLoad();

  [[nodiscard]] int port() const;
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
