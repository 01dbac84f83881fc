#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kube/client.h"
#include "test/kube/fake_api_server.h"
#include "test/kube/raw_server.h"
#include "test/kube/recorder.h"

namespace numafit::kube {
namespace {

using kube_testing::FakeApiServer;
using kube_testing::RawServer;
using std::chrono::steady_clock;
using Cut = FakeApiServer::Cut;

using kube_testing::Recorder;

api::Pod MakePod(const std::string& name, const std::string& node = "") {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "default";
  pod.node_name = node;
  return pod;
}

std::unique_ptr<Client> MakeClient(const std::string& url) {
  Credentials credentials;
  credentials.server = url;
  auto client = Client::Create(credentials, {});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

WatchOptions Fast() {
  WatchOptions options;
  options.backoff_initial_ms = 5;
  options.backoff_max_ms = 40;
  return options;
}

class WatchTest : public testing::Test {
 protected:
  WatchTest() : client_(MakeClient(server_.url())) {}

  void Start(WatchOptions options = Fast()) {
    watch_ = WatchPods(*client_, std::move(options), recorder_.Handlers());
  }
  // Until a stream is open, so that what follows reaches it as an event.
  void WaitForStream() {
    while (server_.open_watches() == 0) std::this_thread::yield();
  }

  FakeApiServer server_;
  std::unique_ptr<Client> client_;
  Recorder<api::Pod> recorder_;
  std::unique_ptr<Watch> watch_;
};

TEST_F(WatchTest, ListsThenFollows) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  server_.PutPod(MakePod("b"));
  server_.PutPod(MakePod("a", "n1"));
  server_.DeletePod("default", "b");
  ASSERT_TRUE(recorder_.WaitFor("del b"));
  EXPECT_EQ(recorder_.events(), (std::vector<std::string>{"list a", "put b", "put a@n1", "del b"}));
  EXPECT_TRUE(watch_->synced());
  EXPECT_LT(watch_->seconds_since_contact(), 10.0);
  EXPECT_EQ(recorder_.lines().size(), 4U);  // no state was reported
}

TEST_F(WatchTest, SpeaksProtobufAndFallsBackToJson) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  EXPECT_TRUE(server_.requests().at(0).accept.starts_with("application/vnd.kubernetes.protobuf"));

  server_.SpeakJson(true);
  Recorder<api::Pod> json;
  const auto watch = WatchPods(*client_, Fast(), json.Handlers());
  ASSERT_TRUE(json.WaitFor("list a"));
  server_.PutPod(MakePod("b", "n1"));
  server_.DeletePod("default", "a");
  ASSERT_TRUE(json.WaitFor("del a"));
  EXPECT_EQ(json.events(), (std::vector<std::string>{"list a", "put b@n1", "del a"}));
}

TEST_F(WatchTest, NodesAreWatchedAlike) {
  api::Node node;
  node.metadata.name = "n1";
  server_.PutNode(node);
  Recorder<api::Node> nodes;
  const auto watch = WatchNodes(*client_, Fast(), nodes.Handlers());
  ASSERT_TRUE(nodes.WaitFor("list n1"));
  server_.PutPod(MakePod("a"));
  node.metadata.name = "n2";
  server_.PutNode(node);
  server_.DeleteNode("n1");
  ASSERT_TRUE(nodes.WaitFor("del n1"));
  EXPECT_EQ(nodes.events(), (std::vector<std::string>{"list n1", "put n2", "del n1"}));
}

TEST_F(WatchTest, ListsInPages) {
  for (const char* name : {"a", "b", "c", "d", "e"}) server_.PutPod(MakePod(name));
  WatchOptions options = Fast();
  options.page_size = 2;
  Start(options);
  ASSERT_TRUE(recorder_.WaitFor("list a,b,c,d,e"));
  EXPECT_EQ(server_.CountRequests("GET", "limit=2"), 3);
}

TEST_F(WatchTest, AnExpiredPageIsListedInOnePiece) {
  for (const char* name : {"a", "b", "c"}) server_.PutPod(MakePod(name));
  server_.ExpireNextContinue();
  WatchOptions options = Fast();
  options.page_size = 2;
  Start(options);
  ASSERT_TRUE(recorder_.WaitFor("list a,b,c"));
  EXPECT_EQ(server_.CountRequests("GET", "limit=0"), 1);
}

TEST_F(WatchTest, SelectorsAreSent) {
  WatchOptions options = Fast();
  options.field_selector = "status.phase!=Failed,spec.nodeName!=";
  options.label_selector = "a in (b,c)";
  Start(options);
  ASSERT_TRUE(recorder_.WaitFor("list "));
  WaitForStream();
  for (const auto& request : server_.requests()) {
    EXPECT_NE(request.query.find("fieldSelector=status.phase!=Failed,spec.nodeName!="),
              std::string::npos);
    EXPECT_NE(request.query.find("labelSelector=a in (b,c)"), std::string::npos);
  }
}

TEST_F(WatchTest, ResumesAfterEveryKindOfEnd) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  int n = 0;
  for (const Cut cut : {Cut::kClean, Cut::kDropped, Cut::kMidFrame, Cut::kGarbage}) {
    WaitForStream();
    server_.CutStreams(cut);
    const std::string name = "p" + std::to_string(n++);
    server_.PutPod(MakePod(name));
    ASSERT_TRUE(recorder_.WaitFor("put " + name)) << n;
  }
  // Nothing was lost, nothing was listed again, nothing came twice.
  EXPECT_EQ(recorder_.events(),
            (std::vector<std::string>{"list a", "put p0", "put p1", "put p2", "put p3"}));
  EXPECT_EQ(server_.CountRequests("GET", "limit="), 1);
}

