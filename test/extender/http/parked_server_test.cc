#include "extender/http/parked_server.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/extender/http/http_client.h"

namespace numafit::extender::http {
namespace {

using Pool = ParkedServer::Pool;

class ParkedServerTest : public testing::Test {
 protected:
  ParkedServerTest() {
    options_.now_ms = [this] { return now_ms_.load(); };
    options_.limits.max_body_bytes = 1024 * 1024;
    options_.workers = 2;
    options_.slow_workers = 2;
  }

  void Start() {
    server_ = std::make_unique<ParkedServer>(options_);
    server_->Route("POST", "/echo", Pool::kFast, [](const Request& request, Response& response) {
      response.body.append(request.body);
    });
    server_->Route("POST", "/large", Pool::kFast, [](const Request& request, Response& response) {
      response.body.assign(std::stoul(std::string(request.body)), 'x');
    });
    server_->Route("POST", "/throw", Pool::kFast,
                   [](const Request&, Response&) { throw std::runtime_error("secret text"); });
    server_->Route("GET", "/query", Pool::kFast, [](const Request& request, Response& response) {
      response.body.append(request.query);
    });
    server_->Route("POST", "/slow", Pool::kSlow,
                   [this](const Request& request, Response& response) {
                     ++slow_running_;
                     slow_running_.notify_all();
                     release_slow_.wait();
                     response.body.append(request.body);
                   });
    ASSERT_TRUE(server_->Start("127.0.0.1:0").ok());
  }

  RawClient Connect() { return RawClient(server_->port()); }

  std::atomic<std::int64_t> now_ms_{1'000'000};
  ParkedServer::Options options_;
  std::atomic<int> slow_running_{0};
  std::promise<void> slow_promise_;
  std::shared_future<void> release_slow_ = slow_promise_.get_future().share();
  std::unique_ptr<ParkedServer> server_;
};

TEST_F(ParkedServerTest, AnswersWithLengthAndWithoutCompression) {
  Start();
  RawClient client = Connect();
  const ClientResponse response = client.Post("/echo", std::string(100'000, 'a'));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, std::string(100'000, 'a'));
  EXPECT_EQ(response.headers.count("content-encoding"), 0U);
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(response.headers.at("content-type"), kJson);
}

TEST_F(ParkedServerTest, OneConnectionServesAnyNumberOfRequests) {
  Start();
  RawClient client = Connect();
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(client.Post("/echo", fmt::format("{}", i)).body, fmt::format("{}", i));
  }
  EXPECT_EQ(server_->stats().accepted, 1U);
}

TEST_F(ParkedServerTest, KeepsAnIdleConnectionForLongerThanGoDoes) {
  Start();
  RawClient client = Connect();
  ASSERT_EQ(client.Post("/echo", "1").status, 200);
  now_ms_ += 125'000;
  server_->CheckDeadlines();
  EXPECT_EQ(client.Post("/echo", "2").body, "2");
  // The answer may be here before the server has looked at the clock.
  while (server_->stats().idle_closed == 0) {
    now_ms_ += options_.idle_timeout_ms + 1;
    server_->CheckDeadlines();
    std::this_thread::yield();
  }
  EXPECT_TRUE(client.WaitForClose());
}

TEST_F(ParkedServerTest, AnswersPipelinedRequestsInOrder) {
  Start();
  RawClient client = Connect();
  std::string all;
  for (int i = 0; i < 300; ++i) all += PostRequest("/echo", fmt::format("request {}", i));
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(client.Read().body, fmt::format("request {}", i));
}

TEST_F(ParkedServerTest, PipelinedSlowAndFastKeepTheirOrder) {
  slow_promise_.set_value();
  Start();
  RawClient client = Connect();
  std::string all;
  for (int i = 0; i < 40; ++i)
    all += PostRequest(i % 2 == 0 ? "/slow" : "/echo", fmt::format("{}", i));
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 40; ++i) ASSERT_EQ(client.Read().body, fmt::format("{}", i));
}

TEST_F(ParkedServerTest, ReadsARequestThatComesByteByByte) {
  Start();
  RawClient client = Connect();
  for (const char c : PostRequest("/echo", "hello")) ASSERT_TRUE(client.Send(std::string(1, c)));
  EXPECT_EQ(client.Read().body, "hello");
}

TEST_F(ParkedServerTest, HalfRequestsHoldNoWorker) {
  Start();
  std::vector<RawClient> halves;
  for (int i = 0; i < 300; ++i) {
    halves.push_back(Connect());
    const std::string request = PostRequest("/echo", std::string(2000, 'x'));
    ASSERT_TRUE(halves.back().Send(request.substr(0, i % 2 == 0 ? 20 : request.size() - 10)));
  }
  RawClient client = Connect();
  EXPECT_EQ(client.Post("/echo", "through").body, "through");
  EXPECT_LT(server_->stats().buffered_bytes, 300 * 8 * 1024);
}

