package tests

import (
	"fmt"
	"slices"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"numafit.io/test/lab/cluster"
)

// What Kueue writes on each kind's Workload and Pods, by which a Pod is led to its Workload.
func TestKueueLinksPodsToWorkloads(t *testing.T) {
	options := gpusOnly
	options.Frameworks = []string{"batch/job", "pod", "deployment", "statefulset"}
	k := startKueueLab(t, cluster.Options{}, options)
	err := k.StartControllerManager(t.Context(), "job-controller", "garbage-collector-controller",
		"deployment-controller", "replicaset-controller", "statefulset-controller")
	if err != nil {
		t.Fatal(err)
	}
	k.queue(t, "wide", "16")
	k.queue(t, "three", "3")
	for _, one := range []struct {
		name string
		run  func(*testing.T, *kueueLab)
	}{
		{"a Job of eight, of which one waits", jobOfEight},
		{"partial admission", partialAdmission},
		{"reclaimable Pods", reclaimablePods},
		{"a plain Pod", plainPod},
		{"a Pod group", podGroup},
		{"a StatefulSet", statefulSet},
		{"a Deployment", deployment},
		{"a bare Workload", bareWorkload},
		{"a Job with a Workload made for it", prebuiltWorkload},
		{"a chain of owners", ownerChain},
	} {
		t.Run(one.name, func(t *testing.T) {
			one.run(t, k)
			k.clear(t)
		})
	}
}

func jobOfEight(t *testing.T, k *kueueLab) {
	create(t, k.Cluster, kueuePod("blocker", demand{rdmas: 1}))
	eventually(t, kueueDeadline, "the blocker to run", func() string { return notRunning(t, k.Cluster, "blocker") })
	job := k.createJob(t, cluster.NewQueuedJob("eight", "wide", 8, kueuePod("", demand{gpus: 1, rdmas: 1})))
	workload := k.awaitOwned(t, job.UID, "admitted", has("Admitted=True"))
	if count := assignmentOf(workload, "main")["count"]; count != int64(8) {
		t.Errorf("%v Pods are admitted, expected 8", count)
	}
	checkLinks(t, workload, "main", k.awaitPods(t, "eight-", map[string]int{"running": 7, "unschedulable": 1})...)
	k.record(t, "job-of-eight", "A Job of eight Pods; seven endpoints are free, so seven run and one waits.", "eight")
}

func partialAdmission(t *testing.T, k *kueueLab) {
	job := cluster.NewQueuedJob("partial", "three", 8, kueuePod("", demand{gpus: 1, rdmas: 1}))
	job.Annotations = map[string]string{cluster.KueueMinParallelism: "2"}
	job = k.createJob(t, job)
	workload := k.awaitOwned(t, job.UID, "admitted", has("Admitted=True"))
	podSets, _, _ := unstructured.NestedSlice(workload.Object, "spec", "podSets")
	podSet := podSets[0].(map[string]any)
	if podSet["count"] != int64(8) || podSet["minCount"] != int64(2) {
		t.Errorf("the podset wants %v Pods, at least %v", podSet["count"], podSet["minCount"])
	}
	if count := assignmentOf(workload, "main")["count"]; count != int64(3) {
		t.Errorf("%v Pods are admitted, expected 3: the quota", count)
	}
	checkLinks(t, workload, "main", k.awaitPods(t, "partial-", map[string]int{"running": 3})...)
	k.record(t, "job-partial", "A Job of eight, at least two, behind a quota of three: three are admitted.", "partial")
}

// reclaimablePods has a Job whose last Pod runs while its first ones have given their quota back.
func reclaimablePods(t *testing.T, k *kueueLab) {
	pod := kueuePod("", demand{gpus: 1, rdmas: 1})
	pod.Annotations = map[string]string{"lab.numafit.io/run-seconds": "4"}
	job := cluster.NewQueuedJob("reclaim", "wide", 2, pod)
	*job.Spec.Completions = 3
	job = k.createJob(t, job)
	workload := k.awaitOwned(t, job.UID, "short of Pods", func(workload *unstructured.Unstructured) string {
		reclaimable, _, _ := unstructured.NestedSlice(workload.Object, "status", "reclaimablePods")
		if len(reclaimable) == 0 {
			return "no reclaimable Pods"
		}
		if entry := reclaimable[0].(map[string]any); entry["name"] != "main" || entry["count"] != int64(1) {
			return fmt.Sprint(entry)
		}
		return ""
	})
	if count := assignmentOf(workload, "main")["count"]; count != int64(2) {
		t.Errorf("%v Pods are assigned, expected 2: one is left, one was given back", count)
	}
	k.record(t, "job-reclaimable", "A Job of three completions, two at once: two are done, so one Pod's quota"+
		" is given back while the last Pod runs.", "reclaim")
}

