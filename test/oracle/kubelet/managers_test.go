//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"slices"
	"strings"
	"testing"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
)

// static is a host with static managers: so many CPUs and 8Gi on each NUMA
// node, CPU 0 and 1Gi of NUMA node 0 reserved.
func static(policy string, perNode ...int) *form.Case {
	c := &form.Case{TopologyPolicy: policy, CPUPolicy: "static", MemoryPolicy: "Static"}
	next := 0
	for id, k := range perNode {
		n := form.NUMANode{ID: id, Socket: id, Memory: 8 << 30}
		for range k {
			n.CPUs = append(n.CPUs, next)
			next++
		}
		c.NUMA = append(c.NUMA, n)
	}
	c.NUMA[0].ReservedCPUs = []int{0}
	c.ReservedMemory = []form.ReservedMemory{{NUMA: 0, Limits: map[string]string{"memory": "1Gi"}}}
	return c
}

func wantState(t *testing.T, a form.StepAnswer, cpus string, assignments ...int) {
	t.Helper()
	if a.DefaultCPUs == nil || *a.DefaultCPUs != cpus {
		t.Errorf("want default CPUs %s: %s", cpus, form.Line(a))
	}
	var got []int
	for _, n := range a.MemoryState {
		got = append(got, n.Assignments)
	}
	if !slices.Equal(got, assignments) {
		t.Errorf("want %v blocks: %s", assignments, form.Line(a))
	}
}

func TestBooksFollowWhatHappens(t *testing.T) {
	a := play(t, static("single-numa-node", 4, 4),
		pod("p", "init: cpu=1 memory=1Gi", "cpu=1 memory=2Gi"), form.Step{Start: "p"}, pod("q", "cpu=4 memory=8Gi", "cpu=9 memory=1Gi"),
		form.Step{Remove: "p"}, pod("r", "cpu=1 memory=1Gi"))
	wantState(t, a[0], "0,2-7", 2, 0) // the CPU is used again
	wantState(t, a[1], "0,2-7", 1, 0) // the init container has ended
	wantRefused(t, a[2], "TopologyAffinityError")
	wantState(t, a[2], "0,2-3", 1, 1) // not tidied
	if len(a[2].Left) != 1 || a[2].Left[0].CPUs != "4-7" || a[2].Left[0].Memory[0].Size != 8<<30 {
		t.Errorf("the refused Pod's first container has left: %s", form.Line(a[2].Left))
	}
	wantState(t, a[4], "0,2-7", 1, 0)
}

func TestARestartKeepsWhatRuns(t *testing.T) {
	c := static("single-numa-node", 4, 4)
	c.Devices = devices("gpu", 1, 1)
	list := form.Step{Devices: c.Devices}
	a := play(t, c, pod("p", "cpu=2 memory=2Gi gpu=1"), form.Step{Start: "p"}, form.Step{Restart: true},
		pod("early", "cpu=1 memory=1Gi gpu=1"), list, pod("late", "cpu=1 memory=1Gi gpu=1"), form.Step{Remove: "p"}, pod("q", "cpu=1 memory=1Gi gpu=1"))
	if !*a[2].Restarted || len(a[2].Readmitted) != 1 {
		t.Fatalf("want a restart with one Pod: %s", form.Line(a[2]))
	}
	wantAdmitted(t, a[2].Readmitted[0], a[0].Containers[0].Affinity...)
	wantState(t, a[2], *a[0].DefaultCPUs, 1, 0)
	wantRefused(t, a[3], "UnexpectedAdmissionError") // no plugin has come back
	wantAdmitted(t, a[5], 1)                         // p has the other one
	wantAdmitted(t, a[7], 0)
}

func TestARestartRefusesWhatDoesNotRun(t *testing.T) {
	c := host("none", 1, devices("gpu", 2))
	a := play(t, c, pod("waiting", "gpu=1"), pod("running", "init: gpu=1", "gpu=1"), form.Step{Start: "running"}, form.Step{Restart: true},
		form.Step{Devices: c.Devices}, pod("p", "gpu=2"))
	again := a[3].Readmitted
	wantRefused(t, again[0], "UnexpectedAdmissionError")
	wantRefused(t, again[1], "UnexpectedAdmissionError") // its init container has ended
	wantAdmitted(t, a[5])
}

func TestARunningPodIsRefusedForTheCoresThatItHas(t *testing.T) {
	c := static("none", 8)
	c.MemoryPolicy, c.ReservedMemory = "", nil
	c.NUMA[0].ThreadsPerCore, c.NUMA[0].ReservedCPUs = 2, []int{0, 1}
	c.CPUOptions = map[string]string{"full-pcpus-only": "true"}
	a := play(t, c, pod("p", "cpu=4 memory=1Gi"), form.Step{Start: "p"}, form.Step{Restart: true})
	if Minor == "1.37" { // looks at what the container has before it counts cores
		wantAdmitted(t, a[2].Readmitted[0])
	} else {
		wantRefused(t, a[2].Readmitted[0], "SMTAlignmentError")
	}
}

