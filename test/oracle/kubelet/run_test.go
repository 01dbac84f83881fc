//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
)

// What the real kubelets were seen to do, by hand or in a cluster. If one of
// these fails the wiring of the managers is wrong, not the kubelet.

func devices(r string, perNode ...int) map[string][]form.Device {
	var list []form.Device
	for numa, n := range perNode {
		for range n {
			list = append(list, form.Device{ID: r[:1] + strconv.Itoa(len(list)), NUMA: []int{numa}})
		}
	}
	return map[string][]form.Device{r: list}
}

func host(policy string, nodes int, pools ...map[string][]form.Device) *form.Case {
	c := &form.Case{TopologyPolicy: policy, Devices: map[string][]form.Device{}}
	for i := range nodes {
		c.NUMA = append(c.NUMA, form.NUMANode{ID: i})
	}
	for _, p := range pools {
		for r, list := range p {
			c.Devices[r] = list
		}
	}
	return c
}

// limits reads "gpu=8 nic=1".
func limits(s string) form.Resources {
	out := map[string]string{}
	for _, word := range strings.Fields(s) {
		r, n, _ := strings.Cut(word, "=")
		out[r] = n
	}
	return form.Resources{Limits: out}
}

func pod(name string, containers ...string) form.Step {
	p := &form.Pod{Name: name}
	for i, l := range containers {
		c := form.Container{Name: "c" + strconv.Itoa(i)}
		kind, demand, found := strings.Cut(l, ": ")
		switch {
		case found && kind == "init":
			c.Resources = limits(demand)
			p.InitContainers = append(p.InitContainers, c)
		case found && kind == "sidecar":
			c.Resources, c.RestartPolicy = limits(demand), "Always"
			p.InitContainers = append(p.InitContainers, c)
		default:
			c.Resources = limits(l)
			p.Containers = append(p.Containers, c)
		}
	}
	return form.Step{Admit: p}
}

func play(t *testing.T, c *form.Case, steps ...form.Step) []form.StepAnswer {
	t.Helper()
	c.Steps = steps
	a := Run(c, nil)
	if a.Error != "" {
		t.Fatalf("%s\n%s", a.Error, form.Line(c))
	}
	return a.Steps
}

func wantRefused(t *testing.T, a form.StepAnswer, reason string) {
	t.Helper()
	if a.IsAdmitted() || a.Reason != reason {
		t.Errorf("%s: admitted %v, reason %q, want %s", a.Pod, a.IsAdmitted(), a.Reason, reason)
	}
}

func wantAdmitted(t *testing.T, a form.StepAnswer, affinity ...int) {
	t.Helper()
	if !a.IsAdmitted() || !slices.Equal(a.Containers[0].Affinity, affinity) {
		t.Errorf("want admitted with %v: %s", affinity, form.Line(a))
	}
}

func TestAnEndpointOnOneSideCannotJoinAllAccelerators(t *testing.T) {
	shape := func(policy string) *form.Case { return host(policy, 2, devices("gpu", 4, 4), devices("nic", 1, 0)) }
	wantRefused(t, play(t, shape("restricted"), pod("p", "gpu=8 nic=1"))[0], "TopologyAffinityError")
	wantRefused(t, play(t, shape("single-numa-node"), pod("p", "gpu=8 nic=1"))[0], "TopologyAffinityError")
	mask := []int{0}
	if Minor == "1.34" || Minor == "1.35" {
		mask = []int{0, 1} // hints over every NUMA node of the machine
	}
	wantAdmitted(t, play(t, shape("best-effort"), pod("p", "gpu=8 nic=1"))[0], mask...)
}

func TestEqualWidthsJoin(t *testing.T) {
	shape := func(policy string) *form.Case { return host(policy, 2, devices("gpu", 4, 4), devices("nic", 4, 4)) }
	wantAdmitted(t, play(t, shape("restricted"), pod("p", "gpu=8 nic=8"))[0], 0, 1)
	wantRefused(t, play(t, shape("single-numa-node"), pod("p", "gpu=8 nic=8"))[0], "TopologyAffinityError")
}

func TestRoomOfARemovedPodIsUsedAgain(t *testing.T) {
	c := host("single-numa-node", 2, devices("gpu", 4, 2), devices("nic", 0, 1))
	a := play(t, c, pod("holder", "gpu=4"), pod("half", "gpu=1"), pod("p", "gpu=2 nic=1"), form.Step{Remove: "half"}, pod("q", "gpu=2 nic=1"))
	wantAdmitted(t, a[0], 0)
	wantAdmitted(t, a[1], 1)
	wantRefused(t, a[2], "TopologyAffinityError")
	wantAdmitted(t, a[4], 1)
}

func TestAZeroLimitNarrowsFrom136(t *testing.T) {
	c := host("single-numa-node", 2, devices("gpu", 1, 0), devices("nic", 0, 1))
	a := play(t, c, pod("p", "gpu=0 nic=1"))[0]
	if Minor == "1.34" || Minor == "1.35" {
		wantAdmitted(t, a, 1)
	} else {
		wantRefused(t, a, "TopologyAffinityError")
	}
}

func TestDevicesWithoutTopologyFollow(t *testing.T) {
	c := host("single-numa-node", 2, devices("gpu", 1, 1))
	c.Devices["fpga"] = []form.Device{{ID: "f0"}}
	wantAdmitted(t, play(t, c, pod("p", "fpga=1 gpu=1"))[0], 0)
	c = host("single-numa-node", 2, devices("gpu", 1, 0))
	c.Devices["gpu"] = append(c.Devices["gpu"], form.Device{ID: "floating"})
	wantRefused(t, play(t, c, pod("p", "gpu=2"))[0], "TopologyAffinityError")
}

