package generate

import (
	"encoding/json"
	"strconv"
	"strings"

	"numafit.io/numafit/test/oracle/form"
)

// resizes is what a case with resizes remembers of its Pods: how they were
// admitted, and what was asked for last.
type resizes struct {
	first, last map[string]*form.Pod
	often       float64 // percent, before each admission
	exclusive   bool    // exclusive CPUs or memory can be resized
}

func newResizes(m *maker) *resizes {
	return &resizes{first: map[string]*form.Pod{}, last: map[string]*form.Pod{}, often: oneOf[float64](m, 35, 60, 80)}
}

// smaller Pods: those that are refused cannot be resized.
func (m *maker) smaller() bool { return m.resizes != nil && m.chance(70) }

// dress gives a Pod that asks for devices alone some CPUs and memory, without
// which there is nothing to resize.
func (m *maker) dress(p *form.Pod) {
	if m.resizes == nil {
		return
	}
	defer func() { m.resizes.first[p.Name], m.resizes.last[p.Name] = p, p }()
	if m.managers != nil || m.chance(6) {
		return
	}
	burstable := m.chance(40)
	for _, list := range [][]form.Container{p.InitContainers, p.Containers} {
		for i := range list {
			r := &list[i].Resources
			if r.Limits == nil {
				r.Limits = map[string]string{}
			}
			r.Limits["cpu"], r.Limits["memory"] = oneOf(m, "1", "2", "4", "500m"), oneOf(m, "1Gi", "512Mi", "2147483648")
			if burstable {
				r.Requests = map[string]string{"cpu": "250m"}
			}
		}
	}
}

// exclusiveToo: the gates with which exclusive CPUs and memory can be resized.
// Kubelets of 1.34 then go by the Pod's status, which a case has not.
func (m *maker) exclusiveToo() {
	if m.resizes == nil || m.minor == "1.34" || !m.chance(15) {
		return
	}
	if m.c.FeatureGates == nil {
		m.c.FeatureGates = map[string]bool{}
	}
	for _, gate := range []string{"InPlacePodVerticalScalingExclusiveCPUs", "InPlacePodVerticalScalingExclusiveMemory"} {
		if m.chance(75) {
			m.c.FeatureGates[gate], m.resizes.exclusive = true, true
		}
	}
}

// resize: Pods that run, and sometimes one that does not any more, get other
// requests and limits, or those that they have.
func (m *maker) resize() {
	if m.resizes == nil {
		return
	}
	for m.chance(m.resizes.often) && len(m.active) > 0 {
		name := oneOf(m, m.active...)
		if m.chance(2) && len(m.gone) > 0 {
			name = oneOf(m, m.gone...)
		}
		first := m.resizes.first[name]
		if first.Resources != nil && !m.resizesMore() {
			return // no API server lets that pass
		}
		if len(m.resources) > 0 && !m.many && m.chance(20) {
			m.relist(oneOf(m, m.resources...))
		}
		// An init container that has ended has no memory any more.
		if ended := m.managers != nil && m.managers.memory && len(first.InitContainers) > 0; m.chance(12) || (ended && m.chance(60)) {
			m.c.Steps = append(m.c.Steps, form.Step{Start: name})
		}
		base := first
		if m.chance(60) {
			base = m.resizes.last[name]
		}
		p := m.other(base)
		m.resizes.last[name] = p
		m.c.Steps = append(m.c.Steps, form.Step{Resize: p})
	}
}

// resizesMore: from 1.36 init containers can be resized, and Pods with
// resources of their own.
func (m *maker) resizesMore() bool { return hintsOverDeviceNodes(m.minor) }

// other is the same Pod with other CPUs, other memory, or both; it stays of
// the same QoS class. Static managers would find most of that infeasible.
func (m *maker) other(p *form.Pod) *form.Pod {
	out := clonePod(p)
	cpu, memory := true, true
	switch {
	case m.managers != nil && !m.resizes.exclusive && m.chance(70):
		cpu, memory = !m.managers.cpu, !m.managers.memory
	case m.chance(60):
		cpu = m.chance(50)
		memory = !cpu
	}
	only := -1 // all containers
	if m.chance(50) {
		only = m.IntN(len(out.InitContainers) + len(out.Containers))
	}
	for i := range out.InitContainers {
		c := &out.InitContainers[i]
		if (c.RestartPolicy == "Always" || m.resizesMore()) && (only < 0 || only == i) {
			m.otherResources(&c.Resources, cpu, memory)
		}
	}
	for i := range out.Containers {
		if only < 0 || only == len(out.InitContainers)+i {
			m.otherResources(&out.Containers[i].Resources, cpu, memory)
		}
	}
	if out.Resources != nil && m.chance(60) {
		m.otherResources(out.Resources, cpu, memory)
	}
	return out
}

func clonePod(p *form.Pod) *form.Pod {
	out := &form.Pod{}
	if err := json.Unmarshal(form.Line(p), out); err != nil {
		panic(err) // it was written a moment ago
	}
	return out
}

// otherResources changes quantities that are there and not zero, so that what
// was equal stays equal and what was not does not become so.
func (m *maker) otherResources(r *form.Resources, cpu, memory bool) {
	for _, name := range []string{"cpu", "memory"} {
		if (name == "cpu" && !cpu) || (name == "memory" && !memory) {
			continue
		}
		limit, request := r.Limits[name], r.Requests[name]
		switch {
		case limit == "" && request == "", isZero(limit) && limit != "":
		case limit == "":
			m.set(r.Requests, name, m.nearly(request))
		case request == "" || request == limit:
			to := m.nearly(limit)
			m.set(r.Limits, name, to)
			if request != "" {
				m.set(r.Requests, name, to)
			}
		default: // less is requested
			m.set(r.Limits, name, more(limit))
		}
	}
}

func (m *maker) set(list map[string]string, name, quantity string) {
	if quantity != "" {
		list[name] = quantity
	}
}

func isZero(q string) bool { return strings.Trim(q, "0.") == "" }

// nearly is a quantity like this one, or the same in other words; empty when it
// is none to change.
func (m *maker) nearly(q string) string {
	if isZero(q) {
		return ""
	}
	k, err := strconv.ParseUint(q, 10, 64)
	if err != nil || k > 1<<45 {
		return m.unlike(q)
	}
	if m.chance(6) {
		return q + ".0"
	}
	switch small := k < 1024; {
	case small:
		k = max(1, uint64(max(1, int64(k)+oneOf[int64](m, 1, 1, 2, -1, -2))))
	default:
		k = oneOf(m, k*2, k/2, k+1<<30, max(1, k-1<<20), k+1)
	}
	return strconv.FormatUint(max(1, k), 10)
}

// unlike is for quantities with a unit.
func (m *maker) unlike(q string) string {
	switch {
	case strings.HasSuffix(q, "Ei"), strings.HasSuffix(q, "k"):
		return ""
	case strings.HasSuffix(q, "i"):
		return oneOf(m, "768Mi", "1536Mi", "3Gi")
	}
	return oneOf(m, "1", "2", "3", "750m", "1500m")
}

// more than any limit here.
func more(q string) string {
	if strings.HasSuffix(q, "i") || len(q) > 6 {
		return "17179869184"
	}
	return "300"
}
