//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"

	"numafit.io/numafit/test/oracle/form"
)

// fillState adds what the state files would hold after a step.
func (n *node) fillState(a *form.StepAnswer) {
	if n.cpuPolicy() == "static" {
		s := n.cpuState.GetDefaultCPUSet().String()
		a.DefaultCPUs = &s
	}
	if n.memoryPolicy() != "Static" {
		return
	}
	machine := n.memoryState.GetMachineState()
	for id, node := range machine {
		out := form.NUMAState{NUMA: id, Assignments: node.NumberOfAssignments, Cells: slices.Sorted(slices.Values(node.Cells)), Free: map[string]uint64{}}
		for r, table := range node.MemoryMap {
			out.Free[string(r)] = table.Free
		}
		a.MemoryState = append(a.MemoryState, out)
	}
	slices.SortFunc(a.MemoryState, func(x, y form.NUMAState) int { return cmp.Compare(x.NUMA, y.NUMA) })
}

// holding is what a container has of CPUs and memory.
func (n *node) holding(uid, container string) (string, []form.MemoryBlock) {
	return n.cpus.GetExclusiveCPUs(uid, container).String(), blocksOf(memoryBlocks(n.memory, uid, container))
}

func blocksOf(list []memorystate.Block) []form.MemoryBlock {
	var blocks []form.MemoryBlock
	for _, b := range list {
		blocks = append(blocks, form.MemoryBlock{Type: string(b.Type), NUMA: slices.Clone(b.NUMAAffinity), Size: b.Size})
	}
	slices.SortFunc(blocks, func(x, y form.MemoryBlock) int { return cmp.Compare(x.Type, y.Type) })
	return blocks
}

// fillPod adds what the Pod has as a whole.
func (n *node) fillPod(uid string, a *form.StepAnswer) {
	cpus, blocks := podEntries(n.cpuState, n.memoryState, uid)
	a.PodCPUs, a.PodMemory = cpus.String(), blocksOf(blocks)
}

func memoryOf(list []form.MemoryBlock) []memorystate.Block {
	var blocks []memorystate.Block
	for _, b := range list {
		blocks = append(blocks, memorystate.Block{Type: v1.ResourceName(b.Type), NUMAAffinity: slices.Clone(b.NUMA), Size: b.Size})
	}
	return blocks
}

// left is what a refused Pod's containers hold until the kubelet cleans up, at
// the next admission.
func (n *node) left(p *form.Pod, uid string) []form.Holding {
	var out []form.Holding
	for _, c := range p.All() {
		cpus, memory := n.holding(uid, c.Name)
		if cpus != "" || memory != nil {
			out = append(out, form.Holding{Name: c.Name, CPUs: cpus, Memory: memory})
		}
	}
	return out
}

// impose replaces what the Pod got of CPUs and memory by what was observed.
func (n *node) impose(a *admitted, observed *form.StepAnswer) error {
	if observed.IsAdmitted() {
		n.active[a.of.Name] = a
	} else {
		delete(n.active, a.of.Name)
	}
	return n.imposeHoldings(a, observed)
}

// imposeHoldings replaces what a Pod's containers, and the Pod as a whole, have
// of CPUs and memory.
func (n *node) imposeHoldings(a *admitted, observed *form.StepAnswer) error {
	holdings := map[string]form.Holding{}
	for _, c := range observed.Containers {
		holdings[c.Name] = form.Holding{CPUs: c.CPUs, Memory: c.Memory}
	}
	for _, c := range observed.Left {
		holdings[c.Name] = c
	}
	uid := string(a.pod.UID)
	for _, c := range a.of.All() {
		if err := n.imposeHolding(uid, c.Name, holdings[c.Name]); err != nil {
			return err
		}
	}
	cpus, err := cpuset.Parse(observed.PodCPUs)
	if err != nil {
		return fmt.Errorf("observed: podCpus: %w", err)
	}
	if n.cpuPolicy() == "static" {
		imposePodCPUs(n.cpuState, uid, cpus)
	}
	if n.memoryPolicy() == "Static" {
		imposePodMemory(n.memoryState, uid, memoryOf(observed.PodMemory))
	}
	return nil
}

