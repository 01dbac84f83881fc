// When to look again: pure arithmetic on the steady clock, so that it can be tested without one.
#pragma once

#include <chrono>
#include <optional>

namespace numafit::agent {

class Pacer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  struct Options {
    Duration settle;        // after a change wait for further ones
    Duration min_interval;  // between the starts of two looks
    Duration pods_poll;
    Duration full_poll;
  };
  enum class Look {
    kNothing,
    kPodsChanged,  // ask whether Pods changed
    kPods,         // something on disk changed
    kEverything,   // the slow poll, or the kubelet came or went
  };

  Pacer(const Options& options, Time now);

  // A file changed. Changes that keep coming put the look off for three settling times at most.
  void OnChange(Time now);
  // The kubelet's socket came or went.
  void OnKubelet(Time now);
  // The kubelet has ended: what is bound to the node from now on is lost, so it is told at once.
  void OnKubeletEnd() { kubelet_ended_ = true; }

  // What is due. The caller does it and then says Done (of kNothing a no-op).
  [[nodiscard]] Look Due(Time now) const;
  void Done(Look look, Time now);
  // When something will be due next, if nothing happens.
  [[nodiscard]] Time Next() const;

 private:
  [[nodiscard]] std::optional<Time> ChangeDue() const;

  const Options options_;
  std::optional<Time> first_change_;
  Time last_change_;
  bool kubelet_changed_ = false;
  bool kubelet_ended_ = false;
  Time next_pods_;
  Time next_full_;
  Time earliest_;
};

}  // namespace numafit::agent
