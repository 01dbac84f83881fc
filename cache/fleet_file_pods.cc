// The `pods` of a fleet file: what runs where, and which devices it holds.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/quantity.h"
#include "cache/fleet_file_reader.h"

namespace numafit::cache {
namespace {

constexpr int kMaxNumaId = 63;

// Which devices of each node are given away, by resource.
using TakenDevices = std::map<std::string, std::set<std::string>>;

class PodReader {
 public:
  explicit PodReader(FleetFile& fleet) : fleet_(fleet) {
    for (const FleetNode& node : fleet.nodes) nodes_[node.name] = &node;
  }

  void Read(const api::TreeReader& place) {
    place.AllowOnly(
        {"namespace", "name", "node", "labels", "annotations", "initContainers", "containers"});
    FleetPod entry;
    entry.line = place.line();
    entry.pod.metadata.namespace_ = place["namespace"].Text("default");
    place["name"].Require();
    entry.pod.metadata.name = place["name"].Text();
    entry.pod.metadata.labels = place["labels"].TextMap();
    entry.pod.metadata.annotations = place["annotations"].TextMap();
    entry.pod.metadata.uid = "file:" + entry.pod.FullName();
    entry.pod.status.phase = "Running";
    place["node"].Require();
    entry.pod.node_name = place["node"].Text();
    const auto node = nodes_.find(entry.pod.node_name);
    if (node == nodes_.end()) {
      place["node"].Fail(fmt::format("\"{}\" is no node of this file", entry.pod.node_name));
      return;
    }
    if (!names_.insert(entry.pod.FullName()).second) {
      place["name"].Fail(fmt::format("{} is there twice", entry.pod.FullName()));
    }
    ReadContainers(place, *node->second, entry);
    entry.pod.status.container_statuses =
        static_cast<int>(entry.pod.containers.size() + entry.pod.init_containers.size());
    fleet_.pods.push_back(std::move(entry));
  }

 private:
  void ReadContainers(const api::TreeReader& place, const FleetNode& node, FleetPod& entry) {
    // Devices of earlier init containers, which later containers of the Pod may have as well.
    TakenDevices reusable;
    const auto read = [&](const api::TreeReader& container, bool init) {
      ReadContainer(container, init, node, entry, reusable);
    };
    place["initContainers"].ForEach([&](const api::TreeReader& item) { read(item, true); });
    place["containers"].Require();
    place["containers"].ForEach([&](const api::TreeReader& item) { read(item, false); });
    for (const auto& [container, devices] : entry.devices) {
      for (const auto& [resource, ids] : devices) {
        taken_[node.name][resource].insert(ids.begin(), ids.end());
      }
    }
    CheckAllOrNone(place, node, entry);
  }

  void ReadContainer(const api::TreeReader& place, bool init, const FleetNode& node,
                     FleetPod& entry, TakenDevices& reusable) {
    if (init) {
      place.AllowOnly({"name", "restartPolicy", "resources", "devices", "numa"});
    } else {
      place.AllowOnly({"name", "resources", "devices", "numa"});
    }
    api::Container container;
    place["name"].Require();
    container.name = place["name"].Text();
    if (entry.devices.count(container.name) != 0 || HasContainer(entry.pod, container.name)) {
      place["name"].Fail(fmt::format("\"{}\" is there twice in this Pod", container.name));
    }
    if (const api::TreeReader restart = place["restartPolicy"]; !restart.IsNull()) {
      if (restart.Text() != "Always") {
        restart.Fail(fmt::format("is \"{}\", expected Always", restart.Text()));
      }
      container.restart_always = true;
    }
    const api::TreeReader resources = place["resources"];
    resources.AllowOnly({"limits", "requests"});
    container.resources.limits = ReadResources(resources["limits"]);
    container.resources.requests = ReadResources(resources["requests"]);
    if (place["devices"].IsPresent() && place["numa"].IsPresent()) {
      place["numa"].Fail("cannot be given beside devices");
    }
    if (place["devices"].IsPresent()) {
      TakeByIds(place["devices"], container, node, entry, reusable);
    } else if (place["numa"].IsPresent()) {
      TakeByNuma(place["numa"], container, node, entry, reusable);
    }
    const bool gives_back = init && !container.restart_always;
    if (const auto own = entry.devices.find(container.name); own != entry.devices.end()) {
      for (const auto& [resource, ids] : own->second) {
        for (const std::string& id : ids) {
          if (gives_back) {
            reusable[resource].insert(id);
          } else {
            reusable[resource].erase(id);
          }
          taken_now_[resource].insert(id);
        }
      }
    }
    (init ? entry.pod.init_containers : entry.pod.containers).push_back(std::move(container));
  }

  static bool HasContainer(const api::Pod& pod, const std::string& name) {
    const auto same = [&](const api::Container& other) { return other.name == name; };
    return std::any_of(pod.containers.begin(), pod.containers.end(), same) ||
           std::any_of(pod.init_containers.begin(), pod.init_containers.end(), same);
  }

