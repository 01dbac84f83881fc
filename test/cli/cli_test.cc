// The numafit command as people run it: arguments in, text and exit code out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "api/pod_json.h"
#include "api/resource_class.h"
#include "cache/demand.h"
#include "cache/explain.h"
#include "cache/fleet.h"
#include "cache/pods_json.h"
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
  for (const char* command : {"explain", "nodes", "pods", "doctor", "admit", "fleet check",
                              "fleet expand", "preflight"}) {
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
  expect("pods --node x", "node x is not in the fleet");
  expect("doctor", "needs something to look at: --scheduler-config FILE, --server URL");
  expect("doctor --scheduler-config no/such.yaml", "no/such.yaml: No such file");
  expect("doctor --server http://127.0.0.1:1", "could not look at everything: http://127.0.0.1:1");
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
    server_.Get("/v1/pods", [this](const httplib::Request& request, httplib::Response& response) {
      const auto pods = cache::PodsToJson(fleet_->Snapshot(),
                                          {.node = request.get_param_value("node"),
                                           .misaligned_only = request.has_param("misaligned")});
      response.status = pods.ok() ? 200 : 404;
      response.set_content(pods.ok() ? *pods : R"({"error": "there is no such node"})",
                           "application/json");
    });
    server_.Get("/v1/cluster-queues", [this](const httplib::Request&, httplib::Response& response) {
      const std::lock_guard<std::mutex> lock(mutex_);
      response.status = quotas_.empty() ? 404 : 200;
      response.set_content(quotas_, "application/json");
    });
    server_.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      response.status = ready_ ? 200 : 503;
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
  void set_ready(bool ready) { ready_ = ready; }
  // What it says of ClusterQueues; at first it does not watch them.
  void set_quotas(std::string quotas) {
    const std::lock_guard<std::mutex> lock(mutex_);
    quotas_ = std::move(quotas);
  }

 private:
  api::ResourceClasses classes_;
  std::unique_ptr<cache::Fleet> fleet_;
  std::atomic<bool> ready_{true};
  std::mutex mutex_;
  std::string quotas_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST(Cli, AServerAndAFileLookTheSame) {
  const FakeExtender extender;
  for (const char* command :
       {"explain -f -", "explain --all -f -", "explain -o json -f -",
        "explain --node gpu-a-002 -f -", "nodes", "nodes -o json", "pods", "pods --all",
        "pods -o json", "pods --node gpu-a-002", "pods --misaligned"}) {
    const std::string input = PodText(4, 4);
    const Ran local = Execute(command, input);
    const Ran remote = Execute(std::string(command) + " " + extender.Option(), input);
    EXPECT_EQ(local.out, remote.out) << command;
    EXPECT_EQ(local.code, remote.code) << command;
  }
  EXPECT_THAT(Execute("pods --node x " + extender.Option()).out,
              HasSubstr("answers 404: there is no such node"));
  const Ran wrong = Execute("explain --node x -f - " + extender.Option(), PodText(1, 1));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr("answers 404: there is no such node"));
}

// A fleet of one node with policy none, and Pods with the devices of their choice.
std::string WriteFleet() {
  const std::string path = (std::filesystem::path(::testing::TempDir()) /
                            ("numafit_cli_pods_fleet_" + std::to_string(::getpid()) + ".yaml"))
                               .string();
  std::ofstream(path) << R"(apiVersion: numafit.io/v1alpha1
kind: Fleet
shapes:
  - name: small
    kubelet: {version: v1.36.3, topologyManagerPolicy: none}
    numa:
      - {id: 0, cpus: 0-7, memory: 64Gi}
      - {id: 1, cpus: 8-15, memory: 64Gi}
    devices:
      - {resource: nvidia.com/gpu, ids: [g0, g1], numa: 0}
      - {resource: nvidia.com/gpu, ids: [g2, g3], numa: 1}
      - {resource: device.gpustack.ai/rdma, ids: [e0, e1], numa: 0}
      - {resource: device.gpustack.ai/rdma, ids: [e2, e3], numa: 1}
nodes:
  - {shape: small, name: n0}
pods:
  - name: apart
    node: n0
    containers:
      - name: main
        resources: {limits: {nvidia.com/gpu: 1, device.gpustack.ai/rdma: 1}}
        devices: {nvidia.com/gpu: [g0], device.gpustack.ai/rdma: [e2]}
  - name: together
    node: n0
    containers:
      - name: main
        resources: {limits: {nvidia.com/gpu: 1, device.gpustack.ai/rdma: 1}}
        devices: {nvidia.com/gpu: [g1], device.gpustack.ai/rdma: [e0]}
  - name: somewhere
    node: n0
    containers:
      - {name: main, resources: {limits: {nvidia.com/gpu: 1, device.gpustack.ai/rdma: 1}}}
)";
  return path;
}

