// The small parts of the extender: offers, ranking, verdicts, log, what is remembered of Pods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cache/verdicts.h"
#include "extender/decision_log.h"
#include "extender/metrics.h"
#include "extender/offers.h"
#include "extender/pod_memory.h"
#include "extender/ranking.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "policy/score/score_strategy.h"
#include "spdlog/sinks/ostream_sink.h"

namespace numafit::extender {
namespace {

TEST(MetricsTest, WatchesThatAreDownSayForHowLong) {
  std::int64_t now = 5'000;
  Metrics metrics([&now] { return now; });
  const auto shown = [&metrics](const std::string& watch) {
    const std::string text = metrics.Text();
    const std::string sample = "numafit_watch_broken_seconds{watch=\"" + watch + "\"} ";
    const std::size_t at = text.find(sample);
    if (at == std::string::npos) return std::string("none");
    return text.substr(at + sample.size(), text.find('\n', at) - at - sample.size());
  };
  EXPECT_EQ(shown("pods"), "none");
  metrics.SetWatch("pods", true);
  metrics.SetWatch("reports", false);
  now += 1'500;
  // Another reason, and still down.
  metrics.SetWatch("pods", true);
  EXPECT_EQ(shown("pods"), "1.5");
  EXPECT_EQ(shown("reports"), "0");
  metrics.SetWatch("pods", false);
  now += 60'000;
  EXPECT_EQ(shown("pods"), "0");
  metrics.SetWatch("pods", true);
  now += 250;
  EXPECT_EQ(shown("pods"), "0.25");
  metrics.ForgetWatch("pods");
  EXPECT_EQ(shown("pods"), "none");
}

TEST(OffersTest, AnOfferEndsAtBindAtTheNextFilterOrAfterAMoment) {
  Offers offers(3, 1'000);
  offers.Set("a", 1, 0);
  EXPECT_EQ(offers.count(1), 1);
  EXPECT_EQ(offers.NodeOf("a"), 1);
  offers.Set("a", 2, 500);
  EXPECT_EQ(offers.count(1), 0);
  EXPECT_EQ(offers.count(2), 1);
  // The first offer's time is up, the second's is not.
  offers.ForgetOld(1'000);
  EXPECT_EQ(offers.count(2), 1);
  offers.ForgetOld(1'500);
  EXPECT_EQ(offers.count(2), 0);
  offers.Set("b", 0, 2'000);
  offers.Forget("b");
  offers.Forget("never seen");
  EXPECT_EQ(offers.count(0), 0);
  EXPECT_EQ(offers.size(), 0U);
}

TEST(OffersTest, CountsPodsAndIgnoresThoseWithoutUid) {
  Offers offers(1, 1'000);
  offers.Set("a", 0, 0);
  offers.Set("b", 0, 0);
  offers.Set("", 0, 0);
  EXPECT_EQ(offers.count(0), 2);
  Offers off(1, 0);
  off.Set("a", 0, 0);
  EXPECT_EQ(off.count(0), 0);
}

TEST(RankingTest, KeepsTheBestInOrderLikeASortWould) {
  std::mt19937 random(1);
  for (const std::size_t best : {std::size_t{0}, std::size_t{1}, std::size_t{64}}) {
    for (const int count : {0, 1, 63, 64, 65, 5'000}) {
      struct Node {
        int score;
        int offers;
        std::uint32_t position;
      };
      std::vector<Node> nodes;
      Ranking ranking;
      ranking.Reset(best);
      for (int i = 0; i < count; ++i) {
        nodes.push_back({static_cast<int>(random() % 50),
                         static_cast<int>(random() % 10) == 0 ? 1 : 0,
                         static_cast<std::uint32_t>(i)});
        ranking.Add(nodes.back().position, i, nodes.back().score, nodes.back().offers);
      }
      std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
        if (a.offers != b.offers) return a.offers < b.offers;
        if (a.score != b.score) return a.score > b.score;
        return a.position < b.position;
      });
      const std::vector<Ranked>& ranked = ranking.Finish();
      const std::size_t expected = best == 0 ? nodes.size() : std::min(best, nodes.size());
      ASSERT_EQ(ranked.size(), expected);
      EXPECT_EQ(ranking.added(), nodes.size());
      for (std::size_t i = 0; i < expected; ++i) {
        ASSERT_EQ(ranked[i].position, nodes[i].position) << i;
        ASSERT_EQ(ranked[i].index, static_cast<int>(nodes[i].position));
      }
    }
  }
}

TEST(RankingTest, ANodeOnOfferComesAfterEveryNodeThatIsNot) {
  Ranking ranking;
  ranking.Reset(2);
  ranking.Add(0, 0, policy::kMaxScore, 1);
  ranking.Add(1, 1, 0, 0);
  ranking.Add(2, 2, policy::kMaxScore, 2);
  ASSERT_EQ(ranking.Finish().size(), 2U);
  EXPECT_EQ(ranking.Finish()[0].position, 1U);
  EXPECT_EQ(ranking.Finish()[1].position, 0U);
}

TEST(PriorityTest, TheBestLeadsAloneAndNobodyIsOutOfRange) {
  for (const std::size_t count : {1UL, 2UL, 3UL, 10UL, 64UL, 5'000UL}) {
    std::int64_t before = 11;
    for (std::size_t rank = 0; rank < count; ++rank) {
      const std::int64_t priority = PriorityOfRank(rank, count);
      ASSERT_LE(priority, before);
      ASSERT_GE(priority, 1);
      ASSERT_TRUE(rank == 0 || priority <= 9);
      before = priority;
    }
    EXPECT_EQ(PriorityOfRank(0, count), 10);
  }
}

TEST(VerdictStoreTest, JudgesOncePerStateAndShape) {
  cache::VerdictStore store({2});
  int judged = 0;
  const auto judge = [&judged] {
    ++judged;
    return cache::Verdict{judged, policy::Reason::kFits};
  };
  {
    cache::VerdictStore::Session session(store, "shape", 3);
    EXPECT_EQ(session.At(0, 7, judge).score, 1);
    EXPECT_EQ(session.At(1, 7, judge).score, 1);
    EXPECT_EQ(session.At(2, 8, judge).score, 2);
  }
  {
    cache::VerdictStore::Session session(store, "shape", 3);
    EXPECT_EQ(session.At(0, 7, judge).score, 1);
    EXPECT_EQ(session.At(1, 8, judge).score, 2);
  }
  EXPECT_EQ(judged, 2);
  EXPECT_EQ(store.stats().hits, 1U);
  EXPECT_EQ(store.stats().shared, 2U);
  EXPECT_EQ(store.stats().judged, 2U);
  { cache::VerdictStore::Session session(store, "b", 3); }
  { cache::VerdictStore::Session session(store, "c", 3); }
  EXPECT_EQ(store.shapes(), 2U);
  EXPECT_EQ(store.stats().evictions, 1U);
  {
    cache::VerdictStore::Session session(store, "shape", 3);
    session.At(0, 7, judge);
  }
  EXPECT_EQ(judged, 3);
}

TEST(VerdictStoreTest, StatesThatNobodyIsInAnyMoreAreForgotten) {
  cache::VerdictStore store({2});
  int judged = 0;
  for (std::uint64_t state = 1; state < 10'000; ++state) {
    cache::VerdictStore::Session session(store, "shape", 2);
    session.At(0, state, [&] {
      ++judged;
      return cache::Verdict{1, policy::Reason::kFits};
    });
    // Stays where it is and is not judged again.
    session.At(1, 1, [] { return cache::Verdict{2, policy::Reason::kNeverFits}; });
  }
  EXPECT_EQ(judged, 9'999);
  EXPECT_EQ(store.stats().judged, 9'999U);
}

TEST(VerdictStoreTest, ManyThreadsGetWhatOneWould) {
  cache::VerdictStore store({4});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (int round = 0; round < 200; ++round) {
        const std::string shape = fmt::format("{}", (t + round) % 6);
        cache::VerdictStore::Session session(store, shape, 50);
        for (int node = 0; node < 50; ++node) {
          const std::uint64_t state = static_cast<std::uint64_t>((node + round) % 7 + 1);
          const int expected = static_cast<int>(state) * 10 + std::stoi(shape);
          const cache::Verdict verdict = session.At(node, state, [&] {
            return cache::Verdict{expected, policy::Reason::kFits};
          });
          ASSERT_EQ(verdict.score, expected);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PodMemoryTest, ForgetsTheOldest) {
  PodMemory memory(2);
  const auto remember = [&memory](const char* uid, const char* name) {
    auto pod = std::make_shared<RememberedPod>();
    pod->pod.metadata.uid = uid;
    pod->pod.metadata.name = name;
    memory.Remember(pod);
  };
  remember("a", "1");
  remember("b", "2");
  remember("a", "3");
  remember("c", "4");
  EXPECT_EQ(memory.Find("b"), nullptr);
  EXPECT_EQ(memory.Find("a")->pod.metadata.name, "3");
  EXPECT_NE(memory.Find("c"), nullptr);
  memory.Forget("a");
  EXPECT_EQ(memory.Find("a"), nullptr);
}

class DecisionLogTest : public testing::Test {
 protected:
  std::vector<nlohmann::json> Lines() {
    std::vector<nlohmann::json> lines;
    std::istringstream text(text_.str());
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  std::ostringstream text_;
  std::shared_ptr<spdlog::sinks::sink> sink_ =
      std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
};

TEST_F(DecisionLogTest, WritesOneJsonObjectALine) {
  DecisionLog log({LogLevel::kInfo, 0}, sink_);
  LogLine line("filter");
  line.Text("pod", "a/\"b\"\n{}").Int("nodes", -3);
  EXPECT_TRUE(log.Decision(line, 0));
  log.Write(LogLevel::kDebug, LogLine("hidden"));
  ASSERT_EQ(Lines().size(), 1U);
  EXPECT_EQ(Lines()[0]["event"], "filter");
  EXPECT_EQ(Lines()[0]["pod"], "a/\"b\"\n{}");
  EXPECT_EQ(Lines()[0]["nodes"], -3);
  EXPECT_EQ(Lines()[0]["lvl"], "info");
}

TEST_F(DecisionLogTest, LeavesOutWhatIsOverTheRateAndSaysHowMuch) {
  DecisionLog log({LogLevel::kInfo, 3}, sink_);
  int written = 0;
  for (int i = 0; i < 10; ++i) {
    LogLine line("bind");
    written += log.Decision(line, 100) ? 1 : 0;
  }
  EXPECT_EQ(written, 3);
  LogLine line("bind");
  EXPECT_TRUE(log.Decision(line, 1'200));
  ASSERT_EQ(Lines().size(), 4U);
  EXPECT_EQ(Lines()[3]["leftOut"], 7);
  EXPECT_FALSE(Lines()[2].contains("leftOut"));
}

}  // namespace
}  // namespace numafit::extender
