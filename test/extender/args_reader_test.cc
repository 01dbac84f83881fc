#include "extender/args_reader.h"

#include <string>

#include "extender/http/parked_server.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/extender/support.h"

namespace numafit::extender {
namespace {

// Exactly as much memory as the contract asks for, so that sanitizers see a read past it.
class ArgsReaderTest : public testing::Test {
 protected:
  absl::Status Read(const std::string& body) {
    memory_ = std::make_unique<char[]>(body.size() + http::kBodyPadding);
    std::copy(body.begin(), body.end(), memory_.get());
    return reader_.Read(std::string_view(memory_.get(), body.size()), &args_);
  }
  std::string Error(const std::string& body) { return std::string(Read(body).message()); }

  ArgsReader reader_;
  Args args_;
  std::unique_ptr<char[]> memory_;
};

TEST_F(ArgsReaderTest, ReadsWhatEverySchedulerSends) {
  for (const char* version : {"1.34.4", "1.36.3", "1.37.2"}) {
    for (const char* verb : {"filter", "prioritize"}) {
      const std::string prefix = std::string("data/kube-scheduler-") + version + "-" + verb;
      ASSERT_TRUE(Read(ReadTestFile(prefix + "-cache.json")).ok()) << version;
      EXPECT_EQ(args_.form, Args::Form::kNodeNames);
      ASSERT_EQ(args_.names.size(), verb == std::string("filter") ? 3U : args_.names.size());
      EXPECT_EQ(args_.pod.FullName(), "default/train-job-cache");
      EXPECT_EQ(args_.pod.containers.at(0).resources.limits.at("nvidia.com/gpu").value(), 2);
      EXPECT_FALSE(args_.pod.metadata.uid.empty());
      EXPECT_EQ(args_.pod.status.qos_class, "Guaranteed");

      const std::string whole = ReadTestFile(prefix + "-nocache.json");
      ASSERT_TRUE(Read(whole).ok()) << version;
      EXPECT_EQ(args_.form, Args::Form::kNodes);
      const auto expected = nlohmann::json::parse(whole)["Nodes"]["items"];
      ASSERT_EQ(args_.names.size(), expected.size());
      ASSERT_EQ(args_.nodes.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(args_.names[i], expected[i]["metadata"]["name"].get<std::string>());
        EXPECT_EQ(nlohmann::json::parse(args_.nodes[i]), expected[i]);
      }
    }
  }
}

TEST_F(ArgsReaderTest, KeysMatchWithoutRegardToCaseAndTheLastOneWins) {
  ASSERT_TRUE(Read(R"({"POD":{"metadata":{"name":"a"}},"pod":{"metadata":{"name":"b"}},)"
                   R"("nodenames":["x"],"NODENAMES":["y","z"],"other":{"a":[1]}})")
                  .ok());
  EXPECT_EQ(args_.pod.metadata.name, "b");
  EXPECT_EQ(args_.names, (std::vector<std::string_view>{"y", "z"}));
}

TEST_F(ArgsReaderTest, NullIsTheSameAsAbsent) {
  for (const char* body :
       {"null", "{}", R"({"Pod":null,"Nodes":null,"NodeNames":null})", "  {}  "}) {
    ASSERT_TRUE(Read(body).ok()) << body;
    EXPECT_FALSE(args_.has_pod);
    EXPECT_EQ(args_.form, Args::Form::kNone);
  }
  ASSERT_TRUE(Read(R"({"Pod":{"metadata":null,"spec":null,"status":null},"NodeNames":[]})").ok());
  EXPECT_TRUE(args_.has_pod);
  EXPECT_EQ(args_.form, Args::Form::kNodeNames);
  ASSERT_TRUE(Read(R"({"Pod":{"metadata":{"annotations":null},"spec":{"containers":null,)"
                   R"("initContainers":[{"name":"i","resources":null}]}},"Nodes":{"items":null}})")
                  .ok());
  EXPECT_EQ(args_.pod.init_containers.size(), 1U);
  EXPECT_EQ(args_.form, Args::Form::kNodes);
}

TEST_F(ArgsReaderTest, SaysWhereTheJsonEnds) {
  EXPECT_EQ(Error(R"({"Pod":{]}})").substr(0, 27), "malformed JSON at byte 9: s");
  EXPECT_EQ(Error("").substr(0, 24), "malformed JSON at byte 1");
  EXPECT_EQ(Error(R"({"Pod":null} x)").substr(0, 25), "malformed JSON at byte 14");
  EXPECT_EQ(Error("{\"Pod\":\"\xff\"}").substr(0, 24), "malformed JSON at byte 9");
  EXPECT_EQ(Error(R"({"Pod":{"x":tru}})").substr(0, 25), "malformed JSON at byte 16");
  const std::string garbage = Error("\x01garbage" + std::string(5000, 'x'));
  EXPECT_EQ(garbage.substr(0, 24), "malformed JSON at byte 1");
  EXPECT_LT(garbage.size(), 300U);
  EXPECT_NE(Error(std::string(5000, '[') + std::string(5000, ']')).find("malformed JSON"),
            std::string::npos);
}

TEST_F(ArgsReaderTest, SaysWhichFieldHasAWrongType) {
  EXPECT_EQ(Error("[]"), "expected a JSON object with Pod and NodeNames or Nodes");
  EXPECT_EQ(Error(R"({"Pod":7})"), "Pod: expected an object");
  EXPECT_EQ(Error(R"({"NodeNames":{}})"), "NodeNames: expected an array");
  EXPECT_EQ(Error(R"({"NodeNames":["a",1]})"), "NodeNames[1]: expected a string");
  EXPECT_EQ(Error(R"({"Nodes":[]})"), "Nodes: expected a NodeList");
  EXPECT_EQ(Error(R"({"Nodes":{"items":[{"metadata":{}}]}})"),
            "Nodes.items[0].metadata.name: expected a string");
  EXPECT_EQ(Error(R"({"Pod":{"metadata":{"name":5}}})"), "Pod.metadata.name: expected a string");
  for (const char* priority : {"\"7\"", "1.5", "3000000000", "1e300", "[]"}) {
    EXPECT_EQ(Error(fmt::format(R"({{"Pod":{{"spec":{{"priority":{}}}}}}})", priority)),
              "Pod.spec.priority: expected a whole number of 32 bits");
  }
  EXPECT_EQ(Error(R"({"Pod":{"spec":{"containers":[{},7]}}})"),
            "Pod.spec.containers[1]: expected an object");
  EXPECT_NE(Error(R"({"Pod":{"spec":{"containers":[{"resources":{"limits":{"a/b":"x"}}}]}}})")
                .find("Pod.spec.containers[0].resources.limits.a/b: expected a quantity"),
            std::string::npos);
}

TEST_F(ArgsReaderTest, ReadsEveryFieldOfThePod) {
  ASSERT_TRUE(
      Read(
          R"({"Pod":{"metadata":{"name":"n","namespace":"s","uid":"u","annotations":)"
          R"({"numafit.io/alignment":"fit","other":"x"}},"spec":{"schedulerName":"p","priority":-7,)"
          R"("nodeName":"","initContainers":[{"name":"i","restartPolicy":"Always",)"
          R"("resources":{"limits":{"a/b":2,"cpu":0.5}}}],"containers":[{"name":"c",)"
          R"("resources":{"requests":{"cpu":"500m"},"claims":[{"name":"gpus"}]}}],)"
          R"("resources":{"limits":{"memory":"1Gi"}},"resourceClaims":[{"name":"gpus"}]},)"
          R"("status":{"nominatedNodeName":"node-1"}}})")
          .ok());
  const api::Pod& pod = args_.pod;
  EXPECT_EQ(pod.metadata.annotations.size(), 1U);
  EXPECT_TRUE(pod.init_containers.at(0).restart_always);
  EXPECT_EQ(pod.init_containers[0].resources.limits.at("a/b").value(), 2);
  EXPECT_EQ(pod.init_containers[0].resources.limits.at("cpu").milli(), 500);
  EXPECT_EQ(pod.containers.at(0).resources.requests.at("cpu").milli(), 500);
  EXPECT_EQ(pod.containers[0].resources.claims, std::vector<std::string>{"gpus"});
  EXPECT_EQ(pod.resource_claims, std::vector<std::string>{"gpus"});
  ASSERT_TRUE(pod.resources.has_value());
  EXPECT_EQ(pod.resources->limits.at("memory").value(), 1LL << 30);
  EXPECT_EQ(pod.scheduler_name, "p");
  EXPECT_EQ(pod.priority, -7);
  EXPECT_EQ(pod.status.nominated_node_name, "node-1");
}

}  // namespace
}  // namespace numafit::extender
