package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

const (
	topologiesPath = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
	// test/lab/build.sh puts it into Go's module cache.
	topologyModule = "github.com/k8stopologyawareschedwg/noderesourcetopology-api@v0.1.2"
)

// A node without an agent is judged by what NFD's topology-updater or RTE say of it, and by that alone
// until there is a report.
func TestNodeResourceTopologyIsASecondSource(t *testing.T) {
	lab := startLab(t, cluster.Options{NoKubelets: true, Fleet: &fleet.Fleet{}})
	makeCountedNode(t, lab, ownNode)
	applyManifests(t, lab)
	allowTopologies(t, lab)
	extender := tokenKubeconfig(t, lab, "numafit-extender",
		tokenOf(t, lab, "numafit-extender", &authentication.TokenRequest{}))
	// Before the definition is there it is ready all the same.
	if err := lab.StartExtenderOfReports(t.Context(), extender, "--node-resource-topology"); err != nil {
		t.Fatal(err)
	}
	installTopologies(t, lab)
	putTopology(t, lab, ownNode, 3, 1)
	// Until the extender has tried again.
	eventually(t, 60*time.Second, "the node to be known by its counts", func() string {
		return wantSource(t, ownNode, "counts")
	})
	checkSources(t, lab, map[string]float64{"counts": 1, "reports": 0})
	if err := lab.StartScheduler(t.Context(), cluster.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}

	create(t, lab, newPod("four", demand{gpus: 4}))
	eventually(t, 30*time.Second, "four to be refused", func() string {
		message := scheduledMessage(list(t, lab)["four"])
		if !strings.Contains(message, "enough is free but not together on one NUMA node") {
			return message
		}
		return ""
	})
	create(t, lab, newPod("three", demand{gpus: 3}))
	waitUntilBound(t, lab, "three")
	if list(t, lab)["four"].Spec.NodeName != "" {
		t.Fatal("four is bound")
	}
	explained := postJSON(t, "http://"+cluster.ReadAddress+"/v1/explain", podJSON(t, list(t, lab)["four"]))
	if !strings.Contains(explained, "counts only, from NodeResourceTopology") {
		t.Error(explained)
	}

	// The publisher has seen three, and somebody has left.
	putTopology(t, lab, ownNode, 0, 4)
	waitUntilBound(t, lab, "four")

	// Counts have no adapter left; a report knows of some.
	deleteBound(t, lab, "three", "four")
	putTopology(t, lab, ownNode, 4, 4)
	create(t, lab, newPod("both", demand{gpus: 4, rdmas: 4}))
	eventually(t, 30*time.Second, "both to be refused", func() string {
		message := scheduledMessage(list(t, lab)["both"])
		if !strings.Contains(message, "numafit: ") {
			return message
		}
		return ""
	})
	if answer := probe(t, lab, lab.Kubeconfig(), report(ownNode, 1, 4), "apply-report"); answer != "OK" {
		t.Fatal(answer)
	}
	waitUntilBound(t, lab, "both")
	checkSources(t, lab, map[string]float64{"counts": 0, "reports": 1})
	if _, err := lab.Client.CoreV1().RESTClient().Delete().AbsPath(reportsPath, ownNode).DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the counts to be used again", func() string {
		return wantSource(t, ownNode, "counts")
	})
}