TEST(Cli, PodsSaysWhoHoldsWhatAndWhoIsMisaligned) {
  const std::string fleet = " --fleet " + WriteFleet();
  const Ran ran = Execute("pods" + fleet);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(
      ran.out,
      AllOf(StartsWith("1 container is misaligned"), HasSubstr("NUMA 0: 1 gpu; NUMA 1: 1 rdma"),
            HasSubstr("NUMA 0: 1 gpu + 1 rdma"), HasSubstr("observed"), HasSubstr("may hold ")))
      << ran.out;
  const Ran misaligned = Execute("pods --misaligned" + fleet);
  EXPECT_EQ(misaligned.code, 0);
  EXPECT_THAT(misaligned.out, AllOf(HasSubstr("default/apart"), Not(HasSubstr("together"))));
  const auto json =
      nlohmann::json::parse(Execute("pods --misaligned -o json" + fleet).out, nullptr, false);
  ASSERT_EQ(json["pods"].size(), 1U);
  EXPECT_EQ(json["pods"][0]["alignment"], "misaligned");
  const Ran none = Execute("pods --misaligned " + kLab);
  EXPECT_EQ(none.code, 1) << "a clean no";
  EXPECT_THAT(none.out, StartsWith("No container is known to be misaligned"));
  EXPECT_THAT(Execute("nodes" + fleet).out,
              AllOf(HasSubstr("MISALIGNED"), HasSubstr("1 node; 1 misaligned container")));
}

TEST(Cli, DoctorSaysWhatToPutRight) {
  const std::string config =
      "--scheduler-config " + test::SourceDir() + "/scheduler-config/trial.yaml";
  const Ran fine = Execute("doctor " + config);
  EXPECT_EQ(fine.code, 0);
  EXPECT_THAT(fine.out, AllOf(StartsWith("Nothing is wrong"), HasSubstr(" checks")));
  const Ran fleet = Execute("doctor --fleet " + WriteFleet() + " " + config);
  EXPECT_EQ(fleet.code, 0) << "warnings are no failure";
  EXPECT_THAT(fleet.out, AllOf(HasSubstr("WARN  1 container on 1 node"), HasSubstr("(policy-none)"),
                               HasSubstr("on n0"), HasSubstr("-> ")));
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "numafit_cli_scheduler.yaml").string();
  std::ofstream(path) << "apiVersion: kubescheduler.config.k8s.io/v1\n"
                         "kind: KubeSchedulerConfiguration\n";
  const Ran wrong = Execute("doctor -o json --scheduler-config " + path);
  EXPECT_EQ(wrong.code, 1);
  const auto json = nlohmann::json::parse(wrong.out, nullptr, false);
  EXPECT_EQ(json["FAIL"], 1);
  EXPECT_EQ(json["WARN"], 1);
  // What could be looked at is shown all the same.
  const Ran half = Execute("doctor --server http://127.0.0.1:1 " + config);
  EXPECT_EQ(half.code, 2);
  EXPECT_THAT(half.out, AllOf(HasSubstr("checks"), HasSubstr("could not look at everything")));
}

TEST(Cli, DoctorAsksTheExtender) {
  FakeExtender extender;
  const Ran ran = Execute("doctor --all " + extender.Option());
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("the extender is ready"));
  EXPECT_THAT(ran.out, Not(HasSubstr("quota")));
  extender.set_quotas(R"({"state": "current", "quotas": [{"clusterQueue": "gpus", "flavor": "h100",
      "resource": "nvidia.com/gpu", "quota": 64, "nodes": 7, "devices": 56, "placeable": 40}]})");
  const Ran quotas = Execute("doctor " + extender.Option());
  EXPECT_EQ(quotas.code, 0) << quotas.out;
  EXPECT_THAT(quotas.out, AllOf(HasSubstr("ClusterQueue gpus has a quota of 64 nvidia.com/gpu"),
                                HasSubstr("(quota-above-placeable)")));
  extender.set_ready(false);
  const Ran early = Execute("doctor " + extender.Option());
  EXPECT_EQ(early.code, 1);
  EXPECT_THAT(early.out, HasSubstr("(extender-not-ready)"));
}

}  // namespace
}  // namespace numafit
