#include "cache/possible_states.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "cache/books.h"
#include "policy/requests.h"

namespace numafit::cache {
namespace {

// Where the order decides nothing, worlds only sharpen what is said about alignment.
constexpr std::size_t kMaxWorldsUnordered = 16;
constexpr std::size_t kMaxWorldsUnorderedWithBooks = 256;
constexpr std::size_t kMaxWorldsOrdered = 2048;

std::vector<policy::Holding> HoldingsOf(const std::vector<policy::DeviceHolding>& devices) {
  std::vector<policy::Holding> holdings;
  for (const policy::DeviceHolding& holding : devices) {
    holdings.emplace_back().devices = holding;
  }
  return holdings;
}

}  // namespace

PossibleStates::PossibleStates(std::shared_ptr<const policy::Topology> topology, Limits limits)
    : topology_(std::move(topology)), limits_(limits), worlds_(1) {
  worlds_.front().compute = topology_->initial_compute();
}

std::size_t PossibleStates::MaxWorlds() const {
  if (topology_->OrderMatters()) return kMaxWorldsOrdered;
  return topology_->HasBooks() ? kMaxWorldsUnorderedWithBooks : kMaxWorldsUnordered;
}

std::size_t PossibleStates::IndexOf(Handle pod) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].handle == pod) return i;
  }
  return slots_.size();
}

int PossibleStates::WaitingPods() const {
  return static_cast<int>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.admitted; }));
}

bool PossibleStates::AnyLeaving() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.leaving; });
}

policy::Usage PossibleStates::UsageOf(const World& world) const {
  policy::Usage usage(*topology_);
  for (std::size_t i = 0; i < world.places.size(); ++i) {
    if (world[i] >= 0) usage.Add(slots_[i].holdings[static_cast<std::size_t>(world[i])].devices);
  }
  usage.compute() = world.compute;
  return usage;
}

PoolTotals PossibleStates::LooseTotals() const {
  std::map<int, int> sums;
  for (const Slot& slot : slots_) {
    if (!slot.loose) continue;
    for (const auto& [pool, count] : slot.totals) sums[pool] += count;
  }
  return {sums.begin(), sums.end()};
}

bool PossibleStates::IsSettled(const World& world) const {
  return std::find(world.places.begin(), world.places.end(), kWaiting) == world.places.end();
}

bool PossibleStates::IsFinal(const World& world) const {
  for (std::size_t i = 0; i < world.places.size(); ++i) {
    if (world[i] == kWaiting || (slots_[i].leaving && world[i] != kGone)) return false;
  }
  return true;
}

std::int16_t PossibleStates::IndexOfHolding(Slot& slot, const policy::Holding& holding) {
  const auto found = std::find(slot.holdings.begin(), slot.holdings.end(), holding);
  const auto index = found - slot.holdings.begin();
  if (found == slot.holdings.end()) slot.holdings.push_back(holding);
  return static_cast<std::int16_t>(index);
}

PossibleStates::Slot& PossibleStates::NewSlot(std::shared_ptr<const policy::Demand> demand,
                                              bool admitted) {
  Slot& slot = slots_.emplace_back();
  slot.handle = next_handle_++;
  if (demand != nullptr) slot.totals = TotalsOf(*topology_, *demand);
  slot.demand = std::move(demand);
  slot.admitted = admitted;
  slot.loose = loose_;
  for (World& world : worlds_) world.places.push_back(loose_ ? kLoose : kWaiting);
  return slot;
}

PossibleStates::Handle PossibleStates::AddWaiting(std::shared_ptr<const policy::Demand> demand) {
  const Handle handle = NewSlot(std::move(demand), /*admitted=*/false).handle;
  Close();
  return handle;
}

