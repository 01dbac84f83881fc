package generate

import (
	"maps"
	"slices"
	"strconv"

	"numafit.io/numafit/test/oracle/form"
)

var cpuOptions = []string{"full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores",
	"strict-cpu-reservation", "prefer-align-cpus-by-uncorecache"}

// together are options that a kubelet does not start with.
var together = map[[2]string]bool{
	{"distribute-cpus-across-cores", "full-pcpus-only"}:                  true,
	{"distribute-cpus-across-cores", "distribute-cpus-across-numa"}:      true,
	{"distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache"}: true,
	{"distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"}:  true,
}

// cpuManager: its options, and what is reserved.
func (m *maker) cpuManager() {
	m.c.CPUPolicy = "static"
	if m.chance(0.2) {
		m.c.CPUPolicy = "statik"
	}
	options := map[string]string{}
	for range pick(m, weighted[int]{32, 0}, weighted[int]{40, 1}, weighted[int]{24, 2}, weighted[int]{4, 3}) {
		o := oneOf(m, cpuOptions...)
		for _, other := range slices.Sorted(maps.Keys(options)) {
			pair := []string{o, other}
			slices.Sort(pair)
			if together[[2]string(pair)] && !m.chance(6) {
				delete(options, other)
			}
		}
		options[o] = oneOf(m, "true", "true", "true", "true", "true", "true", "1", "t", "false")
	}
	if m.c.TopologyPolicy == "single-numa-node" && !m.chance(3) {
		delete(options, "align-by-socket")
	}
	if m.chance(0.5) {
		options[oneOf(m, "no-such-option", "full-pcpus-only")] = oneOf(m, "true", "maybe", "")
	}
	if len(options) > 0 {
		m.c.CPUOptions = options
	}
	alpha := options["align-by-socket"] != "" || options["distribute-cpus-across-cores"] != ""
	gates := map[string]bool{}
	if (alpha && !m.chance(3)) || m.chance(2) {
		gates["CPUManagerPolicyAlphaOptions"] = true
	}
	if m.chance(2) {
		gates["CPUManagerPolicyBetaOptions"] = oneOf(m, true, false)
	}
	if len(gates) > 0 {
		m.c.FeatureGates = gates
	}
	m.reserveCPUs()
}

// reserveCPUs: whole cores, halves of cores, all of a NUMA node, or a number
// from which the kubelet picks itself.
func (m *maker) reserveCPUs() {
	g := m.managers
	if m.chance(0.5) {
		return // a kubelet does not start
	}
	if m.chance(38) {
		all := 0
		for _, k := range g.cpus {
			all += k
		}
		m.c.ReservedCPUMilli = pick(m, weighted[int64]{20, 1000}, weighted[int64]{10, 500}, weighted[int64]{10, 1500}, weighted[int64]{20, 2000},
			weighted[int64]{8, 3000}, weighted[int64]{6, 4000}, weighted[int64]{3, int64(all) * 500}, weighted[int64]{1, int64(all) * 1000}, weighted[int64]{1, int64(all)*1000 + 1})
		return
	}
	reserved := 0
	add := func(n *form.NUMANode, cpus ...int) {
		for _, c := range cpus {
			if !slices.Contains(n.ReservedCPUs, c) {
				n.ReservedCPUs = append(n.ReservedCPUs, c)
				g.reserved[n.ID]++
				reserved++
			}
		}
	}
	first := m.IntN(len(m.c.NUMA))
	each := m.chance(30)
	kind := m.IntN(6)
	for i := range m.c.NUMA {
		n := &m.c.NUMA[(first+i)%len(m.c.NUMA)]
		cores := coresOf(n)
		if len(cores) == 0 || (reserved > 0 && !each) {
			continue
		}
		switch kind {
		case 0, 1: // a core
			add(n, cores[0]...)
		case 2: // half a core
			add(n, cores[0][0])
		case 3: // halves
			for _, c := range cores[:min(len(cores), 2)] {
				add(n, c[len(c)-1])
			}
		case 4: // any
			for range 1 + m.IntN(3) {
				add(n, oneOf(m, oneOf(m, cores...)...))
			}
		case 5: // nearly all
			for _, c := range cores[m.IntN(2):] {
				add(n, c...)
			}
		}
		slices.Sort(n.ReservedCPUs)
	}
	if m.chance(5) {
		m.c.ReservedCPUMilli = int64(reserved) * 1000
		if m.chance(15) {
			// Below zero no configuration can be.
			m.c.ReservedCPUMilli = max(0, m.c.ReservedCPUMilli+oneOf[int64](m, -1000, -1, 1, 1000))
		}
	}
}

