// The numafit command as people run it: arguments in, text and exit code out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/pod_json.h"
#include "api/resource_class.h"
#include "cache/demand.h"
#include "cache/explain.h"
#include "cache/fleet.h"
#include "test/paths.h"

namespace numafit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Ran {
  int code = -1;
  std::string out;  // standard output and error
};

Ran Execute(const std::string& arguments, const std::string& input = "") {
  const std::string command =
      "printf '%s' '" + input + "' | " + test::BinaryDir() + "/numafit " + arguments + " 2>&1";
  Ran ran;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    ran.out.append(buffer.data(), size);
  }
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

std::string PodText(int gpus, int endpoints) {
  return R"({"kind": "Pod", "metadata": {"name": "train"}, "spec": {"containers": [{"name": "main",
    "resources": {"limits": {"nvidia.com/gpu": ")" +
         std::to_string(gpus) + R"(", "device.gpustack.ai/rdma": ")" + std::to_string(endpoints) +
         "\"}}}]}}";
}

const std::string kLab = "--fleet " + test::SourceDir() + "/test/fleets/lab.yaml";

TEST(Cli, HelpHasExamplesForEveryCommand) {
  const Ran help = Execute("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* command : {"explain", "nodes", "admit", "fleet check", "fleet expand"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Ran own = Execute(std::string(command) + " --help");
    EXPECT_EQ(own.code, 0) << command;
    EXPECT_THAT(own.out, AllOf(HasSubstr("Usage: numafit"), HasSubstr("Example"))) << command;
  }
  EXPECT_EQ(Execute("").code, 2);
  EXPECT_THAT(Execute("version").out, StartsWith("numafit "));
}

TEST(Cli, BadInputIsTwoAndNamesWhatIsWrong) {
  const auto expect = [](const std::string& arguments, const std::string& message,
                         const std::string& input = "") {
    const Ran ran = Execute(arguments, input);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_THAT(ran.out, HasSubstr(message)) << arguments;
  };
  expect("explane", "did you mean explain?");
  expect("fleet", "needs a second word");
  expect("explain", "needs -f FILE");
  expect("explain -f no/such.yaml", "no/such.yaml: No such file");
  expect("explain -f - --fleet no/such.yaml", "no/such.yaml", PodText(1, 1));
  expect("explain -f - --node x", "node x is not in the fleet", PodText(1, 1));
  expect("explain -f - -o yaml", "--output is \"yaml\", expected text or json", PodText(1, 1));
  expect("explain -f - --flet x", "unknown option --flet, did you mean --fleet?");
  expect("explain -f", "--filename needs a value: FILE");
  expect("nodes --all --all", "--all is given twice");
  expect("nodes --all=1", "--all takes no value");
  expect("nodes extra", "unexpected argument \"extra\"");
  expect("nodes --server x", "--server is \"x\", expected a URL");
  expect("nodes --server http://127.0.0.1:1", "http://127.0.0.1:1: ");
  expect("nodes --server http://x --fleet y", "exclude each other");
  expect("explain -f -", "standard input:2", "kind: Pod\nkind: Pod\n");
  expect("explain -f -", "limits.nvidia.com/gpu is -1", PodText(-1, 1));
}

TEST(Cli, ExplainAnswersFirstAndFolds) {
  const Ran ran = Execute("explain -f - " + kLab, PodText(4, 4));
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(StartsWith("default/train needs"), HasSubstr("best: lab-"),
                             HasSubstr("lab-c"), HasSubstr("never"), Not(HasSubstr("\x1b["))));
  const Ran no = Execute("explain -f - " + kLab, PodText(9, 9));
  EXPECT_EQ(no.code, 1);
  EXPECT_THAT(no.out, HasSubstr("No: none of 4 nodes can place it"));
  const Ran one = Execute("explain --node lab-a -f - " + kLab, PodText(4, 4));
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, AllOf(HasSubstr("1 of 1 nodes"), Not(HasSubstr("lab-d"))));
}

TEST(Cli, ExplainAsJson) {
  const Ran ran = Execute("explain -o json -f - " + kLab, PodText(4, 4));
  EXPECT_EQ(ran.code, 0);
  const auto json = nlohmann::json::parse(ran.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ran.out;
  EXPECT_EQ(json["nodes"], 4);
  EXPECT_EQ(json["fit"], 3);
  EXPECT_EQ(json["guaranteed"], 2);
}

TEST(Cli, NodesShowsTheBuiltInFleet) {
  const Ran ran = Execute("nodes --all");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("32 nodes"), HasSubstr("gpu-a-017"), HasSubstr("4/4  1/4")));
  const auto json = nlohmann::json::parse(Execute("nodes -o json").out, nullptr, false);
  EXPECT_EQ(json["nodes"].size(), 32U);
}

