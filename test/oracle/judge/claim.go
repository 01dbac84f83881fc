// Package judge asks the mirror what the real managers were asked, and says
// where the two differ.
package judge

import (
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

	Unsupported bool `json:"unsupported,omitempty"` // beside error: not what a kubelet would say

	line []byte // as it came
}

// unsupported is true when the mirror cannot say what the kubelet does: it
// does something that is not mirrored, or searches for minutes or for ever.
func (c *claim) unsupported() bool {
	return c.Unsupported || slices.ContainsFunc(c.Steps, func(s stepClaim) bool { return s.Unsupported })
}

type stepClaim struct {
	Pod      string   `json:"pod,omitempty"`
	Admitted *bool    `json:"admitted"`
	Reason   string   `json:"reason,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	Settling bool     `json:"settling,omitempty"`
	// Of a resize: the verdict, nil when it depends; then all that are possible.
	Resize  *string  `json:"resize,omitempty"`
	Resizes []string `json:"resizes,omitempty"`
	// The kubelet would search for minutes, or (Endless) for ever.
	Unsupported bool             `json:"unsupported,omitempty"`
	Endless     bool             `json:"endless,omitempty"`
	Containers  []containerClaim `json:"containers,omitempty"`
	Left        *[]holdingClaim  `json:"left,omitempty"`

	PodCPUs   *string             `json:"podCpus,omitempty"`
	PodMemory *[]form.MemoryBlock `json:"podMemory,omitempty"`

	Restarted  *bool       `json:"restarted,omitempty"`
	Readmitted []stepClaim `json:"readmitted,omitempty"`

	DefaultCPUs *string           `json:"defaultCpus,omitempty"`
	MemoryState *[]form.NUMAState `json:"memoryState,omitempty"`
}

// open is true when the verdict depends on a random pick: it may be admitted,
// or resized, and may not.
func (c *stepClaim) open(s *form.Step) bool {
	switch {
	case c.Pod == "" || c.Settling:
		return false
	case s.Resize != nil:
		return c.Resize == nil && slices.Contains(c.Resizes, form.ResizeTaken)
	}
	return c.Admitted == nil
}

type containerClaim struct {
	Name      string                 `json:"name"`
	Affinity  json.RawMessage        `json:"affinity,omitempty"` // absent: nothing is claimed
	Preferred *bool                  `json:"preferred,omitempty"`
	Devices   map[string]deviceClaim `json:"devices,omitempty"`
	CPUs      *string                `json:"cpus,omitempty"`
	Memory    *[]form.MemoryBlock    `json:"memory,omitempty"`
}

type holdingClaim struct {
	Name    string                 `json:"name"`
	Devices map[string]deviceClaim `json:"devices,omitempty"`
	CPUs    string                 `json:"cpus,omitempty"`
	Memory  []form.MemoryBlock     `json:"memory,omitempty"`
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
// the NUMA set that they reported when they were given out, or have when a Pod
// is resized.
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
		set, is := l[r][id]
		if !is {
			set = "unlisted"
		}
		out[set]++
	}
	return out
}
