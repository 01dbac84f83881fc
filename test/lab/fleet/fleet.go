// Package fleet reads the machines that the lab makes up.
//
// A fleet file (docs/fleet-file.md) is parsed in one place, by numafit itself; the lab reads the
// expanded form, `numafit fleet expand --fleet F -o json`: one entry per node, in the words of the
// test cases (NUMA nodes, devices). So the extender, the oracle and the lab see the same machines.
package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// Fleet is an expanded fleet file.
type Fleet struct {
	Nodes []Node `json:"nodes"`
	// What the file says runs already: the lab starts empty.
	Pods json.RawMessage `json:"pods"`
	// Path of the fleet file it came from, for programs that read the file themselves.
	Path string `json:"-"`
}

// Node is one machine.
type Node struct {
	Name    string              `json:"name"`
	Shape   string              `json:"shape"`
	Labels  map[string]string   `json:"labels"`
	Kubelet Kubelet             `json:"kubelet"`
	NUMA    []NUMANode          `json:"numa"`
	Devices map[string][]Device `json:"devices"` // by resource name
}

// Kubelet holds the settings that decide an admission. Empty means the kubelet's own default.
type Kubelet struct {
	Version         string              `json:"version"`
	TopologyPolicy  string              `json:"topologyManagerPolicy"`
	TopologyScope   string              `json:"topologyManagerScope"`
	TopologyOptions map[string]string   `json:"topologyManagerPolicyOptions"`
	CPUPolicy       string              `json:"cpuManagerPolicy"`
	CPUOptions      map[string]string   `json:"cpuManagerPolicyOptions"`
	MemoryPolicy    string              `json:"memoryManagerPolicy"`
	ReservedCPUs    string              `json:"reservedSystemCPUs"`
	ReservedMemory  []MemoryReservation `json:"reservedMemory"`
	KubeReserved    map[string]string   `json:"kubeReserved"`
	SystemReserved  map[string]string   `json:"systemReserved"`
	EvictionHard    map[string]string   `json:"evictionHard"`
	FeatureGates    map[string]bool     `json:"featureGates"`
}

// MemoryReservation is one entry of reservedMemory, as in the kubelet's configuration.
type MemoryReservation struct {
	NUMANode int               `json:"numaNode"`
	Limits   map[string]string `json:"limits"` // "memory", "hugepages-2Mi"
}

// NUMANode is one NUMA node of a machine.
type NUMANode struct {
	ID        int               `json:"id"`
	Cores     []Core            `json:"cores"`
	Memory    int64             `json:"memory"`    // bytes, huge pages included
	Hugepages map[string]uint64 `json:"hugepages"` // page size ("2Mi", "1Gi") to number of pages
	Distances []int             `json:"distances"` // to every NUMA node of the machine, by position
}

// Core is one physical core.
type Core struct {
	Threads []int `json:"threads"`
	Socket  int   `json:"socket"`
	// Uncore is the last-level cache that it shares with some other cores of its NUMA node; nil where
	// the whole NUMA node shares one.
	Uncore *int `json:"uncore,omitempty"`
}

// Device is one device as a device plugin lists it.
type Device struct {
	ID string `json:"id"`
	// NUMA is nil when the plugin publishes no topology, and empty when it publishes a topology
	// without NUMA nodes: two different answers to the kubelet.
	NUMA    *[]int `json:"numa"`
	Healthy *bool  `json:"healthy"` // default true
}

// IsHealthy says whether the plugin lists the device as healthy.
func (d Device) IsHealthy() bool { return d.Healthy == nil || *d.Healthy }

// OnNUMA says whether the device sits on NUMA node id (a device without topology sits on none).
func (d Device) OnNUMA(id int) bool {
	if d.NUMA == nil {
		return false
	}
	for _, n := range *d.NUMA {
		if n == id {
			return true
		}
	}
	return false
}

// CPUs lists the logical CPUs of the NUMA node, core by core.
func (n NUMANode) CPUs() []int {
	var cpus []int
	for _, core := range n.Cores {
		cpus = append(cpus, core.Threads...)
	}
	return cpus
}

// ResourceNames lists the resources of the node's devices in order.
func (n Node) ResourceNames() []string {
	names := make([]string, 0, len(n.Devices))
	for name := range n.Devices {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Load reads a fleet. A .json file is taken as already expanded; anything else is given to numafit.
// numafit is the path of the numafit command, and may be empty for a .json file.
func Load(path, numafit string) (*Fleet, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	var text []byte
	if strings.HasSuffix(path, ".json") {
		if text, err = os.ReadFile(absolute); err != nil {
			return nil, err
		}
	} else {
		var stderr bytes.Buffer
		command := exec.Command(numafit, "fleet", "expand", "--fleet", absolute, "-o", "json")
		command.Stderr = &stderr
		if text, err = command.Output(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err,
				strings.TrimSpace(stderr.String()))
		}
	}
	fleet := &Fleet{Path: absolute}
	decoder := json.NewDecoder(bytes.NewReader(text))
	// A key that the lab does not know would be a machine that is not what the file says.
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(fleet); err != nil {
		return nil, fmt.Errorf("expanded form of %s: %w", path, err)
	}
	return fleet, fleet.check()
}

func (f *Fleet) check() error {
	if len(f.Nodes) == 0 {
		return fmt.Errorf("%s: the fleet has no nodes", f.Path)
	}
	seen := map[string]bool{}
	for _, node := range f.Nodes {
		if node.Name == "" {
			return fmt.Errorf("%s: a node has no name", f.Path)
		}
		if seen[node.Name] {
			return fmt.Errorf("%s: two nodes are called %s", f.Path, node.Name)
		}
		seen[node.Name] = true
		if len(node.NUMA) == 0 {
			return fmt.Errorf("%s: node %s has no NUMA nodes", f.Path, node.Name)
		}
	}
	return nil
}

// FindNumafit finds the built numafit command below the repository, NUMAFIT first.
func FindNumafit(root string) (string, error) {
	return findProgram(root, "NUMAFIT", "numafit")
}

// FindExtender finds the built extender below the repository, NUMAFIT_EXTENDER first.
func FindExtender(root string) (string, error) {
	return findProgram(root, "NUMAFIT_EXTENDER", "numafit-extender")
}

// FindAgent finds the built node agent below the repository, NUMAFIT_AGENT first.
func FindAgent(root string) (string, error) {
	return findProgram(root, "NUMAFIT_AGENT", "numafit-agent")
}

func findProgram(root, variable, name string) (string, error) {
	path := os.Getenv(variable)
	if path == "" {
		path = filepath.Join(root, "build", "release", name)
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s is not built: run hack/run.sh, or name one in %s", path, variable)
	}
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", fmt.Errorf("%s is a folder, not a program", path)
	}
	return filepath.Abs(path)
}
