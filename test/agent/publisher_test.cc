#include "agent/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/time/time.h"

namespace numafit::agent {
namespace {

class RecordingSink : public ReportSink {
 public:
  absl::StatusOr<std::int32_t> LastGeneration(const std::string&) override {
    ++asked;
    if (!status.ok()) return status;
    return last;
  }
  std::shared_ptr<const v1alpha1::NodeReportStatus> TakeLast() override {
    return std::exchange(stored, nullptr);
  }
  absl::StatusOr<bool> Stands(const std::string&, std::int32_t generation) override {
    looks.push_back(generation);
    return stands;
  }
  absl::Status Publish(const std::string&, const v1alpha1::NodeReportStatus& report) override {
    ++attempts;
    if (status.ok()) published.push_back(report);
    return status;
  }

  absl::Status status;
  std::int32_t last = 0;
  std::shared_ptr<const v1alpha1::NodeReportStatus> stored;
  int asked = 0;
  int attempts = 0;
  absl::StatusOr<bool> stands = true;
  std::vector<std::int32_t> looks;
  std::vector<v1alpha1::NodeReportStatus> published;
};

class PublisherTest : public ::testing::Test {
 protected:
  static SteadyTime At(int ms) { return SteadyTime() + std::chrono::milliseconds(1'000'000 + ms); }
  static v1alpha1::NodeReportStatus Report(const std::string& boot_id) {
    v1alpha1::NodeReportStatus report;
    report.set_boot_id(boot_id);
    report.add_sources()->set_name("machine");
    return report;
  }

