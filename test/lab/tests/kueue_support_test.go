package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"numafit.io/test/lab/cluster"
)

// kueueLab is a cluster with the real Kueue, Jobs, and a scheduler as it comes.
type kueueLab struct {
	*cluster.Cluster
	objects dynamic.Interface
}

var (
	workloadKind  = cluster.KueueKind("workloads")
	podKind       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	jobKind       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	gpusOnly      = cluster.KueueOptions{ExcludeResourcePrefixes: []string{"device.gpustack.ai/"}}
	kueueDeadline = 30 * time.Second
)

// startKueueLab starts the two machines of test/fleets/lab-kueue.yaml (16 GPUs, 8 endpoints in all).
func startKueueLab(t *testing.T, options cluster.Options, kueue cluster.KueueOptions) *kueueLab {
	t.Helper()
	options.Fleet = fleetOf(t, "lab-kueue.yaml")
	k := &kueueLab{Cluster: startLab(t, options)}
	var err error
	if k.objects, err = k.Objects(); err != nil {
		t.Fatal(err)
	}
	if err := k.StartScheduler(t.Context(), cluster.SchedulerOptions{WithoutNumafit: true}); err != nil {
		t.Fatal(err)
	}
	if err := k.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.startKueue(t, kueue)
	return k
}

func (k *kueueLab) startKueue(t *testing.T, options cluster.KueueOptions) {
	t.Helper()
	begin := time.Now()
	if err := k.StartKueue(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Logf("kueue is up after %.1f s", time.Since(begin).Seconds())
}

// create creates one of Kueue's own objects.
func (k *kueueLab) create(t *testing.T, plural string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := k.kind(cluster.KueueKind(plural), object.GetNamespace()).
		Create(t.Context(), object, meta.CreateOptions{})
	if err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return created
}

func (k *kueueLab) kind(kind schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return k.objects.Resource(kind)
	}
	return k.objects.Resource(kind).Namespace(namespace)
}

// queue makes a flavor, a ClusterQueue with a quota of GPUs, and a LocalQueue, all of this name, and waits
// until the queue admits.
func (k *kueueLab) queue(t *testing.T, name, gpus string) {
	t.Helper()
	k.create(t, "resourceflavors", cluster.NewResourceFlavor(name, ""))
	k.create(t, "clusterqueues", cluster.NewClusterQueue(name, name, map[string]string{gpu: gpus}))
	k.create(t, "localqueues", cluster.NewLocalQueue("default", name, name))
	k.awaitQueue(t, name)
}