PossibleStates::Handle PossibleStates::AddRunning(std::shared_ptr<const policy::Demand> demand,
                                                  const std::vector<policy::DeviceHolding>& held) {
  Slot& slot = NewSlot(std::move(demand), /*admitted=*/true);
  const Handle handle = slot.handle;
  const std::size_t index = slots_.size() - 1;
  if (MayHoldBooks(slot)) {
    if (!loose_ && !AdmitInEveryWorld(index, held)) GoLoose();
  } else if (held.size() == 1) {
    slot.loose = false;
    policy::Holding holding;
    holding.devices = held.front();
    const std::int16_t at = IndexOfHolding(slot, holding);
    for (World& world : worlds_) world[index] = at;
  } else if (!loose_) {
    const std::vector<policy::Holding> alternatives =
        held.empty() ? PicksOf(slots_[index]) : HoldingsOf(held);
    const std::vector<World> before = worlds_;
    if (!Multiply(index, alternatives)) {
      worlds_ = before;
      GoLoose();
    }
  }
  Close();
  return handle;
}

void PossibleStates::SetBooks(const policy::ComputeState& books) {
  for (World& world : worlds_) world.compute = books;
}

PossibleStates::Handle PossibleStates::AddUnknown(std::shared_ptr<const policy::Demand> demand) {
  const Handle handle = NewSlot(std::move(demand), /*admitted=*/true).handle;
  GoLoose();
  return handle;
}

PossibleStates::Handle PossibleStates::AddObserved(const policy::Holding& held) {
  Slot& slot = NewSlot(nullptr, /*admitted=*/true);
  slot.totals = TotalsOf(*topology_, held.devices);
  slot.loose = false;
  const std::int16_t at = IndexOfHolding(slot, held);
  for (World& world : worlds_) world.places.back() = at;
  return slot.handle;
}

std::vector<policy::Holding> PossibleStates::PicksOf(const Slot& slot) const {
  if (slot.demand == nullptr) return slot.holdings;
  return HoldingsOf(PossiblePicks(*topology_, *slot.demand, MaxWorlds()));
}

bool PossibleStates::AdmitInEveryWorld(std::size_t slot,
                                       const std::vector<policy::DeviceHolding>& held) {
  std::vector<World> after;
  for (const World& world : worlds_) {
    const policy::Usage usage = UsageOf(world);
    const policy::AdmitResult result = policy::Admit(*topology_, usage, *slots_[slot].demand);
    if (result.truncated) return false;
    for (const policy::Outcome& outcome : result.outcomes) {
      if (!outcome.admitted) continue;
      if (!held.empty() &&
          std::find(held.begin(), held.end(), outcome.held.devices) == held.end()) {
        continue;
      }
      if (after.size() == MaxWorlds()) return false;
      World& next = after.emplace_back(world);
      next[slot] = IndexOfHolding(slots_[slot], AsOneContainer(outcome.held));
      next.compute = outcome.compute;
    }
  }
  if (after.empty()) return false;
  worlds_ = std::move(after);
  return true;
}

bool PossibleStates::Multiply(std::size_t slot, const std::vector<policy::Holding>& alternatives) {
  std::vector<World> wider;
  for (const World& world : worlds_) {
    const policy::Usage usage = UsageOf(world);
    for (const policy::Holding& holding : alternatives) {
      const auto& devices = holding.devices;
      const bool room = std::all_of(devices.begin(), devices.end(), [&](const auto& item) {
        const auto& device_class = topology_->classes()[static_cast<std::size_t>(item.class_index)];
        return usage.taken(item.class_index) + item.count <= device_class.count;
      });
      if (!room) continue;
      if (wider.size() == MaxWorlds()) return false;
      World next = world;
      next[slot] = IndexOfHolding(slots_[slot], holding);
      wider.push_back(std::move(next));
    }
  }
  if (wider.empty()) return false;
  worlds_ = std::move(wider);
  return true;
}

