#include "cli/doctor/scheduler_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "api/resource_class.h"
#include "api/yaml_tree.h"
#include "cli/arguments.h"
#include "cli/doctor/fields.h"

namespace numafit::cli::doctor {
namespace {

using nlohmann::json;

constexpr std::string_view kApiVersion = "kubescheduler.config.k8s.io/v1";
// All nodes are looked at below this (schedule_one.go, minFeasibleNodesToFind).
constexpr std::size_t kSmallFleet = 100;
// Points of the scheduler's default score plugins in all; ours are 10 times the weight each
// (scheduler-config/README.md).
constexpr std::int64_t kPluginPoints = 1400;
constexpr std::int64_t kGoodWeight = 150;
// Of an extender with default settings: how long a bind may take.
constexpr absl::Duration kBindTimeout = absl::Seconds(4);
constexpr absl::Duration kLongTimeout = absl::Seconds(15);

constexpr std::array<std::string_view, 12> kExtenderKeys = {
    "urlPrefix",   "filterVerb",       "preemptVerb",      "prioritizeVerb",
    "weight",      "bindVerb",         "enableHTTPS",      "tlsConfig",
    "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable"};

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

// http://HOST:PORT/PATH
struct Url {
  std::string scheme;
  std::string host;
  std::string path;  // without slashes at its ends
};

Url SplitUrl(const std::string& text) {
  Url url;
  const std::size_t colon = text.find("://");
  if (colon == std::string::npos) return url;
  url.scheme = text.substr(0, colon);
  const std::string rest = text.substr(colon + 3);
  const std::size_t slash = rest.find('/');
  const std::string authority = rest.substr(0, slash);
  const std::size_t port = authority.rfind(':');
  const bool has_port = port != std::string::npos && authority.find(']', port) == std::string::npos;
  url.host = authority.substr(0, has_port ? port : std::string::npos);
  if (slash != std::string::npos) url.path = rest.substr(slash + 1);
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

// The entry of numafit among the extenders; null: cannot be told.
const json* FindExtender(const json& extenders, const std::string& wanted, std::size_t* index) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < extenders.size(); ++i) {
    const std::string url = Text(extenders[i], "urlPrefix");
    const bool looks_like_it = url.find("numafit") != std::string::npos || url.ends_with(":8888") ||
                               url.ends_with(":8888/");
    if (wanted.empty() ? looks_like_it || extenders.size() == 1 : url == wanted) {
      candidates.push_back(i);
    }
  }
  if (candidates.size() != 1) return nullptr;
  *index = candidates.front();
  return &extenders[*index];
}

class SchedulerFile {
 public:
  SchedulerFile(const json& document, const SchedulerFileOptions& options, Findings* findings)
      : document_(document), options_(options), findings_(*findings) {}

  void Check() {
    CheckVersion();
    CheckPercentage();
    CheckIgnoredResources();
    const json& extenders = List(document_, "extenders");
    if (extenders.empty()) {
      findings_.Fail("extender-missing",
                     Place("extenders") + " names none: kube-scheduler never asks numafit",
                     "copy the extenders entry of scheduler-config/trial.yaml or tls.yaml");
      return;
    }
    std::size_t index = 0;
    const json* found = FindExtender(extenders, options_.extender_url, &index);
    if (found == nullptr) {
      findings_.Fail("extender-missing",
                     fmt::format("{} has {} entries, and which one is numafit cannot be told",
                                 Place("extenders"), extenders.size()),
                     "name its urlPrefix with --extender URL");
      return;
    }
    path_ = fmt::format("extenders[{}]", index);
    extender_ = found;
    CheckOtherBinders(extenders, index);
    CheckKeys();
    CheckUrl();
    CheckVerbs();
    CheckBehaviour();
    CheckTimeout();
    CheckWeight();
    CheckManagedResources();
  }

