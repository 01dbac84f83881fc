// How much more than reading and writing its JSON does a filter call cost?
//
// One server, one connection, one client thread. Two paths take the same bytes: /floor parses them
// with simdjson and answers a text of the same size, /filter decides. Calls alternate, so that both
// see the same machine. Three streams:
//   again    the same shape again, 1 % of the nodes changed between calls
//   twenty   twenty shapes in turn, 1 % of the nodes changed between calls
//   new      a shape never seen before, over 500 distinct node states
// For `new` the yardstick is the floor plus one admission per distinct state, measured in the same
// run. Usage: filter_bench [--json] [--calls N] [--nodes 5000,15000]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/judge.h"
#include "extender/scheduler_service.h"
#include "extender/simulated_client.h"
#include "extender/wake_up.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "simdjson.h"
#include "test/extender/http/http_client.h"

namespace numafit::extender {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kDistinctStates = 500;
constexpr std::size_t kBest = 64;

// 40 characters, as long as names of cloud nodes are.
std::string NodeName(int i) {
  return fmt::format("gpu-node-use1-az2-example-internal-{:05}", i);
}

std::string Shape() {
  return R"(apiVersion: numafit.io/v1alpha1
kind: Fleet
shapes:
  - name: two-numa
    kubelet: {version: v1.36.3, topologyManagerPolicy: single-numa-node, topologyManagerScope: container}
    numa:
      - {id: 0, cpus: "0-47", memory: 512Gi}
      - {id: 1, cpus: "48-95", memory: 512Gi}
    devices:
      - {resource: nvidia.com/gpu, numa: 0, count: 4}
      - {resource: nvidia.com/gpu, numa: 1, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 0, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 1, count: 4}
nodes:
)";
}

// What is taken on node i: gpus and adapters of both NUMA nodes; kDistinctStates different ones.
struct Taken {
  int gpu0, rdma0, gpu1, rdma1;
};
Taken TakenOn(int i, int states) {
  const int state = i % states;
  return {state % 5, state / 5 % 5, state / 25 % 5, state / 125 % 5};
}

std::string FleetYaml(int nodes, int states) {
  std::string yaml = Shape();
  for (int i = 0; i < nodes; ++i)
    yaml += fmt::format("  - {{shape: two-numa, name: {}}}\n", NodeName(i));
  yaml += "pods:\n";
  const auto limits = [](int gpu, int rdma) {
    return fmt::format("{{nvidia.com/gpu: {}, device.gpustack.ai/rdma: {}}}", gpu, rdma);
  };
  for (int i = 0; i < nodes; ++i) {
    const Taken taken = TakenOn(i, states);
    yaml += fmt::format(
        "  - {{namespace: d, name: p{0}, node: {1}, containers: ["
        "{{name: a, numa: 0, resources: {{limits: {2}}}}}, "
        "{{name: b, numa: 1, resources: {{limits: {3}}}}}]}}\n",
        i, NodeName(i), limits(taken.gpu0, taken.rdma0), limits(taken.gpu1, taken.rdma1));
  }
  return yaml;
}

// A Pod of the size that kube-scheduler sends (about 4.6 KB with its usual fields).
std::string PodOf(int serial, int gpus, int endpoints) {
  std::string env;
  for (int i = 0; i < 40; ++i) {
    env +=
        fmt::format(R"({}{{"name":"NCCL_SETTING_{}","value":"some-usual-value-of-a-setting-{}"}})",
                    i == 0 ? "" : ",", i, i);
  }
  return fmt::format(
      R"({{"metadata":{{"name":"train-{0}","namespace":"default","uid":"3f0a62d2-aaaa-bbbb-cccc-{0:012}",)"
      R"("resourceVersion":"495","creationTimestamp":"2026-11-29T22:25:50Z","labels":{{"app":"train"}}}},)"
      R"("spec":{{"containers":[{{"name":"main","image":"registry.example/app:1","env":[{3}],"resources":)"
      R"({{"limits":{{"cpu":"8","memory":"16Gi","nvidia.com/gpu":"{1}","device.gpustack.ai/rdma":"{2}"}},)"
      R"("requests":{{"cpu":"8","memory":"16Gi","nvidia.com/gpu":"{1}","device.gpustack.ai/rdma":"{2}"}}}}}}],)"
      R"("restartPolicy":"Always","schedulerName":"default-scheduler","priority":0}},)"
      R"("status":{{"phase":"Pending","qosClass":"Guaranteed"}}}})",
      serial, gpus, endpoints, env);
}

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
};
Percentiles Of(std::vector<double> micros) {
  std::sort(micros.begin(), micros.end());
  const auto at = [&](double share) {
    return micros[static_cast<std::size_t>(share * static_cast<double>(micros.size() - 1))];
  };
  return {at(0.5), at(0.99)};
}

