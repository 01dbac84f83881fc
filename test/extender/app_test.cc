// The whole service over real sockets: what kube-scheduler and the curious may send.
#include "extender/app.h"

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "api/extender.h"
#include "extender/read_api.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/extender/http/http_client.h"
#include "test/extender/support.h"

namespace numafit::extender {
namespace {

using http::ClientResponse;
using http::RawClient;
using nlohmann::json;

class AppTest : public testing::Test {
 protected:
  AppTest() {
    config_.listen = "127.0.0.1:0";
    config_.read_listen = "127.0.0.1:0";
    config_.log_level = LogLevel::kOff;
    config_.workers = 2;
  }

  void Start(int nodes) { Start(TestFleet(nodes)); }
  void Start(cache::FleetFile fleet) {
    fleet_ = std::move(fleet);
    App::Overrides overrides;
    overrides.fleet = &fleet_;
    auto client = std::make_unique<FakeClient>();
    client_ = client.get();
    overrides.client = std::move(client);
    absl::StatusOr<std::unique_ptr<App>> app = App::Start(config_, std::move(overrides));
    ASSERT_TRUE(app.ok()) << app.status();
    app_ = *std::move(app);
  }
  RawClient Connect() { return RawClient(app_->port()); }

  json Filter(const std::string& pod, const std::vector<std::string>& names) {
    const ClientResponse response = Connect().Post("/filter", ArgsJson(pod, names));
    EXPECT_EQ(response.status, 200) << response.body;
    return json::parse(response.body);
  }
  json Prioritize(const std::string& pod, const std::vector<std::string>& names) {
    const ClientResponse response = Connect().Post("/prioritize", ArgsJson(pod, names));
    EXPECT_EQ(response.status, 200) << response.body;
    return json::parse(response.body);
  }
  std::string Bind(const std::string& pod, const std::string& node) {
    const ClientResponse response = Connect().Post("/bind", BindJson(pod, node));
    EXPECT_EQ(response.status, 200) << response.body;
    return json::parse(response.body)["Error"];
  }
  // Binds a Pod of this size there, whatever filter would say.
  void Fill(const std::string& pod, int gpus, int endpoints, const std::string& node) {
    client_->AddPod(pod, gpus, endpoints);
    ASSERT_EQ(Bind(pod, node), "");
  }

