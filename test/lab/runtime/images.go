package runtime

import (
	"context"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Every image is there as soon as somebody asks for it, and takes no room.

// ListImages lists the images that were pulled.
func (r *Runtime) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	response := &cri.ListImagesResponse{}
	for name := range r.images {
		response.Images = append(response.Images, newImage(name))
	}
	return response, nil
}

// ImageStatus knows every image.
func (r *Runtime) ImageStatus(_ context.Context, request *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	name := request.GetImage().GetImage()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[name] = true
	return &cri.ImageStatusResponse{Image: newImage(name)}, nil
}

// PullImage succeeds at once.
func (r *Runtime) PullImage(_ context.Context, request *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := request.GetImage().GetImage()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[name] = true
	return &cri.PullImageResponse{ImageRef: name}, nil
}

// RemoveImage forgets the image.
func (r *Runtime) RemoveImage(_ context.Context, request *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.images, request.GetImage().GetImage())
	return &cri.RemoveImageResponse{}, nil
}

// ImageFsInfo names a folder that exists, with nothing in it.
func (r *Runtime) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	usage := &cri.FilesystemUsage{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &cri.FilesystemIdentifier{Mountpoint: r.dir},
		UsedBytes:  &cri.UInt64Value{},
		InodesUsed: &cri.UInt64Value{},
	}
	return &cri.ImageFsInfoResponse{
		ImageFilesystems:     []*cri.FilesystemUsage{usage},
		ContainerFilesystems: []*cri.FilesystemUsage{usage},
	}, nil
}

// ContainerStats reports an idle container.
func (r *Runtime) ContainerStats(_ context.Context, request *cri.ContainerStatsRequest) (*cri.ContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[request.ContainerId]
	if !ok {
		return nil, notFound("container", request.ContainerId)
	}
	return &cri.ContainerStatsResponse{Stats: c.stats()}, nil
}

// ListContainerStats reports every running container as idle.
func (r *Runtime) ListContainerStats(context.Context, *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	response := &cri.ListContainerStatsResponse{}
	for _, c := range r.containers {
		if c.state == cri.ContainerState_CONTAINER_RUNNING {
			response.Stats = append(response.Stats, c.stats())
		}
	}
	return response, nil
}

func (c *container) stats() *cri.ContainerStats {
	now := time.Now().UnixNano()
	return &cri.ContainerStats{
		Attributes: &cri.ContainerAttributes{
			Id: c.id, Metadata: c.config.Metadata, Labels: c.config.Labels,
			Annotations: c.config.Annotations,
		},
		Cpu:    &cri.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &cri.UInt64Value{}},
		Memory: &cri.MemoryUsage{Timestamp: now, WorkingSetBytes: &cri.UInt64Value{}},
	}
}

func newImage(name string) *cri.Image {
	return &cri.Image{Id: name, RepoTags: []string{name}, Size: 1, Spec: &cri.ImageSpec{Image: name}}
}
