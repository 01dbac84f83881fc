#include "cache/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cache/placement.h"
#include "test/cache/machines.h"

namespace numafit::cache {
namespace {

using policy::Reason;
using ::testing::HasSubstr;

FleetFile FileOf(const test::Machine& machine, int nodes) {
  FleetFile file;
  const auto topology = test::Make(machine);
  for (int i = 0; i < nodes; ++i) {
    file.nodes.push_back({.name = "n" + std::to_string(i),
                          .shape = machine.name,
                          .labels = {},
                          .kubelet_version = "v1.36.3",
                          .topology = topology});
  }
  return file;
}

std::unique_ptr<Fleet> FleetOf(const test::Machine& machine, int nodes,
                               Fleet::Options options = {}) {
  return Fleet::FromFile(FileOf(machine, nodes), api::ResourceClasses(), options).value();
}

api::Pod PodFor(const policy::Demand& demand, const std::string& uid) {
  api::Pod pod;
  pod.metadata.name = "pod-" + uid;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = uid;
  pod.status.phase = "Pending";
  for (const policy::ContainerDemand& each : demand.containers) {
    api::Container container;
    container.name = each.name;
    container.restart_always = each.kind == policy::ContainerDemand::Kind::kSidecar;
    for (const auto& [resource, count] : each.devices) {
      container.resources.limits[resource] = api::Quantity::FromInt(count);
    }
    const bool app = each.kind == policy::ContainerDemand::Kind::kApp;
    (app ? pod.containers : pod.init_containers).push_back(container);
  }
  return pod;
}

api::Pod Bound(api::Pod pod, const std::string& node) {
  pod.node_name = node;
  return pod;
}
api::Pod Running(api::Pod pod) {
  pod.status.phase = "Running";
  pod.status.container_statuses = 1;
  return pod;
}
api::Pod Failed(api::Pod pod, const std::string& reason) {
  pod.status.phase = "Failed";
  pod.status.reason = reason;
  return pod;
}

const NodeState& StateOf(const Fleet& fleet, int node) {
  const Fleet::ReadGuard guard(fleet);
  return *fleet.State(guard, node);  // nobody else changes the fleet in these tests
}
policy::Judgement JudgeNow(const Fleet& fleet, int node, const policy::Demand& demand) {
  return JudgeOnNode(StateOf(fleet, node), demand, nullptr);
}

TEST(Fleet, FindsNodesByNameAndHint) {
  const auto fleet = FleetOf(test::kEven, 3);
  const Fleet::ReadGuard guard(*fleet);
  EXPECT_EQ(fleet->size(), 3U);
  EXPECT_EQ(fleet->FindNode(guard, "n2", 2), 2);
  EXPECT_EQ(fleet->FindNode(guard, "n2", 0), 2);
  EXPECT_EQ(fleet->FindNode(guard, "n2", 99), 2);
  EXPECT_EQ(fleet->FindNode(guard, "n2", -1), 2);
  EXPECT_EQ(fleet->FindNode(guard, "n3", 0), -1);
  EXPECT_EQ(fleet->NodeName(guard, 1), "n1");
}

TEST(Fleet, EqualNodesShareAStateAndItsId) {
  const auto fleet = FleetOf(test::kEven, 3);
  fleet->Reserve("n1", "u1", "default/p", *test::Want(1, 1));
  {
    const Fleet::ReadGuard guard(*fleet);
    const std::uint64_t* ids = fleet->StateIds(guard);
    EXPECT_EQ(ids[0], ids[2]);
    EXPECT_NE(ids[0], ids[1]);
    EXPECT_EQ(ids[0], fleet->State(guard, 0)->id);
  }
  fleet->Reserve("n2", "u2", "default/q", *test::Want(1, 1));
  {
    const Fleet::ReadGuard guard(*fleet);
    EXPECT_EQ(fleet->StateIds(guard)[1], fleet->StateIds(guard)[2]);
  }
  fleet->Release("u1");
  const Fleet::ReadGuard guard(*fleet);
  EXPECT_EQ(fleet->StateIds(guard)[0], fleet->StateIds(guard)[1]);
  // As it was, but it has changed.
  EXPECT_EQ(fleet->Changes(guard)[1], fleet->Changes(guard)[0] + 2);
}

TEST(Fleet, TheLastRoomIsGivenAwayOnce) {
  const auto fleet = FleetOf(test::kEven, 1);
  const auto demand = test::Want(4, 4);
  EXPECT_TRUE(fleet->Reserve("n0", "a", "default/a", *demand).judgement.fits());
  EXPECT_TRUE(fleet->Reserve("n0", "b", "default/b", *demand).judgement.fits());
  const Fleet::ReserveResult third = fleet->Reserve("n0", "c", "default/c", *demand);
  EXPECT_FALSE(third.judgement.fits());
  EXPECT_FALSE(third.already_here);
  EXPECT_EQ(fleet->stats().reservations, 2U);
  fleet->Release("a");
  EXPECT_TRUE(fleet->Reserve("n0", "c", "default/c", *demand).judgement.fits());
}

TEST(Fleet, ASecondReservationOfTheSamePodTakesNothing) {
  const auto fleet = FleetOf(test::kEven, 2);
  const auto demand = test::Want(4, 4);
  fleet->Reserve("n0", "a", "default/a", *demand);
  const Fleet::ReserveResult again = fleet->Reserve("n0", "a", "default/a", *demand);
  EXPECT_TRUE(again.judgement.fits());
  EXPECT_TRUE(again.already_here);
  EXPECT_TRUE(fleet->Reserve("n0", "b", "default/b", *demand).judgement.fits());
  const Fleet::ReserveResult elsewhere = fleet->Reserve("n1", "a", "default/a", *demand);
  EXPECT_EQ(elsewhere.judgement.reason, Reason::kKubeletRefuses);
  EXPECT_THAT(elsewhere.error, HasSubstr("holds a place on node n0 already"));
}

TEST(Fleet, AnUnknownNodeIsSaidToBeUnknown) {
  const auto fleet = FleetOf(test::kEven, 1);
  const Fleet::ReserveResult result = fleet->Reserve("x", "a", "default/a", *test::Want(1, 1));
  EXPECT_EQ(result.judgement.reason, Reason::kNoReport);
  EXPECT_THAT(result.error, HasSubstr("node x is not in the inventory"));
}

// Filter and gate give the same answer, because they ask the same question.
TEST(Fleet, WaitsWhereTheOrderWouldDecide) {
  const auto fleet = FleetOf(test::kEven, 1);
  const auto three = test::Want(3, 3);
  const auto two = test::Want(2, 2);
  ASSERT_TRUE(fleet->Reserve("n0", "a", "default/a", *three).judgement.fits());
  EXPECT_EQ(JudgeNow(*fleet, 0, *two).reason, Reason::kSettling);
  EXPECT_EQ(fleet->Reserve("n0", "b", "default/b", *two).judgement.reason, Reason::kSettling);
  fleet->Commit("a");
  fleet->UpsertPod(Running(Bound(PodFor(*three, "a"), "n0")));
  EXPECT_TRUE(JudgeNow(*fleet, 0, *two).fits());
  EXPECT_TRUE(fleet->Reserve("n0", "b", "default/b", *two).judgement.fits());
}

TEST(Fleet, DoesNotWaitWhereTheOrderDoesNotMatter) {
  const auto fleet = FleetOf(test::kEven, 1);
  // On the same NUMA node whoever comes first; and two that may only change places.
  ASSERT_TRUE(fleet->Reserve("n0", "a", "default/a", *test::Want(1, 1)).judgement.fits());
  ASSERT_TRUE(fleet->Reserve("n0", "b", "default/b", *test::Want(1, 1)).judgement.fits());
  ASSERT_TRUE(fleet->Reserve("n0", "c", "default/c", *test::Want(2, 1)).judgement.fits());
  EXPECT_EQ(JudgeNow(*fleet, 0, *test::Want(4, 4)).reason, Reason::kSettling)
      << "it would have NUMA 0 to itself if it came first";
  const auto pairs = FleetOf(test::kEven, 1);
  ASSERT_TRUE(pairs->Reserve("n0", "a", "default/a", *test::Want(4, 4)).judgement.fits());
  ASSERT_TRUE(pairs->Reserve("n0", "b", "default/b", *test::Want(4, 4)).judgement.fits());
  EXPECT_EQ(StateOf(*pairs, 0).knowledge.usages.size(), 1U);
}

TEST(Fleet, RefusesWhatWouldCostAnEarlierPodItsPlace) {
  // NUMA 0 has one GPU left and all endpoints, NUMA 1 four GPUs and one endpoint left.
  const auto fleet = FleetOf(test::kEven, 1);
  const auto run = [&](const std::string& uid, const policy::Demand& demand) {
    ASSERT_TRUE(fleet->Reserve("n0", uid, uid, demand).judgement.fits()) << uid;
    fleet->UpsertPod(Running(Bound(PodFor(demand, uid), "n0")));
    fleet->Commit(uid);
  };
  run("a", *test::Want(3, 0));
  ASSERT_TRUE(fleet->Reserve("n0", "b", "b", *test::Want(1, 0)).judgement.fits());
  // Wants the one GPU of NUMA 0 that the first one, still on its way, gets in every order… or not.
  const policy::Judgement judgement = JudgeNow(*fleet, 0, *test::Want(1, 4));
  EXPECT_EQ(judgement.reason, Reason::kSettling);
}

api::Pod Deleted(api::Pod pod) {
  pod.metadata.deletion_time = 1'700'000'000;
  return pod;
}

// The kubelet lets go of a deleted Pod's devices before the API server shows the Pod gone.
TEST(Fleet, APodThatIsBeingDeletedMayHaveGone) {
  const auto fleet = FleetOf(test::kEven, 1);
  const api::Pod leaving = Running(Bound(PodFor(*test::Want(3, 3), "a"), "n0"));
  fleet->UpsertPod(leaving);
  const auto two = test::Want(2, 2);
  ASSERT_TRUE(JudgeNow(*fleet, 0, *two).fits());
  fleet->UpsertPod(Deleted(leaving));
  EXPECT_EQ(JudgeNow(*fleet, 0, *two).reason, Reason::kSettling)
      << "on NUMA 0 if the other has gone, on NUMA 1 if not";
  EXPECT_TRUE(JudgeNow(*fleet, 0, *test::Want(1, 1)).fits()) << "on NUMA 0 either way";
  fleet->DeletePod(leaving);
  EXPECT_TRUE(JudgeNow(*fleet, 0, *two).fits());
}

TEST(Fleet, APodThatStaysWhenItIsDeletedKeepsItsRoom) {
  const auto fleet = FleetOf(test::kEven, 1);
  const api::Pod first = Running(Bound(PodFor(*test::Want(4, 4), "a"), "n0"));
  const api::Pod second = Running(Bound(PodFor(*test::Want(4, 4), "b"), "n0"));
  fleet->UpsertPod(first);
  fleet->UpsertPod(second);
  fleet->UpsertPod(Deleted(second));
  EXPECT_FALSE(JudgeNow(*fleet, 0, *test::Want(1, 1)).fits());
  fleet->DeletePod(second);
  EXPECT_TRUE(JudgeNow(*fleet, 0, *test::Want(1, 1)).fits());
}

TEST(Fleet, APodBoundBeforeAnotherWasDeletedMayBeInTheRoomOfThatOne) {
  const auto fleet = FleetOf(test::kEven, 1);
  const api::Pod leaving = Running(Bound(PodFor(*test::Want(3, 3), "a"), "n0"));
  fleet->UpsertPod(leaving);
  const api::Pod bound = Bound(PodFor(*test::Want(2, 2), "b"), "n0");
  fleet->UpsertPod(bound);
  fleet->UpsertPod(Deleted(leaving));
  fleet->UpsertPod(Running(bound));
  fleet->DeletePod(leaving);
  // On NUMA 0 or on NUMA 1: four on one of them are free, but which two?
  EXPECT_EQ(StateOf(*fleet, 0).knowledge.usages.size(), 2U);
  EXPECT_TRUE(JudgeNow(*fleet, 0, *test::Want(4, 4)).fits());
}

TEST(Fleet, ForeignPodsCountAsSoonAsTheyAreSeen) {
  const auto fleet = FleetOf(test::kEven, 1);
  const auto demand = test::Want(4, 4);
  fleet->UpsertPod(Bound(PodFor(*demand, "x"), "n0"));
  fleet->UpsertPod(Bound(PodFor(*demand, "y"), "n0"));
  EXPECT_FALSE(JudgeNow(*fleet, 0, *test::Want(1, 1)).fits());
  EXPECT_EQ(fleet->stats().pods, 2U);
  EXPECT_EQ(fleet->stats().contradictions, 0U);
  fleet->DeletePod(Bound(PodFor(*demand, "x"), "n0"));
  EXPECT_TRUE(JudgeNow(*fleet, 0, *test::Want(1, 1)).fits());
}

TEST(Fleet, AForeignPodThatCannotBeAdmittedIsAContradiction) {
  const auto fleet = FleetOf(test::kEven, 1);
  fleet->UpsertPod(Running(Bound(PodFor(*test::Want(4, 4), "x"), "n0")));
  fleet->UpsertPod(Running(Bound(PodFor(*test::Want(4, 4), "y"), "n0")));
  const api::Pod extra = Bound(PodFor(*test::Want(1, 1), "z"), "n0");
  fleet->UpsertPod(extra);
  EXPECT_EQ(fleet->stats().contradictions, 1U);
  fleet->UpsertPod(Failed(extra, "TopologyAffinityError"));
  EXPECT_EQ(fleet->stats().contradictions, 0U);
  EXPECT_EQ(fleet->stats().pods, 2U);
}

TEST(Fleet, FinishedAndRefusedPodsHoldNothing) {
  for (const char* reason : {"", "TopologyAffinityError", "OutOfnvidia.com/gpu", "Evicted"}) {
    const auto fleet = FleetOf(test::kEven, 1);
    const std::uint64_t empty = StateOf(*fleet, 0).id;
    const api::Pod pod = Bound(PodFor(*test::Want(4, 4), "x"), "n0");
    fleet->UpsertPod(pod);
    EXPECT_NE(StateOf(*fleet, 0).id, empty);
    fleet->UpsertPod(Failed(pod, reason));
    EXPECT_EQ(StateOf(*fleet, 0).id, empty) << reason;
    fleet->UpsertPod(Failed(pod, reason));
    EXPECT_EQ(StateOf(*fleet, 0).id, empty) << reason;
  }
}

TEST(Fleet, ARefusedPodNeverStoodInAnyonesWay) {
  const auto usages_after = [](const std::string& reason, const std::string& message) {
    const auto fleet = FleetOf(test::kEven, 1);
    const api::Pod three = Bound(PodFor(*test::Want(3, 3), "three"), "n0");
    fleet->UpsertPod(three);
    fleet->UpsertPod(Bound(PodFor(*test::Want(2, 2), "two"), "n0"));
    api::Pod failed = Failed(three, reason);
    failed.status.message = message;
    fleet->UpsertPod(failed);
    return StateOf(*fleet, 0).knowledge.usages.size();
  };
  // Had it run, the other might have had to go to NUMA 1.
  EXPECT_EQ(usages_after("Error", ""), 2U);
  EXPECT_EQ(usages_after("TopologyAffinityError", ""), 1U);
  EXPECT_EQ(usages_after("OutOfcpu", ""), 1U);
  EXPECT_EQ(usages_after("Evicted", "Pod was rejected: The node had condition"), 1U);
}

TEST(Fleet, WatchAndCommitMayComeInAnyOrder) {
  const auto demand = test::Want(4, 4);
  const api::Pod pod = Bound(PodFor(*demand, "a"), "n0");
  for (int order = 0; order < 3; ++order) {
    const auto fleet = FleetOf(test::kEven, 1);
    ASSERT_TRUE(fleet->Reserve("n0", "a", "default/pod-a", *demand).judgement.fits());
    if (order == 0) fleet->Commit("a");
    fleet->UpsertPod(order == 2 ? Running(pod) : pod);
    if (order != 0) fleet->Commit("a");
    EXPECT_EQ(fleet->stats().reservations, 0U);
    EXPECT_EQ(fleet->stats().pods, 1U);
    // A bind whose answer was lost is released although it happened: the watch knows better.
    fleet->Release("a");
    EXPECT_EQ(fleet->stats().pods, 1U);
    fleet->DeletePod(pod);
    EXPECT_EQ(fleet->stats().pods, 0U);
    fleet->Commit("a");
    EXPECT_EQ(fleet->stats().pods, 0U);
  }
}

TEST(Fleet, AReleaseAfterTheWatchHasShownThePodKeepsIt) {
  const auto fleet = FleetOf(test::kEven, 1);
  const auto demand = test::Want(4, 4);
  fleet->Reserve("n0", "a", "default/pod-a", *demand);
  fleet->UpsertPod(Bound(PodFor(*demand, "a"), "n0"));
  fleet->Release("a");
  EXPECT_EQ(fleet->stats().pods, 1U);
  EXPECT_EQ(fleet->stats().reservations, 0U);
}

TEST(Fleet, AListReplacesWhatTheWatchHasShown) {
  const auto fleet = FleetOf(test::kEven, 2);
  const auto demand = test::Want(4, 4);
  const api::Pod kept = Running(Bound(PodFor(*demand, "kept"), "n0"));
  fleet->UpsertPod(kept);
  fleet->UpsertPod(Running(Bound(PodFor(*demand, "gone"), "n0")));
  fleet->Reserve("n1", "binding", "default/b", *demand);
  fleet->Reserve("n1", "bound", "default/c", *demand);
  fleet->Commit("bound");
  // The list was taken before "bound" was bound: it has the Pod, without a node.
  fleet->ReplacePods(
      {kept, PodFor(*demand, "bound"), Running(Bound(PodFor(*test::Want(1, 1), "new"), "n0"))});
  EXPECT_EQ(fleet->stats().pods, 4U);
  EXPECT_EQ(fleet->stats().reservations, 1U);
  EXPECT_FALSE(JudgeNow(*fleet, 1, *test::Want(1, 1)).fits()) << "both places of n1 are taken";
  fleet->ReplacePods({kept});
  EXPECT_EQ(fleet->stats().pods, 2U) << "kept, and the bind in flight";
}

TEST(Fleet, PodsOfNodesOutsideTheInventoryAreKeptByName) {
  const auto fleet = FleetOf(test::kEven, 1);
  const api::Pod pod = Bound(PodFor(*test::Want(1, 1), "a"), "elsewhere");
  fleet->UpsertPod(pod);
  EXPECT_EQ(fleet->stats().pods, 1U);
  const auto again = fleet->Reserve("n0", "a", "default/a", *test::Want(1, 1));
  EXPECT_EQ(again.judgement.reason, Reason::kKubeletRefuses);
  fleet->DeletePod(pod);
  EXPECT_EQ(fleet->stats().pods, 0U);
}

TEST(Fleet, APodWithoutDevicesHoldsNothing) {
  const auto fleet = FleetOf(test::kEven, 1);
  const std::uint64_t empty = StateOf(*fleet, 0).id;
  policy::Demand nothing;
  nothing.containers.emplace_back().name = "c";
  EXPECT_TRUE(fleet->Reserve("n0", "a", "default/a", nothing).judgement.fits());
  fleet->UpsertPod(Bound(PodFor(nothing, "b"), "n0"));
  EXPECT_EQ(StateOf(*fleet, 0).id, empty);
  EXPECT_EQ(fleet->stats().pods, 2U);
}

TEST(Fleet, ARestartGoesByThePlacementAnnotation) {
  const auto demand = test::Want(2, 2);
  const auto first = FleetOf(test::kEven, 1);
  api::Pod wide = PodFor(*test::Want(3, 3), "wide");
  wide.metadata.annotations[std::string(kPlacementAnnotation)] =
      first->Reserve("n0", "wide", "default/wide", *test::Want(3, 3)).placement;
  first->UpsertPod(Running(Bound(wide, "n0")));
  first->Commit("wide");
  const Fleet::ReserveResult result = first->Reserve("n0", "a", "default/pod-a", *demand);
  const auto placement = nlohmann::json::parse(result.placement);
  EXPECT_EQ(placement["certain"], true);
  EXPECT_EQ(placement["containers"][0]["name"], "main");
  EXPECT_EQ(placement["containers"][0]["numa"], nlohmann::json({1}));
  EXPECT_EQ(placement["containers"][0]["devices"][test::kGpu]["1"], 2);
  api::Pod pod = PodFor(*demand, "a");
  pod.metadata.annotations[std::string(kPlacementAnnotation)] = result.placement;

  const auto second = FleetOf(test::kEven, 1);
  second->ReplacePods({Running(Bound(wide, "n0")), Running(Bound(pod, "n0"))});
  first->UpsertPod(Running(Bound(pod, "n0")));
  EXPECT_EQ(StateOf(*second, 0).knowledge.usages, StateOf(*first, 0).knowledge.usages);
  ASSERT_EQ(StateOf(*second, 0).knowledge.usages.size(), 1U);

  // Without it, or with one that does not fit the Pod, its place is unknown.
  for (const char* text : {"", "nonsense", R"({"held":[{"nvidia.com/gpu":{"1":3}}]})",
                           R"({"held":[{"nvidia.com/gpu":{"7":2}}]})", R"({"held":7})"}) {
    pod.metadata.annotations[std::string(kPlacementAnnotation)] = text;
    const auto third = FleetOf(test::kEven, 1);
    third->ReplacePods({Running(Bound(pod, "n0"))});
    EXPECT_EQ(StateOf(*third, 0).knowledge.usages.size(), 2U) << text;
  }
}

TEST(Fleet, PodsOfTheFileStayWhenAListComes) {
  FleetFile file = FileOf(test::kEven, 1);
  FleetPod running;
  running.pod = Bound(PodFor(*test::Want(4, 4), ""), "n0");
  file.pods.push_back(running);
  const auto fleet = Fleet::FromFile(file, api::ResourceClasses(), {}).value();
  fleet->ReplacePods({});
  EXPECT_EQ(fleet->stats().pods, 1U);
  const std::vector<NodeView> views = fleet->Snapshot();
  ASSERT_EQ(views.size(), 1U);
  ASSERT_EQ(views[0].pods.size(), 1U);
  EXPECT_TRUE(views[0].pods[0].admitted);
  EXPECT_EQ(views[0].pods[0].held().size(), 2U);
  // A file whose Pods cannot be there is wrong.
  file.pods.push_back(running);
  file.pods.back().pod.metadata.name = "second";
  file.pods.push_back(running);
  file.pods.back().pod.metadata.name = "third";
  file.pods.back().line = 12;
  const absl::Status status = Fleet::FromFile(file, api::ResourceClasses(), {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 12: Pod default/third"));
}

class GatedMachine : public ::testing::TestWithParam<test::Machine> {};

// Whatever the gate lets in is admitted, in whichever order and with whichever picks the kubelet
// admits; and the filter's answer is the gate's.
TEST_P(GatedMachine, TheGateLetsInOnlyWhatEveryOrderAdmits) {
  int admitted = 0;
  int settling = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const auto topology = test::Make(GetParam());
    const auto fleet = FleetOf(GetParam(), 1);
    policy::Usage truth(*topology);
    std::map<std::string, std::shared_ptr<policy::Demand>> waiting;
    std::map<std::string, policy::DeviceHolding> running;
    std::map<std::string, api::Pod> pods;
    for (int step = 0; step < 40; ++step) {
      const unsigned dice = random() % 8;
      if (dice < 4) {
        const auto demand = test::RandomDemand(random);
        const std::string uid = std::to_string(step);
        const policy::Judgement offered = JudgeNow(*fleet, 0, *demand);
        const auto result = fleet->Reserve("n0", uid, "default/pod-" + uid, *demand);
        ASSERT_EQ(offered.reason, result.judgement.reason);
        if (offered.reason == Reason::kSettling) ++settling;
        if (!result.judgement.fits()) continue;
        if (random() % 10 == 0) {
          fleet->Release(uid);
          continue;
        }
        fleet->Commit(uid);
        pods[uid] = Bound(PodFor(*demand, uid), "n0");
        waiting[uid] = demand;
      } else if (dice < 7 && !waiting.empty()) {
        auto pod = waiting.begin();
        std::advance(pod, random() % waiting.size());
        const policy::AdmitResult result = policy::Admit(*topology, truth, *pod->second);
        const policy::Outcome& outcome = result.outcomes[random() % result.outcomes.size()];
        ASSERT_TRUE(outcome.admitted)
            << GetParam().name << ", seed " << seed << ", step " << step << ": Pod " << pod->first;
        truth.Add(outcome.held.devices);
        running[pod->first] = outcome.held.devices;
        fleet->UpsertPod(Running(pods[pod->first]));
        waiting.erase(pod);
        ++admitted;
      } else if (waiting.empty() && !running.empty()) {
        auto pod = running.begin();
        std::advance(pod, random() % running.size());
        truth.Remove(pod->second);
        api::Pod done = pods[pod->first];
        done.status.phase = "Succeeded";
        fleet->UpsertPod(done);
        running.erase(pod);
      }
    }
  }
  EXPECT_GT(admitted, 300);
  EXPECT_EQ(settling > 0, policy::Enforces(GetParam().policy));
}

INSTANTIATE_TEST_SUITE_P(Machines, GatedMachine, ::testing::ValuesIn(test::kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

// Readers see whole states while binds, watch and lists go on; ThreadSanitizer looks on.
TEST(Fleet, ManyThreads) {
  const auto fleet = FleetOf(test::kEven, 16);
  const auto demand = test::Want(4, 4);
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        {
          const Fleet::ReadGuard guard(*fleet);
          const std::uint64_t* ids = fleet->StateIds(guard);
          for (int node = 0; node < 16; ++node) {
            ASSERT_EQ(fleet->State(guard, node)->id, ids[node]);
          }
        }
        if (++reads % 16 == 0) {
          EXPECT_EQ(fleet->stats().nodes, 16U);
          EXPECT_EQ(fleet->Snapshot().size(), 16U);
        }
        std::this_thread::yield();
      }
    });
  }
  std::atomic<int> bound{0};
  std::vector<std::thread> binders;
  for (int i = 0; i < 3; ++i) {
    binders.emplace_back([&, i] {
      for (int k = 0; k < 200; ++k) {
        const std::string uid = std::to_string(i) + "-" + std::to_string(k);
        const std::string node = "n" + std::to_string((i * 7 + k) % 16);
        if (!fleet->Reserve(node, uid, uid, *demand).judgement.fits()) continue;
        if (k % 3 == 0) {
          fleet->Release(uid);
          continue;
        }
        fleet->UpsertPod(Bound(PodFor(*demand, uid), node));
        fleet->Commit(uid);
        ++bound;
        if (k % 2 == 0) {
          fleet->DeletePod(Bound(PodFor(*demand, uid), node));
          --bound;
        }
      }
    });
  }
  for (std::thread& thread : binders) thread.join();
  stop = true;
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(fleet->stats().pods, static_cast<std::size_t>(bound.load()));
  EXPECT_EQ(fleet->stats().reservations, 0U);
  EXPECT_LE(bound.load(), 32);
  EXPECT_GT(reads.load(), 0);
}

}  // namespace
}  // namespace numafit::cache
