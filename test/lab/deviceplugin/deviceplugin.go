// Package deviceplugin serves the devices of a made-up machine to its kubelet, over the real device
// plugin API (v1beta1) and a real socket per resource. It registers again when the kubelet comes back.
package deviceplugin

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"numafit.io/test/lab/fleet"
)

// Plugin serves one resource of one node.
type Plugin struct {
	api.UnimplementedDevicePluginServer

	resource string
	dir      string // the node's device-plugins folder, as seen from here
	endpoint string // socket name in dir

	mu        sync.Mutex
	devices   []fleet.Device
	unhealthy map[string]bool
	changed   chan struct{} // closed and replaced on every change of the list
	server    *grpc.Server

	stop context.CancelFunc
	done chan struct{}
}

// MaxSocketPath is the longest path that a unix socket can have.
const MaxSocketPath = 107

// SocketPath is where a resource's plugin of a node will listen.
func SocketPath(resource, dir string) string { return filepath.Join(dir, endpointOf(resource)) }

// endpointOf is short: node names have a place in the path, too.
func endpointOf(resource string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(resource))
	return fmt.Sprintf("%.12s-%08x.sock", resource[strings.LastIndex(resource, "/")+1:], hash.Sum32())
}

var notInVariable = regexp.MustCompile(`[^A-Z0-9]+`)

// Start serves the devices below the node's device-plugins folder, now and after every restart of the
// kubelet, until Stop.
func Start(resource string, devices []fleet.Device, dir string) *Plugin {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Plugin{
		resource:  resource,
		dir:       dir,
		endpoint:  endpointOf(resource),
		devices:   devices,
		unhealthy: map[string]bool{},
		changed:   make(chan struct{}),
		stop:      cancel,
		done:      make(chan struct{}),
	}
	go p.run(ctx)
	return p
}

// Stop unregisters the plugin by going away, as a crashed plugin does.
func (p *Plugin) Stop() {
	p.stop()
	<-p.done
}

// SetHealth changes the health of one device. The fleet file's own health comes first: a device that
// it calls unhealthy stays so.
func (p *Plugin) SetHealth(device string, healthy bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := false
	for _, d := range p.devices {
		known = known || d.ID == device
	}
	if !known {
		return fmt.Errorf("%s has no device %q", p.resource, device)
	}
	if p.unhealthy[device] == !healthy {
		return nil
	}
	p.unhealthy[device] = !healthy
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// run registers whenever there is a kubelet that does not know us: a kubelet that starts removes every
// socket of the folder, ours included, and makes its own anew.
func (p *Plugin) run(ctx context.Context) {
	defer close(p.done)
	defer p.close()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var registeredWith os.FileInfo
	for {
		kubelet, err := os.Stat(filepath.Join(p.dir, "kubelet.sock"))
		if err == nil && (registeredWith == nil || !os.SameFile(kubelet, registeredWith) || !p.alive()) {
			if err := p.register(ctx); err == nil {
				registeredWith = kubelet
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *Plugin) alive() bool {
	_, err := os.Stat(filepath.Join(p.dir, p.endpoint))
	return err == nil
}

func (p *Plugin) close() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	_ = os.Remove(filepath.Join(p.dir, p.endpoint))
}

func (p *Plugin) register(ctx context.Context) error {
	p.close()
	listener, err := net.Listen("unix", filepath.Join(p.dir, p.endpoint))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() { _ = server.Serve(listener) }()

	connection, err := grpc.NewClient("unix://"+filepath.Join(p.dir, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: p.endpoint, ResourceName: p.resource,
		Options: &api.DevicePluginOptions{},
	})
	return err
}

// GetDevicePluginOptions asks for no further calls.
func (p *Plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the whole list now and after every change.
func (p *Plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		list, changed := p.list()
		if err := stream.Send(list); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *Plugin) list() (*api.ListAndWatchResponse, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	response := &api.ListAndWatchResponse{}
	for _, device := range p.devices {
		item := &api.Device{ID: device.ID, Health: api.Healthy}
		if !device.IsHealthy() || p.unhealthy[device.ID] {
			item.Health = api.Unhealthy
		}
		if device.NUMA != nil {
			item.Topology = &api.TopologyInfo{}
			for _, id := range *device.NUMA {
				item.Topology.Nodes = append(item.Topology.Nodes, &api.NUMANode{ID: int64(id)})
			}
		}
		response.Devices = append(response.Devices, item)
	}
	return response, p.changed
}

// Allocate tells the container what it got, in a variable: the lab has no device files to pass.
func (p *Plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	name := "LAB_DEVICES_" + notInVariable.ReplaceAllString(strings.ToUpper(p.resource), "_")
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		ids := append([]string(nil), container.DevicesIds...)
		sort.Strings(ids)
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{name: p.resource + ": " + strings.Join(ids, " ")},
		})
	}
	return response, nil
}
