package tests

import (
	"fmt"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"numafit.io/test/lab/cluster"
)

// With a topology Kueue itself says on which node each Pod goes. This release counts the endpoints that a
// node has, but not those that its other Workloads have taken: it sends a second one to the node that the
// first has filled, while the other node is empty.
func TestKueueTopologyPinsPods(t *testing.T) {
	k := startKueueLab(t, cluster.Options{}, gpusOnly)
	k.create(t, "topologies", cluster.NewTopology("hosts", core.LabelHostname))
	k.create(t, "resourceflavors", cluster.NewResourceFlavor("hosts", "hosts"))
	k.create(t, "clusterqueues", cluster.NewClusterQueue("tas", "hosts", map[string]string{gpu: "16"}))
	k.create(t, "localqueues", cluster.NewLocalQueue("default", "tas", "tas"))
	k.awaitQueue(t, "tas")

	t.Run("over both nodes", func(t *testing.T) {
		job := k.createJob(t, cluster.NewQueuedJob("spread", "tas", 6, kueuePod("", demand{gpus: 1, rdmas: 1})))
		workload := k.awaitOwned(t, job.UID, "admitted", has("Admitted=True"))
		pods := k.awaitPods(t, "spread-", map[string]int{"running": 6})
		checkLinks(t, workload, "main", pods...)
		onNode := map[string]int{}
		for _, pod := range pods {
			onNode[pod.Spec.NodeName]++
			if pinned := pod.Spec.NodeSelector[core.LabelHostname]; pinned != pod.Spec.NodeName {
				t.Errorf("Pod %s is pinned to %q and on %q", pod.Name, pinned, pod.Spec.NodeName)
			}
		}
		// The two encodings of one assignment.
		if now := expandAssignment(t, workload); fmt.Sprint(now) != fmt.Sprint(onNode) {
			t.Errorf("v1beta2 says %v, the Pods are on %v", now, onNode)
		}
		if before := domains(t, k.inV1beta1(t, workload.GetName())); fmt.Sprint(before) != fmt.Sprint(onNode) {
			t.Errorf("v1beta1 says %v, the Pods are on %v", before, onNode)
		}
		k.record(t, "tas-spread", "Six Pods of one Workload that Kueue has placed on two nodes.", "spread")
		k.clear(t)
	})

	t.Run("pinned to a full node while another has room", func(t *testing.T) {
		first := k.createJob(t, cluster.NewQueuedJob("pinned-1", "tas", 2, kueuePod("", demand{gpus: 1, rdmas: 2})))
		k.awaitOwned(t, first.UID, "admitted", has("Admitted=True"))
		full := k.awaitPods(t, "pinned-1-", map[string]int{"running": 2})[0].Spec.NodeName
		second := k.createJob(t, cluster.NewQueuedJob("pinned-2", "tas", 1, kueuePod("", demand{gpus: 1, rdmas: 2})))
		workload := k.awaitOwned(t, second.UID, "admitted", has("Admitted=True"))
		waiting := k.awaitPods(t, "pinned-2-", map[string]int{"unschedulable": 1})[0]
		if pinned := waiting.Spec.NodeSelector[core.LabelHostname]; pinned != full {
			t.Errorf("the Pod is pinned to %q, expected the full node %s", pinned, full)
		}
		if assigned := expandAssignment(t, workload); assigned[full] != 1 {
			t.Errorf("the Workload is assigned to %v, expected %s", assigned, full)
		}
		if free := k.freeDevices(t); free[rdma] != 4 {
			t.Errorf("%d endpoints are free, expected the other node's four", free[rdma])
		}
		t.Logf("the scheduler says: %s", scheduledMessage(waiting))
		k.record(t, "tas-pinned-full", "Kueue has placed a Workload on a node whose endpoints another Workload has;"+
			" the other node is empty.", "pinned")
		k.clear(t)
	})
}

// expandAssignment reads v1beta2's compressed topologyAssignment of the podset main: Pods by node.
func expandAssignment(t *testing.T, workload *unstructured.Unstructured) map[string]int {
	t.Helper()
	assignment, _ := assignmentOf(workload, "main")["topologyAssignment"].(map[string]any)
	if levels, _, _ := unstructured.NestedStringSlice(assignment, "levels"); !slices.Equal(levels, []string{core.LabelHostname}) {
		t.Fatalf("the assignment's levels are %v", levels)
	}
	slicesOf, _, _ := unstructured.NestedSlice(assignment, "slices")
	pods := map[string]int{}
	for _, one := range slicesOf {
		slice := one.(map[string]any)
		values := slice["valuesPerLevel"].([]any)[0].(map[string]any)
		counts := slice["podCounts"].(map[string]any)
		for i := range int(slice["domainCount"].(int64)) {
			value, isUniversal := values["universal"].(string)
			if !isUniversal {
				individual := values["individual"].(map[string]any)
				prefix, _ := individual["prefix"].(string)
				suffix, _ := individual["suffix"].(string)
				value = prefix + individual["roots"].([]any)[i].(string) + suffix
			}
			count, isUniversal := counts["universal"].(int64)
			if !isUniversal {
				count = counts["individual"].([]any)[i].(int64)
			}
			pods[value] += int(count)
		}
	}
	return pods
}

// domains reads v1beta1's topologyAssignment of the podset main: Pods by node.
func domains(t *testing.T, workload *unstructured.Unstructured) map[string]int {
	t.Helper()
	assignment, _ := assignmentOf(workload, "main")["topologyAssignment"].(map[string]any)
	list, _, _ := unstructured.NestedSlice(assignment, "domains")
	pods := map[string]int{}
	for _, one := range list {
		domain := one.(map[string]any)
		pods[domain["values"].([]any)[0].(string)] += int(domain["count"].(int64))
	}
	return pods
}

// inV1beta1 reads a Workload in the older version, which Kueue's webhook converts to.
func (k *kueueLab) inV1beta1(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	old := workloadKind
	old.Version = "v1beta1"
	workload, err := k.kind(old, "default").Get(t.Context(), name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return workload
}
