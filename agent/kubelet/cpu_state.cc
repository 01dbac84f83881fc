#include "agent/kubelet/cpu_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <vector>

#include "agent/kubelet/state_file.h"

namespace numafit::agent {
namespace {

using api::JsonReader;
using policy::CpuSet;

CpuSet ReadCpus(const JsonReader& place) {
  const absl::StatusOr<CpuSet> cpus = policy::ParseCpuSet(place.String());
  if (cpus.ok()) return *cpus;
  place.Fail(std::string(cpus.status().message()));
  return {};
}

std::string DumpMap(const std::vector<std::string>& parts) {
  return fmt::format("map[{}]", fmt::join(parts, " "));
}

// nlohmann's objects are sorted by key, as Go's dump is.
std::string ReadContainers(const JsonReader& place, CpuState* state) {
  std::vector<std::string> pods;
  place.ForEachMember([&](const std::string& uid, const JsonReader& containers) {
    std::vector<std::string> parts;
    containers.ForEachMember([&](const std::string& name, const JsonReader& cpus) {
      state->containers[uid][name] = ReadCpus(cpus);
      parts.push_back(fmt::format("{}:{}", name, cpus.String()));
    });
    pods.push_back(
        fmt::format("{}:{}", uid, containers.IsNull() ? std::string("<nil>") : DumpMap(parts)));
  });
  return DumpMap(pods);
}

std::string ReadPods(const JsonReader& place, CpuState* state) {
  std::vector<std::string> pods;
  place.ForEachMember([&](const std::string& uid, const JsonReader& entry) {
    const CpuSet cpus = ReadCpus(entry["cpuSet"]);
    std::vector<std::string> ids;
    cpus.ForEach([&ids](int id) { ids.push_back(fmt::format("{}:{{}}", id)); });
    pods.push_back(
        fmt::format("{}:{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{}]}}}}", uid,
                    fmt::join(ids, " ")));
    state->pods[uid] = cpus;
  });
  return DumpMap(pods);
}

}  // namespace

absl::StatusOr<CpuState> ParseCpuState(std::string_view text) {
  absl::StatusOr<StateFile> file = OpenStateFile(text);
  if (!file.ok()) return file.status();
  absl::Status status;
  const JsonReader root(file->fields, status);
  CpuState state;
  state.policy = root["policyName"].String();
  if (state.policy.empty()) root["policyName"].Fail("is missing");
  state.default_cpus = ReadCpus(root["defaultCpuSet"]);
  const std::string containers = ReadContainers(root["entries"], &state);
  const std::string pods = ReadPods(root["podEntries"], &state);
  const std::uint64_t checksum = ReadUint64(root["checksum"]);
  if (!status.ok()) return status;
  if (file->verified || checksum == 0) return state;
  const std::string head = fmt::format(
      "(*state.CPUManagerCheckpoint){{PolicyName:(string){} DefaultCPUSet:(string){} "
      "Entries:(map[string]map[string]string){}",
      state.policy, root["defaultCpuSet"].String(), containers);
  // Without Pod-level entries the two versions of the file look alike.
  status = VerifyChecksum(checksum,
                          {head + fmt::format(" PodEntries:(state.PodCPUAssignments){}", pods) +
                               " Checksum:(checksum.Checksum)0}",
                           head + " Checksum:(checksum.Checksum)0}"});
  if (!status.ok()) return status;
  return state;
}

}  // namespace numafit::agent
