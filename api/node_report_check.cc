#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "api/node_report.h"
#include "api/node_report.pb.h"
#include "api/node_report_bounds.h"

namespace numafit::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using v1alpha1::NodeReportStatus;

absl::Status Wrong(std::string_view path, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("status{}: {}", path, what));
}

// A number at the start of `text`, which moves past it; -1: there is none, or one above `most`.
int TakeNumber(std::string_view& text, int most) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-' || number > most) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool IsCpus(std::string_view text) {
  constexpr int kLastCpu = 4095;
  for (;;) {
    const int first = TakeNumber(text, kLastCpu);
    if (first < 0) return false;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (TakeNumber(text, kLastCpu) < first) return false;
    }
    if (text.empty()) return true;
    if (text.front() != ',') return false;
    text.remove_prefix(1);
  }
}

bool IsBytes(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && text.front() != '-';
}

bool HasForm(const std::string& text, TextForm form) {
  if (text.empty()) return true;
  switch (form) {
    case TextForm::kBytes:
      return IsBytes(text);
    case TextForm::kCpus:
      return IsCpus(text);
    case TextForm::kTime: {
      absl::Time time;
      std::string error;
      return absl::ParseTime(absl::RFC3339_full, text, &time, &error);
    }
    case TextForm::kFree:
      break;
  }
  return true;
}

std::string_view NameOf(TextForm form) {
  switch (form) {
    case TextForm::kBytes:
      return "a number of bytes";
    case TextForm::kCpus:
      return "a set of CPUs (0-3,8)";
    case TextForm::kTime:
      return "an RFC 3339 time";
    case TextForm::kFree:
      break;
  }
  return "a text";
}

// A report is JSON and protobuf, and neither has any other text.
bool IsUtf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first >= 0x80 && (first < 0xc2 || first > 0xf4)) return false;
    if (at + length > text.size()) return false;
    for (std::size_t i = 1; i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      // Overlong forms, surrogates, and what is beyond U+10FFFF.
      const unsigned low = i > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
      const unsigned high = i > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
      if (next < low || next > high) return false;
    }
    at += length;
  }
  return true;
}

