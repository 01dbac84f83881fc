package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
		deleteAll(t, lab)
	})
	// By count both have room, and on one NUMA node only the first to come.
	t.Run("room is kept for a nominated Pod", func(t *testing.T) {
		create(t, lab, pinned("runs", "high", 3))
		eventually(t, 20*time.Second, "runs to run", func() string { return notRunning(t, lab, "runs") })
		nominee := pinned("nominee", "high", 3)
		nominee.Spec.SchedulingGates = []core.PodSchedulingGate{{Name: "example.com/later"}}
		create(t, lab, nominee)
		pods := lab.Client.CoreV1().Pods("default")
		if _, err := pods.Patch(t.Context(), "nominee", types.MergePatchType,
			[]byte(`{"status":{"nominatedNodeName":"`+node.Name+`"}}`), meta.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		create(t, lab, pinned("small", "low", 2))
		eventually(t, 20*time.Second, "small to be refused", func() string {
			message := scheduledMessage(list(t, lab)["small"])
			if !strings.Contains(message, "numafit: room is kept for a Pod that is nominated to this node") {
				return message
			}
			return ""
		})
		if _, err := pods.Patch(t.Context(), "nominee", types.MergePatchType,
			[]byte(`{"spec":{"schedulingGates":null}}`), meta.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the nominated Pod to run", func() string { return notRunning(t, lab, "nominee") })
		if err := pods.Delete(t.Context(), "nominee", meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, "small to run", func() string { return notRunning(t, lab, "small") })
		checkNoneFailed(t, list(t, lab))
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
