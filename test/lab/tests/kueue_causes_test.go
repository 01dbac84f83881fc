package tests

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"numafit.io/test/lab/cluster"
)

// Causes that lie with schedulers, kubelets and agents, and not with room; and, while the slowest of them
// ripens, every state of a Workload in which it is not flagged.
func TestKueueCausesBeyondRoom(t *testing.T) {
	k := startKueueLab(t, cluster.Options{}, gpusOnly)
	startNumafit(t, k.Cluster)
	k.queue(t, "wide", "64")

	t.Run("scheduler-error", func(t *testing.T) {
		pod := kueuePod("", demand{gpus: 1, rdmas: 1})
		pod.Annotations = map[string]string{"numafit.io/alignment": "perhaps"}
		k.createJob(t, cluster.NewQueuedJob("odd", "wide", 1, pod))
		flag := awaitFlag(t, "odd", "scheduler-error")
		t.Log(flag.Why)
		k.clear(t)
	})

	t.Run("kubelet-refused, and what is not flagged", func(t *testing.T) {
		// Three of four GPUs of each NUMA node are taken: two are free on each machine, never together. A
		// scheduler that counts sends a Pod that wants two there, and its kubelet refuses it.
		for i := range 4 {
			create(t, k.Cluster, newPod(fmt.Sprintf("stranger-%d", i), demand{gpus: 3}))
		}
		eventually(t, kueueDeadline, "the strangers to run", func() string {
			if running := count(list(t, k.Cluster), "running"); running != 4 {
				return fmt.Sprintf("%d run", running)
			}
			return ""
		})
		if err := k.StartScheduler(t.Context(), cluster.SchedulerOptions{WithoutNumafit: true}); err != nil {
			t.Fatal(err)
		}
		k.createJob(t, cluster.NewQueuedJob("refused", "wide", 1, kueuePod("", demand{gpus: 2})))
		quiet := k.quietWorkloads(t)
		// The Job controller makes another Pod after 10, 20 and 40 seconds.
		begin := time.Now()
		eventually(t, 120*time.Second, "the refused one to be flagged", func() string {
			flags := workloadsOf(t, "")
			for job, flag := range flags {
				if job != "refused" {
					t.Fatalf("%s is flagged: %+v", job, flag)
				}
			}
			if flags["refused"].Cause != "kubelet-refused" {
				return fmt.Sprintf("%+v", workloadsOf(t, "?all=true")["refused"])
			}
			return ""
		})
		t.Logf("flagged after %.0f s: %s", time.Since(begin).Seconds(), workloadsOf(t, "")["refused"].Why)
		all := workloadsOf(t, "?all=true")
		for job, want := range quiet {
			got := all[job]
			if got.Phase != want.phase || (want.state != "" && got.Pods[want.state] != 1) {
				t.Errorf("%s is %+v, expected the phase %s with a Pod that is %s", job, got, want.phase, want.state)
			}
		}
		k.clear(t)
		deleteAll(t, k.Cluster)
		if err := k.StartScheduler(t.Context(), cluster.SchedulerOptions{}); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("stale-data", func(t *testing.T) {
		// An inventory from reports, and no agent.
		applyManifests(t, k.Cluster)
		token := tokenOf(t, k.Cluster, "numafit-extender", &authentication.TokenRequest{})
		if err := k.StartExtenderOfReports(t.Context(), tokenKubeconfig(t, k.Cluster, "extender-token", token)); err != nil {
			t.Fatal(err)
		}
		k.createJob(t, cluster.NewQueuedJob("blind", "wide", 1, kueuePod("", demand{gpus: 1, rdmas: 1})))
		if flag := awaitFlag(t, "blind", "stale-data"); flag.Why != "no node has a report" {
			t.Error(flag.Why)
		}
	})
}

// silence is what the read API says of a Workload that is not flagged.
type silence struct{ phase, state string }

// quietWorkloads makes Workloads of which none runs and none is to be flagged, by Job.
func (k *kueueLab) quietWorkloads(t *testing.T) map[string]silence {
	t.Helper()
	nowhere := func(name string, change func(*core.Pod)) string {
		pod := kueuePod("", demand{gpus: 1})
		pod.Spec.NodeSelector = map[string]string{"no.such/label": "x"}
		if change != nil {
			change(pod)
		}
		job := k.createJob(t, cluster.NewQueuedJob(name, "wide", 1, pod))
		return k.awaitOwned(t, job.UID, "admitted", has("Admitted=True")).GetName()
	}
	nowhere("gated", func(pod *core.Pod) {
		pod.Spec.SchedulingGates = []core.PodSchedulingGate{{Name: "lab.numafit.io/held"}}
	})
	nowhere("untried", func(pod *core.Pod) { pod.Spec.SchedulerName = "nobody" })
	nowhere("nodes", func(pod *core.Pod) {
		pod.Annotations = map[string]string{"autoscaling.x-k8s.io/consume-provisioning-request": "x"}
	})

	// A node is being cleared for it.
	nowhere("nominated", nil)
	pod := k.awaitPods(t, "nominated-", map[string]int{"unschedulable": 1})[0]
	_, err := k.Client.CoreV1().Pods("default").Patch(t.Context(), pod.Name, types.StrategicMergePatchType,
		[]byte(`{"status":{"nominatedNodeName":"lab-k1"}}`), meta.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}

	// Another cluster runs it, as MultiKueue's manager cluster shows it.
	remote := k.awaitNamed(t, nowhere("remote", nil), "admitted", has("Admitted=True"))
	for _, status := range []map[string]any{{"nominatedClusterNames": []any{"worker-1"}}, {"clusterName": "worker-1"}} {
		if remote, err = k.applyStatus(t, remote, "lab-multikueue", true, status); err != nil {
			t.Fatal(err)
		}
	}

	// Switched off by a person: evicted, and not tried again.
	off := nowhere("off", nil)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"active": false}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = k.kind(workloadKind, "default").Patch(t.Context(), off, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	// Refused by its kubelet, and its Job gives up.
	never := int32(0)
	done := cluster.NewQueuedJob("done", "wide", 1, kueuePod("", demand{gpus: 2}))
	done.Spec.BackoffLimit = &never
	k.createJob(t, done)

	// Without quota.
	k.createJob(t, cluster.NewQueuedJob("queued", "wide", 1, kueuePod("", demand{gpus: 65})))
	return map[string]silence{
		"gated":     {"admitted", "gated"},
		"untried":   {"admitted", "untried"},
		"nodes":     {"admitted", "unschedulable"},
		"nominated": {"admitted", "nominated"},
		"remote":    {"elsewhere", ""},
		"off":       {"inactive", ""},
		"done":      {"finished", ""},
		"queued":    {"pending", ""},
	}
}
