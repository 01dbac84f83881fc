//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin is a device plugin without a process: what it lists is fed to the
// device manager by the node, what it prefers is a fixed order.
type plugin struct {
	pluginapi.DevicePluginClient // calls that are not made panic

	resource string
	socket   string
	options  *pluginapi.DevicePluginOptions
	order    []string
}

func (p *plugin) API() pluginapi.DevicePluginClient { return p }
func (p *plugin) Resource() string                  { return p.resource }
func (p *plugin) SocketPath() string                { return p.socket }

// prefer makes the plugin answer GetPreferredAllocation in this order.
func (p *plugin) prefer(order []string) {
	p.order = order
	p.options.GetPreferredAllocationAvailable = true
}

func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return p.options, nil
}

// GetPreferredAllocation answers what must be included, then the named order,
// then the rest by id.
func (p *plugin) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	if len(r.ContainerRequests) != 1 {
		return nil, fmt.Errorf("%d container requests", len(r.ContainerRequests))
	}
	q := r.ContainerRequests[0]
	picked := slices.Clone(q.MustIncludeDeviceIDs)
	rest := slices.Clone(q.AvailableDeviceIDs)
	slices.Sort(rest)
	for _, id := range slices.Concat(p.order, rest) {
		if len(picked) >= int(q.AllocationSize) {
			break
		}
		if slices.Contains(rest, id) && !slices.Contains(picked, id) {
			picked = append(picked, id)
		}
	}
	return &pluginapi.PreferredAllocationResponse{
		ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: picked}},
	}, nil
}

func (p *plugin) Allocate(context.Context, *pluginapi.AllocateRequest, ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}
