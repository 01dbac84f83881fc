// What Nodes are called and labelled, and what devices they offer: which of them a Pod may go to,
// as far as node selectors say.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/objects.h"
#include "cache/fleet.h"
#include "policy/demand.h"

namespace numafit::workloads {

// Not thread-safe; a copy costs a pointer per node.
class NodeTable {
 public:
  void Replace(const std::vector<api::Node>& nodes);
  // False: nothing that is kept has changed.
  bool Upsert(const api::Node& node);
  void Delete(std::string_view name);

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  // Whether the Node is there, is not cordoned, and has all of these labels. A name that is not in
  // the table has no labels.
  [[nodiscard]] bool Allows(std::string_view name, const api::StringMap& labels) const;
  // Nodes that it allows, that offer every device that `demand` asks for, and that `fleet` does not
  // know. Takes a read guard.
  [[nodiscard]] int CountUnreported(const cache::Fleet& fleet, const api::StringMap& labels,
                                    const policy::Demand& demand) const;

 private:
  struct Entry {
    bool unschedulable = false;
    api::StringMap labels;
    // Names of the extended resources that are allocatable, in order.
    std::vector<std::string> devices;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>{}(name);
    }
  };
  std::unordered_map<std::string, std::shared_ptr<const Entry>, Hash, std::equal_to<>> nodes_;
};

}  // namespace numafit::workloads