  Config config_;
  cache::FleetFile fleet_;
  FakeClient* client_ = nullptr;
  std::unique_ptr<App> app_;
};

TEST_F(AppTest, AnswersInTheFormOfTheProtocol) {
  Start(3);
  const json answer = Filter(PodJson("a", 4, 4), NodeNames(3));
  EXPECT_EQ(answer.size(), 5U);
  EXPECT_TRUE(answer["Nodes"].is_null());
  EXPECT_EQ(answer["NodeNames"].size(), 3U);
  EXPECT_EQ(answer["FailedNodes"], json::object());
  EXPECT_EQ(answer["FailedAndUnresolvableNodes"], json::object());
  EXPECT_EQ(answer["Error"], "");
  EXPECT_TRUE(api::ParseExtenderFilterResult(answer.dump()).ok());
}

TEST_F(AppTest, TheBestKAreAnsweredAndNothingAboutTheRest) {
  config_.best_nodes = 64;
  Start(200);
  // Broken nodes are the better place for a small Pod.
  for (int i = 0; i < 5; ++i) Fill(fmt::format("p{}", i), 1, 1, fmt::format("node-{:04}", 150 + i));
  const json answer = Filter(PodJson("a", 1, 1), NodeNames(200));
  EXPECT_EQ(answer["NodeNames"].size(), 64U);
  EXPECT_EQ(answer["FailedAndUnresolvableNodes"].size(), 0U);
  std::set<std::string> first;
  for (int i = 0; i < 5; ++i) first.insert(answer["NodeNames"][static_cast<std::size_t>(i)]);
  EXPECT_EQ(first, (std::set<std::string>{"node-0150", "node-0151", "node-0152", "node-0153",
                                          "node-0154"}));
}

TEST_F(AppTest, AllThatFitAreAnsweredWhenAskedFor) {
  config_.best_nodes = 0;
  Start(200);
  EXPECT_EQ(Filter(PodJson("a", 4, 4), NodeNames(200))["NodeNames"].size(), 200U);
}

TEST_F(AppTest, WhenNothingFitsEveryNodeHasItsReason) {
  Start(3);
  Fill("x", 3, 3, "node-0001");
  Fill("y", 3, 3, "node-0001");
  std::vector<std::string> names = NodeNames(3);
  names.push_back("stran\"ger");
  const json answer = Filter(PodJson("a", 5, 5), names);
  EXPECT_EQ(answer["NodeNames"], json::array());
  EXPECT_EQ(answer["FailedNodes"], json::object());
  ASSERT_EQ(answer["FailedAndUnresolvableNodes"].size(), 4U);
  EXPECT_EQ(answer["FailedAndUnresolvableNodes"]["stran\"ger"],
            policy::ReasonText(policy::Reason::kNoReport));
  EXPECT_EQ(answer["FailedAndUnresolvableNodes"]["node-0000"],
            policy::ReasonText(policy::Reason::kNeverFits));
  EXPECT_EQ(answer["Error"], "");
  // The same question has the same text, byte for byte: a changing message makes a Pod spin.
  EXPECT_EQ(Filter(PodJson("a", 5, 5), names), answer);
  EXPECT_EQ(Filter(PodJson("b", 2, 2), {"node-0001"})["FailedAndUnresolvableNodes"]["node-0001"],
            policy::ReasonText(policy::Reason::kNumaFragmented));
}

TEST_F(AppTest, OnlyNamesThatCameInAreAnswered) {
  Start(10);
  const json answer = Filter(PodJson("a", 1, 1), {"node-0003", "nobody", "node-0007", "node-0003"});
  EXPECT_EQ(answer["NodeNames"], (json::array({"node-0003", "node-0007"})));
}

TEST_F(AppTest, UnknownNodesArePassedWhenConfigured) {
  config_.unknown_nodes = UnknownNodes::kPass;
  Start(2);
  const json answer = Filter(PodJson("a", 1, 1), {"nobody", "node-0001"});
  EXPECT_EQ(answer["NodeNames"], (json::array({"node-0001", "nobody"})));
  client_->AddPod("a", 1, 1);
  EXPECT_EQ(Bind("a", "nobody"), "");
}

TEST_F(AppTest, WholeNodesAreAnsweredAsTheyCame) {
  Start(TestFleet(1));
  for (const char* version : {"1.34.4", "1.36.3", "1.37.2"}) {
    std::string body =
        ReadTestFile(std::string("data/kube-scheduler-") + version + "-filter-nocache.json");
    const json sent = json::parse(body);
    // One of the recorded nodes becomes one that we know.
    for (std::size_t at = 0; (at = body.find("rack1-gpu1", at)) != std::string::npos;) {
      body.replace(at, 10, "node-0000");
    }
    const ClientResponse response = Connect().Post("/filter", body);
    ASSERT_EQ(response.status, 200) << response.body;
    const json answer = json::parse(response.body);
    EXPECT_TRUE(answer["NodeNames"].is_null());
    ASSERT_EQ(answer["Nodes"]["items"].size(), 1U) << response.body;
    EXPECT_EQ(answer["Nodes"]["items"][0], json::parse(body)["Nodes"]["items"][0]);
  }
}

TEST_F(AppTest, PodsWithoutContainersOrDevicesPassEverywhere) {
  Start(2);
  const std::vector<std::string> names = {"node-0000", "nobody"};
  for (const char* pod :
       {R"({})", R"({"spec":{}})", R"({"spec":{"containers":null}})",
        R"({"spec":{"containers":[]}})",
        R"({"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}]}})",
        R"({"spec":{"resourceClaims":[{"name":"gpus"}],"containers":[{"name":"a",)"
        R"("resources":{"claims":[{"name":"gpus"}]}}]}})"}) {
    const json answer = Filter(pod, names);
    EXPECT_EQ(answer["NodeNames"], json(names)) << pod;
    EXPECT_EQ(Prioritize(pod, names), json::array()) << pod;
  }
}

TEST_F(AppTest, EmptyArgumentsAreWellFormed) {
  Start(2);
  for (const char* body : {"null", "{}", R"({"Pod":null,"Nodes":null,"NodeNames":null})"}) {
    const ClientResponse response = Connect().Post("/filter", body);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(json::parse(response.body)["Error"], "numafit: the request names no Pod");
    EXPECT_EQ(Connect().Post("/prioritize", body).body, "[]");
  }
  EXPECT_EQ(Filter(PodJson("a", 1, 1), {})["Error"], "");
}

TEST_F(AppTest, AnAnnotationThatCannotBeReadIsAnErrorThatNamesIt) {
  Start(2);
  const json answer =
      Filter(PodJson("a", 1, 1, R"({"numafit.io/alignment":"sometimes"})"), NodeNames(2));
  EXPECT_NE(answer["Error"].get<std::string>().find("numafit.io/alignment"), std::string::npos);
  EXPECT_NE(answer["Error"].get<std::string>().find("sometimes"), std::string::npos);
  EXPECT_NE(
      Filter(PodJson("a", 1, 1, R"({"numafit.io/score-strategy":"luck"})"), NodeNames(2))["Error"]
          .get<std::string>()
          .find("luck"),
      std::string::npos);
}

