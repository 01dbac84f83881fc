#include "test/agent/made_up_host.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "policy/cpu_set.h"

namespace numafit::agent {

namespace fs = std::filesystem;

MadeUpHost::MadeUpHost() {
  std::string pattern = (fs::temp_directory_path() / "host-XXXXXX").string();
  root_ = ::mkdtemp(pattern.data());
}

MadeUpHost::~MadeUpHost() {
  std::error_code error;
  fs::remove_all(root_, error);
}

void MadeUpHost::Write(std::string_view path, std::string_view text) const {
  const fs::path target(Path(path));
  fs::create_directories(target.parent_path());
  const fs::path temporary = target.parent_path() / ("." + target.filename().string() + "1");
  std::ofstream(temporary, std::ios::binary) << text;
  fs::rename(temporary, target);
}

void MadeUpHost::MakeFolder(std::string_view path) const {
  fs::create_directories(Path(path));
}

void MadeUpHost::Link(std::string_view path, const std::string& target) const {
  fs::create_directories(fs::path(Path(path)).parent_path());
  fs::create_symlink(target, Path(path));
}

void MadeUpHost::Remove(std::string_view path) const {
  fs::remove_all(Path(path));
}

void MadeUpHost::AddNumaNode(int id, int nodes, const std::string& cpus, int socket,
                             const std::string& siblings, std::int64_t memory_kb) const {
  const std::string folder = fmt::format("/sys/devices/system/node/node{}", id);
  const std::string all = siblings.empty() ? cpus : cpus + "," + siblings;
  Write(folder + "/cpulist", all + "\n");
  Write(folder + "/meminfo",
        fmt::format("Node {} MemTotal:       {} kB\nNode {} MemFree: 1 kB\n", id, memory_kb, id));
  std::string distances;
  for (int other = 0; other < nodes; ++other) {
    distances += fmt::format("{}{}", other == 0 ? "" : " ", other == id ? 10 : 20);
  }
  Write(folder + "/distance", distances + "\n");
  for (const std::string& list : {cpus, siblings}) {
    int core = 0;
    policy::ParseCpuSet(list)->ForEach([&](int cpu) {
      const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology", cpu);
      Write(topology + "/core_id", fmt::format("{}\n", core++));
      Write(topology + "/physical_package_id", fmt::format("{}\n", socket));
    });
  }
}

void MadeUpHost::AddRdmaDevice(const std::string& name, const std::string& pci_path, int numa_node,
                               const std::string& netdev, const std::string& state) const {
  const std::string hardware = "/sys/devices/" + pci_path;
  Write(hardware + "/numa_node", fmt::format("{}\n", numa_node));
  Write(hardware + "/vendor", "0x15b3\n");
  Write(hardware + "/infiniband/" + name + "/ports/1/state", state + "\n");
  Write(hardware + "/infiniband/" + name + "/ports/1/phys_state",
        state.find("ACTIVE") != std::string::npos ? "5: LinkUp\n" : "3: Disabled\n");
  Link(hardware + "/infiniband/" + name + "/device", "../..");
  if (!netdev.empty()) MakeFolder(hardware + "/net/" + netdev);
  Link("/sys/class/infiniband/" + name, "../../devices/" + pci_path + "/infiniband/" + name);
  const std::string address = pci_path.substr(pci_path.rfind('/') + 1);
  Link("/sys/bus/pci/devices/" + address, "../../../devices/" + pci_path);
}

}  // namespace numafit::agent