func plainPod(t *testing.T, k *kueueLab) {
	queued := func(name string) *core.Pod {
		pod := kueuePod(name, demand{gpus: 2, rdmas: 1})
		pod.Labels = map[string]string{cluster.KueueQueueLabel: "three"}
		return pod
	}
	create(t, k.Cluster, queued("plain-1"))
	first := k.awaitPods(t, "plain-1", map[string]int{"running": 1})[0]
	workload := k.awaitOwned(t, first.UID, "admitted", has("Admitted=True"))
	checkLinks(t, workload, "main", first)
	if owner := workload.GetOwnerReferences()[0]; owner.Kind != "Pod" || owner.Controller == nil || !*owner.Controller {
		t.Errorf("the Workload is owned by %+v, expected the Pod as its controller", owner)
	}
	k.record(t, "plain-pod-running", "A plain Pod in a queue, admitted and running.", "plain-1")

	create(t, k.Cluster, queued("plain-2"))
	second := k.awaitPods(t, "plain-2", map[string]int{"gated": 1})[0]
	k.awaitOwned(t, second.UID, "waiting for quota", has("QuotaReserved=False"))
	var gates []string
	for _, gate := range second.Spec.SchedulingGates {
		gates = append(gates, gate.Name)
	}
	if !slices.Contains(gates, cluster.KueueAdmissionGate) || !slices.Contains(gates, cluster.KueueTopologyGate) {
		t.Errorf("the gates are %v", gates)
	}
	if name := second.Annotations[cluster.KueueWorkloadAnnotation]; name != "" {
		t.Errorf("a gated Pod already names the Workload %s", name)
	}
	k.record(t, "plain-pod-gated", "A plain Pod behind another that has the quota: it exists, and is gated.", "plain-2")
}

func podGroup(t *testing.T, k *kueueLab) {
	member := func(name string, want demand) *core.Pod {
		pod := kueuePod(name, want)
		pod.Labels = map[string]string{cluster.KueueQueueLabel: "wide", cluster.KueueGroupLabel: "group"}
		pod.Annotations = map[string]string{cluster.KueueGroupTotal: "3"}
		return pod
	}
	create(t, k.Cluster, member("group-leader", demand{gpus: 1}), member("group-worker-1", demand{gpus: 1, rdmas: 1}))
	k.awaitPods(t, "group-", map[string]int{"gated": 2})
	k.record(t, "pod-group-incomplete", "Two of the three Pods of a group: no Workload yet.", "group")
	create(t, k.Cluster, member("group-worker-2", demand{gpus: 1, rdmas: 1}))
	pods := k.awaitPods(t, "group-", map[string]int{"running": 3})
	workload := k.awaitNamed(t, "group", "admitted", has("Admitted=True"))
	if uid, has := workload.GetLabels()[cluster.KueueJobUIDLabel]; has {
		t.Errorf("a group's Workload has the label %s=%s", cluster.KueueJobUIDLabel, uid)
	}
	for _, pod := range pods {
		checkLinks(t, workload, pod.Annotations[cluster.KueueRoleHash], pod)
		owned := slices.ContainsFunc(workload.GetOwnerReferences(), func(owner meta.OwnerReference) bool {
			return owner.UID == pod.UID && (owner.Controller == nil || !*owner.Controller)
		})
		if !owned {
			t.Errorf("Pod %s is no plain owner of the Workload: %+v", pod.Name, workload.GetOwnerReferences())
		}
	}
	if pods[0].Annotations[cluster.KueueRoleHash] == pods[1].Annotations[cluster.KueueRoleHash] {
		t.Error("leader and worker have the same role")
	}
	k.record(t, "pod-group-running", "A group of three Pods with two roles, admitted and running.", "group")
}