bool PossibleStates::TryClose() {
  absl::flat_hash_set<World> seen(worlds_.begin(), worlds_.end());
  std::map<std::pair<std::size_t, policy::Usage>, policy::AdmitResult> answers;
  // `worlds_` grows while it is walked.
  for (std::size_t at = 0; at < worlds_.size(); ++at) {
    if (IsFinal(worlds_[at])) continue;
    const policy::Usage usage = UsageOf(worlds_[at]);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].leaving && worlds_[at][i] != kGone) {
        std::vector<World> departed;
        if (!Depart(worlds_[at], i, departed)) return false;
        for (World& next : departed) {
          if (!seen.insert(next).second) continue;
          if (worlds_.size() == MaxWorlds()) return false;
          worlds_.push_back(std::move(next));
        }
      }
      if (worlds_[at][i] != kWaiting) continue;
      const auto [answer, is_new] = answers.try_emplace({i, usage});
      if (is_new) answer->second = policy::Admit(*topology_, usage, *slots_[i].demand);
      if (answer->second.truncated) return false;
      for (const policy::Outcome& outcome : answer->second.outcomes) {
        World next = worlds_[at];
        next[i] =
            outcome.admitted ? IndexOfHolding(slots_[i], AsOneContainer(outcome.held)) : kRefused;
        if (topology_->HasBooks()) {
          policy::Usage after = usage;
          policy::Apply(*topology_, outcome, after);
          next.compute = std::move(after.compute());
        }
        if (!seen.insert(next).second) continue;
        if (worlds_.size() == MaxWorlds()) return false;
        worlds_.push_back(std::move(next));
      }
    }
  }
  return true;
}

bool PossibleStates::WithinBounds() const {
  if (topology_->OrderMatters() && WaitingPods() > limits_.max_unadmitted) return false;
  if (worlds_.size() <= static_cast<std::size_t>(limits_.max_states)) return true;
  std::set<policy::Usage> usages;
  for (const World& world : worlds_) {
    if (IsSettled(world)) usages.insert(UsageOf(world));
  }
  return usages.size() <= static_cast<std::size_t>(limits_.max_states);
}

void PossibleStates::Close() {
  if (loose_) {
    Tighten();
    return;
  }
  if (topology_->OrderMatters() && WaitingPods() > limits_.max_unadmitted) {
    GoLoose();
    return;
  }
  const bool open = std::any_of(worlds_.begin(), worlds_.end(),
                                [this](const World& world) { return !IsFinal(world); });
  if (open && !TryClose()) {
    GoLoose();
    return;
  }
  if (topology_->cpu_manager() != nullptr) Deduplicate();
  if (!WithinBounds()) GoLoose();
}

bool PossibleStates::Depart(const World& world, std::size_t slot,
                            std::vector<World>& worlds) const {
  World next = world;
  next[slot] = kGone;
  if (world[slot] < 0 || !topology_->HasBooks()) {
    worlds.push_back(std::move(next));
    return true;
  }
  const policy::Holding& holding = slots_[slot].holdings[static_cast<std::size_t>(world[slot])];
  for (policy::ComputeState& compute : AfterRelease(*topology_, world.compute, holding)) {
    next.compute = std::move(compute);
    worlds.push_back(next);
  }
  return !worlds.empty();
}

bool PossibleStates::MayHoldBooks(const Slot& slot) const {
  return topology_->HasBooks() && slot.demand != nullptr &&
         policy::MayHaveOwnCpusAndMemory(*topology_, *slot.demand);
}

void PossibleStates::GoLoose() {
  World collapsed = worlds_.front();
  collapsed.places.assign(slots_.size(), kLoose);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::int16_t first = worlds_.front()[i];
    const bool fixed = slots_[i].admitted && first >= 0 &&
                       std::all_of(worlds_.begin(), worlds_.end(),
                                   [&](const World& world) { return world[i] == first; });
    slots_[i].loose = !fixed;
    if (fixed) collapsed[i] = first;
    loose_ |= !fixed;
  }
  worlds_ = {std::move(collapsed)};
}

