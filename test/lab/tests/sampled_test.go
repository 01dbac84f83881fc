package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

// 500 nodes on each of which 4 GPUs and 4 endpoints are free, together on one of them only.
const scatteredFleet = `apiVersion: numafit.io/v1alpha1
kind: Fleet
shapes:
  - name: halves
    kubelet: &kubelet
      {version: v1.36.3, topologyManagerPolicy: single-numa-node, topologyManagerScope: container}
    numa:
      - {id: 0, cpus: 0-31, threadsPerCore: 1, socket: 0, memory: 64Gi, distances: [10, 21]}
      - {id: 1, cpus: 32-63, threadsPerCore: 1, socket: 1, memory: 64Gi, distances: [21, 10]}
    devices:
      - {resource: nvidia.com/gpu, numa: 0, count: 2}
      - {resource: nvidia.com/gpu, numa: 1, count: 2}
      - {resource: device.gpustack.ai/rdma, numa: 0, count: 2}
      - {resource: device.gpustack.ai/rdma, numa: 1, count: 2}
  - name: whole
    kubelet: *kubelet
    numa:
      - {id: 0, cpus: 0-7, threadsPerCore: 1, socket: 0, memory: 32Gi, distances: [10, 12, 12, 12, 32, 32, 32, 32]}
      - {id: 1, cpus: 8-15, threadsPerCore: 1, socket: 0, memory: 32Gi, distances: [12, 10, 12, 12, 32, 32, 32, 32]}
      - {id: 2, cpus: 16-23, threadsPerCore: 1, socket: 0, memory: 32Gi, distances: [12, 12, 10, 12, 32, 32, 32, 32]}
      - {id: 3, cpus: 24-31, threadsPerCore: 1, socket: 0, memory: 32Gi, distances: [12, 12, 12, 10, 32, 32, 32, 32]}
      - {id: 4, cpus: 32-39, threadsPerCore: 1, socket: 1, memory: 32Gi, distances: [32, 32, 32, 32, 10, 12, 12, 12]}
      - {id: 5, cpus: 40-47, threadsPerCore: 1, socket: 1, memory: 32Gi, distances: [32, 32, 32, 32, 12, 10, 12, 12]}
      - {id: 6, cpus: 48-55, threadsPerCore: 1, socket: 1, memory: 32Gi, distances: [32, 32, 32, 32, 12, 12, 10, 12]}
      - {id: 7, cpus: 56-63, threadsPerCore: 1, socket: 1, memory: 32Gi, distances: [32, 32, 32, 32, 12, 12, 12, 10]}
    devices:
      - {resource: nvidia.com/gpu, numa: 0, count: 4}
      - {resource: nvidia.com/gpu, numa: 1, count: 4}
      - {resource: nvidia.com/gpu, numa: 2, count: 4}
      - {resource: nvidia.com/gpu, numa: 3, count: 4}
      - {resource: nvidia.com/gpu, numa: 4, count: 4}
      - {resource: nvidia.com/gpu, numa: 5, count: 4}
      - {resource: nvidia.com/gpu, numa: 6, count: 4}
      - {resource: nvidia.com/gpu, numa: 7, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 0, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 1, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 2, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 3, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 4, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 5, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 6, count: 4}
      - {resource: device.gpustack.ai/rdma, numa: 7, count: 4}
nodes:
  - {shape: halves, count: 250, namePrefix: near-}
  - {shape: whole, count: 1, namePrefix: whole-}
  - {shape: halves, count: 249, namePrefix: far-}
`

// At its default percentage kube-scheduler offers less than half of 500 nodes. A Pod for which none of
// those fits, while another node would, is woken for the next sample; left alone it would wait for minutes.
func TestASampledFleetHidesNoNode(t *testing.T) {
	root, err := cluster.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	numafit, err := fleet.FindNumafit(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scattered.yaml")
	if err := os.WriteFile(path, []byte(scatteredFleet), 0o600); err != nil {
		t.Fatal(err)
	}
	machines, err := fleet.Load(path, numafit)
	if err != nil {
		t.Fatal(err)
	}
	lab := startLab(t, cluster.Options{Fleet: machines, NoKubelets: true})
	if err := lab.RegisterMadeUpNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lab.StartExtender(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lab.StartScheduler(t.Context(), cluster.SchedulerOptions{DefaultPercentage: true}); err != nil {
		t.Fatal(err)
	}
	// One after the other, so that each gets its own sample, and with a pause, so that it is nobody
	// else's event that makes the scheduler try again.
	for i := range 8 {
		time.Sleep(time.Second)
		name := fmt.Sprintf("seeker-%d", i)
		create(t, lab, newPod(name, demand{gpus: 4, rdmas: 4}))
		eventually(t, 45*time.Second, name+" to be bound", func() string {
			pod := list(t, lab)[name]
			if pod.Spec.NodeName == "" {
				return scheduledMessage(pod)
			}
			return ""
		})
		if err := lab.ReportRunning(t.Context(), name, "c0"); err != nil {
			t.Fatal(err)
		}
	}
	metrics, err := lab.ExtenderMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f filter calls found none, %.0f wake-ups", metrics[`numafit_filter_total{result="none_fits"}`],
		metrics[`numafit_wake_ups_total{result="woken"}`])
}
