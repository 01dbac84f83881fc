// Package form holds cases and answers as docs/case-format.md defines them:
// one node and what happens to it, one line of JSON; one answer, one line.
package form

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Case is one node and the things that happen to it in order.
type Case struct {
	ID             json.RawMessage `json:"id,omitempty"`
	KubeletVersion string          `json:"kubeletVersion,omitempty"`

	NUMA           []NUMANode        `json:"numa"`
	TopologyPolicy string            `json:"topologyPolicy,omitempty"`
	Scope          string            `json:"scope,omitempty"`
	Options        map[string]string `json:"options,omitempty"`

	CPUPolicy        string            `json:"cpuPolicy,omitempty"`
	CPUOptions       map[string]string `json:"cpuOptions,omitempty"`
	ReservedCPUMilli int64             `json:"reservedCpuMilli,omitempty"`
	MemoryPolicy     string            `json:"memoryPolicy,omitempty"`
	ReservedMemory   []ReservedMemory  `json:"reservedMemory,omitempty"`
	FeatureGates     map[string]bool   `json:"featureGates,omitempty"`

	Devices             map[string][]Device `json:"devices,omitempty"`
	PreferredAllocation map[string][]string `json:"preferredAllocation,omitempty"`

	Repeat int    `json:"repeat,omitempty"`
	Brief  bool   `json:"brief,omitempty"`
	Steps  []Step `json:"steps"`
}

// NUMANode is one NUMA node of the machine. Distances are indexed by NUMA id.
type NUMANode struct {
	ID             int              `json:"id"`
	CPUs           []int            `json:"cpus,omitempty"`
	Cores          []Core           `json:"cores,omitempty"`
	ThreadsPerCore int              `json:"threadsPerCore,omitempty"`
	Socket         int              `json:"socket,omitempty"`
	ReservedCPUs   []int            `json:"reservedCpus,omitempty"`
	Memory         uint64           `json:"memory,omitempty"`
	Hugepages      map[string]int64 `json:"hugepages,omitempty"`
	Distances      []uint64         `json:"distances,omitempty"`
}

// Core is one physical core, for machines that `cpus` cannot describe.
type Core struct {
	Threads []int `json:"threads"`
	Socket  int   `json:"socket,omitempty"`
	Uncore  *int  `json:"uncore,omitempty"`
}

// ReservedMemory is one entry of the kubelet's reservedMemory.
type ReservedMemory struct {
	NUMA   int               `json:"numa"`
	Limits map[string]string `json:"limits"`
}

// Device as its plugin reports it. NUMA nil: no topology; empty: a topology
// that names no node.
type Device struct {
	ID      string `json:"id"`
	NUMA    []int  `json:"numa"`
	Healthy *bool  `json:"healthy,omitempty"`
}

// IsHealthy is true unless the device says otherwise.
func (d Device) IsHealthy() bool { return d.Healthy == nil || *d.Healthy }

// NUMASet names the device's NUMA set the way counts are keyed.
func (d Device) NUMASet() string {
	if d.NUMA == nil {
		return "none"
	}
	if len(d.NUMA) == 0 {
		return "empty"
	}
	ids := slices.Clone(d.NUMA)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.Itoa(id)
	}
	return strings.Join(parts, ",")
}

// Step is one thing that happens; exactly one of its keys is set, `observed`
// beside `admit`, `start`, `restart` and `resize` excepted.
type Step struct {
	Admit      *Pod                `json:"admit,omitempty"`
	Observed   *StepAnswer         `json:"observed,omitempty"`
	Remove     string              `json:"remove,omitempty"`
	Start      string              `json:"start,omitempty"`
	Devices    map[string][]Device `json:"devices,omitempty"`
	Disconnect string              `json:"disconnect,omitempty"`
	Prefer     map[string][]string `json:"prefer,omitempty"`
	Restart    bool                `json:"restart,omitempty"`
	Resize     *Pod                `json:"resize,omitempty"`
}

// Observable is true when a real answer to the step says something.
func (s *Step) Observable() bool {
	return s.Admit != nil || s.Start != "" || s.Restart || s.Resize != nil
}

// Pod is what the kubelet is asked to admit.
type Pod struct {
	Name           string      `json:"name"`
	InitContainers []Container `json:"initContainers,omitempty"`
	Containers     []Container `json:"containers"`
	Resources      *Resources  `json:"resources,omitempty"`
}

// All lists the Pod's containers in kubelet order.
func (p *Pod) All() []Container {
	return slices.Concat(p.InitContainers, p.Containers)
}

// Container of a Pod.
type Container struct {
	Name          string    `json:"name"`
	RestartPolicy string    `json:"restartPolicy,omitempty"`
	Resources     Resources `json:"resources,omitzero"`
}

// Resources are Kubernetes quantities as strings.
type Resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

