package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

const (
	ownNode   = "gpu-a-012"
	otherNode = "gpu-a-017"
)

// report is a small report of a node.
func report(node string, generation, free int) string {
	return fmt.Sprintf(`{"apiVersion": "numafit.io/v1alpha1", "kind": "NodeReport", "metadata": {"name": %q},
		"status": {"bootId": "b", "generation": %d, "observedTime": "2026-11-29T22:25:50Z",
			"kubelet": {"version": "v1.36.3", "topologyManagerPolicy": "single-numa-node",
				"topologyManagerScope": "pod", "cpuManagerPolicy": "none", "memoryManagerPolicy": "None",
				"featureGates": {"A": true}},
			"numaNodes": [{"memory": "1024"}, {"id": 1}],
			"resources": [{"name": "nvidia.com/gpu", "groups": [{"numaNodes": [0], "count": 4}]},
				{"name": "device.gpustack.ai/rdma", "groups": [{"numaNodes": [0], "count": 4}]}],
			"summary": {"accelerators": "%d/4", "endpoints": "2/4"}}}`, node, generation, free)
}

// TestManifests installs deploy/manifests into a real API server and uses it with the identities that
// they make, and with our own client.
func TestManifests(t *testing.T) {
	lab := startLab(t, cluster.Options{NoKubelets: true, Fleet: &fleet.Fleet{}})
	makeNode(t, lab, ownNode, 8)
	makeNode(t, lab, otherNode, 8)
	admin := lab.Kubeconfig()
	// Before the definition is there: a watch that waits for it.
	early := follow(t, lab, admin, "watch-reports")
	early.await(t, "state NOT_FOUND")
	applyManifests(t, lab)
	agent := tokenKubeconfig(t, lab, "agent", agentToken(t, lab, ownNode))
	extender := tokenKubeconfig(t, lab, "numafit-extender",
		tokenOf(t, lab, "numafit-extender", &authentication.TokenRequest{}))

	t.Run("an agent writes its own report", func(t *testing.T) { checkOwnReport(t, lab, agent) })
	t.Run("and no other", func(t *testing.T) { checkOtherReport(t, lab, agent) })
	t.Run("the schema refuses what cannot be", func(t *testing.T) { checkSchema(t, lab, agent) })
	t.Run("kubectl get shows the columns", func(t *testing.T) { checkColumns(t, lab) })
	t.Run("watches follow", func(t *testing.T) { checkWatches(t, lab, extender, early) })
	t.Run("the extender's rights suffice", func(t *testing.T) { checkExtenderCalls(t, lab, extender) })
	t.Run("and serve for nothing but annotations", func(t *testing.T) { checkExtenderPatches(t, lab) })
	t.Run("the extender runs with them", func(t *testing.T) { checkRealExtender(t, lab, extender) })
	t.Run("nobody has more", func(t *testing.T) { checkRights(t, lab) })
}

func checkOwnReport(t *testing.T, lab *cluster.Cluster, agent string) {
	for _, generation := range []int{1, 2, 2} {
		if answer := probe(t, lab, agent, report(ownNode, generation, 3), "apply-report"); answer != "OK" {
			t.Fatalf("generation %d: %s", generation, answer)
		}
	}
	if answer := probe(t, lab, agent, "", "get-report", ownNode); answer != "OK" {
		t.Error(answer)
	}
	// What the API server keeps is what was written: its schema knows every field.
	stored := getReport(t, lab, ownNode)
	written := map[string]any{}
	if err := json.Unmarshal([]byte(report(ownNode, 2, 3)), &written); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(stored["status"]), fmt.Sprint(written["status"]); got != want {
		t.Errorf("stored %s\nwritten %s", got, want)
	}
	answer := probe(t, lab, agent, report(ownNode, 1, 1), "apply-report")
	if !strings.HasPrefix(answer, "ABORTED: ") || !strings.Contains(answer, "generation 2 of this boot") {
		t.Errorf("an older generation: %s", answer)
	}
}

