// Package generate makes random cases, deterministic in (seed, index), so that
// any case can be made again alone. It spends them where rules meet:
// quantities at the edge of a NUMA node, ties, uneven nodes, devices with
// several or no NUMA nodes, init containers, zero limits.
package generate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"numafit.io/numafit/test/oracle/form"
)

// Versions are the kubelets that the oracle knows, by minor.
var Versions = map[string]string{"1.34": "v1.34.4", "1.35": "v1.35.4", "1.36": "v1.36.3", "1.37": "v1.37.2"}

// maker makes one case.
type maker struct {
	*rand.Rand
	c *form.Case

	minor     string
	ids       []int
	resources []*pool
	pods      int
	active    []string
	gone      []string // names that may be used again
	leftovers bool     // init containers over devices with and without topology
	many      bool     // more NUMA nodes than masks over all of them could be enumerated
	managers  *managers
	restarts  float64 // percent, before each admission
	podLevel  bool    // the gate PodLevelResourceManagers
	resizes   *resizes
}

// pool is a resource: where its devices are, as last listed.
type pool struct {
	name    string
	devices []form.Device
	serial  int
	present bool // registered from the start
}

// Kinds of cases: devices alone, all managers (a third of them devices alone),
// the gate PodLevelResourceManagers with Pods that have resources of their
// own (from Kubernetes 1.36), or Pods that are resized in place.
const (
	Devices  = "devices"
	All      = "all"
	PodLevel = "pod-level"
	Resize   = "resize"
)

// Kinds are all of them.
var Kinds = []string{Devices, All, PodLevel, Resize}

// Case makes the case of this kind with this index.
func Case(kind, minor string, seed, index uint64) *form.Case {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, index)), minor: minor}
	m.c = &form.Case{
		ID:             json.RawMessage(strconv.Quote(fmt.Sprintf("%d/%d", seed, index))),
		KubeletVersion: Versions[minor],
	}
	if kind == All {
		switch {
		case m.chance(2):
			m.restarts = 25
		case m.chance(65):
			return m.all()
		}
	}
	if kind == PodLevel {
		m.podLevel = true
		return m.all()
	}
	if kind == Resize {
		m.resizes = newResizes(m)
		if m.chance(50) {
			return m.all()
		}
		m.restarts = pick(m, weighted[float64]{85, 0}, weighted[float64]{15, 12})
	}
	m.machine()
	m.settings()
	m.pools()
	m.distances()
	m.preferences()
	m.steps()
	return m.c
}

func (m *maker) chance(percent float64) bool { return m.Float64()*100 < percent }

// pick draws one of the values, each with its weight.
func pick[T any](m *maker, choices ...weighted[T]) T {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	at := m.IntN(total)
	for _, c := range choices {
		if at -= c.weight; at < 0 {
			return c.value
		}
	}
	panic("no weight")
}

type weighted[T any] struct {
	weight int
	value  T
}

func oneOf[T any](m *maker, values ...T) T { return values[m.IntN(len(values))] }

func (m *maker) machine() {
	n := pick(m, weighted[int]{8, 1}, weighted[int]{52, 2}, weighted[int]{9, 3}, weighted[int]{23, 4},
		weighted[int]{3, 5}, weighted[int]{2, 6}, weighted[int]{1, 7}, weighted[int]{2, 8})
	if m.chance(0.2) {
		n = 9 // refused, or allowed by an option
	}
	if hintsOverDeviceNodes(m.minor) && m.chance(0.5) {
		n, m.many = 34, true // most of them are an accelerator's own memory
	}
	m.nodes(n)
}