// Every field against its row of the table. Paths are made only for what is wrong.
class BoundsCheck {
 public:
  // False, with status() set, at the first field out of its bounds.
  bool Check(const Message& message) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const FieldBounds& bounds = Bounds(*field);
      if (!field->is_repeated()) {
        if (!CheckValue(message, *field, -1, bounds)) return Within("." + field->json_name());
        continue;
      }
      const int size = reflection.FieldSize(message, field);
      if (size > bounds.max_items) {
        Fail(fmt::format("{} entries, more than {}", size, bounds.max_items));
        return Within("." + field->json_name());
      }
      for (int i = 0; i < size; ++i) {
        const bool good =
            field->is_map()
                ? CheckEntry(reflection.GetRepeatedMessage(message, field, i), bounds)
                : CheckValue(message, *field, i, bounds) || Within(fmt::format("[{}]", i));
        if (!good) return Within("." + field->json_name());
      }
    }
    return true;
  }

  [[nodiscard]] absl::Status status() const { return Wrong(path_, message_); }

 private:
  bool CheckEntry(const Message& entry, const FieldBounds& bounds) {
    const auto& type = *entry.GetDescriptor();
    const std::string key = entry.GetReflection()->GetString(entry, type.map_key());
    if (!IsUtf8(key)) {
      Fail("a key that is not UTF-8");
      return false;
    }
    if (key.size() > 253) {
      Fail(fmt::format("a key of {} bytes, more than 253", key.size()));
      return false;
    }
    return CheckValue(entry, *type.map_value(), -1, bounds) || Within("." + key);
  }

  bool CheckValue(const Message& message, const FieldDescriptor& field, int index,
                  const FieldBounds& bounds) {
    const Reflection& reflection = *message.GetReflection();
    const bool list = index >= 0;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return Check(list ? reflection.GetRepeatedMessage(message, &field, index)
                        : reflection.GetMessage(message, &field));
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      const std::int32_t number = list ? reflection.GetRepeatedInt32(message, &field, index)
                                       : reflection.GetInt32(message, &field);
      if (number >= bounds.minimum && number <= bounds.maximum) return true;
      return Fail(fmt::format("{} is outside of {} to {}", number, bounds.minimum, bounds.maximum));
    }
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return true;
    std::string scratch;
    const std::string& text =
        list ? reflection.GetRepeatedStringReference(message, &field, index, &scratch)
             : reflection.GetStringReference(message, &field, &scratch);
    if (!IsUtf8(text)) return Fail("not UTF-8");
    if (text.size() > static_cast<std::size_t>(bounds.max_length)) {
      return Fail(fmt::format("{} bytes, more than {}", text.size(), bounds.max_length));
    }
    if (HasForm(text, bounds.form)) return true;
    return Fail(fmt::format("\"{:.60}\" is not {}", text, NameOf(bounds.form)));
  }

  // By the field's descriptor, so that the table is searched once per field and process.
  static const FieldBounds& Bounds(const FieldDescriptor& field) {
    static const auto& table = *new auto([] {
      std::unordered_map<const FieldDescriptor*, FieldBounds> all;
      const auto& file = *NodeReportStatus::descriptor()->file();
      for (int m = 0; m < file.message_type_count(); ++m) {
        const auto& message = *file.message_type(m);
        for (int f = 0; f < message.field_count(); ++f) {
          all[message.field(f)] = BoundsOf(message.name(), message.field(f)->name());
        }
      }
      return all;
    }());
    return table.at(&field);
  }

  bool Fail(std::string message) {
    message_ = std::move(message);
    return false;
  }
  bool Within(const std::string& step) {
    path_.insert(0, step);
    return false;
  }

  std::string path_;
  std::string message_;
};

// OK when `key` is new; `path` names the entry that has it now.
template <typename Key>
class Unique {
 public:
  absl::Status Add(const Key& key, const std::string& path, std::string_view shown) {
    const auto [at, is_new] = seen_.emplace(key, path);
    if (is_new) return absl::OkStatus();
    return Wrong(path, fmt::format("{} is that of {} too", shown, at->second.substr(1)));
  }

 private:
  std::map<Key, std::string> seen_;
};