// coresOf are the threads of a NUMA node's cores.
func coresOf(n *form.NUMANode) [][]int {
	var out [][]int
	for _, c := range n.Cores {
		out = append(out, c.Threads)
	}
	for c := range slices.Chunk(n.CPUs, max(1, n.ThreadsPerCore)) {
		out = append(out, c)
	}
	return out
}

// memories: alike, uneven, or none on some NUMA node.
func (m *maker) memories(sizes int) {
	g := m.managers
	base := oneOf[uint64](m, 2, 4, 4, 8, 8, 16) << 30
	uneven := m.chance(35)
	names := []string{"2Mi", "1Gi"}
	if m.chance(40) {
		slices.Reverse(names)
	}
	for i := range m.c.NUMA {
		n := &m.c.NUMA[i]
		n.Memory = base
		if uneven {
			n.Memory = base / 4 * oneOf[uint64](m, 2, 3, 4, 4, 5, 8)
		}
		if m.chance(4) && len(m.ids) > 1 {
			n.Memory = 0
		}
		g.free[n.ID] = n.Memory
		for _, size := range names[:sizes] {
			if m.chance(0.4) {
				continue // a size that not every NUMA node knows
			}
			pages := oneOf[int64](m, 0, 1, 2, 2, 3, 4)
			if size == "2Mi" {
				pages = oneOf[int64](m, 0, 1, 2, 4, 64, 64, 128, 512)
			}
			if uint64(pages)*pageSizes[size] > g.free[n.ID] && !m.chance(2) {
				pages = 0
			}
			if n.Hugepages == nil {
				n.Hugepages = map[string]int64{}
			}
			n.Hugepages[size] = pages
			if g.pages[size] == nil {
				g.pages[size] = map[int]int64{}
			}
			g.pages[size][n.ID] = pages
			g.free[n.ID] -= min(g.free[n.ID], uint64(pages)*pageSizes[size])
		}
	}
}

// memoryManager: what is reserved on one, some or all NUMA nodes.
func (m *maker) memoryManager() {
	g := m.managers
	m.c.MemoryPolicy = "Static"
	if m.chance(0.3) {
		m.c.MemoryPolicy = oneOf(m, "BestEffort", "static")
	}
	if m.chance(0.5) {
		return // a kubelet does not start
	}
	some := oneOf(m, 0, 0, 0, 100, 100, 50)
	reserved := false
	for i, id := range m.Perm(len(m.ids)) {
		numa := m.ids[id]
		if (reserved || (g.free[numa] == 0 && i+1 < len(m.ids))) && !m.chance(float64(some)) {
			continue
		}
		reserved = true
		amount := oneOf[uint64](m, 1<<30, 1<<30, 512<<20, 100<<20, 1)
		if amount > g.free[numa] && !m.chance(2) {
			amount = min(g.free[numa], 1)
		}
		limits := map[string]string{"memory": strconv.FormatUint(amount, 10)}
		g.free[numa] -= min(g.free[numa], amount)
		for _, size := range slices.Sorted(maps.Keys(g.pages)) {
			pages := g.pages[size]
			if k := pages[numa]; k > 0 && m.chance(12) {
				k = oneOf(m, 1, k)
				limits["hugepages-"+size] = strconv.FormatUint(uint64(k)*pageSizes[size], 10)
				pages[numa] -= k
			}
		}
		m.c.ReservedMemory = append(m.c.ReservedMemory, form.ReservedMemory{NUMA: numa, Limits: limits})
	}
	if m.chance(0.3) {
		m.c.ReservedMemory[0].NUMA = 62
	}
}
