package tests

import (
	"fmt"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
)

// kube-scheduler chooses whom to kill by counting. A machine with two GPUs free on each side then has
// four, and the Pod that wanted them together is refused again: its victims died in vain.
func TestNobodyIsKilledInVain(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	startNumafit(t, lab)
	for name, value := range map[string]int32{"low": 1, "middle": 5, "high": 100} {
		class := &scheduling.PriorityClass{ObjectMeta: meta.ObjectMeta{Name: name}, Value: value}
		if _, err := lab.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	node := lab.Nodes()[0] // 4 GPUs on each of two NUMA nodes, single-numa-node
	pinned := func(name, class string, gpus int) *core.Pod {
		pod := newPod(name, demand{gpus: gpus})
		pod.Spec.PriorityClassName = class
		pod.Spec.NodeSelector = map[string]string{core.LabelHostname: node.Name}
		return pod
	}
	// Each side has one whom kube-scheduler would rather kill and one whom it would rather spare.
	fill := func(t *testing.T, spared string) {
		for i, class := range []string{"low", spared, "low", spared} {
			pod := pinned(fmt.Sprintf("filler-%d", i), class, 2)
			create(t, lab, pod)
			eventually(t, 20*time.Second, pod.Name+" to run", func() string { return notRunning(t, lab, pod.Name) })
		}
	}

	t.Run("further victims are named where they make the difference", func(t *testing.T) {
		fill(t, "middle")
		create(t, lab, pinned("urgent", "high", 4))
		eventually(t, 30*time.Second, "urgent to run", func() string { return notRunning(t, lab, "urgent") })
		pods := list(t, lab)
		checkNoneFailed(t, pods)
		checkAligned(t, lab)
		if left := count(pods, "running"); left != 2 {
			t.Errorf("%d Pods run, expected urgent and the one that need not die: %s", left, stateOf(pods))
		}
		deleteAll(t, lab)
	})
	t.Run("a node where they would die in vain is vetoed", func(t *testing.T) {
		fill(t, "high")
		create(t, lab, pinned("urgent", "high", 4))
		eventually(t, 20*time.Second, "a veto", func() string {
			metrics, err := lab.ExtenderMetrics(t.Context())
			if err != nil {
				return err.Error()
			}
			if metrics[`numafit_preemption_nodes_total{result="vetoed"}`] == 0 {
				return "nothing was vetoed"
			}
			return ""
		})
		time.Sleep(3 * time.Second) // the time in which somebody would be killed
		for i := range 4 {
			if message := notRunning(t, lab, fmt.Sprintf("filler-%d", i)); message != "" {
				t.Error(message)
			}
		}
	})
}

// notRunning is empty when the Pod runs and nobody has asked it to end.
func notRunning(t *testing.T, lab *cluster.Cluster, name string) string {
	t.Helper()
	pod := list(t, lab)[name]
	switch {
	case pod == nil:
		return name + " does not exist"
	case pod.DeletionTimestamp != nil:
		return name + " is being deleted"
	case pod.Status.Phase != core.PodRunning:
		return fmt.Sprintf("%s is %s: %s", name, pod.Status.Phase, scheduledMessage(pod))
	}
	return ""
}
