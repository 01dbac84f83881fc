#include "agent/kubelet/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/agent/made_up_host.h"

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHead[] = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(Configz, IsWhatTheKubeletSays) {
  const auto kubelet = ParseConfigz(R"({"kubeletconfig":{
      "topologyManagerPolicy":"single-numa-node","topologyManagerScope":"pod",
      "topologyManagerPolicyOptions":{"max-allowable-numa-nodes":"16"},
      "cpuManagerPolicy":"static","cpuManagerPolicyOptions":{"full-pcpus-only":"true"},
      "reservedSystemCPUs":"0-1","kubeReserved":{"cpu":"500m","memory":"1Gi"},
      "systemReserved":{"cpu":"1"},"memoryManagerPolicy":"Static",
      "reservedMemory":[{"numaNode":0,"limits":{"memory":"1100Mi","hugepages-2Mi":"4Mi"}}],
      "featureGates":{"CPUManagerPolicyAlphaOptions":true,"Other":false}}})");
  ASSERT_TRUE(kubelet.ok()) << kubelet.status();
  EXPECT_TRUE(kubelet->confirmed());
  EXPECT_EQ(kubelet->topology_manager_policy(), "single-numa-node");
  EXPECT_EQ(kubelet->topology_manager_scope(), "pod");
  EXPECT_EQ(kubelet->topology_manager_policy_options().at("max-allowable-numa-nodes"), "16");
  EXPECT_EQ(kubelet->cpu_manager_policy_options().at("full-pcpus-only"), "true");
  EXPECT_EQ(kubelet->reserved_system_cpus(), "0-1");
  EXPECT_EQ(kubelet->reserved_cpu_milli(), 1500);
  EXPECT_EQ(kubelet->reserved_memory(0).limits().at("memory"), "1153433600");
  EXPECT_EQ(kubelet->reserved_memory(0).limits().at("hugepages-2Mi"), "4194304");
  EXPECT_TRUE(kubelet->feature_gates().at("CPUManagerPolicyAlphaOptions"));
  EXPECT_FALSE(kubelet->feature_gates().at("Other"));
}

TEST(Configz, AnswersThatAreNone) {
  for (const char* text : {"", "{", "[]", "{}", R"({"kubeletconfig":7})"}) {
    EXPECT_THAT(Message(ParseConfigz(text).status()), HasSubstr("kubeletconfig")) << text;
  }
  EXPECT_THAT(Message(ParseConfigz(R"({"kubeletconfig":{"topologyManagerPolicy":7}})").status()),
              HasSubstr("kubeletconfig.topologyManagerPolicy: expected a string"));
  EXPECT_THAT(
      Message(ParseConfigz(R"({"kubeletconfig":{"kubeReserved":{"cpu":"many"}}})").status()),
      HasSubstr("kubeletconfig.kubeReserved.cpu"));
}

TEST(ConfigurationFiles, KubeletIsFoundByItsCommandLine) {
  MadeUpHost host;
  host.Write("/proc/1/cmdline", std::string("/sbin/init\0", 11));
  host.Write("/proc/77/cmdline", std::string("/usr/bin/not-kubelet\0--config=/x\0", 33));
  host.Write("/proc/self/cmdline", std::string("kubelet\0", 8));
  const HostFiles proc(host.Path("/proc"));
  EXPECT_TRUE(absl::IsNotFound(FindKubeletCommand(proc).status()));
  host.Write("/proc/812/cmdline", std::string("/usr/bin/kubelet\0--config\0/etc/k.yaml\0", 38));
  const auto command = FindKubeletCommand(proc);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(*command, ElementsAre("/usr/bin/kubelet", "--config", "/etc/k.yaml"));
}