func TestInitContainers(t *testing.T) {
	c := host("none", 2, devices("gpu", 4, 0))
	a := play(t, c, pod("p", "init: gpu=3", "gpu=1"), form.Step{Start: "p"}, pod("q", "gpu=1"), pod("r", "gpu=1"))
	wantAdmitted(t, a[0])
	wantAdmitted(t, a[2])
	wantRefused(t, a[3], "UnexpectedAdmissionError") // the surplus stays taken
	c = host("none", 2, devices("gpu", 4, 0))
	a = play(t, c, pod("p", "sidecar: gpu=3", "gpu=2"))
	wantRefused(t, a[0], "UnexpectedAdmissionError") // a sidecar's devices are not used again
}

func TestStaticManagersJoin(t *testing.T) {
	c := host("single-numa-node", 2, devices("gpu", 0, 1))
	c.CPUPolicy, c.MemoryPolicy = "static", "Static"
	c.ReservedMemory = []form.ReservedMemory{{NUMA: 0, Limits: map[string]string{"memory": "1Gi"}}}
	for i := range c.NUMA {
		c.NUMA[i].CPUs = []int{4 * i, 4*i + 1, 4*i + 2, 4*i + 3}
		c.NUMA[i].Memory = 16 << 30
	}
	c.NUMA[0].ReservedCPUs = []int{0}
	a := play(t, c, pod("p", "cpu=2 memory=1Gi gpu=1"))[0]
	wantAdmitted(t, a, 1)
	if got := a.Containers[0]; got.CPUs != "4-5" || len(got.Memory) != 1 || !slices.Equal(got.Memory[0].NUMA, []int{1}) {
		t.Errorf("CPUs and memory are not with the device: %s", form.Line(a))
	}
	c.CPUOptions = map[string]string{"full-pcpus-only": "true"}
	c.NUMA[0].ThreadsPerCore, c.NUMA[1].ThreadsPerCore = 2, 2
	c.NUMA[0].ReservedCPUs = []int{0, 1}
	wantRefused(t, play(t, c, pod("p", "cpu=3 memory=1Gi"))[0], "SMTAlignmentError")
}

func TestAKubeletThatDoesNotStart(t *testing.T) {
	if a := Run(host("restricted", 9), nil); a.Error == "" {
		t.Error("nine NUMA nodes are accepted")
	}
	c := host("restricted", 2)
	c.Options = map[string]string{"prefer-closest-numa-nodes": "true"}
	if a := Run(c, nil); a.Error == "" {
		t.Error("a machine without distances is accepted")
	}
}

// The next verdict follows from what was observed, not from what happened.
func TestObservedReplacesWhatHappened(t *testing.T) {
	c := host("single-numa-node", 2, devices("gpu", 2, 2))
	first := pod("p", "gpu=2")
	yes := true
	first.Observed = &form.StepAnswer{Admitted: &yes, Containers: []form.ContainerAnswer{{Name: "c0", Devices: map[string][]string{"gpu": {"g1", "g2"}}}}}
	second := pod("q", "gpu=2")
	no := false
	third := pod("r", "gpu=1")
	second.Observed = &form.StepAnswer{Admitted: &no}
	a := play(t, c, first, second, third)
	wantAdmitted(t, a[0], 0)
	wantRefused(t, a[1], "TopologyAffinityError")
	wantAdmitted(t, a[2], 0)
	if got := a[2].Containers[0].Devices["gpu"]; !slices.Equal(got, []string{"g0"}) {
		t.Errorf("got %v, g0 is the only one free on NUMA 0", got)
	}
}

// Whatever the pick: going on from what was observed gives the same answers.
func TestObservedIsConsistent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range uint64(300) {
		c := generate.Case(generate.Devices, Minor, 7, i)
		for resource := range c.Devices { // picks are fixed by the plugins
			if _, has := c.PreferredAllocation[resource]; !has {
				if c.PreferredAllocation == nil {
					c.PreferredAllocation = map[string][]string{}
				}
				c.PreferredAllocation[resource] = nil
			}
		}
		first := Run(c, nil)
		again := Run(c.WithObserved(first.Steps), r)
		for k := range first.Steps {
			x, y := first.Steps[k], again.Steps[k]
			if x.IsAdmitted() != y.IsAdmitted() || x.Reason != y.Reason {
				t.Fatalf("case %d step %d: %s then %s of\n%s", i, k, form.Line(x), form.Line(y), form.Line(c))
			}
		}
	}
}

func TestARandomPickSplitsALaterVerdict(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	verdicts := map[bool]int{}
	for range 200 {
		c := host("restricted", 2, devices("gpu", 2, 2), devices("nic", 1, 0))
		c.Steps = []form.Step{pod("p", "gpu=3"), pod("q", "gpu=1 nic=1")}
		a := Run(c, r)
		verdicts[a.Steps[1].IsAdmitted()]++
	}
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Errorf("one verdict only: %v", verdicts)
	}
}

func BenchmarkRun(b *testing.B) {
	for i := range b.N {
		a := Run(generate.Case(generate.Devices, Minor, 11, uint64(i)), nil)
		if _, err := json.Marshal(a); err != nil {
			b.Fatal(err)
		}
	}
}
