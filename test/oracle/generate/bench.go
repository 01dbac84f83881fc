package generate

import (
	"encoding/json"
	"fmt"
	"strconv"

	"numafit.io/numafit/test/oracle/form"
)

// Bench are the cases in which mirror and kubelet are timed: the typical node,
// eight devices on two NUMA nodes, with devices alone and with all managers,
// and the worst one, eight NUMA nodes and all that can have hints.
func Bench(minor string) []*form.Case {
	var out []*form.Case
	for _, policy := range []string{"single-numa-node", "restricted", "best-effort"} {
		out = append(out,
			benchCase(minor, "2 NUMA nodes, devices", policy, 2, 4, false, map[string]string{names[0]: "2", names[1]: "2"}),
			benchCase(minor, "2 NUMA nodes, devices, CPUs, memory", policy, 2, 4, true,
				map[string]string{names[0]: "2", names[1]: "2", "cpu": "8", "memory": "64Gi"}),
			benchCase(minor, "8 NUMA nodes, devices", policy, 8, 2, false, map[string]string{names[0]: "3", names[1]: "1"}),
			benchCase(minor, "8 NUMA nodes, devices, CPUs, memory, hugepages", policy, 8, 2, true,
				map[string]string{names[0]: "6", names[1]: "6", "cpu": "80", "memory": "600Gi", "hugepages-2Mi": "20Gi"}))
	}
	return out
}

// benchCase: Pods of one shape come, and the oldest goes when there are four.
func benchCase(minor, name, policy string, nodes, perNode int, managers bool, wants map[string]string) *form.Case {
	c := &form.Case{
		ID:             json.RawMessage(strconv.Quote(name + ", " + policy)),
		KubeletVersion: Versions[minor],
		TopologyPolicy: policy, Scope: "container",
		Devices: map[string][]form.Device{},
	}
	for id := range nodes {
		n := form.NUMANode{ID: id}
		for _, resource := range names[:2] {
			for i := range perNode {
				c.Devices[resource] = append(c.Devices[resource], form.Device{ID: fmt.Sprintf("%c%d", resource[0], id*perNode+i), NUMA: []int{id}})
			}
		}
		if managers {
			const cpus = 32
			for i := range cpus {
				n.CPUs = append(n.CPUs, id*cpus+i)
			}
			n.ThreadsPerCore, n.Socket = 2, id
			n.Memory, n.Hugepages = 256<<30, map[string]int64{"2Mi": 4096}
		}
		c.NUMA = append(c.NUMA, n)
	}
	if managers {
		c.NUMA[0].ReservedCPUs = []int{0, 1}
		c.CPUPolicy, c.CPUOptions = "static", map[string]string{"full-pcpus-only": "true"}
		c.MemoryPolicy = "Static"
		c.ReservedMemory = []form.ReservedMemory{{NUMA: 0, Limits: map[string]string{"memory": "1Gi"}}}
	}
	const admissions, most = 24, 4
	for i := range admissions {
		if i >= most {
			c.Steps = append(c.Steps, form.Step{Remove: "p" + strconv.Itoa(i-most)})
		}
		c.Steps = append(c.Steps, form.Step{Admit: &form.Pod{
			Name:       "p" + strconv.Itoa(i),
			Containers: []form.Container{{Name: "c", Resources: form.Resources{Limits: wants}}},
		}})
	}
	return c
}
