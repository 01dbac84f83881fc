package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"numafit.io/test/lab/judge"
)

// PodResources asks the node's kubelet, over its socket, what every container holds. The answer is the
// truth that tests compare with: neither ours nor the API server's. Pods that are not active any more
// are not in it, nor are init containers that are no sidecars.
func (n *Node) PodResources(ctx context.Context) ([]*podresources.PodResources, error) {
	connection, err := grpc.NewClient(
		"unix://"+filepath.Join(n.KubeletDir(), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	list, err := podresources.NewPodResourcesListerClient(connection).
		List(ctx, &podresources.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	return list.PodResources, nil
}

// Holdings are the devices in PodResources.
func (n *Node) Holdings(ctx context.Context) ([]judge.Holding, error) {
	pods, err := n.PodResources(ctx)
	if err != nil {
		return nil, err
	}
	var holdings []judge.Holding
	for _, pod := range pods {
		for _, container := range pod.Containers {
			holdings = append(holdings, judge.Holding{
				Pod: pod.Namespace + "/" + pod.Name, Container: container.Name, Devices: DeviceIDs(container),
			})
		}
	}
	return holdings, nil
}

// DeviceIDs are the devices of one container of PodResources, by resource, each once: the kubelet lists
// a device for each of its NUMA nodes.
func DeviceIDs(container *podresources.ContainerResources) map[string][]string {
	ids := map[string][]string{}
	for _, devices := range container.Devices {
		for _, id := range devices.DeviceIds {
			if !slices.Contains(ids[devices.ResourceName], id) {
				ids[devices.ResourceName] = append(ids[devices.ResourceName], id)
			}
		}
	}
	return ids
}