struct Result {
  std::string stream;
  int nodes = 0;
  Percentiles floor;
  Percentiles filter;
  double admission_us = 0;  // per distinct state, stream `new` only
  int states = 0;
  std::size_t bytes = 0;
  [[nodiscard]] double ratio() const { return filter.p50 / floor.p50; }
  // The floor plus one admission per distinct state.
  [[nodiscard]] double yardstick() const { return floor.p50 + admission_us * states; }
};

class Bench {
 public:
  Bench(int nodes, int states, std::size_t shapes)
      : nodes_(nodes), states_(states), verdicts_({shapes}) {
    const absl::StatusOr<cache::FleetFile> file =
        cache::ParseFleetFile(FleetYaml(nodes, states), "bench");
    Check(file.status());
    rules_.strategy = policy::FindScoreStrategy("most-allocated");
    absl::StatusOr<std::unique_ptr<cache::Fleet>> fleet =
        cache::Fleet::FromFile(*file, rules_.classes, {});
    Check(fleet.status());
    fleet_ = *std::move(fleet);
    offers_ = std::make_unique<Offers>(fleet_->size(), 3'000);
    SchedulerService::Options options;
    options.rules = rules_;
    options.best_nodes = kBest;
    options.threads = 1;
    options.now_ms = [this] { return now_ms_; };
    client_ = std::make_unique<SimulatedClient>(*fleet_, pods_, false);
    WakeUp::Options waking;
    waking.now_ms = options.now_ms;
    wake_up_ = std::make_unique<WakeUp>(
        waking, WakeUp::Parts{*fleet_, verdicts_, *client_, metrics_, log_});
    service_ = std::make_unique<SchedulerService>(
        options,
        SchedulerService::Parts{*fleet_, verdicts_, *offers_, pods_, *wake_up_, metrics_, log_});
    for (int i = 0; i < nodes; ++i) {
      names_ += fmt::format("{}\"{}\"", i == 0 ? "" : ",", NodeName(i));
    }
    StartServer();
  }

  // `shapes`: gpus and adapters, in turn. `change`: share of the nodes that change between calls.
  Result Run(const std::string& stream, const std::vector<std::pair<int, int>>& shapes,
             double change, int calls) {
    Result result;
    result.stream = stream;
    result.nodes = nodes_;
    http::RawClient client(server_->port());
    std::vector<double> floor;
    std::vector<double> filter;
    const int warm = static_cast<int>(shapes.size()) * 2 + 20;
    for (int call = -warm; call < calls; ++call) {
      now_ms_ += 10'000;  // offers of earlier calls are over
      const auto& [gpus, endpoints] = shapes[static_cast<std::size_t>(call + warm) % shapes.size()];
      const std::string args = fmt::format(R"({{"Pod":{},"Nodes":null,"NodeNames":[{}]}})",
                                           PodOf(call + warm, gpus, endpoints), names_);
      result.bytes = args.size();
      ChangeNodes(change);
      const bool floor_first = call % 2 == 0;
      if (floor_first) Time(client, "/floor", args, call >= 0 ? &floor : nullptr);
      Time(client, "/filter", args, call >= 0 ? &filter : nullptr);
      if (!floor_first) Time(client, "/floor", args, call >= 0 ? &floor : nullptr);
    }
    result.floor = Of(std::move(floor));
    result.filter = Of(std::move(filter));
    return result;
  }

  // One admission per distinct state, without anything around it, in microseconds.
  double AdmissionMicros(const std::vector<std::pair<int, int>>& shapes) {
    std::vector<double> micros;
    for (int round = 0; round < 20; ++round) {
      for (const auto& [gpus, endpoints] : shapes) {
        const policy::Demand demand = DemandOf(gpus, endpoints);
        const cache::Fleet::ReadGuard guard(*fleet_);
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < states_; ++i) {
          const policy::Judgement judgement =
              cache::JudgeOnNode(*fleet_->State(guard, i), demand, rules_.strategy);
          if (judgement.score < 0) std::abort();
        }
        micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                         states_);
      }
    }
    return Of(std::move(micros)).p50;
  }

  [[nodiscard]] std::size_t DistinctStates() const { return fleet_->stats().distinct_states; }

 private:
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    fmt::print(stderr, "filter_bench: {}\n", std::string(status.message()));
    std::exit(1);
  }

  void StartServer() {
    // The answer that filter gives: best K names.
    floor_answer_ = R"({"Nodes":null,"NodeNames":[)";
    for (std::size_t i = 0; i < kBest; ++i) {
      floor_answer_ += fmt::format("{}\"{}\"", i == 0 ? "" : ",", NodeName(static_cast<int>(i)));
    }
    floor_answer_ += R"(],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""})";
    http::ParkedServer::Options options;
    options.workers = 1;
    server_ = std::make_unique<http::ParkedServer>(options);
    server_->Route(
        "POST", "/floor", http::ParkedServer::Pool::kFast,
        [this](const http::Request& request, http::Response& response) {
          simdjson::dom::element root;
          if (floor_parser_.parse(request.body.data(), request.body.size(), false).get(root) !=
              simdjson::SUCCESS) {
            std::abort();
          }
          response.body.append(floor_answer_);
        });
    server_->Route("POST", "/filter", http::ParkedServer::Pool::kFast,
                   [this](const http::Request& request, http::Response& response) {
                     service_->Filter(request, response);
                   });
    Check(server_->Start("127.0.0.1:0"));
  }

  static void Time(http::RawClient& client, std::string_view path, const std::string& args,
                   std::vector<double>* micros) {
    const std::string request = http::PostRequest(path, args);
    const Clock::time_point start = Clock::now();
    client.Send(request);
    const http::ClientResponse response = client.Read();
    const double took = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    if (response.status != 200 || response.body.find("\"Error\":\"\"") == std::string::npos) {
      Check(absl::InternalError(response.body.substr(0, 300)));
    }
    if (micros != nullptr) micros->push_back(took);
  }

  // A Pod comes to, or leaves, each of some nodes.
  void ChangeNodes(double share) {
    const int count = static_cast<int>(share * nodes_);
    for (int i = 0; i < count; ++i) {
      const int node = static_cast<int>(random_() % static_cast<unsigned>(nodes_));
      api::Pod pod;
      pod.metadata.name = fmt::format("change-{}", node);
      pod.metadata.namespace_ = "default";
      pod.metadata.uid = pod.metadata.name;
      pod.node_name = NodeName(node);
      pod.status.phase = "Running";
      pod.status.container_statuses = 1;
      api::Container& container = pod.containers.emplace_back();
      container.name = "main";
      container.resources.limits["nvidia.com/gpu"] = api::Quantity::FromInt(1);
      if (changed_[static_cast<std::size_t>(node)]) {
        fleet_->DeletePod(pod);
      } else {
        fleet_->UpsertPod(pod);
      }
      changed_[static_cast<std::size_t>(node)] = !changed_[static_cast<std::size_t>(node)];
    }
  }

  policy::Demand DemandOf(int gpus, int endpoints) {
    api::Pod pod;
    api::Container& container = pod.containers.emplace_back();
    container.resources.limits["nvidia.com/gpu"] = api::Quantity::FromInt(gpus);
    container.resources.limits["device.gpustack.ai/rdma"] = api::Quantity::FromInt(endpoints);
    PodQuestion question;
    Check(AskAboutPod(pod, rules_, &question));
    return question.demand;
  }

  const int nodes_;
  const int states_;
  std::int64_t now_ms_ = 0;
  std::mt19937 random_{7};
  std::vector<bool> changed_ = std::vector<bool>(static_cast<std::size_t>(nodes_));
  PodRules rules_;
  std::unique_ptr<cache::Fleet> fleet_;
  cache::VerdictStore verdicts_;
  std::unique_ptr<Offers> offers_;
  PodMemory pods_{16 * 1024};
  Metrics metrics_;
  DecisionLog log_{{LogLevel::kOff, 0}};
  std::unique_ptr<SimulatedClient> client_;
  std::unique_ptr<WakeUp> wake_up_;
  std::unique_ptr<SchedulerService> service_;
  std::string names_;
  std::string floor_answer_;
  simdjson::dom::parser floor_parser_;
  std::unique_ptr<http::ParkedServer> server_;
};

