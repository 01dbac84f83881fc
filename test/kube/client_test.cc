#include "kube/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kube/http/transport.h"
#include "test/kube/fake_api_server.h"
#include "test/kube/raw_server.h"

namespace numafit::kube {
namespace {

using kube_testing::FakeApiServer;
using kube_testing::RawServer;
using std::chrono::steady_clock;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

std::unique_ptr<Client> MakeClient(Credentials credentials, Client::Options options = {}) {
  auto client = Client::Create(std::move(credentials), options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

std::unique_ptr<Client> MakeClient(const std::string& server, Client::Options options = {}) {
  Credentials credentials;
  credentials.server = server;
  return MakeClient(std::move(credentials), options);
}

api::Pod MakePod(const std::string& name) {
  api::Pod pod;
  pod.metadata.name = name;
  pod.metadata.namespace_ = "default";
  pod.metadata.uid = "uid-" + name;
  pod.containers.resize(1);
  pod.containers[0].name = "main";
  pod.containers[0].resources.limits["nvidia.com/gpu"] = api::Quantity::FromInt(2);
  return pod;
}

BindRequest MakeBind(const std::string& pod) {
  return {.pod_namespace = "default",
          .pod_name = pod,
          .pod_uid = "uid-" + pod,
          .node = "n1",
          .annotations = {{"numafit.io/placement", "{\"a\":\"b\"}"}}};
}

TEST(ClientTest, BindsWithAnnotations) {
  FakeApiServer server;
  server.PutPod(MakePod("a"));
  const auto client = MakeClient(server.url());
  ASSERT_TRUE(client->Bind(MakeBind("a")).ok());
  const auto pod = server.FindPod("default", "a");
  ASSERT_TRUE(pod.has_value());
  EXPECT_EQ(pod->node_name, "n1");
  EXPECT_EQ(pod->metadata.annotations.at("numafit.io/placement"), "{\"a\":\"b\"}");
}

TEST(ClientTest, BindErrorsKeepTheServersCodeAndMessage) {
  FakeApiServer server;
  api::Pod bound = MakePod("bound");
  bound.node_name = "n7";
  server.PutPod(bound);
  server.PutPod(MakePod("a"));
  const auto client = MakeClient(server.url());

  absl::Status status = client->Bind(MakeBind("bound"));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_NE(Message(status).find("already assigned to node \"n7\""), std::string::npos);

  status = client->Bind(MakeBind("nobody"));
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(Message(status), "pods \"nobody\" not found");

  BindRequest recreated = MakeBind("a");
  recreated.pod_uid = "another";
  EXPECT_TRUE(absl::IsAborted(client->Bind(recreated)));

  server.FailNext(1, 500);
  status = client->Bind(MakeBind("a"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_EQ(Message(status), "made to fail");
  server.FailNext(1, 403);
  EXPECT_TRUE(absl::IsPermissionDenied(client->Bind(MakeBind("a"))));
  server.FailNext(1, 503);
  EXPECT_TRUE(absl::IsUnavailable(client->Bind(MakeBind("a"))));
  EXPECT_TRUE(server.FindPod("default", "a")->node_name.empty());
  EXPECT_TRUE(client->Bind(MakeBind("a")).ok());

  BindRequest nameless = MakeBind("a");
  nameless.pod_name.clear();
  EXPECT_EQ(client->Bind(nameless).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ClientTest, AnnotatesThePodOfThatUidAndNoOther) {
  FakeApiServer server;
  api::Pod pod = MakePod("a");
  pod.metadata.annotations["other"] = "kept";
  server.PutPod(pod);
  const auto client = MakeClient(server.url());
  ASSERT_TRUE(client->AnnotatePod("default", "a", "uid-a", "numafit.io/woken", "1\"2").ok());
  EXPECT_EQ(server.FindPod("default", "a")->metadata.annotations,
            (api::StringMap{{"numafit.io/woken", "1\"2"}, {"other", "kept"}}));

  EXPECT_TRUE(absl::IsAborted(client->AnnotatePod("default", "a", "another", "k", "v")));
  EXPECT_TRUE(absl::IsNotFound(client->AnnotatePod("default", "b", "uid-b", "k", "v")));
  EXPECT_TRUE(absl::IsInvalidArgument(client->AnnotatePod("default", "a", "", "k", "v")));
  server.FailNext(1, 403);
  EXPECT_TRUE(absl::IsPermissionDenied(client->AnnotatePod("default", "a", "uid-a", "k", "v")));
  EXPECT_FALSE(server.FindPod("default", "a")->metadata.annotations.contains("k"));
}

TEST(ClientTest, NamesCannotLeaveTheirPlaceInThePath) {
  FakeApiServer server;
  const auto client = MakeClient(server.url());
  BindRequest request = MakeBind("x");
  request.pod_name = "../../nodes?x=#";
  EXPECT_FALSE(client->Bind(request).ok());
  for (const auto& seen : server.requests()) EXPECT_NE(seen.path, "/api/v1/nodes");
  EXPECT_EQ(server.CountRequests("POST", "/nodes?"), 0);
}

TEST(ClientTest, GetsPodsAndNodesInBothEncodings) {
  FakeApiServer server;
  server.PutPod(MakePod("a"));
  api::Node node;
  node.metadata.name = "n1";
  node.allocatable["nvidia.com/gpu"] = api::Quantity::FromInt(8);
  server.PutNode(node);
  const auto client = MakeClient(server.url());
  for (const bool json : {false, true}) {
    server.SpeakJson(json);
    const auto pod = client->GetPod("default", "a");
    ASSERT_TRUE(pod.ok()) << pod.status();
    EXPECT_EQ(pod->metadata.uid, "uid-a");
    EXPECT_EQ(pod->containers.at(0).resources.limits.at("nvidia.com/gpu").value(), 2);
    const auto found = client->GetNode("n1");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->allocatable.at("nvidia.com/gpu").value(), 8);
    EXPECT_TRUE(absl::IsNotFound(client->GetNode("n2").status()));
    EXPECT_EQ(client->GetNode("").status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ClientTest, OneConnectionServesManyRequests) {
  FakeApiServer server;
  server.PutPod(MakePod("a"));
  const auto client = MakeClient(server.url());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client->GetPod("default", "a").ok());
  std::set<int> ports;
  for (const auto& seen : server.requests()) ports.insert(seen.remote_port);
  EXPECT_EQ(ports.size(), 1U);
}

TEST(ClientTest, ConnectionsAreCapped) {
  FakeApiServer server;
  server.PutPod(MakePod("a"));
  const auto client = MakeClient(server.url(), {.max_connections = 3, .timeout_ms = 10'000});
  server.Hold();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&] { good += client->GetPod("default", "a").ok() ? 1 : 0; });
  }
  while (server.requests().size() < 3) std::this_thread::yield();
  server.Release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 12);
  std::set<int> ports;
  for (const auto& seen : server.requests()) ports.insert(seen.remote_port);
  EXPECT_LE(ports.size(), 3U);
}

TEST(ClientTest, WaitingForAConnectionHasAnEnd) {
  FakeApiServer server;
  server.PutPod(MakePod("a"));
  const auto client = MakeClient(server.url(), {.max_connections = 1, .timeout_ms = 300});
  server.Hold();
  std::thread first([&] { EXPECT_FALSE(client->GetPod("default", "a").ok()); });
  while (server.requests().empty()) std::this_thread::yield();
  const auto second = client->GetPod("default", "a");
  EXPECT_TRUE(absl::IsDeadlineExceeded(second.status())) << second.status();
  first.join();
  server.Release();
}

constexpr char kOk[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

TEST(ClientTest, AKeptConnectionThatDiedIsReplacedOnce) {
  // The first connection answers once and dies at the second request, unanswered.
  RawServer server([](int fd, int n) {
    RawServer::ReadRequest(fd);
    RawServer::Write(fd, kOk);
    RawServer::ReadRequest(fd);
    if (n > 0) RawServer::Write(fd, kOk);
  });
  const auto client = MakeClient(server.url());
  ASSERT_TRUE(client->GetNode("a").ok());
  const auto second = client->GetNode("a");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(server.connections(), 2);
}

TEST(ClientTest, AnIdleConnectionThatWasClosedIsNotUsed) {
  std::atomic<bool> closed = false;
  RawServer server([&](int fd, int n) {
    RawServer::ReadRequest(fd);
    RawServer::Write(fd, kOk);
    if (n == 0) {
      ::shutdown(fd, SHUT_RDWR);
      closed = true;
    } else {
      RawServer::WaitForEnd(fd);
    }
  });
  auto client = MakeClient(server.url());
  ASSERT_TRUE(client->GetNode("a").ok());
  while (!closed) std::this_thread::yield();
  ASSERT_TRUE(client->GetNode("a").ok());
  EXPECT_EQ(server.connections(), 2);
  client.reset();
}

TEST(ClientTest, AnAnswerThatHadBegunIsNotAskedForAgain) {
  std::atomic<int> requests = 0;
  RawServer server([&](int fd, int /*n*/) {
    for (int i = 0; i < 2; ++i) {
      if (RawServer::ReadRequest(fd).empty()) return;
      ++requests;
      RawServer::Write(fd, i == 0 ? kOk : "HTTP/1.1 20");
    }
  });
  const auto client = MakeClient(server.url());
  ASSERT_TRUE(client->GetNode("a").ok());
  const auto second = client->GetNode("a");
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_EQ(requests, 2);
}

TEST(ClientTest, AFreshConnectionIsNotRetried) {
  RawServer server([](int fd, int /*n*/) { RawServer::ReadRequest(fd); });
  const auto client = MakeClient(server.url());
  const auto answer = client->GetNode("a");
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_EQ(server.connections(), 1);
}

TEST(ClientTest, NobodyThereIsUnavailable) {
  int port = 0;
  {
    port = RawServer([](int, int) {}).port();
  }
  const auto client = MakeClient("http://127.0.0.1:" + std::to_string(port));
  const absl::Status status = client->Bind(MakeBind("a"));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(Message(status).find("Connection refused"), std::string::npos) << status;
  EXPECT_NE(Message(status).find("127.0.0.1:" + std::to_string(port)), std::string::npos);
}

TEST(ClientTest, SlowAnswersEndAtTheTimeoutEvenDripping) {
  RawServer server([](int fd, int /*n*/) {
    RawServer::ReadRequest(fd);
    const std::string answer = std::string("HTTP/1.1 200 OK\r\nX: ") + std::string(60'000, 'x');
    for (const char c : answer) {
      if (::send(fd, &c, 1, MSG_NOSIGNAL) != 1) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const auto client = MakeClient(server.url(), {.max_connections = 4, .timeout_ms = 200});
  const auto start = steady_clock::now();
  const auto answer = client->GetNode("a");
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(ClientTest, GarbageAndFloodsAreErrors) {
  for (const std::string& text :
       {std::string("garbage\r\n\r\n"), std::string("HTTP/1.1 ") + std::string(1U << 20U, '2'),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n") +
            std::string(5U << 20U, 'x')}) {
    RawServer server([&](int fd, int /*n*/) {
      RawServer::ReadRequest(fd);
      RawServer::Write(fd, text);
    });
    const auto client = MakeClient(server.url());
    const auto answer = client->GetNode("a");
    EXPECT_TRUE(absl::IsDataLoss(answer.status())) << answer.status();
  }
}

TEST(ClientTest, ARotatedTokenIsUsedAtOnce) {
  const std::string path = testing::TempDir() + "/rotating-token";
  std::ofstream(path) << "one";
  FakeApiServer server;
  server.PutPod(MakePod("a"));
  Credentials credentials;
  credentials.server = server.url();
  credentials.token_file = path;
  const auto client = MakeClient(credentials);
  server.RequireToken("one");
  ASSERT_TRUE(client->GetPod("default", "a").ok());
  std::ofstream(path + ".new") << "two";
  std::filesystem::rename(path + ".new", path);
  server.RequireToken("two");
  ASSERT_TRUE(client->GetPod("default", "a").ok());
  server.RequireToken("three");
  EXPECT_EQ(client->GetPod("default", "a").status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(server.requests().back().authorization, "Bearer two");
  std::filesystem::remove(path);
}

class TlsTest : public testing::Test {
 protected:
  TlsTest()
      : ca_("server-ca"),
        client_ca_("client-ca"),
        server_(FakeApiServer::Tls{
            .identity = ca_.Issue("apiserver", {"IP:127.0.0.1", "DNS:kubernetes.default"}),
            .client_ca_pem = client_ca_.pem()}) {
    server_.PutPod(MakePod("a"));
  }

  Credentials Good() {
    const auto identity = client_ca_.Issue("numafit", {});
    Credentials credentials;
    credentials.server = server_.url();
    credentials.ca_pem = ca_.pem();
    credentials.client_cert_pem = identity.cert_pem;
    credentials.client_key_pem = identity.key_pem;
    return credentials;
  }

  kube_testing::TestCa ca_;
  kube_testing::TestCa client_ca_;
  FakeApiServer server_;
};

TEST_F(TlsTest, AClientCertificateIsShown) {
  const auto client = MakeClient(Good());
  for (int i = 0; i < 3; ++i) {
    const auto pod = client->GetPod("default", "a");
    ASSERT_TRUE(pod.ok()) << pod.status();
  }
  EXPECT_TRUE(client->Bind(MakeBind("a")).ok());
  EXPECT_EQ(server_.requests().back().client_name, "numafit");
  std::set<int> ports;
  for (const auto& seen : server_.requests()) ports.insert(seen.remote_port);
  EXPECT_EQ(ports.size(), 1U);
}

TEST_F(TlsTest, TheServersNameMayBeAnother) {
  Credentials credentials = Good();
  credentials.tls_server_name = "kubernetes.default";
  EXPECT_TRUE(MakeClient(credentials)->GetPod("default", "a").ok());
  credentials.tls_server_name = "somebody.else";
  const auto answer = MakeClient(credentials)->GetPod("default", "a");
  EXPECT_TRUE(absl::IsUnavailable(answer.status()));
  EXPECT_NE(Message(answer.status()).find("ostname mismatch"), std::string::npos)
      << answer.status();
}

TEST_F(TlsTest, ACommonNameIsNoServerName) {
  FakeApiServer server(
      FakeApiServer::Tls{.identity = ca_.Issue("kubernetes.default", {"IP:127.0.0.1"}),
                         .client_ca_pem = client_ca_.pem()});
  server.PutPod(MakePod("a"));
  Credentials credentials = Good();
  credentials.server = server.url();
  EXPECT_TRUE(MakeClient(credentials)->GetPod("default", "a").ok());
  credentials.tls_server_name = "kubernetes.default";
  EXPECT_TRUE(absl::IsUnavailable(MakeClient(credentials)->GetPod("default", "a").status()));
}

TEST_F(TlsTest, AServerOfAnotherCaIsRefused) {
  Credentials credentials = Good();
  credentials.ca_pem = kube_testing::TestCa("another").pem();
  const auto answer = MakeClient(credentials)->GetPod("default", "a");
  EXPECT_TRUE(absl::IsUnavailable(answer.status()));
  EXPECT_NE(Message(answer.status()).find("certificate"), std::string::npos) << answer.status();
  // Neither do the system's roots know it.
  credentials.ca_pem.clear();
  EXPECT_FALSE(MakeClient(credentials)->GetPod("default", "a").ok());
  credentials.insecure_skip_verify = true;
  EXPECT_TRUE(MakeClient(credentials)->GetPod("default", "a").ok());
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(TlsTest, WithoutAClientCertificateTheServerRefuses) {
  Credentials credentials = Good();
  credentials.client_cert_pem.clear();
  credentials.client_key_pem.clear();
  EXPECT_TRUE(absl::IsUnavailable(MakeClient(credentials)->GetPod("default", "a").status()));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(TlsTest, UnusablePemIsSaidAtOnce) {
  Credentials credentials = Good();
  credentials.ca_pem = "no pem";
  EXPECT_NE(Message(Client::Create(credentials, {}).status()).find("CA certificate"),
            std::string::npos);
  credentials = Good();
  credentials.client_cert_pem = "no pem";
  EXPECT_NE(Message(Client::Create(credentials, {}).status()).find("client certificate"),
            std::string::npos);
  credentials = Good();
  credentials.client_key_pem = client_ca_.Issue("x", {}).key_pem;
  EXPECT_NE(Message(Client::Create(credentials, {}).status()).find("key"), std::string::npos);
  credentials = Good();
  credentials.server = "ftp://x";
  EXPECT_NE(Message(Client::Create(credentials, {}).status()).find("unknown scheme"),
            std::string::npos);
  credentials = Good();
  credentials.token = "a\r\nX: y";
  EXPECT_EQ(Client::Create(credentials, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsTest, APlainServerOnATlsPortIsAnError) {
  RawServer server([](int fd, int /*n*/) {
    RawServer::Write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    RawServer::WaitForEnd(fd);
  });
  Credentials credentials = Good();
  credentials.server = "https://127.0.0.1:" + std::to_string(server.port());
  const auto answer = MakeClient(credentials)->GetNode("a");
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
}

}  // namespace
}  // namespace numafit::kube