TEST_F(AppTest, MalformedJsonIs400WithThePlace) {
  Start(2);
  for (const char* path : {"/filter", "/prioritize", "/bind"}) {
    for (const char* body : {"", "garbage", "{\"Pod\":", "\x00\xff", "[1,2", "{\"a\":1}}"}) {
      const ClientResponse response = Connect().Post(path, body);
      EXPECT_EQ(response.status, 400) << path << body;
      EXPECT_NE(json::parse(response.body)["error"].get<std::string>().find("byte"),
                std::string::npos)
          << response.body;
    }
  }
  EXPECT_EQ(Filter(PodJson("a", 1, 1), NodeNames(2))["NodeNames"].size(), 2U);
}

TEST_F(AppTest, PreemptKeepsVetoesAndExplainsWhatIsMalformed) {
  Start(1);
  Fill("a", 4, 0, "node-0000");
  Fill("b", 4, 0, "node-0000");
  const auto ask = [&](const std::string& pod, const std::string& victim) {
    return Connect().Post("/preempt", fmt::format(R"({{"Pod":{},"NodeNameToMetaVictims":)"
                                                  R"({{"node-0000":{{"Pods":[{{"UID":"{}"}}],)"
                                                  R"("NumPDBViolations":1}}}}}})",
                                                  pod, victim));
  };
  const json binding = json::parse(BindJson("a", "node-0000"));
  const std::string uid = binding["PodUID"];
  const ClientResponse kept = ask(PodJson("c", 4, 0), uid);
  EXPECT_EQ(kept.status, 200);
  EXPECT_EQ(json::parse(kept.body)["NodeNameToMetaVictims"]["node-0000"],
            json::parse(R"({"Pods":[{"UID":")" + uid + R"("}],"NumPDBViolations":1})"));
  const ClientResponse vetoed = ask(PodJson("c", 8, 0), uid);
  EXPECT_EQ(json::parse(vetoed.body), json::parse(R"({"NodeNameToMetaVictims":{}})"));
  const ClientResponse malformed = Connect().Post("/preempt", R"({"Pod":7})");
  EXPECT_EQ(malformed.status, 400);
  EXPECT_NE(malformed.body.find("expected an object, got number"), std::string::npos)
      << malformed.body;
  EXPECT_EQ(Connect().Post("/preempt", "null").status, 400);
}

TEST_F(AppTest, PrioritizeRanksInTheOrderOfFilter) {
  Start(100);
  Fill("x", 1, 1, "node-0042");
  const json filtered = Filter(PodJson("a", 1, 1), NodeNames(100));
  ASSERT_EQ(filtered["NodeNames"][0], "node-0042");
  const json scores = Prioritize(PodJson("a", 1, 1), filtered["NodeNames"]);
  ASSERT_EQ(scores.size(), 64U);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i]["Host"], filtered["NodeNames"][i]);
    EXPECT_TRUE(scores[i]["Score"].is_number_integer());
  }
  EXPECT_EQ(scores[0]["Score"], 10);
  EXPECT_EQ(scores[1]["Score"], 9);
}

TEST_F(AppTest, ABurstIsSpreadSoThatTheGateHasNothingToRefuse) {
  // Room for two such Pods on each node; bind calls arrive after the next filter calls.
  Start(50);
  std::vector<std::pair<std::string, std::string>> waiting;
  int refused = 0;
  const auto bind = [&](const std::pair<std::string, std::string>& place) {
    refused += Bind(place.first, place.second).empty() ? 0 : 1;
  };
  for (int i = 0; i < 80; ++i) {
    const std::string name = fmt::format("pod-{}", i);
    client_->AddPod(name, 4, 4);
    const json filtered = Filter(PodJson(name, 4, 4), NodeNames(50));
    ASSERT_GT(filtered["NodeNames"].size(), 0U) << i;
    waiting.emplace_back(name, filtered["NodeNames"][0]);
    if (waiting.size() > 5) {
      bind(waiting.front());
      waiting.erase(waiting.begin());
    }
  }
  for (const auto& place : waiting) bind(place);
  EXPECT_EQ(refused, 0);
}

