#include "kube/http/response_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace numafit::kube {
namespace {

struct Parsed {
  ResponseParser parser;
  absl::Status status;
  std::string body;
};

// Feeds the text in pieces of one size, and then the end of the connection if asked to.
Parsed Parse(const std::string& text, std::size_t piece, bool end = false) {
  Parsed result;
  const auto on_body = [&](std::string_view part) {
    result.body.append(part);
    return absl::OkStatus();
  };
  for (std::size_t at = 0; at < text.size() && result.status.ok(); at += piece) {
    result.status = result.parser.Feed(std::string_view(text).substr(at, piece), on_body);
  }
  if (result.status.ok() && end) result.status = result.parser.FeedEnd();
  return result;
}

constexpr std::size_t kPieces[] = {1, 3, 10'000};

TEST(ResponseParserTest, ReadsABodyOfKnownLength) {
  for (const std::size_t piece : kPieces) {
    const Parsed p = Parse(
        "HTTP/1.1 201 Created\r\ncontent-LENGTH:  4 \r\nContent-Type: application/json\r\n"
        "Retry-After: 3\r\nX: y\r\n\r\nbody",
        piece);
    ASSERT_TRUE(p.status.ok()) << p.status;
    EXPECT_TRUE(p.parser.done());
    EXPECT_TRUE(p.parser.keep_alive());
    EXPECT_EQ(p.parser.status(), 201);
    EXPECT_EQ(p.parser.content_type(), "application/json");
    EXPECT_EQ(p.parser.retry_after_seconds(), 3);
    EXPECT_EQ(p.body, "body");
  }
}

TEST(ResponseParserTest, ReadsChunks) {
  for (const std::size_t piece : kPieces) {
    const Parsed p = Parse(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\nA;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
        piece);
    ASSERT_TRUE(p.status.ok()) << p.status;
    EXPECT_TRUE(p.parser.done());
    EXPECT_EQ(p.body, "abc0123456789");
  }
}

TEST(ResponseParserTest, ReadsUpToTheEndOfTheConnection) {
  const Parsed p = Parse("HTTP/1.1 200 OK\r\n\r\nall of it", 4, true);
  ASSERT_TRUE(p.status.ok()) << p.status;
  EXPECT_TRUE(p.parser.done());
  EXPECT_FALSE(p.parser.keep_alive());
  EXPECT_EQ(p.body, "all of it");
}

TEST(ResponseParserTest, SkipsInterimAnswers) {
  const Parsed p = Parse(
      "HTTP/1.1 100 Continue\r\nContent-Length: 9\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"
      "HTTP/1.1 204 No Content\r\n\r\n",
      5);
  ASSERT_TRUE(p.status.ok()) << p.status;
  EXPECT_TRUE(p.parser.done());
  EXPECT_EQ(p.parser.status(), 204);
}

TEST(ResponseParserTest, KnowsWhenAConnectionMayBeKept) {
  EXPECT_TRUE(Parse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 99).parser.keep_alive());
  EXPECT_FALSE(Parse("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 99).parser.keep_alive());
  EXPECT_FALSE(Parse("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", 99)
                   .parser.keep_alive());
  EXPECT_FALSE(Parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", 99).parser.keep_alive());
}

TEST(ResponseParserTest, AnAnswerCutShortIsUnavailable) {
  for (const char* text :
       {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbod",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    const Parsed p = Parse(text, 4, true);
    EXPECT_TRUE(absl::IsUnavailable(p.status)) << text << p.status;
    EXPECT_EQ(p.parser.started(), *text != '\0');
  }
}

TEST(ResponseParserTest, MalformedAnswersAreDataLoss) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  for (const std::string& text : {
           std::string("garbage\r\n"),
           std::string("HTTP/2 200\r\n"),
           std::string("HTTP/1.1 20x OK\r\n"),
           std::string("HTTP/1.1 2000 OK\r\n"),
           std::string("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
           ok + "no colon\r\n",
           ok + " folded: x\r\n",
           ok + "Content-Length: -1\r\n",
           ok + "Content-Length: 99999999999999999999\r\n",
           ok + "Content-Length: 1\r\nContent-Length: 2\r\n",
           ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           ok + "Transfer-Encoding: gzip\r\n",
           ok + "Content-Encoding: gzip\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
           ok + "Transfer-Encoding: chunked\r\n\r\n1\r\naa\r\n",
       }) {
    const Parsed p = Parse(text, 7);
    EXPECT_TRUE(absl::IsDataLoss(p.status)) << text << p.status;
  }
}

TEST(ResponseParserTest, LinesWithoutAnEndAreBounded) {
  const std::string flood(ResponseParser::kMaxHeaderBytes + 1, 'x');
  for (const std::string& start :
       {std::string(), std::string("HTTP/1.1 200 OK\r\nA: "),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")}) {
    EXPECT_TRUE(absl::IsDataLoss(Parse(start + flood, 1000).status)) << start;
  }
  std::string many = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 20'000; ++i) many += "A: b\r\n";
  EXPECT_TRUE(absl::IsDataLoss(Parse(many, 1000).status));
}

TEST(ResponseParserTest, ManyChunksAreNotManyHeaders) {
  std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 50'000; ++i) text += "1\r\na\r\n";
  const Parsed p = Parse(text + "0\r\n\r\n", 1000);
  ASSERT_TRUE(p.status.ok()) << p.status;
  EXPECT_TRUE(p.parser.done());
  EXPECT_EQ(p.body.size(), 50'000U);
}

TEST(ResponseParserTest, TheReceiversErrorEndsIt) {
  ResponseParser parser;
  const absl::Status status =
      parser.Feed("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
                  [](std::string_view) { return absl::AbortedError("enough"); });
  EXPECT_TRUE(absl::IsAborted(status));
}

}  // namespace
}  // namespace numafit::kube
