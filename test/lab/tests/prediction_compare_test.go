package tests

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/cpuset"

	"numafit.io/test/lab/cluster"
)

// tally counts over all nodes.
type tally struct {
	mu      sync.Mutex
	pods    int
	removed int
	either  int // predicted: may be admitted or not
	leftOut int // of what containers got and of the books, not claimed
	reasons map[string]int
	wrong   []string // a case for each Pod that was not predicted
}

func (r *tally) add(f func(*tally)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// report fails when a rule was not tried. Cases of wrong predictions go to the file, the first to the log.
func (r *tally) report(t *testing.T, took time.Duration, file string) {
	t.Helper()
	if len(r.wrong) > 0 {
		t.Logf("cases are in %s; the first: %s", file, r.wrong[0])
		if err := os.WriteFile(file, []byte(strings.Join(r.wrong, "\n")+"\n"), 0o644); err != nil {
			t.Error(err)
		}
	}
	var words []string
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		words = append(words, fmt.Sprintf("%s %d", reason, r.reasons[reason]))
	}
	t.Logf("%d Pods in %.1f s: %s; %d removed; %d verdicts left open, %d claims left out",
		r.pods, took.Seconds(), strings.Join(words, ", "), r.removed, r.either, r.leftOut)
	if r.pods < 150 {
		return // too few to meet every rule
	}
	for _, reason := range []string{"admitted", "TopologyAffinityError", "UnexpectedAdmissionError",
		"SMTAlignmentError", "OutOfcpu", "OutOfmemory", "OutOfhugepages-2Mi"} {
		if r.reasons[reason] == 0 {
			t.Errorf("no kubelet answered %s: that rule was not tried", reason)
		}
	}
	if r.either*50 > r.pods {
		t.Errorf("%d of %d verdicts were left open, more than 2 %%", r.either, r.pods)
	}
}

// compareVerdict says what is wrong with a prediction; "" when nothing is.
func compareVerdict(predicted answer, counting []string, seen *core.Pod) string {
	reasons := predicted.Reasons
	if predicted.Reason != "" {
		reasons = []string{predicted.Reason}
	}
	mayAdmit := predicted.Admitted == nil || *predicted.Admitted
	if mayAdmit {
		reasons = append(slices.Clone(reasons), counting...)
	}
	if seen.Status.Phase != core.PodFailed {
		if mayAdmit && len(counting) == 0 {
			return ""
		}
		return fmt.Sprintf("was admitted, predicted %v", reasons)
	}
	if slices.Contains(reasons, seen.Status.Reason) {
		return ""
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("was refused with %s, predicted to be admitted", seen.Status.Reason)
	}
	return fmt.Sprintf("was refused with %s, predicted %v", seen.Status.Reason, reasons)
}

// compareHoldings: what is claimed must be so. A claim that is left out is counted.
func (r *predictionRun) compareHoldings(pod *core.Pod, predicted answer, got []holding) {
	claims := map[string]claim{}
	for _, one := range predicted.Containers {
		claims[one.Name] = one
	}
	leftOut := 0
	for i, have := range got {
		want := claims[have.Name]
		// Later containers may depend on a pick of devices that nobody knows.
		if want.CPUs != have.CPUs {
			if want.CPUs == "" && i > 0 {
				leftOut++
			} else {
				r.complain("container %s has CPUs %q, predicted %q", have.Name, have.CPUs, want.CPUs)
			}
		}
		for name, raw := range want.Devices {
			same, err := agrees(raw, r.node.Devices[name], have.Devices[name])
			if err != nil || !same {
				r.complain("container %s has %s %v, predicted %s", have.Name, name, have.Devices[name], raw)
			}
		}
		for name := range have.Devices {
			if _, claimed := want.Devices[name]; !claimed {
				leftOut++
			}
		}
		switch {
		case isPlainInit(pod, have.Name): // gone when it was looked at
		case want.Memory == nil && have.Memory != nil:
			leftOut++
		case !slices.EqualFunc(want.Memory, have.Memory, func(a, b cluster.MemoryBlock) bool {
			return a.Type == b.Type && a.Size == b.Size && slices.Equal(a.NUMA, b.NUMA)
		}):
			r.complain("container %s has memory %+v, predicted %+v", have.Name, have.Memory, want.Memory)
		}
	}
	r.result.add(func(t *tally) { t.leftOut += leftOut })
}

// compareBooks: what the managers wrote down after the Pod.
func (r *predictionRun) compareBooks(predicted answer, books *cluster.Books) {
	if predicted.DefaultCPUs != nil && *predicted.DefaultCPUs != books.DefaultCPUs {
		r.complain("the default CPUs are %s, predicted %s", books.DefaultCPUs, *predicted.DefaultCPUs)
	}
	if predicted.MemoryState != nil && !reflect.DeepEqual(predicted.MemoryState, books.Memory) {
		r.complain("the memory state is %+v, predicted %+v", books.Memory, predicted.MemoryState)
	}
	if predicted.DefaultCPUs == nil || predicted.MemoryState == nil {
		r.result.add(func(t *tally) { t.leftOut++ })
	}
}

// holdings are what the Pod's containers hold: as PodResources says it, and for init containers, which it
// leaves out, as the state files do.
func (r *predictionRun) holdings(pod *core.Pod, books *cluster.Books) ([]holding, error) {
	list, err := r.node.PodResources(r.t.Context())
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(p *podresources.PodResources) bool { return p.Name == pod.Name })
	if at < 0 {
		return nil, fmt.Errorf("%s was admitted, and PodResources does not know it", pod.Name)
	}
	all := fromBooks(pod, books)
	for i := range all {
		own := slices.IndexFunc(list[at].Containers, func(c *podresources.ContainerResources) bool {
			return c.Name == all[i].Name
		})
		if own >= 0 {
			all[i] = fromPodResources(list[at].Containers[own])
		}
	}
	return all, nil
}

func fromPodResources(container *podresources.ContainerResources) holding {
	var cpus []int
	for _, id := range container.CpuIds {
		cpus = append(cpus, int(id))
	}
	have := holding{Name: container.Name, Devices: cluster.DeviceIDs(container), CPUs: cpuset.New(cpus...).String()}
	for _, ids := range have.Devices {
		slices.Sort(ids)
	}
	for _, block := range container.Memory {
		var numas []int
		for _, node := range block.Topology.GetNodes() {
			numas = append(numas, int(node.ID))
		}
		slices.Sort(numas)
		have.Memory = append(have.Memory, cluster.MemoryBlock{Type: block.MemoryType, NUMA: numas, Size: block.Size})
	}
	slices.SortFunc(have.Memory, func(a, b cluster.MemoryBlock) int { return strings.Compare(a.Type, b.Type) })
	return have
}

func fromBooks(pod *core.Pod, books *cluster.Books) []holding {
	var all []holding
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		all = append(all, holding{Name: container.Name, Devices: books.Devices(pod.UID, container.Name),
			CPUs: books.CPUs(pod.UID, container.Name), Memory: books.Blocks(pod.UID, container.Name)})
	}
	return all
}

func isPlainInit(pod *core.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c core.Container) bool {
		return c.Name == container && c.RestartPolicy == nil
	})
}
