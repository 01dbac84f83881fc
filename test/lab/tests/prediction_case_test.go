package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

// The form of cases and answers is docs/case-format.md.

// caseStep is one thing that happens to a node.
type caseStep struct {
	Admit    *casePod  `json:"admit,omitempty"`
	Start    string    `json:"start,omitempty"`
	Remove   string    `json:"remove,omitempty"`
	Observed *observed `json:"observed,omitempty"`
}

type casePod struct {
	Name           string          `json:"name"`
	InitContainers []caseContainer `json:"initContainers,omitempty"`
	Containers     []caseContainer `json:"containers"`
}

type caseContainer struct {
	Name          string                       `json:"name"`
	RestartPolicy string                       `json:"restartPolicy,omitempty"`
	Resources     map[string]map[string]string `json:"resources"`
}

// observed is what the kubelet did.
type observed struct {
	Pod         string               `json:"pod,omitempty"`
	Admitted    *bool                `json:"admitted,omitempty"`
	Containers  []holding            `json:"containers,omitempty"`
	Left        []holding            `json:"left,omitempty"`
	DefaultCPUs *string              `json:"defaultCpus,omitempty"`
	MemoryState []cluster.MemoryBook `json:"memoryState,omitempty"`
}

type holding struct {
	Name    string                `json:"name"`
	Devices map[string][]string   `json:"devices,omitempty"`
	CPUs    string                `json:"cpus,omitempty"`
	Memory  []cluster.MemoryBlock `json:"memory,omitempty"`
}

// answer is what numafit says to one step.
type answer struct {
	Admitted    *bool                `json:"admitted"`
	Reason      string               `json:"reason"`
	Reasons     []string             `json:"reasons"`
	Settling    bool                 `json:"settling"`
	Containers  []claim              `json:"containers"`
	DefaultCPUs *string              `json:"defaultCpus"`
	MemoryState []cluster.MemoryBook `json:"memoryState"`
}

type claim struct {
	Name    string                     `json:"name"`
	Devices map[string]json.RawMessage `json:"devices"`
	CPUs    string                     `json:"cpus"`
	Memory  []cluster.MemoryBlock      `json:"memory"`
}

// caseOf describes a node, without steps.
func caseOf(node fleet.Node) (map[string]any, error) {
	reserved, err := cpuset.Parse(node.Kubelet.ReservedCPUs)
	if err != nil {
		return nil, err
	}
	var numas []map[string]any
	for _, numa := range node.NUMA {
		row := map[string]any{
			"id": numa.ID, "cores": numa.Cores, "memory": numa.Memory, "hugepages": numa.Hugepages,
			"distances": distancesByID(node, numa),
		}
		if own := reserved.Intersection(cpuset.New(numa.CPUs()...)); !own.IsEmpty() {
			row["reservedCpus"] = own.List()
		}
		numas = append(numas, row)
	}
	described := map[string]any{
		"id": node.Name, "kubeletVersion": node.Kubelet.Version, "numa": numas,
		"topologyPolicy": node.Kubelet.TopologyPolicy, "scope": node.Kubelet.TopologyScope,
		"options": node.Kubelet.TopologyOptions, "devices": node.Devices,
		"cpuPolicy": node.Kubelet.CPUPolicy, "cpuOptions": node.Kubelet.CPUOptions,
		"memoryPolicy": node.Kubelet.MemoryPolicy, "featureGates": node.Kubelet.FeatureGates,
	}
	if reserved.IsEmpty() {
		milli := int64(0)
		for _, amounts := range []map[string]string{node.Kubelet.KubeReserved, node.Kubelet.SystemReserved} {
			if text, given := amounts["cpu"]; given {
				quantity, err := resource.ParseQuantity(text)
				if err != nil {
					return nil, err
				}
				milli += quantity.MilliValue()
			}
		}
		described["reservedCpuMilli"] = milli
	}
	var memory []map[string]any
	for _, entry := range node.Kubelet.ReservedMemory {
		memory = append(memory, map[string]any{"numa": entry.NUMANode, "limits": entry.Limits})
	}
	if memory != nil {
		described["reservedMemory"] = memory
	}
	return described, nil
}