TEST_F(ParkedServerTest, SaysThatAHalfRequestCameTooSlowly) {
  Start();
  RawClient client = Connect();
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf"));
  while (server_->stats().bytes_received < 40) std::this_thread::yield();
  // Dribbling on does not help.
  now_ms_ += options_.request_timeout_ms - 1;
  server_->CheckDeadlines();
  ASSERT_TRUE(client.Send("x"));
  while (server_->stats().bytes_received < 41) std::this_thread::yield();
  now_ms_ += 2;
  server_->CheckDeadlines();
  const ClientResponse response = client.Read();
  EXPECT_EQ(response.status, 408);
  EXPECT_EQ(nlohmann::json::parse(response.body)["error"],
            "the request was not complete after 15000 ms");
  EXPECT_TRUE(client.WaitForClose());
  EXPECT_EQ(server_->stats().slow_requests, 1U);
}

TEST_F(ParkedServerTest, SurvivesManyIdleConnections) {
  Start();
  std::vector<RawClient> idle;
  for (int i = 0; i < 1000; ++i) idle.push_back(Connect());
  RawClient client = Connect();
  EXPECT_EQ(client.Post("/echo", "through").body, "through");
  for (int i = 0; i < 1000; i += 100) {
    EXPECT_EQ(idle[static_cast<std::size_t>(i)].Post("/echo", "late").body, "late");
  }
}

TEST_F(ParkedServerTest, RefusesConnectionsOverTheCap) {
  options_.max_connections = 2;
  Start();
  RawClient first = Connect();
  RawClient second = Connect();
  ASSERT_EQ(first.Post("/echo", "1").status, 200);
  ASSERT_EQ(second.Post("/echo", "1").status, 200);
  RawClient third = Connect();
  EXPECT_TRUE(third.WaitForClose());
  EXPECT_EQ(first.Post("/echo", "2").status, 200);
  EXPECT_EQ(server_->stats().refused_connections, 1U);
}

TEST_F(ParkedServerTest, AnswersAHundredMegabytesWithTheLimit) {
  Start();
  RawClient client = Connect();
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nContent-Length: 104857600\r\n\r\n"));
  // The server goes on reading (and dropping) so that the answer arrives.
  const std::string chunk(1024 * 1024, 'x');
  for (int i = 0; i < 100; ++i) {
    if (!client.Send(chunk)) break;
  }
  const ClientResponse response = client.Read();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(nlohmann::json::parse(response.body)["error"],
            "the body has 104857600 bytes, the limit is 1048576 bytes (bodyLimit)");
  EXPECT_LT(server_->stats().buffered_bytes, 1024 * 1024);
}

