#include "cache/node_ledger.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cache/books.h"
#include "cache/placement.h"
#include "cache/spreads.h"
#include "policy/requests.h"

namespace numafit::cache {

void NodeLedger::SetTopology(std::shared_ptr<const policy::Topology> topology) {
  topology_ = std::move(topology);
  books_ = topology_->initial_compute();
  Rebuild();
}

NodeLedger::Comparison NodeLedger::Observe(const ReportedNode& report,
                                           const std::vector<LedgerPod*>& listed) {
  Comparison comparison;
  const bool same_machine = topology_ == report.topology;
  for (LedgerPod* pod : pods_) pod->listed = pod->counted = false;
  somebody_.reset();
  books_ = report.books;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    LedgerPod& pod = *listed[i];
    const policy::Holding& held = report.pods[i].held;
    if (std::find(pods_.begin(), pods_.end(), &pod) == pods_.end()) pods_.push_back(&pod);
    if (IsPartial(pod, report, held)) {
      const auto released = AfterRelease(*report.topology, books_, held);
      if (!released.empty()) books_ = released.front();
      continue;
    }
    if (!pod.listed_before && same_machine && IsForetold(pod)) {
      std::vector<policy::DeviceHolding> foretold = states_->HeldBy(pod.handle);
      if (std::find(foretold.begin(), foretold.end(), held.devices) != foretold.end()) {
        ++comparison.confirmed;
      } else if (!foretold.empty()) {
        comparison.differences.push_back({&pod, std::move(foretold)});
      }
    }
    pod.listed = pod.listed_before = true;
    pod.held = held;
    pod.held_in = report.topology;
    pod.places = report.pods[i].places;
  }
  for (LedgerPod* pod : pods_) {
    if (!pod->listed && (pod->gone || pod->demand == nullptr)) comparison.ended.push_back(pod);
  }
  for (const LedgerPod* pod : comparison.ended) Drop(*pod);
  has_report_ = true;
  boot_id_ = report.boot_id;
  generation_ = report.generation;
  misaligned_containers_ = report.misaligned_containers;
  topology_ = report.topology;
  Rebuild();
  return comparison;
}

void NodeLedger::ObserveCounts(const CountedNode& counts) {
  topology_ = counts.node.topology;
  books_ = counts.node.books;
  somebody_ = counts.held;
  MarkCounted(counts);
  Rebuild();
}

void NodeLedger::MarkCounted(const CountedNode& counts) {
  std::vector<LedgerPod*> candidates;
  for (LedgerPod* pod : pods_) {
    pod->counted = false;
    // No kubelet knows of a bind in flight.
    if (!pod->reserved && pod->demand != nullptr) candidates.push_back(pod);
  }
  const auto order = [](const LedgerPod* pod) {
    return std::make_tuple(!pod->admitted, pod->admitted_at, pod->creation_time);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto* a, const auto* b) { return order(a) < order(b); });
  PoolTotals left = counts.taken;
  std::int64_t cpus_left = counts.cpus;
  for (LedgerPod* pod : candidates) {
    const std::int64_t cpus =
        policy::PodRequestsOf(*topology_, *pod->demand,
                              policy::ContainerRequestsOf(*topology_, *pod->demand))
            .cpus;
    PoolTotals rest = left;
    bool counts_at_all = cpus > 0;
    bool fits = cpus <= cpus_left;
    for (const auto& [pool, count] : TotalsOf(*topology_, *pod->demand)) {
      // A pool without zones is in no count.
      for (auto& [zoned, remaining] : rest) {
        if (zoned != pool) continue;
        counts_at_all = true;
        remaining -= count;
        fits = fits && remaining >= 0;
      }
    }
    if (!counts_at_all || !fits) continue;
    pod->counted = true;
    left = std::move(rest);
    cpus_left -= cpus;
  }
}

bool NodeLedger::IsPartial(const LedgerPod& pod, const ReportedNode& report,
                           const policy::Holding& held) const {
  if (pod.demand == nullptr || pod.admitted || pod.listed_before) return false;
  return TotalsOf(*report.topology, held.devices) != TotalsOf(*report.topology, *pod.demand);
}

// Of a Pod that ran when it was first seen, its bind's word is known. A kubelet that does not
// enforce may have admitted others in between.
bool NodeLedger::IsForetold(const LedgerPod& pod) const {
  if (pod.handle == LedgerPod::kHoldsNothing) return false;
  const bool by_its_bind = pod.admitted && pod.admitted_at == 0;
  return !by_its_bind || policy::Enforces(topology_->kubelet().policy);
}

