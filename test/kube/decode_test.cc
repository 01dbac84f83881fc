#include "kube/decode.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "api/pod_json.h"
#include "kube/watch_frames.h"
#include "test/kube/encode.h"
#include "test/paths.h"

namespace numafit::kube {
namespace {

// What Kubernetes' own serializers wrote (testdata/main.go).
std::string Fixture(const std::string& name) {
  std::ifstream stream(test::SourceDir() + "/test/kube/testdata/" + name, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

void ExpectThePod(const api::Pod& pod) {
  EXPECT_EQ(pod.FullName(), "team-a/train");
  EXPECT_EQ(pod.metadata.uid, "640de90c");
  EXPECT_EQ(pod.metadata.resource_version, "495");
  EXPECT_EQ(pod.metadata.creation_time, 1795991150);
  EXPECT_EQ(pod.metadata.deletion_time, 1795991210);
  EXPECT_EQ(pod.metadata.labels.at("app"), "llm");
  EXPECT_EQ(pod.metadata.annotations.at("note"), "a<b & c");
  ASSERT_EQ(pod.init_containers.size(), 2U);
  EXPECT_EQ(pod.init_containers[0].name, "sidecar");
  EXPECT_TRUE(pod.init_containers[0].restart_always);
  EXPECT_EQ(pod.init_containers[0].resources.limits.at("cpu").milli(), 100);
  EXPECT_FALSE(pod.init_containers[1].restart_always);
  ASSERT_EQ(pod.containers.size(), 1U);
  const api::ResourceRequirements& resources = pod.containers[0].resources;
  EXPECT_EQ(resources.limits.at("nvidia.com/gpu").value(), 2);
  EXPECT_EQ(resources.requests.at("memory").value(), 17179869184);
  EXPECT_EQ(resources.claims, std::vector<std::string>{"net"});
  EXPECT_EQ(pod.node_name, "n1");
  EXPECT_EQ(pod.scheduler_name, "numafit");
  EXPECT_EQ(pod.priority, -5);
  ASSERT_TRUE(pod.resources.has_value());
  EXPECT_EQ(pod.resources->requests.at("cpu").value(), 9);
  EXPECT_EQ(pod.resource_claims, std::vector<std::string>{"net"});
  EXPECT_EQ(pod.status.phase, "Running");
  EXPECT_EQ(pod.status.reason, "r");
  EXPECT_EQ(pod.status.message, "m");
  EXPECT_EQ(pod.status.qos_class, "Guaranteed");
  EXPECT_EQ(pod.status.nominated_node_name, "n2");
  EXPECT_EQ(pod.status.start_time, "2026-11-29T22:25:50Z");
  EXPECT_EQ(pod.status.container_statuses, 3);
  ASSERT_EQ(pod.status.conditions.size(), 1U);
  EXPECT_EQ(pod.status.conditions[0].reason, "x");
}

TEST(DecodeTest, ReadsEveryFieldOfARealPod) {
  const auto pod = DecodeObject<api::Pod>(Fixture("pod.pb"), Encoding::kProtobuf);
  ASSERT_TRUE(pod.ok()) << pod.status();
  ExpectThePod(*pod);
}

TEST(DecodeTest, ProtobufAndJsonGiveTheSamePod) {
  const auto pod = DecodeObject<api::Pod>(Fixture("pod.pb"), Encoding::kProtobuf);
  ASSERT_TRUE(pod.ok()) << pod.status();
  const auto again = DecodeObject<api::Pod>(api::PodToJson(*pod), Encoding::kJson);
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectThePod(*again);
}

TEST(DecodeTest, ReadsEveryFieldOfARealNode) {
  const auto node = DecodeObject<api::Node>(Fixture("node.pb"), Encoding::kProtobuf);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->metadata.name, "n1");
  EXPECT_EQ(node->metadata.labels.at("a"), "b");
  EXPECT_TRUE(node->unschedulable);
  EXPECT_EQ(node->capacity.at("cpu").value(), 64);
  EXPECT_EQ(node->allocatable.at("cpu").milli(), 63500);
  EXPECT_EQ(node->allocatable.at("nvidia.com/gpu").value(), 8);
  ASSERT_EQ(node->conditions.size(), 1U);
  EXPECT_EQ(node->conditions[0].type, "Ready");
  EXPECT_EQ(node->conditions[0].status, "True");
  EXPECT_EQ(node->kubelet_version, "v1.36.3");
}

TEST(DecodeTest, ReadsARealPageOfAList) {
  const auto list = DecodeList<api::Pod>(Fixture("podlist.pb"), Encoding::kProtobuf);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->resource_version, "500");
  EXPECT_EQ(list->continue_token, "next==");
  ASSERT_EQ(list->items.size(), 2U);
  ExpectThePod(list->items[0]);
  EXPECT_EQ(list->items[1].metadata.name, "other");
}

TEST(DecodeTest, ReadsARealWatchStreamInPiecesOfAnySize) {
  const std::string stream = Fixture("podwatch.pb");
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, stream.size()}) {
    WatchFrames frames(Encoding::kProtobuf);
    std::vector<Event<api::Pod>> events;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      const auto status =
          frames.Feed(std::string_view(stream).substr(at, piece), [&](std::string_view frame) {
            auto event = DecodeEvent<api::Pod>(frame, Encoding::kProtobuf);
            if (!event.ok()) return event.status();
            events.push_back(*std::move(event));
            return absl::OkStatus();
          });
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_FALSE(frames.InsideFrame());
    ASSERT_EQ(events.size(), 5U);
    EXPECT_EQ(events[0].type, EventType::kUpsert);
    ExpectThePod(events[0].object);
    EXPECT_EQ(events[1].type, EventType::kUpsert);
    EXPECT_EQ(events[2].type, EventType::kDelete);
    EXPECT_EQ(events[2].object.metadata.name, "train");
    EXPECT_EQ(events[3].type, EventType::kBookmark);
    EXPECT_EQ(events[3].object.metadata.resource_version, "777");
    EXPECT_EQ(events[4].type, EventType::kError);
    EXPECT_EQ(events[4].error.code, 410);
    EXPECT_EQ(events[4].error.reason, "Expired");
    EXPECT_EQ(events[4].error.message, "too old resource version: 3 (9)");
  }
}