  RecordingSink sink_;
  absl::Time wall_ = absl::FromUnixSeconds(1'800'000'000);
  Publisher publisher_{sink_, "node", [this] { return wall_; }, {}, 1};
};

TEST_F(PublisherTest, WhatAFormerAgentLeftIsLookedAtOnceBeforeTheFirstReport) {
  sink_.last = 41;
  sink_.stored = std::make_shared<const v1alpha1::NodeReportStatus>(Report("former"));
  std::vector<std::string> told;
  publisher_.OnLast([&told](const v1alpha1::NodeReportStatus& former) {
    told.push_back(former.boot_id());
    return Report("with what was remembered");
  });
  sink_.status = absl::UnavailableError("away");
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  EXPECT_TRUE(told.empty()) << "not known yet";
  sink_.status = absl::OkStatus();
  publisher_.Publish(At(60'000));
  EXPECT_EQ(told, std::vector<std::string>{"former"});
  ASSERT_EQ(sink_.published.size(), 1U);
  EXPECT_EQ(sink_.published[0].boot_id(), "with what was remembered");
  EXPECT_EQ(sink_.published[0].generation(), 42);
  EXPECT_EQ(sink_.published[0].node_name(), "node");
  // Its own later news are not mended any more.
  sink_.stored = std::make_shared<const v1alpha1::NodeReportStatus>(Report("another"));
  publisher_.Offer(Report("b"));
  publisher_.Publish(At(120'000));
  EXPECT_EQ(told.size(), 1U);
  EXPECT_EQ(sink_.published.back().boot_id(), "b");
}

TEST_F(PublisherTest, OnlyWhatDiffersInMoreThanTimes) {
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  v1alpha1::NodeReportStatus later = Report("a");
  later.mutable_sources(0)->set_read_time("2027-01-15T08:00:01Z");
  later.set_generation(77);
  publisher_.Offer(later);
  EXPECT_FALSE(publisher_.NextAttempt().has_value());
  publisher_.Publish(At(1'000));
  EXPECT_EQ(sink_.attempts, 1);
  publisher_.Offer(Report("b"));
  publisher_.Publish(At(2'000));
  ASSERT_EQ(sink_.published.size(), 2U);
  EXPECT_EQ(sink_.published[0].generation(), 1);
  EXPECT_EQ(sink_.published[1].generation(), 2);
  EXPECT_EQ(sink_.published[1].observed_time(), "2027-01-15T08:00:00Z");
}

TEST_F(PublisherTest, WhatWasDeletedIsPublishedAgain) {
  EXPECT_FALSE(publisher_.NextLook().has_value());
  publisher_.Offer(Report("a"));
  EXPECT_FALSE(publisher_.NextLook().has_value());
  publisher_.Publish(At(0));
  EXPECT_EQ(publisher_.NextLook(), At(10'000));
  publisher_.Publish(At(9'999));
  EXPECT_TRUE(sink_.looks.empty());
  publisher_.Publish(At(10'000));
  EXPECT_EQ(sink_.looks, std::vector<std::int32_t>{1});
  EXPECT_EQ(publisher_.NextLook(), At(30'000));
  // It cannot be asked; that is no reason to write.
  sink_.stands = absl::UnavailableError("away");
  publisher_.Publish(At(30'000));
  EXPECT_EQ(sink_.published.size(), 1U);
  EXPECT_EQ(publisher_.NextLook(), At(70'000));
  sink_.stands = false;
  publisher_.Publish(At(70'000));
  ASSERT_EQ(sink_.published.size(), 2U);
  EXPECT_EQ(sink_.published[1].boot_id(), "a");
  EXPECT_EQ(sink_.published[1].generation(), 2);
  // A failure is tried again like any other.
  sink_.status = absl::UnavailableError("away");
  publisher_.Publish(*publisher_.NextLook());
  EXPECT_EQ(sink_.published.size(), 2U);
  EXPECT_FALSE(publisher_.NextLook().has_value());
  sink_.status = absl::OkStatus();
  publisher_.Publish(*publisher_.NextAttempt());
  EXPECT_EQ(sink_.published.size(), 3U);
}

TEST_F(PublisherTest, LooksAreSeldomUntilTheKubeletStarts) {
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  for (int i = 0; i < 10; ++i) publisher_.Publish(*publisher_.NextLook());
  const SteadyTime last = *publisher_.NextLook();
  publisher_.Publish(last);
  EXPECT_EQ(*publisher_.NextLook() - last, std::chrono::minutes(5));
  publisher_.LookSoon(last);
  EXPECT_EQ(*publisher_.NextLook() - last, std::chrono::seconds(10));
}

TEST_F(PublisherTest, GoesOnWhereAFormerAgentEnded) {
  sink_.last = 41;
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  publisher_.Offer(Report("b"));
  publisher_.Publish(At(1));
  EXPECT_EQ(sink_.published[0].generation(), 42);
  EXPECT_EQ(sink_.published[1].generation(), 43);
  EXPECT_EQ(sink_.asked, 1);
}

TEST_F(PublisherTest, FailuresAreTriedAgainWithTheNewestReport) {
  sink_.status = absl::UnavailableError("away");
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  EXPECT_EQ(sink_.asked, 1);
  EXPECT_EQ(sink_.attempts, 0) << "no report before the generation is known";
  ASSERT_TRUE(publisher_.NextAttempt().has_value());
  EXPECT_GT(*publisher_.NextAttempt(), At(0));
  publisher_.Offer(Report("b"));
  publisher_.Publish(At(1));
  EXPECT_EQ(sink_.asked, 1) << "too early";
  // A minute away costs few calls.
  for (int ms = 2; ms < 60'000; ++ms) publisher_.Publish(At(ms));
  EXPECT_LT(sink_.asked, 15);
  EXPECT_GT(sink_.asked, 4);
  sink_.status = absl::OkStatus();
  publisher_.Publish(At(90'000));
  ASSERT_EQ(sink_.published.size(), 1U);
  EXPECT_EQ(sink_.published[0].boot_id(), "b");
}

TEST_F(PublisherTest, LostAnswerUsesUpAGeneration) {
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  sink_.status = absl::DeadlineExceededError("late");
  publisher_.Offer(Report("b"));
  publisher_.Publish(At(1));
  sink_.status = absl::OkStatus();
  publisher_.Publish(At(60'000));
  ASSERT_EQ(sink_.published.size(), 2U);
  EXPECT_EQ(sink_.published[1].generation(), 3);
}

TEST_F(PublisherTest, SomebodyElsesReportIsPassed) {
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  sink_.status = absl::AbortedError("generation 9 is there");
  publisher_.Offer(Report("b"));
  publisher_.Publish(At(1));
  sink_.last = 9;
  sink_.status = absl::OkStatus();
  publisher_.Publish(At(60'000));
  ASSERT_EQ(sink_.published.size(), 2U);
  EXPECT_EQ(sink_.published[1].generation(), 10);
}

TEST_F(PublisherTest, ChangeThatWasTakenBackIsNone) {
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  publisher_.Offer(Report("b"));
  publisher_.Offer(Report("a"));
  EXPECT_FALSE(publisher_.NextAttempt().has_value());
}

TEST_F(PublisherTest, ClockThatJumpsBackChangesOnlyTheTimeInTheReport) {
  sink_.status = absl::UnavailableError("away");
  publisher_.Offer(Report("a"));
  publisher_.Publish(At(0));
  wall_ -= absl::Hours(24 * 365);
  sink_.status = absl::OkStatus();
  publisher_.Publish(At(2'000));
  ASSERT_EQ(sink_.published.size(), 1U);
  EXPECT_EQ(sink_.published[0].observed_time(), "2026-01-15T08:00:00Z");
}

}  // namespace
}  // namespace numafit::agent