// makeCountedNode makes a Ready Node with 8 GPUs and 4 adapters.
func makeCountedNode(t *testing.T, lab *cluster.Cluster, name string) {
	t.Helper()
	resources := core.ResourceList{
		core.ResourceCPU: resource.MustParse("100"), core.ResourceMemory: resource.MustParse("100Gi"),
		core.ResourcePods: resource.MustParse("1000"), gpu: resource.MustParse("8"), rdma: resource.MustParse("4"),
	}
	node := &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Status: core.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}},
			NodeInfo:   core.NodeSystemInfo{KubeletVersion: "v1.36.3"},
		},
	}
	if _, err := lab.Client.CoreV1().Nodes().Create(t.Context(), node, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// allowTopologies gives the extender the right that the manifests have as a comment.
func allowTopologies(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(lab.Root, "deploy", "manifests", "extender-rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	found := false
	for i, line := range lines {
		if strings.HasPrefix(line, "# - apiGroups: [topology.node.k8s.io]") || (found && strings.HasPrefix(line, "#   ")) {
			lines[i] = strings.TrimPrefix(line, "# ")
			found = true
		}
	}
	if !found {
		t.Fatal("extender-rbac.yaml has no rule for topology.node.k8s.io")
	}
	file := filepath.Join(lab.Dir, "extender-rbac.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	apply(t, lab, file)
}

func apply(t *testing.T, lab *cluster.Cluster, file string) {
	t.Helper()
	kubectl := exec.Command(cluster.Program(lab.Root, "kubectl"), "--kubeconfig", lab.Kubeconfig(), "apply", "-f", file)
	if output, err := kubectl.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, output)
	}
}

// installTopologies installs the definition as its project publishes it.
func installTopologies(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(cache)), topologyModule, "manifests", "crd.yaml")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v (test/lab/build.sh downloads it)", err)
	}
	apply(t, lab, file)
	eventually(t, 20*time.Second, "the API server to serve NodeResourceTopologies", func() string {
		if _, err := lab.Client.CoreV1().RESTClient().Get().AbsPath(topologiesPath).DoRaw(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// putTopology says how many of 4 GPUs are free on each of two NUMA nodes. The 4 adapters of NUMA node 0
// are in use.
func putTopology(t *testing.T, lab *cluster.Cluster, node string, free0, free1 int) {
	t.Helper()
	count := func(name string, all, free int) map[string]any {
		return map[string]any{
			"name": name, "capacity": fmt.Sprint(all), "allocatable": fmt.Sprint(all), "available": fmt.Sprint(free),
		}
	}
	object := map[string]any{
		"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
		"metadata": map[string]any{"name": node},
		"attributes": []any{
			map[string]any{"name": "topologyManagerPolicy", "value": "single-numa-node"},
			map[string]any{"name": "topologyManagerScope", "value": "pod"},
		},
		"zones": []any{
			map[string]any{"name": "node-0", "type": "Node", "resources": []any{count(gpu, 4, free0), count(rdma, 4, 0)}},
			map[string]any{"name": "node-1", "type": "Node", "resources": []any{count(gpu, 4, free1)}},
		},
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	client := lab.Client.CoreV1().RESTClient()
	stored, err := client.Get().AbsPath(topologiesPath, node).DoRaw(t.Context())
	if err != nil {
		if _, err := client.Post().AbsPath(topologiesPath).SetHeader("Content-Type", "application/json").
			Body(text).DoRaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	old := struct{ Metadata meta.ObjectMeta }{}
	if err := json.Unmarshal(stored, &old); err != nil {
		t.Fatal(err)
	}
	object["metadata"].(map[string]any)["resourceVersion"] = old.Metadata.ResourceVersion
	if text, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put().AbsPath(topologiesPath, node).SetHeader("Content-Type", "application/json").
		Body(text).DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantSource is empty when the extender knows the node by this source.
func wantSource(t *testing.T, node, want string) string {
	t.Helper()
	nodes := nodesOf(t)
	for _, entry := range nodes {
		if entry["name"] == node && entry["report"] == want {
			return ""
		}
	}
	return fmt.Sprint(nodes)
}

func checkSources(t *testing.T, lab *cluster.Cluster, want map[string]float64) {
	t.Helper()
	metrics, err := lab.ExtenderMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for source, nodes := range want {
		name := fmt.Sprintf("numafit_fleet_nodes_by_source{source=%q}", source)
		if got, ok := metrics[name]; !ok || got != nodes {
			t.Errorf("%s is %v, expected %v", name, got, nodes)
		}
	}
}

func waitUntilBound(t *testing.T, lab *cluster.Cluster, name string) {
	t.Helper()
	eventually(t, 30*time.Second, name+" to be bound", func() string {
		pod := list(t, lab)[name]
		if pod.Spec.NodeName == "" {
			return scheduledMessage(pod)
		}
		return ""
	})
}

// deleteBound removes Pods of which no kubelet knows.
func deleteBound(t *testing.T, lab *cluster.Cluster, names ...string) {
	t.Helper()
	now := int64(0)
	for _, name := range names {
		if err := lab.Client.CoreV1().Pods("default").Delete(t.Context(), name, meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
	}
}

func podJSON(t *testing.T, pod *core.Pod) string {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
