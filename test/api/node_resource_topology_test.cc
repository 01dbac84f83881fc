#include "api/node_resource_topology.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace numafit::api {
namespace {

using nlohmann::json;

json Object() {
  return json::parse(R"({
    "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
    "metadata": {"name": "n1", "resourceVersion": "7"},
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"},
                   {"name": "topologyManagerScope", "value": "pod"},
                   {"name": "nodeTopologyPodsFingerprint", "value": "pfp0v0011"}],
    "topologyPolicies": ["None"],
    "zones": [
      {"name": "node-1", "type": "Node",
       "costs": [{"name": "node-0", "value": 21}, {"name": "node-1", "value": 10}],
       "resources": [
         {"name": "nvidia.com/gpu", "capacity": "4", "allocatable": "3", "available": "1"},
         {"name": "memory", "capacity": "1Gi", "allocatable": "1Gi", "available": "-5"},
         {"name": "cpu", "capacity": "32", "allocatable": "31", "available": "30500m"}]},
      {"name": "node-0", "type": "Node",
       "resources": [{"name": "nvidia.com/gpu", "capacity": 4, "allocatable": 4, "available": 4}]},
      {"name": "socket-0", "type": "Socket", "resources": [{"name": "a/b", "capacity": "x"}]}
    ]})");
}

NodeResourceTopology Read(const json& object) {
  return ReadNodeResourceTopology(object).value();
}

TEST(NodeResourceTopologyTest, IsReadByZone) {
  const NodeResourceTopology topology = Read(Object());
  ASSERT_TRUE(topology.problem.ok()) << topology.problem;
  EXPECT_EQ(topology.metadata.name, "n1");
  EXPECT_EQ(topology.policy, "single-numa-node");  // attributes before topologyPolicies
  EXPECT_EQ(topology.scope, "pod");
  ASSERT_EQ(topology.zones.size(), 2U);
  EXPECT_EQ(topology.zones[0].numa, 0);
  ASSERT_EQ(topology.zones[0].resources.size(), 1U);
  EXPECT_EQ(topology.zones[0].resources[0].available, 4);
  const NodeResourceTopology::Zone& second = topology.zones[1];
  EXPECT_EQ(second.costs, (std::vector<std::pair<int, int>>{{0, 21}, {1, 10}}));
  ASSERT_EQ(second.resources.size(), 2U);  // memory is not looked at
  EXPECT_EQ(second.resources[0].name, "cpu");
  EXPECT_EQ(second.resources[0].available, 30);
  EXPECT_EQ(second.resources[1].capacity, 4);
  EXPECT_EQ(second.resources[1].allocatable, 3);
  EXPECT_EQ(second.resources[1].available, 1);
}

TEST(NodeResourceTopologyTest, OlderPublishersNameThePolicyAndTheScopeInOneWord) {
  struct Case {
    const char* word;
    const char* policy;
    const char* scope;
  };
  for (const Case& each :
       {Case{"None", "none", ""}, Case{"BestEffortPodLevel", "best-effort", "pod"},
        Case{"Restricted", "restricted", ""},
        Case{"RestrictedContainerLevel", "restricted", "container"},
        Case{"SingleNUMANodePodLevel", "single-numa-node", "pod"}}) {
    json object = Object();
    object.erase("attributes");
    object["topologyPolicies"] = {each.word};
    const NodeResourceTopology topology = Read(object);
    EXPECT_TRUE(topology.problem.ok()) << topology.problem;
    EXPECT_EQ(topology.policy, each.policy) << each.word;
    EXPECT_EQ(topology.scope, each.scope) << each.word;
  }
  json object = Object();
  object.erase("attributes");
  object.erase("topologyPolicies");
  EXPECT_EQ(Read(object).policy, "");
}

