package generate

import (
	"maps"
	"slices"
	"strconv"

	"numafit.io/numafit/test/oracle/form"
)

// guest is a Pod for static managers: mostly Guaranteed, with quantities at
// the edges of NUMA nodes.
func (m *maker) guest(name string) *form.Pod {
	p := &form.Pod{Name: name}
	apps := pick(m, weighted[int]{66, 1}, weighted[int]{25, 2}, weighted[int]{9, 3})
	base := m.share(apps)
	m.containers(p, m.chance(24), apps, base, func() map[string]string { return m.nearShare(base, apps) })
	if m.chance(14) {
		m.lessThanGuaranteed(p)
	}
	if m.chance(3) {
		p.Resources = &form.Resources{Limits: map[string]string{"cpu": strconv.Itoa(m.cpuQuantity(1) + 1), "memory": "8Gi"}}
	}
	for _, list := range [][]form.Container{p.InitContainers, p.Containers} {
		for i := range list {
			r := &list[i].Resources
			r.Limits, r.Requests = orNone(r.Limits), orNone(r.Requests)
		}
	}
	return p
}

// lessThanGuaranteed takes something from one container.
func (m *maker) lessThanGuaranteed(p *form.Pod) {
	c := &p.Containers[m.IntN(len(p.Containers))].Resources
	switch m.IntN(6) {
	case 0:
		c.Requests = map[string]string{"cpu": oneOf(m, "1", "500m", "0")}
	case 1:
		c.Requests = map[string]string{"memory": oneOf(m, "1Mi", "1Gi", "0")}
	case 2:
		delete(c.Limits, oneOf(m, "cpu", "memory"))
	case 3: // requests alone
		if c.Limits["cpu"] != "" {
			c.Requests = map[string]string{"cpu": c.Limits["cpu"]}
			delete(c.Limits, "cpu")
		}
	case 4: // the same by another name
		c.Requests = map[string]string{"cpu": c.Limits["cpu"], "memory": c.Limits["memory"]}
		maps.DeleteFunc(c.Requests, func(_, q string) bool { return q == "" })
	case 5: // best effort, but for devices
		for i := range p.InitContainers {
			bare(p.InitContainers[i].Resources.Limits)
		}
		for i := range p.Containers {
			bare(p.Containers[i].Resources.Limits)
		}
	}
}

func bare(limits map[string]string) {
	maps.DeleteFunc(limits, func(r, _ string) bool { return r == "cpu" || r == "memory" || len(r) > 9 && r[:9] == "hugepages" })
}

// share is what one of so many containers asks for.
func (m *maker) share(of int) map[string]string {
	g := m.managers
	out := m.demand(g.small)
	if out == nil {
		out = map[string]string{}
	}
	out["cpu"] = m.cpuText(m.cpuQuantity(of))
	out["memory"] = m.memoryText(m.memoryQuantity(of))
	for _, size := range slices.Sorted(maps.Keys(g.pages)) {
		if m.chance(45) {
			out["hugepages-"+size] = strconv.FormatUint(m.pageQuantity(size)*pageSizes[size], 10)
		}
	}
	if g.memory && m.chance(0.2) {
		out[oneOf(m, "hugepages-1Gi", "hugepages-2Mi", "hugepages-64Ki")] = "1Gi"
	}
	return out
}

// nearShare is a share like the other one, or one CPU or NUMA node more or less.
func (m *maker) nearShare(base map[string]string, of int) map[string]string {
	if m.chance(40) {
		return m.share(of)
	}
	out := maps.Clone(base)
	for _, r := range slices.Sorted(maps.Keys(base)) {
		k, err := strconv.Atoi(base[r])
		if err != nil {
			continue
		}
		switch {
		case r == "memory":
			out[r] = m.memoryText(uint64(k) * oneOf[uint64](m, 2, 2, 4, 1) / oneOf[uint64](m, 2, 2, 4, 1))
		case len(r) > 9 && r[:9] == "hugepages":
		default:
			if k += oneOf(m, 0, 0, 1, -1, -2, m.managers.smt); k > 0 {
				out[r] = strconv.Itoa(k)
			}
		}
	}
	return out
}

