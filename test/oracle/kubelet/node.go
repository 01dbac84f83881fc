//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/utils/cpuset"

	"numafit.io/numafit/test/oracle/form"
)

// node is one kubelet's topology, device, CPU and memory managers, wired as
// container_manager_linux.go wires them: the topology manager asks the
// device, CPU and memory manager, in this order. No socket, no file, no
// goroutine: what Start would set is set directly.
type node struct {
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
	cpus     cpumanager.Manager
	memory   memorymanager.Manager

	plugins map[string]*plugin
	prefers map[string][]string      // plugins with GetPreferredAllocation
	lists   map[string][]form.Device // what each plugin listed last
	active  map[string]*admitted
	started map[string]bool
	shuffle *rand.Rand
	sockets int
	took    func(time.Duration) // may be nil

	c            *form.Case
	machine      *machineInfo
	reservedCPUs cpuset.CPUSet
	gates        map[string]bool // those that are looked at while managers are made
	sources      *sources
	resizer      *resizer // nil in a case that resizes nobody
	cpuState     cpustate.State
	memoryState  memorystate.State
}

// admitted is a Pod that the kubelet has taken, or is about to.
type admitted struct {
	pod *v1.Pod
	of  *form.Pod
	at  int // step
}

// sources of Pods: not ready while the kubelet sees its Pods for the first time.
type sources struct{ ready bool }

func (*sources) AddSource(string) {}
func (s *sources) AllReady() bool { return s.ready }

var (
	once      sync.Once
	socketDir string
)

// prepare silences the kubelet's log, which would drown everything, and finds
// a folder that newManagerImpl may look at (nothing is written there).
func prepare() {
	klog.SetLogger(logr.Discard())
	socketDir = os.TempDir()
}

func newNode(c *form.Case, gates map[string]bool, shuffle *rand.Rand) (*node, error) {
	n := &node{
		prefers: map[string][]string{},
		active:  map[string]*admitted{},
		started: map[string]bool{},
		shuffle: shuffle,
		c:       c,
		gates:   gates,
	}
	var err error
	if n.machine, n.reservedCPUs, err = machineOf(c); err != nil {
		return nil, err
	}
	if err := n.wire(containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return nil, err
	}
	if err := n.startPolicies(newCPUState(), newMemoryState()); err != nil {
		return nil, err
	}
	n.sources.ready = true
	if c.Resizes() {
		n.resizer = newResizer(n)
	}
	for _, r := range sortedKeys(c.Devices) {
		if err := n.list(r, c.Devices[r]); err != nil {
			return nil, err
		}
	}
	for r, order := range c.PreferredAllocation {
		n.prefer(r, order)
	}
	return n, nil
}

// wire makes all managers anew, for containers that are there already and
// those of them that run.
func (n *node) wire(there containermap.ContainerMap, running sets.Set[string]) error {
	n.plugins, n.lists, n.sources = map[string]*plugin{}, map[string][]form.Device{}, &sources{}
	if err := n.withGatesOfMaking(n.makeManagers); err != nil {
		return err
	}
	setField(n.devices, "checkpointManager", checkpointmanager.CheckpointManager(noCheckpoints{}))
	setField(n.devices, "activePods", devicemanager.ActivePodsFunc(n.activePods))
	setField(n.devices, "sourcesReady", config.SourcesReady(n.sources))
	setField(n.devices, "containerMap", there.Clone())
	setField(n.devices, "containerRunningSet", running)
	setField(n.cpus, "activePods", cpumanager.ActivePodsFunc(n.activePods))
	setField(n.cpus, "sourcesReady", config.SourcesReady(n.sources))
	setField(n.cpus, "containerMap", there.Clone())
	setField(n.memory, "activePods", memorymanager.ActivePodsFunc(n.activePods))
	setField(n.memory, "sourcesReady", config.SourcesReady(n.sources))
	setField(n.memory, "containerMap", there.Clone())
	addProvider(n.topology, n.devices)
	addProvider(n.topology, n.cpus)
	addProvider(n.topology, n.memory)
	return nil
}