TEST(NodeResourceTopologyTest, WhatCannotBeNamesTheFieldAndTheValue) {
  const auto problem = [](const char* pointer, const json& value) {
    json object = Object();
    object[json::json_pointer(pointer)] = value;
    const auto topology = ReadNodeResourceTopology(object);
    return std::string(topology.ok() ? topology->problem.message() : topology.status().message());
  };
  const std::string gpu = "/zones/0/resources/0";
  EXPECT_EQ(problem((gpu + "/available").c_str(), "-1"),
            "zones[0].resources[0].available: is \"-1\", expected a whole number, 0 to 4096");
  EXPECT_EQ(problem((gpu + "/available").c_str(), "500m"),
            "zones[0].resources[0].available: is \"500m\", expected a whole number, 0 to 4096");
  EXPECT_EQ(problem((gpu + "/capacity").c_str(), 4097),
            "zones[0].resources[0].capacity: is 4097, expected a whole number, 0 to 4096");
  EXPECT_EQ(problem((gpu + "/capacity").c_str(), "1e30"),
            "zones[0].resources[0].capacity: is \"1e30\", expected a whole number, 0 to 4096");
  EXPECT_EQ(problem((gpu + "/capacity").c_str(), nullptr),
            "zones[0].resources[0].capacity: is null, expected a whole number, 0 to 4096");
  EXPECT_EQ(problem((gpu + "/capacity").c_str(), json::array({1})),
            "zones[0].resources[0].capacity: is [1], expected a whole number, 0 to 4096");
  EXPECT_EQ(problem((gpu + "/available").c_str(), "4"),
            "zones[0].resources[0].available: is 4 of nvidia.com/gpu, of which 3 are allocatable");
  EXPECT_EQ(problem((gpu + "/allocatable").c_str(), "9"),
            "zones[0].resources[0].allocatable: is 9 of nvidia.com/gpu, of which the zone has 4");
  EXPECT_EQ(problem((gpu + "/name").c_str(), "x/" + std::string(400, 'y')),
            "zones[0].resources[0].name: is 402 characters long, expected 317 at most");
  EXPECT_EQ(problem("/zones/0/resources/2", Object()["zones"][0]["resources"][0]),
            "zones[0].resources: nvidia.com/gpu is there twice");
  EXPECT_EQ(problem("/zones/0/resources", 5), "zones[0].resources: expected a list, got number");
  EXPECT_EQ(problem("/zones/0/name", "node-64"),
            "zones[0].name: is \"node-64\", expected node-0 to node-63");
  EXPECT_EQ(problem("/zones/0/name", "node-+1"),
            "zones[0].name: is \"node-+1\", expected node-0 to node-63");
  EXPECT_EQ(problem("/zones/0/name", "node-0"), "zones[1].name: node-0 is there twice");
  EXPECT_EQ(problem("/zones", json::array()), "zones: none of type Node");
  EXPECT_EQ(problem("/zones", "x"), "zones: expected a list, got string");
  json object = Object();
  object.erase("attributes");
  object["topologyPolicies"] = {"Sometimes"};
  EXPECT_EQ(std::string(Read(object).problem.message()),
            "topologyPolicies[0]: is \"Sometimes\", expected a word such as "
            "SingleNUMANodePodLevel");
  object["topologyPolicies"] = {"None", "None"};
  EXPECT_EQ(std::string(Read(object).problem.message()),
            "topologyPolicies: has 2 entries, expected one");
  EXPECT_FALSE(ReadNodeResourceTopology(json("x")).ok());
}

TEST(NodeResourceTopologyTest, ALongListIsNotWorkedThrough) {
  json object = Object();
  json& resources = object["zones"][0]["resources"];
  for (int i = 0; i < 300; ++i) {
    resources.push_back({{"name", "a/" + std::to_string(i)}, {"capacity", 1}});
  }
  EXPECT_EQ(std::string(Read(object).problem.message()),
            "zones[0].resources: has 303 entries, expected 256 at most");
}

}  // namespace
}  // namespace numafit::api