std::vector<std::pair<int, int>> TwentyShapes() {
  std::vector<std::pair<int, int>> shapes;
  for (int gpus = 1; gpus <= 4; ++gpus) {
    for (int endpoints = 0; endpoints <= 4; ++endpoints) shapes.emplace_back(gpus, endpoints);
  }
  return shapes;
}

std::vector<Result> RunAll(const std::vector<int>& sizes, int calls) {
  std::vector<Result> results;
  for (const int nodes : sizes) {
    {
      Bench bench(nodes, 20, 256);
      results.push_back(bench.Run("again", {{2, 2}}, 0.01, calls));
      results.push_back(bench.Run("twenty", TwentyShapes(), 0.01, calls));
    }
    // One shape is kept, so that every call meets one that is not known (any more).
    Bench bench(nodes, kDistinctStates, 1);
    const std::vector<std::pair<int, int>> shapes = {{1, 1}, {2, 2}, {1, 2}, {2, 1}};
    Result result = bench.Run("new", shapes, 0, calls / 2);
    result.states = static_cast<int>(bench.DistinctStates());
    result.admission_us = bench.AdmissionMicros(shapes);
    results.push_back(result);
  }
  return results;
}

void Print(const std::vector<Result>& results) {
  fmt::print("{:<8} {:>6}  {:>17}  {:>17}  {:>6}  {}\n", "STREAM", "NODES", "FLOOR p50/p99 us",
             "FILTER p50/p99 us", "RATIO", "");
  for (const Result& r : results) {
    std::string note;
    if (r.states > 0) {
      note = fmt::format("floor + {} states x {:.2f} us = {:.0f} us; filter is {:.2f} of that",
                         r.states, r.admission_us, r.yardstick(), r.filter.p50 / r.yardstick());
    }
    fmt::print("{:<8} {:>6}  {:>8.0f}/{:>8.0f}  {:>8.0f}/{:>8.0f}  {:>6.2f}  {}\n", r.stream,
               r.nodes, r.floor.p50, r.floor.p99, r.filter.p50, r.filter.p99, r.ratio(), note);
  }
}

