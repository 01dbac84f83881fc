package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
	"numafit.io/test/lab/judge"
)

const (
	gpu  = "nvidia.com/gpu"
	rdma = "device.gpustack.ai/rdma"
)

// labFleet is the fleet that the tests run on: test/fleets/lab.yaml, or the file (also an expanded one)
// that NUMAFIT_LAB_FLEET names.
func labFleet(t *testing.T, root string) *fleet.Fleet {
	t.Helper()
	path := os.Getenv("NUMAFIT_LAB_FLEET")
	numafit := ""
	if path == "" {
		path = filepath.Join(root, "test", "fleets", "lab.yaml")
	}
	if !strings.HasSuffix(path, ".json") {
		var err error
		if numafit, err = fleet.FindNumafit(root); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := fleet.Load(path, numafit)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// fleetOf loads a file of test/fleets.
func fleetOf(t *testing.T, file string) *fleet.Fleet {
	t.Helper()
	root, err := cluster.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	numafit, err := fleet.FindNumafit(root)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := fleet.Load(filepath.Join(root, "test", "fleets", file), numafit)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// startLab starts a cluster for one test. When the test fails its files stay, and their place is named.
func startLab(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	root, err := cluster.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.CheckPrograms(root); err != nil {
		t.Fatal(err)
	}
	options.Root = root
	if options.Fleet == nil {
		options.Fleet = labFleet(t, root)
	}
	if options.Dir, err = os.MkdirTemp("", "numafit-lab-"); err != nil {
		t.Fatal(err)
	}
	options.Log = t.Logf
	begin := time.Now()
	lab, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatalf("%v\nits files: %s", err, options.Dir)
	}
	t.Logf("the lab is up after %.1f s", time.Since(begin).Seconds())
	t.Cleanup(func() {
		lab.Stop()
		if t.Failed() {
			t.Logf("logs and state of this test: %s", options.Dir)
			return
		}
		if err := os.RemoveAll(options.Dir); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// demand is one container's request.
type demand struct{ gpus, rdmas int }

// newPod is a Pod with one container per demand. CPU and memory are small: devices decide.
func newPod(name string, containers ...demand) *core.Pod {
	// Not 0: that would remove the object at once, while the kubelet still holds the devices.
	grace := int64(1)
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       core.PodSpec{TerminationGracePeriodSeconds: &grace, RestartPolicy: core.RestartPolicyNever},
	}
	for i, want := range containers {
		limits := core.ResourceList{
			core.ResourceCPU:    resource.MustParse("50m"),
			core.ResourceMemory: resource.MustParse("16Mi"),
		}
		for name, count := range map[string]int{gpu: want.gpus, rdma: want.rdmas} {
			if count > 0 {
				limits[core.ResourceName(name)] = *resource.NewQuantity(int64(count), resource.DecimalSI)
			}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, core.Container{
			Name: fmt.Sprintf("c%d", i), Image: "lab", Resources: core.ResourceRequirements{Limits: limits},
		})
	}
	return pod
}

func create(t *testing.T, lab *cluster.Cluster, pods ...*core.Pod) {
	t.Helper()
	for _, pod := range pods {
		if _, err := lab.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func list(t *testing.T, lab *cluster.Cluster) map[string]*core.Pod {
	t.Helper()
	pods, err := lab.Client.CoreV1().Pods("default").List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*core.Pod{}
	for i := range pods.Items {
		byName[pods.Items[i].Name] = &pods.Items[i]
	}
	return byName
}

// deleteAll removes every Pod and waits until no kubelet holds devices for one.
func deleteAll(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	zero := int64(0)
	err := lab.Client.CoreV1().Pods("default").DeleteCollection(t.Context(),
		meta.DeleteOptions{GracePeriodSeconds: &zero}, meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the kubelets to let go of all devices", func() string {
		if left := len(list(t, lab)); left > 0 {
			return fmt.Sprintf("%d Pods are left", left)
		}
		for _, node := range lab.Nodes() {
			if holdings := holdingsOf(t, node); len(holdings) > 0 {
				return fmt.Sprintf("%s still holds devices for %s", node.Name, holdings[0].Pod)
			}
		}
		return ""
	})
}

func holdingsOf(t *testing.T, node *cluster.Node) []judge.Holding {
	t.Helper()
	holdings, err := node.Holdings(t.Context())
	if err != nil {
		t.Fatalf("PodResources of %s: %v", node.Name, err)
	}
	return holdings
}

// eventually polls until check answers "", and fails with its last answer.
func eventually(t *testing.T, limit time.Duration, what string, check func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		answer := check()
		if answer == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s in vain for %s: %s", limit, what, answer)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// settle waits until the cluster is at rest: every Pod is Running, refused, or known to be
// unschedulable, and stays so for a while (a refused bind is tried again after a back-off).
func settle(t *testing.T, lab *cluster.Cluster, limit, quiet time.Duration) map[string]*core.Pod {
	t.Helper()
	deadline := time.Now().Add(limit)
	last, since := "", time.Now()
	for {
		pods := list(t, lab)
		state := stateOf(pods)
		if state != last {
			last, since = state, time.Now()
		}
		if time.Since(since) >= quiet && !strings.Contains(state, "=busy") {
			return pods
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cluster does not come to rest in %s:\n%s", limit, state)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func stateOf(pods map[string]*core.Pod) string {
	var words []string
	for name, pod := range pods {
		words = append(words, name+"="+podState(pod))
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}

func podState(pod *core.Pod) string {
	switch {
	case pod.Status.Phase == core.PodFailed:
		return "failed/" + pod.Status.Reason
	case pod.Status.Phase == core.PodRunning:
		return "running/" + pod.Spec.NodeName
	case pod.Status.Phase == core.PodPending && pod.Spec.NodeName == "":
		for _, condition := range pod.Status.Conditions {
			if condition.Type == core.PodScheduled && condition.Status == core.ConditionFalse &&
				condition.Reason == core.PodReasonUnschedulable {
				return "unschedulable"
			}
		}
	}
	return "busy"
}

// scheduledMessage is when and why the scheduler last gave up on a Pod.
func scheduledMessage(pod *core.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == core.PodScheduled {
			return condition.LastTransitionTime.Format(time.TimeOnly) + " " + condition.Message
		}
	}
	return "none"
}

func demandsOf(pod *core.Pod) []judge.Demand {
	var demands []judge.Demand
	for _, container := range pod.Spec.Containers {
		want := judge.Demand{}
		for _, name := range []string{gpu, rdma} {
			if quantity, ok := container.Resources.Limits[core.ResourceName(name)]; ok {
				want[name] = int(quantity.Value())
			}
		}
		demands = append(demands, want)
	}
	return demands
}

// checkAligned fails for every running container whose devices do not lie together, on nodes whose
// kubelet enforces it.
func checkAligned(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	seen := 0
	for _, node := range lab.Nodes() {
		for _, holding := range holdingsOf(t, node) {
			seen++
			if message := judge.Misaligned(node.Node, holding); message != "" && judge.Enforcing(node.Node) {
				t.Error(message)
			}
		}
	}
	if seen == 0 {
		t.Error("no kubelet reports any container: nothing was checked")
	}
}

// settlingText is the reason of a node whose kubelet may be in one state or another.
const settlingText = "numafit: earlier Pods have not shown yet where they landed"

// checkNoneKeptOut fails for every waiting Pod that some node could admit aligned now.
func checkNoneKeptOut(t *testing.T, lab *cluster.Cluster, pods map[string]*core.Pod) {
	t.Helper()
	keptOut(t, lab, pods, func(*core.Pod) bool { return false })
}

// checkNoneForgotten is checkNoneKeptOut for a cluster where Pods were deleted while others were on
// their way: where a Pod then landed cannot be known without somebody on the node, so a Pod may wait
// that was told just this. Any other answer beside free devices is wrong news that was never mended.
func checkNoneForgotten(t *testing.T, lab *cluster.Cluster, pods map[string]*core.Pod) {
	t.Helper()
	keptOut(t, lab, pods, func(pod *core.Pod) bool {
		return strings.Contains(scheduledMessage(pod), settlingText)
	})
}

func keptOut(t *testing.T, lab *cluster.Cluster, pods map[string]*core.Pod, excused func(*core.Pod) bool) {
	t.Helper()
	for _, node := range lab.Nodes() {
		free := judge.FreeDevices(node.Node, holdingsOf(t, node))
		for name, pod := range pods {
			if podState(pod) == "unschedulable" && !excused(pod) && judge.CanAlign(node.Node, free, demandsOf(pod)) {
				t.Errorf("%s waits (%+v), but %s could take it: free %v; its last answer was: %s",
					name, demandsOf(pod), node.Name, free, scheduledMessage(pod))
			}
		}
	}
}

func count(pods map[string]*core.Pod, prefix string) int {
	n := 0
	for _, pod := range pods {
		if strings.HasPrefix(podState(pod), prefix) {
			n++
		}
	}
	return n
}

// deleteSome removes n running Pods.
func deleteSome(t *testing.T, lab *cluster.Cluster, n int) {
	t.Helper()
	pods := list(t, lab)
	for _, name := range sortedNames(pods) {
		if n == 0 {
			return
		}
		if pods[name].Status.Phase != core.PodRunning {
			continue
		}
		n--
		if err := lab.Client.CoreV1().Pods("default").Delete(t.Context(), name, meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func sortedNames(pods map[string]*core.Pod) []string {
	names := make([]string, 0, len(pods))
	for name := range pods {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