void PossibleStates::Tighten() {
  if (WaitingPods() > 0 || AnyLeaving()) return;
  const bool books_are_lost = std::any_of(slots_.begin(), slots_.end(), [this](const Slot& slot) {
    return slot.loose && MayHoldBooks(slot);
  });
  if (books_are_lost) return;
  ResetBooks();
  const std::vector<World> before = worlds_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].loose) continue;
    const std::vector<policy::Holding> picks = PicksOf(slots_[i]);
    if (picks.empty() || !Multiply(i, picks)) {
      worlds_ = before;
      return;
    }
  }
  const bool fits = WithinBounds();
  if (!fits) {
    worlds_ = before;
    return;
  }
  for (Slot& slot : slots_) slot.loose = false;
  loose_ = false;
}

// Of the Pods that are known: everybody is.
void PossibleStates::ResetBooks() {
  if (!topology_->HasBooks()) return;
  for (World& world : worlds_) {
    world.compute = topology_->initial_compute();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (world[i] < 0) continue;
      AddToBooks(*topology_, slots_[i].holdings[static_cast<std::size_t>(world[i])], world.compute);
    }
  }
}

void PossibleStates::UseLowestCpusIn(World& world) {
  std::vector<policy::Holding> holdings;
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (world[i] < 0) continue;
    slots.push_back(i);
    holdings.push_back(slots_[i].holdings[static_cast<std::size_t>(world[i])]);
  }
  std::vector<policy::CpuSet*> owners;
  for (policy::Holding& holding : holdings) owners.push_back(&holding.cpus);
  UseLowestCpus(*topology_, std::move(owners), world.compute.default_cpus);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    world[slots[i]] = IndexOfHolding(slots_[slots[i]], holdings[i]);
  }
}

void PossibleStates::Deduplicate() {
  if (topology_->cpu_manager() != nullptr && !loose_) {
    for (World& world : worlds_) UseLowestCpusIn(world);
  }
  absl::flat_hash_set<World> seen;
  std::vector<World> unique;
  for (World& world : worlds_) {
    if (seen.insert(world).second) unique.push_back(std::move(world));
  }
  worlds_ = std::move(unique);
}

void PossibleStates::ShowAdmitted(Handle pod) {
  const std::size_t index = IndexOf(pod);
  if (index == slots_.size() || slots_[index].admitted) return;
  slots_[index].admitted = true;
  if (!loose_) {
    std::vector<World> agreeing;
    for (const World& world : worlds_) {
      if (world[index] >= 0 || world[index] == kGone) agreeing.push_back(world);
    }
    if (agreeing.empty()) {
      slots_[index].contradiction = true;
      GoLoose();
    } else {
      worlds_ = std::move(agreeing);
    }
  }
  if (loose_) Tighten();
}

bool PossibleStates::IsLeaving(Handle pod) const {
  const std::size_t index = IndexOf(pod);
  return index != slots_.size() && slots_[index].leaving;
}

void PossibleStates::StartLeaving(Handle pod) {
  const std::size_t index = IndexOf(pod);
  if (index == slots_.size() || slots_[index].leaving) return;
  slots_[index].leaving = true;
  Close();
}

void PossibleStates::Remove(Handle pod, bool never_admitted) {
  const std::size_t index = IndexOf(pod);
  if (index == slots_.size()) return;
  if (never_admitted) {
    std::vector<World> agreeing;
    for (const World& world : worlds_) {
      if (world[index] < 0) agreeing.push_back(world);
    }
    if (!agreeing.empty()) worlds_ = std::move(agreeing);
  }
  if (topology_->HasBooks() && !loose_) {
    std::vector<World> left;
    for (const World& world : worlds_) {
      if (!Depart(world, index, left)) left.push_back(world);
    }
    worlds_ = std::move(left);
  }
  for (World& world : worlds_) {
    world.places.erase(world.places.begin() + static_cast<std::ptrdiff_t>(index));
  }
  slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(index));
  const bool was_loose = loose_;
  loose_ = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.loose; });
  if (was_loose && !loose_) ResetBooks();
  Deduplicate();
  Close();
}

