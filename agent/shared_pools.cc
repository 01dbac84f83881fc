#include "agent/shared_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "api/json_reader.h"
#include "api/pod_json.h"

namespace numafit::agent {
namespace {

using api::JsonReader;

constexpr char kDefaultPrefix[] = "rdma";

std::vector<std::string> Texts(const JsonReader& place) {
  std::vector<std::string> texts;
  place.ForEach([&texts](const JsonReader& item) { texts.push_back(item.String()); });
  return texts;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool IsResourceName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

struct Selector {
  const char* key;
  std::vector<std::string> SharedPool::*list;
};
constexpr Selector kSelectors[] = {
    {"vendors", &SharedPool::vendors},      {"deviceIDs", &SharedPool::devices},
    {"drivers", &SharedPool::drivers},      {"ifNames", &SharedPool::netdevs},
    {"linkTypes", &SharedPool::link_types},
};

// Go's encoding/json takes keys in any case.
const Selector* FindSelector(const std::string& key) {
  for (const Selector& selector : kSelectors) {
    if (Lower(selector.key) == Lower(key)) return &selector;
  }
  return nullptr;
}

bool SelectsNothing(const SharedPool& pool) {
  return std::all_of(std::begin(kSelectors), std::end(kSelectors),
                     [&pool](const Selector& s) { return (pool.*s.list).empty(); });
}

void ReadSelectors(const JsonReader& place, SharedPool* pool) {
  if (place.IsNull()) return;
  place.ForEachMember([pool](const std::string& key, const JsonReader& value) {
    const Selector* selector = FindSelector(key);
    if (selector == nullptr) {
      value.Fail(
          "a selector that is not known, expected vendors, deviceIDs, drivers, ifNames or "
          "linkTypes");
      return;
    }
    pool->*selector->list = Texts(value);
  });
}

SharedPool ReadPool(const JsonReader& place) {
  SharedPool pool;
  const std::string name = place["resourceName"].String();
  if (!IsResourceName(name)) {
    place["resourceName"].Fail(
        fmt::format("\"{:.60}\", expected letters, digits and underscores", name));
  }
  std::string prefix = place["resourcePrefix"].String();
  if (prefix.empty()) prefix = kDefaultPrefix;
  pool.resource = prefix + "/" + name;
  ReadSelectors(place["selectors"], &pool);
  const std::vector<std::string> devices = Texts(place["devices"]);
  const bool has_selectors = !SelectsNothing(pool);
  if (has_selectors == !devices.empty()) {
    place.Fail(fmt::format("has {}, expected either selectors or devices",
                           has_selectors ? "both" : "neither selectors nor devices"));
  }
  if (!has_selectors) pool.netdevs = devices;
  return pool;
}

// A number in hexadecimal as sysfs shows it ("0x15b3"), without what is in front of it.
std::string PciNumber(const HostFiles& sys, const std::string& path) {
  const std::string text = Lower(sys.Line(path).value_or(""));
  return text.starts_with("0x") ? text.substr(2) : text;
}

// As netlink calls them; include/uapi/linux/if_arp.h.
std::string LinkType(const HostFiles& sys, const std::string& folder) {
  constexpr int kEthernet = 1;
  constexpr int kInfiniband = 32;
  const std::optional<int> type = sys.Number(folder + "/type");
  if (type == kEthernet) return "ether";
  return type == kInfiniband ? "infiniband" : "";
}

bool Has(const std::vector<std::string>& list, const std::string& text) {
  return list.empty() || (!text.empty() && std::find(list.begin(), list.end(), text) != list.end());
}

bool HasLower(const std::vector<std::string>& list, const std::string& text) {
  return list.empty() || std::any_of(list.begin(), list.end(), [&text](const std::string& item) {
           return !text.empty() && Lower(item) == text;
         });
}

bool IsIn(const SharedPool& pool, const v1alpha1::RdmaDevice& device, const HostFiles& sys) {
  if (device.pci_address().empty()) return false;
  const std::string pci = "/bus/pci/devices/" + device.pci_address();
  // A function may have several network devices, of which the report names one.
  const std::vector<std::string> netdevs = sys.List(pci + "/net");
  const auto some_netdev = [&netdevs](const auto& fits) {
    return std::any_of(netdevs.begin(), netdevs.end(), fits);
  };
  if (!pool.netdevs.empty() &&
      !some_netdev([&pool](const std::string& name) { return Has(pool.netdevs, name); })) {
    return false;
  }
  if (!pool.link_types.empty() && !some_netdev([&](const std::string& name) {
        return HasLower(pool.link_types, LinkType(sys, pci + "/net/" + name));
      })) {
    return false;
  }
  return HasLower(pool.vendors, PciNumber(sys, pci + "/vendor")) &&
         HasLower(pool.devices, PciNumber(sys, pci + "/device")) &&
         Has(pool.drivers, std::string(BaseName(sys.RealPath(pci + "/driver"))));
}

}  // namespace

absl::StatusOr<std::vector<SharedPool>> ParseSharedPools(std::string_view text,
                                                         const std::string& file) {
  const absl::StatusOr<nlohmann::json> document = api::ParseJson(text, file);
  if (!document.ok()) return document.status();
  absl::Status status;
  const JsonReader root(*document, status);
  std::vector<SharedPool> pools;
  std::set<std::string> names;
  root["configList"].ForEach([&](const JsonReader& item) {
    pools.push_back(ReadPool(item));
    if (!names.insert(pools.back().resource).second) {
      item["resourceName"].Fail(fmt::format("\"{}\" is there twice", pools.back().resource));
    }
  });
  if (pools.empty()) root["configList"].Fail("has no pool");
  if (!status.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", file, std::string(status.message())));
  }
  return pools;
}

EndpointRule RuleOf(const SharedPool& pool, const std::vector<v1alpha1::RdmaDevice>& rdma_devices,
                    const HostFiles& sys) {
  EndpointRule rule;
  rule.resource = pool.resource;
  for (const v1alpha1::RdmaDevice& device : rdma_devices) {
    if (IsIn(pool, device, sys)) rule.rdma_devices.push_back(device.name());
  }
  return rule;
}

}  // namespace numafit::agent
