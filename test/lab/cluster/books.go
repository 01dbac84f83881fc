package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Books are the state files of a node's kubelet: what its managers would know again after a restart.
// Unlike PodResources they name regular init containers, Pods that were refused or are gone and are not
// cleaned up yet, and what is free.
type Books struct {
	// DefaultCPUs is the CPU manager's default set as the file has it; "" with the policy none.
	DefaultCPUs string
	// Memory is the memory manager's book, sorted by NUMA node; nil with the policy None.
	Memory []MemoryBook

	devices map[types.UID]map[string]map[string][]string // Pod, container, resource: device ids
	cpus    map[types.UID]map[string]string
	memory  map[types.UID]map[string][]MemoryBlock
}

// MemoryBook is one NUMA node's row, in the words of the test cases.
type MemoryBook struct {
	NUMA        int               `json:"numa"`
	Assignments int               `json:"assignments"`
	Cells       []int             `json:"cells"`
	Free        map[string]uint64 `json:"free"`
}

// MemoryBlock is memory that a container was given, in the words of the test cases.
type MemoryBlock struct {
	Type string `json:"type"`
	NUMA []int  `json:"numa"`
	Size uint64 `json:"size"`
}

// Devices are the ids that a container holds, by resource, sorted.
func (b *Books) Devices(pod types.UID, container string) map[string][]string {
	return b.devices[pod][container]
}

// CPUs is a container's exclusive set as the file has it; "" when it has none.
func (b *Books) CPUs(pod types.UID, container string) string { return b.cpus[pod][container] }

// Blocks is a container's memory, sorted by type.
func (b *Books) Blocks(pod types.UID, container string) []MemoryBlock {
	return b.memory[pod][container]
}

// Books reads the node's state files. The kubelet replaces them as wholes, so each is consistent; they
// are read one after the other.
func (n *Node) Books() (*Books, error) {
	books := &Books{}
	for _, read := range []func(*Books) error{n.readDevices, n.readCPUs, n.readMemory} {
		if err := read(books); err != nil {
			return nil, fmt.Errorf("state of node %s: %w", n.Name, err)
		}
	}
	return books, nil
}

// readState is a no-op for a file that is not there yet: nothing was given out.
func (n *Node) readState(into any, name ...string) error {
	text, err := os.ReadFile(n.path(append([]string{"kubelet"}, name...)...))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%v: %w", name, err)
	}
	return nil
}

func (n *Node) readDevices(books *Books) error {
	var file struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID        types.UID
				ContainerName string
				ResourceName  string
				DeviceIDs     map[string][]string
			}
		}
	}
	if err := n.readState(&file, "device-plugins", "kubelet_internal_checkpoint"); err != nil {
		return err
	}
	books.devices = map[types.UID]map[string]map[string][]string{}
	for _, entry := range file.Data.PodDeviceEntries {
		seen := map[string]bool{}
		var ids []string
		for _, some := range entry.DeviceIDs {
			for _, id := range some {
				if !seen[id] {
					seen[id] = true
					ids = append(ids, id)
				}
			}
		}
		sort.Strings(ids)
		pod := books.devices[entry.PodUID]
		if pod == nil {
			pod = map[string]map[string][]string{}
			books.devices[entry.PodUID] = pod
		}
		if pod[entry.ContainerName] == nil {
			pod[entry.ContainerName] = map[string][]string{}
		}
		pod[entry.ContainerName][entry.ResourceName] = ids
	}
	return nil
}

func (n *Node) readCPUs(books *Books) error {
	var file struct {
		DefaultCPUSet string                          `json:"defaultCpuSet"`
		Entries       map[types.UID]map[string]string `json:"entries"`
	}
	if err := n.readState(&file, "cpu_manager_state"); err != nil {
		return err
	}
	books.DefaultCPUs, books.cpus = file.DefaultCPUSet, file.Entries
	return nil
}

func (n *Node) readMemory(books *Books) error {
	var file struct {
		MachineState map[int]struct {
			NumberOfAssignments int                          `json:"numberOfAssignments"`
			MemoryMap           map[string]map[string]uint64 `json:"memoryMap"`
			Cells               []int                        `json:"cells"`
		} `json:"machineState"`
		Entries map[types.UID]map[string][]struct {
			NUMAAffinity []int             `json:"numaAffinity"`
			Type         core.ResourceName `json:"type"`
			Size         uint64            `json:"size"`
		} `json:"entries"`
	}
	if err := n.readState(&file, "memory_manager_state"); err != nil {
		return err
	}
	for numa, state := range file.MachineState {
		row := MemoryBook{NUMA: numa, Assignments: state.NumberOfAssignments, Cells: state.Cells,
			Free: map[string]uint64{}}
		for name, table := range state.MemoryMap {
			row.Free[name] = table["free"]
		}
		sort.Ints(row.Cells)
		books.Memory = append(books.Memory, row)
	}
	sort.Slice(books.Memory, func(i, j int) bool { return books.Memory[i].NUMA < books.Memory[j].NUMA })
	books.memory = map[types.UID]map[string][]MemoryBlock{}
	for pod, containers := range file.Entries {
		books.memory[pod] = map[string][]MemoryBlock{}
		for container, blocks := range containers {
			var list []MemoryBlock
			for _, block := range blocks {
				list = append(list, MemoryBlock{Type: string(block.Type), NUMA: block.NUMAAffinity, Size: block.Size})
			}
			sort.Slice(list, func(i, j int) bool { return list[i].Type < list[j].Type })
			books.memory[pod][container] = list
		}
	}
	return nil
}
