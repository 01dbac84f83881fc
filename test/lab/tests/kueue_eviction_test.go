package tests

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"numafit.io/test/lab/cluster"
)

// With waitForPodsReady a Workload that cannot be placed is not stuck for ever: it goes round. Each round is
// an admission of its own, and none of them is a solution.
func TestKueueEvictsWhatDoesNotRun(t *testing.T) {
	options := gpusOnly
	options.WaitForPodsReady = &cluster.KueueWaitForPodsReady{
		Timeout: 4 * time.Second, Backoff: 2 * time.Second, BackoffLimit: 1,
	}
	k := startKueueLab(t, cluster.Options{}, options)
	k.queue(t, "round", "16")
	seen := k.follow(t)
	// All endpoints are taken by Pods that Kueue knows nothing of.
	for _, name := range []string{"blocker-1", "blocker-2", "blocker-3", "blocker-4"} {
		create(t, k.Cluster, kueuePod(name, demand{rdmas: 2}))
	}
	k.awaitPods(t, "blocker-", map[string]int{"running": 4})

	job := k.createJob(t, cluster.NewQueuedJob("stuck", "round", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
	workload := k.awaitOwned(t, job.UID, "waiting for its Pod", has("Admitted=True", "PodsReady=False/WaitForStart"))
	name := workload.GetName()
	k.awaitPods(t, "stuck-", map[string]int{"unschedulable": 1})
	k.record(t, "ready-waiting", "waitForPodsReady: admitted, its Pod Unschedulable.", "stuck")

	evicting := seen.await(t, name, "Evicted=True/PodsReadyTimeout", "Admitted=True")
	k.recordState(t, "ready-evicting", "waitForPodsReady: evicted, while its Job still stops.", evicting)

	evicted := seen.await(t, name, "Evicted=True/PodsReadyTimeout", "QuotaReserved=False", "Requeued=False")
	if at, _, _ := unstructured.NestedString(evicted.Object, "status", "requeueState", "requeueAt"); at == "" {
		t.Error("an evicted Workload does not say when it is requeued")
	}
	k.recordState(t, "ready-evicted", "waitForPodsReady: evicted, waiting for its back-off.", evicted)
	eventually(t, kueueDeadline, "the Pod of the first round to go", func() string {
		if suspended := k.job(t, "stuck").Spec.Suspend; suspended == nil || !*suspended {
			return "the Job is not suspended"
		}
		return ""
	})

	again := seen.await(t, name, "Admitted=True", "Evicted=False")
	if first, second := admittedAt(workload), admittedAt(again); first == second {
		t.Errorf("both rounds were admitted at %s", first)
	}
	if count, _, _ := unstructured.NestedInt64(again.Object, "status", "requeueState", "count"); count != 1 {
		t.Errorf("the second round counts %d requeues", count)
	}
	k.recordState(t, "ready-readmitted", "waitForPodsReady: admitted again after an eviction.", again)

	off := seen.await(t, name, "Evicted=True/DeactivatedDueToRequeuingLimitExceeded", "QuotaReserved=False")
	if active, found, _ := unstructured.NestedBool(off.Object, "spec", "active"); !found || active {
		t.Error("at the limit the Workload is still active")
	}
	k.recordState(t, "ready-deactivated", "waitForPodsReady: the limit of requeues is reached.", off)
	evictions, _, _ := unstructured.NestedSlice(off.Object, "status", "schedulingStats", "evictions")
	t.Logf("evictions: %v", evictions)
	if len(evictions) == 0 {
		t.Error("schedulingStats counts no eviction")
	}
}

// admittedAt is the start of a Workload's present admission.
func admittedAt(workload *unstructured.Unstructured) string {
	at, _ := cluster.ConditionOf(workload, "Admitted")["lastTransitionTime"].(string)
	return at
}
