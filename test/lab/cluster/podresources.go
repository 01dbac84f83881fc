package cluster

import (
	"context"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"numafit.io/test/lab/judge"
)

// Holdings asks the node's kubelet (PodResources, over its socket) what every container holds. The
// answer is the truth that tests compare with: neither ours nor the API server's.
func (n *Node) Holdings(ctx context.Context) ([]judge.Holding, error) {
	connection, err := grpc.NewClient(
		"unix://"+filepath.Join(n.KubeletDir(), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := podresources.NewPodResourcesListerClient(connection).
		List(ctx, &podresources.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	var holdings []judge.Holding
	for _, pod := range list.PodResources {
		for _, container := range pod.Containers {
			holding := judge.Holding{
				Pod: pod.Namespace + "/" + pod.Name, Container: container.Name,
				Devices: map[string][]string{},
			}
			for _, devices := range container.Devices {
				holding.Devices[devices.ResourceName] =
					append(holding.Devices[devices.ResourceName], devices.DeviceIds...)
			}
			holdings = append(holdings, holding)
		}
	}
	return holdings, nil
}