TEST_F(WatchTest, AHugeFrameInJsonIsRefusedAndTheWatchGoesOn) {
  server_.SpeakJson(true);
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  server_.CutStreams(Cut::kHugeFrame);
  server_.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder_.WaitFor("put b"));
  ASSERT_TRUE(recorder_.WaitFor("state DATA_LOSS"));
}

TEST_F(WatchTest, AHugeFrameLengthIsRefusedAndTheWatchGoesOn) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  server_.CutStreams(Cut::kHugeFrame);
  server_.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder_.WaitFor("put b"));
  ASSERT_TRUE(recorder_.WaitFor("state DATA_LOSS"));
}

TEST_F(WatchTest, ABrokenConnectionAndItsRepairAreReported) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  server_.FailNext(2, 500, true);
  server_.CutStreams(Cut::kDropped);
  ASSERT_TRUE(recorder_.WaitFor("state OK"));
  const auto lines = recorder_.lines();
  EXPECT_EQ(lines, (std::vector<std::string>{"list a", "state UNAVAILABLE", "state INTERNAL",
                                             "state OK"}));
}

TEST_F(WatchTest, ACleanEndIsNoBreak) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  server_.CutStreams(Cut::kClean);
  server_.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder_.WaitFor("put b"));
  EXPECT_EQ(recorder_.lines(), (std::vector<std::string>{"list a", "put b"}));
}

TEST_F(WatchTest, BookmarksMoveTheResumePointOn) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  api::Node node;
  node.metadata.name = "n1";
  for (int i = 0; i < 5; ++i) server_.PutNode(node);  // versions that this watch never sees
  const std::string version = std::to_string(server_.resource_version());
  server_.SendBookmark();
  server_.CutStreams(Cut::kClean);
  // The last request asks from the bookmark on.
  const auto end = steady_clock::now() + std::chrono::seconds(20);
  while (server_.CountRequests("GET", "resourceVersion=" + version) == 0 &&
         steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_GE(server_.CountRequests("GET", "resourceVersion=" + version), 1);
  EXPECT_GE(server_.CountRequests("GET", "allowWatchBookmarks=true"), 1);
  EXPECT_EQ(recorder_.events(), (std::vector<std::string>{"list a"}));
}

