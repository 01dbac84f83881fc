package tests

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"

	"numafit.io/test/lab/cluster"
)

// The whole chain: an agent on each node reads what its real kubelet has and holds, writes its NodeReport
// with the identity that the manifests give it, and the extender judges by those reports alone.
func TestReportsAreTheInventory(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	applyManifests(t, lab)
	startAgents(t, lab)
	startNumafitOfReports(t, lab)
	comeAndGo(t, lab, 8)
	checkForetold(t, lab)
}

// startAgents starts an agent on every node, as the DaemonSet of the manifests would.
func startAgents(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	for _, node := range lab.Nodes() {
		token := agentToken(t, lab, node.Name)
		file := filepath.Join(lab.Dir, "agent-"+node.Name+".token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		kubeconfig := tokenKubeconfig(t, lab, "agent-"+node.Name, token)
		if err := node.StartAgent(kubeconfig, file); err != nil {
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
}

func startNumafitOfReports(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	token := tokenOf(t, lab, "numafit-extender", &authentication.TokenRequest{})
	kubeconfig := tokenKubeconfig(t, lab, "extender-token", token)
	if err := lab.StartExtenderOfReports(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	if err := lab.StartScheduler(t.Context(), cluster.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
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
