package generate

import (
	"fmt"
	"slices"

	"numafit.io/numafit/test/oracle/form"
)

var names = []string{"nvidia.com/gpu", "rdma/hca", "xilinx.com/fpga", "intel.com/qat", "example.com/counter"}

// layouts are devices per NUMA node of real machines and of their uneven
// relatives, cut or repeated to the machine's number of NUMA nodes.
var layouts = [][]int{
	{4, 4}, {4, 4}, {4, 0}, {0, 4}, {1, 0}, {0, 1}, {2, 2}, {1, 1}, {3, 1}, {1, 3}, {5, 3}, {2, 1}, {1, 2}, {8, 0},
	{2, 2, 2, 2}, {1, 1, 1, 1}, {2, 0, 2, 0}, {1, 0, 1, 0}, {4, 0, 0, 0}, {1, 0, 0, 0}, {1, 2, 3, 0}, {0, 2, 0, 1},
	{1, 1, 1, 1, 1, 1, 1, 1}, {1, 0, 1, 0, 1, 0, 1, 0}, {2, 0, 0, 0, 2, 0, 0, 0}, {2, 2, 2, 0, 0, 0, 0, 1},
}

func (m *maker) pools() {
	n := pick(m, weighted[int]{25, 1}, weighted[int]{60, 2}, weighted[int]{13, 3}, weighted[int]{1, 4}, weighted[int]{1, 5})
	m.makePools(min(n, m.mostResources()))
}

func (m *maker) makePools(n int) {
	m.c.Devices = map[string][]form.Device{}
	for i := range n {
		p := &pool{name: names[i], present: !m.chance(2)}
		m.fill(p)
		m.resources = append(m.resources, p)
		if p.present {
			m.c.Devices[p.name] = p.devices
		}
	}
}

// mostResources keeps the kubelet's own permutations (hints to the power of
// resources) within what it does in a few milliseconds.
func (m *maker) mostResources() int {
	switch n := len(m.ids); {
	case n <= 2:
		return 5
	case n <= 4 || m.many:
		return 3
	case m.c.TopologyPolicy == "single-numa-node" || m.c.TopologyPolicy == "none":
		return 3
	case n <= 6:
		return 2
	case n <= 8 && m.chance(10):
		return 2
	default:
		return 1
	}
}

func (m *maker) fill(p *pool) {
	times := 1
	if m.chance(2) {
		times = 2 + m.IntN(10) // tokens of shared devices
	}
	for i, k := range m.counts() {
		for range k * times {
			m.add(p, []int{m.ids[i]})
		}
	}
	if m.leftovers && m.chance(70) {
		p.devices = p.devices[:min(len(p.devices), 1+m.IntN(3))]
		for range 1 + m.IntN(3) {
			m.add(p, oneOf(m, nil, []int{}, []int{}))
		}
		return
	}
	if m.chance(52) || m.many {
		return // plain
	}
	if len(m.ids) == 1 && m.chance(40) { // the nil mask mixes them with the others
		m.add(p, oneOf(m, nil, []int{}))
		return
	}
	switch m.IntN(11) {
	case 0, 1: // several devices on two or more NUMA nodes
		for i := range p.devices {
			if m.chance(50) {
				p.devices[i].NUMA = m.someNodes()
			}
		}
	case 2: // every device on all nodes
		for i := range p.devices {
			p.devices[i].NUMA = slices.Clone(m.ids)
		}
	case 3: // some without topology
		for range 1 + m.IntN(3) {
			m.add(p, nil)
		}
	case 4, 10: // some with a topology that names no node
		for range 1 + m.IntN(2) {
			m.add(p, []int{})
		}
	case 5: // no topology at all
		for i := range p.devices {
			p.devices[i].NUMA = oneOf(m, nil, nil, nil, []int{})
		}
	case 6, 7: // unhealthy
		for i := range p.devices {
			if m.chance(30) {
				p.devices[i].Healthy = no()
			}
		}
	case 8: // everything at once
		for i := range p.devices {
			m.quirk(&p.devices[i])
		}
	case 9:
		if m.chance(25) {
			p.devices = []form.Device{}
		} else if m.chance(15) { // only such
			for i := range p.devices {
				p.devices[i].NUMA = []int{62}
			}
		} else if len(p.devices) > 0 { // a NUMA node that the machine does not have
			p.devices[m.IntN(len(p.devices))].NUMA = oneOf(m, []int{62}, []int{m.ids[0], 62}, []int{slices.Max(m.ids) + 1})
			for i := range p.devices {
				p.devices[i].NUMA = clamp(p.devices[i].NUMA)
			}
		}
	}
}

// clamp keeps NUMA ids within what a mask can hold.
func clamp(ids []int) []int {
	for i := range ids {
		ids[i] = min(ids[i], 63)
	}
	return ids
}

func (m *maker) counts() []int {
	n := len(m.ids)
	if m.many {
		return []int{oneOf(m, 0, 1, 2, 4), oneOf(m, 1, 2, 4), oneOf(m, 0, 0, 1)}
	}
	if m.chance(75) {
		var fitting [][]int
		for _, l := range layouts {
			if len(l) == n || (n == 1 && len(l) == 2) || (n > 4 && len(l) == 8) || (n == 3 && len(l) == 4) {
				fitting = append(fitting, l)
			}
		}
		l := oneOf(m, fitting...)
		out := make([]int, n)
		for i := range out {
			out[i] = l[i%len(l)]
		}
		return out
	}
	out := make([]int, n)
	for i := range out {
		out[i] = oneOf(m, 0, 0, 1, 1, 2, 2, 3, 4)
	}
	return out
}

func (m *maker) add(p *pool, numa []int) {
	p.devices = append(p.devices, form.Device{ID: fmt.Sprintf("%c%d", p.name[0], p.serial), NUMA: numa})
	p.serial++
}

func (m *maker) quirk(d *form.Device) {
	switch m.IntN(8) {
	case 0:
		d.NUMA = nil
	case 1:
		d.NUMA = []int{}
	case 2:
		d.NUMA = m.someNodes()
	case 3:
		d.Healthy = no()
	}
}

// someNodes is a random set of NUMA nodes, mostly two.
func (m *maker) someNodes() []int {
	k := min(len(m.ids), oneOf(m, 1, 2, 2, 2, 3))
	out := []int{}
	for _, i := range m.Perm(len(m.ids))[:k] {
		out = append(out, m.ids[i])
	}
	return out
}

func no() *bool {
	f := false
	return &f
}
