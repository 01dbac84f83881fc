package judge

import (
	"slices"

	"numafit.io/numafit/test/oracle/form"
)

// plainManagers takes one setting of the static managers away.
func plainManagers(c *form.Case, k int) bool {
	var simpler []func()
	add := func(has bool, take func()) {
		if has {
			simpler = append(simpler, take)
		}
	}
	add(c.CPUPolicy != "", func() { c.CPUPolicy, c.CPUOptions = "", nil })
	add(c.MemoryPolicy != "", func() { c.MemoryPolicy, c.ReservedMemory = "", nil })
	add(len(c.FeatureGates) > 0, func() { c.FeatureGates = nil })
	add(c.ReservedCPUMilli > 1000, func() { c.ReservedCPUMilli = 1000 })
	for _, o := range sorted(c.CPUOptions) {
		add(true, func() { delete(c.CPUOptions, o) })
	}
	for i := range c.ReservedMemory {
		add(len(c.ReservedMemory) > 1, func() { c.ReservedMemory = slices.Delete(c.ReservedMemory, i, i+1) })
	}
	sizes := map[string]bool{}
	for i := range c.NUMA {
		n := &c.NUMA[i]
		for size := range n.Hugepages {
			sizes[size] = true
		}
		add(c.CPUPolicy == "" && (n.CPUs != nil || n.Cores != nil), func() { n.CPUs, n.Cores, n.ReservedCPUs, n.ThreadsPerCore = nil, nil, nil, 0 })
		add(c.MemoryPolicy == "" && n.Memory > 0, func() { n.Memory, n.Hugepages = 0, nil })
		add(n.Socket > 0 && n.Socket != n.ID, func() { n.Socket = n.ID })
		add(len(n.ReservedCPUs) > 1, func() { n.ReservedCPUs = n.ReservedCPUs[:1] })
		add(slices.ContainsFunc(n.Cores, func(core form.Core) bool { return core.Uncore != nil }), func() {
			for j := range n.Cores {
				n.Cores[j].Uncore = nil
			}
		})
	}
	for _, size := range sorted(sizes) {
		add(true, func() { dropPages(c, size) })
	}
	if k >= len(simpler) {
		return false
	}
	simpler[k]()
	return true
}

func dropPages(c *form.Case, size string) {
	for i := range c.NUMA {
		delete(c.NUMA[i].Hugepages, size)
	}
	for i := range c.ReservedMemory {
		delete(c.ReservedMemory[i].Limits, "hugepages-"+size)
	}
	for _, l := range limits(c) {
		delete(l, "hugepages-"+size)
	}
}

// dropCore takes a core from a NUMA node, the last ones first.
func dropCore(c *form.Case, k int) bool {
	for i := range c.NUMA {
		n := &c.NUMA[i]
		per := max(1, n.ThreadsPerCore)
		switch {
		case k < len(n.Cores):
			at := len(n.Cores) - 1 - k
			n.ReservedCPUs = without(n.ReservedCPUs, n.Cores[at].Threads)
			n.Cores = slices.Delete(n.Cores, at, at+1)
			return true
		case len(n.Cores) > 0:
			k -= len(n.Cores)
		case k*per < len(n.CPUs):
			at := (len(n.CPUs)-1)/per - k
			gone := slices.Clone(n.CPUs[at*per : min(len(n.CPUs), (at+1)*per)])
			n.ReservedCPUs = without(n.ReservedCPUs, gone)
			n.CPUs = without(n.CPUs, gone)
			return true
		default:
			k -= (len(n.CPUs) + per - 1) / per
		}
	}
	return false
}

func without(list, gone []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(c int) bool { return slices.Contains(gone, c) })
}

// dropRequests drops a container's requests, or the Pod's own resources.
func dropRequests(c *form.Case, k int) bool {
	for _, p := range pods(c) {
		if p.Resources != nil {
			if k--; k < 0 {
				p.Resources = nil
				return true
			}
		}
		for _, list := range [][]form.Container{p.InitContainers, p.Containers} {
			for i := range list {
				if list[i].Resources.Requests == nil {
					continue
				}
				if k--; k < 0 {
					list[i].Resources.Requests = nil
					return true
				}
			}
		}
	}
	return false
}
