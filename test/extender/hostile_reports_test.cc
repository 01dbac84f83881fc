// Reports that cannot be right, from the API server to the fleet: each is counted and named in the
// log, and no verdict differs from what it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "api/node_report.h"
#include "cache/judge.h"
#include "extender/cluster_sync.h"
#include "prometheus/counter.h"
#include "spdlog/sinks/base_sink.h"
#include "test/cache/machines.h"
#include "test/cache/reports.h"
#include "test/extender/support.h"
#include "test/kube/fake_api_server.h"
#include "test/kube/raw_server.h"

namespace numafit::extender {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kNode[] = "gpu-a-012";
constexpr char kOther[] = "gpu-a-017";

// An even machine with one Pod on it.
json GoodReport(const std::string& node, int generation) {
  v1alpha1::NodeReportStatus status = test::ReportOf(test::SpecOf(test::kEven));
  status.set_generation(generation);
  status.set_node_name(node);
  v1alpha1::Pod* pod = status.add_pods();
  pod->set_namespace_("team");
  pod->set_name("train");
  pod->set_uid("uid-train");
  v1alpha1::HeldDevices* held = pod->add_devices();
  held->set_resource(test::kGpu);
  held->set_group(1);
  held->set_count(1);
  api::NodeReport report;
  report.metadata.name = node;
  report.status = std::make_shared<const v1alpha1::NodeReportStatus>(status);
  return json::parse(api::NodeReportToJson(report));
}

// What has been logged, also while others log.
class TextSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    text_.append(line.data(), line.size());
  }
  void flush_() override {}

  std::string text_;
};

class HostileReports : public ::testing::Test {
 protected:
  void Start(const std::string& url) {
    kube::Credentials credentials;
    credentials.server = url;
    client_ = kube::Client::Create(credentials, {}).value();
    wake_up_ =
        std::make_unique<WakeUp>(WakeUp::Options{.capacity = 0,
                                                 .now_ms = [] { return std::int64_t{0}; },
                                                 .wall_ms = [] { return std::int64_t{0}; }},
                                 WakeUp::Parts{*fleet_, verdicts_, *client_, metrics_, log_});
    events_ = std::make_unique<EventPoster>(EventPoster::Options{},
                                            EventPoster::Parts{*client_, metrics_, log_});
    sync_ = std::make_unique<ClusterSync>(
        *client_, ClusterSync::Parts{*fleet_, offers_, *wake_up_, *events_, metrics_, log_},
        ClusterSync::Sources{.with_reports = true, .with_counts = false});
    ASSERT_TRUE(Soon([this] { return sync_->synced(); }));
  }
  void TearDown() override {
    sync_.reset();
    events_.reset();
    wake_up_.reset();
  }

