// The client by hand: one call, and one line that says how it went ("OK" or "CODE: message").
// Watches write a line for each thing that they deliver, until standard input ends.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/node_report.pb.h"
#include "kube/client.h"

namespace numafit::kube {
namespace {

using Words = std::vector<std::string>;

std::string ReadInput() {
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

int Tell(const absl::Status& status) {
  std::cout << (status.ok() ? "OK" : status.ToString()) << std::endl;
  return status.ok() ? 0 : 1;
}

std::string Describe(const api::Pod& pod) {
  return fmt::format("{} node={} phase={}", pod.FullName(), pod.node_name, pod.status.phase);
}
std::string Describe(const api::Node& node) {
  std::string text = fmt::format("{} kubelet={} unschedulable={}", node.metadata.name,
                                 node.kubelet_version, node.unschedulable);
  for (const auto& [name, amount] : node.allocatable) {
    text += fmt::format(" {}={}", name, amount.ToString());
  }
  for (const auto& condition : node.conditions) {
    text += fmt::format(" {}={}", condition.type, condition.status);
  }
  for (const auto& [key, value] : node.metadata.annotations) {
    if (key.starts_with("numafit.io/")) text += fmt::format(" {}={}", key, value);
  }
  return text;
}
std::string Describe(const api::NodeReport& report) {
  return fmt::format("{} {}", report.metadata.name,
                     report.status == nullptr
                         ? "problem=" + report.problem.ToString()
                         : fmt::format("generation={}", report.status->generation()));
}

template <typename T>
int Follow(Client& client,
           std::unique_ptr<Watch> (*watch)(Client&, WatchOptions, WatchHandlers<T>)) {
  WatchHandlers<T> handlers;
  handlers.on_list = [](std::vector<T> items) {
    for (const T& item : items) std::cout << "item " << Describe(item) << "\n";
    std::cout << "list " << items.size() << std::endl;
  };
  handlers.on_upsert = [](T item) { std::cout << "put " << Describe(item) << std::endl; };
  handlers.on_delete = [](T item) { std::cout << "del " << Describe(item) << std::endl; };
  handlers.on_state = [](const absl::Status& status) {
    std::cout << "state " << status << std::endl;
  };
  const auto running = watch(client, {}, std::move(handlers));
  ReadInput();
  return 0;
}

int Apply(Client& client) {
  const auto report = api::NodeReportFromJson(ReadInput());
  return Tell(report.ok() ? client.ApplyNodeReport(*report) : report.status());
}

int PostEvent(Client& client, const Words& words) {
  return Tell(client.PostEvent({.kind = words.at(0),
                                .object_namespace = words.at(1) == "-" ? "" : words.at(1),
                                .name = words.at(2),
                                .uid = words.at(3),
                                .reason = words.at(4),
                                .action = "",
                                .note = words.at(5),
                                .warning = true,
                                .controller = "numafit.io/probe",
                                .instance = "probe",
                                .time_micros = absl::ToUnixMicros(absl::Now())}));
}

struct Verb {
  std::string arguments;
  std::size_t count;
  std::function<int(Client&, const Words&)> run;
};

const std::map<std::string, Verb>& Verbs() {
  static const auto& verbs = *new std::map<std::string, Verb>{
      {"watch-pods", {"", 0, [](Client& c, const Words&) { return Follow(c, WatchPods); }}},
      {"watch-nodes", {"", 0, [](Client& c, const Words&) { return Follow(c, WatchNodes); }}},
      {"watch-reports",
       {"", 0, [](Client& c, const Words&) { return Follow(c, WatchNodeReports); }}},
      {"apply-report", {"<REPORT.json", 0, [](Client& c, const Words&) { return Apply(c); }}},
      {"get-report",
       {"NODE", 1, [](Client& c, const Words& w) { return Tell(c.GetNodeReport(w[0]).status()); }}},
      {"get-pod",
       {"NAMESPACE NAME", 2,
        [](Client& c, const Words& w) { return Tell(c.GetPod(w[0], w[1]).status()); }}},
      {"annotate-pod",
       {"NAMESPACE NAME UID KEY VALUE", 5,
        [](Client& c, const Words& w) {
          return Tell(c.AnnotatePod(w[0], w[1], w[2], w[3], w[4]));
        }}},
      {"bind",
       {"NAMESPACE NAME UID NODE", 4,
        [](Client& c, const Words& w) {
          return Tell(c.Bind({.pod_namespace = w[0],
                              .pod_name = w[1],
                              .pod_uid = w[2],
                              .node = w[3],
                              .annotations = {{"numafit.io/placement", "{}"}}}));
        }}},
      {"event", {"KIND NAMESPACE|- NAME UID REASON NOTE", 6, PostEvent}},
  };
  return verbs;
}

int Main(const Words& words) {
  const auto verb = words.size() < 2 ? Verbs().end() : Verbs().find(words[1]);
  if (verb == Verbs().end() || words.size() != verb->second.count + 2) {
    std::cerr << "usage: kube_probe KUBECONFIG VERB [ARGUMENT...]\n";
    for (const auto& [name, known] : Verbs()) {
      std::cerr << "  " << name << " " << known.arguments << "\n";
    }
    return 2;
  }
  absl::StatusOr<Credentials> credentials = LoadKubeconfig(words[0]);
  if (!credentials.ok()) return Tell(credentials.status());
  const auto client = Client::Create(*std::move(credentials), {});
  if (!client.ok()) return Tell(client.status());
  return verb->second.run(**client, Words(words.begin() + 2, words.end()));
}

}  // namespace
}  // namespace numafit::kube

int main(int argc, char** argv) {
  return numafit::kube::Main({argv + 1, argv + argc});
}
