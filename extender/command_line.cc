#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/quantity.h"
#include "extender/config.h"
#include "fmt/format.h"

namespace numafit::extender {
namespace {

struct Flag {
  std::string_view name;
  std::string_view value_name;  // empty: a switch
  std::string_view help;
  std::function<absl::Status(const std::string&, Config*)> apply;
};

absl::Status ReadInt(const std::string& text, std::int64_t min, std::int64_t max,
                     std::int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error != std::errc() || end != text.data() + text.size() || *out < min || *out > max) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not a number from {} to {}", text, min, max));
  }
  return absl::OkStatus();
}

template <typename T>
auto IntInto(T Config::*member, std::int64_t min, std::int64_t max) {
  return [=](const std::string& text, Config* config) {
    std::int64_t value = 0;
    absl::Status status = ReadInt(text, min, max, &value);
    if (status.ok()) config->*member = static_cast<T>(value);
    return status;
  };
}

auto TextInto(std::string Config::*member) {
  return [=](const std::string& text, Config* config) {
    config->*member = text;
    return absl::OkStatus();
  };
}

auto SwitchInto(bool Config::*member) {
  return [=](const std::string&, Config* config) {
    config->*member = true;
    return absl::OkStatus();
  };
}

absl::Status ReadBodyLimit(const std::string& text, Config* config) {
  const absl::StatusOr<api::Quantity> bytes = api::Quantity::Parse(text);
  if (!bytes.ok() || bytes->value() < 1) {
    return absl::InvalidArgumentError(fmt::format("\"{}\" is no number of bytes (16Mi)", text));
  }
  config->body_limit = static_cast<std::size_t>(bytes->value());
  config->buffer_limit = std::max(config->buffer_limit, config->body_limit);
  return absl::OkStatus();
}

absl::Status ReadInventory(const std::string& text, Config* config) {
  if (text != "file" && text != "reports") {
    return absl::InvalidArgumentError(fmt::format("\"{}\" is not one of file, reports", text));
  }
  config->inventory_from_reports = text == "reports";
  return absl::OkStatus();
}

absl::Status ReadLogLevel(const std::string& text, Config* config) {
  if (ParseLogLevel(text, &config->log_level)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not one of debug, info, warn, error, off", text));
}

const std::vector<Flag>& Flags() {
  static const auto& flags = *new std::vector<Flag>{
      {"config", "FILE", "ExtenderConfiguration (YAML); flags override it", nullptr},
      {"inventory", "SOURCE", "file (the fleet file), or reports (NodeReports of the agents)",
       ReadInventory},
      {"node-resource-topology", "",
       "with reports: judge nodes without one by their NodeResourceTopology (counts only)",
       SwitchInto(&Config::node_resource_topology)},
      {"fleet", "FILE", "fleet file with the nodes' inventory; default: the embedded one",
       TextInto(&Config::fleet)},
      {"kubeconfig", "FILE", "credentials for the API server; default: the Pod's own account",
       TextInto(&Config::kubeconfig)},
      {"no-cluster", "", "no API server: judge the fleet file alone, bind answers an error",
       SwitchInto(&Config::no_cluster)},
      {"simulate-binds", "", "with --no-cluster: keep Pods as bound in memory",
       SwitchInto(&Config::simulate_binds)},
      {"listen", "ADDRESS", "for kube-scheduler (127.0.0.1:8888)", TextInto(&Config::listen)},
      {"read-listen", "ADDRESS", "for the read API (127.0.0.1:8889); empty: none",
       TextInto(&Config::read_listen)},
      {"workers", "N", "threads for filter and prioritize; 0: one per CPU, 2 to 8",
       IntInto(&Config::workers, 0, 256)},
      {"bind-workers", "N", "binds in parallel (16)", IntInto(&Config::bind_workers, 1, 256)},
      {"body-limit", "BYTES", "largest request body (16Mi); whole Node objects need 10 KiB a node",
       ReadBodyLimit},
      {"best-nodes", "N", "nodes that filter answers with (64); 0: all that fit",
       IntInto(&Config::best_nodes, 0, 1'000'000)},
      {"score-strategy", "NAME", "most-allocated, least-allocated or fewest-numa",
       TextInto(&Config::score_strategy)},
      {"log-level", "LEVEL", "debug, info, warn, error or off (info)", ReadLogLevel},
      {"log-decisions", "N", "decision lines a second (100); 0: no limit",
       IntInto(&Config::log_decisions_per_second, 0, 1'000'000)},
      {"version", "", "print the version", nullptr},
      {"help", "", "print this", nullptr},
  };
  return flags;
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
    const Flag* found = nullptr;
    for (const Flag& flag : Flags()) {
      if (flag.name == name) found = &flag;
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(fmt::format("unknown flag --{} (see --help)", name));
    }
    if (found->value_name.empty()) {
      if (equals != std::string::npos) {
        return absl::InvalidArgumentError(fmt::format("--{} takes no value", name));
      }
      given.push_back({found, ""});
    } else if (equals != std::string::npos) {
      given.push_back({found, word.substr(equals + 1)});
    } else if (i + 1 < words.size()) {
      given.push_back({found, words[++i]});
    } else {
      return absl::InvalidArgumentError(fmt::format("--{} needs a value", name));
    }
  }
  return given;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& words) {
  CommandLine line;
  const absl::StatusOr<std::vector<Given>> given = Split(words);
  if (!given.ok()) return given.status();
  for (const Given& item : *given) {
    line.help |= item.flag->name == "help";
    line.version |= item.flag->name == "version";
    if (item.flag->name != "config") continue;
    const absl::Status status = ApplyConfigFile(item.value, &line.config);
    if (!status.ok()) return status;
  }
  if (line.help || line.version) return line;
  for (const Given& item : *given) {
    if (!item.flag->apply) continue;
    const absl::Status status = item.flag->apply(item.value, &line.config);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--{}: {}", item.flag->name, std::string(status.message())));
    }
  }
  const absl::Status status = Validate(line.config);
  if (!status.ok()) return status;
  return line;
}

std::string HelpText() {
  std::string text =
      "numafit-extender: a kube-scheduler extender that keeps accelerators and RDMA endpoints on "
      "one NUMA node.\n\n"
      "Usage: numafit-extender [flags]\n\n"
      "  numafit-extender --no-cluster --simulate-binds        try it without a cluster\n"
      "  numafit-extender --kubeconfig FILE --fleet fleet.yaml\n\nFlags:\n";
  for (const Flag& flag : Flags()) {
    const std::string left =
        fmt::format("--{}{}{}", flag.name, flag.value_name.empty() ? "" : " ", flag.value_name);
    text += fmt::format("  {:<24} {}\n", left, flag.help);
  }
  return text;
}

}  // namespace numafit::extender
