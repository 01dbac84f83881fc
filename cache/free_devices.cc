#include "cache/free_devices.h"

#include <algorithm>

namespace numafit::cache {
namespace {

// Adds the devices of one class to a count, in every possible state.
class Counter {
 public:
  explicit Counter(const NodeState& state) : free_(state.knowledge.usages.size(), 0) {}

  void Add(const NodeState& state, int class_index) {
    const auto& device_class = state.topology->classes()[static_cast<std::size_t>(class_index)];
    all_ += device_class.count;
    if (!device_class.healthy) return;
    for (std::size_t i = 0; i < free_.size(); ++i) {
      free_[i] += std::max(0, device_class.count - state.knowledge.usages[i].taken(class_index));
    }
  }
  [[nodiscard]] FreeCount Result(int numa) const {
    const auto [least, most] = std::minmax_element(free_.begin(), free_.end());
    return {.numa = numa,
            .at_least = free_.empty() ? 0 : *least,
            .at_most = free_.empty() ? 0 : *most,
            .all = all_};
  }
  [[nodiscard]] bool empty() const { return all_ == 0; }

 private:
  std::vector<int> free_;
  int all_ = 0;
};

}  // namespace

ResourceFree FreeDevices(const NodeState& state, int pool) {
  const policy::Topology& topology = *state.topology;
  const policy::Topology::Pool& own = topology.pools()[static_cast<std::size_t>(pool)];
  ResourceFree result;
  result.resource = own.resource;
  Counter total(state);
  Counter nowhere(state);
  for (int i = own.first_class; i < own.first_class + own.class_count; ++i) {
    const auto& device_class = topology.classes()[static_cast<std::size_t>(i)];
    total.Add(state, i);
    if (device_class.numa.empty()) nowhere.Add(state, i);
    if (!device_class.healthy) result.unhealthy += device_class.count;
  }
  topology.numa().ForEach([&](int numa) {
    Counter here(state);
    for (int i = own.first_class; i < own.first_class + own.class_count; ++i) {
      if (topology.classes()[static_cast<std::size_t>(i)].numa.contains(numa)) here.Add(state, i);
    }
    result.by_numa.push_back(here.Result(numa));
  });
  if (!nowhere.empty()) result.by_numa.push_back(nowhere.Result(-1));
  result.total = total.Result(-1);
  return result;
}

FreeTogether MostOnOneNumaNode(const NodeState& state, int pool) {
  const policy::Topology& topology = *state.topology;
  const policy::Topology::Pool& own = topology.pools()[static_cast<std::size_t>(pool)];
  FreeTogether result;
  bool first = true;
  for (const policy::Usage& usage : state.knowledge.usages) {
    FreeTogether best;
    topology.numa().ForEach([&](int numa) {
      int free = 0;
      for (int i = own.first_class; i < own.first_class + own.class_count; ++i) {
        const auto& device_class = topology.classes()[static_cast<std::size_t>(i)];
        if (!device_class.healthy || !device_class.numa.contains(numa)) continue;
        free += std::max(0, device_class.count - usage.taken(i));
      }
      if (free > best.count) best = {free, numa};
    });
    if (first || best.count < result.count) {
      result = best;
    } else if (best.count == result.count && best.numa != result.numa) {
      result.numa = -1;
    }
    first = false;
  }
  return result;
}

std::string ShortName(const std::string& resource) {
  const std::size_t slash = resource.rfind('/');
  return slash == std::string::npos ? resource : resource.substr(slash + 1);
}

std::string NumaList(policy::NumaMask mask) {
  std::string list;
  int left = mask.count();
  mask.ForEach([&](int id) {
    if (!list.empty()) list += left == 1 ? " and " : ", ";
    list += std::to_string(id);
    --left;
  });
  return list;
}

}  // namespace numafit::cache
