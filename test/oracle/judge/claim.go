// Package judge asks the mirror what the real managers were asked, and says
// where the two differ.
package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"numafit.io/numafit/test/oracle/form"
)

// claim is the mirror's answer to a case: what can happen.
type claim struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Steps []stepClaim     `json:"steps,omitempty"`
	Error string          `json:"error,omitempty"`

	line []byte // as it came
}

type stepClaim struct {
	Pod        string           `json:"pod,omitempty"`
	Admitted   *bool            `json:"admitted"`
	Reason     string           `json:"reason,omitempty"`
	Reasons    []string         `json:"reasons,omitempty"`
	Settling   bool             `json:"settling,omitempty"`
	Containers []containerClaim `json:"containers,omitempty"`
}

type containerClaim struct {
	Name      string                 `json:"name"`
	Affinity  json.RawMessage        `json:"affinity,omitempty"` // absent: nothing is claimed
	Preferred *bool                  `json:"preferred,omitempty"`
	Devices   map[string]deviceClaim `json:"devices,omitempty"`
}

// deviceClaim is one of exact ids, exact counts, possible counts.
type deviceClaim struct {
	ids      []string
	possible []map[string]int
}

func (d *deviceClaim) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &d.ids) == nil && d.ids != nil {
		return nil
	}
	d.ids = nil
	one := map[string]int{}
	if json.Unmarshal(b, &one) == nil {
		d.possible = []map[string]int{one}
		return nil
	}
	if err := json.Unmarshal(b, &d.possible); err != nil {
		return fmt.Errorf("devices are neither ids nor counts: %s", b)
	}
	return nil
}

func (d *deviceClaim) holds(ids []string, counts map[string]int) bool {
	if d.ids != nil {
		a, b := slices.Sorted(slices.Values(d.ids)), slices.Sorted(slices.Values(ids))
		return slices.Equal(a, b)
	}
	for _, p := range d.possible {
		maps.DeleteFunc(p, func(_ string, n int) bool { return n == 0 })
		if maps.Equal(p, counts) {
			return true
		}
	}
	return false
}

// listings follow what each plugin lists, so that devices can be counted by
// the NUMA set that they reported when they were given out.
type listings map[string]map[string]string

func (l listings) apply(lists map[string][]form.Device) {
	for r, devices := range lists {
		l[r] = map[string]string{}
		for _, d := range devices {
			l[r][d.ID] = d.NUMASet()
		}
	}
}

func (l listings) count(r string, ids []string) map[string]int {
	out := map[string]int{}
	for _, id := range ids {
		out[l[r][id]]++
	}
	return out
}

// check compares a real answer with a claim. With exact the mirror knew the
// state before every admission, so it owes at least the first container's
// affinity. The problem is empty when all is well; step is where it is not.
func check(c *form.Case, real *form.Answer, said *claim, exact bool, t *Tally) (problem string, step int) {
	if said.broken() {
		return said.Error, -1
	}
	if real.Error != "" || said.Error != "" {
		if (real.Error != "") != (said.Error != "") {
			return fmt.Sprintf("error: kubelet %q, mirror %q", real.Error, said.Error), -1
		}
		if exact { // each case is asked twice
			t.Errors++
		}
		return "", 0
	}
	if len(said.Steps) != len(real.Steps) {
		return fmt.Sprintf("%d steps are answered, not %d", len(said.Steps), len(real.Steps)), -1
	}
	lists := listings{}
	lists.apply(c.Devices)
	for i := range real.Steps {
		if c.Steps[i].Devices != nil {
			lists.apply(c.Steps[i].Devices)
		}
		if c.Steps[i].Admit == nil {
			continue
		}
		if p := checkStep(c.Steps[i].Admit, &real.Steps[i], &said.Steps[i], exact, lists, t); p != "" {
			return p, i
		}
	}
	return "", 0
}

func checkStep(pod *form.Pod, real *form.StepAnswer, said *stepClaim, exact bool, lists listings, t *Tally) string {
	t.Asked++
	if said.Pod != real.Pod {
		return fmt.Sprintf("pod: kubelet %q, mirror %q", real.Pod, said.Pod)
	}
	if said.Settling {
		if exact && len(pod.All()) == 1 {
			return "settling although the state was observed and there is one container"
		}
		if said.Admitted != nil {
			return "settling with a verdict"
		}
		t.Settling++
		return ""
	}
	if said.Admitted == nil {
		t.Null++
	} else if *said.Admitted != real.IsAdmitted() {
		return fmt.Sprintf("admitted: kubelet %v (%s), mirror %v (%s)", real.IsAdmitted(), real.Reason, *said.Admitted, said.Reason)
	}
	if !real.IsAdmitted() {
		reasons := said.Reasons
		if len(reasons) == 0 && said.Reason != "" {
			reasons = []string{said.Reason}
		}
		if !slices.Contains(reasons, real.Reason) {
			return fmt.Sprintf("reason: kubelet %s, mirror %v", real.Reason, reasons)
		}
		return ""
	}
	return checkContainers(real, said, exact, lists, t)
}

func checkContainers(real *form.StepAnswer, said *stepClaim, exact bool, lists listings, t *Tally) string {
	if len(said.Containers) != len(real.Containers) {
		return fmt.Sprintf("%d containers, mirror says %d", len(real.Containers), len(said.Containers))
	}
	for i := range real.Containers {
		r, s := &real.Containers[i], &said.Containers[i]
		if r.Name != s.Name {
			return fmt.Sprintf("container %d: kubelet %q, mirror %q", i, r.Name, s.Name)
		}
		mustKnow := exact && i == 0
		if mustKnow && (s.Affinity == nil || s.Preferred == nil) {
			return fmt.Sprintf("container %s: affinity and preferred are determined, the mirror does not say", r.Name)
		}
		if affinity, _ := json.Marshal(r.Affinity); s.Affinity != nil && !bytes.Equal(affinity, compact(s.Affinity)) {
			return fmt.Sprintf("container %s: affinity: kubelet %s, mirror %s", r.Name, affinity, s.Affinity)
		}
		if s.Preferred != nil && *s.Preferred != r.Preferred {
			return fmt.Sprintf("container %s: preferred: kubelet %v, mirror %v", r.Name, r.Preferred, *s.Preferred)
		}
		for name, ids := range r.Devices {
			d, claimed := s.Devices[name]
			if !claimed {
				t.Unclaimed++
				continue
			}
			t.Claimed++
			if counts := lists.count(name, ids); !d.holds(ids, counts) {
				return fmt.Sprintf("container %s: %s: kubelet gave %v, by NUMA %v, mirror says %v %v", r.Name, name, ids, counts, d.ids, d.possible)
			}
		}
		for name, d := range s.Devices {
			if _, has := r.Devices[name]; !has && !d.holds(nil, map[string]int{}) {
				return fmt.Sprintf("container %s: %s: kubelet gave none, mirror says %v %v", r.Name, name, d.ids, d.possible)
			}
		}
	}
	return ""
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return b
	}
	return out.Bytes()
}