// statefulSet is a Pod group that Kueue forms itself.
func statefulSet(t *testing.T, k *kueueLab) {
	replicas := int32(2)
	set, err := k.Client.AppsV1().StatefulSets("default").Create(t.Context(), &apps.StatefulSet{
		ObjectMeta: meta.ObjectMeta{
			Name: "serving", Namespace: "default", Labels: map[string]string{cluster.KueueQueueLabel: "wide"},
		},
		Spec: apps.StatefulSetSpec{
			Replicas: &replicas, Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "serving"}},
			Template: foreverTemplate("serving"),
		},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := k.awaitPods(t, "serving-", map[string]int{"running": 2})
	workload := k.awaitOwned(t, set.UID, "admitted", has("Admitted=True"))
	for _, pod := range pods {
		checkLinks(t, workload, pod.Annotations[cluster.KueueRoleHash], pod)
		for _, label := range []string{cluster.KueueGroupLabel, cluster.KueuePrebuiltLabel} {
			if name := pod.Labels[label]; name != workload.GetName() {
				t.Errorf("Pod %s has %s=%s, expected %s", pod.Name, label, name, workload.GetName())
			}
		}
	}
	k.record(t, "statefulset-running", "A StatefulSet of two: one Workload, its Pods are a group of that name.",
		"serving", k.mustGet(t, "statefulsets", "serving"))
	k.deleteAppsObject(t, "statefulsets", "serving")
}

// deployment has a Workload for each of its Pods.
func deployment(t *testing.T, k *kueueLab) {
	replicas := int32(2)
	_, err := k.Client.AppsV1().Deployments("default").Create(t.Context(), &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{
			Name: "web", Namespace: "default", Labels: map[string]string{cluster.KueueQueueLabel: "wide"},
		},
		Spec: apps.DeploymentSpec{
			Replicas: &replicas, Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: foreverTemplate("web"),
		},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range k.awaitPods(t, "web-", map[string]int{"running": 2}) {
		checkLinks(t, k.awaitOwned(t, pod.UID, "admitted", has("Admitted=True")), "main", pod)
	}
	k.record(t, "deployment-running", "A Deployment of two: each Pod has a Workload of its own.", "web",
		k.mustGet(t, "deployments", "web"))
	k.deleteAppsObject(t, "deployments", "web")
}

func foreverTemplate(app string) core.PodTemplateSpec {
	pod := kueuePod("", demand{gpus: 1, rdmas: 1})
	pod.Spec.RestartPolicy = core.RestartPolicyAlways
	return core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: pod.Spec}
}

func appsKind(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: plural}
}