 private:
  [[nodiscard]] std::string Place(std::string_view field) const {
    return fmt::format("{}: {}", options_.file, field);
  }
  [[nodiscard]] std::string OfExtender(std::string_view field) const {
    return Place(fmt::format("{}.{}", path_, field));
  }

  void CheckVersion() {
    const std::string version = Text(document_, "apiVersion");
    if (version == kApiVersion) {
      findings_.Ok("scheduler-api-version", Place("apiVersion is ") + version);
      return;
    }
    findings_.Fail("scheduler-api-version",
                   fmt::format("{} is \"{}\": no supported kube-scheduler reads it",
                               Place("apiVersion"), version),
                   fmt::format("write {}", kApiVersion));
  }

  void CheckPercentage() {
    const std::int64_t global = Int(document_, "percentageOfNodesToScore");
    std::vector<std::string> sampled;
    std::vector<std::string> complete;
    const auto add = [&](std::string name, std::int64_t percentage) {
      (percentage == 100 ? complete : sampled).push_back(std::move(name));
    };
    for (const json& profile : List(document_, "profiles")) {
      const std::string name = Text(profile, "schedulerName");
      add(name.empty() ? "default-scheduler" : name,
          Int(profile, "percentageOfNodesToScore", global));
    }
    if (List(document_, "profiles").empty()) add("default-scheduler", global);
    if (sampled.empty()) {
      findings_.Ok("sampled-nodes", "every profile looks at all nodes");
      return;
    }
    const std::string names = fmt::format("{}", fmt::join(sampled, ", "));
    if (!complete.empty()) {
      findings_.Ok("sampled-nodes",
                   fmt::format("profile {} looks at all nodes; {} at a sample: Pods that need "
                               "devices together belong to the former",
                               complete.front(), names));
      return;
    }
    if (options_.fleet != nullptr) {
      const std::size_t nodes = List(*options_.fleet, "nodes").size();
      if (nodes > 0 && nodes < kSmallFleet) {
        findings_.Ok("sampled-nodes",
                     fmt::format("{} nodes: kube-scheduler looks at all of fewer than {}", nodes,
                                 kSmallFleet));
        return;
      }
    }
    findings_.Warn("sampled-nodes",
                   fmt::format("{} is not 100 for profile {}: with {} nodes or more kube-scheduler "
                               "offers a sample, the best node is often not in it, and the one "
                               "node that fits is found by further attempts only",
                               Place("percentageOfNodesToScore"), names, kSmallFleet),
                   "set percentageOfNodesToScore: 100 in the profile");
  }

  // NodeResourcesFitArgs: the scheduler does not count these.
  void CheckIgnoredResources() {
    const api::ResourceClasses classes;
    for (const json& profile : List(document_, "profiles")) {
      for (const json& plugin : List(profile, "pluginConfig")) {
        for (const json& ignored : List(At(plugin, "args"), "ignoredResources")) {
          const std::string name = ignored.is_string() ? ignored.get<std::string>() : "";
          if (classes.Classify(name) == api::ResourceKind::kOther) continue;
          findings_.Fail(
              "resource-not-counted",
              fmt::format("{} has {}: kube-scheduler does not count it, so nodes are "
                          "offered, and Pods without numafit bound, beyond what is there",
                          Place("ignoredResources of NodeResourcesFit"), name),
              "take it out of ignoredResources");
        }
      }
    }
  }

  void CheckOtherBinders(const json& extenders, std::size_t own) {
    for (std::size_t i = 0; i < extenders.size(); ++i) {
      if (i == own || Text(extenders[i], "bindVerb").empty()) continue;
      findings_.Fail(
          "second-binder",
          fmt::format("{} has a bindVerb as well: kube-scheduler starts with one "
                      "binder at most",
                      Place(fmt::format("extenders[{}]", i))),
          "leave bindVerb to numafit: its gate is what keeps two Pods off the same room");
    }
  }

