package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

// The whole chain: an agent on each node reads what its real kubelet has and holds, writes its NodeReport
// with the identity that the manifests give it, and the extender judges by those reports alone.
//
// NUMAFIT_LAB_STORM is the number of Pods (300).
func TestReportsAreTheInventory(t *testing.T) {
	lab, _, _ := startReports(t)
	comeAndGo(t, lab, churn{pods: stormSize(t, 300)})
	checkForetold(t, lab)
}

// The same while extenders and agents are killed, and the API server is away for a while.
//
// NUMAFIT_LAB_STORM is the number of Pods (96), NUMAFIT_LAB_OUTAGE how many seconds the API server is
// away (8), NUMAFIT_LAB_KILL_KUBELETS=1 kills kubelets as well: a Pod that is bound in the moment in which
// its kubelet dies may be refused by the next one, whoever bound it.
func TestReportsOutliveWhoeverIsKilled(t *testing.T) {
	lab, agents, extender := startReports(t)
	hunt := &hunt{t: t, lab: lab, agents: agents, extender: extender}
	stop := hunt.start()
	pods := stormSize(t, 96)
	outage := time.Duration(numberFromEnvironment(t, "NUMAFIT_LAB_OUTAGE", 8)) * time.Second
	comeAndGo(t, lab, churn{pods: pods, excused: hunt.excuses, between: func(wave int) {
		if wave == pods/podsInAWave/2 {
			hunt.apiServerAway(outage)
		}
		if wave == pods/podsInAWave-1 {
			stop()
			awaitDevices(t, lab)
		}
	}})
	// An extender that has just started knows what one that has seen everything knows.
	seen := nodesOf(t)
	lab.KillExtender()
	if err := lab.StartExtenderOfReports(t.Context(), extender); err != nil {
		t.Fatal(err)
	}
	if rebuilt := nodesOf(t); !reflect.DeepEqual(seen, rebuilt) {
		t.Errorf("before: %v\nafter a fresh start: %v", seen, rebuilt)
	}
}

// A kubelet that is away gets no Pods: it would refuse them when it is back, because its device plugins
// have not registered yet.
func TestAKubeletThatIsAwayGetsNoPods(t *testing.T) {
	lab, _, _ := startReports(t)
	refusals := watchRefusals(t, lab)
	for _, node := range lab.Nodes() {
		node.StopKubelet()
	}
	eventually(t, 20*time.Second, "the agents to say that the kubelets are away", func() string {
		for _, node := range lab.Nodes() {
			if !isSaidToBeAway(t, lab, node.Name) {
				return node.Name + " is not said to be away"
			}
		}
		return ""
	})
	create(t, lab, newPod("patient", demand{gpus: 1, rdmas: 1}))
	eventually(t, 20*time.Second, "the Pod to be told why it waits", func() string {
		message := scheduledMessage(list(t, lab)["patient"])
		if !strings.Contains(message, "numafit: kubelet of this node does not answer") {
			return message
		}
		return ""
	})
	if err := lab.Nodes()[0].StartKubelet(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the Pod to run where a kubelet is back", func() string {
		return strings.TrimPrefix(podState(list(t, lab)["patient"]), "running/"+lab.Nodes()[0].Name)
	})
	for _, refused := range refusals() {
		t.Error(refused)
	}
}

