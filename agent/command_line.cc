#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "agent/config.h"

namespace numafit::agent {
namespace {

struct Flag {
  std::string_view name;
  std::string_view value_name;  // empty: a switch
  std::string_view help;
  std::function<void(const std::string& value, CommandLine* line)> apply;
};

const std::vector<Flag>& Flags() {
  static const std::vector<Flag> flags = {
      {"config", "FILE", "configuration, kind AgentConfiguration (docs/agent.md)", {}},
      {"print", "", "write the report to standard output as YAML and end; needs no cluster",
       [](const std::string&, CommandLine* line) { line->print = true; }},
      {"watch", "", "with --print: go on, and write each report that differs",
       [](const std::string&, CommandLine* line) { line->watch = true; }},
      {"node-name", "NAME", "name of the Node (default: $NODE_NAME, else the host's name)",
       [](const std::string& value, CommandLine* line) { line->config.node_name = value; }},
      {"kubeconfig", "FILE", "credentials for the API server (default: the Pod's own account)",
       [](const std::string& value, CommandLine* line) { line->config.kubeconfig = value; }},
      {"root", "FOLDER", "what stands for / of the host",
       [](const std::string& value, CommandLine* line) { line->config.root = value; }},
      {"sys", "FOLDER", "what stands for /sys (default: below the root)",
       [](const std::string& value, CommandLine* line) { line->config.sys = value; }},
      {"proc", "FOLDER", "what stands for /proc (default: below the root)",
       [](const std::string& value, CommandLine* line) { line->config.proc = value; }},
      {"kubelet-dir", "FOLDER",
       "the kubelet's root folder (default: /var/lib/kubelet below the root)",
       [](const std::string& value, CommandLine* line) { line->config.kubelet = value; }},
      {"kubelet-url", "URL", "the kubelet's address for configz, https://127.0.0.1:10250",
       [](const std::string& value, CommandLine* line) { line->config.kubelet_url = value; }},
      {"health-address", "HOST:PORT",
       "where /healthz and /readyz are served (\":8089\": on every address); not with --print",
       [](const std::string& value, CommandLine* line) { line->config.health_address = value; }},
      {"help", "", "this text", [](const std::string&, CommandLine* line) { line->help = true; }},
      {"version", "", "print the version",
       [](const std::string&, CommandLine* line) { line->version = true; }},
  };
  return flags;
}

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : Flags()) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

struct Given {
  const Flag* flag;
  std::string value;
};

absl::StatusOr<std::vector<Given>> Split(const std::vector<std::string>& words) {
  std::vector<Given> given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      return absl::InvalidArgumentError(fmt::format("unexpected argument \"{}\"", word));
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr) {
      return absl::InvalidArgumentError(fmt::format("unknown flag --{} (see --help)", name));
    }
    if (flag->value_name.empty()) {
      if (equals != std::string::npos) {
        return absl::InvalidArgumentError(fmt::format("--{} takes no value", name));
      }
      given.push_back({flag, ""});
    } else if (equals != std::string::npos) {
      given.push_back({flag, word.substr(equals + 1)});
    } else if (i + 1 < words.size()) {
      given.push_back({flag, words[++i]});
    } else {
      return absl::InvalidArgumentError(fmt::format("--{} needs a value", name));
    }
  }
  return given;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& words) {
  const absl::StatusOr<std::vector<Given>> given = Split(words);
  if (!given.ok()) return given.status();
  CommandLine line;
  for (const Given& item : *given) {
    if (item.flag->name != "config") continue;
    const absl::Status status = ApplyConfigFile(item.value, &line.config);
    if (!status.ok()) return status;
  }
  for (const Given& item : *given) {
    if (item.flag->apply) item.flag->apply(item.value, &line);
  }
  if (line.watch && !line.print) return absl::InvalidArgumentError("--watch needs --print");
  return line;
}

std::string HelpText() {
  std::string text =
      "numafit-agent: reports what one node has and who holds it: devices by NUMA node and "
      "endpoint, CPUs,\nmemory, the kubelet's configuration.\n\n"
      "Usage: numafit-agent [flags]\n\n"
      "  numafit-agent --print                     this machine, once\n"
      "  numafit-agent --kubeconfig FILE           publish to the API server until SIGTERM\n"
      "  numafit-agent --print --root /host        a host whose / is mounted there\n\n"
      "With --print the exit code is 0 when every source could be read, 1 when some could not "
      "(the\n"
      "report says which and why), 2 for bad input.\n\nFlags:\n";
  for (const Flag& flag : Flags()) {
    const std::string left =
        fmt::format("--{}{}{}", flag.name, flag.value_name.empty() ? "" : " ", flag.value_name);
    text += fmt::format("  {:<24} {}\n", left, flag.help);
  }
  return text;
}

}  // namespace numafit::agent
