package tests

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"numafit.io/test/lab/cluster"
)

// The protocol between Kueue and the controller of an AdmissionCheck, as numafit's has to speak it. The test
// plays two controllers, "ours" and a foreign one on the same queue.
const (
	ourCheck     = "ours"
	foreignCheck = "foreign"
)

func TestKueueAdmissionCheckProtocol(t *testing.T) {
	k := startKueueLab(t, cluster.Options{NoKubelets: true}, gpusOnly)
	k.create(t, "resourceflavors", cluster.NewResourceFlavor("held", ""))
	for _, check := range []string{ourCheck, foreignCheck} {
		k.create(t, "admissionchecks", cluster.NewAdmissionCheck(check, "lab.numafit.io/"+check))
	}
	k.create(t, "clusterqueues",
		cluster.NewClusterQueue("held", "held", map[string]string{gpu: "16"}, ourCheck, foreignCheck))
	k.create(t, "localqueues", cluster.NewLocalQueue("default", "held", "held"))

	t.Run("a check without a controller stops the queue", func(t *testing.T) {
		eventually(t, kueueDeadline, "the queue to say so", func() string {
			queue, err := k.kind(cluster.KueueKind("clusterqueues"), "").Get(t.Context(), "held", meta.GetOptions{})
			if err != nil {
				return err.Error()
			}
			active := cluster.ConditionOf(queue, "Active")
			if active["status"] != "False" || active["reason"] != "AdmissionCheckInactive" {
				return workloadState(queue)
			}
			return ""
		})
		k.activate(t, ourCheck)
		k.activate(t, foreignCheck)
		k.awaitQueue(t, "held")
	})
	seen := k.follow(t)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *kueueLab, *history)
	}{
		{"held, then both Ready", checkHeldThenReady},
		{"after admission", checkAfterAdmission},
		{"Retry at once", checkRetryAtOnce},
		{"Retry with a delay", checkRetryDelayed},
		{"Rejected", checkRejected},
		{"Retry of a bare Workload", checkRetryBare},
		{"a Workload that another cluster runs", checkOtherCluster},
	} {
		t.Run(one.name, func(t *testing.T) {
			one.run(t, k, seen)
			k.clear(t)
		})
	}
}

// activate says that a check's controller is there.
func (k *kueueLab) activate(t *testing.T, check string) {
	t.Helper()
	_, err := k.kind(cluster.KueueKind("admissionchecks"), "").ApplyStatus(t.Context(), check,
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": map[string]any{"name": check},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": "Active", "status": "True", "reason": "Active", "message": "the test is here",
				"observedGeneration": int64(1), "lastTransitionTime": now(),
			}}},
		}}, meta.ApplyOptions{FieldManager: "lab-" + check})
	if err != nil {
		t.Fatal(err)
	}
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// applyStatus applies a part of a Workload's status as the manager of a check, at the version that was read.
func (k *kueueLab) applyStatus(t *testing.T, workload *unstructured.Unstructured, manager string, force bool, status map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workload.GetAPIVersion(), "kind": "Workload",
		"metadata": map[string]any{
			"name": workload.GetName(), "namespace": workload.GetNamespace(),
			"uid": string(workload.GetUID()), "resourceVersion": workload.GetResourceVersion(),
		},
		"status": status,
	}}
	return k.kind(workloadKind, workload.GetNamespace()).ApplyStatus(t.Context(), workload.GetName(), patch,
		meta.ApplyOptions{FieldManager: manager, Force: force})
}

func verdict(check, state, message string, further map[string]any) map[string]any {
	entry := map[string]any{"name": check, "state": state, "message": message, "lastTransitionTime": now()}
	for key, value := range further {
		entry[key] = value
	}
	return map[string]any{"admissionChecks": []any{entry}}
}

