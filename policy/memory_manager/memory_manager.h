// The memory manager with the policy Static: hints and allocation of memory and hugepages. Twin of
// cm/memorymanager (memory_manager.go, policy_static.go). With the policy None nobody asks it.
//
// Rules
// 1. A set of NUMA nodes is a hint when, for every requested type, what it could hold empty
//    (allocatable) and what is free on it suffice, and its group allows it: a single NUMA node must
//    not be in a group of several; several must not include one that is in use alone or in another
//    group. Preferred are the sets of minimal width, counted over allocatable.
// 2. Every requested type has this same list. No hint at all is *no preference*: the Pod passes the
//    merge and fails in Allocate.
// 3. Allocate takes the merged affinity. Without one it finds its own; when the free memory there
//    does not suffice (memory that init containers have left does not count in this one place) it
//    widens it. It is stricter than the merge (a preferred hint must stay preferred) and blinder:
//    it does not ask whether a single NUMA node is in a group, so groups can overlap.
// 4. Memory is taken from, and given back to, the NUMA nodes of the set in ascending order.
// 5. What an init container has left is used again only on the very same set of NUMA nodes.
//
// Only Pods with MayHaveOwnCpusAndMemory (requests.h) may be asked about: the kubelet has neither
// hints nor an allocation for others.
//
// What a Pod as a whole is allocated (gate PodLevelResourceManagers, AllocatePod) is allocated here
// like a container's; how its containers part it is policy/pod_level.h. Kubelets of 1.34 read a
// container's requests from status.containerStatuses[].allocatedResources where the Pod has a
// status already, that is after a restart or for a resize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/kubelet_version.h"
#include "policy/memory_manager/memory_state.h"
#include "policy/topology_manager/hint.h"

namespace numafit::policy {

// A NUMA node as cadvisor reports it. Bytes.
struct MemoryNodeSpec {
  int id = 0;
  std::uint64_t memory = 0;                        // all of it, hugepages included
  std::map<std::string, std::uint64_t> hugepages;  // by resource name, "hugepages-2Mi"
};

// KubeletConfiguration.reservedMemory, one type of one entry. Bytes.
struct MemoryReservationSpec {
  int numa = 0;
  std::string type;
  std::int64_t bytes = 0;
};

struct MemoryHints {
  enum class Outcome {
    kHints,
    // The kubelet's code dereferences nil: a requested type is missing on a NUMA node.
    kPanics,
    // More sets of NUMA nodes than anybody walks (kMostNumaNodes); the kubelet would not come back.
    kIntractable,
  };

  Outcome outcome = Outcome::kHints;
  ResourceHints hints;
};

struct MemoryAllocation {
  enum class Outcome {
    kAllocated,
    // The following are UnexpectedAdmissionError; the state is as before.
    kUnreadableRequest,         // a quantity without AsInt64
    kNoDefaultHint,             // no affinity was given, and no set of NUMA nodes has room
    kDefaultHintNotPreferred,   // … the best that has is wider than a preferred hint may be
    kNoExtendedHint,            // the affinity lacks memory and no set with room includes it;
                                // or it lacks hugepages and no memory is requested at all
    kExtendedHintNotPreferred,  // … the best that includes it is not preferred as the merge was
    kGroupViolation,            // the NUMA nodes are in use alone or in another group
    // As in MemoryHints. A panic also comes of no affinity and hugepages without memory, or of an
    // affinity with NUMA nodes that the machine has not.
    kPanics,
    kIntractable,
  };

  Outcome outcome = Outcome::kAllocated;
  // With kAllocated: whether the book has an entry now, and its blocks, of the sizes requested.
  bool held = false;
  MemoryBlocks blocks;
};

// Immutable after Create; share it freely between threads.
class MemoryManager {
 public:
  static constexpr int kMostNumaNodes = 16;

  // Why a kubelet would not start is InvalidArgument: a reservation for a NUMA node that is not
  // there; per type, reservations that do not add up to the node's (kube-reserved, system-reserved
  // and the hard eviction threshold; nullopt: not checked); no memory reserved at all. Also for ids
  // outside 0..63 or twice.
  static absl::StatusOr<MemoryManager> Create(
      std::span<const MemoryNodeSpec> nodes, std::span<const MemoryReservationSpec> reserved,
      const std::optional<std::map<std::string, std::int64_t>>& node_reservation,
      KubeletVersion version);

  [[nodiscard]] NumaMask numa() const { return numa_; }
  // Ascending.
  [[nodiscard]] std::span<const int> numa_ids() const { return ids_; }
  // "memory", then hugepages by name.
  [[nodiscard]] std::span<const std::string> types() const { return types_; }
  // kUnknownMemoryType when the machine has none.
  [[nodiscard]] int FindType(std::string_view name) const;
  [[nodiscard]] bool HasType(int numa_id, int type) const {
    return numa_of_type_[static_cast<std::size_t>(type)].contains(numa_id);
  }
  // Bytes that containers can have of a type on an empty NUMA node, by position.
  [[nodiscard]] std::uint64_t allocatable(std::size_t position, int type) const {
    return allocatable_[position * types_.size() + static_cast<std::size_t>(type)];
  }
  // Nothing allocated (getDefaultMachineState).
  [[nodiscard]] MemoryState InitialState() const { return initial_; }