func getReport(t *testing.T, lab *cluster.Cluster, name string) map[string]any {
	t.Helper()
	raw, err := lab.Client.CoreV1().RESTClient().Get().AbsPath(reportsPath, name).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func checkOtherReport(t *testing.T, lab *cluster.Cluster, agent string) {
	refused := func(kubeconfig, node, why string) {
		t.Helper()
		answer := probe(t, lab, kubeconfig, report(node, 9, 4), "apply-report")
		if !strings.HasPrefix(answer, "PERMISSION_DENIED: ") || !strings.Contains(answer, why) {
			t.Errorf("the report of %s: %s", node, answer)
		}
	}
	why := fmt.Sprintf("the agent on node %q may not write the report of node %q", ownNode, otherNode)
	refused(agent, otherNode, why)
	// Neither to create nor to change it.
	other := tokenKubeconfig(t, lab, "other-agent", agentToken(t, lab, otherNode))
	if answer := probe(t, lab, other, report(otherNode, 1, 4), "apply-report"); answer != "OK" {
		t.Fatal(answer)
	}
	refused(agent, otherNode, why)
	if generation := getReport(t, lab, otherNode)["status"].(map[string]any)["generation"]; generation != 1.0 {
		t.Errorf("generation %v is stored", generation)
	}
	anywhere := tokenKubeconfig(t, lab, "agent-anywhere", agentToken(t, lab, ""))
	refused(anywhere, ownNode, "the agent's token names no node")
	// Nor under its own name: the body says whose it is, too.
	body := strings.Replace(report(ownNode, 9, 3), `"bootId"`, fmt.Sprintf(`"nodeName": %q, "bootId"`, otherNode), 1)
	answer := probe(t, lab, agent, body, "apply-report")
	if !strings.HasPrefix(answer, "PERMISSION_DENIED: ") ||
		!strings.Contains(answer, fmt.Sprintf("the agent on node %q may not write a report of node %q", ownNode, otherNode)) {
		t.Errorf("a body of another node: %s", answer)
	}
	body = strings.Replace(body, otherNode, ownNode, 1)
	if answer := probe(t, lab, agent, body, "apply-report"); answer != "OK" {
		t.Errorf("a body of its own node: %s", answer)
	}
	// Whoever is no agent and has the right is not held back.
	if answer := probe(t, lab, lab.Kubeconfig(), report(otherNode, 2, 4), "apply-report"); answer != "OK" {
		t.Error(answer)
	}
}

func checkSchema(t *testing.T, lab *cluster.Cluster, agent string) {
	for from, to := range map[string]string{
		`"count": 4`:                "count",
		`"id": 1`:                   "id",
		`"memory": "1024"`:          "memory",
		`"2026-11-29T22:25:50Z"`:    "observedTime",
		`"version": "v1.36.3"`:      "version",
		`"resources": [{"name": "n`: "groups",
	} {
		bad := map[string]string{
			"count": `"count": -1`, "id": `"id": 64`, "memory": `"memory": "-1"`, "observedTime": `"yesterday"`,
			"version": `"version": "` + strings.Repeat("v", 254) + `"`,
			"groups":  `"resources": [{"name": "x", "groups": [` + strings.Repeat("{},", 4096) + `{}]}, {"name": "n`,
		}[to]
		text := strings.Replace(report(ownNode, 20, 3), from, bad, 1)
		if !strings.Contains(text, bad) {
			t.Fatalf("%q is not in the report", from)
		}
		answer := probe(t, lab, agent, text, "apply-report")
		if !strings.HasPrefix(answer, "INVALID_ARGUMENT: ") || !strings.Contains(answer, "status.") ||
			!strings.Contains(answer, to) {
			t.Errorf("%s: %s", bad[:min(len(bad), 60)], answer)
		}
	}
}

func checkColumns(t *testing.T, lab *cluster.Cluster) {
	raw, err := lab.Client.CoreV1().RESTClient().Get().AbsPath(reportsPath, ownNode).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := meta.Table{}
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		shown[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	for name, want := range map[string]string{
		"Name": ownNode, "Policy": "single-numa-node", "Scope": "pod", "Accelerators": "3/4", "Endpoints": "2/4",
		"Kubelet": "v1.36.3",
	} {
		if shown[name] != want {
			t.Errorf("column %s shows %q instead of %q", name, shown[name], want)
		}
	}
	for _, name := range []string{"Changed", "Age"} {
		if shown[name] == "" || strings.Contains(shown[name], "<") {
			t.Errorf("column %s shows %q", name, shown[name])
		}
	}
}

// checkWatches: what our client delivers from a real API server, through a restart of it.
func checkWatches(t *testing.T, lab *cluster.Cluster, extender string, early *follower) {
	early.await(t, "state OK")
	early.await(t, "put "+ownNode+" generation=2")
	nodes := follow(t, lab, extender, "watch-nodes")
	reports := follow(t, lab, extender, "watch-reports")
	if line := nodes.await(t, "item "+ownNode); !strings.Contains(line, gpu+"=8") || !strings.Contains(line, "Ready=True") {
		t.Error(line)
	}
	nodes.await(t, "list 2")
	reports.await(t, "list 2")
	lab.StopAPIServer()
	nodes.await(t, "state UNAVAILABLE")
	reports.await(t, "state UNAVAILABLE")
	if err := lab.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Back where they were, or with a new list: that is for the API server to say.
	nodes.await(t, "state OK")
	reports.await(t, "state OK")
	makeNode(t, lab, "gone-soon", 1)
	nodes.await(t, "put gone-soon", "item gone-soon")
	if err := lab.Client.CoreV1().Nodes().Delete(t.Context(), "gone-soon", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	nodes.await(t, "del gone-soon")
	write := func(text string) {
		t.Helper()
		answer := ""
		// The API server's controllers need a moment after its restart.
		eventually(t, 20*time.Second, "the report to be written", func() string {
			answer = probe(t, lab, lab.Kubeconfig(), text, "apply-report")
			return strings.TrimPrefix(answer, "OK")
		})
	}
	write(report("gone-soon", 1, 4))
	reports.await(t, "put gone-soon generation=1", "item gone-soon generation=1")
	// Well-formed for the schema, and nonsense: two NUMA nodes with one id.
	write(strings.Replace(report("gone-soon", 2, 4), `{"id": 1}`, `{"id": 0}`, 1))
	if line := reports.await(t, "put gone-soon problem="); !strings.Contains(line, "status.numaNodes[1].id: 0 is that of") {
		t.Error(line)
	}
	if err := lab.Client.CoreV1().RESTClient().Delete().AbsPath(reportsPath, "gone-soon").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	reports.await(t, "del gone-soon")
}

func makePod(t *testing.T, lab *cluster.Cluster, name string) *core.Pod {
	t.Helper()
	created, err := lab.Client.CoreV1().Pods("default").Create(t.Context(), newPod(name, demand{1, 1}), meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// checkExtenderCalls makes every call that the extender makes.
func checkExtenderCalls(t *testing.T, lab *cluster.Cluster, extender string) {
	pod := makePod(t, lab, "asks")
	uid := string(pod.UID)
	for _, words := range [][]string{
		{"get-pod", "default", "asks"},
		{"annotate-pod", "default", "asks", uid, "numafit.io/woken", "1"},
		{"bind", "default", "asks", uid, ownNode},
		{"event", "Pod", "default", "asks", uid, "DevicesMisaligned", "as a test says"},
		{"event", "Node", "-", ownNode, ownNode, "NodeTested", "as a test says"},
	} {
		if answer := probe(t, lab, extender, "", words...); answer != "OK" {
			t.Errorf("%v: %s", words, answer)
		}
	}
	follow(t, lab, extender, "watch-pods").await(t, "item default/asks node="+ownNode)
	// As kubectl describe asks for them.
	for namespace, selector := range map[string]string{
		"default": "involvedObject.uid=" + uid, "": "involvedObject.kind=Node,involvedObject.uid=" + ownNode,
	} {
		events, err := lab.Client.CoreV1().Events(namespace).List(t.Context(), meta.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		if len(events.Items) != 1 || events.Items[0].Message != "as a test says" || events.Items[0].Type != "Warning" {
			t.Errorf("%s: %v", selector, events.Items)
		}
	}
}

// checkExtenderPatches: a right to patch, held to annotations of ours.
func checkExtenderPatches(t *testing.T, lab *cluster.Cluster) {
	client := clientOf(t, lab, tokenOf(t, lab, "numafit-extender", &authentication.TokenRequest{}))
	pod := makePod(t, lab, "patched")
	patchAs := func(who kubernetes.Interface, patch string) error {
		_, err := who.CoreV1().Pods("default").Patch(t.Context(), pod.Name, types.MergePatchType, []byte(patch), meta.PatchOptions{})
		return err
	}
	for _, good := range []string{
		`{"metadata": {"annotations": {"numafit.io/woken": "1"}}}`, `{"metadata": {"annotations": {"numafit.io/woken": null}}}`,
	} {
		if err := patchAs(client, good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		`{"metadata": {"annotations": {"example.com/a": "1"}}}`,
		`{"metadata": {"labels": {"a": "b"}}}`,
		`{"metadata": {"finalizers": ["example.com/a"]}}`,
		`{"spec": {"activeDeadlineSeconds": 5}}`,
	} {
		err := patchAs(client, bad)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the extender ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// Whoever else has the right is not held back.
	if err := patchAs(lab.Client, `{"metadata": {"annotations": {"example.com/a": "1"}}}`); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"null", `"2"`} {
		if err := patchAs(client, `{"metadata": {"annotations": {"example.com/a": `+bad+`}}}`); !apierrors.IsForbidden(err) {
			t.Errorf("another's annotation was made %s: %v", bad, err)
		}
	}
}

// checkRealExtender starts numafit-extender itself with the service account's token and the configuration
// of the manifests.
func checkRealExtender(t *testing.T, lab *cluster.Cluster, extender string) {
	config, err := lab.Client.CoreV1().ConfigMaps(numafitNamespace).Get(t.Context(), "numafit-extender", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(lab.Dir, "extender.yaml")
	if err := os.WriteFile(file, []byte(config.Data["extender.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lab.StartExtenderOfReports(t.Context(), extender, "--config", file); err != nil {
		t.Fatal(err)
	}
	defer lab.StopExtender()
	address, err := cluster.ExtenderAddress(lab.TrialConfig())
	if err != nil {
		t.Fatal(err)
	}
	pod := makePod(t, lab, "bound-by-extender")
	answer := postJSON(t, "http://"+address+"/bind", fmt.Sprintf(
		`{"PodName": %q, "PodNamespace": "default", "PodUID": %q, "Node": %q}`, pod.Name, pod.UID, ownNode))
	if !strings.Contains(answer, `"Error":""`) {
		t.Fatal(answer)
	}
	if node := list(t, lab)[pod.Name].Spec.NodeName; node != ownNode {
		t.Errorf("the Pod is on %q", node)
	}
}

// checkRights: exactly these. A right that is added to the manifests has to be added here, with who
// uses it.
func checkRights(t *testing.T, lab *cluster.Cluster) {
	for account, want := range map[string][]string{
		"numafit-agent": {
			"create nodereports.numafit.io", "get nodereports.numafit.io", "update nodereports.numafit.io", // its report
			"get nodes/configz", // the kubelet's configuration
			"get nodes",         // its version
		},
		"numafit-extender": {
			"list nodereports.numafit.io", "watch nodereports.numafit.io", // inventory
			"list nodes", "watch nodes", // state
			"list workloads.kueue.x-k8s.io", "watch workloads.kueue.x-k8s.io", // those that cannot be placed
			// quotas, the nodes that they are for, and checks
			"list clusterqueues.kueue.x-k8s.io", "watch clusterqueues.kueue.x-k8s.io",
			"list resourceflavors.kueue.x-k8s.io", "watch resourceflavors.kueue.x-k8s.io",
			"list admissionchecks.kueue.x-k8s.io", "watch admissionchecks.kueue.x-k8s.io",
			"get pods", "list pods", "watch pods", "patch pods", // binds; state; waking one Pod
			"create pods/binding", "create events.events.k8s.io",
		},
	} {
		sort.Strings(want)
		token := tokenOf(t, lab, account, &authentication.TokenRequest{})
		if got := rightsOf(t, lab, token); !slices.Equal(got, want) {
			t.Errorf("%s may %q\nexpected %q", account, got, want)
		}
		for _, right := range []authorization.ResourceAttributes{
			{Verb: "delete", Group: "numafit.io", Resource: "nodereports"},
			{Verb: "get", Resource: "secrets", Namespace: "kube-system"},
			{Verb: "get", Resource: "nodes", Subresource: "proxy"},
			{Verb: "create", Resource: "pods", Namespace: "default"},
			{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: "default"},
			{Verb: "delete", Resource: "pods", Namespace: "default"},
			{Verb: "patch", Resource: "pods", Subresource: "status", Namespace: "default"},
			{Verb: "patch", Resource: "nodes", Subresource: "status"},
			{Verb: "delete", Resource: "nodes"},
			{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: numafitNamespace},
			{Verb: "update", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
			{Verb: "update", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
			{Verb: "*", Group: "*", Resource: "*"},
		} {
			review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + numafitNamespace + ":" + account,
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + numafitNamespace, "system:authenticated"},
				ResourceAttributes: &right,
			}}
			answer, err := lab.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, meta.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Status.Allowed {
				t.Errorf("%s may %+v", account, right)
			}
		}
	}
}

func clientOf(t *testing.T, lab *cluster.Cluster, token string) kubernetes.Interface {
	t.Helper()
	config := rest.AnonymousClientConfig(lab.Config)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// rightsOf lists what a token may do with resources, beside what everybody may: "verb resource.group".
func rightsOf(t *testing.T, lab *cluster.Cluster, token string) []string {
	t.Helper()
	review, err := clientOf(t, lab, token).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorization.SelfSubjectRulesReview{Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: "default"}},
		meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if review.Status.Incomplete {
		t.Logf("the list of rights is incomplete: %s", review.Status.EvaluationError)
	}
	var rights []string
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			// Everybody may ask who he is and what he may do.
			if group == "authorization.k8s.io" || group == "authentication.k8s.io" {
				continue
			}
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, strings.TrimSuffix(verb+" "+resource+"."+group, "."))
				}
			}
		}
	}
	sort.Strings(rights)
	return slices.Compact(rights)
}