// cpuQuantity likes the edges: what a NUMA node has, what is left of it beside
// what is reserved, one more, one less, two NUMA nodes, the whole machine.
func (m *maker) cpuQuantity(of int) int {
	g := m.managers
	if !g.cpu && m.chance(80) {
		return 1
	}
	smt := max(1, g.smt)
	if g.small && m.chance(75) {
		return oneOf(m, 1, 1, 2, 2, 3, smt, 2*smt)
	}
	a, b := oneOf(m, m.ids...), oneOf(m, m.ids...)
	node, free, all := g.cpus[a], g.cpus[a]-g.reserved[a], 0
	two := free
	if a != b {
		two += g.cpus[b] - g.reserved[b]
	}
	for _, k := range g.cpus {
		all += k
	}
	k := pick(m, weighted[int]{12, node}, weighted[int]{16, free}, weighted[int]{6, free + 1}, weighted[int]{8, free - 1}, weighted[int]{8, two},
		weighted[int]{3, two + 1}, weighted[int]{4, two - smt}, weighted[int]{8, free / 2}, weighted[int]{4, free - smt}, weighted[int]{3, all}, weighted[int]{3, all - m.totalReserved()},
		weighted[int]{14, smt}, weighted[int]{8, 2 * smt}, weighted[int]{6, 3}, weighted[int]{8, 1})
	if of > 1 && m.chance(60) {
		k /= of
	}
	return max(1, k)
}

func (m *maker) totalReserved() int {
	all := int(m.c.ReservedCPUMilli+999) / 1000
	for _, k := range m.managers.reserved {
		all += k
	}
	return all
}

// cpuText writes it, rarely as something that is not whole.
func (m *maker) cpuText(k int) string {
	switch {
	case m.chance(4):
		return strconv.Itoa(k) + oneOf(m, "500m", ".5", "001m")
	case m.chance(2):
		return strconv.Itoa(k) + oneOf(m, "000m", ".0", "e0")
	case m.chance(0.5):
		return oneOf(m, "0", "100k")
	}
	return strconv.Itoa(k)
}

// memoryQuantity likes what a NUMA node has for Pods, its half and quarter, a
// byte more or less, two NUMA nodes and all of them.
func (m *maker) memoryQuantity(of int) uint64 {
	g := m.managers
	if !g.memory {
		return 1 << 30
	}
	if g.small && m.chance(60) {
		return oneOf[uint64](m, 1<<30, 1<<30, 512<<20, 256<<20)
	}
	a, b := oneOf(m, m.ids...), oneOf(m, m.ids...)
	free, all := g.free[a], uint64(0)
	two := free
	if a != b {
		two += g.free[b]
	}
	for _, k := range g.free {
		all += k
	}
	k := pick(m, weighted[uint64]{16, free}, weighted[uint64]{18, free / 2}, weighted[uint64]{10, free / 4}, weighted[uint64]{7, free + 1}, weighted[uint64]{5, free - 1},
		weighted[uint64]{10, two}, weighted[uint64]{8, free + 1<<30}, weighted[uint64]{3, two + 1}, weighted[uint64]{3, all}, weighted[uint64]{1, all + 1}, weighted[uint64]{20, 1 << 30}, weighted[uint64]{3, 1})
	if of > 1 && m.chance(60) {
		k /= uint64(of)
	}
	if k == 0 || k > 1<<50 {
		k = 1 << 30
	}
	return k
}

func (m *maker) memoryText(k uint64) string {
	switch {
	case m.chance(0.3):
		return oneOf(m, "0", "1500m", "100m", "9Ei", "16Ei")
	case m.chance(5) && k%(1<<20) == 0:
		return strconv.FormatUint(k>>20, 10) + "Mi"
	}
	return strconv.FormatUint(max(k, 1), 10)
}

// pageQuantity in pages: what a NUMA node has, one more, half, all.
func (m *maker) pageQuantity(size string) uint64 {
	pages := m.managers.pages[size]
	a := pages[oneOf(m, m.ids...)]
	all := int64(0)
	for _, k := range pages {
		all += k
	}
	return uint64(max(0, pick(m, weighted[int64]{30, a}, weighted[int64]{25, a / 2}, weighted[int64]{8, a + 1}, weighted[int64]{6, all}, weighted[int64]{30, 1}, weighted[int64]{1, 0})))
}
