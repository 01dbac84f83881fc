package generate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"numafit.io/numafit/test/oracle/form"
)

// steps: about ten admissions, and between them what happens to a node.
func (m *maker) steps() {
	admissions := 6 + m.IntN(7)
	switch n := len(m.ids); {
	case n >= 7:
		admissions = 2 + m.IntN(4)
	case n >= 5:
		admissions = 3 + m.IntN(5)
	}
	small := m.chance(50) || m.smaller() // many small Pods, or few that fill the node
	m.admissions(admissions, func(name string) *form.Pod { return m.pod(name, small) })
}

func (m *maker) admissions(n int, pod func(name string) *form.Pod) {
	for range n {
		m.between()
		m.resize()
		p := pod(m.podName())
		m.dress(p)
		m.c.Steps = append(m.c.Steps, form.Step{Admit: p})
		m.active = append(m.active, p.Name)
	}
	m.resize()
}

func (m *maker) between() {
	for m.chance(46) && len(m.active) > 0 {
		i := m.IntN(len(m.active))
		m.c.Steps = append(m.c.Steps, form.Step{Remove: m.active[i]})
		m.gone = append(m.gone, m.active[i])
		m.active = slices.Delete(m.active, i, i+1)
	}
	if m.chance(m.starts()) && len(m.active) > 0 {
		m.c.Steps = append(m.c.Steps, form.Step{Start: oneOf(m, m.active...)})
	}
	if m.chance(m.restarts) {
		m.restart()
	}
	if len(m.resources) == 0 {
		return
	}
	if m.chance(7) && !m.many {
		m.relist(oneOf(m, m.resources...))
	}
	if m.chance(1.5) {
		if p := oneOf(m, m.resources...); p.present {
			m.c.Steps = append(m.c.Steps, form.Step{Disconnect: p.name})
			if m.chance(60) {
				m.c.Steps = append(m.c.Steps, form.Step{Devices: map[string][]form.Device{p.name: slices.Clone(p.devices)}})
			}
		}
	}
	if m.chance(2) && len(m.c.PreferredAllocation) > 0 {
		p := oneOf(m, m.resources...)
		if _, prefers := m.c.PreferredAllocation[p.name]; prefers {
			m.c.Steps = append(m.c.Steps, form.Step{Prefer: map[string][]string{p.name: m.order(p)}})
		}
	}
}

// starts is how often a Pod is started before an admission, in percent.
func (m *maker) starts() float64 {
	if m.managers != nil {
		return 15
	}
	return max(4, m.restarts)
}

// restart: most Pods run, most plugins come back before anything else happens.
func (m *maker) restart() {
	for _, name := range m.active {
		if m.chance(60) {
			m.c.Steps = append(m.c.Steps, form.Step{Start: name})
		}
	}
	m.c.Steps = append(m.c.Steps, form.Step{Restart: true})
	for _, p := range m.resources {
		if p.present && m.chance(85) {
			m.c.Steps = append(m.c.Steps, form.Step{Devices: map[string][]form.Device{p.name: slices.Clone(p.devices)}})
		}
	}
}

func (m *maker) podName() string {
	if len(m.gone) > 0 && m.chance(5) {
		i := m.IntN(len(m.gone))
		name := m.gone[i]
		m.gone = slices.Delete(m.gone, i, i+1)
		return name
	}
	m.pods++
	return "p" + strconv.Itoa(m.pods)
}

// relist is a ListAndWatch answer that differs from the one before.
func (m *maker) relist(p *pool) {
	p.devices = slices.Clone(p.devices)
	if len(p.devices) > 0 {
		i := m.IntN(len(p.devices))
		switch m.IntN(6) {
		case 0, 1:
			if p.devices[i].IsHealthy() {
				p.devices[i].Healthy = no()
			} else {
				p.devices[i].Healthy = nil
			}
		case 2:
			for j := range p.devices {
				p.devices[j].Healthy = nil
			}
		case 3:
			p.devices = slices.Delete(p.devices, i, i+1)
		case 4:
			m.add(p, []int{oneOf(m, m.ids...)})
		case 5:
			m.quirk(&p.devices[i])
		}
	} else {
		m.add(p, []int{oneOf(m, m.ids...)})
	}
	p.present = true
	m.c.Steps = append(m.c.Steps, form.Step{Devices: map[string][]form.Device{p.name: p.devices}})
}

