package judge

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/kubelet"
)

// shrink drops what it can while the two still disagree. The kubelet's pick
// is random, so each smaller case is run a few times.
func (m *mirror) shrink(d *disagreement) *disagreement {
	best := d
	if d.step >= 0 && d.step+1 < len(d.c.Steps) {
		c := d.c.Clone()
		c.Steps = c.Steps[:d.step+1]
		if s := m.still(c, d.exact); s != nil {
			best = s
		}
	}
	deadline := time.Now().Add(40 * time.Second)
	for smaller := true; smaller; {
		smaller = false
		for _, edit := range edits {
			for k := 0; ; {
				c := best.c.Clone()
				if time.Now().After(deadline) || !edit(c, k) {
					break
				}
				if c.Validate() != nil {
					k++
					continue
				}
				if s := m.still(c, d.exact); s != nil {
					best, smaller = s, true
				} else {
					k++
				}
			}
		}
	}
	return best
}

// still runs a case and says how the two disagree on it, nil when they agree.
func (m *mirror) still(c *form.Case, exact bool) *disagreement {
	r := rand.New(rand.NewPCG(1, 2))
	if bare := m.ask(c.WithObserved(nil))[0]; bare.unsupported() {
		return nil // the kubelet would not come back
	}
	for i := range 6 {
		shuffle := r
		if i == 0 {
			shuffle = nil
		}
		d := &disagreement{c: c, exact: exact, real: kubelet.Run(c, shuffle)}
		d.said = m.ask(d.asked())[0]
		if d.problem, d.step = check(c, &d.real, &d.said, exact, &Tally{}); d.problem != "" {
			return d
		}
		if len(c.PreferredAllocation) >= len(c.Devices) && i > 1 {
			break // nothing is random
		}
	}
	return nil
}

// An edit makes the case smaller in its k-th way; false when there is none.
type edit func(c *form.Case, k int) bool

var edits = []edit{
	dropStep, dropPod, plainManagers, dropContainer, dropResource, dropLimit, dropNUMA, dropDevice, lowerLimit,
	plainContainer, plainDevice, plainCase, dropCore, dropRequests,
}

func dropStep(c *form.Case, k int) bool {
	if k >= len(c.Steps) {
		return false
	}
	i := len(c.Steps) - 1 - k
	c.Steps = slices.Delete(c.Steps, i, i+1)
	return true
}

// dropPod drops an admission and every step that names the Pod.
func dropPod(c *form.Case, k int) bool {
	for _, s := range c.Steps {
		if s.Admit == nil {
			continue
		}
		if k--; k < 0 {
			name := s.Admit.Name
			c.Steps = slices.DeleteFunc(c.Steps, func(s form.Step) bool {
				return s.Remove == name || s.Start == name || (s.Admit != nil && s.Admit.Name == name) || (s.Resize != nil && s.Resize.Name == name)
			})
			return true
		}
	}
	return false
}

