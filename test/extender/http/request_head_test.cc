#include "extender/http/request_head.h"

#include <string>

#include "gtest/gtest.h"

namespace numafit::extender::http {
namespace {

HeadState Scan(std::string text, RequestHead* head, HeadLimits limits = {}) {
  std::size_t scanned = 0;
  return ScanHead(text.data(), text.size(), limits, &scanned, head);
}

int StatusOf(const std::string& text) {
  RequestHead head;
  return Scan(text, &head) == HeadState::kRefused ? head.error_status : 0;
}

TEST(ScanHeadTest, ReadsMethodPathAndLength) {
  std::string text =
      "POST /filter?x=1 HTTP/1.1\r\nHost: a\r\ncontent-LENGTH:  12 \r\n\r\n{\"Pod\":null}";
  RequestHead head;
  std::size_t scanned = 0;
  ASSERT_EQ(ScanHead(text.data(), text.size(), {}, &scanned, &head), HeadState::kComplete);
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/filter");
  EXPECT_EQ(head.content_length, 12U);
  EXPECT_EQ(text.substr(head.head_bytes), "{\"Pod\":null}");
}

TEST(ScanHeadTest, WaitsForEveryByteOfTheHead) {
  const std::string text = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
  std::string growing;
  growing.reserve(text.size());
  std::size_t scanned = 0;
  RequestHead head;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    growing.push_back(text[i]);
    ASSERT_EQ(ScanHead(growing.data(), growing.size(), {}, &scanned, &head),
              HeadState::kIncomplete);
  }
  growing.push_back(text.back());
  EXPECT_EQ(ScanHead(growing.data(), growing.size(), {}, &scanned, &head), HeadState::kComplete);
}

TEST(ScanHeadTest, RefusesWhatCouldBeReadInTwoWays) {
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length: 0x10\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length : 1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nA: b\nContent-Length: 1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(std::string("POST / HTTP/1.1\r\nA: \0b\r\n\r\n", 27)), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\ncontent-encoding: gzip\r\n\r\n"), 415);
  EXPECT_EQ(StatusOf("GARBAGE\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\n"), 400);
}

TEST(ScanHeadTest, NamesTheLimitThatWasExceeded) {
  RequestHead head;
  EXPECT_EQ(Scan("POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n", &head, {.max_body_bytes = 100}),
            HeadState::kRefused);
  EXPECT_EQ(head.error_status, 413);
  EXPECT_EQ(head.error, "the body has 101 bytes, the limit is 100 bytes (bodyLimit)");

  EXPECT_EQ(Scan(std::string(2000, 'x'), &head, {.max_head_bytes = 1024}), HeadState::kRefused);
  EXPECT_EQ(head.error_status, 431);

  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 101; ++i) many += "A: b\r\n";
  EXPECT_EQ(StatusOf(many + "\r\n"), 431);
}

}  // namespace
}  // namespace numafit::extender::http