  // Of a container (`reusable` of its Pod), or of a Pod in pod scope (an empty `reusable`), that
  // the book has no entry of.
  [[nodiscard]] MemoryHints Hints(const MemoryState& state, const MemoryRequests& requests,
                                  const ReusableMemory& reusable) const;
  // Of a container that has an entry, after a restart of the kubelet: where it is, or no
  // preference when what it requests is not what it has. In pod scope the kubelet takes the first
  // container with an entry and compares its blocks with the requests of the whole Pod.
  // Precondition: all blocks are on the same NUMA nodes, as Allocate makes them.
  [[nodiscard]] static ResourceHints RegeneratedHints(const MemoryRequests& requests,
                                                      const MemoryBlocks& blocks);

  // An empty list for every type: impossible, whatever is free.
  [[nodiscard]] ResourceHints NoHints(const MemoryRequests& requests) const;

  // For a container that the book has no entry of; for one that has, the kubelet only does
  // reusable.Update(its blocks). On success the caller records the blocks and tells
  // ShrinkReusedBlocks.
  [[nodiscard]] MemoryAllocation Allocate(MemoryState& state, const MemoryRequests& requests,
                                          const Hint& hint, ReusableMemory& reusable,
                                          bool is_regular_init) const;

  // A container holds these blocks: books them (updateExpectedMachineState), where from is a guess.
  void Restore(MemoryState& state, std::span<const MemoryBlock> blocks) const;
  // A container is gone: gives back its blocks (releaseMemory).
  void Release(MemoryState& state, std::span<const MemoryBlock> blocks) const;
  // A container of the Pod starts: earlier regular init containers' memory goes back
  // (AddContainer). `containers` are in kubelet order, `started` is an index.
  void StartContainer(MemoryState& state, std::span<ContainerMemory> containers,
                      std::size_t started) const;

  // What validateState makes of this state and the blocks of all containers when the kubelet starts
  // from its checkpoint (which changes nothing). kRefused: it does not start, or panics (a group
  // has NUMA nodes with and without a hugepage size). kOrderDecides: the kubelet adds the blocks up
  // in the order of a Go map, and that may decide.
  enum class Restored { kAccepted, kRefused, kOrderDecides };
  [[nodiscard]] Restored Validate(const MemoryState& state,
                                  std::span<const MemoryBlock> blocks) const;

 private:
  MemoryManager() = default;

  // Calls visit(mask, its count) for every hint, numerically ascending; returns the minimal width.
  // Precondition: Walkable.
  template <typename Visit>
  int ForEachHint(const MemoryState& state, const MemoryRequests& requests,
                  const ReusableMemory& reusable, Visit&& visit) const;
  // kHints when the hints can be walked.
  [[nodiscard]] MemoryHints::Outcome Walkable(const MemoryRequests& requests) const;
  // The best hint that includes these NUMA nodes (findBestHint).
  [[nodiscard]] std::optional<Hint> FindBestHint(const MemoryState& state,
                                                 const MemoryRequests& requests,
                                                 const ReusableMemory& reusable,
                                                 NumaMask included) const;
  // Where the memory goes: sets `numa` when the outcome is kAllocated.
  [[nodiscard]] MemoryAllocation::Outcome Place(const MemoryState& state,
                                                const MemoryRequests& requests, const Hint& hint,
                                                const ReusableMemory& reusable,
                                                NumaMask& numa) const;
  void Take(MemoryState& state, NumaMask numa, int type, std::uint64_t size) const;
  [[nodiscard]] bool ViolatesGroups(const MemoryState& state, NumaMask numa) const;
  // isAffinitySatisfyRequest: free memory alone, whatever can be used again.
  [[nodiscard]] bool HasFree(const MemoryState& state, const MemoryRequests& requests,
                             NumaMask numa) const;
  // The machine lacks one of these NUMA nodes, or one of them a requested type.
  [[nodiscard]] bool IsMissingOn(NumaMask numa, const MemoryRequests& requests) const;
  [[nodiscard]] std::size_t position(int id) const {
    return static_cast<std::size_t>(position_[static_cast<std::size_t>(id)]);
  }

  KubeletVersion version_;
  NumaMask numa_;
  std::vector<int> ids_;
  std::array<std::int8_t, NumaMask::kMaxIds> position_ = {};  // by id
  std::vector<std::string> types_;
  std::vector<NumaMask> numa_of_type_;      // by type: NUMA nodes that have it
  std::vector<std::uint64_t> allocatable_;  // [position * types + type]
  MemoryState initial_;
};

// What the Pod requests in pod scope (getPodRequestedResources): the larger of all app containers
// with the sidecars and any init container with the sidecars before it, per type; but types that
// no app container requests do not count.
struct ContainerMemoryRequests {
  ContainerDemand::Kind kind = ContainerDemand::Kind::kApp;
  MemoryRequests requests;
};
[[nodiscard]] MemoryRequests PodMemoryRequests(std::span<const ContainerMemoryRequests> containers);

// A container of the Pod got `used`: on the same NUMA nodes that is taken off the blocks of regular
// init containers before it, so that the sum over the Pod stays what it holds
// (updateInitContainersMemoryBlocks). `earlier` are the containers before it in kubelet order.
void ShrinkReusedBlocks(std::span<ContainerMemory> earlier, const MemoryBlocks& used);

// As MemoryManager::StartContainer for a Pod that was allocated as a whole: the book forgets the
// containers, the Pod keeps the memory.
void ForgetEndedContainers(std::span<ContainerMemory> containers, std::size_t started);

// The kubelet releases the containers of Pods that are gone in the order of Go maps, container by
// container. False only when every order gives the same state.
[[nodiscard]] bool ReleaseOrderMatters(std::span<const MemoryBlock> blocks);

}  // namespace numafit::policy
