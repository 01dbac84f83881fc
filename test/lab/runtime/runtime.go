// Package runtime is a container runtime that runs nothing: a CRI v1 server that keeps sandboxes and
// containers in memory and tells the kubelet that they run. It is enough for a real kubelet to admit,
// start, report and remove Pods, and it outlives the kubelet, so that restarts can be tested.
//
// Two annotations of a Pod make its containers end by themselves:
//
//	lab.numafit.io/run-seconds: "3"   all regular containers end after 3 s
//	lab.numafit.io/exit-code: "1"     with this code (default 0)
//
// Init containers end at once with code 0, unless they are restartable (those run, like any other);
// the kubelet does not tell a runtime which is which, so the Pod says it:
//
//	lab.numafit.io/init-containers: "setup,fetch"
package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	runSecondsAnnotation     = "lab.numafit.io/run-seconds"
	exitCodeAnnotation       = "lab.numafit.io/exit-code"
	initContainersAnnotation = "lab.numafit.io/init-containers"
)

// Runtime serves one node.
type Runtime struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer

	nodeIP string
	dir    string // a folder that exists, named as the image file system
	server *grpc.Server

	mu         sync.Mutex
	next       int
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]bool
}

type sandbox struct {
	id      string
	config  *cri.PodSandboxConfig
	state   cri.PodSandboxState
	created time.Time
}

type container struct {
	id      string
	sandbox *sandbox
	config  *cri.ContainerConfig
	state   cri.ContainerState
	created time.Time
	started time.Time
	ended   time.Time
	code    int32
	timer   *time.Timer
}

// Start serves on a unix socket until Stop.
func Start(socket, nodeIP string) (*Runtime, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		nodeIP:     nodeIP,
		dir:        filepath.Dir(socket),
		server:     grpc.NewServer(),
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		images:     map[string]bool{},
	}
	cri.RegisterRuntimeServiceServer(r.server, r)
	cri.RegisterImageServiceServer(r.server, r)
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

// Stop ends the server; nothing is kept.
func (r *Runtime) Stop() { r.server.Stop() }

// Version says who we are.
func (r *Runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{
		Version: "0.1.0", RuntimeName: "numafit-lab", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1",
	}, nil
}

// Status says that the runtime and its network are ready.
func (r *Runtime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{
		Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
			{Type: cri.RuntimeReady, Status: true},
			{Type: cri.NetworkReady, Status: true},
		}},
		Features: &cri.RuntimeFeatures{},
	}, nil
}

// RuntimeConfig names the cgroup driver that the kubelet is configured with.
func (r *Runtime) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{
		Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS},
	}, nil
}

// UpdateRuntimeConfig accepts the Pod network.
func (r *Runtime) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

// RunPodSandbox makes a sandbox that is ready at once.
func (r *Runtime) RunPodSandbox(_ context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &sandbox{
		id: r.newID("sandbox"), config: request.Config,
		state: cri.PodSandboxState_SANDBOX_READY, created: time.Now(),
	}
	r.sandboxes[s.id] = s
	return &cri.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// StopPodSandbox ends the sandbox and its containers.
func (r *Runtime) StopPodSandbox(_ context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sandboxes[request.PodSandboxId]; ok {
		s.state = cri.PodSandboxState_SANDBOX_NOTREADY
		for _, c := range r.containers {
			if c.sandbox == s {
				c.end(137)
			}
		}
	}
	return &cri.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox forgets the sandbox and its containers.
func (r *Runtime) RemovePodSandbox(_ context.Context, request *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.containers {
		if c.sandbox.id == request.PodSandboxId {
			c.end(137)
			delete(r.containers, id)
		}
	}
	delete(r.sandboxes, request.PodSandboxId)
	return &cri.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus reports one sandbox. Every Pod has the node's own address.
func (r *Runtime) PodSandboxStatus(_ context.Context, request *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[request.PodSandboxId]
	if !ok {
		return nil, notFound("sandbox", request.PodSandboxId)
	}
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id: s.id, Metadata: s.config.Metadata, State: s.state, CreatedAt: s.created.UnixNano(),
		Network: &cri.PodSandboxNetworkStatus{Ip: r.nodeIP},
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
			Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels: s.config.Labels, Annotations: s.config.Annotations,
	}}, nil
}

// ListPodSandbox lists sandboxes, newest first.
func (r *Runtime) ListPodSandbox(_ context.Context, request *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	filter := request.GetFilter()
	response := &cri.ListPodSandboxResponse{}
	for _, s := range r.sandboxes {
		if filter.GetId() != "" && filter.GetId() != s.id ||
			filter.GetState() != nil && filter.GetState().State != s.state ||
			!hasLabels(s.config.Labels, filter.GetLabelSelector()) {
			continue
		}
		response.Items = append(response.Items, &cri.PodSandbox{
			Id: s.id, Metadata: s.config.Metadata, State: s.state, CreatedAt: s.created.UnixNano(),
			Labels: s.config.Labels, Annotations: s.config.Annotations,
		})
	}
	sort.Slice(response.Items, func(i, j int) bool {
		return response.Items[i].CreatedAt > response.Items[j].CreatedAt
	})
	return response, nil
}

// CreateContainer makes a container that waits for its start.
func (r *Runtime) CreateContainer(_ context.Context, request *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[request.PodSandboxId]
	if !ok {
		return nil, notFound("sandbox", request.PodSandboxId)
	}
	c := &container{
		id: r.newID("container"), sandbox: s, config: request.Config,
		state: cri.ContainerState_CONTAINER_CREATED, created: time.Now(),
	}
	r.containers[c.id] = c
	return &cri.CreateContainerResponse{ContainerId: c.id}, nil
}

// StartContainer says that the container runs, writes its one log line and sets its end.
func (r *Runtime) StartContainer(_ context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[request.ContainerId]
	if !ok {
		return nil, notFound("container", request.ContainerId)
	}
	c.state = cri.ContainerState_CONTAINER_RUNNING
	c.started = time.Now()
	if err := c.writeLog(); err != nil {
		return nil, err
	}
	annotations := c.sandbox.config.Annotations
	if contains(annotations[initContainersAnnotation], c.config.GetMetadata().GetName()) {
		c.end(0)
		return &cri.StartContainerResponse{}, nil
	}
	if seconds, err := strconv.ParseFloat(annotations[runSecondsAnnotation], 64); err == nil {
		code, _ := strconv.ParseInt(annotations[exitCodeAnnotation], 10, 32)
		c.timer = time.AfterFunc(time.Duration(seconds*float64(time.Second)), func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			c.end(int32(code))
		})
	}
	return &cri.StartContainerResponse{}, nil
}

