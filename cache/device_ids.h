// Device ids for machines that are described by counts, in the form that the resource's plugin
// uses, so that what parses ids (api::EndpointKey) sees what it would see on a real node.
#pragma once

#include <string>
#include <string_view>

namespace numafit::cache {

// Which device of its resource on this node, counted from 0, and which of its tokens.
struct DeviceOrdinal {
  int device = 0;
  int token = 0;
  int tokens = 1;  // how many tokens the device has
};

// | resource                                 | id                                              |
// |------------------------------------------|-------------------------------------------------|
// | device.gpustack.ai/rdma.partitioned[...] | ib0:ib0v3:0000 (a token is a virtual function)   |
// | device.gpustack.ai/rdma[.shared...]      | ib0:ib0:0003                                    |
// | <base>.shared of GPUStack                | card:GPU-uuid:0000, then steps of 160000        |
// | <base>.sliced, <base>.partitioned        | card:GPU-uuid:0003                              |
// | nvidia.com/mig-*                         | MIG-uuid, MIG-uuid::3 with several tokens       |
// | nvidia.com/gpu                           | GPU-uuid, GPU-uuid::3 with several tokens       |
// | amd.com/gpu                              | PCI address                                     |
// | huawei.com/Ascend910 and the like        | Ascend910-0                                     |
// | rdma/<pool>                              | 3 (tokens counted through)                      |
// | rdma.io/hca                              | rdma-3 (tokens counted through)                 |
// | intel.com/, openshift.io/, mellanox.com/ | PCI address of a virtual function               |
// | anything else                            | the name's last part and -0, -0-3 with tokens   |
//
// `prefix` (not empty) takes the place of what stands before the device's number, "ib" or
// "GPU-…"; the form stays. The same (device, token) has the same id whatever the node, and the
// same device has the same hardware name under every resource of one family.
std::string MakeDeviceId(std::string_view resource, DeviceOrdinal ordinal, std::string_view prefix);

}  // namespace numafit::cache