  void CheckKeys() {
    bool fine = true;
    for (const auto& [key, value] : extender_->items()) {
      if (std::find(kExtenderKeys.begin(), kExtenderKeys.end(), key) != kExtenderKeys.end()) {
        continue;
      }
      fine = false;
      const std::string nearest = Nearest(key, kExtenderKeys);
      findings_.Fail("extender-unknown-field",
                     OfExtender(key) + " is no field of an extender: kube-scheduler does not start",
                     nearest.empty() ? "take it out" : fmt::format("did you mean {}?", nearest));
    }
    if (fine) findings_.Ok("extender-unknown-field", OfExtender("*: every field is known"));
  }

  void CheckUrl() {
    const std::string text = Text(*extender_, "urlPrefix");
    const Url url = SplitUrl(text);
    if ((url.scheme != "http" && url.scheme != "https") || url.host.empty()) {
      findings_.Fail("extender-url",
                     fmt::format("{} is \"{}\", no URL", OfExtender("urlPrefix"), text),
                     "write http://HOST:PORT or https://HOST:PORT");
      return;
    }
    if (!url.path.empty()) {
      findings_.Warn("extender-url",
                     fmt::format("{} has the path /{}: numafit serves /filter, /prioritize, "
                                 "/preempt and /bind without one",
                                 OfExtender("urlPrefix"), url.path),
                     "leave the path out, unless a proxy takes it away");
    } else {
      findings_.Ok("extender-url", OfExtender("urlPrefix is ") + text);
    }
    CheckTls(url);
  }

  void CheckTls(const Url& url) {
    const bool https_on = Bool(*extender_, "enableHTTPS");
    const json& tls = At(*extender_, "tlsConfig");
    if (url.scheme == "http" && (https_on || tls.is_object())) {
      findings_.Fail("extender-tls",
                     fmt::format("{} begins with http:// although TLS is set up: the scheme stays "
                                 "what it is, and nothing is encrypted",
                                 OfExtender("urlPrefix")),
                     "write https:// in urlPrefix");
    } else if (url.scheme == "http" && !IsLoopback(url.host)) {
      findings_.Warn(
          "extender-tls",
          fmt::format("{} is plain HTTP to {}: whoever is on the way can bind Pods",
                      OfExtender("urlPrefix"), url.host),
          "use TLS (scheduler-config/tls.yaml), or run the extender beside the scheduler");
    } else if (url.scheme == "https" && https_on && Text(tls, "caFile").empty() &&
               Text(tls, "caData").empty()) {
      findings_.Warn(
          "extender-tls",
          OfExtender("tlsConfig") + " has no caFile: kube-scheduler accepts any certificate then",
          "name the authority that signed the extender's certificate in caFile");
    } else {
      findings_.Ok("extender-tls", OfExtender("urlPrefix") + ": the way to numafit is safe");
    }
  }

  void CheckVerbs() {
    struct Verb {
      const char* field;
      const char* path;
      Severity without;
      const char* consequence;
    };
    static constexpr std::array<Verb, 4> kVerbs = {{
        {"filterVerb", "filter", Severity::kFail,
         "nodes are chosen without regard to NUMA nodes, and kubelets refuse the Pods"},
        {"bindVerb", "bind", Severity::kFail,
         "two Pods that are offered the same room are both bound to it"},
        {"prioritizeVerb", "prioritize", Severity::kWarn,
         "Pods go to any node that fits, and break up NUMA nodes that larger ones will need"},
        {"preemptVerb", "preempt", Severity::kWarn,
         "kube-scheduler kills Pods for room that is not together on one NUMA node"},
    }};
    bool fine = true;
    for (const Verb& verb : kVerbs) {
      const std::string value = Text(*extender_, verb.field);
      if (value == verb.path) continue;
      fine = false;
      const std::string fix = fmt::format("set {}: {}", verb.field, verb.path);
      if (!value.empty()) {
        findings_.Fail("extender-verbs",
                       fmt::format("{} is \"{}\": numafit serves /{}", OfExtender(verb.field),
                                   value, verb.path),
                       fix);
      } else if (verb.without == Severity::kFail) {
        findings_.Fail("extender-verbs",
                       fmt::format("{} is not set: {}", OfExtender(verb.field), verb.consequence),
                       fix);
      } else {
        findings_.Warn("extender-verbs",
                       fmt::format("{} is not set: {}", OfExtender(verb.field), verb.consequence),
                       fix);
      }
    }
    if (fine) findings_.Ok("extender-verbs", "filter, prioritize, preempt and bind go to numafit");
  }