func (k *kueueLab) awaitQueue(t *testing.T, name string) {
	t.Helper()
	for _, one := range []struct{ plural, namespace string }{{"clusterqueues", ""}, {"localqueues", "default"}} {
		eventually(t, kueueDeadline, one.plural+" "+name+" to be active", func() string {
			object, err := k.kind(cluster.KueueKind(one.plural), one.namespace).Get(t.Context(), name, meta.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if condition := cluster.ConditionOf(object, "Active"); condition["status"] != "True" {
				return fmt.Sprint(condition)
			}
			return ""
		})
	}
}

// kueuePod is newPod with devices alone: a quota that covers GPUs only admits nothing that asks for CPUs.
func kueuePod(name string, containers ...demand) *core.Pod {
	pod := newPod(name, containers...)
	for i := range pod.Spec.Containers {
		limits := pod.Spec.Containers[i].Resources.Limits
		delete(limits, core.ResourceCPU)
		delete(limits, core.ResourceMemory)
	}
	return pod
}

func (k *kueueLab) createJob(t *testing.T, job *batch.Job) *batch.Job {
	t.Helper()
	created, err := k.Client.BatchV1().Jobs(job.Namespace).Create(t.Context(), job, meta.CreateOptions{})
	if err != nil {
		t.Fatalf("Job %s: %v", job.Name, err)
	}
	return created
}

func (k *kueueLab) deleteJob(t *testing.T, name string) {
	t.Helper()
	background := meta.DeletePropagationBackground
	err := k.Client.BatchV1().Jobs("default").Delete(t.Context(), name, meta.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		t.Fatal(err)
	}
}

func (k *kueueLab) job(t *testing.T, name string) *batch.Job {
	t.Helper()
	job, err := k.Client.BatchV1().Jobs("default").Get(t.Context(), name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func (k *kueueLab) workloads(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return k.objectsOf(t, workloadKind, "")
}

// objectsOf lists the objects in the namespace default whose name contains a text.
func (k *kueueLab) objectsOf(t *testing.T, kind schema.GroupVersionResource, part string) []*unstructured.Unstructured {
	t.Helper()
	all, err := k.kind(kind, "default").List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	for i := range all.Items {
		if strings.Contains(all.Items[i].GetName(), part) {
			found = append(found, &all.Items[i])
		}
	}
	return found
}

// awaitOwned waits until the one Workload that a UID owns is as check says ("" is yes), and returns it.
func (k *kueueLab) awaitOwned(t *testing.T, owner types.UID, what string, check func(*unstructured.Unstructured) string) *unstructured.Unstructured {
	t.Helper()
	return k.awaitWorkload(t, func(workload *unstructured.Unstructured) bool {
		return slices.ContainsFunc(workload.GetOwnerReferences(), func(reference meta.OwnerReference) bool {
			return reference.UID == owner
		})
	}, what, check)
}

func (k *kueueLab) awaitNamed(t *testing.T, name, what string, check func(*unstructured.Unstructured) string) *unstructured.Unstructured {
	t.Helper()
	return k.awaitWorkload(t, func(workload *unstructured.Unstructured) bool { return workload.GetName() == name }, what, check)
}

func (k *kueueLab) awaitWorkload(t *testing.T, is func(*unstructured.Unstructured) bool, what string, check func(*unstructured.Unstructured) string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	eventually(t, kueueDeadline, "a Workload to be "+what, func() string {
		found = nil
		for _, workload := range k.workloads(t) {
			if !is(workload) {
				continue
			}
			if found != nil {
				return "two Workloads: " + found.GetName() + " and " + workload.GetName()
			}
			found = workload
		}
		if found == nil {
			return "there is none"
		}
		if answer := check(found); answer != "" {
			return answer + "; it is " + workloadState(found)
		}
		return ""
	})
	return found
}

// has checks a Workload's conditions: "Admitted=True", "Evicted=True/PodsReadyTimeout", and "Admitted!=True".
func has(wanted ...string) func(*unstructured.Unstructured) string {
	return func(workload *unstructured.Unstructured) string {
		for _, want := range wanted {
			if !meets(workload, want) {
				return "not " + want
			}
		}
		return ""
	}
}

func meets(workload *unstructured.Unstructured, want string) bool {
	if conditionType, status, isNot := strings.Cut(want, "!="); isNot {
		return cluster.ConditionOf(workload, conditionType)["status"] != status
	}
	conditionType, value, _ := strings.Cut(want, "=")
	status, reason, hasReason := strings.Cut(value, "/")
	condition := cluster.ConditionOf(workload, conditionType)
	return condition["status"] == status && (!hasReason || condition["reason"] == reason)
}

// workloadState is a Workload's conditions and checks in one line.
func workloadState(workload *unstructured.Unstructured) string {
	words := []string{workload.GetName()}
	conditions, _, _ := unstructured.NestedSlice(workload.Object, "status", "conditions")
	for _, one := range conditions {
		condition := one.(map[string]any)
		words = append(words, fmt.Sprintf("%v=%v/%v (%v)", condition["type"], condition["status"], condition["reason"], condition["message"]))
	}
	for name, entry := range checksOf(workload) {
		words = append(words, fmt.Sprintf("check %s=%v (%v)", name, entry["state"], entry["message"]))
	}
	return strings.Join(words, ", ")
}

// checksOf are the entries of status.admissionChecks by name.
func checksOf(workload *unstructured.Unstructured) map[string]map[string]any {
	entries, _, _ := unstructured.NestedSlice(workload.Object, "status", "admissionChecks")
	byName := map[string]map[string]any{}
	for _, one := range entries {
		entry := one.(map[string]any)
		byName[entry["name"].(string)] = entry
	}
	return byName
}

// assignmentOf is the assignment of a podset; nil before admission.
func assignmentOf(workload *unstructured.Unstructured, podSet string) map[string]any {
	assignments, _, _ := unstructured.NestedSlice(workload.Object, "status", "admission", "podSetAssignments")
	for _, one := range assignments {
		assignment := one.(map[string]any)
		if assignment["name"] == podSet {
			return assignment
		}
	}
	return nil
}

// podsOf are the Pods in the namespace default whose names start so.
func (k *kueueLab) podsOf(t *testing.T, prefix string) []*core.Pod {
	t.Helper()
	all := list(t, k.Cluster)
	var pods []*core.Pod
	for _, name := range sortedNames(all) {
		if strings.HasPrefix(name, prefix) {
			pods = append(pods, all[name])
		}
	}
	return pods
}

// awaitPods waits until the Pods whose names start so are in these states (podState, or "gated"), so many of
// each.
func (k *kueueLab) awaitPods(t *testing.T, prefix string, want map[string]int) []*core.Pod {
	t.Helper()
	var pods []*core.Pod
	eventually(t, kueueDeadline, fmt.Sprintf("Pods %s* to be %v", prefix, want), func() string {
		pods = k.podsOf(t, prefix)
		have := map[string]int{}
		for _, pod := range pods {
			state, _, _ := strings.Cut(podState(pod), "/")
			if len(pod.Spec.SchedulingGates) > 0 {
				state = "gated"
			}
			have[state]++
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Sprint(have)
		}
		return ""
	})
	return pods
}

// checkLinks fails where a Pod does not name its Workload and podset as Kueue's own index reads them.
func checkLinks(t *testing.T, workload *unstructured.Unstructured, podSet string, pods ...*core.Pod) {
	t.Helper()
	for _, pod := range pods {
		if got := pod.Annotations[cluster.KueueWorkloadAnnotation]; got != workload.GetName() {
			t.Errorf("Pod %s names the Workload %q, expected %q", pod.Name, got, workload.GetName())
		}
		if got := pod.Labels[cluster.KueuePodSetLabel]; got != podSet {
			t.Errorf("Pod %s names the podset %q, expected %q", pod.Name, got, podSet)
		}
	}
}

// clear removes every Job, Workload and Pod, and waits until no kubelet holds devices for one.
func (k *kueueLab) clear(t *testing.T) {
	t.Helper()
	background, zero := meta.DeletePropagationBackground, int64(0)
	for _, kind := range []schema.GroupVersionResource{jobKind, workloadKind, podKind} {
		err := k.kind(kind, "default").DeleteCollection(t.Context(),
			meta.DeleteOptions{PropagationPolicy: &background, GracePeriodSeconds: &zero}, meta.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	eventually(t, kueueDeadline, "all Jobs, Workloads and Pods to be gone", func() string {
		for _, kind := range []schema.GroupVersionResource{jobKind, workloadKind, podKind} {
			for _, object := range k.objectsOf(t, kind, "") {
				// What has lost its owner in this way is nobody's to finish.
				if time.Since(begin) > 5*time.Second {
					_, _ = k.kind(kind, "default").Patch(t.Context(), object.GetName(), types.MergePatchType,
						[]byte(`{"metadata":{"finalizers":null}}`), meta.PatchOptions{})
				}
				return kind.Resource + " " + object.GetName()
			}
		}
		for _, node := range k.Nodes() {
			if holdings := holdingsOf(t, node); len(holdings) > 0 {
				return node.Name + " still holds devices for " + holdings[0].Pod
			}
		}
		return ""
	})
}

// history is every state that the Workloads of the namespace default were seen in, in order.
type history struct {
	mu     sync.Mutex
	states []*unstructured.Unstructured
}

// follow records Workloads until the test ends.
func (k *kueueLab) follow(t *testing.T) *history {
	t.Helper()
	watcher, err := k.kind(workloadKind, "default").Watch(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	h := &history{}
	go func() {
		for event := range watcher.ResultChan() {
			if workload, isWorkload := event.Object.(*unstructured.Unstructured); isWorkload {
				h.mu.Lock()
				h.states = append(h.states, workload)
				h.mu.Unlock()
			}
		}
	}()
	return h
}

// of are the states so far of the Workload of this name.
func (h *history) of(name string) []*unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	var states []*unstructured.Unstructured
	for _, state := range h.states {
		if state.GetName() == name {
			states = append(states, state)
		}
	}
	return states
}

// await waits for a state that meets all the conditions (see has), and returns the first.
func (h *history) await(t *testing.T, name string, wanted ...string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	eventually(t, kueueDeadline, name+" to pass through "+strings.Join(wanted, ", "), func() string {
		states := h.of(name)
		for _, state := range states {
			if has(wanted...)(state) == "" {
				found = state
				return ""
			}
		}
		if len(states) == 0 {
			return "it does not exist"
		}
		return workloadState(states[len(states)-1])
	})
	return found
}

// fixture is what test/workloads/testdata keeps of a moment, for tests without a cluster: objects as the
// API server served them, without managedFields.
type fixture struct {
	About            string                       `json:"about"`
	Kueue            string                       `json:"kueue"`
	Kubernetes       string                       `json:"kubernetes"`
	Workloads        []*unstructured.Unstructured `json:"workloads"`
	WorkloadsV1beta1 []*unstructured.Unstructured `json:"workloadsV1beta1,omitempty"`
	Pods             []*unstructured.Unstructured `json:"pods"`
	Owners           []*unstructured.Unstructured `json:"owners"`
}

// record writes a fixture of everything whose name contains a text: Workloads in both versions, Jobs (and
// further owners), Pods. It does so only with NUMAFIT_LAB_RECORD set, because every run has other uids and
// times.
func (k *kueueLab) record(t *testing.T, name, about, part string, owners ...*unstructured.Unstructured) {
	t.Helper()
	if os.Getenv("NUMAFIT_LAB_RECORD") == "" {
		return
	}
	old := workloadKind
	old.Version = "v1beta1"
	k.write(t, name, fixture{
		About: about, Workloads: k.objectsOf(t, workloadKind, part), WorkloadsV1beta1: k.objectsOf(t, old, part),
		Pods: k.objectsOf(t, podKind, part), Owners: append(k.objectsOf(t, jobKind, part), owners...),
	})
}

// recordState writes a fixture of a state that has passed: the Workload alone.
func (k *kueueLab) recordState(t *testing.T, name, about string, state *unstructured.Unstructured) {
	t.Helper()
	if os.Getenv("NUMAFIT_LAB_RECORD") == "" {
		return
	}
	k.write(t, name, fixture{About: about, Workloads: []*unstructured.Unstructured{state}})
}

func (k *kueueLab) write(t *testing.T, name string, f fixture) {
	t.Helper()
	f.Kueue = "v0.17.0"
	version, err := k.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	f.Kubernetes = version.GitVersion
	for _, objects := range []*[]*unstructured.Unstructured{&f.Workloads, &f.WorkloadsV1beta1, &f.Pods, &f.Owners} {
		copies := []*unstructured.Unstructured{} // not null in the file
		for _, object := range *objects {
			scrubbed := object.DeepCopy()
			scrubbed.SetManagedFields(nil)
			copies = append(copies, scrubbed)
		}
		*objects = copies
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(k.Root, "test", "workloads", "testdata", name+".json")
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