func (m *maker) pod(name string, small bool) *form.Pod {
	p := &form.Pod{Name: name}
	apps := pick(m, weighted[int]{66, 1}, weighted[int]{26, 2}, weighted[int]{8, 3})
	base := m.demand(small)
	m.containers(p, m.chance(22) || (m.leftovers && m.chance(60)), apps, base, func() map[string]string { return m.near(base, small) })
	switch { // what has no say in devices
	case m.chance(1):
		p.Resources = &form.Resources{Limits: map[string]string{"cpu": "4"}}
	case m.chance(1):
		p.Containers[0].Resources.Requests = map[string]string{names[0]: "1"}
	}
	return p
}

// containers: perhaps init containers and sidecars, then app containers, the
// first of which asks for base and the others for something near it.
func (m *maker) containers(p *form.Pod, inits bool, apps int, base map[string]string, near func() map[string]string) {
	if inits {
		for i := range 1 + m.IntN(2) {
			c := form.Container{Name: fmt.Sprintf("i%d", i), Resources: form.Resources{Limits: near()}}
			if m.chance(40) {
				c.RestartPolicy = "Always"
			}
			p.InitContainers = append(p.InitContainers, c)
		}
	}
	for i := range apps {
		limits := maps.Clone(base)
		if i > 0 {
			limits = near()
		}
		p.Containers = append(p.Containers, form.Container{Name: fmt.Sprintf("c%d", i), Resources: form.Resources{Limits: limits}})
	}
}

// near is a demand like the other one, or one more, one less, or another.
func (m *maker) near(base map[string]string, small bool) map[string]string {
	if m.chance(35) {
		return m.demand(small)
	}
	out := map[string]string{}
	for _, r := range slices.Sorted(maps.Keys(base)) {
		k, err := strconv.Atoi(base[r])
		if err != nil {
			continue
		}
		k += oneOf(m, 0, 0, 1, -1, -2)
		if k > 0 || (k == 0 && m.chance(20)) {
			out[r] = strconv.Itoa(k)
		}
	}
	return orNone(out)
}

// orNone is no limits at all for an empty set of limits.
func orNone(limits map[string]string) map[string]string {
	if len(limits) == 0 {
		return nil
	}
	return limits
}

func (m *maker) demand(small bool) map[string]string {
	out := map[string]string{}
	for _, p := range m.resources {
		if !m.chance(78) {
			continue
		}
		if k := m.quantity(p, small); k > 0 || m.chance(60) {
			out[p.name] = strconv.Itoa(k)
			if m.chance(0.5) {
				out[p.name] += oneOf(m, "000m", "e0", ".0")
			}
		}
	}
	if m.chance(2) {
		out["example.com/unregistered"] = oneOf(m, "0", "1", "3")
	}
	if m.chance(3) {
		out["cpu"], out["memory"] = oneOf(m, "1", "2500m"), "1Gi"
	}
	return orNone(out)
}

// quantity likes the edges: what one NUMA node has, one more, one less, what
// two or all have, what is healthy, nothing.
func (m *maker) quantity(p *pool, small bool) int {
	if m.chance(4) {
		return 0
	}
	if small && m.chance(80) {
		return 1 + m.IntN(2)
	}
	perNode := map[int]int{}
	healthy := 0
	for _, d := range p.devices {
		for _, id := range d.NUMA {
			perNode[id]++
		}
		if d.IsHealthy() {
			healthy++
		}
	}
	one := perNode[oneOf(m, m.ids...)]
	two := one + perNode[oneOf(m, m.ids...)]
	k := pick(m, weighted[int]{20, one}, weighted[int]{8, one + 1}, weighted[int]{10, one - 1}, weighted[int]{8, two},
		weighted[int]{3, two + 1}, weighted[int]{4, two - 1}, weighted[int]{5, healthy}, weighted[int]{2, healthy + 1},
		weighted[int]{4, len(p.devices)}, weighted[int]{16, 1}, weighted[int]{10, 2}, weighted[int]{5, 3})
	return max(k, 1)
}