TEST(Cli, FleetCheckAndExpand) {
  EXPECT_THAT(Execute("fleet check " + kLab).out, HasSubstr("4 nodes of 4 shapes"));
  const auto json =
      nlohmann::json::parse(Execute("fleet expand -o json " + kLab).out, nullptr, false);
  ASSERT_EQ(json["nodes"].size(), 4U);
  EXPECT_EQ(json["nodes"][1]["name"], "lab-b");
  EXPECT_EQ(json["nodes"][1]["kubelet"]["topologyManagerPolicy"], "restricted");
  EXPECT_EQ(json["nodes"][0]["devices"]["nvidia.com/gpu"].size(), 8U);
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "numafit_cli_test_fleet.yaml").string();
  std::ofstream(path) << "apiVersion: numafit.io/v1alpha1\nkind: Fleet\nshapes: 3\n";
  const Ran wrong = Execute("fleet check --fleet " + path);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr(path + ":3: shapes: is text \"3\", expected a list"));
}

TEST(Cli, AdmitAnswersCases) {
  const Ran ran = Execute("admit", R"({"id": 1, "numa": [{"id": 0}, {"id": 1}], "topologyPolicy":
"single-numa-node", "devices": {"a/b": [{"id": "x", "numa": [0]}]}, "steps": []})");
  // Not one line: answered as malformed, each line.
  EXPECT_THAT(ran.out, HasSubstr("error"));
  const Ran good = Execute("admit", R"({"id": 7, "numa": [{"id": 0}, {"id": 1}], )"
                                    R"("topologyPolicy": "single-numa-node", "devices": {"a/b": )"
                                    R"([{"id": "x", "numa": [1]}]}, "steps": [{"admit": {"name": )"
                                    R"("p", "containers": [{"name": "c", "resources": {"limits": )"
                                    R"({"a/b": "1"}}}]}}]})");
  EXPECT_EQ(good.code, 0);
  const auto json = nlohmann::json::parse(good.out, nullptr, false);
  EXPECT_EQ(json["id"], 7);
  EXPECT_EQ(json["steps"][0]["admitted"], true);
}

// An extender's read API, as docs/cli.md has it.
class FakeExtender {
 public:
  FakeExtender() : fleet_(cache::Fleet::FromFile(cache::EmbeddedFleet(), classes_, {}).value()) {
    server_.Post(
        "/v1/explain", [this](const httplib::Request& request, httplib::Response& response) {
          const auto pod = api::PodFromJson(request.body);
          const auto demand = cache::DemandFromPod(*pod, classes_, {});
          cache::ExplainOptions options;
          options.strategy = policy::FindScoreStrategy("most-allocated");
          options.fold = !request.has_param("all");
          options.node = request.get_param_value("node");
          const auto explanation =
              cache::Explain(fleet_->Snapshot(), pod->FullName(), *demand, options);
          if (explanation.ok()) {
            response.set_content(cache::ToJson(*explanation), "application/json");
          } else {
            response.status = 404;
            response.set_content(R"({"error": "there is no such node"})", "application/json");
          }
        });
    server_.Get("/v1/nodes", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(cache::NodesToJson(fleet_->Snapshot(), classes_), "application/json");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~FakeExtender() {
    server_.stop();
    thread_.join();
  }
  [[nodiscard]] std::string Option() const {
    return "--server http://127.0.0.1:" + std::to_string(port_);
  }

 private:
  api::ResourceClasses classes_;
  std::unique_ptr<cache::Fleet> fleet_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST(Cli, AServerAndAFileLookTheSame) {
  const FakeExtender extender;
  for (const char* command : {"explain -f -", "explain --all -f -", "explain -o json -f -",
                              "explain --node gpu-a-002 -f -", "nodes", "nodes -o json"}) {
    const std::string input = PodText(4, 4);
    const Ran local = Execute(command, input);
    const Ran remote = Execute(std::string(command) + " " + extender.Option(), input);
    EXPECT_EQ(local.out, remote.out) << command;
    EXPECT_EQ(local.code, remote.code) << command;
  }
  const Ran wrong = Execute("explain --node x -f - " + extender.Option(), PodText(1, 1));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr("answers 404: there is no such node"));
}

}  // namespace
}  // namespace numafit