// distancesByID turns the fleet's order, which is that of sysfs, into the kubelet's.
func distancesByID(node fleet.Node, numa fleet.NUMANode) []int {
	last := 0
	for _, other := range node.NUMA {
		last = max(last, other.ID)
	}
	byID := make([]int, last+1)
	for i := range byID {
		byID[i] = 255
	}
	for i, other := range node.NUMA {
		if i < len(numa.Distances) {
			byID[other.ID] = numa.Distances[i]
		}
	}
	return byID
}

func casePodOf(pod *core.Pod) *casePod {
	convert := func(containers []core.Container) []caseContainer {
		var list []caseContainer
		for _, container := range containers {
			out := caseContainer{Name: container.Name, Resources: map[string]map[string]string{
				"requests": amounts(container.Resources.Requests), "limits": amounts(container.Resources.Limits),
			}}
			if container.RestartPolicy != nil {
				out.RestartPolicy = string(*container.RestartPolicy)
			}
			list = append(list, out)
		}
		return list
	}
	return &casePod{Name: pod.Name, InitContainers: convert(pod.Spec.InitContainers),
		Containers: convert(pod.Spec.Containers)}
}

func amounts(list core.ResourceList) map[string]string {
	out := map[string]string{}
	for name, quantity := range list {
		out[string(name)] = quantity.String()
	}
	return out
}

// askNumafit plays the steps through `numafit admit`. It returns the answers and the case as one line.
func askNumafit(numafit string, described map[string]any, steps []caseStep) ([]answer, string, error) {
	described["steps"] = steps
	line, err := json.Marshal(described)
	if err != nil {
		return nil, "", err
	}
	command := exec.Command(numafit, "admit")
	command.Stdin = bytes.NewReader(append(line, '\n'))
	text, err := command.Output()
	if err != nil {
		return nil, string(line), fmt.Errorf("numafit admit: %w", err)
	}
	var reply struct {
		Error string   `json:"error"`
		Steps []answer `json:"steps"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, string(line), fmt.Errorf("numafit admit answered %q: %w", text, err)
	}
	if reply.Error != "" || len(reply.Steps) != len(steps) {
		return nil, string(line), fmt.Errorf("numafit admit answered %q to a case of %d steps", text, len(steps))
	}
	return reply.Steps, string(line), nil
}

// agrees says whether ids are as claimed: these ids, or counts by NUMA set, or one of several counts.
func agrees(raw json.RawMessage, devices []fleet.Device, ids []string) (bool, error) {
	var exact []string
	if json.Unmarshal(raw, &exact) == nil {
		slices.Sort(exact)
		return slices.Equal(exact, ids), nil
	}
	counts := map[string]int{}
	for _, device := range devices {
		if slices.Contains(ids, device.ID) {
			counts[numaSetName(device)]++
		}
	}
	var one map[string]int
	if json.Unmarshal(raw, &one) == nil {
		return equalCounts(one, counts), nil
	}
	var several []map[string]int
	if err := json.Unmarshal(raw, &several); err != nil {
		return false, fmt.Errorf("a claim about devices in an unknown form: %s", raw)
	}
	return slices.ContainsFunc(several, func(one map[string]int) bool { return equalCounts(one, counts) }), nil
}

func equalCounts(a, b map[string]int) bool {
	for _, pair := range [][2]map[string]int{{a, b}, {b, a}} {
		for name, count := range pair[0] {
			if pair[1][name] != count {
				return false
			}
		}
	}
	return true
}

func numaSetName(device fleet.Device) string {
	switch {
	case device.NUMA == nil:
		return "none"
	case len(*device.NUMA) == 0:
		return "empty"
	}
	ids := slices.Sorted(slices.Values(*device.NUMA))
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(id)
	}
	return strings.Join(words, ",")
}