func (n *node) makeManagers() error {
	c := n.c
	allocatable := v1.ResourceList{}
	if c.ReservedCPUMilli != 0 {
		allocatable[v1.ResourceCPU] = *resource.NewMilliQuantity(c.ReservedCPUMilli, resource.DecimalSI)
	} else if !n.reservedCPUs.IsEmpty() {
		allocatable[v1.ResourceCPU] = *resource.NewQuantity(int64(n.reservedCPUs.Size()), resource.DecimalSI)
	}
	reserved, err := reservedMemory(c, allocatable)
	if err != nil {
		return err
	}
	policy, scope := orDefault(c.TopologyPolicy, "none"), orDefault(c.Scope, "container")
	if n.topology, err = newTopologyManager(n.machine.Topology, policy, scope, c.Options); err != nil {
		return err
	}
	if n.devices, err = newDeviceManager(socketDir+"/kubelet.sock", n.machine.Topology, n.topology); err != nil {
		return err
	}
	if n.cpus, err = newCPUManager(n.cpuPolicy(), c.CPUOptions, n.machine, n.reservedCPUs, allocatable, n.topology); err != nil {
		return err
	}
	n.memory, err = newMemoryManager(n.memoryPolicy(), n.machine, allocatable, reserved, n.topology)
	return err
}

func (n *node) cpuPolicy() string    { return orDefault(n.c.CPUPolicy, "none") }
func (n *node) memoryPolicy() string { return orDefault(n.c.MemoryPolicy, "None") }

// startPolicies is what the CPU and the memory manager's Start does with the
// state that it found.
func (n *node) startPolicies(c cpustate.State, m memorystate.State) error {
	n.cpuState, n.memoryState = c, m
	setField(n.cpus, "state", c)
	if err := startCPUPolicy(field(n.cpus, "policy").Interface().(cpumanager.Policy), c); err != nil {
		return err
	}
	setField(n.memory, "state", m)
	return startMemoryPolicy(field(n.memory, "policy").Interface().(memorymanager.Policy), m)
}

// reservedMemory parses the kubelet's reservedMemory and adds its sums to what
// the node keeps from Pods: a kubelet refuses to start where the two differ.
func reservedMemory(c *form.Case, allocatable v1.ResourceList) ([]kubeletconfig.MemoryReservation, error) {
	var out []kubeletconfig.MemoryReservation
	for _, r := range c.ReservedMemory {
		limits := v1.ResourceList{}
		for name, s := range r.Limits {
			q, err := resource.ParseQuantity(s)
			if err != nil {
				return nil, fmt.Errorf("reservedMemory: %s: %w", name, err)
			}
			limits[v1.ResourceName(name)] = q
			sum := allocatable[v1.ResourceName(name)]
			sum.Add(q)
			allocatable[v1.ResourceName(name)] = sum
		}
		out = append(out, kubeletconfig.MemoryReservation{NumaNode: int32(r.NUMA), Limits: limits})
	}
	return out, nil
}

func (n *node) activePods() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(n.active))
	for _, a := range n.active {
		pods = append(pods, a.pod)
	}
	return pods
}

// prefer gives the resource's plugin GetPreferredAllocation with this order.
func (n *node) prefer(r string, order []string) {
	n.prefers[r] = order
	if p := n.plugins[r]; p != nil {
		p.prefer(order)
	}
}

// plugin is the resource's plugin, connected when it lists for the first time.
func (n *node) plugin(r string) *plugin {
	p := n.plugins[r]
	if p == nil {
		n.sockets++
		p = &plugin{resource: r, socket: "plugin-" + strconv.Itoa(n.sockets), options: &pluginapi.DevicePluginOptions{}}
		if err := connect(n.devices, p); err != nil {
			panic(err) // a new socket every time: nothing can be connected twice
		}
		if order, ok := n.prefers[r]; ok {
			p.prefer(order)
		}
		n.plugins[r] = p
	}
	return p
}

// list is a ListAndWatch answer. The order of the list decides nothing but
// which random picks are likely, so a shuffled run shows more of them.
func (n *node) list(r string, devices []form.Device) error {
	n.plugin(r)
	n.lists[r] = devices
	resp := &pluginapi.ListAndWatchResponse{}
	for _, d := range devices {
		out := &pluginapi.Device{ID: d.ID, Health: pluginapi.Healthy}
		if !d.IsHealthy() {
			out.Health = pluginapi.Unhealthy
		}
		if d.NUMA != nil {
			out.Topology = &pluginapi.TopologyInfo{}
			for _, id := range d.NUMA {
				out.Topology.Nodes = append(out.Topology.Nodes, &pluginapi.NUMANode{ID: int64(id)})
			}
		}
		resp.Devices = append(resp.Devices, out)
	}
	if n.shuffle != nil {
		n.shuffle.Shuffle(len(resp.Devices), func(i, j int) {
			resp.Devices[i], resp.Devices[j] = resp.Devices[j], resp.Devices[i]
		})
	}
	listAndWatch(n.devices, r, resp)
	return nil
}

// disconnect ends the plugin; a later list connects a new one, which prefers
// what the old one did.
func (n *node) disconnect(r string) error {
	p := n.plugins[r]
	if p == nil {
		return nil // gone already
	}
	disconnect(n.devices, p)
	delete(n.plugins, r)
	return nil
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
