// Package judge says, from what a kubelet itself reports, where containers landed and whether a Pod
// could be placed aligned now. It shares no code with numafit's policy: it counts devices per NUMA
// node and nothing else, which is all that decides while CPU and memory managers are off and every
// device sits on exactly one NUMA node, as in the lab's fleet.
package judge

import (
	"fmt"
	"math/bits"
	"sort"
	"strconv"
	"strings"

	"numafit.io/test/lab/fleet"
)

// Holding is what one container holds, by resource: device ids.
type Holding struct {
	Pod       string // namespace/name
	Container string
	Devices   map[string][]string
}

// Demand is what one container asks for, by resource.
type Demand map[string]int

// Enforcing says whether the node's kubelet refuses what it cannot align.
func Enforcing(node fleet.Node) bool {
	return node.Kubelet.TopologyPolicy == "restricted" || node.Kubelet.TopologyPolicy == "single-numa-node"
}

// Spread describes where a container's devices lie: per resource, the NUMA nodes that hold some.
func Spread(node fleet.Node, holding Holding) map[string][]int {
	spread := map[string][]int{}
	for resource, ids := range holding.Devices {
		on := map[int]bool{}
		for _, id := range ids {
			for _, device := range node.Devices[resource] {
				if device.ID != id {
					continue
				}
				for _, numa := range node.NUMA {
					if device.OnNUMA(numa.ID) {
						on[numa.ID] = true
					}
				}
			}
		}
		var numas []int
		for id := range on {
			numas = append(numas, id)
		}
		sort.Ints(numas)
		spread[resource] = numas
	}
	return spread
}

// Misaligned says why a container's devices do not lie together: more than one NUMA node in all,
// although each resource alone would fit fewer. "" means that they do. A request that is wider than a
// NUMA node of this hardware may use the fewest that can hold it, and no other.
func Misaligned(node fleet.Node, holding Holding) string {
	union := map[int]bool{}
	spread := Spread(node, holding)
	width := 1
	for resource, ids := range holding.Devices {
		if need := minimalWidth(node, resource, len(ids)); need > width {
			width = need
		}
		for _, numa := range spread[resource] {
			union[numa] = true
		}
	}
	if len(union) <= width {
		return ""
	}
	return fmt.Sprintf("%s/%s on %s lies on %s; %d NUMA node(s) would do",
		holding.Pod, holding.Container, node.Name, describe(spread), width)
}

// Describe says where a container's devices lie, for people; "" when it has none.
func Describe(node fleet.Node, holding Holding) string { return describe(Spread(node, holding)) }

func describe(spread map[string][]int) string {
	places := map[string][]string{} // NUMA nodes to the resources that lie there
	for resource, numas := range spread {
		words := make([]string, len(numas))
		for i, id := range numas {
			words[i] = strconv.Itoa(id)
		}
		place := "NUMA " + strings.Join(words, "+")
		if len(numas) == 0 {
			place = "no NUMA node"
		}
		places[place] = append(places[place], resource)
	}
	var words []string
	for place, resources := range places {
		sort.Strings(resources)
		if len(places) == 1 {
			return place
		}
		words = append(words, strings.Join(resources, ", ")+" on "+place)
	}
	sort.Strings(words)
	return strings.Join(words, "; ")
}

// Free counts the free healthy devices of a node: resource, then NUMA node.
type Free map[string]map[int]int

// FreeDevices subtracts what is held from what the machine has.
func FreeDevices(node fleet.Node, holdings []Holding) Free {
	held := map[string]bool{}
	for _, holding := range holdings {
		for resource, ids := range holding.Devices {
			for _, id := range ids {
				held[resource+" "+id] = true
			}
		}
	}
	free := Free{}
	for resource, devices := range node.Devices {
		free[resource] = map[int]int{}
		for _, device := range devices {
			if !device.IsHealthy() || held[resource+" "+device.ID] {
				continue
			}
			for _, numa := range node.NUMA {
				if device.OnNUMA(numa.ID) {
					free[resource][numa.ID]++
				}
			}
		}
	}
	return free
}

// CanAlign says whether the node could admit the Pod aligned now. Each container (with pod scope: the
// Pod) needs one set of NUMA nodes that is the smallest possible for *every* resource it asks for, and
// that has the devices free: the rule of `restricted`. With single-numa-node the set has one member.
// It takes a container's devices from its set before it looks at the next. Of several sets a kubelet that
// enforces takes the one with the lowest ids, whatever that means for the next container; one that does
// not may take any.
func CanAlign(node fleet.Node, free Free, containers []Demand) bool {
	if node.Kubelet.TopologyScope == "pod" {
		total := Demand{}
		for _, container := range containers {
			for resource, count := range container {
				total[resource] += count
			}
		}
		containers = []Demand{total}
	}
	return place(node, free, containers)
}

func place(node fleet.Node, free Free, containers []Demand) bool {
	if len(containers) == 0 {
		return true
	}
	demand := containers[0]
	if len(demand) == 0 {
		return place(node, free, containers[1:])
	}
	width := 0
	for resource, count := range demand {
		need := minimalWidth(node, resource, count)
		if need == 0 || width != 0 && need != width {
			return false // no set of NUMA nodes is the smallest for both
		}
		width = need
	}
	if width != 1 && node.Kubelet.TopologyPolicy == "single-numa-node" {
		return false
	}
	for mask := uint64(1); mask < 1<<len(node.NUMA); mask++ {
		if bits.OnesCount64(mask) != width {
			continue
		}
		taken, ok := take(node, free, demand, mask)
		if ok && place(node, taken, containers[1:]) {
			return true
		}
		if ok && Enforcing(node) {
			return false
		}
	}
	return false
}

// take removes the demand from the NUMA nodes of mask, lowest first.
func take(node fleet.Node, free Free, demand Demand, mask uint64) (Free, bool) {
	rest := Free{}
	for resource, counts := range free {
		rest[resource] = map[int]int{}
		for numa, count := range counts {
			rest[resource][numa] = count
		}
	}
	for resource, count := range demand {
		for i, numa := range node.NUMA {
			if mask&(1<<i) == 0 {
				continue
			}
			taken := min(count, rest[resource][numa.ID])
			rest[resource][numa.ID] -= taken
			count -= taken
		}
		if count > 0 {
			return nil, false
		}
	}
	return rest, true
}

// minimalWidth is the smallest number of NUMA nodes of this machine that has count devices when all
// are free and healthy; 0 when the whole machine has fewer.
func minimalWidth(node fleet.Node, resource string, count int) int {
	best := 0
	for mask := uint64(1); mask < 1<<len(node.NUMA); mask++ {
		have := 0
		for _, device := range node.Devices[resource] {
			for i, numa := range node.NUMA {
				if mask&(1<<i) != 0 && device.OnNUMA(numa.ID) {
					have++
					break
				}
			}
		}
		width := bits.OnesCount64(mask)
		if have >= count && (best == 0 || width < best) {
			best = width
		}
	}
	return best
}