// StopContainer ends the container as a signal would.
func (r *Runtime) StopContainer(_ context.Context, request *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[request.ContainerId]; ok {
		c.end(143)
	}
	return &cri.StopContainerResponse{}, nil
}

// RemoveContainer forgets the container.
func (r *Runtime) RemoveContainer(_ context.Context, request *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[request.ContainerId]; ok {
		c.end(137)
		delete(r.containers, request.ContainerId)
	}
	return &cri.RemoveContainerResponse{}, nil
}

// ListContainers lists containers.
func (r *Runtime) ListContainers(_ context.Context, request *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	filter := request.GetFilter()
	response := &cri.ListContainersResponse{}
	for _, c := range r.containers {
		if filter.GetId() != "" && filter.GetId() != c.id ||
			filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.sandbox.id ||
			filter.GetState() != nil && filter.GetState().State != c.state ||
			!hasLabels(c.config.Labels, filter.GetLabelSelector()) {
			continue
		}
		response.Containers = append(response.Containers, &cri.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.Metadata, Image: c.config.Image,
			ImageRef: c.config.GetImage().GetImage(), ImageId: c.config.GetImage().GetImage(),
			State: c.state, CreatedAt: c.created.UnixNano(),
			Labels: c.config.Labels, Annotations: c.config.Annotations,
		})
	}
	return response, nil
}

// ContainerStatus reports one container.
func (r *Runtime) ContainerStatus(_ context.Context, request *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[request.ContainerId]
	if !ok {
		return nil, notFound("container", request.ContainerId)
	}
	status := &cri.ContainerStatus{
		Id: c.id, Metadata: c.config.Metadata, State: c.state, CreatedAt: c.created.UnixNano(),
		Image: c.config.Image, ImageRef: c.config.GetImage().GetImage(),
		ImageId: c.config.GetImage().GetImage(),
		Labels:  c.config.Labels, Annotations: c.config.Annotations, LogPath: c.logPath(),
	}
	if !c.started.IsZero() {
		status.StartedAt = c.started.UnixNano()
	}
	if c.state == cri.ContainerState_CONTAINER_EXITED {
		status.FinishedAt = c.ended.UnixNano()
		status.ExitCode = c.code
		status.Reason = "Completed"
		if c.code != 0 {
			status.Reason = "Error"
		}
	}
	return &cri.ContainerStatusResponse{Status: status}, nil
}

// UpdateContainerResources accepts what the kubelet's CPU manager says.
func (r *Runtime) UpdateContainerResources(context.Context, *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	return &cri.UpdateContainerResourcesResponse{}, nil
}

// ReopenContainerLog has nothing to reopen.
func (r *Runtime) ReopenContainerLog(context.Context, *cri.ReopenContainerLogRequest) (*cri.ReopenContainerLogResponse, error) {
	return &cri.ReopenContainerLogResponse{}, nil
}

// ExecSync says that every command succeeds: probes pass.
func (r *Runtime) ExecSync(context.Context, *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	return &cri.ExecSyncResponse{}, nil
}

func (r *Runtime) newID(kind string) string {
	r.next++
	return fmt.Sprintf("%s-%06d", kind, r.next)
}

// end is a no-op for a container that is not running or about to.
func (c *container) end(code int32) {
	if c.state == cri.ContainerState_CONTAINER_EXITED {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.state = cri.ContainerState_CONTAINER_EXITED
	c.ended = time.Now()
	c.code = code
}

func (c *container) logPath() string {
	if c.sandbox.config.LogDirectory == "" || c.config.LogPath == "" {
		return ""
	}
	return filepath.Join(c.sandbox.config.LogDirectory, c.config.LogPath)
}

// writeLog writes what `kubectl logs` shows: the devices that the kubelet passed, from the variables
// that the lab's device plugins set.
func (c *container) writeLog() error {
	path := c.logPath()
	if path == "" {
		return nil
	}
	var devices []string
	for _, variable := range c.config.Envs {
		if strings.HasPrefix(variable.Key, "LAB_DEVICES_") {
			devices = append(devices, string(variable.Value))
		}
	}
	sort.Strings(devices)
	message := "this container has no devices"
	if len(devices) > 0 {
		message = "this container has " + strings.Join(devices, "; ")
	}
	line := fmt.Sprintf("%s stdout F %s\n", c.started.UTC().Format(time.RFC3339Nano), message)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(line), 0o644)
}

func hasLabels(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

func contains(list, word string) bool {
	for _, item := range strings.Split(list, ",") {
		if strings.TrimSpace(item) == word {
			return true
		}
	}
	return false
}

func notFound(kind, id string) error {
	return errors.New("NotFound: no " + kind + " " + id)
}
