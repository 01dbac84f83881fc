#include "agent/health.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "agent/health_server.h"

namespace numafit::agent {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HealthTest : public ::testing::Test {
 protected:
  static Health::Time At(int s) { return Health::Time() + seconds(1'000 + s); }

  Health health_{seconds(120), At(0)};
};

TEST_F(HealthTest, NotReadyBeforeTheFirstReportHasArrived) {
  EXPECT_EQ(health_.WhyNotAlive(At(1)), "");
  EXPECT_EQ(health_.WhyNotReady(At(1)), "no report has been published yet");
  health_.Looked(At(1));
  health_.Published(/*pending=*/true, At(1));
  EXPECT_EQ(health_.WhyNotReady(At(2)), "no report has been published yet");
  health_.Published(/*pending=*/false, At(3));
  EXPECT_EQ(health_.WhyNotReady(At(4)), "");
}

TEST_F(HealthTest, NotAliveWhenNothingWasLookedAtForLong) {
  health_.Looked(At(10));
  health_.Published(false, At(10));
  EXPECT_EQ(health_.WhyNotAlive(At(130)), "");
  EXPECT_EQ(health_.WhyNotAlive(At(131)), "the last look at the node was 121 s ago");
  EXPECT_EQ(health_.WhyNotReady(At(131)), "the last look at the node was 121 s ago");
  health_.Looked(At(140));
  EXPECT_EQ(health_.WhyNotReady(At(141)), "");
}

TEST_F(HealthTest, NotReadyWhileNewsCannotBePublished) {
  health_.Published(false, At(0));
  health_.Published(true, At(10));
  health_.Published(true, At(50));
  EXPECT_EQ(health_.WhyNotReady(At(70)), "");
  EXPECT_EQ(health_.WhyNotReady(At(71)), "a report has not been published for 61 s");
  EXPECT_EQ(health_.WhyNotAlive(At(71)), "") << "restarting it would not help";
  health_.Published(false, At(80));
  EXPECT_EQ(health_.WhyNotReady(At(80)), "");
}

int Connect(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// The whole answer; empty when the server just hangs up.
std::string Send(int port, const std::string& request) {
  const int fd = Connect(port);
  ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  char buffer[1024];
  for (ssize_t got = 0; (got = ::recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(fd);
  return answer;
}

// As a probe asks.
std::string Get(int port, const std::string& path) {
  return Send(port, "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
}

TEST(HealthServer, AnswersProbes) {
  const auto now = std::chrono::steady_clock::now();
  Health health(seconds(120), now);
  auto server = HealthServer::Start("127.0.0.1:0", health);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get(port, "/readyz"), HasSubstr("no report has been published yet"));
  EXPECT_THAT(Get(port, "/metrics"), StartsWith("HTTP/1.1 404"));
  health.Published(false, now);
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 200"));
  health.Looked(now - seconds(500));
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 503"));
  const std::string taken = "127.0.0.1:" + std::to_string(port);
  const auto second = HealthServer::Start(taken, health);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("cannot listen on " + taken));
}

TEST(HealthServer, WhatIsNoProbe) {
  Health health(seconds(120), std::chrono::steady_clock::now());
  auto server = HealthServer::Start("127.0.0.1:0", health);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_THAT(Send(port, "POST /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Send(port, "hello\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Send(port, "GET\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Send(port, "GET /healthz SMTP\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Send(port, std::string(4'096, 'a')), StartsWith("HTTP/1.1 431"));
  EXPECT_EQ(Send(port, "GET /healthz HT"), "") << "hung up on";
  EXPECT_THAT(Get(port, "/healthz?verbose"), StartsWith("HTTP/1.1 200"));
}

TEST(HealthServer, ConnectionsThatSayNothingKeepNobodyOut) {
  Health health(seconds(120), std::chrono::steady_clock::now());
  auto server = HealthServer::Start("127.0.0.1:0", health);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  std::vector<int> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(Connect(port));
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
  for (const int fd : silent) ::close(fd);
}

TEST(HealthServer, EveryAddress) {
  Health health(seconds(120), std::chrono::steady_clock::now());
  auto server = HealthServer::Start(":0", health);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(Get((*server)->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST(HealthServer, AddressesThatAreNone) {
  Health health(seconds(120), std::chrono::steady_clock::now());
  for (const char* address : {"", "8089", "host:", "host:port", "host:70000", "::1:8089"}) {
    const auto server = HealthServer::Start(address, health);
    ASSERT_FALSE(server.ok()) << address;
    EXPECT_THAT(std::string(server.status().message()),
                HasSubstr("expected HOST:PORT, :PORT or [V6]:PORT"));
  }
}

}  // namespace
}  // namespace numafit::agent