  void CheckBehaviour() {
    if (Bool(*extender_, "ignorable")) {
      findings_.Fail("extender-ignorable",
                     OfExtender("ignorable") +
                         " is true: while numafit does not answer Pods are bound without it, and "
                         "kubelets refuse them",
                     "set ignorable: false; Pods wait then");
    } else {
      findings_.Ok("extender-ignorable", "while numafit does not answer Pods wait");
    }
    if (!Bool(*extender_, "nodeCacheCapable")) {
      findings_.Warn("extender-node-names",
                     OfExtender("nodeCacheCapable") +
                         " is not true: requests carry whole Node objects, a thousand times the "
                         "size, and the scheduler's own scores see every node as empty",
                     "set nodeCacheCapable: true");
    } else {
      findings_.Ok("extender-node-names", "requests carry node names only");
    }
  }

  void CheckTimeout() {
    const json& value = At(*extender_, "httpTimeout");
    absl::Duration timeout = absl::Seconds(5);
    if (value.is_string()) {
      if (!absl::ParseDuration(value.get<std::string>(), &timeout)) {
        findings_.Fail("extender-timeout",
                       fmt::format("{} is \"{}\", no duration", OfExtender("httpTimeout"),
                                   value.get<std::string>()),
                       "write 5s");
        return;
      }
      if (timeout == absl::ZeroDuration()) timeout = absl::Seconds(5);
    } else if (!value.is_null()) {
      findings_.Fail("extender-timeout",
                     fmt::format("{} is {}, a duration is text with a unit: kube-scheduler does "
                                 "not start",
                                 OfExtender("httpTimeout"), value.dump()),
                     "write 5s");
      return;
    }
    const std::string text = absl::FormatDuration(timeout);
    if (timeout <= kBindTimeout) {
      findings_.Warn(
          "extender-timeout",
          fmt::format("{} is {}: numafit may take 4 s for a bind (bindTimeout), and a "
                      "bind that is given up may have happened",
                      OfExtender("httpTimeout"), text),
          "set httpTimeout: 5s, or lower the extender's bindTimeoutMilliseconds with it");
    } else if (timeout > kLongTimeout) {
      findings_.Warn("extender-timeout",
                     fmt::format("{} is {}: filter runs in the scheduler's only loop, and an "
                                 "extender that hangs holds up every Pod for as long",
                                 OfExtender("httpTimeout"), text),
                     "set httpTimeout: 5s");
    } else {
      findings_.Ok("extender-timeout", "one call may take " + text);
    }
  }

  void CheckWeight() {
    if (Text(*extender_, "prioritizeVerb").empty()) return;
    const std::int64_t weight = Int(*extender_, "weight");
    if (weight <= 0) {
      findings_.Fail("extender-weight",
                     OfExtender("weight") +
                         " is not above 0: kube-scheduler does not start with a prioritizeVerb",
                     fmt::format("set weight: {}", kGoodWeight));
    } else if (weight * 10 <= kPluginPoints) {
      findings_.Warn("extender-weight",
                     fmt::format("{} is {}: one point of numafit counts {}, the scheduler's own "
                                 "plugins up to {}; they spread Pods over NUMA nodes that larger "
                                 "ones will need",
                                 OfExtender("weight"), weight, weight * 10, kPluginPoints),
                     fmt::format("set weight: {}, unless spreading matters more", kGoodWeight));
    } else {
      findings_.Ok("extender-weight", "numafit's ranking decides");
    }
  }