// say writes a verdict as a controller must: its own entry only, forced, at the version that it read, and
// again on a conflict.
func (k *kueueLab) say(t *testing.T, name, check, state, message string, further map[string]any) *unstructured.Unstructured {
	t.Helper()
	var written *unstructured.Unstructured
	eventually(t, kueueDeadline, check+" to say "+state+" of "+name, func() string {
		workload, err := k.kind(workloadKind, "default").Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			return err.Error()
		}
		written, err = k.applyStatus(t, workload, "lab-"+check, true, verdict(check, state, message, further))
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return written
}

// heldJob creates a Job and waits until it has quota and both checks wait.
func (k *kueueLab) heldJob(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	job := k.createJob(t, cluster.NewQueuedJob(name, "held", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
	return k.awaitOwned(t, job.UID, "held", checksAre("Pending", "Pending"))
}

// checksAre wants quota and these states of ours and of the foreign check.
func checksAre(ours, foreign string) func(*unstructured.Unstructured) string {
	return func(workload *unstructured.Unstructured) string {
		checks := checksOf(workload)
		if !meets(workload, "QuotaReserved=True") || len(checks) != 2 || checks[ourCheck]["state"] != ours ||
			checks[foreignCheck]["state"] != foreign {
			return "not held by ours " + ours + ", foreign " + foreign
		}
		return ""
	}
}

// admittedJob is a Job that both checks have let pass.
func (k *kueueLab) admittedJob(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	workload := k.heldJob(t, name)
	k.say(t, workload.GetName(), ourCheck, "Ready", "there is room", nil)
	k.say(t, workload.GetName(), foreignCheck, "Ready", "", nil)
	return k.awaitNamed(t, workload.GetName(), "admitted", has("Admitted=True"))
}

func checkHeldThenReady(t *testing.T, k *kueueLab, _ *history) {
	workload := k.heldJob(t, "wait")
	name := workload.GetName()
	if cluster.ConditionOf(workload, "Admitted")["status"] == "True" {
		t.Error("admitted while both checks wait")
	}
	k.record(t, "check-pending", "Quota is reserved; two AdmissionChecks wait, no verdict yet.", "wait")

	// Kueue itself has written the entry: without force it is not ours to change.
	_, err := k.applyStatus(t, workload, "lab-ours", false, verdict(ourCheck, "Ready", "", nil))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "kueue") {
		t.Errorf("without force: %v, expected a conflict that names Kueue", err)
	}
	t.Logf("without force: %v", err)

	written := k.say(t, name, ourCheck, "Pending", "1 endpoint wanted, none is free on 2 nodes", nil)
	if checksOf(written)[foreignCheck]["state"] != "Pending" || len(checksOf(written)) != 2 {
		t.Errorf("the foreign entry has changed: %s", workloadState(written))
	}
	if owned := ownedBy(t, written, "lab-ours"); !strings.Contains(owned, ourCheck) || strings.Contains(owned, foreignCheck) {
		t.Errorf("we own %s", owned)
	}
	// A version that is not the newest any more is refused even with force.
	_, err = k.applyStatus(t, workload, "lab-ours", true, verdict(ourCheck, "Ready", "", nil))
	if !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v, expected a conflict", err)
	}
	t.Logf("an old version: %v", err)
	k.record(t, "check-held", "Our check waits with its reason; the foreign one waits too.", "wait")

	k.say(t, name, ourCheck, "Ready", "there is room on lab-k1", map[string]any{"podSetUpdates": []any{map[string]any{
		"name": "main", "nodeSelector": map[string]any{"lab.numafit.io/chosen": "yes"},
	}}})
	stays(t, time.Second, "not admitted while the foreign check waits", func() string {
		return k.isNow(t, name, "Admitted!=True")
	})
	k.say(t, name, foreignCheck, "Ready", "", nil)
	admitted := k.awaitNamed(t, name, "admitted", has("Admitted=True"))
	pods := k.awaitPods(t, "wait-", map[string]int{"unschedulable": 1}) // no such node here
	checkLinks(t, admitted, "main", pods...)
	if pods[0].Spec.NodeSelector["lab.numafit.io/chosen"] != "yes" {
		t.Errorf("the Pod's nodeSelector is %v: podSetUpdates were not applied", pods[0].Spec.NodeSelector)
	}
	k.record(t, "check-ready", "Both checks are Ready; ours has added a nodeSelector.", "wait")
}

func checkAfterAdmission(t *testing.T, k *kueueLab, seen *history) {
	name := k.admittedJob(t, "late").GetName()
	k.say(t, name, ourCheck, "Pending", "too late", nil)
	stays(t, 2*time.Second, "admitted although a check waits again", func() string {
		return k.isNow(t, name, "Admitted=True", "Evicted!=True")
	})
	k.record(t, "check-pending-after-admission", "Admitted, then our check said Pending: nothing changes.", "late")
	k.say(t, name, ourCheck, "Retry", "too late", nil)
	evicted := seen.await(t, name, "Evicted=True/AdmissionCheck")
	k.recordState(t, "check-retry-after-admission", "Admitted, then our check said Retry: evicted.", evicted)
	again := k.awaitNamed(t, name, "held again", checksAre("Pending", "Pending"))
	if message, _ := checksOf(again)[ourCheck]["message"].(string); !strings.Contains(message, "Previously: Retry") {
		t.Errorf("the entry's message after the eviction: %q", message)
	}
}

func checkRetryAtOnce(t *testing.T, k *kueueLab, seen *history) {
	name := k.heldJob(t, "again").GetName()
	k.say(t, name, ourCheck, "Retry", "not now", nil)
	released := seen.await(t, name, "Evicted=True/AdmissionCheck", "QuotaReserved=False")
	k.recordState(t, "check-retry", "Our check said Retry: quota is released.", released)
	held := k.awaitNamed(t, name, "held again", func(workload *unstructured.Unstructured) string {
		if answer := checksAre("Pending", "Pending")(workload); answer != "" {
			return answer
		}
		if checksOf(workload)[ourCheck]["retryCount"] != int64(1) {
			return "no retry is counted"
		}
		return has("Evicted=False")(workload)
	})
	apart := transition(t, held, "QuotaReserved").Sub(transition(t, released, "QuotaReserved"))
	t.Logf("quota was free for about %s", apart)
	if apart > 2*time.Second {
		t.Errorf("quota was free for %s, expected that it is reserved again at once", apart)
	}
	k.record(t, "check-retried", "After a Retry without delay: quota is reserved again, both checks wait again.", "again")
}

func checkRetryDelayed(t *testing.T, k *kueueLab, seen *history) {
	name := k.heldJob(t, "delay").GetName()
	begin := time.Now()
	k.say(t, name, ourCheck, "Retry", "let others pass", map[string]any{"requeueAfterSeconds": int64(4)})
	// The delay counts from lastTransitionTime, which is cut to whole seconds.
	stays(t, 2*time.Second, "with its quota during the delay", func() string { return k.isNow(t, name, "QuotaReserved=True") })
	waiting := k.awaitNamed(t, name, "waiting", has())
	k.recordState(t, "check-retry-delayed", "Our check said Retry with requeueAfterSeconds: quota stays reserved"+
		" until then.", waiting)
	k.awaitNamed(t, name, "held again", func(workload *unstructured.Unstructured) string {
		if checksOf(workload)[ourCheck]["retryCount"] != int64(1) {
			return "no retry is counted"
		}
		return checksAre("Pending", "Pending")(workload)
	})
	t.Logf("held again after %s: %d states", time.Since(begin).Round(time.Millisecond), len(seen.of(name)))
	if time.Since(begin) < 2500*time.Millisecond {
		t.Error("the delay was not kept")
	}
}

func checkRejected(t *testing.T, k *kueueLab, seen *history) {
	name := k.heldJob(t, "never").GetName()
	k.say(t, name, ourCheck, "Rejected", "never", nil)
	off := seen.await(t, name, "Evicted=True/DeactivatedDueToAdmissionCheck", "QuotaReserved=False")
	if active, found, _ := unstructured.NestedBool(off.Object, "spec", "active"); !found || active {
		t.Error("a rejected Workload is still active")
	}
	k.recordState(t, "check-rejected", "Our check said Rejected: the Workload is off until a person turns it on.", off)
}

// checkRetryBare: quota is released by whoever stops the job, and here is none.
func checkRetryBare(t *testing.T, k *kueueLab, _ *history) {
	k.create(t, "workloads", newBareWorkload(t, "nobody", "held", 1, kueuePod("", demand{gpus: 1})))
	k.awaitNamed(t, "nobody", "held", checksAre("Pending", "Pending"))
	k.say(t, "nobody", ourCheck, "Retry", "not now", nil)
	k.awaitNamed(t, "nobody", "evicted", has("Evicted=True/AdmissionCheck"))
	stays(t, 2*time.Second, "with its quota, for no job stops", func() string {
		return k.isNow(t, "nobody", "Evicted=True", "QuotaReserved=True")
	})
	k.record(t, "check-retry-bare", "A bare Workload after a Retry: evicted, and its quota stays reserved.", "nobody")
}

// checkOtherCluster makes a Workload look as MultiKueue's manager cluster shows one that a worker cluster runs.
func checkOtherCluster(t *testing.T, k *kueueLab, _ *history) {
	workload := k.admittedJob(t, "remote")
	k.awaitPods(t, "remote-", map[string]int{"unschedulable": 1})
	workload = k.awaitNamed(t, workload.GetName(), "admitted", has("Admitted=True"))
	// Kueue's webhook wants the cluster to be nominated first; the second patch takes the nomination back.
	for _, status := range []map[string]any{{"nominatedClusterNames": []any{"worker-1"}}, {"clusterName": "worker-1"}} {
		var err error
		if workload, err = k.applyStatus(t, workload, "lab-multikueue", true, status); err != nil {
			t.Fatal(err)
		}
	}
	if where, _, _ := unstructured.NestedString(workload.Object, "status", "clusterName"); where != "worker-1" {
		t.Errorf("clusterName is %q", where)
	}
	k.record(t, "multikueue-by-hand", "By hand: status.clusterName as MultiKueue's manager cluster has it, set on"+
		" a Workload of this cluster.", "remote")
}

// isNow checks a Workload's present conditions (see has).
func (k *kueueLab) isNow(t *testing.T, name string, wanted ...string) string {
	t.Helper()
	workload, err := k.kind(workloadKind, "default").Get(t.Context(), name, meta.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if answer := has(wanted...)(workload); answer != "" {
		return answer + ": " + workloadState(workload)
	}
	return ""
}

// stays fails when check gives another answer than "" within a time.
func stays(t *testing.T, how time.Duration, what string, check func() string) {
	t.Helper()
	for end := time.Now().Add(how); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if answer := check(); answer != "" {
			t.Fatalf("expected %s: %s", what, answer)
		}
	}
}

// ownedBy is the JSON of the fields that a manager owns in a Workload's status.
func ownedBy(t *testing.T, workload *unstructured.Unstructured, manager string) string {
	t.Helper()
	for _, entry := range workload.GetManagedFields() {
		if entry.Manager == manager && entry.Subresource == "status" {
			text, err := json.Marshal(entry.FieldsV1)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Errorf("%s owns nothing", manager)
	return ""
}

func transition(t *testing.T, workload *unstructured.Unstructured, conditionType string) time.Time {
	t.Helper()
	text, _ := cluster.ConditionOf(workload, conditionType)["lastTransitionTime"].(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("%s of %s: %v", conditionType, workload.GetName(), err)
	}
	return at
}
