package tests

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"

	"numafit.io/test/lab/cluster"
)

// The whole chain: an agent on each node reads what its real kubelet has and holds, writes its NodeReport
// with the identity that the manifests give it, and the extender judges by those reports alone.
func TestReportsAreTheInventory(t *testing.T) {
	lab, _, _ := startReports(t)
	comeAndGo(t, lab, 8)
	checkForetold(t, lab)
}

// The same while extenders and agents are killed.
func TestReportsOutliveWhoeverIsKilled(t *testing.T) {
	lab, agents, extender := startReports(t)
	stop := make(chan struct{})
	failed := make(chan error, 1)
	go func() { failed <- killAround(t, lab, agents, extender, stop) }()
	comeAndGo(t, lab, 8)
	close(stop)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
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

// identity is what an agent is started with.
type identity struct{ kubeconfig, tokenFile string }

// startReports starts everything that an inventory from NodeReports needs, and returns the agents'
// identities by node and the extender's kubeconfig.
func startReports(t *testing.T) (*cluster.Cluster, map[string]identity, string) {
	t.Helper()
	lab := startLab(t, cluster.Options{})
	applyManifests(t, lab)
	agents := map[string]identity{}
	for _, node := range lab.Nodes() {
		token := agentToken(t, lab, node.Name)
		file := filepath.Join(lab.Dir, "agent-"+node.Name+".token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		who := identity{tokenKubeconfig(t, lab, "agent-"+node.Name, token), file}
		agents[node.Name] = who
		if err := node.StartAgent(who.kubeconfig, who.tokenFile); err != nil {
			t.Fatal(err)
		}
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

// killAround kills somebody every second or two, and starts them again, until told to stop.
func killAround(t *testing.T, lab *cluster.Cluster, agents map[string]identity, extender string, stop <-chan struct{}) error {
	nodes := lab.Nodes()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-time.After(time.Duration(1000+rand.IntN(1000)) * time.Millisecond):
		}
		var err error
		if i%2 == 0 {
			lab.KillExtender()
			err = lab.StartExtenderOfReports(t.Context(), extender)
		} else {
			node := nodes[rand.IntN(len(nodes))]
			who := agents[node.Name]
			err = node.StartAgent(who.kubeconfig, who.tokenFile) // kills the one that runs
		}
		if err != nil {
			return err
		}
	}
}

// nodesOf is what the extender says of every node.
func nodesOf(t *testing.T) any {
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
	var nodes any
	if err := json.Unmarshal(body, &nodes); err != nil {
		t.Fatal(err)
	}
	return nodes
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
