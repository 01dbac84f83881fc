package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

// flagged is what the extender says of one Workload.
type flagged struct {
	Namespace, Name, ClusterQueue, Phase, Cause, Why, Nearest, PinnedNode string

	Accelerators int
	Pods         map[string]int
	Resources    []struct {
		Resource     string
		Wanted, Free int
	}
}

// workloadsOf asks the extender's read API; by the Job's name.
func workloadsOf(t *testing.T, query string) map[string]flagged {
	t.Helper()
	response, err := http.Get("http://" + cluster.ReadAddress + "/v1/workloads" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Workloads []flagged }
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	byJob := map[string]flagged{}
	for _, each := range answer.Workloads {
		// job-NAME-5HEX
		name := strings.TrimPrefix(each.Name, "job-")
		if cut := strings.LastIndex(name, "-"); cut > 0 {
			name = name[:cut]
		}
		byJob[name] = each
	}
	return byJob
}

// awaitFlag waits until the Job's Workload is flagged for the cause, and returns how long that took.
func awaitFlag(t *testing.T, job, cause string) flagged {
	t.Helper()
	var found flagged
	eventually(t, 60*time.Second, job+" to be flagged "+cause, func() string {
		flag, is := workloadsOf(t, "")[job]
		if !is || flag.Cause != cause {
			return fmt.Sprintf("%+v", workloadsOf(t, "?all=true"))
		}
		found = flag
		return ""
	})
	return found
}