// Answer of a real kubelet to a case.
type Answer struct {
	ID       json.RawMessage `json:"id,omitempty"`
	Steps    []StepAnswer    `json:"steps,omitempty"`
	Outcomes []Outcome       `json:"outcomes,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// Outcome is one of the different answers of a repeated case.
type Outcome struct {
	Count int          `json:"count"`
	Steps []StepAnswer `json:"steps"`
}

// Panic is the reason of an admission that ended the kubelet's process.
const Panic = "<panic>"

// Verdicts on a resize: nothing came of it, or it is taken, or the reason of
// the Pod's condition PodResizePending.
const (
	ResizeNone       = "none"
	ResizeTaken      = "taken"
	ResizeDeferred   = "Deferred"
	ResizeInfeasible = "Infeasible"
)

// Why nothing came of it, beside Panic.
const (
	Gone      = "gone"
	Unchanged = "unchanged"
)

// StepAnswer is the kubelet's verdict on an `admit` or a `resize`, what came of
// a `restart`, the state after one of these or a `start`, and `{}` for other
// steps.
type StepAnswer struct {
	Pod        string            `json:"pod,omitempty"`
	Admitted   *bool             `json:"admitted,omitempty"`
	Resize     string            `json:"resize,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Containers []ContainerAnswer `json:"containers,omitempty"`
	Left       []Holding         `json:"left,omitempty"`

	// What the Pod has as a whole (gate PodLevelResourceManagers, pod scope).
	PodCPUs   string        `json:"podCpus,omitempty"`
	PodMemory []MemoryBlock `json:"podMemory,omitempty"`

	Restarted  *bool        `json:"restarted,omitempty"`
	Readmitted []StepAnswer `json:"readmitted,omitempty"`

	DefaultCPUs *string     `json:"defaultCpus,omitempty"`
	MemoryState []NUMAState `json:"memoryState,omitempty"`
}

// IsAdmitted is false for a refusal, and true for a resize that is taken.
func (s *StepAnswer) IsAdmitted() bool {
	return (s.Admitted != nil && *s.Admitted) || s.Resize == ResizeTaken
}

// IsEmpty is true for `{}`.
func (s *StepAnswer) IsEmpty() bool {
	return s.Pod == "" && s.Restarted == nil && s.DefaultCPUs == nil && s.MemoryState == nil
}

// Ends is true when nothing can follow: the kubelet's process is gone.
func (s *StepAnswer) Ends() bool {
	return s.Reason == Panic || (s.Restarted != nil && !*s.Restarted)
}

// Holding is what a container of a refused Pod holds until the next admission,
// or what one holds of a Pod that is not resized (then also devices).
type Holding struct {
	Name    string              `json:"name"`
	Devices map[string][]string `json:"devices,omitempty"`
	CPUs    string              `json:"cpus,omitempty"`
	Memory  []MemoryBlock       `json:"memory,omitempty"`
}

// NUMAState is the memory manager's book about one NUMA node: how many blocks
// lie on it, which NUMA nodes it is grouped with, what is free by type.
type NUMAState struct {
	NUMA        int               `json:"numa"`
	Assignments int               `json:"assignments"`
	Cells       []int             `json:"cells"`
	Free        map[string]uint64 `json:"free"`
}

// ContainerAnswer says what a container got.
type ContainerAnswer struct {
	Name      string              `json:"name"`
	Affinity  []int               `json:"affinity"`
	Preferred bool                `json:"preferred"`
	Devices   map[string][]string `json:"devices,omitempty"`
	CPUs      string              `json:"cpus,omitempty"`
	Memory    []MemoryBlock       `json:"memory,omitempty"`
}

// MemoryBlock is what the memory manager gave a container.
type MemoryBlock struct {
	Type string `json:"type"`
	NUMA []int  `json:"numa"`
	Size uint64 `json:"size"`
}

// ParseCase reads one case; an unknown key is an error.
func ParseCase(line []byte) (*Case, error) {
	c := &Case{}
	if err := strict(line, c); err != nil {
		return nil, err
	}
	return c, nil
}

func strict(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON object")
	}
	return nil
}

// Line encodes a value as one line, newline included.
func Line(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // every type here can be encoded
	}
	return out.Bytes()
}

// Clone copies a case deeply.
func (c *Case) Clone() *Case {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	out := &Case{}
	if err := json.Unmarshal(b, out); err != nil {
		panic(err)
	}
	return out
}

// UsesManagers is true when the case is about more than devices.
func (c *Case) UsesManagers() bool {
	if (c.CPUPolicy != "" && c.CPUPolicy != "none") || (c.MemoryPolicy != "" && c.MemoryPolicy != "None") || len(c.FeatureGates) > 0 {
		return true
	}
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Restart || s.Resize != nil })
}

// Resizes is true when a Pod is resized somewhere.
func (c *Case) Resizes() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Resize != nil })
}

// WithObserved is a copy of the case with the answer's steps beside its own;
// without an answer the `observed` that are there are dropped.
func (c *Case) WithObserved(steps []StepAnswer) *Case {
	out := *c
	out.Steps = slices.Clone(c.Steps)
	for i := range out.Steps {
		out.Steps[i].Observed = nil
		if i < len(steps) && out.Steps[i].Observable() && !steps[i].IsEmpty() {
			out.Steps[i].Observed = &steps[i]
		}
	}
	return &out
}