TEST_F(WatchTest, GoneAsAStatusListsAgain) {
  server_.PutPod(MakePod("a"));
  server_.PutPod(MakePod("b"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a,b"));
  WaitForStream();
  server_.Hold();  // the next watch comes after the events are forgotten
  server_.CutStreams(Cut::kDropped);
  while (server_.open_watches() != 0) std::this_thread::yield();
  server_.DeletePod("default", "a");
  server_.Compact();
  server_.Release();
  ASSERT_TRUE(recorder_.WaitFor("list b"));
  EXPECT_EQ(recorder_.events(), (std::vector<std::string>{"list a,b", "list b"}));
}

TEST_F(WatchTest, GoneAsAnEventListsAgain) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  server_.SendError(410, "Expired");
  ASSERT_TRUE(recorder_.WaitFor("list a", 2));
  server_.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder_.WaitFor("put b"));
}

TEST_F(WatchTest, AnotherErrorEventResumes) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  server_.SendError(500, "InternalError");
  ASSERT_TRUE(recorder_.WaitFor("state INTERNAL"));
  server_.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder_.WaitFor("put b"));
  EXPECT_EQ(server_.CountRequests("GET", "limit="), 1);
}

TEST_F(WatchTest, WatchesRefusedAgainAndAgainAreListedAnew) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  WaitForStream();
  server_.FailNext(3, 500, true);
  server_.CutStreams(Cut::kClean);
  ASSERT_TRUE(recorder_.WaitFor("list a", 2));
}

TEST_F(WatchTest, AStormOfErrorsIsSurvivedWithGrowingPauses) {
  server_.PutPod(MakePod("a"));
  server_.FailNext(15, 503);
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  EXPECT_EQ(server_.CountRequests("GET", "limit="), 16);
  server_.FailNext(10, 0, true);  // hangs up on every watch
  WaitForStream();
  server_.CutStreams(Cut::kDropped);
  server_.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder_.WaitFor("put b"));
}

TEST_F(WatchTest, RetryAfterIsObeyed) {
  server_.PutPod(MakePod("a"));
  server_.FailNext(1, 429, false, 1);
  const auto start = steady_clock::now();
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  EXPECT_GE(steady_clock::now() - start, std::chrono::milliseconds(1000));
}

TEST_F(WatchTest, AServerThatComesBackIsFoundAgain) {
  auto server = std::make_unique<FakeApiServer>();
  server->PutPod(MakePod("a"));
  const int port = server->port();
  const auto client = MakeClient(server->url());
  Recorder<api::Pod> recorder;
  const auto watch = WatchPods(*client, Fast(), recorder.Handlers());
  ASSERT_TRUE(recorder.WaitFor("list a"));
  server.reset();
  ASSERT_TRUE(recorder.WaitFor("state UNAVAILABLE"));
  // Another one in its place, to which the old resource version means nothing.
  server = std::make_unique<FakeApiServer>(std::nullopt, port, 5000);
  ASSERT_EQ(server->port(), port);
  ASSERT_TRUE(recorder.WaitFor("list "));
  server->PutPod(MakePod("b"));
  ASSERT_TRUE(recorder.WaitFor("put b"));
  ASSERT_TRUE(recorder.WaitFor("state OK"));
}

// How long it takes to destroy the watch.
std::chrono::milliseconds TimeToStop(std::unique_ptr<Watch>& watch) {
  const auto start = steady_clock::now();
  watch.reset();
  return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start);
}

// Far below every wait that is being cut short (10 s and more), far above a busy machine's hiccup.
constexpr std::chrono::milliseconds kAtOnce(3000);

TEST_F(WatchTest, StopsAtOnceInAQuietStream) {
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list "));
  WaitForStream();
  EXPECT_LT(TimeToStop(watch_), kAtOnce);
}

TEST_F(WatchTest, StopsAtOnceInTheBackOff) {
  WatchOptions options;
  options.backoff_initial_ms = 60'000;
  options.backoff_max_ms = 60'000;
  server_.FailNext(1, 503);
  Start(options);
  ASSERT_TRUE(recorder_.WaitFor("state UNAVAILABLE"));
  EXPECT_LT(TimeToStop(watch_), kAtOnce);
}

TEST_F(WatchTest, StopsAtOnceWhileTheServerIsSilent) {
  server_.Hold();
  Start();
  while (server_.requests().empty()) std::this_thread::yield();
  EXPECT_LT(TimeToStop(watch_), kAtOnce);
  EXPECT_TRUE(recorder_.lines().empty());
  server_.Release();
}

