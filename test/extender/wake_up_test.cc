#include "extender/wake_up.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/pod_json.h"
#include "fmt/format.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "test/extender/support.h"

namespace numafit::extender {
namespace {

using Names = std::vector<std::string>;

class WakeUpTest : public testing::Test {
 protected:
  WakeUpTest() { Make(2); }

  // A fleet of `nodes` and nobody who waits.
  void Make(int nodes) {
    wake_up_.reset();
    rules_.strategy = policy::FindScoreStrategy("most-allocated");
    auto fleet = cache::Fleet::FromFile(TestFleet(nodes), rules_.classes, {});
    ASSERT_TRUE(fleet.ok()) << fleet.status();
    fleet_ = *std::move(fleet);
    options_.now_ms = [this] { return now_; };
    options_.wall_ms = [this] { return 1'700'000'000'000 + now_; };
    wake_up_ = std::make_unique<WakeUp>(options_,
                                        WakeUp::Parts{*fleet_, verdicts_, client_, metrics_, log_});
  }

  static api::Pod ParsePod(const std::string& name, int gpus) {
    auto pod = api::PodFromJson(PodJson(name, gpus, gpus));
    EXPECT_TRUE(pod.ok()) << pod.status();
    return *std::move(pod);
  }
  // What filter does when no offered node fits.
  void Refuse(const std::string& name, int gpus, std::size_t offered = 2, int priority = 0) {
    RefuseAt(wake_up_->moment(), name, gpus, offered, priority);
  }
  void RefuseAt(std::uint64_t moment, const std::string& name, int gpus, std::size_t offered = 2,
                int priority = 0) {
    client_.AddPod(name, gpus, gpus);
    api::Pod pod = ParsePod(name, gpus);
    pod.priority = priority;
    PodQuestion question;
    ASSERT_TRUE(AskAboutPod(pod, rules_, &question).ok());
    wake_up_->Refused(pod, question, offered, moment);
  }
  // Somebody else's Pods take NUMA nodes of the fleet, and leave.
  void Take(const std::string& name, int node, int gpus = 4) {
    api::Pod pod = ParsePod(name, gpus);
    pod.node_name = fmt::format("node-{:04}", node);
    pod.status.phase = "Running";
    pod.status.container_statuses = 1;
    fleet_->UpsertPod(pod);
  }
  void Leave(const std::string& name) { fleet_->DeletePod(ParsePod(name, 4)); }
  void FillAll(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      Take(fmt::format("left-{}", i), i);
      Take(fmt::format("right-{}", i), i);
    }
  }
  // The next round; whom it woke.
  Names Step(std::int64_t later = 200) {
    now_ += later;
    wake_up_->Step();
    return client_.TakeAnnotated();
  }

