// A made-up API server of a large cluster with Kueue: nodes that are full, Workloads and their
// Pods.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace numafit::bench {

// Of 20 Workloads 18 run, one is admitted and its Pods are unschedulable, and one waits for quota
// with Pods that are gated. One more of 20 goes round: it is not admitted and has no Pods, until it
// is told otherwise. Pods that run have one GPU and one adapter each, and there are as many nodes
// as leave one of each free on every second; Pods that cannot be placed want two to four. Those of
// every second such Workload are pinned to a node each, as topology-aware scheduling does it.
// Thread-safe.
class WorkloadLoad {
 public:
  // `workloads` without those that go round; at least 20.
  WorkloadLoad(int workloads, int pods_each);
  ~WorkloadLoad();

  [[nodiscard]] int port() const;
  [[nodiscard]] int nodes() const;
  [[nodiscard]] int pods() const;
  // Workloads whose Pods wait in vain, all the time.
  [[nodiscard]] int blocked() const;
  // Watches are open on Pods, NodeReports and, if asked for, Workloads.
  [[nodiscard]] bool watched(bool workloads) const;

  // --- those that go round, 0 … n - 1 ---
  [[nodiscard]] int going_round() const;
  // namespace/name
  [[nodiscard]] std::string NameOf(int one) const;
  // It is admitted now, and its Pods are made.
  void Admit(int one);
  // A scheduler has tried its Pods in vain.
  void Refuse(int one);
  // It is evicted: its Pods go, then it waits for its next turn.
  void Evict(int one);

  // A kubelet writes the status of a Pod that runs again: nothing else is new.
  void Touch();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace numafit::bench
