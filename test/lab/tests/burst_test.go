package tests

import (
	"fmt"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"numafit.io/test/lab/cluster"
)

// burst is 60 Pods of mixed shapes, more than the lab has room for. The order is fixed: odd sizes come
// first and break NUMA nodes, larger ones come later and by count alone still seem to fit.
func burst() []*core.Pod {
	shapes := [][]demand{
		{{3, 3}}, {{1, 1}}, {{2, 0}}, {{2, 2}}, {{1, 0}}, {{0, 1}}, {{4, 4}}, {{1, 1}, {1, 1}},
		{{3, 0}}, {{2, 2}}, {{0, 2}}, {{8, 8}}, {{2, 1}}, {{1, 2}}, {{4, 0}}, {{1, 1}},
		{{2, 2}, {1, 1}}, {{0, 3}}, {{6, 6}}, {{1, 1}},
	}
	var pods []*core.Pod
	for i := range 60 {
		pods = append(pods, newPod(fmt.Sprintf("burst-%02d", i), shapes[i%len(shapes)]...))
	}
	return pods
}

func TestBurstWithoutNumafitIsRefusedByKubelets(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	if err := lab.StartScheduler(t.Context(), cluster.SchedulerOptions{WithoutNumafit: true}); err != nil {
		t.Fatal(err)
	}
	create(t, lab, burst()...)
	pods := settle(t, lab, 90*time.Second, 3*time.Second)
	refused := count(pods, "failed/TopologyAffinityError")
	t.Logf("%d running, %d refused by kubelets, %d waiting",
		count(pods, "running"), refused, count(pods, "unschedulable"))
	if refused == 0 {
		t.Error("no Pod was refused: this burst does not show what numafit is for")
	}
}

func TestBurstWithNumafitIsNeverRefusedAndRunsWhatCanRun(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	startNumafit(t, lab)
	create(t, lab, burst()...)
	pods := settle(t, lab, 4*time.Minute, 12*time.Second)
	t.Logf("%d running, %d waiting", count(pods, "running"), count(pods, "unschedulable"))
	checkNoneFailed(t, pods)
	checkAligned(t, lab)
	checkNoneKeptOut(t, lab, pods)
	if count(pods, "running") == 0 {
		t.Error("no Pod runs")
	}
}

func startNumafit(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	if err := lab.StartExtender(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lab.StartScheduler(t.Context(), cluster.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkNoneFailed fails for every Pod that a kubelet refused. (A Pod that is deleted while it runs may
// end as Failed too, without a reason.)
func checkNoneFailed(t *testing.T, pods map[string]*core.Pod) {
	t.Helper()
	for name, pod := range pods {
		if pod.Status.Phase == core.PodFailed && pod.Status.Reason != "" {
			t.Errorf("%s on %s failed: %s: %s", name, pod.Spec.NodeName, pod.Status.Reason, pod.Status.Message)
		}
	}
}
