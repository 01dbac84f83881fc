#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kube/client.h"
#include "test/kube/fake_api_server.h"

namespace numafit::kube {
namespace {

using kube_testing::FakeApiServer;
using nlohmann::json;

EventRequest Misaligned() {
  return {.kind = "Pod",
          .object_namespace = "team-a",
          .name = "train",
          .uid = "640de90c",
          .reason = "DevicesMisaligned",
          .action = "",
          .note = "container main: accelerators on NUMA node 0, endpoints on 1",
          .warning = true,
          .controller = "numafit.io/extender",
          .instance = "numafit-extender-0",
          .time_micros = 1'795'991'150'123'456};
}

class EventTest : public testing::Test {
 protected:
  EventTest() {
    Credentials credentials;
    credentials.server = server_.url();
    client_ = *Client::Create(credentials, {});
  }
  json Only() {
    const auto events = server_.events();
    EXPECT_EQ(events.size(), 1U);
    return events.empty() ? json() : json::parse(events[0]);
  }

  FakeApiServer server_;
  std::unique_ptr<Client> client_;
};

TEST_F(EventTest, SaysWhatHappenedToWhom) {
  ASSERT_TRUE(client_->PostEvent(Misaligned()).ok());
  json event = Only();
  const std::string name = event["metadata"]["name"];
  EXPECT_TRUE(name.starts_with("train.")) << name;
  event["metadata"].erase("name");
  EXPECT_EQ(event, json::parse(R"({
    "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"namespace": "team-a"},
    "eventTime": "2026-11-29T22:25:50.123456Z",
    "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "train",
                  "uid": "640de90c"},
    "type": "Warning", "reason": "DevicesMisaligned", "action": "DevicesMisaligned",
    "note": "container main: accelerators on NUMA node 0, endpoints on 1",
    "reportingController": "numafit.io/extender", "reportingInstance": "numafit-extender-0"})"));
}

TEST_F(EventTest, ARepetitionAddsNone) {
  EXPECT_TRUE(client_->PostEvent(Misaligned()).ok());
  EXPECT_TRUE(client_->PostEvent(Misaligned()).ok());
  EXPECT_EQ(server_.events().size(), 1U);
  // What differs in anything that is said is another one, at the same moment too.
  EventRequest other = Misaligned();
  other.note += "!";
  EXPECT_TRUE(client_->PostEvent(other).ok());
  other.uid = "another";
  EXPECT_TRUE(client_->PostEvent(other).ok());
  EXPECT_EQ(server_.events().size(), 3U);
}

TEST_F(EventTest, OfANodeItGoesToDefault) {
  EventRequest event = Misaligned();
  event.kind = "Node";
  event.object_namespace.clear();
  event.name = event.uid = "gpu-a-001";
  event.warning = false;
  event.action = "Watched";
  ASSERT_TRUE(client_->PostEvent(event).ok());
  EXPECT_EQ(server_.CountRequests("POST", "/namespaces/default/events"), 1);
  const json posted = Only();
  EXPECT_FALSE(posted["regarding"].contains("namespace"));
  EXPECT_EQ(posted["type"], "Normal");
  EXPECT_EQ(posted["action"], "Watched");
}

TEST_F(EventTest, LongTextsAreCutBetweenCharacters) {
  EventRequest event = Misaligned();
  event.name = std::string(230, 'a') + "." + std::string(22, 'b');
  event.note = std::string(1023, 'x') + "\xc3\xa4";
  event.instance = std::string(200, 'i');
  ASSERT_TRUE(client_->PostEvent(event).ok());
  const json posted = Only();
  EXPECT_EQ(posted["note"], std::string(1023, 'x'));
  EXPECT_EQ(posted["reportingInstance"], std::string(128, 'i'));
  const std::string name = posted["metadata"]["name"];
  EXPECT_LE(name.size(), 253U);
  EXPECT_EQ(name.find(".."), std::string::npos) << name;
  EXPECT_EQ(posted["regarding"]["name"], event.name);
}

TEST_F(EventTest, AnIncompleteOneIsNotSent) {
  EventRequest event = Misaligned();
  event.reason.clear();
  EXPECT_EQ(std::string(client_->PostEvent(event).message()), "event: no reason");
  event = Misaligned();
  event.time_micros = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(client_->PostEvent(event)));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(EventTest, RefusalsAreToldToTheCaller) {
  server_.FailNext(1, 403);
  EXPECT_TRUE(absl::IsPermissionDenied(client_->PostEvent(Misaligned())));
  server_.FailNext(1, 422);
  EXPECT_TRUE(absl::IsInvalidArgument(client_->PostEvent(Misaligned())));
}

}  // namespace
}  // namespace numafit::kube
