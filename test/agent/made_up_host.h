// A folder that stands for "/" of a host, made file by file.
#pragma once

#include <string>
#include <string_view>

namespace numafit::agent {

// Made in the temporary folder and removed with its content.
class MadeUpHost {
 public:
  MadeUpHost();
  ~MadeUpHost();
  MadeUpHost(const MadeUpHost&) = delete;
  MadeUpHost& operator=(const MadeUpHost&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] std::string Path(std::string_view path) const { return root_ + std::string(path); }

  // Writes as the kubelet does: a temporary file in the same folder, renamed. Folders are made.
  void Write(std::string_view path, std::string_view text) const;
  void MakeFolder(std::string_view path) const;
  void Link(std::string_view path, const std::string& target) const;
  void Remove(std::string_view path) const;

  // /sys of a machine with this NUMA node: CPUs, the second threads of their cores, memory.
  // Distances are 10 and 20. Call once per NUMA node, with the number of all.
  void AddNumaNode(int id, int nodes, const std::string& cpus, int socket,
                   const std::string& siblings = "", std::int64_t memory_kb = 16777216) const;
  // /sys/class/infiniband/NAME on a PCI function of this NUMA node.
  void AddRdmaDevice(const std::string& name, const std::string& pci_path, int numa_node,
                     const std::string& netdev = "", const std::string& state = "4: ACTIVE") const;

 private:
  std::string root_;
};

}  // namespace numafit::agent
