//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"testing"

	"numafit.io/numafit/test/oracle/form"
)

// resized is the Pod of an admission with other resources in its first container.
func resized(admit form.Step, demand string) form.Step {
	p := *admit.Admit
	p.Containers = append([]form.Container{}, p.Containers...)
	p.Containers[0].Resources = limits(demand)
	return form.Step{Resize: &p}
}

func wantResize(t *testing.T, a form.StepAnswer, resize, reason string) {
	t.Helper()
	if a.Resize != resize || a.Reason != reason {
		t.Errorf("want %s %s: %s", resize, reason, form.Line(a))
	}
}

func TestAResizeIsTakenUnlessADeviceIsBroken(t *testing.T) {
	c := host("none", 1, devices("gpu", 2))
	p := pod("p", "cpu=1 memory=1Gi gpu=1")
	broken := form.Step{Devices: map[string][]form.Device{"gpu": {}}}
	a := play(t, c, p, resized(p, "cpu=2 memory=1Gi gpu=1"), resized(p, "cpu=2 memory=1Gi gpu=1"), broken, resized(p, "cpu=3 memory=1Gi gpu=1"))
	wantResize(t, a[1], form.ResizeTaken, "")
	wantResize(t, a[2], form.ResizeNone, form.Unchanged)
	if Minor == "1.37" {
		wantResize(t, a[4], form.ResizeTaken, "")
	} else {
		wantResize(t, a[4], form.ResizeDeferred, "UnexpectedAdmissionError")
	}
}

func TestAResizeOfAGuaranteedPodIsInfeasibleBesideStaticManagers(t *testing.T) {
	c := host("restricted", 1)
	c.NUMA[0].CPUs, c.NUMA[0].ReservedCPUs, c.CPUPolicy = []int{0, 1, 2, 3}, []int{0}, "static"
	p := pod("p", "cpu=1 memory=1Gi")
	a := play(t, c, p, resized(p, "cpu=2 memory=1Gi"), resized(p, "cpu=1 memory=2Gi"), form.Step{Remove: "p"}, resized(p, "cpu=1 memory=1Gi"))
	wantResize(t, a[1], form.ResizeInfeasible, "guaranteed_pod_cpu_manager_static_policy")
	wantResize(t, a[2], form.ResizeTaken, "")
	if a[2].Containers[0].CPUs != "1" {
		t.Errorf("the Pod's CPUs are gone: %s", form.Line(a[2]))
	}
	wantResize(t, a[4], form.ResizeNone, form.Gone)
}

func TestWhatNoAPIServerLetsPassIsAnError(t *testing.T) {
	p := pod("p", "cpu=1 memory=1Gi gpu=1")
	for _, demand := range []string{"cpu=1 memory=1Gi gpu=2", "cpu=1 gpu=1", "cpu=1 memory=1Gi"} {
		c := host("none", 1, devices("gpu", 2))
		c.Steps = []form.Step{p, resized(p, demand)}
		if a := Run(c, nil); a.Error == "" {
			t.Errorf("%s: %s", demand, form.Line(a))
		}
	}
}
