package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"numafit.io/test/lab/cluster"
)

const capacityCheck = "topology-capacity"

// grantChecking gives the extender what deploy/manifests/extender-rbac.yaml keeps ready for it.
func (k *kueueLab) grantChecking(t *testing.T) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(k.Root, "deploy", "manifests", "extender-rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, chosen, found := strings.Cut(string(manifest), "# CHOOSE: only with `admissionCheck: {enabled: true}` in extender.yaml.\n")
	if !found {
		t.Fatal("the rules of the AdmissionCheck are not in the manifest")
	}
	var text strings.Builder
	for line := range strings.Lines(chosen) {
		rule, comment := strings.CutPrefix(line, "# ")
		if !comment || strings.HasPrefix(rule, "CHOOSE") {
			break
		}
		text.WriteString(rule)
	}
	role := &rbac.ClusterRole{ObjectMeta: meta.ObjectMeta{Name: "numafit-extender-check"}}
	if err := yaml.UnmarshalStrict([]byte(text.String()), &role.Rules); err != nil || len(role.Rules) == 0 {
		t.Fatalf("%v: %s", err, text.String())
	}
	if _, err := k.Client.RbacV1().ClusterRoles().Create(t.Context(), role, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = k.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: role.Name},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: "numafit-extender"}},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// startChecking starts the extender as the controller of numafit.io/topology-capacity.
func (k *kueueLab) startChecking(t *testing.T) {
	t.Helper()
	file := filepath.Join(k.Dir, "checking.yaml")
	text := "apiVersion: numafit.io/v1alpha1\nkind: ExtenderConfiguration\nadmissionCheck: {enabled: true}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.StartExtender(t.Context(), "--config", file); err != nil {
		t.Fatal(err)
	}
}

// checkedJob creates a Job whose Pods want one GPU and one endpoint each, and waits until it has quota.
func (k *kueueLab) checkedJob(t *testing.T, name string, pods int) *unstructured.Unstructured {
	t.Helper()
	job := k.createJob(t, cluster.NewQueuedJob(name, "checked", pods, kueuePod("", demand{gpus: 1, rdmas: 1})))
	return k.awaitOwned(t, job.UID, "with quota", func(workload *unstructured.Unstructured) string {
		if answer := has("QuotaReserved=True")(workload); answer != "" {
			return answer
		}
		if len(checksOf(workload)) != 2 {
			return "not both checks are there"
		}
		return ""
	})
}

// awaitCheck waits until our check of a Workload has this state and a message with this text.
func (k *kueueLab) awaitCheck(t *testing.T, name, state, text string) {
	t.Helper()
	k.awaitNamed(t, name, capacityCheck+" "+state, func(workload *unstructured.Unstructured) string {
		entry := checksOf(workload)[capacityCheck]
		if message, _ := entry["message"].(string); entry["state"] != state || !strings.Contains(message, text) {
			return fmt.Sprint(entry)
		}
		return ""
	})
}

