package generate

import (
	"maps"
	"slices"
	"strconv"

	"numafit.io/numafit/test/oracle/form"
)

// podLevelCase: the gate is on, and most Pods have resources of their own.
func (m *maker) podLevelCase() {
	m.restarts = pick(m, weighted[float64]{75, 0}, weighted[float64]{25, 18})
	if m.c.FeatureGates == nil {
		m.c.FeatureGates = map[string]bool{}
	}
	m.c.FeatureGates["PodLevelResourceManagers"] = true
	if m.c.Scope != "pod" && m.chance(40) {
		m.c.Scope = "pod"
	}
	m.admissions(m.length(), func(name string) *form.Pod {
		if m.chance(22) {
			p := m.guest(name)
			if m.wholeWithoutDevices() {
				p.Resources = nil
			}
			return p
		}
		return m.whole(name)
	})
}

// whole is a Pod with resources of its own: what it has at its edges of NUMA
// nodes, its containers' parts at the edges of that.
func (m *maker) whole(name string) *form.Pod {
	p := &form.Pod{Name: name}
	cpus, memory := m.cpuQuantity(1), max(1, m.memoryQuantity(1))
	limits := map[string]string{"cpu": m.cpuText(cpus), "memory": m.memoryText(memory)}
	for _, size := range slices.Sorted(maps.Keys(m.managers.pages)) {
		if m.chance(40) {
			limits["hugepages-"+size] = strconv.FormatUint(m.pageQuantity(size)*pageSizes[size], 10)
		}
	}
	p.Resources = &form.Resources{Limits: limits}
	switch {
	case m.chance(6): // burstable
		p.Resources.Requests = map[string]string{oneOf(m, "cpu", "memory"): "1"}
	case m.chance(2):
		delete(limits, oneOf(m, "cpu", "memory"))
	}
	apps := pick(m, weighted[int]{30, 1}, weighted[int]{45, 2}, weighted[int]{25, 3})
	left, leftMemory := cpus, memory // by those that run for long
	if m.chance(45) {
		for i := range 1 + m.IntN(2) {
			c := form.Container{Name: "i" + strconv.Itoa(i)}
			took, tookMemory := m.part(&c, limits, left, leftMemory)
			if m.chance(50) {
				c.RestartPolicy = "Always"
				left, leftMemory = left-took, leftMemory-tookMemory
			}
			p.InitContainers = append(p.InitContainers, c)
		}
	}
	for i := range apps {
		c := form.Container{Name: "c" + strconv.Itoa(i)}
		took, tookMemory := m.part(&c, limits, left, leftMemory)
		left, leftMemory = left-took, leftMemory-tookMemory
		p.Containers = append(p.Containers, c)
	}
	return p
}

// pages of a size are in a quantity of bytes; none in an empty one.
func (m *maker) pages(quantity, size string) uint64 {
	bytes, _ := strconv.ParseUint(quantity, 10, 64)
	return bytes / pageSizes[size]
}

// part is what a container asks for of what is left of its Pod's: for itself
// when requests and limits are the same, else nothing or a part of it. It
// returns what others can have no more, by the API server's rules.
func (m *maker) part(c *form.Container, pod map[string]string, cpus int, memory uint64) (int, uint64) {
	if m.chance(25) { // nothing
		c.Resources.Limits = m.devicesOfPart()
		return 0, 0
	}
	k := min(cpus, pick(m, weighted[int]{30, cpus}, weighted[int]{15, cpus - 1}, weighted[int]{15, cpus / 2}, weighted[int]{20, 1}, weighted[int]{20, 2}))
	b := min(memory, pick(m, weighted[uint64]{30, memory}, weighted[uint64]{25, memory / 2}, weighted[uint64]{25, memory / 4}, weighted[uint64]{20, 256 << 20}))
	out := m.devicesOfPart()
	if out == nil {
		out = map[string]string{}
	}
	if k > 0 {
		out["cpu"] = strconv.Itoa(k)
	}
	if b > 0 {
		out["memory"] = strconv.FormatUint(b, 10)
	}
	for _, size := range slices.Sorted(maps.Keys(m.managers.pages)) {
		name := "hugepages-" + size
		if pages := m.pages(pod[name], size); pages > 0 && m.chance(25) {
			out[name] = strconv.FormatUint(min(pages, oneOf[uint64](m, 0, 1, 1, 2))*pageSizes[size], 10)
		}
	}
	c.Resources.Limits = orNone(out)
	switch {
	case m.chance(8) && k > 0: // not for itself
		c.Resources.Requests = map[string]string{"cpu": oneOf(m, "0", "100m", "1")}
	case m.chance(6):
		c.Resources.Requests = map[string]string{"memory": oneOf(m, "0", "1Mi")}
	case m.chance(8) && k > 1: // for itself, but no whole CPUs
		out["cpu"] = strconv.Itoa(k-1) + "500m"
	case m.chance(8):
		delete(out, oneOf(m, "cpu", "memory"))
	}
	return max(k, 0), b
}

// wholeWithoutDevices: in pod scope a Pod with resources of its own gets
// devices only when its containers start, which is not mirrored.
func (m *maker) wholeWithoutDevices() bool { return m.c.Scope == "pod" && m.c.TopologyPolicy != "none" }

func (m *maker) devicesOfPart() map[string]string {
	if m.wholeWithoutDevices() {
		if m.chance(2) && len(m.resources) > 0 {
			return map[string]string{oneOf(m, m.resources...).name: "0"}
		}
		return nil
	}
	return m.demand(m.managers.small)
}