TEST_F(ParkedServerTest, BoundsWhatHalfReceivedBodiesHoldTogether) {
  options_.max_buffered_bytes = 4 * 1024 * 1024;
  Start();
  std::vector<RawClient> clients;
  const std::string half = PostRequest("/echo", std::string(1'000'000, 'x')).substr(0, 900'000);
  for (int i = 0; i < 10; ++i) {
    clients.push_back(Connect());
    clients.back().Send(half);
  }
  while (server_->stats().overloaded == 0) std::this_thread::yield();
  EXPECT_LE(server_->stats().buffered_bytes, 4 * 1024 * 1024 + 4 * 64 * 1024);
  RawClient client = Connect();
  EXPECT_EQ(client.Post("/echo", "small").body, "small");
}

TEST_F(ParkedServerTest, ClosesTheHolesOfThePackagedLibrary) {
  Start();
  const auto status = [this](const std::string& request) {
    RawClient client = Connect();
    client.Send(request);
    return client.Read().status;
  };
  EXPECT_EQ(
      status("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
      411);
  EXPECT_EQ(status("POST /echo HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
            415);
  EXPECT_EQ(status("POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 5\r\n\r\nhello"),
            400);
  std::string many = "POST /echo HTTP/1.1\r\n";
  for (int i = 0; i < 200'000; ++i) many += "A: b\r\n";
  EXPECT_EQ(status(many), 431);
  EXPECT_EQ(status("POST /echo HTTP/1.1\r\nA: " + std::string(20'000'000, 'x')), 431);
  EXPECT_EQ(status("GET /" + std::string(9'000, 'x') + " HTTP/1.1\r\n\r\n"), 414);
  EXPECT_EQ(status(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\r\n\r\n", 14)), 400);
}

TEST_F(ParkedServerTest, ExceptionsBecomeAnErrorWithoutTheirText) {
  Start();
  RawClient client = Connect();
  const ClientResponse response = client.Post("/throw", "");
  EXPECT_EQ(response.status, 500);
  for (const auto& [name, value] : response.headers) {
    EXPECT_EQ(value.find("secret"), std::string::npos) << name;
  }
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
  EXPECT_TRUE(client.WaitForClose());
  EXPECT_EQ(server_->stats().handler_exceptions, 1U);
}

TEST_F(ParkedServerTest, UnknownPathsAndMethodsAreNamed) {
  Start();
  EXPECT_EQ(Connect().Get("/nowhere").body, "{\"error\":\"there is no /nowhere here\"}\n");
  EXPECT_EQ(Connect().Get("/echo").status, 405);
  EXPECT_EQ(Connect().Get("/query?a=b&c").body, "a=b&c");
}

TEST_F(ParkedServerTest, SlowRoutesDoNotDelayFastOnes) {
  Start();
  std::vector<RawClient> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(Connect());
    ASSERT_TRUE(slow.back().Send(PostRequest("/slow", fmt::format("{}", i))));
  }
  slow_running_.wait(0);
  RawClient client = Connect();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(client.Post("/echo", "fast").body, "fast");
  slow_promise_.set_value();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(slow[static_cast<std::size_t>(i)].Read().body, fmt::format("{}", i));
  }
}

TEST_F(ParkedServerTest, AClientThatDoesNotReadHoldsNoWorker) {
  Start();
  std::vector<RawClient> deaf;
  for (int i = 0; i < 4; ++i) {
    deaf.push_back(Connect());
    ASSERT_TRUE(deaf.back().Send(PostRequest("/large", "20000000")));
  }
  RawClient client = Connect();
  EXPECT_EQ(client.Post("/echo", "through").body, "through");
  EXPECT_EQ(deaf[0].Read().body.size(), 20'000'000U);
  while (server_->stats().requests < 5) std::this_thread::yield();
  while (server_->stats().slow_readers < 3) {
    now_ms_ += options_.write_timeout_ms + 1;
    server_->CheckDeadlines();
    std::this_thread::yield();
  }
  while (server_->stats().open > 2) std::this_thread::yield();
  EXPECT_EQ(server_->stats().slow_readers, 3U);
}

TEST_F(ParkedServerTest, AnswersExpectContinueOnce) {
  Start();
  RawClient client = Connect();
  ASSERT_TRUE(
      client.Send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_EQ(client.Read().status, 100);
  ASSERT_TRUE(client.Send("hello"));
  const ClientResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "hello");
}

TEST_F(ParkedServerTest, DrainLetsRunningRequestsEnd) {
  Start();
  RawClient idle = Connect();
  ASSERT_EQ(idle.Post("/echo", "1").status, 200);
  RawClient slow = Connect();
  ASSERT_TRUE(slow.Send(PostRequest("/slow", "answer")));
  slow_running_.wait(0);
  std::future<bool> drained =
      std::async(std::launch::async, [this] { return server_->Drain(30'000); });
  EXPECT_TRUE(idle.WaitForClose());
  slow_promise_.set_value();
  const ClientResponse response = slow.Read();
  EXPECT_EQ(response.body, "answer");
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(drained.get());
  EXPECT_EQ(RawClient(server_->port()).Post("/echo", "x").status, 0);
}

TEST_F(ParkedServerTest, DrainGivesUpOnAHandlerThatDoesNotEnd) {
  Start();
  RawClient slow = Connect();
  ASSERT_TRUE(slow.Send(PostRequest("/slow", "answer")));
  slow_running_.wait(0);
  EXPECT_FALSE(server_->Drain(10));
  slow_promise_.set_value();
}

TEST_F(ParkedServerTest, HonoursConnectionCloseAndHttp10) {
  Start();
  RawClient client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 1\r\n\r\na");
  EXPECT_EQ(client.Read().body, "a");
  EXPECT_TRUE(client.WaitForClose());
  RawClient old = Connect();
  old.Send("POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\na");
  EXPECT_EQ(old.Read().body, "a");
  EXPECT_TRUE(old.WaitForClose());
}

TEST(ParkedServerAddressTest, RefusesWhatIsNoAddress) {
  ParkedServer server({});
  for (const char* bad : {"", "8888", "localhost", "::1:80", "host:99999", "127.0.0.1:http"}) {
    EXPECT_EQ(server.Start(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace numafit::extender::http