std::vector<LedgerPod*> NodeLedger::LetGoOfEnded() {
  std::vector<LedgerPod*> ended;
  for (LedgerPod* pod : pods_) {
    if (pod->gone || pod->demand == nullptr) ended.push_back(pod);
  }
  for (LedgerPod* pod : ended) {
    if (pod->handle != LedgerPod::kHoldsNothing) states_->Remove(pod->handle, false);
    Drop(*pod);
  }
  return ended;
}

std::vector<LedgerPod*> NodeLedger::LoseReport() {
  std::vector<LedgerPod*> ended = LetGoOfEnded();
  has_report_ = false;
  boot_id_.clear();
  generation_ = 0;
  misaligned_containers_ = 0;
  somebody_.reset();
  topology_ = nullptr;
  states_.reset();
  for (LedgerPod* pod : pods_) {
    pod->handle = LedgerPod::kHoldsNothing;
    pod->listed = pod->listed_before = pod->counted = false;
    pod->held_in.reset();
    pod->places.reset();
  }
  return ended;
}

std::vector<LedgerPod*> NodeLedger::SetCurrent(bool is_current) {
  is_current_ = is_current;
  if (is_current || !states_) return {};
  std::vector<LedgerPod*> ended = LetGoOfEnded();
  Rebuild();
  return ended;
}

void NodeLedger::Rebuild() {
  states_.emplace(topology_, limits_);
  states_->SetBooks(books_);
  expected_books_ = books_;
  if (somebody_ && !somebody_->empty()) states_->AddObserved(*somebody_);
  std::vector<LedgerPod*> foretold;
  for (LedgerPod* pod : pods_) {
    pod->handle = LedgerPod::kHoldsNothing;
    if (pod->counted) continue;  // somebody's
    if (pod->listed) {
      AddListed(*pod);
    } else if (!pod->listed_before) {
      foretold.push_back(pod);
    }
  }
  for (LedgerPod* pod : pods_) {
    if (!pod->listed && pod->listed_before) AddVanished(*pod);
  }
  for (const LedgerPod* pod : pods_) {
    // One that the API server does not show: the report is late, or our watch is.
    const bool may_have_left = !pod->listed || pod->leaving || pod->gone || pod->demand == nullptr;
    if (pod->handle != LedgerPod::kHoldsNothing && may_have_left) {
      states_->StartLeaving(pod->handle);
    }
  }
  // In the order in which their kubelet has admitted them, then those that wait.
  const auto order = [](const LedgerPod* pod) {
    return std::make_pair(!pod->admitted, pod->admitted_at);
  };
  std::stable_sort(foretold.begin(), foretold.end(),
                   [&](const auto* a, const auto* b) { return order(a) < order(b); });
  for (LedgerPod* pod : foretold) AddForetold(*pod);
}

void NodeLedger::AddListed(LedgerPod& pod) {
  if (!pod.held.empty()) pod.handle = states_->AddObserved(pod.held);
}

// The books have it no more. It may be there all the same, unless somebody else has what it had.
void NodeLedger::AddVanished(LedgerPod& pod) {
  if (pod.held.empty()) return;
  if (pod.held_in != topology_) {
    // What it had was of the machine as it was then (a plugin came or went, a device broke).
    if (pod.demand == nullptr || HoldsNothing(*topology_, *pod.demand)) return;
    pod.handle = states_->AddUnknown(pod.demand);
    return;
  }
  if (!HasRoomFor(pod.held)) return;
  AddToBooks(*topology_, pod.held, expected_books_);
  states_->SetBooks(expected_books_);
  pod.handle = states_->AddObserved(pod.held);
}

bool NodeLedger::HasRoomFor(const policy::Holding& held) const {
  for (const policy::ClassCount& item : held.devices) {
    int taken = item.count;
    for (const LedgerPod* pod : pods_) {
      if (pod->handle == LedgerPod::kHoldsNothing || pod->held_in != topology_) continue;
      for (const policy::ClassCount& other : pod->held.devices) {
        if (other.class_index == item.class_index) taken += other.count;
      }
    }
    const auto& device_class = topology_->classes()[static_cast<std::size_t>(item.class_index)];
    if (taken > device_class.count) return false;
  }
  policy::CpuSet missing = held.cpus;
  missing -= expected_books_.default_cpus;
  if (!missing.empty()) return false;
  if (topology_->memory_manager() == nullptr) return true;
  const auto ids = topology_->memory_manager()->numa_ids();
  for (const policy::ContainerMemory& container : held.memory) {
    for (const policy::MemoryBlock& block : container.blocks) {
      std::uint64_t free = 0;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (block.numa.contains(ids[i])) free += expected_books_.memory.at(i, block.type).free;
      }
      if (free < block.size) return false;
    }
  }
  return true;
}