TEST(WatchStopTest, StopsAtOnceInsideAFlood) {
  RawServer server([](int fd, int n) {
    RawServer::ReadRequest(fd);
    if (n == 0) {
      const std::string body = R"({"metadata":{"resourceVersion":"1"},"items":[]})";
      RawServer::Write(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                               std::to_string(body.size()) + "\r\n\r\n" + body);
      return;
    }
    RawServer::Write(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
    const std::string event =
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}\n";
    while (::send(fd, event.data(), event.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  const auto client = MakeClient(server.url());
  Recorder<api::Pod> recorder;
  std::unique_ptr<Watch> watch = WatchPods(*client, Fast(), recorder.Handlers());
  ASSERT_TRUE(recorder.WaitFor("put ", 100));
  EXPECT_LT(TimeToStop(watch), kAtOnce);
}

TEST(WatchStopTest, StopsAtOnceInATlsHandshakeThatHangs) {
  std::atomic<int> waiting = 0;
  RawServer server([&](int fd, int /*n*/) {
    ++waiting;
    RawServer::WaitForEnd(fd);
  });
  const auto client = MakeClient("https://127.0.0.1:" + std::to_string(server.port()));
  Recorder<api::Pod> recorder;
  std::unique_ptr<Watch> watch = WatchPods(*client, Fast(), recorder.Handlers());
  while (waiting == 0) std::this_thread::yield();
  EXPECT_LT(TimeToStop(watch), kAtOnce);
}

TEST(WatchStopTest, AFakeClientIsReportedNotFollowed) {
  class Fake : public Client {
   public:
    absl::Status Bind(const BindRequest&) override { return absl::OkStatus(); }
    absl::Status AnnotatePod(const std::string&, const std::string&, const std::string&,
                             const std::string&, const std::string&) override {
      return absl::OkStatus();
    }
    absl::StatusOr<api::Pod> GetPod(const std::string&, const std::string&) override {
      return api::Pod();
    }
    absl::StatusOr<api::Node> GetNode(const std::string&) override { return api::Node(); }
  };
  Fake fake;
  Recorder<api::Pod> recorder;
  std::unique_ptr<Watch> watch = WatchPods(fake, Fast(), recorder.Handlers());
  EXPECT_TRUE(recorder.WaitFor("state UNIMPLEMENTED"));
  EXPECT_FALSE(watch->synced());
}

TEST(WatchTlsTest, WatchesOverTls) {
  const kube_testing::TestCa ca("ca");
  FakeApiServer server(
      FakeApiServer::Tls{.identity = ca.Issue("s", {"IP:127.0.0.1"}), .client_ca_pem = {}});
  server.PutPod(MakePod("a"));
  Credentials credentials;
  credentials.server = server.url();
  credentials.ca_pem = ca.pem();
  const auto client = *Client::Create(credentials, {});
  Recorder<api::Pod> recorder;
  std::unique_ptr<Watch> watch = WatchPods(*client, Fast(), recorder.Handlers());
  ASSERT_TRUE(recorder.WaitFor("list a"));
  server.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder.WaitFor("put b"));
  EXPECT_LT(TimeToStop(watch), kAtOnce);
}

TEST_F(WatchTest, ARefusalThatIsNotAboutTheVersionNeedsNoList) {
  server_.PutPod(MakePod("a"));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list a"));
  for (const int code : {403, 429, 401}) {
    WaitForStream();
    const int before = server_.CountRequests("GET", "watch=true");
    // 401 is asked again with a fresh token only where there is a token file.
    server_.FailNext(5, code, true);
    server_.CutStreams(Cut::kClean);
    while (server_.CountRequests("GET", "watch=true") < before + 6) std::this_thread::yield();
  }
  server_.PutPod(MakePod("b"));
  ASSERT_TRUE(recorder_.WaitFor("put b"));
  EXPECT_EQ(server_.CountRequests("GET", "limit="), 1);
}

}  // namespace
}  // namespace numafit::kube
