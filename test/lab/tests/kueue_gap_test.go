package tests

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/judge"
)

// Kueue's quota counts GPUs, the endpoints run out first: a Workload is Admitted, its Pod waits for ever,
// and nothing in Kueue's own view says so.
func TestKueueAdmitsBeyondTheEndpoints(t *testing.T) {
	k := startKueueLab(t, cluster.Options{}, gpusOnly)
	k.queue(t, "gap", "16")

	t.Run("admitted but no endpoint is left", func(t *testing.T) {
		for i := 1; i <= 8; i++ {
			k.createJob(t, cluster.NewQueuedJob(fmt.Sprintf("gap-%d", i), "gap", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
		}
		k.awaitPods(t, "gap-", map[string]int{"running": 8})
		last := k.createJob(t, cluster.NewQueuedJob("gap-last", "gap", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
		workload := k.awaitOwned(t, last.UID, "admitted", has("QuotaReserved=True", "Admitted=True"))
		usage := fmt.Sprint(assignmentOf(workload, "main")["resourceUsage"])
		if usage != fmt.Sprint(map[string]any{gpu: "1"}) {
			t.Errorf("the assignment uses %s, expected one GPU and nothing else", usage)
		}
		pods := k.awaitPods(t, "gap-last", map[string]int{"unschedulable": 1})
		if message := scheduledMessage(pods[0]); !strings.Contains(message, "0/2 nodes are available: 2 Insufficient "+rdma) {
			t.Errorf("the scheduler says: %s", message)
		}
		checkLinks(t, workload, "main", pods...)
		checkJobLinks(t, workload, last.Name, string(last.UID), pods[0])
		if free := k.freeDevices(t); free[gpu] != 8 || free[rdma] != 0 {
			t.Errorf("free are %v, expected 8 GPUs and no endpoint", free)
		}
		k.record(t, "job-unschedulable", "The last of nine Jobs that each want a GPU and an endpoint: quota"+
			" counts GPUs (16), eight endpoints are taken. Admitted, its Pod Unschedulable.", "gap-last")

		k.deleteJob(t, "gap-1")
		k.awaitPods(t, "gap-last", map[string]int{"running": 1})
		k.record(t, "job-running", "The same Job after another has gone: its Pod runs.", "gap-last")
	})

	t.Run("waiting for quota has no Pods", func(t *testing.T) {
		k.clear(t)
		k.queue(t, "narrow", "1")
		k.createJob(t, cluster.NewQueuedJob("narrow-1", "narrow", 1, kueuePod("", demand{gpus: 1})))
		k.awaitPods(t, "narrow-1", map[string]int{"running": 1})
		second := k.createJob(t, cluster.NewQueuedJob("narrow-2", "narrow", 1, kueuePod("", demand{gpus: 1})))
		k.awaitOwned(t, second.UID, "waiting for quota", has("QuotaReserved=False/Pending", "Admitted!=True"))
		if pods := k.podsOf(t, "narrow-2"); len(pods) > 0 {
			t.Errorf("a Job that is not admitted has the Pod %s", pods[0].Name)
		}
		if suspended := k.job(t, "narrow-2").Spec.Suspend; suspended == nil || !*suspended {
			t.Error("the Job is not suspended")
		}
		k.record(t, "job-waiting-for-quota", "A Job behind another that has all the quota: no Pods.", "narrow-2")
	})

	t.Run("finished", func(t *testing.T) {
		k.clear(t)
		pod := kueuePod("", demand{gpus: 1, rdmas: 1})
		pod.Annotations = map[string]string{"lab.numafit.io/run-seconds": "1"}
		job := k.createJob(t, cluster.NewQueuedJob("done", "gap", 1, pod))
		k.awaitOwned(t, job.UID, "finished", has("Finished=True/Succeeded"))
		k.record(t, "job-finished", "A Job whose Pod has completed.", "done")
	})

	t.Run("a resource that no quota covers is inadmissible", func(t *testing.T) {
		k.clear(t)
		k.startKueue(t, cluster.KueueOptions{})
		job := k.createJob(t, cluster.NewQueuedJob("uncovered", "gap", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
		k.awaitOwned(t, job.UID, "inadmissible", func(workload *unstructured.Unstructured) string {
			condition := cluster.ConditionOf(workload, "QuotaReserved")
			message, _ := condition["message"].(string)
			if condition["status"] != "False" || !strings.Contains(message, "resource "+rdma+" unavailable in ClusterQueue") {
				return "not refused for the endpoint"
			}
			return ""
		})
		k.record(t, "job-uncovered-resource", "Kueue without excludeResourcePrefixes: the endpoint is in no"+
			" coveredResources, so the Workload is not admitted.", "uncovered")
	})
}

// checkJobLinks fails where what Kueue writes on a Job's Workload and Pod is not what workloads/ relies on.
func checkJobLinks(t *testing.T, workload *unstructured.Unstructured, job, uid string, pod *core.Pod) {
	t.Helper()
	owners := workload.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "Job" || string(owners[0].UID) != uid ||
		owners[0].Controller == nil || !*owners[0].Controller {
		t.Errorf("the Workload is owned by %+v, expected the Job as its controller", owners)
	}
	if label := workload.GetLabels()[cluster.KueueJobUIDLabel]; label != uid {
		t.Errorf("the Workload's label %s is %q", cluster.KueueJobUIDLabel, label)
	}
	if !strings.HasPrefix(workload.GetName(), "job-"+job+"-") {
		t.Errorf("the Workload is called %s", workload.GetName())
	}
	if len(pod.OwnerReferences) != 1 || string(pod.OwnerReferences[0].UID) != uid {
		t.Errorf("the Pod is owned by %+v", pod.OwnerReferences)
	}
	for label, want := range map[string]string{
		cluster.KueueLocalQueueLabel:   fmt.Sprint(workload.Object["spec"].(map[string]any)["queueName"]),
		cluster.KueueClusterQueueLabel: fmt.Sprint(workload.Object["status"].(map[string]any)["admission"].(map[string]any)["clusterQueue"]),
	} {
		if got := pod.Labels[label]; got != want {
			t.Errorf("the Pod's label %s is %q, expected %q", label, got, want)
		}
	}
}

// freeDevices is how many devices no container holds, by resource, as the kubelets say.
func (k *kueueLab) freeDevices(t *testing.T) map[string]int {
	t.Helper()
	free := map[string]int{}
	for _, node := range k.Nodes() {
		for resource, byNUMA := range judge.FreeDevices(node.Node, holdingsOf(t, node)) {
			for _, count := range byNUMA {
				free[resource] += count
			}
		}
	}
	return free
}