void NodeLedger::AddForetold(LedgerPod& pod) {
  if (pod.demand == nullptr || HoldsNothing(*topology_, *pod.demand)) return;
  if (pod.admitted && pod.admitted_at == 0) {
    // The next report will say; without an agent nobody will.
    const bool will_be_listed = (has_report_ && is_current_) || has_counts();
    if (will_be_listed && !policy::Enforces(topology_->kubelet().policy)) {
      pod.handle = states_->AddUnknown(pod.demand);
      if (pod.leaving) states_->StartLeaving(pod.handle);
      return;
    }
    std::vector<policy::DeviceHolding> held;
    if (!pod.placement.empty()) held = HeldFromPlacement(*topology_, *pod.demand, pod.placement);
    pod.handle = states_->AddRunning(pod.demand, held);
  } else {
    pod.handle = states_->AddWaiting(pod.demand);
    if (pod.admitted) states_->ShowAdmitted(pod.handle);
  }
  if (pod.leaving) states_->StartLeaving(pod.handle);
}

void NodeLedger::Add(LedgerPod& pod, const std::optional<policy::DeviceHolding>& devices) {
  pods_.push_back(&pod);
  if (!states_) return;
  if (!devices) {
    AddForetold(pod);
  } else if (!HoldsNothing(*topology_, *pod.demand)) {
    pod.handle = states_->AddRunning(pod.demand, {*devices});
  }
}

void NodeLedger::Introduce(LedgerPod& pod, std::shared_ptr<const policy::Demand> demand) {
  pod.demand = std::move(demand);
  if (states_) Rebuild();
}

void NodeLedger::ShowAdmitted(LedgerPod& pod) {
  if (pod.admitted) return;
  pod.admitted = true;
  pod.admitted_at = ++admissions_;
  if (pod.handle != LedgerPod::kHoldsNothing) states_->ShowAdmitted(pod.handle);
}

void NodeLedger::StartLeaving(LedgerPod& pod) {
  if (std::exchange(pod.leaving, true)) return;
  if (pod.handle != LedgerPod::kHoldsNothing) states_->StartLeaving(pod.handle);
}

bool NodeLedger::End(LedgerPod& pod, bool never_admitted) {
  if (has_report_ && is_current_ && pod.listed) {
    pod.gone = true;
    if (pod.handle != LedgerPod::kHoldsNothing) states_->StartLeaving(pod.handle);
    return false;
  }
  if (pod.handle != LedgerPod::kHoldsNothing) states_->Remove(pod.handle, never_admitted);
  Drop(pod);
  return true;
}

void NodeLedger::Drop(const LedgerPod& pod) {
  // The report that the states are made of anew has it in its books.
  if (pod.listed && pod.held_in == topology_) {
    const auto released = AfterRelease(*topology_, books_, pod.held);
    if (!released.empty()) books_ = released.front();
  }
  pods_.erase(std::find(pods_.begin(), pods_.end(), &pod));
}

int NodeLedger::Contradictions() const {
  return static_cast<int>(std::count_if(pods_.begin(), pods_.end(),
                                        [&](const LedgerPod* pod) { return Contradicts(*pod); }));
}

bool NodeLedger::Contradicts(const LedgerPod& pod) const {
  return pod.handle != LedgerPod::kHoldsNothing && states_->Contradicts(pod.handle);
}

std::vector<policy::DeviceHolding> NodeLedger::HeldBy(const LedgerPod& pod) const {
  if (pod.handle == LedgerPod::kHoldsNothing) return {policy::DeviceHolding{}};
  return states_->HeldBy(pod.handle);
}

std::optional<NodeState> NodeLedger::DescribeWithout(const std::vector<std::string>& keys) const {
  if (!states_) return std::nullopt;
  PossibleStates rest = *states_;
  for (const LedgerPod* pod : pods_) {
    const bool leaves = std::find(keys.begin(), keys.end(), pod->key) != keys.end();
    if (leaves && pod->handle != LedgerPod::kHoldsNothing) rest.Remove(pod->handle, false);
  }
  return Describe(rest);
}

std::optional<NodeState> NodeLedger::Describe() const {
  if (!states_) return std::nullopt;
  return Describe(*states_);
}

NodeState NodeLedger::Describe(const PossibleStates& states) const {
  NodeState state = states.Describe();
  state.counts_only = has_counts();
  return state;
}

}  // namespace numafit::cache