// pods are all that are asked about; a resize names one as well.
func pods(c *form.Case) []*form.Pod {
	var out []*form.Pod
	for i := range c.Steps {
		for _, p := range []*form.Pod{c.Steps[i].Admit, c.Steps[i].Resize} {
			if p != nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// dropContainer drops it from the Pod's resizes too.
func dropContainer(c *form.Case, k int) bool {
	for i := range c.Steps {
		p := c.Steps[i].Admit
		if p == nil {
			continue
		}
		all := p.All()
		if k >= len(all) {
			k -= len(all)
			continue
		}
		for _, same := range pods(c) {
			if same.Name != p.Name {
				continue
			}
			named := func(ct form.Container) bool { return ct.Name == all[k].Name }
			same.InitContainers = slices.DeleteFunc(same.InitContainers, named)
			same.Containers = slices.DeleteFunc(same.Containers, named)
		}
		return true
	}
	return false
}

func resources(c *form.Case) []string {
	names := map[string]bool{}
	for r := range c.Devices {
		names[r] = true
	}
	for _, s := range c.Steps {
		for r := range s.Devices {
			names[r] = true
		}
	}
	for _, p := range pods(c) {
		for _, ct := range p.All() {
			for r := range ct.Resources.Limits {
				names[r] = true
			}
		}
	}
	return sorted(names)
}

func dropResource(c *form.Case, k int) bool {
	names := resources(c)
	if k >= len(names) {
		return false
	}
	r := names[k]
	delete(c.Devices, r)
	delete(c.PreferredAllocation, r)
	for i := range c.Steps {
		delete(c.Steps[i].Devices, r)
		delete(c.Steps[i].Prefer, r)
	}
	c.Steps = slices.DeleteFunc(c.Steps, func(s form.Step) bool {
		return s.Disconnect == r || (s.Devices != nil && len(s.Devices) == 0) || (s.Prefer != nil && len(s.Prefer) == 0)
	})
	for _, l := range limits(c) {
		delete(l, r)
	}
	return true
}

func limits(c *form.Case) []map[string]string {
	var out []map[string]string
	for _, p := range pods(c) {
		for _, ct := range p.All() {
			out = append(out, ct.Resources.Limits)
		}
	}
	return out
}

func dropLimit(c *form.Case, k int) bool {
	for _, l := range limits(c) {
		names := sorted(l)
		if k < len(names) {
			delete(l, names[k])
			return true
		}
		k -= len(names)
	}
	if !c.Resizes() {
		return false
	}
	// From all Pods at once: what cannot be resized must stay the same.
	resources := resources(c)
	if k >= len(resources) {
		return false
	}
	for _, l := range limits(c) {
		delete(l, resources[k])
	}
	return true
}

func lowerLimit(c *form.Case, k int) bool {
	for _, l := range limits(c) {
		for _, r := range sorted(l) {
			n, err := strconv.Atoi(l[r])
			if err != nil || n <= 0 {
				continue
			}
			if k--; k < 0 {
				if n > 64 { // bytes
					l[r] = strconv.Itoa(n / 2)
				} else {
					l[r] = strconv.Itoa(n - 1)
				}
				return true
			}
		}
	}
	return false
}

// lists are the case's device lists; each may be replaced.
func lists(c *form.Case) []map[string][]form.Device {
	out := []map[string][]form.Device{c.Devices}
	for _, s := range c.Steps {
		if s.Devices != nil {
			out = append(out, s.Devices)
		}
	}
	return out
}

func dropNUMA(c *form.Case, k int) bool {
	if k >= len(c.NUMA) || len(c.NUMA) == 1 {
		return false
	}
	id := c.NUMA[k].ID
	c.NUMA = slices.Delete(c.NUMA, k, k+1)
	c.ReservedMemory = slices.DeleteFunc(c.ReservedMemory, func(r form.ReservedMemory) bool { return r.NUMA == id })
	for _, list := range lists(c) {
		for r, devices := range list {
			list[r] = slices.DeleteFunc(devices, func(d form.Device) bool { return len(d.NUMA) == 1 && d.NUMA[0] == id })
			for i, d := range list[r] {
				list[r][i].NUMA = slices.DeleteFunc(d.NUMA, func(n int) bool { return n == id })
			}
		}
	}
	return true
}

// dropDevice drops the device with this id from every list.
func dropDevice(c *form.Case, k int) bool {
	type key struct{ r, id string }
	var keys []key
	for _, list := range lists(c) {
		for _, r := range sorted(list) {
			for _, d := range list[r] {
				if !slices.Contains(keys, key{r, d.ID}) {
					keys = append(keys, key{r, d.ID})
				}
			}
		}
	}
	if k >= len(keys) {
		return false
	}
	for _, list := range lists(c) {
		list[keys[k].r] = slices.DeleteFunc(list[keys[k].r], func(d form.Device) bool { return d.ID == keys[k].id })
	}
	return true
}

func plainContainer(c *form.Case, k int) bool {
	for _, p := range pods(c) {
		for i := range p.InitContainers {
			if p.InitContainers[i].RestartPolicy == "" {
				continue
			}
			if k--; k < 0 {
				p.InitContainers[i].RestartPolicy = ""
				return true
			}
		}
	}
	return false
}

func plainDevice(c *form.Case, k int) bool {
	for _, list := range lists(c) {
		for _, r := range sorted(list) {
			for i := range list[r] {
				d := &list[r][i]
				if len(d.NUMA) > 1 {
					if k--; k < 0 {
						d.NUMA = d.NUMA[:1]
						return true
					}
				}
				if d.Healthy != nil {
					if k--; k < 0 {
						d.Healthy = nil
						return true
					}
				}
			}
		}
	}
	return false
}

func plainCase(c *form.Case, k int) bool {
	simple := []func() bool{
		func() bool { had := len(c.Options) > 0; c.Options = nil; return had },
		func() bool { had := c.Scope == "pod"; c.Scope = "container"; return had },
		func() bool {
			had := false
			for i := range c.NUMA {
				had = had || c.NUMA[i].Distances != nil
				c.NUMA[i].Distances = nil
			}
			return had
		},
		func() bool { had := len(c.PreferredAllocation) > 0; c.PreferredAllocation = nil; return had },
		func() bool { // ids without gaps
			had := false
			to := map[int]int{}
			for i := range c.NUMA {
				to[c.NUMA[i].ID] = i
				had = had || c.NUMA[i].ID != i
				c.NUMA[i].ID = i
			}
			for i := range c.ReservedMemory {
				c.ReservedMemory[i].NUMA = to[c.ReservedMemory[i].NUMA]
			}
			for _, list := range lists(c) {
				for _, devices := range list {
					for _, d := range devices {
						for i, id := range d.NUMA {
							if n, known := to[id]; known {
								d.NUMA[i] = n
							}
						}
					}
				}
			}
			return had
		},
	}
	if k >= len(simple) {
		return false
	}
	if !simple[k]() {
		c.NUMA = nil // nothing changed: an invalid case is passed over
	}
	return true
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (c *claim) raw() json.RawMessage {
	if c.Error != "" {
		return form.Line(form.Answer{Error: c.Error})
	}
	return c.line
}
