package judge

import (
	"testing"

	"numafit.io/test/lab/fleet"
)

const gpu, rdma = "gpu", "rdma"

// machine has gpus[i] and rdmas[i] devices on NUMA node i.
func machine(policy, scope string, gpus, rdmas []int) fleet.Node {
	node := fleet.Node{
		Name:    "n",
		Kubelet: fleet.Kubelet{TopologyPolicy: policy, TopologyScope: scope},
		Devices: map[string][]fleet.Device{},
	}
	for i := range gpus {
		node.NUMA = append(node.NUMA, fleet.NUMANode{ID: i})
		for resource, count := range map[string]int{gpu: gpus[i], rdma: rdmas[i]} {
			for k := range count {
				node.Devices[resource] = append(node.Devices[resource],
					fleet.Device{ID: id(i, k), NUMA: &[]int{i}})
			}
		}
	}
	return node
}

func id(numa, k int) string { return string(rune('a'+numa)) + string(rune('0'+k)) }

func TestCanAlign(t *testing.T) {
	even := func(policy string) fleet.Node { return machine(policy, "container", []int{4, 4}, []int{4, 4}) }
	oneEach := []Holding{{Devices: map[string][]string{
		gpu: {"a0", "a1", "a2", "b0", "b1", "b2"}, rdma: {"a0", "a1", "a2", "b0", "b1", "b2"},
	}}}
	for _, test := range []struct {
		name  string
		node  fleet.Node
		held  []Holding
		wants []Demand
		can   bool
	}{
		{"four and four fit one NUMA node", even("single-numa-node"), nil, []Demand{{gpu: 4, rdma: 4}}, true},
		{"eight and eight span both where that is allowed", even("restricted"), nil, []Demand{{gpu: 8, rdma: 8}}, true},
		{"eight and eight do not fit one NUMA node", even("single-numa-node"), nil, []Demand{{gpu: 8, rdma: 8}}, false},
		{"eight and one have no common smallest set", even("restricted"), nil, []Demand{{gpu: 8, rdma: 1}}, false},
		{"one free on each side is not two together", even("single-numa-node"), oneEach, []Demand{{gpu: 2, rdma: 2}}, false},
		{"nor where nothing enforces it", even("none"), oneEach, []Demand{{gpu: 2, rdma: 2}}, false},
		{"one free on each side takes two containers", even("single-numa-node"), oneEach, []Demand{{gpu: 1, rdma: 1}, {gpu: 1, rdma: 1}}, true},
		{"but not three", even("single-numa-node"), oneEach, []Demand{{gpu: 1}, {gpu: 1}, {gpu: 1}}, false},
		{"pod scope wants the containers together", machine("single-numa-node", "pod", []int{2, 2}, []int{2, 2}), nil, []Demand{{gpu: 2}, {gpu: 1}}, false},
		{"endpoints on one side only", machine("restricted", "container", []int{4, 4}, []int{4, 0}), nil, []Demand{{gpu: 4, rdma: 4}, {gpu: 4}}, true},
		{"the first container takes that side", machine("restricted", "container", []int{4, 4}, []int{4, 0}), nil, []Demand{{gpu: 4}, {gpu: 4, rdma: 4}}, false},
		{"where nothing enforces it may take the other", machine("none", "container", []int{4, 4}, []int{4, 0}), nil, []Demand{{gpu: 4}, {gpu: 4, rdma: 4}}, true},
		{"more than the machine has", even("none"), nil, []Demand{{gpu: 9}}, false},
		{"no devices wanted", even("single-numa-node"), oneEach, []Demand{{}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			free := FreeDevices(test.node, test.held)
			if got := CanAlign(test.node, free, test.wants); got != test.can {
				t.Errorf("CanAlign = %v, want %v; free %v", got, test.can, free)
			}
		})
	}
}

func TestMisaligned(t *testing.T) {
	node := machine("none", "container", []int{4, 4}, []int{4, 4})
	for _, test := range []struct {
		name    string
		devices map[string][]string
		aligned bool
	}{
		{"together", map[string][]string{gpu: {"b0", "b1"}, rdma: {"b3"}}, true},
		{"apart", map[string][]string{gpu: {"a0"}, rdma: {"b0"}}, false},
		{"one resource on two sides", map[string][]string{gpu: {"a0", "b0"}}, false},
		{"wider than a NUMA node", map[string][]string{gpu: {"a0", "a1", "a2", "b0", "b1"}, rdma: {"a0"}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			message := Misaligned(node, Holding{Pod: "p", Container: "c", Devices: test.devices})
			if (message == "") != test.aligned {
				t.Errorf("Misaligned = %q, want aligned = %v", message, test.aligned)
			}
		})
	}
}