TEST(ConfigurationFiles, FileThenDropInsThenFlags) {
  MadeUpHost host;
  host.Write("/etc/k.yaml", std::string(kHead) +
                                "topologyManagerPolicy: best-effort\n"
                                "cpuManagerPolicy: none\n"
                                "kubeReserved: {cpu: 250m}\n"
                                "featureGates: {A: true, B: true}\n");
  host.Write("/etc/k.d/20-b.conf", std::string(kHead) + "cpuManagerPolicy: static\n");
  host.Write("/etc/k.d/10-a.conf",
             std::string(kHead) + "cpuManagerPolicy: none\nfeatureGates: {C: true}\n");
  host.Write("/etc/k.d/30-c.yaml", std::string(kHead) + "cpuManagerPolicy: ignored\n");
  const auto kubelet = ReadConfigurationFiles(
      HostFiles(host.root()),
      {"kubelet", "--config=/etc/k.yaml", "--config-dir", "/etc/k.d",
       "--topology-manager-policy=restricted", "--feature-gates=B=false,D=true",
       "--kube-reserved=cpu=1,memory=2Gi", "--fail-swap-on=false", "--reserved-memory",
       "0:memory=1Gi", "--reserved-memory=1:memory=2Gi,hugepages-1Gi=1Gi",
       "--topology-manager-policy-options=prefer-closest-numa-nodes=true"},
      "/var/lib/kubelet/config.yaml");
  ASSERT_TRUE(kubelet.ok()) << kubelet.status();
  EXPECT_FALSE(kubelet->confirmed());
  EXPECT_EQ(kubelet->topology_manager_policy(), "restricted");
  EXPECT_EQ(kubelet->topology_manager_scope(), "") << "not named is not known, never the default";
  EXPECT_EQ(kubelet->cpu_manager_policy(), "static");
  EXPECT_EQ(kubelet->reserved_cpu_milli(), 1000);
  ASSERT_EQ(kubelet->reserved_memory_size(), 2);
  EXPECT_EQ(kubelet->reserved_memory(1).limits().at("hugepages-1Gi"), "1073741824");
  EXPECT_EQ(kubelet->topology_manager_policy_options().at("prefer-closest-numa-nodes"), "true");
  const auto& gates = kubelet->feature_gates();
  EXPECT_TRUE(gates.at("A"));
  EXPECT_FALSE(gates.at("B"));
  EXPECT_TRUE(gates.at("C"));
  EXPECT_TRUE(gates.at("D"));
}

TEST(ConfigurationFiles, DefaultFileWithoutAKubelet) {
  MadeUpHost host;
  const HostFiles files(host.root());
  EXPECT_TRUE(absl::IsNotFound(ReadConfigurationFiles(files, {}, "/var/lib/k.yaml").status()));
  host.Write("/var/lib/k.yaml", std::string(kHead) + "topologyManagerPolicy: none\n");
  const auto kubelet = ReadConfigurationFiles(files, {}, "/var/lib/k.yaml");
  ASSERT_TRUE(kubelet.ok()) << kubelet.status();
  EXPECT_EQ(kubelet->topology_manager_policy(), "none");
  // A kubelet with flags alone needs no file.
  const auto flags =
      ReadConfigurationFiles(files, {"kubelet", "--cpu-manager-policy", "static"}, "/no.yaml");
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->cpu_manager_policy(), "static");
}

TEST(ConfigurationFiles, WhatCannotBeReadIsNamed) {
  MadeUpHost host;
  const HostFiles files(host.root());
  const std::vector<std::string> command = {"kubelet", "--config=/k.yaml"};
  EXPECT_THAT(Message(ReadConfigurationFiles(files, command, "").status()), HasSubstr("k.yaml"));
  host.Write("/k.yaml", "kind: Pod\n");
  EXPECT_THAT(Message(ReadConfigurationFiles(files, command, "").status()),
              HasSubstr("kind is not KubeletConfiguration"));
  host.Write("/k.yaml", std::string(kHead) + "a: [\n");
  EXPECT_THAT(Message(ReadConfigurationFiles(files, command, "").status()), HasSubstr("/k.yaml:"));
  host.Write("/k.yaml", std::string(kHead) + "reservedMemory: 7\n");
  EXPECT_THAT(Message(ReadConfigurationFiles(files, command, "").status()),
              HasSubstr("reservedMemory: expected a list"));
}

}  // namespace
}  // namespace numafit::agent
