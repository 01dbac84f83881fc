//go:build k136 || k137

package kubelet

import (
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
)

// What a Pod has as a whole in the managers' books: gate
// PodLevelResourceManagers, from 1.36 on.
func podEntries(c cpustate.State, m memorystate.State, uid string) (cpuset.CPUSet, []memorystate.Block) {
	cpus, _ := c.GetPodCPUSet(uid)
	return cpus, m.GetPodMemoryBlocks(uid)
}

func imposePodCPUs(s cpustate.State, uid string, cpus cpuset.CPUSet) {
	if had, _ := s.GetPodCPUSet(uid); had.Equals(cpus) {
		return
	}
	s.DeletePod(uid)
	if !cpus.IsEmpty() {
		s.SetPodCPUSet(uid, cpus)
	}
}

func imposePodMemory(s memorystate.State, uid string, blocks []memorystate.Block) {
	if len(s.GetPodMemoryBlocks(uid)) == 0 && len(blocks) == 0 {
		return
	}
	s.DeletePod(uid)
	if len(blocks) > 0 {
		s.SetPodMemoryBlocks(uid, blocks)
	}
}
