package fleet_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
	"numafit.io/test/lab/machine"
)

// Every fleet that ships comes through `numafit fleet expand` with no key that the lab does not know, and
// a machine can be made up of each shape that has static managers.
func TestShippedFleetsAreReadAndRendered(t *testing.T) {
	root, err := cluster.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	numafit, err := fleet.FindNumafit(root)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(root, "test", "fleets", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 10 {
		t.Fatalf("only %d fleets in test/fleets", len(paths))
	}
	static := 0
	for _, path := range append(paths, filepath.Join(root, "deploy", "examples", "fleet.yaml")) {
		loaded, err := fleet.Load(path, numafit)
		if err != nil {
			t.Error(err)
			continue
		}
		seen := map[string]bool{}
		for _, node := range loaded.Nodes {
			if seen[node.Shape] {
				continue
			}
			seen[node.Shape] = true
			if node.Kubelet.CPUPolicy != "static" || node.Kubelet.MemoryPolicy != "Static" {
				continue // rendering all takes a minute
			}
			static++
			dir := t.TempDir()
			if err := machine.Render(node, dir); err != nil {
				t.Errorf("%s, shape %s: %v", path, node.Shape, err)
			}
			for _, numa := range node.NUMA {
				for _, cpu := range numa.CPUs() {
					link := filepath.Join(dir, "system", "node", "node"+strconv.Itoa(numa.ID), "cpu"+strconv.Itoa(cpu))
					if _, err := os.Stat(link); err != nil {
						t.Errorf("%s, shape %s: %v", path, node.Shape, err)
					}
				}
			}
		}
	}
	if static == 0 {
		t.Error("no shipped shape has static managers: nothing of them was read")
	}
}