func TestAPageSizeThatTheMachineLacksEndsTheKubelet(t *testing.T) {
	a := play(t, static("best-effort", 4, 4), pod("p", "cpu=1 memory=1Gi hugepages-2Mi=2Mi"), pod("q", "cpu=1 memory=1Gi"))
	wantRefused(t, a[0], form.Panic)
	if len(a) != 1 {
		t.Errorf("%d answers from a kubelet that is gone", len(a))
	}
}

func TestGatesBelongToTheCase(t *testing.T) {
	c := static("best-effort", 4, 4)
	c.CPUOptions = map[string]string{"align-by-socket": "true"}
	for range 2 {
		c.FeatureGates = nil
		if a := Run(c, nil); !strings.Contains(a.Error, "align-by-socket") {
			t.Errorf("an alpha option is taken: %s", form.Line(a))
		}
		c.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true}
		if a := Run(c, nil); a.Error != "" {
			t.Error(a.Error)
		}
	}
	c.FeatureGates["NoSuchGate"] = true
	if a := Run(c, nil); !strings.Contains(a.Error, "NoSuchGate") {
		t.Errorf("an unknown gate is taken: %s", form.Line(a))
	}
	if Minor == "1.34" || Minor == "1.35" {
		return
	}
	p := pod("p", "cpu=2 memory=1Gi", "")
	p.Admit.Resources = &form.Resources{Limits: map[string]string{"cpu": "3", "memory": "2Gi"}}
	c.CPUOptions, c.Scope = nil, "pod"
	for _, on := range []bool{true, false, true} {
		c.FeatureGates = map[string]bool{"PodLevelResourceManagers": on}
		if got := play(t, c, p)[0].Containers[1].CPUs; (got != "") != on {
			t.Errorf("PodLevelResourceManagers %v: CPUs %q", on, got)
		}
	}
}

func TestObservedBooksReplaceTheOwn(t *testing.T) {
	c := static("single-numa-node", 4, 4)
	first := pod("p", "cpu=2 memory=2Gi")
	yes, cpus := true, "0-5"
	first.Observed = &form.StepAnswer{
		Admitted: &yes,
		Containers: []form.ContainerAnswer{{Name: "c0", CPUs: "6-7", Memory: []form.MemoryBlock{
			{Type: "memory", NUMA: []int{1}, Size: 2 << 30},
		}}},
		DefaultCPUs: &cpus,
		MemoryState: []form.NUMAState{{NUMA: 0, Cells: []int{0}, Free: map[string]uint64{"memory": 7 << 30}},
			{NUMA: 1, Assignments: 1, Cells: []int{1}, Free: map[string]uint64{"memory": 6 << 30}}},
	}
	a := play(t, c, first, pod("q", "cpu=3 memory=7Gi"), form.Step{Remove: "p"}, pod("r", "cpu=4 memory=8Gi"))
	wantAdmitted(t, a[0], 0)
	wantAdmitted(t, a[1], 0)
	wantState(t, a[1], "0,4-5", 1, 1)
	wantAdmitted(t, a[3], 1)
}

// Whatever the pick and the order of releases: going on from what was observed
// gives the same answers.
func TestObservedManagersAreConsistent(t *testing.T) {
	differ := 0
	for i := range uint64(600) {
		c := generate.Case(generate.All, Minor, 8, i)
		c.PreferredAllocation = map[string][]string{}
		for resource := range c.Devices {
			c.PreferredAllocation[resource] = nil
		}
		first := Run(c, nil)
		again := Run(c.WithObserved(first.Steps), nil)
		if len(first.Steps) != len(again.Steps) {
			t.Fatalf("case %d: %d then %d answers", i, len(first.Steps), len(again.Steps))
		}
		for k := range first.Steps {
			x, y := withoutDevices(first.Steps[k]), withoutDevices(again.Steps[k])
			if !slices.Equal(x, y) {
				if differ++; differ > 6 {
					t.Fatalf("case %d step %d: %s then %s of\n%s", i, k, x, y, form.Line(c))
				}
				break
			}
		}
	}
}

// withoutDevices: ids of what an init container has left vary.
func withoutDevices(a form.StepAnswer) []byte {
	a.Containers = slices.Clone(a.Containers)
	for i := range a.Containers {
		a.Containers[i].Devices = nil
	}
	return form.Line(a)
}

func BenchmarkRunManagers(b *testing.B) {
	for i := range b.N {
		Run(generate.Case(generate.All, Minor, 11, uint64(i)), nil)
	}
}