std::vector<policy::DeviceHolding> PossibleStates::HeldBy(Handle pod) const {
  const std::size_t index = IndexOf(pod);
  if (index == slots_.size() || slots_[index].loose) return {};
  std::set<std::int16_t> indices;
  for (const World& world : worlds_) {
    if (world[index] >= 0 && IsSettled(world)) indices.insert(world[index]);
  }
  std::vector<policy::DeviceHolding> held;
  for (const std::int16_t i : indices) {
    const auto& devices = slots_[index].holdings[static_cast<std::size_t>(i)].devices;
    if (std::find(held.begin(), held.end(), devices) == held.end()) held.push_back(devices);
  }
  return held;
}

bool PossibleStates::Contradicts(Handle pod) const {
  const std::size_t index = IndexOf(pod);
  if (index == slots_.size()) return false;
  const Slot& slot = slots_[index];
  if (slot.contradiction || slot.admitted || slot.loose) return slot.contradiction;
  return std::all_of(worlds_.begin(), worlds_.end(),
                     [&](const World& world) { return world[index] < 0; });
}

NodeState PossibleStates::Describe() const {
  NodeState state;
  state.topology = topology_;
  state.max_states = limits_.max_states;
  state.leaving = topology_->OrderMatters() && AnyLeaving();
  if (loose_) {
    DescribeLoose(state);
    return state;
  }
  std::set<policy::Usage> usages;
  for (const World& world : worlds_) {
    if (IsSettled(world)) usages.insert(UsageOf(world));
  }
  state.knowledge.usages.assign(usages.begin(), usages.end());
  if (topology_->OrderMatters() && WaitingPods() > 0) {
    state.knowledge.settling = WaitingPods() >= limits_.max_unadmitted;
    DescribePending(state);
  }
  return state;
}

void PossibleStates::DescribeLoose(NodeState& state) const {
  const policy::Usage fixed = UsageOf(worlds_.front());
  if (topology_->HasBooks()) state.knowledge.settling = true;
  const PoolTotals totals = LooseTotals();
  const auto limit = static_cast<std::size_t>(limits_.max_states);
  std::vector<policy::DeviceHolding> spreads = AllSpreads(*topology_, fixed, totals, limit);
  if (topology_->OrderMatters() && (spreads.empty() || WaitingPods() > 0 || state.leaving)) {
    state.knowledge.settling = true;
  }
  if (spreads.empty()) {
    spreads = ExtremeSpreads(*topology_, fixed, totals, limit);
    state.exhaustive = false;
  }
  std::set<policy::Usage> usages;
  for (const policy::DeviceHolding& spread : spreads) {
    policy::Usage usage = fixed;
    usage.Add(spread);
    usages.insert(std::move(usage));
  }
  state.knowledge.usages.assign(usages.begin(), usages.end());
}

void PossibleStates::DescribePending(NodeState& state) const {
  // Sorted by what they ask for, so that nodes in the same state look the same.
  std::vector<std::pair<std::string, std::size_t>> order;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].admitted) order.emplace_back(slots_[i].demand->Fingerprint(), i);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [fingerprint, i] : order) state.pending.push_back(slots_[i].demand);
  using Key = std::pair<std::vector<std::int16_t>, policy::Usage>;
  std::set<Key> seen;
  for (const World& world : worlds_) {
    Key key;
    NodeState::Now now;
    for (const auto& [fingerprint, i] : order) {
      key.first.push_back(world[i]);
      const bool holds = world[i] >= 0;
      now.places.push_back(holds                  ? NodeState::Now::Place::kAdmitted
                           : world[i] == kRefused ? NodeState::Now::Place::kRefused
                                                  : NodeState::Now::Place::kWaiting);
      now.held.push_back(holds ? slots_[i].holdings[static_cast<std::size_t>(world[i])]
                               : policy::Holding{});
    }
    now.usage = UsageOf(world);
    key.second = now.usage;
    if (seen.insert(std::move(key)).second) state.now.push_back(std::move(now));
  }
  // The order in which worlds were found says nothing.
  std::sort(state.now.begin(), state.now.end(), [](const auto& a, const auto& b) {
    return std::tie(a.places, a.held, a.usage) < std::tie(b.places, b.held, b.usage);
  });
}

}  // namespace numafit::cache
