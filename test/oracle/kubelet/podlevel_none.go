//go:build k134 || k135

package kubelet

import (
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
)

// Before 1.36 nothing is allocated to a Pod as a whole.
func podEntries(cpustate.State, memorystate.State, string) (cpuset.CPUSet, []memorystate.Block) {
	return cpuset.New(), nil
}

func imposePodCPUs(cpustate.State, string, cpuset.CPUSet)            {}
func imposePodMemory(memorystate.State, string, []memorystate.Block) {}