// Quota covers GPUs, endpoints run out, the next Workload is Admitted and its Pod waits: said with the
// cause and the numbers in the read API, the metrics, an Event and on the command line; and cleared when
// an endpoint is given back.
func TestKueueUnplaceableWorkloadsAreFlagged(t *testing.T) {
	k := startKueueLab(t, cluster.Options{}, gpusOnly)
	startNumafit(t, k.Cluster)
	prometheus, err := k.StartPrometheus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prometheus.Stop)
	k.queue(t, "gap", "16")

	t.Run("endpoints-exhausted", func(t *testing.T) {
		for i := 1; i <= 8; i++ {
			k.createJob(t, cluster.NewQueuedJob(fmt.Sprintf("gap-%d", i), "gap", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
		}
		k.awaitPods(t, "gap-", map[string]int{"running": 8})
		if flags := workloadsOf(t, ""); len(flags) > 0 {
			t.Errorf("flagged while everything runs: %+v", flags)
		}
		k.createJob(t, cluster.NewQueuedJob("gap-last", "gap", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
		k.awaitPods(t, "gap-last", map[string]int{"unschedulable": 1})
		begin := time.Now()
		flag := awaitFlag(t, "gap-last", "endpoints-exhausted")
		t.Logf("flagged %.1f s after it was seen to be unschedulable: %s", time.Since(begin).Seconds(), flag.Why)
		if flag.Why != "wants 1 rdma; none is free" || flag.ClusterQueue != "gap" || flag.Accelerators != 1 ||
			flag.Pods["unschedulable"] != 1 {
			t.Errorf("%+v", flag)
		}
		for _, resource := range flag.Resources {
			if want := map[string]int{gpu: 8, rdma: 0}[resource.Resource]; resource.Free != want || resource.Wanted != 1 {
				t.Errorf("%+v, expected %d free", resource, want)
			}
		}
		metrics, err := k.ExtenderMetrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{
			`numafit_workloads_unplaceable{cause="endpoints-exhausted",cluster_queue="gap"}`: 1,
			`numafit_workloads_unplaceable_accelerators{cluster_queue="gap"}`:                1,
			`numafit_workload_pods{state="unschedulable"}`:                                   1,
			`numafit_workload_pods{state="placed"}`:                                          8,
		} {
			if metrics[name] != want {
				t.Errorf("%s is %v, expected %v", name, metrics[name], want)
			}
		}
		eventually(t, 20*time.Second, "an Event on the Workload", func() string {
			events, err := k.Client.CoreV1().Events("default").List(t.Context(),
				meta.ListOptions{FieldSelector: "involvedObject.kind=Workload,reason=Unplaceable"})
			if err != nil {
				return err.Error()
			}
			if len(events.Items) != 1 || events.Items[0].InvolvedObject.Name != flag.Name ||
				!strings.HasPrefix(events.Items[0].Message, "endpoints-exhausted: wants 1 rdma; none is free") {
				return fmt.Sprint(events.Items)
			}
			return ""
		})
		if text := k.numafit(t, 1, "workloads"); !strings.Contains(text, "endpoints-exhausted") || !strings.Contains(text, flag.Name) {
			t.Errorf("numafit workloads says:\n%s", text)
		}
		text := k.numafit(t, 1, "explain", "workload", "default/"+flag.Name)
		t.Logf("numafit explain workload:\n%s", text)
		if !strings.Contains(text, "gap-") || !strings.Contains(text, "has 1 rdma + 1 gpu") {
			t.Error("it does not say who holds the endpoints")
		}
		unplaceable := map[string]string{"cause": "endpoints-exhausted", "cluster_queue": "gap"}
		awaitAlert(t, prometheus, "NumafitWorkloadUnplaceable", unplaceable, true)

		k.deleteJob(t, "gap-1")
		k.awaitPods(t, "gap-last", map[string]int{"running": 1})
		begin = time.Now()
		eventually(t, 20*time.Second, "the flag to go", func() string {
			if flags := workloadsOf(t, ""); len(flags) > 0 {
				return fmt.Sprintf("%+v", flags)
			}
			return ""
		})
		t.Logf("cleared %.1f s after the Pod was seen to run", time.Since(begin).Seconds())
		if text := k.numafit(t, 0, "workloads"); !strings.HasPrefix(text, "Every admitted Workload can be placed") {
			t.Errorf("numafit workloads says:\n%s", text)
		}
		// Looked at every 30 seconds.
		eventually(t, 75*time.Second, "the quota beside what could be placed", func() string {
			metrics, err := k.ExtenderMetrics(t.Context())
			if err != nil {
				return err.Error()
			}
			const labels = `{cluster_queue="gap",flavor="gap",resource="` + gpu + `"}`
			quota, placeable := metrics["numafit_cluster_queue_quota"+labels], metrics["numafit_cluster_queue_placeable"+labels]
			if quota != 16 || placeable != 8 {
				return fmt.Sprintf("quota %v, placeable %v", quota, placeable)
			}
			return ""
		})
		k.clear(t)
	})

	t.Run("numa-fragmented", func(t *testing.T) {
		// Three of four GPUs of each NUMA node are taken: two are free on each machine, never together.
		for i := 1; i <= 4; i++ {
			k.createJob(t, cluster.NewQueuedJob(fmt.Sprintf("frag-%d", i), "gap", 1, kueuePod("", demand{gpus: 3})))
		}
		k.awaitPods(t, "frag-", map[string]int{"running": 4})
		k.createJob(t, cluster.NewQueuedJob("pair", "gap", 1, kueuePod("", demand{gpus: 2})))
		k.awaitPods(t, "pair", map[string]int{"unschedulable": 1})
		flag := awaitFlag(t, "pair", "numa-fragmented")
		if !strings.Contains(flag.Why, "wants 2 gpu together; nearest is lab-k") {
			t.Error(flag.Why)
		}
		k.clear(t)
	})

	t.Run("never-fits", func(t *testing.T) {
		k.createJob(t, cluster.NewQueuedJob("huge", "gap", 1, kueuePod("", demand{gpus: 5, rdmas: 1})))
		k.awaitPods(t, "huge", map[string]int{"unschedulable": 1})
		flag := awaitFlag(t, "huge", "never-fits")
		if !strings.Contains(flag.Why, "none of 2 nodes could take it even when empty") {
			t.Error(flag.Why)
		}
		k.clear(t)
	})

	t.Run("accelerators-exhausted", func(t *testing.T) {
		// The quota is larger than the fleet for whoever is not counted by it.
		for i := 1; i <= 4; i++ {
			create(t, k.Cluster, newPod(fmt.Sprintf("stranger-%d", i), demand{gpus: 4}))
		}
		eventually(t, kueueDeadline, "the strangers to run", func() string {
			if running := count(list(t, k.Cluster), "running"); running != 4 {
				return fmt.Sprintf("%d run", running)
			}
			return ""
		})
		k.createJob(t, cluster.NewQueuedJob("late", "gap", 1, kueuePod("", demand{gpus: 1})))
		k.awaitPods(t, "late", map[string]int{"unschedulable": 1})
		flag := awaitFlag(t, "late", "accelerators-exhausted")
		if flag.Why != "wants 1 gpu; none is free" {
			t.Error(flag.Why)
		}
		k.clear(t)
		deleteAll(t, k.Cluster)
	})

	t.Run("other", func(t *testing.T) {
		pod := kueuePod("", demand{gpus: 1})
		pod.Spec.NodeSelector = map[string]string{"no.such/label": "x"}
		k.createJob(t, cluster.NewQueuedJob("picky", "gap", 1, pod))
		k.awaitPods(t, "picky", map[string]int{"unschedulable": 1})
		flag := awaitFlag(t, "picky", "other")
		if !strings.Contains(flag.Why, "2 of 2 nodes would fit; the scheduler says: 0/2 nodes are available: 2 node(s) didn't match") {
			t.Error(flag.Why)
		}
		k.clear(t)
	})

	t.Run("pinned-node-full", func(t *testing.T) {
		k.create(t, "topologies", cluster.NewTopology("hosts", core.LabelHostname))
		k.create(t, "resourceflavors", cluster.NewResourceFlavor("hosts", "hosts"))
		k.create(t, "clusterqueues", cluster.NewClusterQueue("tas", "hosts", map[string]string{gpu: "16"}))
		k.create(t, "localqueues", cluster.NewLocalQueue("default", "tas", "tas"))
		k.awaitQueue(t, "tas")
		k.createJob(t, cluster.NewQueuedJob("pinned-1", "tas", 2, kueuePod("", demand{gpus: 1, rdmas: 2})))
		full := k.awaitPods(t, "pinned-1-", map[string]int{"running": 2})[0].Spec.NodeName
		k.createJob(t, cluster.NewQueuedJob("pinned-2", "tas", 1, kueuePod("", demand{gpus: 1, rdmas: 2})))
		k.awaitPods(t, "pinned-2-", map[string]int{"unschedulable": 1})
		flag := awaitFlag(t, "pinned-2", "pinned-node-full")
		if flag.PinnedNode != full || flag.Nearest == full || flag.Nearest == "" ||
			!strings.Contains(flag.Why, "pinned to "+full+" by its topology assignment") {
			t.Errorf("%+v", flag)
		}
	})
}

// awaitAlert waits until an alert with these labels fires, or does not.
func awaitAlert(t *testing.T, prometheus *cluster.Prometheus, name string, labels map[string]string, fires bool) {
	t.Helper()
	begin := time.Now()
	eventually(t, 60*time.Second, fmt.Sprintf("%s %v to fire: %v", name, labels, fires), func() string {
		firing, err := prometheus.Firing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(firing, func(alert cluster.Alert) bool {
			for label, value := range labels {
				if alert.Labels[label] != value {
					return false
				}
			}
			return alert.Labels["alertname"] == name
		})
		if found != fires {
			return fmt.Sprint(firing)
		}
		return ""
	})
	t.Logf("%s fires: %v after %.1f s", name, fires, time.Since(begin).Seconds())
}

// numafit runs the command against the extender; it must end with this code.
func (k *kueueLab) numafit(t *testing.T, code int, arguments ...string) string {
	t.Helper()
	program, err := fleet.FindNumafit(k.Root)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, append(arguments, "--server", "http://"+cluster.ReadAddress)...)
	output, err := command.CombinedOutput()
	if command.ProcessState == nil || command.ProcessState.ExitCode() != code {
		t.Errorf("numafit %v: %v\n%s", arguments, err, output)
	}
	return string(output)
}