  static bool Soon(const std::function<bool()>& holds) {
    for (int i = 0; i < 2'000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  // What every node answers to Pods of every size, and the states themselves.
  std::vector<std::string> Verdicts() {
    std::vector<std::string> all;
    const cache::Fleet::ReadGuard guard(*fleet_);
    for (const char* node : {kNode, kOther}) {
      const int index = fleet_->FindNode(guard, node, -1);
      if (index < 0) {
        all.emplace_back("unknown");
        continue;
      }
      const cache::NodeState& state = *fleet_->State(guard, index);
      all.push_back(std::to_string(state.id));
      for (int gpus = 1; gpus <= 5; ++gpus) {
        for (int endpoints = 0; endpoints <= 5; ++endpoints) {
          all.emplace_back(policy::ReasonCode(
              cache::JudgeOnNode(state, *test::Want(gpus, endpoints), nullptr).reason));
        }
      }
    }
    return all;
  }

  // The last line of that event.
  std::string LastLine(const std::string& event) {
    std::istringstream text(sink_->text());
    std::string last;
    for (std::string line; std::getline(text, line);) {
      if (json::parse(line)["event"] == event) last = line;
    }
    return last;
  }

  std::shared_ptr<TextSink> sink_ = std::make_shared<TextSink>();
  Metrics metrics_;
  DecisionLog log_{{LogLevel::kInfo, 0}, sink_};
  cache::VerdictStore verdicts_{{}};
  Offers offers_{16, 1'000};
  std::unique_ptr<cache::Fleet> fleet_ = cache::Fleet::FromReports(api::ResourceClasses(), {});
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<WakeUp> wake_up_;
  std::unique_ptr<EventPoster> events_;
  std::unique_ptr<ClusterSync> sync_;
};

struct Hostile {
  const char* what;
  std::function<void(json& report)> spoil;
  const char* error;  // in the log line: field and value
};

json& Group(json& report, int group) {
  return report["status"]["resources"][0]["groups"][static_cast<std::size_t>(group)];
}

// Groups as a real agent would not write them: each within its bounds.
void AddGroups(json& report, int resources, int count) {
  for (int r = 0; r < resources; ++r) {
    json groups = json::array();
    for (int g = 0; g < 4096; ++g) {
      groups.push_back(
          {{"endpoint", "adapter-" + std::to_string(g)}, {"numaNodes", {g % 2}}, {"count", count}});
    }
    report["status"]["resources"].push_back(
        {{"name", "example.com/r" + std::to_string(r)}, {"groups", std::move(groups)}});
  }
}

const Hostile kHostile[] = {
    {"of another node", [](json& r) { r["status"]["nodeName"] = kOther; },
     R"(status.nodeName: \"gpu-a-017\" in the report of node \"gpu-a-012\")"},
    {"a negative count", [](json& r) { Group(r, 0)["count"] = -1; },
     "groups[0].count: -1 is outside of 0 to 1048576"},
    {"a count that is no integer", [](json& r) { Group(r, 0)["count"] = "many"; },
     "groups[0].count: expected an integer, got string"},
    {"a count beyond 32 bits", [](json& r) { Group(r, 0)["count"] = 1LL << 40; },
     "groups[0].count: 1099511627776 does not fit in 32 bits"},
    {"a device claimed by two Pods",
     [](json& r) {
       json second = r["status"]["pods"][0];
       second["uid"] = "uid-second";
       second["name"] = "second";
       r["status"]["pods"].push_back(second);
     },
     "status.pods[1].devices[0].count: 2 of nvidia.com/gpu group 1 are held with it, which has 1"},
    {"a Pod twice", [](json& r) { r["status"]["pods"].push_back(r["status"]["pods"][0]); },
     R"(status.pods[1].uid: \"uid-train\" is that of pods[0].uid too)"},
    {"more held than there is", [](json& r) { r["status"]["pods"][0]["devices"][0]["count"] = 7; },
     "status.pods[0].devices[0].count: 7 of nvidia.com/gpu group 1"},
    {"a group that is not there",
     [](json& r) { r["status"]["pods"][0]["devices"][0]["group"] = 99; },
     "status.pods[0].devices[0].group: 99 where nvidia.com/gpu has 8 groups"},
    {"a device on NUMA node 4000", [](json& r) { Group(r, 0)["numaNodes"] = {4000}; },
     "groups[0].numaNodes[0]: 4000 is outside of -1 to 63"},
    {"a device on NUMA node -2", [](json& r) { Group(r, 0)["numaNodes"] = {-2}; },
     "groups[0].numaNodes[0]: -2 is outside of -1 to 63"},
    {"a NUMA node -1", [](json& r) { r["status"]["numaNodes"][0]["id"] = -1; },
     "status.numaNodes[0].id: -1 is outside of 0 to 63"},
    {"a NUMA node twice", [](json& r) { r["status"]["numaNodes"][0]["id"] = 1; },
     "status.numaNodes[1].id: 1 is that of numaNodes[0].id too"},
    {"no NUMA node at all", [](json& r) { r["status"].erase("numaNodes"); }, "NUMA"},
    {"a policy that does not exist",
     [](json& r) { r["status"]["kubelet"]["topologyManagerPolicy"] = "strict"; },
     R"(kubelet.topologyManagerPolicy: is \"strict\")"},
    {"ten megabytes of devices", [](json& r) { AddGroups(r, 45, 1); }, "bytes, more than 1048576"},
    {"four thousand million devices in few bytes", [](json& r) { AddGroups(r, 1, 1 << 20); },
     "status.resources[2].groups[0].count: 1048592 devices with this 1048576, more than 65536"},
    {"no status", [](json& r) { r.erase("status"); }, "status: missing"},
    {"a status that is a list", [](json& r) { r["status"] = json::array(); },
     "status: expected an object, got array"},
};

TEST_F(HostileReports, AreRefusedCountedAndNamed) {
  kube_testing::FakeApiServer server;
  server.PutNodeReport(GoodReport(kNode, 7).dump());
  server.PutNodeReport(GoodReport(kOther, 7).dump());
  Start(server.url());
  const std::vector<std::string> before = Verdicts();
  double refused = 0;
  int generation = 8;
  for (const Hostile& hostile : kHostile) {
    SCOPED_TRACE(hostile.what);
    json report = GoodReport(kNode, generation++);
    hostile.spoil(report);
    server.PutNodeReport(report.dump());
    ++refused;
    ASSERT_TRUE(Soon([&] { return metrics_.reports_total.invalid->Value() >= refused; }));
    ASSERT_TRUE(Soon([&] {
      return LastLine("report-refused").find(hostile.error) != std::string::npos;
    })) << LastLine("report-refused").substr(0, 1'000);
    EXPECT_THAT(LastLine("report-refused"), HasSubstr(R"("node":"gpu-a-012")"));
    EXPECT_LT(LastLine("report-refused").size(), 2'000U);
    EXPECT_EQ(Verdicts(), before);
  }
  EXPECT_EQ(metrics_.reports_total.invalid->Value(), refused);
  // The node is not lost: its next honest report counts.
  json good = GoodReport(kNode, generation);
  good["status"].erase("pods");
  server.PutNodeReport(good.dump());
  EXPECT_TRUE(Soon([&] { return Verdicts() != before; }));
}

TEST_F(HostileReports, AnOlderOneIsIgnoredCountedAndNamed) {
  kube_testing::FakeApiServer server;
  server.PutNodeReport(GoodReport(kNode, 7).dump());
  Start(server.url());
  const std::vector<std::string> before = Verdicts();
  json older = GoodReport(kNode, 6);
  older["status"].erase("pods");
  server.PutNodeReport(older.dump());
  ASSERT_TRUE(Soon([&] { return metrics_.reports_total.outdated->Value() == 1; }));
  ASSERT_TRUE(Soon([&] { return !LastLine("report-outdated").empty(); }));
  EXPECT_THAT(LastLine("report-outdated"),
              AllOf(HasSubstr(R"("node":"gpu-a-012")"),
                    HasSubstr("status.generation: 6, where 7 of the same boot is known")));
  EXPECT_EQ(Verdicts(), before);
}

// The API server writes no such text; somebody between might.
TEST_F(HostileReports, BytesThatAreNoTextEndTheStreamOnly) {
  const std::string list = json{
      {"apiVersion", "numafit.io/v1alpha1"},
      {"kind", "NodeReportList"},
      {"metadata", {{"resourceVersion", "5"}}},
      {"items",
       {GoodReport(kNode, 7)}}}.dump();
  std::string frame = json{{"type", "MODIFIED"}, {"object", GoodReport(kNode, 8)}}.dump() + "\n";
  frame.replace(frame.find("uid-train"), 3, "\xff\xfe\xc0");
  kube_testing::RawServer server([&](int fd, int) {
    const std::string request = kube_testing::RawServer::ReadRequest(fd);
    const bool reports = request.find("nodereports") != std::string::npos;
    const bool watch = request.find("watch=true") != std::string::npos;
    const std::string body =
        watch     ? (reports ? frame : "")
        : reports ? list
                  : R"({"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"5"},)"
                    R"("items":[]})";
    kube_testing::RawServer::Write(
        fd,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  Start(server.url());
  const std::vector<std::string> before = Verdicts();
  ASSERT_TRUE(Soon([&] {
    return LastLine("api-server").find("interrupted") != std::string::npos &&
           LastLine("api-server").find("reports") != std::string::npos;
  }));
  EXPECT_GE(metrics_.watch_interruptions_total->Value(), 1);
  EXPECT_EQ(Verdicts(), before);
  TearDown();  // before the server's answers go
}

}  // namespace
}  // namespace numafit::extender