TEST(DecodeTest, ReadsStatusErrorsInBothEncodings) {
  const ApiStatus real = DecodeStatus(Fixture("status.pb"), Encoding::kProtobuf);
  EXPECT_EQ(real.code, 410);
  EXPECT_EQ(real.message, "too old resource version: 3 (9)");
  const ApiStatus json =
      DecodeStatus(R"({"kind":"Status","code":409,"message":"m","reason":"r"})", Encoding::kJson);
  EXPECT_EQ(json.code, 409);
  EXPECT_EQ(json.reason, "r");
  EXPECT_EQ(json.message, "m");
  for (const char* text : {"", "<html>", "[]", "null", "{\"code\":\"x\"}"}) {
    EXPECT_EQ(DecodeStatus(text, Encoding::kJson).code, 0) << text;
    EXPECT_EQ(DecodeStatus(text, Encoding::kProtobuf).code, 0) << text;
  }
}

TEST(DecodeTest, ReadsJsonListsAndEvents) {
  const auto list = DecodeList<api::Node>(
      R"({"metadata":{"resourceVersion":"5","continue":"c"},"items":[{"metadata":{"name":"n"}}]})",
      Encoding::kJson);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->resource_version, "5");
  EXPECT_EQ(list->continue_token, "c");
  EXPECT_EQ(list->items.at(0).metadata.name, "n");
  EXPECT_TRUE(DecodeList<api::Pod>(R"({"items":null})", Encoding::kJson)->items.empty());

  const auto event = DecodeEvent<api::Node>(
      R"({"type":"DELETED","object":{"metadata":{"name":"n"}}})", Encoding::kJson);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->type, EventType::kDelete);
  EXPECT_EQ(event->object.metadata.name, "n");
  const auto error = DecodeEvent<api::Node>(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"message":"m"}})", Encoding::kJson);
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_EQ(error->error.code, 410);
}

TEST(DecodeTest, MalformedBytesAreDataLoss) {
  const std::string pod = Fixture("pod.pb");
  for (const std::string& bytes :
       {pod.substr(0, pod.size() - 1), std::string("k8s\0\xff", 5), std::string("\xff\xff"),
        kube_testing::Envelope("Pod", "\xff\xff")}) {
    EXPECT_EQ(DecodeObject<api::Pod>(bytes, Encoding::kProtobuf).status().code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(DecodeEvent<api::Pod>("", Encoding::kProtobuf).status().message(),
            "watch event from the API server: unknown type \"\"");
  for (const char* text : {"", "{", "[]", R"({"items":[{"spec":1}]})"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeList<api::Pod>(text, Encoding::kJson).status())) << text;
  }
  for (const char* text : {"", "{}", R"({"type":"NEW","object":{}})", R"({"type":1})",
                           R"({"type":"ADDED","object":[]})"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeEvent<api::Pod>(text, Encoding::kJson).status())) << text;
  }
}