  static api::ResourceList ReadResources(const api::TreeReader& place) {
    api::ResourceList list;
    place.ForEachField([&](const std::string& resource, const api::TreeReader& amount) {
      const absl::StatusOr<api::Quantity> quantity = api::Quantity::Parse(amount.Text());
      if (!quantity.ok()) {
        amount.Fail(fmt::format("is \"{}\", expected an amount like 4 or 16Gi", amount.Text()));
      } else if (quantity->milli() < 0) {
        amount.Fail("is negative");
      } else {
        list[resource] = *quantity;
      }
    });
    return list;
  }

  bool IsFree(const FleetNode& node, const std::string& resource, const std::string& id,
              const TakenDevices& reusable) {
    const auto has = [&](const TakenDevices& devices) {
      const auto found = devices.find(resource);
      return found != devices.end() && found->second.count(id) != 0;
    };
    return has(reusable) || (!has(taken_[node.name]) && !has(taken_now_));
  }

  void TakeByIds(const api::TreeReader& place, const api::Container& container,
                 const FleetNode& node, FleetPod& entry, const TakenDevices& reusable) {
    place.ForEachField([&](const std::string& resource, const api::TreeReader& list) {
      const std::vector<std::string> ids = list.Texts();
      const int pool = node.topology->FindPool(resource);
      if (pool < 0) list.Fail(fmt::format("node {} has no such devices", node.name));
      const auto limit = container.resources.limits.find(resource);
      const std::int64_t wanted =
          limit == container.resources.limits.end() ? 0 : limit->second.value();
      if (wanted != static_cast<std::int64_t>(ids.size())) {
        list.Fail(
            fmt::format("lists {} devices, but the container's limit is {}", ids.size(), wanted));
      }
      if (!list.ok()) return;
      for (const std::string& id : ids) {
        if (node.topology->FindDevice(pool, id).class_index < 0) {
          list.Fail(fmt::format("node {} has no device \"{}\"", node.name, id));
        } else if (!IsFree(node, resource, id, reusable) ||
                   std::count(ids.begin(), ids.end(), id) > 1) {
          list.Fail(fmt::format("device \"{}\" of node {} is taken already", id, node.name));
        }
      }
      entry.devices[container.name][resource] = ids;
    });
  }

  // The first free devices on that NUMA node, an init container's own first.
  void TakeByNuma(const api::TreeReader& place, const api::Container& container,
                  const FleetNode& node, FleetPod& entry, const TakenDevices& reusable) {
    const auto numa = static_cast<int>(place.Int(0, kMaxNumaId, 0));
    for (const auto& [resource, quantity] : container.resources.limits) {
      if (node.topology->FindPool(resource) < 0) continue;
      std::vector<std::string>& ids = entry.devices[container.name][resource];
      std::vector<std::string> reused;
      std::vector<std::string> fresh;
      for (const policy::DeviceSpec& device : node.topology->spec().devices.at(resource)) {
        const bool here = device.numa && std::count(device.numa->begin(), device.numa->end(), numa);
        if (!here || !device.healthy || !IsFree(node, resource, device.id, reusable)) continue;
        const auto own = reusable.find(resource);
        const bool reuse = own != reusable.end() && own->second.count(device.id) != 0;
        (reuse ? reused : fresh).push_back(device.id);
      }
      reused.insert(reused.end(), fresh.begin(), fresh.end());
      const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, quantity.value()));
      if (reused.size() < wanted) {
        place.Fail(fmt::format("NUMA {} of node {} has {} {} free, the container wants {}", numa,
                               node.name, reused.size(), resource, wanted));
        return;
      }
      reused.resize(wanted);
      ids = std::move(reused);
    }
  }

  // What a Pod holds is either known or not.
  void CheckAllOrNone(const api::TreeReader& place, const FleetNode& node, const FleetPod& entry) {
    taken_now_.clear();
    if (entry.devices.empty()) return;
    for (const auto* list : {&entry.pod.init_containers, &entry.pod.containers}) {
      for (const api::Container& container : *list) {
        for (const auto& [resource, quantity] : container.resources.limits) {
          if (quantity.IsZero() || node.topology->FindPool(resource) < 0) continue;
          const auto given = entry.devices.find(container.name);
          if (given == entry.devices.end() || given->second.count(resource) == 0) {
            place.Fail(fmt::format(
                "container {} does not say which {} it holds; give every container's or none",
                container.name, resource));
          }
        }
      }
    }
  }

  FleetFile& fleet_;
  absl::flat_hash_map<std::string, const FleetNode*> nodes_;
  std::set<std::string> names_;
  std::map<std::string, TakenDevices> taken_;
  TakenDevices taken_now_;  // by the Pod that is being read
};

}  // namespace

void ReadPods(const api::TreeReader& root, FleetFile& fleet) {
  PodReader reader(fleet);
  root["pods"].ForEach([&](const api::TreeReader& place) {
    if (place.ok()) reader.Read(place);
  });
}

}  // namespace numafit::cache
