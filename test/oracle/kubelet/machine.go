//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"numafit.io/numafit/test/oracle/form"
)

// machineOf is what cadvisor would report, and the CPUs that are reserved.
func machineOf(c *form.Case) (*machineInfo, cpuset.CPUSet, error) {
	m := &machineInfo{}
	sockets := map[int]bool{}
	var reserved []int
	for _, n := range c.NUMA {
		out := machineNode{Id: n.ID, Memory: n.Memory, Distances: n.Distances}
		out.Cores = coresOf(n)
		for _, core := range out.Cores {
			m.NumCores += len(core.Threads)
			sockets[core.SocketID] = true
		}
		m.NumPhysicalCores += len(out.Cores)
		m.MemoryCapacity += n.Memory
		for size, pages := range n.Hugepages {
			q, err := resource.ParseQuantity(size)
			if err != nil {
				return nil, cpuset.CPUSet{}, fmt.Errorf("numa: hugepages: %q: %w", size, err)
			}
			out.HugePages = append(out.HugePages, hugePagesInfo{PageSize: uint64(q.Value() / 1024), NumPages: uint64(pages)})
		}
		reserved = append(reserved, n.ReservedCPUs...)
		m.Topology = append(m.Topology, out)
	}
	if m.NumCores == 0 {
		m.NumCores = 1 // nothing is said about CPUs: nothing looks at them
	}
	m.NumSockets = max(1, len(sockets))
	return m, cpuset.New(reserved...), nil
}

// coresOf lists a NUMA node's cores: as given, or its CPUs in groups of
// threadsPerCore, in the order of the list.
func coresOf(n form.NUMANode) []machineCore {
	cores := n.Cores
	if len(cores) == 0 {
		per := max(1, n.ThreadsPerCore)
		for i := 0; i < len(n.CPUs); i += per {
			cores = append(cores, form.Core{Threads: n.CPUs[i:min(i+per, len(n.CPUs))], Socket: n.Socket})
		}
	}
	var out []machineCore
	for i, core := range cores {
		mc := machineCore{Id: i, Threads: core.Threads, SocketID: core.Socket}
		if core.Uncore != nil {
			mc.UncoreCaches = []uncoreCache{{Id: *core.Uncore, Level: 3}}
		}
		out = append(out, mc)
	}
	return out
}