// imposeHolding writes one container's part into the managers' books; what is
// free follows with the state, or from what the container had.
func (n *node) imposeHolding(uid, container string, h form.Holding) error {
	if n.cpuPolicy() == "static" {
		cpus, err := cpuset.Parse(h.CPUs)
		if err != nil {
			return fmt.Errorf("observed: cpus: %w", err)
		}
		free := n.cpuState.GetDefaultCPUSet()
		if had, is := n.cpuState.GetCPUSet(uid, container); is {
			free = free.Union(had)
			n.cpuState.Delete(uid, container)
		}
		if !cpus.IsEmpty() {
			n.cpuState.SetCPUSet(uid, container, cpus)
		}
		n.cpuState.SetDefaultCPUSet(free.Difference(cpus))
	}
	if n.memoryPolicy() == "Static" {
		n.memoryState.Delete(uid, container)
		if blocks := memoryOf(h.Memory); blocks != nil {
			n.memoryState.SetMemoryBlocks(uid, container, blocks)
		}
	}
	return nil
}

// imposeState sets what the state files were seen to hold.
func (n *node) imposeState(observed *form.StepAnswer) {
	if observed.DefaultCPUs != nil && n.cpuPolicy() == "static" {
		if cpus, err := cpuset.Parse(*observed.DefaultCPUs); err == nil {
			n.cpuState.SetDefaultCPUSet(cpus)
		}
	}
	if observed.MemoryState == nil || n.memoryPolicy() != "Static" {
		return
	}
	machine := n.memoryState.GetMachineState()
	for _, seen := range observed.MemoryState {
		node := machine[seen.NUMA]
		if node == nil {
			continue
		}
		node.NumberOfAssignments = seen.Assignments
		node.Cells = slices.Clone(seen.Cells)
		for r, free := range seen.Free {
			if table := node.MemoryMap[v1.ResourceName(r)]; table != nil {
				table.Free, table.Reserved = free, table.Allocatable-free
			}
		}
	}
	n.memoryState.SetMachineState(machine)
}

// allDevices are those of a Pod that stays, by container.
func allDevices(a *form.StepAnswer) map[string]map[string][]string {
	out := map[string]map[string][]string{}
	for _, c := range a.Containers {
		out[c.Name] = c.Devices
	}
	for _, c := range a.Left {
		out[c.Name] = c.Devices
	}
	maps.DeleteFunc(out, func(_ string, d map[string][]string) bool { return len(d) == 0 })
	return out
}

func (n *node) imposeDevices(a *admitted, containers map[string]map[string][]string) {
	podDevices := field(n.devices, "podDevices")
	held := podDevices.UnsafePointer()
	devs := field(podDevices.Interface(), "devs")
	uid := string(a.pod.UID)
	for _, key := range devs.MapKeys() {
		if key.String() == uid {
			devs.SetMapIndex(key, reflect.Value{}) // delete
		}
	}
	for name, devices := range containers {
		for r, ids := range devices {
			podDevicesInsert(held, uid, name, r, n.byNUMA(r, ids), &pluginapi.ContainerAllocateResponse{})
		}
	}
	setField(n.devices, "allocatedDevices", podDevicesAll(held))
}

func (n *node) byNUMA(r string, ids []string) checkpoint.DevicesPerNUMA {
	wanted := sets.New(ids...)
	out := checkpoint.NewDevicesPerNUMA()
	for _, d := range n.lists[r] {
		if !wanted.Has(d.ID) {
			continue
		}
		if len(d.NUMA) == 0 {
			out[-1] = append(out[-1], d.ID)
		}
		for _, id := range d.NUMA {
			out[int64(id)] = append(out[int64(id)], d.ID)
		}
	}
	return out
}