TEST_F(AppTest, SlowBindsDoNotDelayFilter) {
  config_.bind_workers = 2;
  Start(10);
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  client_->on_bind = [released](int) {
    released.wait();
    return FakeClient::Fault{absl::OkStatus(), true};
  };
  std::vector<RawClient> binds;
  for (int i = 0; i < 10; ++i) {
    client_->AddPod(fmt::format("p{}", i), 1, 1);
    binds.push_back(Connect());
    binds.back().Send(
        http::PostRequest("/bind", BindJson(fmt::format("p{}", i), fmt::format("node-{:04}", i))));
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Filter(PodJson("a", 1, 1), NodeNames(10))["NodeNames"].size(), 10U);
  }
  release.set_value();
  for (RawClient& bind : binds) EXPECT_EQ(bind.Read().body, R"({"Error":""})");
}

TEST_F(AppTest, FilterPrioritizeAndBindTogether) {
  Start(20);
  for (int i = 0; i < 60; ++i) client_->AddPod(fmt::format("p{}", i), 1, 1);
  std::atomic<int> bound{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      RawClient client = Connect();
      for (int i = t; i < 60; i += 3) {
        const std::string name = fmt::format("p{}", i);
        const std::string args = ArgsJson(PodJson(name, 1, 1), NodeNames(20));
        const json filtered = json::parse(client.Post("/filter", args).body);
        client.Post("/prioritize", args);
        const std::string node = filtered["NodeNames"][0];
        bound += client.Post("/bind", BindJson(name, node)).body == R"({"Error":""})" ? 1 : 0;
        RawClient(app_->read_port()).Get("/metrics");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(bound, 50);
  EXPECT_EQ(static_cast<int>(client_->bound().size()), bound);
}

TEST_F(AppTest, SurvivesWhatIsNotAScheduler) {
  config_.body_limit = 1024 * 1024;
  Start(5);
  std::vector<RawClient> idle;
  for (int i = 0; i < 1'000; ++i) idle.push_back(Connect());
  RawClient half = Connect();
  half.Send(
      http::PostRequest("/filter", ArgsJson(PodJson("a", 1, 1), NodeNames(5))).substr(0, 300));
  const ClientResponse large = Connect().Post("/filter", std::string(2 * 1024 * 1024, ' ') + "{}");
  EXPECT_EQ(large.status, 413);
  EXPECT_NE(large.body.find("1048576 bytes"), std::string::npos);
  EXPECT_EQ(Connect().Post("/filter", std::string(500'000, '[')).status, 400);
  EXPECT_EQ(Filter(PodJson("a", 1, 1), NodeNames(5))["NodeNames"].size(), 5U);
}

TEST_F(AppTest, HealthReadinessAndMetricsOnBothPorts) {
  Start(5);
  Filter(PodJson("a", 1, 1), NodeNames(5));
  Fill("x", 1, 1, "node-0000");
  for (const int port : {app_->port(), app_->read_port()}) {
    EXPECT_EQ(RawClient(port).Get("/healthz").status, 200);
    EXPECT_EQ(RawClient(port).Get("/readyz").status, 200);
    const ClientResponse metrics = RawClient(port).Get("/metrics");
    EXPECT_EQ(metrics.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    for (const char* sample :
         {"numafit_filter_total{result=\"fits\"} 1\n", "numafit_bind_total{result=\"bound\"} 1\n",
          "numafit_filter_duration_seconds_count 1\n", "numafit_fleet_nodes 5\n",
          "numafit_http_requests_total{listener=\"scheduler\"}",
          "numafit_verdict_cache_total{result=\"judged\"} 1\n",
          "numafit_verdict_cache_total{result=\"shared\"} 4\n", "numafit_build_info{version=\""}) {
      EXPECT_NE(metrics.body.find(sample), std::string::npos) << sample << metrics.body;
    }
    EXPECT_EQ(metrics.body.find("node-0000"), std::string::npos);
  }
}

TEST_F(AppTest, TheReadApiExplains) {
  Start(5);
  Fill("x", 3, 3, "node-0001");
  RawClient client(app_->read_port());
  const json nodes = json::parse(client.Get("/v1/nodes").body);
  EXPECT_EQ(nodes["nodes"].size(), 5U);
  const json pods = json::parse(client.Get("/v1/pods?node=node%2D0001").body);
  ASSERT_EQ(pods["pods"].size(), 1U) << pods;
  EXPECT_EQ(pods["pods"][0]["node"], "node-0001");
  EXPECT_EQ(pods["pods"][0]["state"], "predicted");
  EXPECT_EQ(json::parse(client.Get("/v1/pods?misaligned=true").body)["pods"].size(), 0U);
  EXPECT_EQ(json::parse(client.Get("/v1/pods").body)["pods"].size(), 1U);
  EXPECT_EQ(RawClient(app_->read_port()).Get("/v1/pods?node=nobody").status, 404);
  const json all = json::parse(client.Post("/v1/explain?all=true", PodJson("a", 4, 4)).body);
  EXPECT_EQ(all["nodes"], 5);
  EXPECT_EQ(all["answers"].size(), 5U);
  const json one =
      json::parse(client.Post("/v1/explain?node=node%2D0001", PodJson("a", 4, 4)).body);
  ASSERT_EQ(one["answers"].size(), 1U) << one;
  EXPECT_EQ(one["answers"][0]["node"], "node-0001");
  EXPECT_EQ(RawClient(app_->read_port()).Post("/v1/explain?node=nobody", PodJson("a", 4, 4)).status,
            404);
  const ClientResponse garbage = RawClient(app_->read_port()).Post("/v1/explain", "{]");
  EXPECT_EQ(garbage.status, 400);
  EXPECT_TRUE(json::parse(garbage.body)["error"].is_string());
  // Not on the scheduler's port.
  EXPECT_EQ(Connect().Get("/v1/nodes").status, 404);
}

// docs/metrics.md and /metrics name the same metrics.
TEST_F(AppTest, EveryMetricIsDocumented) {
  Start(2);
  std::set<std::string> served;
  std::istringstream text(Connect().Get("/metrics").body);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# TYPE ")) served.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  std::set<std::string> documented;
  const std::string page = ReadTestFile("../../docs/metrics.md");
  for (std::size_t at = 0; (at = page.find("\n| `numafit_", at)) != std::string::npos; ++at) {
    documented.insert(page.substr(at + 4, page.find_first_of("{`", at + 4) - at - 4));
  }
  EXPECT_EQ(served, documented);
}

TEST(QueryValueTest, Decodes) {
  EXPECT_EQ(QueryValue("a=1&node=x%2Dy+z&b", "node"), "x-y z");
  EXPECT_EQ(QueryValue("node=%zz%4", "node"), "%zz%4");
  EXPECT_EQ(QueryValue("a=1&b", "b"), "");
  EXPECT_EQ(QueryValue("", "node"), "");
}

TEST_F(AppTest, DrainsWhileRequestsComeIn) {
  Start(5);
  RawClient client = Connect();
  ASSERT_EQ(client.Post("/filter", ArgsJson(PodJson("a", 1, 1), NodeNames(5))).status, 200);
  EXPECT_TRUE(app_->Drain(1'500));
  EXPECT_TRUE(client.WaitForClose());
}

TEST(AppStartTest, SaysWhatIsWrong) {
  Config config;
  config.listen = "127.0.0.1:0";
  config.log_level = LogLevel::kOff;
  config.fleet = "/does/not/exist.yaml";
  EXPECT_NE(App::Start(config).status().message().find("/does/not/exist.yaml"),
            absl::string_view::npos);
  config.fleet.clear();
  config.kubeconfig = "/no/kubeconfig";
  EXPECT_NE(App::Start(config).status().message().find("/no/kubeconfig"), absl::string_view::npos);
}

TEST(AppStartTest, WithoutAClusterBindSaysSoOrIsSimulated) {
  for (const bool simulate : {false, true}) {
    Config config;
    config.listen = "127.0.0.1:0";
    config.read_listen.clear();
    config.log_level = LogLevel::kOff;
    config.no_cluster = true;
    config.simulate_binds = simulate;
    absl::StatusOr<std::unique_ptr<App>> app = App::Start(config);
    ASSERT_TRUE(app.ok()) << app.status();
    EXPECT_EQ((*app)->read_port(), 0);
    RawClient client((*app)->port());
    // The embedded fleet has one node with both of its halves free.
    std::string node;
    for (int i = 0; i < 2; ++i) {
      const std::string pod = fmt::format("p{}", i);
      const json answer =
          json::parse(client.Post("/filter", ArgsJson(PodJson(pod, 4, 4), {"gpu-a-018"})).body);
      ASSERT_EQ(answer["NodeNames"].size(), 1U) << answer;
      const std::string error =
          json::parse(client.Post("/bind", BindJson(pod, "gpu-a-018")).body)["Error"];
      if (simulate) {
        EXPECT_EQ(error, "");
      } else {
        EXPECT_NE(error.find("--simulate-binds"), std::string::npos);
      }
    }
    const json full =
        json::parse(client.Post("/filter", ArgsJson(PodJson("p2", 4, 4), {"gpu-a-018"})).body);
    EXPECT_EQ(full["NodeNames"].size(), simulate ? 0U : 1U);
  }
}

}  // namespace
}  // namespace numafit::extender