  // The accelerators and endpoints that the fleet has.
  [[nodiscard]] std::set<std::string> FleetResources() const {
    std::set<std::string> names;
    if (options_.fleet == nullptr) return names;
    for (const json& node : List(*options_.fleet, "nodes")) {
      for (const char* kind : {"accelerators", "endpoints"}) {
        for (const json& resource : List(node, kind)) names.insert(Text(resource, "resource"));
      }
    }
    return names;
  }

  void CheckManagedResources() {
    const json& managed = List(*extender_, "managedResources");
    if (managed.empty()) {
      findings_.Ok("managed-resources", "numafit is asked about every Pod");
      return;
    }
    std::set<std::string> names;
    bool fine = true;
    for (const json& entry : managed) {
      const std::string name = Text(entry, "name");
      names.insert(name);
      if (Bool(entry, "ignoredByScheduler")) {
        fine = false;
        findings_.Fail("resource-not-counted",
                       fmt::format("{} of {} sets ignoredByScheduler: kube-scheduler does not "
                                   "count it any more, for no Pod",
                                   OfExtender("managedResources"), name),
                       "take ignoredByScheduler out");
      }
      if (name.find('/') == std::string::npos || name.find("kubernetes.io/") == 0) {
        fine = false;
        findings_.Fail("managed-resources",
                       fmt::format("{} names \"{}\", no extended resource: kube-scheduler does "
                                   "not start",
                                   OfExtender("managedResources"), name),
                       "name accelerators and endpoints only");
      }
    }
    CheckCoverage(names, fine);
  }

  void CheckCoverage(const std::set<std::string>& names, bool fine) {
    const std::string field = OfExtender("managedResources");
    std::vector<std::string> missing;
    for (const std::string& name : FleetResources()) {
      if (names.count(name) == 0) missing.push_back(name);
    }
    if (!missing.empty()) {
      findings_.Fail("managed-resources",
                     fmt::format("{} lacks {}, which nodes have: a Pod that asks for nothing else "
                                 "is bound without numafit",
                                 field, fmt::join(missing, ", ")),
                     "list every accelerator and endpoint resource, or none at all");
      return;
    }
    const api::ResourceClasses classes;
    const bool has_endpoint = std::any_of(names.begin(), names.end(), [&](const auto& name) {
      return api::IsEndpoint(classes.Classify(name));
    });
    const bool has_accelerator = std::any_of(names.begin(), names.end(), [&](const auto& name) {
      return classes.Classify(name) == api::ResourceKind::kAccelerator;
    });
    if (options_.fleet == nullptr && (!has_endpoint || !has_accelerator)) {
      findings_.Warn("managed-resources",
                     fmt::format("{} names no {} that numafit knows as one: a Pod that asks for "
                                 "nothing else is bound without it",
                                 field, has_endpoint ? "accelerator" : "RDMA endpoint"),
                     "list every accelerator and endpoint resource, or none at all; --server "
                     "compares the list with the fleet");
    } else if (fine) {
      findings_.Ok(
          "managed-resources",
          fmt::format("numafit is asked about Pods with one of {} resources", names.size()));
    }
  }

  const json& document_;
  const SchedulerFileOptions& options_;
  Findings& findings_;
  std::string path_;
  const json* extender_ = nullptr;
};

}  // namespace

absl::Status CheckSchedulerFile(std::string_view text, const SchedulerFileOptions& options,
                                Findings* findings) {
  const absl::StatusOr<std::vector<api::YamlTree>> documents = api::ParseYaml(text, options.file);
  if (!documents.ok()) return documents.status();
  for (const api::YamlTree& tree : *documents) {
    const json document = api::YamlToJson(tree);
    if (Text(document, "kind") != "KubeSchedulerConfiguration") continue;
    SchedulerFile(document, options, findings).Check();
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: kind: expected a KubeSchedulerConfiguration", options.file));
}

}  // namespace numafit::cli::doctor
