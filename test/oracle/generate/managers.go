package generate

import (
	"math"
	"slices"

	"numafit.io/numafit/test/oracle/form"
)

// managers is what a case with static managers has beside devices.
type managers struct {
	cpu, memory bool
	smt         int
	cpus        map[int]int    // logical CPUs by NUMA node
	reserved    map[int]int    // of these, reserved
	free        map[int]uint64 // memory for Pods by NUMA node
	pages       map[string]map[int]int64
	small       bool
}

// pageSizes of the huge pages that machines have.
var pageSizes = map[string]uint64{"2Mi": 2 << 20, "1Gi": 1 << 30}

// all makes a case with a static CPU manager, a static memory manager, or both.
func (m *maker) all() *form.Case {
	g := &managers{cpus: map[int]int{}, reserved: map[int]int{}, free: map[int]uint64{}, pages: map[string]map[int]int64{}, small: m.chance(50) || m.smaller()}
	m.managers = g
	switch {
	case m.chance(36):
		g.cpu = true
	case m.chance(34):
		g.memory = true
	default:
		g.cpu, g.memory = true, true
	}
	if m.resizes != nil && g.cpu && g.memory && m.chance(70) { // beside both hardly a resize is feasible
		g.cpu = m.chance(50)
		g.memory = !g.cpu
	}
	n := pick(m, weighted[int]{10, 1}, weighted[int]{50, 2}, weighted[int]{10, 3}, weighted[int]{19, 4},
		weighted[int]{3, 5}, weighted[int]{3, 6}, weighted[int]{1, 7}, weighted[int]{4, 8})
	if !g.memory && hintsOverDeviceNodes(m.minor) && m.chance(1) {
		n, m.many = 34, true
	}
	m.nodes(n)
	m.settings()
	m.leftovers = false
	hinted := m.mostHinted()
	pools := pick(m, weighted[int]{35, 0}, weighted[int]{40, 1}, weighted[int]{22, 2}, weighted[int]{3, 3})
	if hinted == 1 && g.cpu && g.memory {
		g.cpu = m.chance(50)
		g.memory = !g.cpu
	}
	hinted -= count(g.cpu) + count(g.memory)
	sizes := 0
	if g.memory && !m.chance(50) {
		sizes = min(hinted, oneOf(m, 1, 1, 2))
	}
	if g.cpu || m.chance(30) {
		m.processors()
	}
	if g.cpu {
		m.cpuManager()
	} else if m.chance(0.5) { // a kubelet does not start
		m.c.CPUOptions = map[string]string{oneOf(m, cpuOptions...): "true"}
	}
	if g.memory || m.chance(10) {
		m.memories(sizes)
	}
	if g.memory {
		m.memoryManager()
	}
	m.makePools(min(pools, hinted-sizes))
	m.distances()
	m.preferences()
	m.restarts = pick(m, weighted[float64]{90, 0}, weighted[float64]{10, 15})
	if m.podLevel {
		m.podLevelCase()
		return m.c
	}
	m.exclusiveToo()
	m.admissions(m.length(), m.guest)
	return m.c
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mostHinted is for how many resources a Pod may ask with hints, so that the
// kubelet's permutations stay within milliseconds.
func (m *maker) mostHinted() int {
	masks := math.Pow(2, float64(len(m.ids))) - 1
	switch policy := m.c.TopologyPolicy; {
	case m.many:
		return 3
	case policy == "none":
		return 6
	case policy == "single-numa-node":
		masks = float64(len(m.ids))
	}
	most := 4000.0
	if m.chance(4) {
		most = 70000
	}
	n := 1
	for n < 6 && math.Pow(masks, float64(n+1)) <= most {
		n++
	}
	return n
}

func (m *maker) length() int {
	switch n := len(m.ids); {
	case m.many:
		return 4 + m.IntN(8)
	case n >= 7:
		return 3 + m.IntN(6)
	case n >= 5:
		return 4 + m.IntN(8)
	}
	return pick(m, weighted[int]{85, 5 + m.IntN(8)}, weighted[int]{15, 12 + m.IntN(9)})
}

// processors: cores by NUMA node, alike or not, in one of the numberings that
// machines have, on sockets that need not be NUMA nodes.
func (m *maker) processors() {
	g := m.managers
	g.smt = pick(m, weighted[int]{38, 1}, weighted[int]{52, 2}, weighted[int]{10, 4})
	base := pick(m, weighted[int]{8, 1}, weighted[int]{22, 2}, weighted[int]{14, 3}, weighted[int]{26, 4}, weighted[int]{8, 5},
		weighted[int]{8, 6}, weighted[int]{12, 8}, weighted[int]{2, 16}, weighted[int]{1, 36})
	if len(m.ids) > 5 {
		base = min(base, 4) // the kubelet counts CPUs for each of 2^n masks
	}
	cores := map[int]int{}
	uneven, total := m.chance(25), 0
	for _, id := range m.ids {
		cores[id] = base
		if uneven {
			cores[id] = max(0, base+oneOf(m, -2, -1, 0, 0, 1, 2))
		}
	}
	if m.many {
		for i, id := range m.ids {
			if i > 1 {
				cores[id] = 0
			}
		}
	} else if m.chance(9) && len(m.ids) > 1 { // NUMA nodes without CPUs
		for range 1 + m.IntN(len(m.ids)-1) {
			cores[oneOf(m, m.ids...)] = 0
		}
	}
	for _, k := range cores {
		total += k
	}
	if total == 0 {
		cores[m.ids[0]], total = base, base
	}
	m.number(cores, total)
}

// number gives threads their ids and cores their sockets and caches.
func (m *maker) number(cores map[int]int, total int) {
	g := m.managers
	split := g.smt > 1 && m.chance(50)                            // siblings far apart, as Linux numbers them
	perSocket := oneOf(m, 1, 1, 1, 2, 2, 4)                       // NUMA nodes
	perNode := m.chance(6)                                        // several sockets in a NUMA node
	perCache := oneOf(m, 0, 0, 0, 1, 2, 3, 4)                     // cores
	lame := m.chance(4)                                           // a core with a thread less
	shift := pick(m, weighted[int]{97, 0}, weighted[int]{3, 250}) // ids of a machine with hundreds of CPUs
	order := m.coreOrder(cores)
	for i := range m.c.NUMA {
		n := &m.c.NUMA[i]
		at := slices.Index(m.ids, n.ID)
		n.Socket = at / perSocket
		var list []form.Core
		for k, c := range order[n.ID] {
			core := form.Core{Socket: n.Socket}
			for t := range g.smt {
				if split {
					core.Threads = append(core.Threads, shift+c+t*total)
				} else {
					core.Threads = append(core.Threads, shift+c*g.smt+t)
				}
			}
			if perNode {
				core.Socket = 2*at + k%2
			}
			if perCache > 0 && !m.chance(1) {
				id := 100*at + k/perCache
				core.Uncore = &id
			}
			list = append(list, core)
		}
		if lame && len(list) > 0 && g.smt > 1 {
			last := &list[len(list)-1]
			last.Threads, lame = last.Threads[:len(last.Threads)-1], false
		}
		for _, core := range list {
			g.cpus[n.ID] += len(core.Threads)
		}
		if perNode || perCache > 0 || g.cpus[n.ID] != len(list)*g.smt || m.chance(10) {
			n.Cores, n.Socket = list, 0
			continue
		}
		for _, core := range list {
			n.CPUs = append(n.CPUs, core.Threads...)
		}
		if g.smt > 1 {
			n.ThreadsPerCore = g.smt
		}
	}
}

// coreOrder numbers cores through NUMA nodes, one after the other or in turn.
func (m *maker) coreOrder(cores map[int]int) map[int][]int {
	out := map[int][]int{}
	next := 0
	if !m.chance(12) {
		for _, id := range m.ids {
			for range cores[id] {
				out[id] = append(out[id], next)
				next++
			}
		}
		return out
	}
	for more := true; more; {
		more = false
		for _, id := range m.ids {
			if len(out[id]) < cores[id] {
				out[id] = append(out[id], next)
				next++
				more = true
			}
		}
	}
	return out
}
