#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kube/client.h"
#include "test/kube/fake_api_server.h"
#include "test/kube/recorder.h"

namespace numafit::kube {
namespace {

using kube_testing::FakeApiServer;
using kube_testing::Recorder;

std::string Object(const std::string& name, int available) {
  return R"({"metadata": {"name": ")" + name + R"("}, "zones": [{"name": "node-0", "type": "Node",
      "resources": [{"name": "nvidia.com/gpu", "capacity": "4", "allocatable": "4",
                     "available": ")" +
         std::to_string(available) + R"("}]}]})";
}

class NodeResourceTopologiesTest : public testing::Test {
 protected:
  NodeResourceTopologiesTest() {
    Credentials credentials;
    credentials.server = server_.url();
    client_ = *Client::Create(credentials, {});
  }
  void Start() {
    WatchOptions options;
    options.backoff_initial_ms = 5;
    options.backoff_max_ms = 40;
    options.page_size = 2;
    watch_ = WatchNodeResourceTopologies(*client_, options, recorder_.Handlers());
  }

  FakeApiServer server_;
  std::unique_ptr<Client> client_;
  Recorder<api::NodeResourceTopology> recorder_;
  std::unique_ptr<Watch> watch_;
};

TEST_F(NodeResourceTopologiesTest, ListsInPagesThenFollows) {
  server_.ServeNodeResourceTopologies(true);
  for (const char* name : {"n1", "n2", "n3"}) server_.PutNodeResourceTopology(Object(name, 4));
  Start();
  ASSERT_TRUE(recorder_.WaitFor("list n1,n2,n3"));
  server_.PutNodeResourceTopology(Object("n2", 3));
  server_.PutNodeResourceTopology(Object("n1", -1));
  server_.PutNodeResourceTopology(R"({"metadata": {"name": "n4"}})");
  server_.DeleteNodeResourceTopology("n3");
  ASSERT_TRUE(recorder_.WaitFor("del n3"));
  EXPECT_EQ(recorder_.events(),
            (std::vector<std::string>{"list n1,n2,n3", "put n2", "put n1!", "put n4!", "del n3"}));
}

TEST_F(NodeResourceTopologiesTest, PagesAreSeenBeforeTheListAndMayBeMadeSmaller) {
  server_.ServeNodeResourceTopologies(true);
  for (const char* name : {"n1", "n2", "n3"}) server_.PutNodeResourceTopology(Object(name, 4));
  std::vector<std::size_t> pages;
  std::vector<std::size_t> zones;
  std::atomic<bool> listed = false;
  WatchHandlers<api::NodeResourceTopology> handlers;
  handlers.on_page = [&](std::vector<api::NodeResourceTopology>& page) {
    pages.push_back(page.size());
    for (auto& each : page) each.zones.clear();
  };
  handlers.on_list = [&](std::vector<api::NodeResourceTopology> list) {
    for (const auto& each : list) zones.push_back(each.zones.size());
    listed = true;
  };
  WatchOptions options;
  options.page_size = 2;
  const auto watch = WatchNodeResourceTopologies(*client_, options, std::move(handlers));
  while (!listed) std::this_thread::yield();
  EXPECT_EQ(pages, (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(zones, (std::vector<std::size_t>{0, 0, 0}));
}

TEST_F(NodeResourceTopologiesTest, WaitsForTheDefinitionAndSaysSoOnce) {
  Start();
  ASSERT_TRUE(recorder_.WaitFor("state NOT_FOUND"));
  while (server_.CountRequests("GET", "noderesourcetopologies") < 5) std::this_thread::yield();
  EXPECT_FALSE(watch_->synced());
  server_.ServeNodeResourceTopologies(true);
  ASSERT_TRUE(recorder_.WaitFor("list "));
  EXPECT_EQ(recorder_.lines(), (std::vector<std::string>{"state NOT_FOUND", "state OK", "list "}));
}

}  // namespace
}  // namespace numafit::kube