// nodes gives n NUMA nodes their ids.
func (m *maker) nodes(n int) {
	for i := range n {
		m.ids = append(m.ids, i)
	}
	switch {
	case m.many:
	case m.chance(6): // gaps
		m.ids = nil
		for at := m.IntN(3); len(m.ids) < n; at += 1 + m.IntN(3) {
			m.ids = append(m.ids, at)
		}
	case m.chance(1): // far
		m.ids[n-1] = 63
	}
	listed := slices.Clone(m.ids)
	if m.chance(4) {
		m.Shuffle(n, func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
	}
	for _, id := range listed {
		m.c.NUMA = append(m.c.NUMA, form.NUMANode{ID: id})
	}
}

func (m *maker) settings() {
	m.c.TopologyPolicy = pick(m, weighted[string]{32, "single-numa-node"}, weighted[string]{32, "restricted"},
		weighted[string]{26, "best-effort"}, weighted[string]{10, "none"})
	m.c.Scope = oneOf(m, "container", "pod")
	if m.leftovers = m.chance(8) && !m.many; m.leftovers {
		m.c.Scope = "container"
		if m.chance(60) {
			m.c.TopologyPolicy = "best-effort"
		}
	}
	options := map[string]string{}
	if m.chance(40) {
		options["prefer-closest-numa-nodes"] = oneOf(m, "true", "true", "true", "true", "true", "false")
	}
	if m.many {
		options["max-allowable-numa-nodes"] = "36"
	} else if m.chance(8) {
		options["max-allowable-numa-nodes"] = oneOf(m, "8", "9", "16")
	} else if len(m.ids) > 8 && m.chance(70) {
		options["max-allowable-numa-nodes"] = "9"
	}
	if m.chance(0.3) { // a kubelet that does not start
		switch m.IntN(5) {
		case 0:
			options["max-allowable-numa-nodes"] = oneOf(m, "7", "x", "-1")
		case 1:
			options["no-such-option"] = "true"
		case 2:
			options["prefer-closest-numa-nodes"] = "maybe"
		case 3:
			m.c.TopologyPolicy = "strict"
		case 4:
			m.c.Scope = "node"
		}
	}
	if len(options) > 0 {
		m.c.Options = options
	}
}

// hintsOverDeviceNodes: from 1.36 the kubelet enumerates masks over the NUMA
// nodes that have devices of the resource, before over all of the machine.
func hintsOverDeviceNodes(minor string) bool { return minor != "1.34" && minor != "1.35" }

// distances are indexed by NUMA id, as the kubelet does, gaps included.
func (m *maker) distances() {
	if m.c.Options["prefer-closest-numa-nodes"] == "" && !m.chance(5) {
		return
	}
	if m.chance(0.5) {
		return // refused with the option
	}
	size := slices.Max(m.ids) + 1
	near, far := uint64(12), oneOf[uint64](m, 12, 20, 21, 32)
	kind := m.IntN(5)
	at := func(i, j int) uint64 {
		switch {
		case i == j && kind != 4:
			return 10
		case kind == 0: // two sockets
			if (i < (size+1)/2) == (j < (size+1)/2) {
				return near
			}
			return far
		case kind == 1: // a ring
			d := min((i-j+size)%size, (j-i+size)%size)
			return 10 + uint64(d)*oneOf[uint64](m, 1, 1, 2)
		case kind == 2: // all alike
			return far
		default: // anything, with ties
			return oneOf[uint64](m, 10, 11, 12, 20, 21, 32)
		}
	}
	symmetric := !m.chance(10)
	table := make([][]uint64, size)
	for i := range table {
		table[i] = make([]uint64, size)
		for j := range table[i] {
			if symmetric && j < i {
				table[i][j] = table[j][i]
			} else {
				table[i][j] = at(i, j)
			}
		}
	}
	for i := range m.c.NUMA {
		m.c.NUMA[i].Distances = table[m.c.NUMA[i].ID]
	}
}

// preferences: with a plugin's order for every resource picks are exact;
// without, they are random; some cases have both.
func (m *maker) preferences() {
	kind := m.IntN(5) // 0, 1: all; 2: some; 3, 4: none
	for _, p := range m.resources {
		if kind < 2 || (kind == 2 && m.chance(50)) {
			if m.c.PreferredAllocation == nil {
				m.c.PreferredAllocation = map[string][]string{}
			}
			m.c.PreferredAllocation[p.name] = m.order(p)
		}
	}
}

func (m *maker) order(p *pool) []string {
	ids := []string{}
	for _, d := range p.devices {
		ids = append(ids, d.ID)
	}
	m.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	if m.chance(20) && len(ids) > 0 {
		ids = ids[:m.IntN(len(ids))]
	}
	return ids
}