void PrintJson(const std::vector<Result>& results) {
  nlohmann::json out = nlohmann::json::array();
  for (const Result& r : results) {
    nlohmann::json item = {{"stream", r.stream},
                           {"nodes", r.nodes},
                           {"requestBytes", r.bytes},
                           {"floorMicros", {{"p50", r.floor.p50}, {"p99", r.floor.p99}}},
                           {"filterMicros", {{"p50", r.filter.p50}, {"p99", r.filter.p99}}},
                           {"ratio", r.ratio()}};
    if (r.states > 0) {
      item["distinctStates"] = r.states;
      item["admissionMicros"] = r.admission_us;
      item["floorAndAdmissionsMicros"] = r.yardstick();
    }
    out.push_back(item);
  }
  fmt::print("{}\n", out.dump(2));
}

}  // namespace
}  // namespace numafit::extender

int main(int argc, char** argv) {
  bool as_json = false;
  int calls = 2'000;
  std::vector<int> sizes = {5'000, 15'000};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      as_json = true;
    } else if (word == "--calls" && i + 1 < argc) {
      calls = std::atoi(argv[++i]);
    } else if (word == "--nodes" && i + 1 < argc) {
      sizes.clear();
      for (char* text = argv[++i]; *text != '\0'; text += *text == ',' ? 1 : 0) {
        sizes.push_back(static_cast<int>(std::strtol(text, &text, 10)));
        if (*text != ',' && *text != '\0') break;
      }
    } else {
      fmt::print(stderr, "usage: filter_bench [--json] [--calls N] [--nodes 5000,15000]\n");
      return 2;
    }
  }
  if (calls < 100 || sizes.empty() || *std::min_element(sizes.begin(), sizes.end()) < 500) {
    fmt::print(stderr, "filter_bench: needs at least 100 calls and 500 nodes\n");
    return 2;
  }
  const std::vector<numafit::extender::Result> results = numafit::extender::RunAll(sizes, calls);
  if (as_json) {
    numafit::extender::PrintJson(results);
  } else {
    numafit::extender::Print(results);
  }
  return 0;
}
