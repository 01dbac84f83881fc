package cluster

import (
	"context"
	"fmt"
	"sync"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"numafit.io/test/lab/fleet"
)

// RegisterMadeUpNodes registers the fleet's nodes in a cluster without kubelets.
func (c *Cluster) RegisterMadeUpNodes(ctx context.Context) error {
	return Parallel(len(c.Fleet.Nodes), func(i int) error {
		_, err := c.Client.CoreV1().Nodes().Create(ctx, nodeObject(c.Fleet.Nodes[i]), meta.CreateOptions{})
		return err
	})
}

// ReportRunning plays the kubelet of a made-up node: a Pod of namespace default that is bound there runs.
func (c *Cluster) ReportRunning(ctx context.Context, pod, container string) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":"Running","startTime":"2024-01-01T00:00:00Z","containerStatuses":[`+
		`{"name":%q,"image":"none","imageID":"none","ready":true,"started":true,"restartCount":0,`+
		`"state":{"running":{"startedAt":"2024-01-01T00:00:00Z"}}}]}}`, container)
	_, err := c.Client.CoreV1().Pods("default").
		Patch(ctx, pod, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
	return err
}

// nodeObject is what a kubelet of this machine would register.
func nodeObject(machine fleet.Node) *core.Node {
	var memory int64
	cpus := 0
	for _, numa := range machine.NUMA {
		memory += numa.Memory
		for _, physical := range numa.Cores {
			cpus += len(physical.Threads)
		}
	}
	resources := core.ResourceList{
		core.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		core.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		core.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	for name, devices := range machine.Devices {
		ids := map[string]bool{}
		for _, device := range devices {
			if device.IsHealthy() {
				ids[device.ID] = true
			}
		}
		resources[core.ResourceName(name)] = *resource.NewQuantity(int64(len(ids)), resource.DecimalSI)
	}
	labels := map[string]string{core.LabelHostname: machine.Name}
	for key, value := range machine.Labels {
		labels[key] = value
	}
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: machine.Name, Labels: labels},
		Status: core.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}},
			NodeInfo:   core.NodeSystemInfo{KubeletVersion: machine.Kubelet.Version},
		},
	}
}

// Parallel does the n things, many at a time, and returns the first error.
func Parallel(n int, do func(int) error) error {
	const workers = 32
	var group sync.WaitGroup
	failed := make(chan error, workers)
	next := make(chan int)
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					failed <- err
					// Drain, so that the sender is not left waiting.
					for range next {
					}
					return
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
