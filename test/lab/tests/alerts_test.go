package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"numafit.io/test/lab/cluster"
)

// A real Prometheus scrapes the real extender and judges by the rules that people get. Somebody has
// changed the policy of the kubelets and not the fleet file, so that numafit lets a Pod in which its
// kubelet refuses: that alert fires and no other, and ends when the file is mended. The same for an
// extender that is gone.
func TestAlertsFireAndResolve(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	right := lab.Fleet.Path
	lab.Fleet.Path = outdatedFleet(t, lab)
	startNumafit(t, lab)
	prometheus, err := lab.StartPrometheus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prometheus.Stop)
	awaitScrapes(t, prometheus)
	checkRules(t, prometheus)
	awaitAlerts(t, prometheus)
	checkDashboard(t, lab, prometheus)

	create(t, lab, on("lab-a", newPod("crossing", demand{6, 6})))
	eventually(t, 30*time.Second, "the kubelet to refuse the Pod", func() string {
		if state := podState(list(t, lab)["crossing"]); state != "failed/TopologyAffinityError" {
			return state
		}
		return ""
	})
	alert := awaitAlerts(t, prometheus, "NumafitKubeletRefusesPods")[0]
	if alert.Labels["reason"] != "TopologyAffinityError" || alert.Labels["severity"] != "warning" ||
		!strings.Contains(alert.Annotations["description"], "TopologyAffinityError: about 1 in 15 minutes") {
		t.Errorf("labels %v, annotations %v", alert.Labels, alert.Annotations)
	}
	page := filepath.Join(lab.Root, alert.Annotations["runbook_url"])
	if _, err := os.Stat(page); err != nil {
		t.Error(err)
	}

	lab.Fleet.Path = right
	if err := lab.StartExtender(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitAlerts(t, prometheus)

	lab.KillExtender()
	down := awaitAlerts(t, prometheus, "NumafitExtenderDown")[0]
	if down.Labels["instance"] != cluster.ReadAddress || down.Labels["severity"] != "critical" {
		t.Errorf("labels %v", down.Labels)
	}
	if err := lab.StartExtender(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitAlerts(t, prometheus)
}

// outdatedFleet writes the lab's fleet file as it was before its kubelets held to one NUMA node.
func outdatedFleet(t *testing.T, lab *cluster.Cluster) string {
	t.Helper()
	text, err := os.ReadFile(lab.Fleet.Path)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(lab.Dir, "outdated-"+filepath.Base(lab.Fleet.Path))
	text = bytes.ReplaceAll(text, []byte("single-numa-node"), []byte("none"))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// awaitScrapes waits until the extender was scraped often enough for a rise of its counters to be seen.
func awaitScrapes(t *testing.T, prometheus *cluster.Prometheus) {
	t.Helper()
	eventually(t, 30*time.Second, "some scrapes", func() string {
		series, err := prometheus.Scraped(t.Context(), "numafit_kubelet_refusals_total")
		if err != nil {
			t.Fatal(err)
		}
		if series == 0 {
			return "none yet"
		}
		return ""
	})
}

// checkRules waits until every rule was evaluated, and fails for those that cannot be.
func checkRules(t *testing.T, prometheus *cluster.Prometheus) {
	t.Helper()
	eventually(t, 30*time.Second, "all rules to be evaluated", func() string {
		rules, problems, err := prometheus.Rules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rules == 0 {
			return "there are none"
		}
		return strings.Join(problems, "\n")
	})
}

// checkDashboard fails for panels that Prometheus cannot answer; those of a cluster without Kueue, and of
// what has not happened yet, are empty.
func checkDashboard(t *testing.T, lab *cluster.Cluster, prometheus *cluster.Prometheus) {
	t.Helper()
	series, err := prometheus.Dashboard(t.Context(), lab.Root)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, count := range series {
		if count > 0 {
			shown++
		}
	}
	t.Logf("%d of %d queries of the dashboard have an answer", shown, len(series))
	if shown < 10 {
		t.Errorf("only %d: %v", shown, series)
	}
}

// awaitAlerts waits until exactly these alerts fire, and returns them.
func awaitAlerts(t *testing.T, prometheus *cluster.Prometheus, want ...string) []cluster.Alert {
	t.Helper()
	var firing []cluster.Alert
	begin := time.Now()
	eventually(t, 90*time.Second, fmt.Sprintf("alerts %v", want), func() string {
		var err error
		if firing, err = prometheus.Firing(t.Context()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, alert := range firing {
			names = append(names, alert.Labels["alertname"])
		}
		if !slices.Equal(names, want) {
			return fmt.Sprintf("firing: %v", names)
		}
		return ""
	})
	t.Logf("alerts %v after %.1f s", want, time.Since(begin).Seconds())
	return firing
}