// The garbage collector takes a report away with its Node. The agent goes on, and writes it again when its
// kubelet has registered anew.
func TestTheReportOfANodeThatIsGoneGoesToo(t *testing.T) {
	machines := fleetOf(t, "lab-storm.yaml")
	machines.Nodes = machines.Nodes[:2]
	lab, _, _ := startReportsOf(t, machines)
	if err := lab.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	stays, gone := lab.Nodes()[0], lab.Nodes()[1]
	counted := func(want float64) {
		t.Helper()
		eventually(t, 20*time.Second, "the extender to count it", func() string {
			metrics, err := lab.ExtenderMetrics(t.Context())
			if err != nil {
				return err.Error()
			}
			if got := metrics["numafit_fleet_nodes"]; got != want {
				return fmt.Sprintf("%v nodes instead of %v", got, want)
			}
			return ""
		})
	}
	counted(2)
	gone.StopKubelet()
	if err := lab.Client.CoreV1().Nodes().Delete(t.Context(), gone.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	isThere := func(name string) bool {
		_, err := lab.Client.CoreV1().RESTClient().Get().AbsPath(reportsPath, name).DoRaw(t.Context())
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	eventually(t, 60*time.Second, "the report to be removed", func() string {
		if isThere(gone.Name) {
			return "it is there"
		}
		return ""
	})
	counted(1)
	if !isThere(stays.Name) {
		t.Errorf("the report of %s is gone, too", stays.Name)
	}
	if err := gone.StartKubelet(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the agent to write it again, for the Node that is there now", func() string {
		node, err := lab.Client.CoreV1().Nodes().Get(t.Context(), gone.Name, meta.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !isThere(gone.Name) {
			return "there is none"
		}
		owners, _, err := unstructured.NestedSlice(getReport(t, lab, gone.Name), "metadata", "ownerReferences")
		if err != nil || len(owners) != 1 || owners[0].(map[string]any)["uid"] != string(node.UID) {
			return fmt.Sprintf("owners %v (%v) instead of %s", owners, err, node.UID)
		}
		return ""
	})
	counted(2)
}

func isSaidToBeAway(t *testing.T, lab *cluster.Cluster, node string) bool {
	t.Helper()
	text, err := lab.Client.CoreV1().RESTClient().Get().AbsPath(reportsPath + "/" + node).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Status struct {
			Kubelet struct{ Away bool }
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report.Status.Kubelet.Away
}

func stormSize(t *testing.T, fallback uint64) int {
	t.Helper()
	return int(numberFromEnvironment(t, "NUMAFIT_LAB_STORM", fallback))
}

// identity is what an agent is started with.
type identity struct{ kubeconfig, tokenFile string }

// startReports starts everything that an inventory from NodeReports needs, and returns the agents'
// identities by node and the extender's kubeconfig.
func startReports(t *testing.T) (*cluster.Cluster, map[string]identity, string) {
	t.Helper()
	return startReportsOf(t, fleetOf(t, "lab-storm.yaml"))
}

func startReportsOf(t *testing.T, machines *fleet.Fleet) (*cluster.Cluster, map[string]identity, string) {
	t.Helper()
	lab := startLab(t, cluster.Options{Fleet: machines})
	applyManifests(t, lab)
	agents := map[string]identity{}
	for _, node := range lab.Nodes() {
		kubeconfig, tokenFile, err := node.StartAgentOfManifests(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		agents[node.Name] = identity{kubeconfig, tokenFile}
	}
	eventually(t, 30*time.Second, "a report of every node", func() string {
		for _, node := range lab.Nodes() {
			path := reportsPath + "/" + node.Name
			if _, err := lab.Client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); err != nil {
				return err.Error()
			}
		}
		return ""
	})
	token := tokenOf(t, lab, "numafit-extender", &authentication.TokenRequest{})
	extender := tokenKubeconfig(t, lab, "extender-token", token)
	if err := lab.StartExtenderOfReports(t.Context(), extender); err != nil {
		t.Fatal(err)
	}
	if err := lab.StartScheduler(t.Context(), cluster.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
	return lab, agents, extender
}

// hunt kills somebody every second or two, and starts them again.
type hunt struct {
	t        *testing.T
	lab      *cluster.Cluster
	agents   map[string]identity
	extender string

	mu       sync.Mutex // held while somebody is being killed or started
	kubelets []kill
}

type kill struct {
	node string
	at   time.Time
}

// start returns what ends the hunt, and waits until nobody is being killed any more.
func (h *hunt) start() (stop func()) {
	told := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-told:
				failed <- nil
				return
			case <-time.After(time.Duration(1000+rand.IntN(1000)) * time.Millisecond):
			}
			if err := h.strike(i); err != nil {
				failed <- err
				return
			}
		}
	}()
	return func() {
		close(told)
		if err := <-failed; err != nil {
			h.t.Fatal(err)
		}
		h.t.Logf("%d kubelets were killed", len(h.kubelets))
	}
}

// awaitDevices waits until every Node says that it has the devices that its machine has. A kubelet that
// has just started says that it has none, and may take a quarter of a minute to say otherwise:
// kube-scheduler lets Pods wait until then.
func awaitDevices(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	eventually(t, time.Minute, "the Nodes to have their devices", func() string {
		for _, node := range lab.Nodes() {
			seen, err := lab.Client.CoreV1().Nodes().Get(t.Context(), node.Name, meta.GetOptions{})
			if err != nil {
				return err.Error()
			}
			for resource, devices := range node.Devices {
				allocatable := seen.Status.Allocatable[core.ResourceName(resource)]
				if allocatable.Value() != int64(len(devices)) {
					return fmt.Sprintf("%s has %d of %d %s", node.Name, allocatable.Value(), len(devices), resource)
				}
			}
		}
		return ""
	})
}

func (h *hunt) strike(i int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	nodes := h.lab.Nodes()
	node := nodes[rand.IntN(len(nodes))]
	kinds := 2
	if os.Getenv("NUMAFIT_LAB_KILL_KUBELETS") != "" {
		kinds = 3
	}
	switch i % kinds {
	case 0:
		h.lab.KillExtender()
		return h.lab.StartExtenderOfReports(h.t.Context(), h.extender)
	case 1:
		who := h.agents[node.Name]
		return node.StartAgent(who.kubeconfig, who.tokenFile) // kills the one that runs
	default:
		h.kubelets = append(h.kubelets, kill{node.Name, time.Now()})
		node.StopKubelet()
		return node.StartKubelet()
	}
}

func (h *hunt) apiServerAway(pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lab.StopAPIServer()
	time.Sleep(pause)
	if err := h.lab.StartAPIServer(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// excuses a Pod whose kubelet was killed after the bind, before it had admitted it, or so shortly before
// the bind that nobody could know. The next kubelet finds it without an allocation, and device plugins
// that have not registered yet. How long a kubelet takes to hear of a Pod is not ours: half a minute
// when the API server has been away.
func (h *hunt) excuses(r refusal) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, kill := range h.kubelets {
		if kill.node == r.node && r.bound.Sub(kill.at) < 2*time.Second && kill.at.Before(r.seen) {
			return true
		}
	}
	return false
}

// nodesOf is what the extender says of every node, but for how its clock differs from the agent's: that
// is measured when a report comes.
func nodesOf(t *testing.T) []map[string]any {
	t.Helper()
	response, err := http.Get("http://" + cluster.ReadAddress + "/v1/nodes")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Nodes []map[string]any }
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	for _, node := range answer.Nodes {
		delete(node, "clockAheadSeconds")
	}
	return answer.Nodes
}

// checkForetold asks the extender how its predictions compare with what the agents saw.
func checkForetold(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	metrics, err := lab.ExtenderMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	confirmed := metrics[`numafit_predictions_total{result="confirmed"}`]
	t.Logf("%.0f predictions came true; %.0f reports were applied", confirmed,
		metrics[`numafit_reports_total{result="applied"}`])
	if confirmed < 10 {
		t.Errorf("only %.0f predictions were compared", confirmed)
	}
	for _, name := range []string{
		`numafit_predictions_total{result="mismatch"}`, `numafit_reports_total{result="invalid"}`,
		`numafit_fleet_stale_nodes`,
	} {
		if metrics[name] != 0 {
			t.Errorf("%s is %.0f", name, metrics[name])
		}
	}
}
