//go:build k134

package kubelet

// Kubernetes 1.34: where its signatures differ from the other minors'.

import (
	"context"
	"unsafe" // and go:linkname

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/utils/cpuset"
)

// Minor is the Kubernetes minor that this program was built with.
const Minor = "1.34"

type (
	machineInfo   = cadvisorapi.MachineInfo
	machineNode   = cadvisorapi.Node
	machineCore   = cadvisorapi.Core
	uncoreCache   = cadvisorapi.Cache
	hugePagesInfo = cadvisorapi.HugePagesInfo
)

//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(socketPath string, topology []machineNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

func newTopologyManager(nodes []machineNode, policy, scope string, options map[string]string) (topologymanager.Manager, error) {
	return topologymanager.NewManager(nodes, policy, scope, options)
}

func newDeviceManager(socket string, nodes []machineNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newManagerImpl(socket, nodes, store)
}

func newCPUManager(policy string, options map[string]string, machine *machineInfo, reserved cpuset.CPUSet, allocatable v1.ResourceList, store topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(policy, options, 0, machine, reserved, allocatable, "", store)
}

func newMemoryManager(policy string, machine *machineInfo, allocatable v1.ResourceList, reserved []kubeletconfig.MemoryReservation, store topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(context.Background(), policy, machine, allocatable, reserved, "", store)
}

func newCPUState() cpustate.State { return cpustate.NewMemoryState() }

// File-backed states, as the managers' Start makes them.
func newCPUCheckpointState(dir, name string, running containermap.ContainerMap) (cpustate.State, error) {
	return cpustate.NewCheckpointState(dir, name, "none", running)
}

func newMemoryCheckpointState(dir, name string) (memorystate.State, error) {
	return memorystate.NewCheckpointState(klog.TODO(), dir, name, "None")
}

//go:linkname writeDeviceCheckpoint k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.(*ManagerImpl).writeCheckpoint
func writeDeviceCheckpoint(m *devicemanager.ManagerImpl) error

//go:linkname readDeviceCheckpoint k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.(*ManagerImpl).readCheckpoint
func readDeviceCheckpoint(m *devicemanager.ManagerImpl) error

func saveDevices(m *devicemanager.ManagerImpl) error { return writeDeviceCheckpoint(m) }
func loadDevices(m *devicemanager.ManagerImpl) error { return readDeviceCheckpoint(m) }

func newMemoryState() memorystate.State { return memorystate.NewMemoryState(klog.TODO()) }

func startCPUPolicy(p cpumanager.Policy, s cpustate.State) error { return p.Start(s) }

func startMemoryPolicy(p memorymanager.Policy, s memorystate.State) error {
	return p.Start(context.Background(), s)
}

func addProvider(m topologymanager.Manager, p topologymanager.HintProvider) {
	m.AddHintProvider(p)
}

func admit(m topologymanager.Manager, pod *v1.Pod) lifecycle.PodAdmitResult {
	return m.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
}

func affinity(m topologymanager.Manager, uid, container string) topologymanager.TopologyHint {
	return m.GetAffinity(uid, container)
}

func connect(m *devicemanager.ManagerImpl, p *plugin) error {
	return m.PluginConnected(p.resource, p)
}

func disconnect(m *devicemanager.ManagerImpl, p *plugin) {
	m.PluginDisconnected(p.resource)
}

func listAndWatch(m *devicemanager.ManagerImpl, resource string, r *pluginapi.ListAndWatchResponse) {
	m.PluginListAndWatchReceiver(resource, r)
}

func memoryBlocks(m memorymanager.Manager, uid, container string) []memorystate.Block {
	return m.GetMemory(context.Background(), uid, container)
}

func startContainer(c cpumanager.Manager, m memorymanager.Manager, t topologymanager.Manager, pod *v1.Pod, container *v1.Container, id string) {
	c.AddContainer(pod, container, id)
	m.AddContainer(context.Background(), pod, container, id)
	t.AddContainer(pod, container, id)
}

// In-place resize.

const (
	resizesInitContainers    = false
	resizesPodLevelResources = false
)

func newAllocationManager(n *node, s status.Manager, h *topologyHandler) allocation.Manager {
	m := allocation.NewInMemoryManager(containerManager{node: n}, s, func(*v1.Pod) {}, n.activePods, nil, n.sources)
	m.SetContainerRuntime(noSwap{})
	m.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{h})
	return m
}

func (h *topologyHandler) Admit(attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	said := h.node.topology.Admit(attrs)
	h.said = &said
	return said
}

func setAllocated(m allocation.Manager, pod *v1.Pod) error { return m.SetAllocatedResources(pod) }

//go:linkname handlePodResourcesResize k8s.io/kubernetes/pkg/kubelet/allocation.(*manager).handlePodResourcesResize
func handlePodResourcesResize(m unsafe.Pointer, pod *v1.Pod) (bool, error)

func handleResize(m allocation.Manager, pod *v1.Pod) (bool, error) {
	return handlePodResourcesResize(pointer(m), pod)
}