func (k *kueueLab) mustGet(t *testing.T, plural, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := k.kind(appsKind(plural), "default").Get(t.Context(), name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// deleteAppsObject takes away what would make its Pods again.
func (k *kueueLab) deleteAppsObject(t *testing.T, plural, name string) {
	t.Helper()
	foreground := meta.DeletePropagationForeground
	err := k.kind(appsKind(plural), "default").Delete(t.Context(), name, meta.DeleteOptions{PropagationPolicy: &foreground})
	if err != nil {
		t.Fatal(err)
	}
}

// newBareWorkload is admitted like any other; the test then plays whoever makes the Pods.
func newBareWorkload(t *testing.T, name, queue string, count int, pod *core.Pod) *unstructured.Unstructured {
	t.Helper()
	workload, err := cluster.NewWorkload("default", name, queue,
		cluster.KueuePodSet{Name: "main", Count: count, Template: pod.Spec})
	if err != nil {
		t.Fatal(err)
	}
	return workload
}

func bareWorkload(t *testing.T, k *kueueLab) {
	k.create(t, "workloads", newBareWorkload(t, "bare", "wide", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
	workload := k.awaitNamed(t, "bare", "admitted", has("Admitted=True"))
	if owners := workload.GetOwnerReferences(); len(owners) > 0 {
		t.Errorf("a bare Workload is owned by %+v", owners)
	}
	pod := kueuePod("bare-pod", demand{gpus: 1, rdmas: 1})
	pod.Annotations = map[string]string{cluster.KueueWorkloadAnnotation: "bare"}
	pod.Labels = map[string]string{cluster.KueuePodSetLabel: "main"}
	create(t, k.Cluster, pod)
	k.awaitPods(t, "bare-pod", map[string]int{"running": 1})
	k.record(t, "bare-workload", "A Workload without an owner; somebody has made its Pod and named the Workload on it.", "bare")
}

func prebuiltWorkload(t *testing.T, k *kueueLab) {
	job := cluster.NewQueuedJob("prebuilt-job", "wide", 1, kueuePod("", demand{gpus: 1, rdmas: 1}))
	job.Labels[cluster.KueuePrebuiltLabel] = "prebuilt"
	job = k.createJob(t, job)
	// Kueue compares containers, so they have to have the defaults that the Job's were given.
	k.create(t, "workloads", newBareWorkload(t, "prebuilt", "wide", 1, &core.Pod{Spec: job.Spec.Template.Spec}))
	pods := k.awaitPods(t, "prebuilt-job-", map[string]int{"running": 1})
	workload := k.awaitOwned(t, job.UID, "admitted", has("Admitted=True"))
	if workload.GetName() != "prebuilt" {
		t.Errorf("the Job's Workload is %s", workload.GetName())
	}
	checkLinks(t, workload, "main", pods...)
	k.record(t, "job-prebuilt", "A Job that names a Workload made before it.", "prebuilt")
}

var trainings = schema.GroupVersionResource{Group: "lab.numafit.io", Version: "v1", Resource: "trainings"}

// ownerChain is a kind that Kueue does not know, as JobSet is to a Kueue without it: the Workload belongs to
// the top object, and nothing on the Pods says so but the owners between.
func ownerChain(t *testing.T, k *kueueLab) {
	training := k.createChain(t, "chain", "wide", 2, kueuePod("", demand{gpus: 1, rdmas: 1}))
	for _, pod := range k.awaitPods(t, "chain-workers-", map[string]int{"running": 2}) {
		if name, has := pod.Annotations[cluster.KueueWorkloadAnnotation]; has {
			t.Errorf("Pod %s names a Workload: %s", pod.Name, name)
		}
	}
	k.record(t, "owner-chain", "Pods of a Job of an object that Kueue does not know, which owns the Workload: no"+
		" Pod names it.", "chain", training)
}

// createChain makes a Training with a Workload of its own, waits until that is admitted, and makes the Job
// NAME-workers, whose Pods it is for. Returns the Training.
func (k *kueueLab) createChain(t *testing.T, name, queue string, count int, pod *core.Pod) *unstructured.Unstructured {
	t.Helper()
	k.defineTrainings(t)
	training, err := k.kind(trainings, "default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "lab.numafit.io/v1", "kind": "Training", "metadata": map[string]any{"name": name},
	}}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	isController := true
	owner := meta.OwnerReference{
		APIVersion: "lab.numafit.io/v1", Kind: "Training", Name: name, UID: training.GetUID(), Controller: &isController,
	}
	workload := newBareWorkload(t, "training-"+name, queue, count, pod)
	workload.SetOwnerReferences([]meta.OwnerReference{owner})
	k.create(t, "workloads", workload)
	k.awaitOwned(t, training.GetUID(), "admitted", has("Admitted=True"))
	child := cluster.NewQueuedJob(name+"-workers", "", count, pod)
	child.Labels, child.Spec.Suspend = nil, nil
	child.OwnerReferences = []meta.OwnerReference{owner}
	k.createJob(t, child)
	return training
}

// defineTrainings makes the kind Training, if it is not there.
func (k *kueueLab) defineTrainings(t *testing.T) {
	t.Helper()
	definitions := schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	_, err := k.objects.Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "trainings.lab.numafit.io"},
		"spec": map[string]any{
			"group": "lab.numafit.io", "scope": "Namespaced",
			"names": map[string]any{"plural": "trainings", "singular": "training", "kind": "Training"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	eventually(t, kueueDeadline, "Trainings to be served", func() string {
		if _, err := k.kind(trainings, "default").List(t.Context(), meta.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}