// The AdmissionCheck against the real Kueue: with endpoints outside of every quota nothing is admitted that
// would have no place. Two Workloads of which each would fit, but not both, beside a foreign check on the
// same queue; the extender is killed between its word and the Pods.
func TestKueueAdmissionCheckKeepsOutWhatHasNoPlace(t *testing.T) {
	k := startKueueLab(t, cluster.Options{}, gpusOnly)
	k.grantChecking(t)
	k.startChecking(t)
	if err := k.StartScheduler(t.Context(), cluster.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
	k.create(t, "resourceflavors", cluster.NewResourceFlavor("checked", ""))
	k.create(t, "admissionchecks", cluster.NewAdmissionCheck(capacityCheck, "numafit.io/topology-capacity"))
	k.create(t, "admissionchecks", cluster.NewAdmissionCheck(foreignCheck, "lab.numafit.io/"+foreignCheck))
	k.activate(t, foreignCheck)
	k.create(t, "clusterqueues",
		cluster.NewClusterQueue("checked", "checked", map[string]string{gpu: "16"}, capacityCheck, foreignCheck))
	k.create(t, "localqueues", cluster.NewLocalQueue("default", "checked", "checked"))
	// Active, so the extender has said that it is at work.
	k.awaitQueue(t, "checked")

	first := k.checkedJob(t, "first", 6).GetName()
	k.awaitCheck(t, first, "Ready", "every Pod finds a place")
	k.say(t, first, foreignCheck, "Ready", "", nil)
	k.awaitPods(t, "first-", map[string]int{"running": 6})

	// Two endpoints are left.
	begin := time.Now()
	second := k.checkedJob(t, "second", 2).GetName()
	k.awaitCheck(t, second, "Ready", "")
	t.Logf("Ready %.1f s after the Job was made", time.Since(begin).Seconds())
	third := k.checkedJob(t, "third", 2).GetName()
	k.awaitCheck(t, third, "Pending", "0 of 2 Pods of PodSet main would find a place; 2 Pods of 1 other Workloads are on their way")

	k.KillExtender()
	k.startChecking(t)
	fourth := k.checkedJob(t, "fourth", 1).GetName()
	k.awaitCheck(t, fourth, "Pending", "are on their way")
	stays(t, 3*time.Second, "nobody else let in by an extender that has just started", func() string {
		for _, name := range []string{second, third, fourth} {
			workload, err := k.kind(workloadKind, "default").Get(t.Context(), name, meta.GetOptions{})
			if err != nil {
				return err.Error()
			}
			checks := checksOf(workload)
			want := map[bool]string{true: "Ready", false: "Pending"}[name == second]
			if checks[capacityCheck]["state"] != want {
				return workloadState(workload)
			}
			if checks[foreignCheck]["state"] != "Pending" || checks[foreignCheck]["message"] != "" {
				return "the foreign entry is touched: " + workloadState(workload)
			}
			if meets(workload, "Admitted=True") {
				return "admitted while the foreign check waits: " + workloadState(workload)
			}
		}
		return ""
	})

	for _, name := range []string{second, third, fourth} {
		k.say(t, name, foreignCheck, "Ready", "", nil)
	}
	k.awaitPods(t, "second-", map[string]int{"running": 2})
	k.awaitCheck(t, third, "Pending", "endpoints-exhausted: wants 1 rdma; none is free")
	if pods := list(t, k.Cluster); len(pods) != 8 {
		t.Errorf("%d Pods are there, expected those of the first two Jobs", len(pods))
	}

	// Room comes: for both that wait.
	begin = time.Now()
	k.deleteJob(t, "first")
	// As long as its Workload is there it holds its quota, and Pods of it may come.
	eventually(t, kueueDeadline, "the first Job's Pods and Workload to be gone", func() string {
		for _, kind := range []schema.GroupVersionResource{podKind, workloadKind} {
			if left := k.objectsOf(t, kind, "first-"); len(left) > 0 {
				return fmt.Sprintf("%d %s are left", len(left), kind.Resource)
			}
		}
		return ""
	})
	gone := time.Now()
	t.Logf("the first Job is gone after %.1f s", gone.Sub(begin).Seconds())
	k.awaitCheck(t, third, "Ready", "")
	t.Logf("the next is Ready %.1f s later", time.Since(gone).Seconds())
	k.awaitPods(t, "third-", map[string]int{"running": 2})
	k.awaitPods(t, "fourth-", map[string]int{"running": 1})
	t.Logf("both run %.1f s after room was made", time.Since(gone).Seconds())
	for _, name := range []string{second, third, fourth} {
		k.awaitNamed(t, name, "admitted", has("Admitted=True", "Evicted!=True"))
	}
	for name, pod := range list(t, k.Cluster) {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == core.PodScheduled && condition.Status != core.ConditionTrue {
				t.Errorf("%s waits for a node: %s", name, condition.Message)
			}
		}
	}
	metrics, err := k.ExtenderMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if waiting := metrics["numafit_admission_check_waiting_workloads"]; waiting != 0 {
		t.Errorf("%v Workloads wait", waiting)
	}
	if failed := metrics[`numafit_admission_check_verdicts_total{result="error"}`]; failed != 0 {
		t.Errorf("%v writes failed", failed)
	}
}
