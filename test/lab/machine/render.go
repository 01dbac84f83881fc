// Package machine makes up a machine for a kubelet: the files of /sys and /proc that a kubelet reads
// to learn NUMA nodes, CPUs and memory, written to a folder (Render) and mounted over the real ones in
// a mount namespace of the node's own (Enter).
package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"numafit.io/test/lab/fleet"
)

// kernelSettings are what a kubelet wants to see below /proc/sys, so that it sets nothing for the
// whole machine.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

type files map[string]string // path below the folder to content

// Render writes the machine of a node below dir: system/ (for /sys/devices/system), hugepages/,
// meminfo, cpuinfo, machine-id, sysctl/.
func Render(node fleet.Node, dir string) error {
	out := files{}
	links := map[string]string{}
	var cpus, numaIDs, withCPU []int
	var memory uint64
	coreID := 0
	sharers := uncoreCPUs(node.NUMA)
	pages := totalHugepages(node.NUMA)
	for _, numa := range node.NUMA {
		numaIDs = append(numaIDs, numa.ID)
		memory += uint64(numa.Memory)
		base := fmt.Sprintf("system/node/node%d/", numa.ID)
		var own []int
		for _, core := range numa.Cores {
			for _, cpu := range core.Threads {
				own = append(own, cpu)
				renderCPU(out, cpu, coreID, core)
				if core.Uncore != nil {
					renderCache(out, cpu, *core.Uncore, sharers[*core.Uncore])
				}
				links[fmt.Sprintf("%scpu%d", base, cpu)] = fmt.Sprintf("../../cpu/cpu%d", cpu)
				links[fmt.Sprintf("system/cpu/cpu%d/node%d", cpu, numa.ID)] =
					fmt.Sprintf("../../node/node%d", numa.ID)
			}
			coreID++
		}
		if len(own) > 0 {
			withCPU = append(withCPU, numa.ID)
		}
		cpus = append(cpus, own...)
		out[base+"cpulist"] = List(own)
		out[base+"distance"] = distances(numa, node.NUMA)
		out[base+"meminfo"] = fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB",
			numa.ID, numa.Memory/1024, numa.ID, numa.Memory/1024)
		if err := renderHugepages(out, base+"hugepages/", pages, numa.Hugepages); err != nil {
			return err
		}
	}
	for _, name := range []string{"online", "possible", "has_memory", "has_normal_memory"} {
		out["system/node/"+name] = List(numaIDs)
	}
	out["system/node/has_cpu"] = List(withCPU)
	for _, name := range []string{"online", "possible", "present"} {
		out["system/cpu/"+name] = List(cpus)
	}
	if err := renderHugepages(out, "hugepages/", pages, pages); err != nil {
		return err
	}
	out["meminfo"] = meminfo(memory)
	out["cpuinfo"] = cpuinfo(node.NUMA)
	out["machine-id"] = fmt.Sprintf("%032x", hash(node.Name))
	for name, value := range kernelSettings {
		out["sysctl/"+name] = value
	}
	// There with no page size, too: it is mounted.
	if err := os.MkdirAll(filepath.Join(dir, "hugepages"), 0o755); err != nil {
		return err
	}
	if err := out.write(dir); err != nil {
		return err
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func renderCPU(out files, cpu, coreID int, core fleet.Core) {
	base := fmt.Sprintf("system/cpu/cpu%d/topology/", cpu)
	out[base+"core_id"] = strconv.Itoa(coreID)
	out[base+"physical_package_id"] = strconv.Itoa(core.Socket)
	out[base+"die_id"] = "0"
	out[base+"thread_siblings_list"] = List(core.Threads)
	out[base+"core_cpus_list"] = List(core.Threads)
}

// renderCache makes up the last-level cache of a part of a NUMA node.
func renderCache(out files, cpu, id int, sharers []int) {
	base := fmt.Sprintf("system/cpu/cpu%d/cache/index3/", cpu)
	out[base+"id"] = strconv.Itoa(id)
	out[base+"level"] = "3"
	out[base+"type"] = "Unified"
	out[base+"size"] = "32768K"
	out[base+"shared_cpu_list"] = List(sharers)
	out[base+"shared_cpu_map"] = cpuMap(sharers)
}

func uncoreCPUs(numas []fleet.NUMANode) map[int][]int {
	sharers := map[int][]int{}
	for _, numa := range numas {
		for _, core := range numa.Cores {
			if core.Uncore != nil {
				sharers[*core.Uncore] = append(sharers[*core.Uncore], core.Threads...)
			}
		}
	}
	return sharers
}

// cpuMap writes a set of CPUs as the kernel's bit masks: 32 bits a word, the highest first.
func cpuMap(cpus []int) string {
	words := make([]uint32, slices.Max(cpus)/32+1)
	for _, cpu := range cpus {
		words[len(words)-1-cpu/32] |= 1 << (cpu % 32)
	}
	text := make([]string, len(words))
	for i, word := range words {
		text[i] = fmt.Sprintf("%08x", word)
	}
	return strings.Join(text, ",")
}

// renderHugepages writes a folder for every size of the machine: the kernel has all of them on every
// NUMA node.
func renderHugepages(out files, base string, sizes, pages map[string]uint64) error {
	for size := range sizes {
		quantity, err := resource.ParseQuantity(size)
		if err != nil {
			return fmt.Errorf("page size %q: %w", size, err)
		}
		folder := fmt.Sprintf("%shugepages-%dkB/", base, quantity.Value()/1024)
		count := strconv.FormatUint(pages[size], 10)
		out[folder+"nr_hugepages"] = count
		out[folder+"free_hugepages"] = count
		out[folder+"surplus_hugepages"] = "0"
	}
	return nil
}

func totalHugepages(numas []fleet.NUMANode) map[string]uint64 {
	total := map[string]uint64{}
	for _, numa := range numas {
		for size, count := range numa.Hugepages {
			total[size] += count
		}
	}
	return total
}

// distances fills in the usual 10 (itself) and 20 (any other) where the fleet file says nothing.
func distances(numa fleet.NUMANode, all []fleet.NUMANode) string {
	words := make([]string, len(all))
	for i, other := range all {
		distance := 20
		if other.ID == numa.ID {
			distance = 10
		}
		if i < len(numa.Distances) {
			distance = numa.Distances[i]
		}
		words[i] = strconv.Itoa(distance)
	}
	return strings.Join(words, " ")
}

func meminfo(bytes uint64) string {
	var text strings.Builder
	for _, name := range []string{"MemTotal", "MemFree", "MemAvailable"} {
		fmt.Fprintf(&text, "%-15s %d kB\n", name+":", bytes/1024)
	}
	for _, name := range []string{"Buffers", "Cached", "SwapTotal", "SwapFree"} {
		fmt.Fprintf(&text, "%-15s 0 kB\n", name+":")
	}
	return text.String()
}

func cpuinfo(numas []fleet.NUMANode) string {
	var text strings.Builder
	coreID := 0
	for _, numa := range numas {
		for _, core := range numa.Cores {
			for _, cpu := range core.Threads {
				fmt.Fprintf(&text, "processor\t: %d\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2000.000\n"+
					"physical id\t: %d\ncore id\t\t: %d\n\n", cpu, core.Socket, coreID)
			}
			coreID++
		}
	}
	return text.String()
}

// List writes a set of numbers as the kernel does: "0-3,8".
func List(numbers []int) string {
	sorted := append([]int(nil), numbers...)
	sort.Ints(sorted)
	var words []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if i == j {
			words = append(words, strconv.Itoa(sorted[i]))
		} else {
			words = append(words, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(words, ",")
}

func (f files) write(dir string) error {
	for name, content := range f {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hash is FNV-1a: only to give every node a machine-id of its own that stays the same.
func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
