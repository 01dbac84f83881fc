package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"numafit.io/test/lab/fleet"
)

func TestList(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": {}, "3": {3}, "0-3": {2, 0, 1, 3}, "0-1,4,6-7": {0, 1, 4, 6, 7},
	} {
		if got := List(numbers); got != want {
			t.Errorf("List(%v) = %q, want %q", numbers, got, want)
		}
	}
}

func TestRenderedMachineHasItsThreadsTogether(t *testing.T) {
	dir := t.TempDir()
	uncore := 3
	node := fleet.Node{Name: "n", NUMA: []fleet.NUMANode{
		{ID: 0, Cores: []fleet.Core{{Threads: []int{0, 8}}, {Threads: []int{1, 9}, Uncore: &uncore},
			{Threads: []int{33}, Uncore: &uncore}}, Memory: 1 << 30},
		{ID: 1, Memory: 1 << 30, Hugepages: map[string]uint64{"2Mi": 5, "32Mi": 0}}, // without CPUs
	}}
	if err := Render(node, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"system/node/online":                                        "0-1",
		"system/node/has_cpu":                                       "0",
		"system/node/node0/cpulist":                                 "0-1,8-9,33",
		"system/node/node0/distance":                                "10 20",
		"system/node/node1/distance":                                "20 10",
		"system/cpu/cpu8/topology/thread_siblings_list":             "0,8",
		"system/node/node0/cpu9/topology/core_id":                   "1",
		"system/node/node1/hugepages/hugepages-2048kB/nr_hugepages": "5",
		"hugepages/hugepages-2048kB/nr_hugepages":                   "5",
		"system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "0",
		"hugepages/hugepages-32768kB/free_hugepages":                "0",
		"system/cpu/cpu9/cache/index3/id":                           "3",
		"system/cpu/cpu1/cache/index3/shared_cpu_list":              "1,9,33",
		"system/cpu/cpu1/cache/index3/shared_cpu_map":               "00000002,00000202",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if got := strings.TrimSpace(string(text)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