absl::Status CheckNumaIds(const NodeReportStatus& status) {
  Unique<int> nodes;
  for (int i = 0; i < status.numa_nodes_size(); ++i) {
    const int id = status.numa_nodes(i).id();
    const absl::Status added =
        nodes.Add(id, fmt::format(".numaNodes[{}].id", i), std::to_string(id));
    if (!added.ok()) return added;
  }
  Unique<int> books;
  for (int i = 0; i < status.memory_books_size(); ++i) {
    const int id = status.memory_books(i).numa_node();
    const absl::Status added =
        books.Add(id, fmt::format(".memoryBooks[{}].numaNode", i), std::to_string(id));
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const NodeReportStatus& status) {
  Unique<std::string> names;
  std::int64_t devices = 0;
  for (int i = 0; i < status.resources_size(); ++i) {
    const auto& resource = status.resources(i);
    const std::string path = fmt::format(".resources[{}]", i);
    const absl::Status added =
        names.Add(resource.name(), path + ".name", fmt::format("\"{}\"", resource.name()));
    if (!added.ok()) return added;
    for (int g = 0; g < resource.groups_size(); ++g) {
      devices += resource.groups(g).count();
      if (devices > kMaxReportedDevices) {
        return Wrong(fmt::format("{}.groups[{}].count", path, g),
                     fmt::format("{} devices with this {}, more than {}", devices,
                                 resource.groups(g).count(), kMaxReportedDevices));
      }
      if (resource.groups(g).no_topology() && resource.groups(g).numa_nodes_size() > 0) {
        return Wrong(fmt::format("{}.groups[{}].noTopology", path, g),
                     "true beside numaNodes, which are topology");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPodIds(const NodeReportStatus& status) {
  Unique<std::string> ids;
  for (int i = 0; i < status.pods_size(); ++i) {
    const auto& pod = status.pods(i);
    // A '/' keeps names and uids apart.
    const bool has_uid = !pod.uid().empty();
    const std::string key = has_uid ? pod.uid() : pod.namespace_() + "/" + pod.name();
    const absl::Status added = ids.Add(
        key, fmt::format(".pods[{}].{}", i, has_uid ? "uid" : "name"), fmt::format("\"{}\"", key));
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

// Who holds what, against what is there.
class HoldingsCheck {
 public:
  explicit HoldingsCheck(const NodeReportStatus& status) : status_(status) {
    for (const auto& resource : status.resources()) resources_.emplace(resource.name(), &resource);
  }

  absl::Status Check() {
    for (int i = 0; i < status_.pods_size(); ++i) {
      const std::string path = fmt::format(".pods[{}]", i);
      const auto& pod = status_.pods(i);
      Counts of_pod;
      absl::Status status = Count(pod.devices(), path, of_pod, all_, nullptr);
      for (int c = 0; status.ok() && c < pod.containers_size(); ++c) {
        Counts of_container;
        status = Count(pod.containers(c).devices(), fmt::format("{}.containers[{}]", path, c),
                       of_container, of_container, &of_pod);
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  using Key = std::pair<std::string_view, int>;  // resource, group
  using Counts = std::map<Key, std::int64_t>;

  // Adds a list of HeldDevices to `own` and, where it is another one, to `total`. `total` may not
  // exceed the group, nor `own` what is in `limit`.
  template <typename List>
  absl::Status Count(const List& devices, const std::string& path, Counts& own, Counts& total,
                     const Counts* limit) {
    for (int i = 0; i < devices.size(); ++i) {
      const auto& held = devices.Get(i);
      const auto here = [&](std::string_view field) {
        return fmt::format("{}.devices[{}].{}", path, i, field);
      };
      const auto found = resources_.find(held.resource());
      if (found == resources_.end()) {
        return Wrong(here("resource"), fmt::format("\"{}\" is no resource here", held.resource()));
      }
      if (held.group() >= found->second->groups_size()) {
        return Wrong(here("group"), fmt::format("{} where {} has {} groups", held.group(),
                                                held.resource(), found->second->groups_size()));
      }
      const Key key(found->first, held.group());
      own[key] += held.count();
      if (&total != &own) total[key] += held.count();
      const int size = found->second->groups(held.group()).count();
      if (total[key] > size) {
        return Wrong(here("count"), fmt::format("{} of {} group {} are held with it, which has {}",
                                                total[key], held.resource(), held.group(), size));
      }
      if (limit == nullptr) continue;
      const auto pods = limit->find(key);
      const std::int64_t most = pods == limit->end() ? 0 : pods->second;
      if (own[key] > most) {
        return Wrong(here("count"), fmt::format("{} of {} group {}, more than its Pod's {}",
                                                own[key], held.resource(), held.group(), most));
      }
    }
    return absl::OkStatus();
  }

  const NodeReportStatus& status_;
  std::unordered_map<std::string_view, const v1alpha1::Resource*> resources_;
  Counts all_;
};

}  // namespace

absl::Status CheckNodeReport(const NodeReportStatus& status) {
  if (const std::size_t size = status.ByteSizeLong(); size > kMaxNodeReportBytes) {
    return Wrong("", fmt::format("{} bytes, more than {}", size, kMaxNodeReportBytes));
  }
  if (BoundsCheck bounds; !bounds.Check(status)) return bounds.status();
  for (const auto check : {CheckNumaIds, CheckGroups, CheckPodIds}) {
    if (absl::Status result = check(status); !result.ok()) return result;
  }
  return HoldingsCheck(status).Check();
}

}  // namespace numafit::api
