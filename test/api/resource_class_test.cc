#include "api/resource_class.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace numafit::api {
namespace {

using enum ResourceKind;

struct ClassCase {
  const char* resource;
  ResourceKind kind;
};

constexpr ClassCase kDefaults[] = {
    // GPUStack, RDMA side
    {"device.gpustack.ai/rdma", kEndpointExclusive},
    {"device.gpustack.ai/rdma.shared", kEndpointShared},
    {"device.gpustack.ai/rdma.partitioned", kEndpointPartition},
    {"device.gpustack.ai/rdma.sliced", kEndpointShared},
    {"device.gpustack.ai/rdmax", kOther},
    {"device.gpustack.ai/nvidia.visibility", kCounter},
    {"device.gpustack.ai/ascend.visibility", kCounter},
    {"credits.gpustack.ai/nvidia", kCounter},
    // NVIDIA
    {"nvidia.com/gpu", kAccelerator},
    {"nvidia.com/gpu.shared", kAccelerator},
    {"nvidia.com/gpu.sliced", kAccelerator},
    {"nvidia.com/gpu.sliced.units", kCounter},
    {"nvidia.com/gpu.sliced.cores-percentage", kCounter},
    {"nvidia.com/gpu.sliced.memory-percentage", kCounter},
    {"nvidia.com/gpu.sliced.memory-mib", kCounter},
    {"nvidia.com/gpu.partitioned", kAccelerator},
    {"nvidia.com/gpu.partitioned.units", kCounter},
    {"nvidia.com/gpu.partitioned.mig-3g.40gb", kCounter},
    {"nvidia.com/mig-1g.10gb", kAccelerator},
    {"nvidia.com/mig-1g.10gb.me", kAccelerator},
    {"nvidia.com/mig-1g.10gb.shared", kAccelerator},
    {"nvidia.com/pgpu", kAccelerator},
    {"nvidia.com/gpumem", kCounter},
    {"nvidia.com/gpumem-percentage", kCounter},
    {"nvidia.com/gpucores", kCounter},
    {"nvidia.com/hostdev", kEndpointPartition},
    {"nvidia.com/mlnxnics", kEndpointPartition},
    // the other manufacturers
    {"amd.com/gpu", kAccelerator},
    {"amd.com/gpu.shared", kAccelerator},
    {"amd.com/gpu.sliced.units", kCounter},
    {"amd.com/spx_nps1", kAccelerator},
    {"amd.com/cpx_nps4", kAccelerator},
    {"huawei.com/npu", kAccelerator},
    {"huawei.com/npu.sliced", kAccelerator},
    {"huawei.com/npu-core", kCounter},
    {"huawei.com/Ascend910", kAccelerator},
    {"huawei.com/Ascend310P", kAccelerator},
    {"huawei.com/Ascend910-2c", kAccelerator},
    {"huawei.com/Ascend910-2c.1cpu", kAccelerator},
    {"huawei.com/Ascend910B-memory", kCounter},
    {"cambricon.com/mlu", kAccelerator},
    {"cambricon.com/mlu.sliced.memory-mib", kCounter},
    {"cambricon.com/mlu370", kAccelerator},
    {"cambricon.com/mlu370.share", kAccelerator},
    {"cambricon.com/mlu370.mim-2m.8gb", kAccelerator},
    {"cambricon.com/mlu370.smlu.vcore", kCounter},
    {"cambricon.com/mlu370.smlu.vmemory", kCounter},
    {"hygon.com/dcu", kAccelerator},
    {"hygon.com/dcu.partitioned.mig-2g.15gb", kCounter},
    {"iluvatar.com/gpu", kAccelerator},
    {"iluvatar.com/gpu.shared", kAccelerator},
    {"metax-tech.com/gpu", kAccelerator},
    {"metax-tech.com/gpu.sliced", kAccelerator},
    {"mthreads.com/gpu", kAccelerator},
    {"mthreads.com/gpu.sliced.units", kCounter},
    {"alibabacloud.com/ppu", kAccelerator},
    {"alibabacloud.com/ppu.partitioned.mig-4g.48gb", kCounter},
    {"gpu.intel.com/i915", kAccelerator},
    {"gpu.intel.com/xe", kAccelerator},
    {"gpu.intel.com/i915_monitoring", kCounter},
    {"habana.ai/gaudi", kAccelerator},
    {"aws.amazon.com/neuroncore", kAccelerator},
    // endpoints of the other systems
    {"rdma/hca_shared_devices_a", kEndpointVirtual},
    {"rdma.io/hca", kEndpointVirtual},
    {"vpc.amazonaws.com/efa", kEndpointExclusive},
    {"intel.com/sriov_rdma", kEndpointPartition},
    {"openshift.io/mlxnics", kEndpointPartition},
    {"mellanox.com/cx6_rdma", kEndpointPartition},
    // nobody's
    {"cpu", kOther},
    {"memory", kOther},
    {"hugepages-2Mi", kOther},
    {"ephemeral-storage", kOther},
    {"example.com/gpu", kOther},
    {"xnvidia.com/gpu", kOther},
    {"", kOther},
};

TEST(ResourceClassesTest, DefaultsCoverEverySystem) {
  const ResourceClasses classes;
  for (const ClassCase& c : kDefaults) {
    EXPECT_EQ(ResourceKindName(classes.Classify(c.resource)), ResourceKindName(c.kind))
        << c.resource;
  }
}

TEST(ResourceClassesTest, OverridesWinInTheirOrder) {
  const ResourceClasses classes({{"nvidia.com/gpu", kOther},
                                 {"example.com/fast*", kEndpointExclusive},
                                 {"example.com/*", kAccelerator},
                                 {"*.example.org/nic", kEndpointShared}});
  EXPECT_EQ(classes.Classify("nvidia.com/gpu"), kOther);
  EXPECT_EQ(classes.Classify("nvidia.com/gpu.shared"), kAccelerator);
  EXPECT_EQ(classes.Classify("example.com/fast"), kEndpointExclusive);
  EXPECT_EQ(classes.Classify("example.com/fast-nic"), kEndpointExclusive);
  EXPECT_EQ(classes.Classify("example.com/slow"), kAccelerator);
  EXPECT_EQ(classes.Classify("rack1.example.org/nic"), kEndpointShared);
  EXPECT_EQ(classes.Classify("rack1.example.org/nics"), kOther);
}

TEST(ResourceClassesTest, StarsMatchWithoutExploding) {
  const ResourceClasses classes({{"*a*a*a*a*a*a*a*a*b", kEndpointShared}, {"x*y*z", kCounter}});
  EXPECT_EQ(classes.Classify(std::string(10'000, 'a')), kOther);
  EXPECT_EQ(classes.Classify(std::string(10'000, 'a') + "b"), kEndpointShared);
  EXPECT_EQ(classes.Classify("xyz"), kCounter);
  EXPECT_EQ(classes.Classify("x-yz-y-z"), kCounter);
  EXPECT_EQ(classes.Classify("x-z-y"), kOther);
}

TEST(ResourceKindTest, NamesReadBack) {
  for (const ResourceKind kind : {kAccelerator, kEndpointExclusive, kEndpointShared,
                                  kEndpointPartition, kEndpointVirtual, kCounter, kOther}) {
    EXPECT_EQ(ParseResourceKind(ResourceKindName(kind)), kind);
  }
  EXPECT_FALSE(ParseResourceKind("Accelerator").has_value());
  EXPECT_TRUE(IsEndpoint(kEndpointVirtual));
  EXPECT_FALSE(IsEndpoint(kCounter));
}

struct KeyCase {
  const char* id;
  const char* key;
};

constexpr KeyCase kKeys[] = {
    // GPUStack: index of four digits or more, whatever the rest is
    {"ib0:ib0:0003", "ib0:ib0"},
    {"ib0:ib0v2:0000", "ib0:ib0v2"},
    {"ib0::0000", "ib0:"},
    {"h100-80gb-hbm3:GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11:160000",
     "h100-80gb-hbm3:GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11"},
    {"mi300x:0000:19:00.0:0000", "mi300x:0000:19:00.0"},
    // NVIDIA replicas
    {"GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11::2", "GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11"},
    {"GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11::1024", "GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11"},
    {"MIG-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11::0", "MIG-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11"},
    {"GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11", "GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11"},
    // HAMi
    {"GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11-7", "GPU-8dcd427f-483b-4b19-8a1c-0c6f0d2b4a11"},
    // GKE
    {"nvidia0/vgpu1", "nvidia0"},
    {"nvidia12/gi3/vgpu0", "nvidia12"},
    {"nvidia0", "nvidia0"},
    // Intel
    {"card0-3", "card0"},
    {"card-3", "card-3"},
    {"card1", "card1"},
    // ids that are hardware already, or no hardware at all
    {"0000:03:02.1", "0000:03:02.1"},
    {"mlx5_core.sf.4", "mlx5_core.sf.4"},
    {"amdgpu_xcp_30", "amdgpu_xcp_30"},
    {"Ascend910-0", "Ascend910-0"},
    {"Ascend910-2c-100-1", "Ascend910-2c-100-1"},
    {"a088:c203:00e5:1234", "a088:c203:00e5:1234"},
    {"rdma-17", "rdma-17"},
    {"12", "12"},
    {"a:0000", "a:0000"},
    {"a:b:003", "a:b:003"},
    {"a:b:003x", "a:b:003x"},
    {":", ":"},
    {"::", "::"},
    {"::1", "::1"},
    {"", ""},
};

TEST(EndpointKeyTest, NamesTheHardwareBehindAToken) {
  for (const KeyCase& c : kKeys) EXPECT_EQ(EndpointKey(c.id), c.key) << c.id;
}

TEST(EndpointKeyTest, PointsIntoTheId) {
  const std::string id = "ib0:ib0:0003";
  EXPECT_EQ(EndpointKey(id).data(), id.data());
}

}  // namespace
}  // namespace numafit::api