TEST(DecodeTest, EncodingFollowsTheContentType) {
  EXPECT_EQ(EncodingOf("application/vnd.kubernetes.protobuf"), Encoding::kProtobuf);
  EXPECT_EQ(EncodingOf("application/vnd.kubernetes.protobuf;stream=watch"), Encoding::kProtobuf);
  EXPECT_EQ(EncodingOf("application/json"), Encoding::kJson);
  EXPECT_EQ(EncodingOf(""), Encoding::kJson);
}

TEST(DecodeTest, HttpStatusesBecomeAbslCodes) {
  const ApiStatus status{.code = 0, .reason = {}, .message = "m"};
  const std::vector<std::pair<int, absl::StatusCode>> cases = {
      {400, absl::StatusCode::kInvalidArgument},  {401, absl::StatusCode::kUnauthenticated},
      {403, absl::StatusCode::kPermissionDenied}, {404, absl::StatusCode::kNotFound},
      {409, absl::StatusCode::kAborted},          {410, absl::StatusCode::kOutOfRange},
      {422, absl::StatusCode::kInvalidArgument},  {429, absl::StatusCode::kResourceExhausted},
      {500, absl::StatusCode::kInternal},         {503, absl::StatusCode::kUnavailable},
      {504, absl::StatusCode::kUnavailable},      {302, absl::StatusCode::kInternal},
  };
  for (const auto& [code, expected] : cases) {
    EXPECT_EQ(ToAbslStatus(code, status).code(), expected) << code;
    EXPECT_EQ(ToAbslStatus(code, status).message(), "m");
  }
  EXPECT_EQ(ToAbslStatus(500, {}).message(), "HTTP status 500");
}

TEST(WatchFramesTest, JsonFramesEndWithANewline) {
  WatchFrames frames(Encoding::kJson);
  std::vector<std::string> seen;
  const auto visit = [&](std::string_view frame) {
    seen.emplace_back(frame);
    return absl::OkStatus();
  };
  for (const char* piece : {"{\"a\"", ":1}", "\n{}\n\n \r\n[1", "]\n"}) {
    ASSERT_TRUE(frames.Feed(piece, visit).ok());
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"{\"a\":1}", "{}", "[1]"}));
  EXPECT_FALSE(frames.InsideFrame());
}

TEST(WatchFramesTest, ALengthBeyondTheBoundIsRefusedAtOnce) {
  WatchFrames frames(Encoding::kProtobuf);
  const auto visit = [](std::string_view) { return absl::OkStatus(); };
  const absl::Status status = frames.Feed(std::string_view("\x01\x00\x00\x01", 4), visit);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  // and stays refused
  EXPECT_TRUE(absl::IsDataLoss(frames.Feed(std::string_view("\0\0\0\0", 4), visit)));
}

TEST(WatchFramesTest, AJsonLineBeyondTheBoundIsRefused) {
  WatchFrames frames(Encoding::kJson);
  const auto visit = [](std::string_view) { return absl::OkStatus(); };
  const std::string piece(1U << 20U, 'x');
  absl::Status status;
  int pieces = 0;
  while (status.ok() && pieces < 100) {
    status = frames.Feed(piece, visit);
    ++pieces;
  }
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(pieces, 17);
}

TEST(WatchFramesTest, AHalfFrameIsKnown) {
  WatchFrames frames(Encoding::kProtobuf);
  const auto visit = [](std::string_view) { return absl::OkStatus(); };
  ASSERT_TRUE(frames.Feed(std::string_view("\0\0\0\2a", 5), visit).ok());
  EXPECT_TRUE(frames.InsideFrame());
  ASSERT_TRUE(frames.Feed("b", visit).ok());
  EXPECT_FALSE(frames.InsideFrame());
}

TEST(WatchFramesTest, TheVisitorsErrorEndsIt) {
  WatchFrames frames(Encoding::kJson);
  int calls = 0;
  const auto visit = [&](std::string_view) {
    ++calls;
    return absl::AbortedError("enough");
  };
  EXPECT_TRUE(absl::IsAborted(frames.Feed("1\n2\n", visit)));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace numafit::kube
