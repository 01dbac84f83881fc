// The kubelet's PodResources service on a unix socket, and the writing of its device checkpoint.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace numafit::agent {

// Devices as the kubelet answers: one entry per id and NUMA node.
struct FakeDevice {
  std::string id;
  std::vector<int> numa_nodes;
  bool topology = true;
};

struct FakeContainer {
  std::string name;
  std::map<std::string, std::vector<FakeDevice>> devices;  // by resource
  std::vector<int> cpus;
};

struct FakePod {
  std::string namespace_;
  std::string name;
  std::vector<FakeContainer> containers;
};

class FakeKubelet {
 public:
  explicit FakeKubelet(std::string socket);
  ~FakeKubelet();

  // Stop closes the socket and removes it, as a kubelet that ends; Start makes it again.
  void Start();
  void Stop();

  // What it answers from now on.
  void SetAllocatable(std::map<std::string, std::vector<FakeDevice>> devices);
  void SetPods(std::vector<FakePod> pods);
  // Every call fails with this text; "" : none does.
  void SetError(std::string error);
  [[nodiscard]] int calls() const;

 private:
  class Service;

  const std::string socket_;
  std::unique_ptr<Service> service_;
};

// Pod UID, container, resource, NUMA node (-1: no topology) to ids; and what is registered.
struct FakeEntry {
  std::string uid;
  std::string container;
  std::string resource;
  std::map<int, std::vector<std::string>> ids;
};
// The file's text, with the right checksum.
std::string CheckpointText(const std::vector<FakeEntry>& entries,
                           const std::map<std::string, std::vector<std::string>>& registered);

}  // namespace numafit::agent