  std::int64_t now_ = 1'000'000;
  PodRules rules_;
  FakeClient client_;
  Metrics metrics_;
  DecisionLog log_{{.level = LogLevel::kOff, .decisions_per_second = 0}};
  cache::VerdictStore verdicts_{{}};
  std::unique_ptr<cache::Fleet> fleet_;
  WakeUp::Options options_;
  std::unique_ptr<WakeUp> wake_up_;
};

TEST_F(WakeUpTest, APodIsWokenWhenRoomForItIsGivenBack) {
  FillAll(2);
  Refuse("a", 4);
  EXPECT_EQ(Step(), Names{});
  EXPECT_EQ(Step(), Names{});
  Leave("left-1");
  EXPECT_EQ(Step(), Names{"a"});
  EXPECT_EQ(client_.GetPod("default", "a")->metadata.annotations.at("numafit.io/woken"),
            std::to_string(1'700'000'000'000 + now_));
  EXPECT_EQ(metrics_.wake_ups_total.woken->Value(), 1);
  // It fits now.
  wake_up_->Forget("uid-a");
  EXPECT_EQ(metrics_.waiting_pods->Value(), 0);
  Leave("right-1");
  EXPECT_EQ(Step(), Names{});
}

TEST_F(WakeUpTest, TheTimeFromRoomToTheNextQuestionIsMeasured) {
  const auto seconds = [this] { return metrics_.wake_up_seconds->Collect().histogram; };
  FillAll(2);
  Refuse("a", 4);
  Refuse("b", 4);
  Leave("left-1");
  EXPECT_EQ(Step(), (Names{"a", "b"}));
  now_ += 300;
  wake_up_->Fits("uid-a");
  Refuse("b", 4);
  EXPECT_EQ(seconds().sample_count, 2U);
  EXPECT_DOUBLE_EQ(seconds().sample_sum, 0.6);
  // Asked about again, and not because of us.
  Take("left-1", 1);
  Refuse("b", 4);
  wake_up_->Fits("uid-b");
  wake_up_->Fits("uid-b");
  EXPECT_EQ(seconds().sample_count, 2U);
}

TEST_F(WakeUpTest, RoomThatIsTooSmallWakesNobody) {
  FillAll(2);
  Refuse("small", 4);
  Refuse("large", 5);
  Leave("left-0");
  EXPECT_EQ(Step(), Names{"small"});
}

// Filter looked, room was given back, and only then was the refusal put down.
TEST_F(WakeUpTest, RoomThatCameBetweenTheLookAndTheRefusalIsNews) {
  FillAll(2);
  Refuse("other", 3);
  Step();
  const std::uint64_t moment = wake_up_->moment();
  Leave("left-0");
  EXPECT_EQ(Step(), Names{"other"});
  RefuseAt(moment, "a", 4);
  EXPECT_EQ(Step(), Names{"a"});
}

// The node is as it was when it was looked at last, and yet it was full meanwhile.
TEST_F(WakeUpTest, RoomThatWasThereAtTheLastLookAndWasTakenMeanwhileIsNews) {
  FillAll(2);
  Refuse("a", 4);
  Leave("left-1");
  EXPECT_EQ(Step(), Names{"a"});
  wake_up_->Forget("uid-a");
  Take("left-1", 1);
  // Nobody waits, so nobody looks.
  EXPECT_EQ(Step(), Names{});
  Refuse("b", 4);
  Leave("left-1");
  EXPECT_EQ(Step(), Names{"b"});
}

TEST_F(WakeUpTest, AReservationGivenBackIsRoomToo) {
  FillAll(2);
  Leave("left-0");
  const api::Pod binding = ParsePod("binding", 4);
  PodQuestion question;
  ASSERT_TRUE(AskAboutPod(binding, rules_, &question).ok());
  ASSERT_TRUE(fleet_->Reserve("node-0000", "uid-binding", "default/binding", question.demand)
                  .judgement.fits());
  Refuse("a", 4);
  EXPECT_EQ(Step(), Names{});
  fleet_->Release("uid-binding");
  EXPECT_EQ(Step(), Names{"a"});
}

TEST_F(WakeUpTest, AListAfterAnOutageIsNews) {
  FillAll(2);
  Refuse("a", 4);
  EXPECT_EQ(Step(), Names{});
  fleet_->ReplacePods({});
  EXPECT_EQ(Step(), Names{"a"});
}

// A taint, a node selector: some node fits, but the scheduler does not offer it.
TEST_F(WakeUpTest, RoomThatIsKeptForANomineeWakesThatOneAlone) {
  Make(1);
  FillAll(1);
  Refuse("low", 4, 1, /*priority=*/1);
  Refuse("nominee", 4, 1, /*priority=*/5);
  Refuse("high", 4, 1, /*priority=*/9);
  api::Pod nominee = ParsePod("nominee", 4);
  nominee.priority = 5;
  nominee.status.nominated_node_name = "node-0000";
  fleet_->UpsertNominee(nominee);
  EXPECT_EQ(Step(), Names{});
  Leave("left-0");
  EXPECT_EQ(Step(), (Names{"high", "nominee"}));
  // The other side is for whoever waits.
  Leave("right-0");
  Names woken = Step(60'000);
  EXPECT_NE(std::find(woken.begin(), woken.end(), "low"), woken.end());
}

TEST_F(WakeUpTest, ANominationThatEndsIsRoom) {
  Make(1);
  Take("left", 0);
  api::Pod nominee = ParsePod("nominee", 4);
  nominee.priority = 5;
  nominee.status.nominated_node_name = "node-0000";
  fleet_->UpsertNominee(nominee);
  Refuse("low", 4, 1);
  EXPECT_EQ(Step(), Names{});
  EXPECT_EQ(Step(), Names{});
  fleet_->DeleteNominee("uid-nominee");
  EXPECT_EQ(Step(), Names{"low"});
}

TEST_F(WakeUpTest, WakesInVainBecomeRare) {
  FillAll(2);
  Refuse("a", 4);
  Step();
  std::vector<std::int64_t> gaps;
  std::int64_t last = now_;
  for (int i = 0; gaps.size() < 9; ++i) {
    ASSERT_LT(i, 10'000);
    // node-0001 changes all the time, and always has room.
    if (i == 0) {
      Leave("left-1");
    } else if (i % 2 == 1) {
      Leave("right-1");
    } else {
      Take("right-1", 1);
    }
    if (Step().empty()) continue;
    gaps.push_back((now_ - last) / 1'000);
    last = now_;
    Refuse("a", 4, 1);
  }
  EXPECT_EQ(gaps, (std::vector<std::int64_t>{0, 1, 2, 4, 8, 16, 32, 60, 60}));
}

TEST_F(WakeUpTest, WhoLostTheRoomToAnotherIsWokenAtTheNext) {
  FillAll(2);
  Refuse("a", 4);
  for (int i = 0; i < 6; ++i) {
    Leave("left-0");
    EXPECT_EQ(Step(1'000), Names{"a"}) << i;
    Take("left-0", 0);
    Refuse("a", 4);
    EXPECT_EQ(Step(), Names{}) << i;
  }
}

// kube-scheduler offers a part of a large fleet.
TEST_F(WakeUpTest, ASampleThatMissedTheRoomIsTriedAgainAsOftenAsThereAreSamples) {
  Make(10);
  FillAll(9);
  Refuse("other", 5, 10);
  EXPECT_EQ(Step(), Names{});
  Refuse("a", 4, 3);
  std::vector<std::int64_t> times;
  const std::int64_t begin = now_;
  while (now_ < begin + 300'000) {
    if (Step().empty()) continue;
    times.push_back((now_ - begin) / 1'000);
    Refuse("a", 4, 3);
  }
  EXPECT_EQ(times, (std::vector<std::int64_t>{0, 1, 3, 7}));
}

TEST_F(WakeUpTest, HighestPriorityFirstThenWhoWaitsLongestAndNoFloods) {
  FillAll(2);
  for (int i = 0; i < 30; ++i) Refuse(fmt::format("p{:02}", i), 4);
  Refuse("urgent", 4, 2, 1'000);
  Step();
  Leave("left-0");
  Names woken = Step();
  ASSERT_EQ(woken.size(), 10U);  // 50 a second
  EXPECT_EQ(woken[0], "urgent");
  EXPECT_EQ(woken[1], "p00");
  EXPECT_EQ(woken[9], "p08");
  woken = Step();
  ASSERT_EQ(woken.size(), 10U);
  EXPECT_EQ(woken[0], "p09");
  // One of them has taken it: the others are left in peace.
  Take("left-0", 0);
  EXPECT_EQ(Step(), Names{});
}

TEST_F(WakeUpTest, PodsThatAreGoneAreForgotten) {
  FillAll(2);
  Refuse("kept", 4);
  Refuse("deleted", 4);
  client_.Remove("deleted");
  Step();
  Leave("left-0");
  EXPECT_EQ(Step(), Names{"kept"});
  EXPECT_EQ(wake_up_->waiting(), 1U);
  EXPECT_EQ(metrics_.wake_ups_total.gone->Value(), 1);
  // Nobody asks about it any more either.
  Step(options_.forget_after_ms);
  EXPECT_EQ(wake_up_->waiting(), 0U);
}

TEST_F(WakeUpTest, AnApiServerThatIsAwayIsNotAskedOncePerPod) {
  FillAll(2);
  for (int i = 0; i < 5; ++i) Refuse(fmt::format("p{}", i), 4);
  Step();
  Leave("left-0");
  client_.annotate_fails = absl::UnavailableError("connection refused");
  for (int i = 0; i < 4; ++i) Step();
  EXPECT_EQ(metrics_.wake_ups_total.error->Value(), 1);
  client_.annotate_fails = absl::OkStatus();
  EXPECT_EQ(Step(1'000), (Names{"p0", "p1", "p2", "p3", "p4"}));
}

TEST_F(WakeUpTest, TheOldestAreForgottenWhenThereAreTooMany) {
  options_.capacity = 2;
  Make(2);
  FillAll(2);
  Refuse("a", 4);
  Refuse("b", 4);
  Refuse("a", 4);  // asked about again: b is older now
  Refuse("c", 4);
  EXPECT_EQ(metrics_.waiting_pods->Value(), 2);
  Step();
  Leave("left-0");
  EXPECT_EQ(Step(), (Names{"a", "c"}));
}

TEST_F(WakeUpTest, SwitchedOffItKeepsNobody) {
  options_.capacity = 0;
  Make(2);
  Refuse("a", 4);
  EXPECT_EQ(wake_up_->waiting(), 0U);
}

// More shapes than one round looks at: every one has its turn.
TEST_F(WakeUpTest, ManyShapesTakeTurns) {
  options_.per_second = 10'000;
  Make(1);
  FillAll(1);
  for (int i = 0; i < 150; ++i) {
    const std::string name = fmt::format("p{}", i);
    client_.AddPod(name, 4, 4);
    api::Pod pod = ParsePod(name, 4);
    // A resource that no kubelet knows makes a shape of its own and changes nothing else.
    pod.containers[0].resources.limits["example.com/other"] = api::Quantity::FromInt(i + 1);
    PodQuestion question;
    ASSERT_TRUE(AskAboutPod(pod, rules_, &question).ok());
    question.demand.containers[0].devices.emplace("example.com/other", i + 1);
    wake_up_->Refused(pod, question, 1, wake_up_->moment());
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Step(), Names{});
  Leave("left-0");
  std::set<std::string> woken;
  for (int i = 0; i < 3; ++i) {
    for (const std::string& name : Step()) woken.insert(name);
  }
  EXPECT_EQ(woken.size(), 150U);
}

}  // namespace
}  // namespace numafit::extender
