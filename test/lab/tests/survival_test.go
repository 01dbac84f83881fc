package tests

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"numafit.io/test/lab/cluster"
)

// Each of these takes something away in the middle of a burst, brings it back, and goes on. What must
// hold is what holds without the accident: no Pod refused by a kubelet, devices of each container
// together, nobody kept out, nothing given away twice (a kubelet refuses that too).

func TestSurvivesTheAPIServerRestarting(t *testing.T) {
	survive(t, func(t *testing.T, lab *cluster.Cluster) {
		lab.StopAPIServer()
		time.Sleep(2 * time.Second) // time for every client to notice: the accident itself, not a wait
		if err := lab.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSurvivesTheSchedulerRestarting(t *testing.T) {
	survive(t, func(t *testing.T, lab *cluster.Cluster) {
		lab.KillScheduler()
		if err := lab.StartScheduler(t.Context(), cluster.SchedulerOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAKilledExtenderRebuildsItsStateFromTheAPIServer(t *testing.T) {
	survive(t, func(t *testing.T, lab *cluster.Cluster) {
		lab.KillExtender()
		if err := lab.StartExtender(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func survive(t *testing.T, accident func(*testing.T, *cluster.Cluster)) {
	lab := startLab(t, cluster.Options{})
	startNumafit(t, lab)
	pods := burst()
	create(t, lab, pods[:20]...)
	eventually(t, 30*time.Second, "the burst to be under way", func() string {
		if running := count(list(t, lab), "running"); running < 3 {
			return "few Pods run"
		}
		return ""
	})
	accident(t, lab)
	before := count(list(t, lab), "running")
	create(t, lab, pods[20:40]...)
	// Room for Pods that come after the accident: what ran before goes away.
	deleteSome(t, lab, 4)
	state := settle(t, lab, 4*time.Minute, 12*time.Second)
	t.Logf("%d ran before the accident was over, %d run at the end, %d wait",
		before, count(state, "running"), count(state, "unschedulable"))
	checkNoneFailed(t, state)
	checkAligned(t, lab)
	checkNoneForgotten(t, lab, state)
	late := 0
	for _, pod := range pods[20:40] {
		if state[pod.Name].Status.Phase == core.PodRunning {
			late++
		}
	}
	if late == 0 {
		t.Error("no Pod that was created after the accident runs")
	}
}
