#include "extender/bind_gate.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/pod_json.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "prometheus/counter.h"
#include "test/extender/support.h"

namespace numafit::extender {
namespace {

using Result = BindGate::Result;

class BindGateTest : public testing::Test {
 protected:
  BindGateTest() {
    rules_.strategy = policy::FindScoreStrategy("most-allocated");
    absl::StatusOr<std::unique_ptr<cache::Fleet>> fleet =
        cache::Fleet::FromFile(TestFleet(2), rules_.classes, {});
    EXPECT_TRUE(fleet.ok()) << fleet.status();
    fleet_ = *std::move(fleet);
    offers_ = std::make_unique<Offers>(fleet_->size(), 3'000);
    BindGate::Options options;
    options.rules = rules_;
    options.budget_ms = 4'000;
    options.now_ms = [this] { return now_ms_.load(); };
    options.sleep_ms = [this](std::int64_t ms) { now_ms_ += ms; };
    gate_ = std::make_unique<BindGate>(
        options, BindGate::Parts{*fleet_, client_, *offers_, pods_, metrics_, log_});
  }

  BindGate::Answer Bind(const std::string& pod, const std::string& node) {
    return gate_->Bind({pod, "default", "uid-" + pod, node});
  }
  // What filter does before.
  void Remember(const std::string& name, int gpus, int endpoints) {
    auto remembered = std::make_shared<RememberedPod>();
    remembered->pod = *api::PodFromJson(PodJson(name, gpus, endpoints));
    PodQuestion question;
    ASSERT_TRUE(AskAboutPod(remembered->pod, rules_, &question).ok());
    remembered->demand = question.demand;
    pods_.Remember(std::move(remembered));
  }
  [[nodiscard]] std::size_t Reservations() const { return fleet_->stats().reservations; }

  std::atomic<std::int64_t> now_ms_{0};
  PodRules rules_;
  std::unique_ptr<cache::Fleet> fleet_;
  std::unique_ptr<Offers> offers_;
  PodMemory pods_{1000};
  Metrics metrics_;
  DecisionLog log_{{LogLevel::kOff, 0}};
  FakeClient client_;
  std::unique_ptr<BindGate> gate_;
};

TEST_F(BindGateTest, BindsWithThePlacementAnnotation) {
  client_.AddPod("a", 4, 4);
  const BindGate::Answer answer = Bind("a", "node-0000");
  EXPECT_EQ(answer.result, Result::kBound) << answer.error;
  EXPECT_EQ(answer.error, "");
  const auto bound = client_.bound();
  ASSERT_EQ(bound.count("a"), 1U);
  EXPECT_EQ(bound.at("a").node, "node-0000");
  EXPECT_EQ(bound.at("a").pod_uid, "uid-a");
  EXPECT_NE(bound.at("a").annotations.at("numafit.io/placement").find("nvidia.com/gpu"),
            std::string::npos);
  EXPECT_EQ(Reservations(), 0U);
  EXPECT_EQ(metrics_.bind_total.bound->Value(), 1);
}

TEST_F(BindGateTest, OnlyOneOfManyRacersGetsTheLastRoom) {
  client_.AddPod("first", 4, 4);
  ASSERT_EQ(Bind("first", "node-0000").result, Result::kBound);
  constexpr int kRacers = 8;
  for (int i = 0; i < kRacers; ++i) client_.AddPod(fmt::format("racer-{}", i), 4, 4);
  std::atomic<int> bound{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> racers;
  for (int i = 0; i < kRacers; ++i) {
    racers.emplace_back([&, i] {
      const BindGate::Answer answer = Bind(fmt::format("racer-{}", i), "node-0000");
      bound += answer.result == Result::kBound ? 1 : 0;
      refused += answer.result == Result::kRefused ? 1 : 0;
    });
  }
  for (std::thread& racer : racers) racer.join();
  EXPECT_EQ(bound, 1);
  EXPECT_EQ(refused, kRacers - 1);
  EXPECT_EQ(client_.bound().size(), 2U);
}

TEST_F(BindGateTest, RefusesWithAReasonThatStaysTheSame) {
  client_.AddPod("a", 5, 5);
  const BindGate::Answer first = Bind("a", "node-0000");
  EXPECT_EQ(first.result, Result::kRefused);
  EXPECT_EQ(first.error.substr(0, 9), "numafit: ");
  EXPECT_EQ(Bind("a", "node-0001").error, first.error);
  EXPECT_EQ(client_.binds(), 0);
  EXPECT_EQ(Reservations(), 0U);
}

TEST_F(BindGateTest, AnUnknownNodeIsRefusedOrPassedAsConfigured) {
  client_.AddPod("a", 1, 1);
  EXPECT_EQ(Bind("a", "stranger").error, policy::ReasonText(policy::Reason::kNoReport));
}

TEST_F(BindGateTest, APodWithoutDevicesIsBoundAnywhere) {
  client_.AddPod("a", 0, 0);
  EXPECT_EQ(Bind("a", "stranger").result, Result::kBound);
  EXPECT_TRUE(client_.bound().at("a").annotations.empty());
}

TEST_F(BindGateTest, AnErrorOfTheApiServerGivesTheRoomBack) {
  client_.AddPod("a", 4, 4);
  client_.on_bind = [](int) {
    return FakeClient::Fault{absl::PermissionDeniedError("pods/binding is forbidden"), false};
  };
  const BindGate::Answer answer = Bind("a", "node-0000");
  EXPECT_EQ(answer.result, Result::kError);
  EXPECT_EQ(answer.error, "numafit: pods/binding is forbidden");
  EXPECT_EQ(Reservations(), 0U);
  client_.on_bind = nullptr;
  EXPECT_EQ(Bind("a", "node-0000").result, Result::kBound);
}

TEST_F(BindGateTest, ATransientErrorIsTriedAgain) {
  client_.AddPod("a", 4, 4);
  client_.on_bind = [](int call) {
    return FakeClient::Fault{
        call < 2 ? absl::UnavailableError("connection reset") : absl::OkStatus(), false};
  };
  EXPECT_EQ(Bind("a", "node-0000").result, Result::kBound);
  EXPECT_EQ(client_.binds(), 3);
  EXPECT_EQ(metrics_.bind_retries_total->Value(), 2);
}

TEST_F(BindGateTest, ATimeoutWhoseBindHappenedIsSuccess) {
  client_.AddPod("a", 4, 4);
  client_.on_bind = [](int) {
    return FakeClient::Fault{absl::DeadlineExceededError("no answer"), true};
  };
  const BindGate::Answer answer = Bind("a", "node-0000");
  EXPECT_EQ(answer.result, Result::kBound) << answer.error;
  EXPECT_EQ(client_.binds(), 1);
}

TEST_F(BindGateTest, GivesUpWithinItsBudgetAndKeepsTheRoomUntilTheApiServerSpeaks) {
  client_.AddPod("a", 4, 4);
  client_.AddPod("b", 4, 4);
  client_.AddPod("c", 4, 4);
  Remember("a", 4, 4);
  Remember("c", 4, 4);
  ASSERT_EQ(Bind("b", "node-0000").result, Result::kBound);
  client_.on_bind = [](int) {
    return FakeClient::Fault{absl::DeadlineExceededError("no answer"), true};
  };
  client_.get_fails = true;
  const BindGate::Answer answer = Bind("a", "node-0000");
  EXPECT_EQ(answer.error, "numafit: the API server did not say whether the Pod was bound");
  EXPECT_LT(now_ms_, 4'000);
  EXPECT_EQ(Reservations(), 1U);
  EXPECT_EQ(Bind("c", "node-0000").result, Result::kRefused);
  EXPECT_EQ(gate_->Settle(), 1U);

  client_.get_fails = false;
  EXPECT_EQ(gate_->Settle(), 0U);
  EXPECT_EQ(Reservations(), 0U);
  // It did happen: the room is taken for good.
  client_.on_bind = nullptr;
  EXPECT_EQ(Bind("c", "node-0000").result, Result::kRefused);
}

TEST_F(BindGateTest, SettleGivesBackWhatWasNeverBound) {
  client_.AddPod("a", 4, 4);
  client_.on_bind = [](int) {
    return FakeClient::Fault{absl::DeadlineExceededError("no answer"), false};
  };
  client_.get_fails = true;
  Remember("a", 4, 4);
  ASSERT_EQ(Bind("a", "node-0000").error,
            "numafit: the API server did not say whether the Pod was bound");
  ASSERT_EQ(Reservations(), 1U);
  client_.get_fails = false;
  EXPECT_EQ(gate_->Settle(), 0U);
  EXPECT_EQ(Reservations(), 0U);
}

TEST_F(BindGateTest, ARepeatedCallForABoundPodIsSuccess) {
  client_.AddPod("a", 4, 4);
  ASSERT_EQ(Bind("a", "node-0000").result, Result::kBound);
  const BindGate::Answer again = Bind("a", "node-0000");
  EXPECT_EQ(again.result, Result::kAlready) << again.error;
  EXPECT_EQ(again.error, "");
}

TEST_F(BindGateTest, APodBoundElsewhereIsAnError) {
  client_.AddPod("a", 4, 4);
  ASSERT_EQ(Bind("a", "node-0000").result, Result::kBound);
  const BindGate::Answer answer = Bind("a", "node-0001");
  EXPECT_NE(answer.error, "");
  EXPECT_EQ(Reservations(), 0U);
  client_.AddPod("b", 4, 4);
  client_.AddPod("c", 4, 4);
  EXPECT_EQ(Bind("b", "node-0001").result, Result::kBound);
  EXPECT_EQ(Bind("c", "node-0001").result, Result::kBound);
}

TEST_F(BindGateTest, AnApiServerThatIsAwayIsSaidSo) {
  client_.AddPod("a", 4, 4);
  client_.get_fails = true;
  EXPECT_EQ(Bind("a", "node-0000").error, "numafit: the API server cannot be reached");
  EXPECT_EQ(Reservations(), 0U);
}

TEST_F(BindGateTest, APodThatIsGoneOrAnotherOfItsNameIsAnError) {
  EXPECT_EQ(Bind("missing", "node-0000").error, "numafit: the Pod is gone");
  client_.AddPod("a", 1, 1);
  EXPECT_EQ(gate_->Bind({"a", "default", "uid-of-an-earlier-a", "node-0000"}).error,
            "numafit: the Pod is gone");
  EXPECT_EQ(Reservations(), 0U);
}

TEST_F(BindGateTest, TwoCallsForOnePodTakeTurns) {
  client_.AddPod("a", 4, 4);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  client_.on_bind = [&](int) {
    const int now = ++inside;
    if (now > most) most = now;
    std::this_thread::yield();
    --inside;
    return FakeClient::Fault{absl::OkStatus(), true};
  };
  std::vector<std::thread> callers;
  std::atomic<int> ok{0};
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&] { ok += Bind("a", "node-0000").error.empty() ? 1 : 0; });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(ok, 6);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(Reservations(), 0U);
}

TEST_F(BindGateTest, IncompleteArgumentsAreAnError) {
  EXPECT_NE(gate_->Bind({"", "default", "u", "n"}).error, "");
  EXPECT_NE(gate_->Bind({"p", "default", "", "n"}).error, "");
  EXPECT_NE(gate_->Bind({"p", "default", "u", ""}).error, "");
}

}  // namespace
}  // namespace numafit::extender
