//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"os"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/errors"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
)

// checkpoints keeps checkpoint files in memory, written and read by the
// kubelet's own encoding, checksum included.
type checkpoints map[string][]byte

func (k checkpoints) CreateCheckpoint(name string, c checkpointmanager.Checkpoint) error {
	blob, err := c.MarshalCheckpoint()
	if err == nil {
		k[name] = blob
	}
	return err
}

func (k checkpoints) GetCheckpoint(name string, c checkpointmanager.Checkpoint) error {
	blob, is := k[name]
	if !is {
		return errors.ErrCheckpointNotFound
	}
	if err := c.UnmarshalCheckpoint(blob); err != nil {
		return err
	}
	return c.VerifyChecksum()
}

func (k checkpoints) RemoveCheckpoint(name string) error {
	delete(k, name)
	return nil
}

func (k checkpoints) ListCheckpoints() ([]string, error) { return sortedKeys(k), nil }

// noCheckpoints keeps nothing: checkpoints are written when they are needed.
type noCheckpoints struct{}

func (noCheckpoints) CreateCheckpoint(string, checkpointmanager.Checkpoint) error { return nil }
func (noCheckpoints) GetCheckpoint(string, checkpointmanager.Checkpoint) error    { return nil }
func (noCheckpoints) RemoveCheckpoint(string) error                               { return nil }
func (noCheckpoints) ListCheckpoints() ([]string, error)                          { return nil, nil }

// The managers' states with a file behind them. Their types have no name
// outside their packages, so one of each is made in a folder, once.
var fileStates = sync.OnceValues(func() (cpustate.State, memorystate.State) {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		panic(drift(err.Error()))
	}
	defer os.RemoveAll(dir)
	c, err := newCPUCheckpointState(dir, "cpu", containermap.NewContainerMap())
	if err != nil {
		panic(drift(err.Error()))
	}
	m, err := newMemoryCheckpointState(dir, "memory")
	if err != nil {
		panic(drift(err.Error()))
	}
	return c, m
})

// likeFileState is a new state of this type, its file among the checkpoints.
func likeFileState[S any](like S, files checkpoints, policy string, cache S) any {
	s := reflect.New(reflect.TypeOf(like).Elem()).Interface()
	setField(s, "policyName", policy)
	setField(s, "cache", cache)
	setField(s, "checkpointName", policy)
	setField(s, "checkpointManager", checkpointmanager.CheckpointManager(files))
	return s
}

func pointer(p any) unsafe.Pointer { return reflect.ValueOf(p).UnsafePointer() }

// reloadCPUs is the state as a kubelet finds it in the file that the last one
// has left.
func reloadCPUs(old cpustate.State, policy string, running containermap.ContainerMap) (cpustate.State, error) {
	like, _ := fileStates()
	files := checkpoints{}
	if err := storeCPUState(pointer(likeFileState(like, files, policy, old))); err != nil {
		return nil, err
	}
	fresh := newCPUState()
	restored := likeFileState(like, files, policy, fresh)
	setField(restored, "initialContainers", running)
	return fresh, restoreCPUState(pointer(restored))
}

func reloadMemory(old memorystate.State, policy string) (memorystate.State, error) {
	_, like := fileStates()
	files := checkpoints{}
	if err := storeMemoryState(pointer(likeFileState(like, files, policy, old))); err != nil {
		return nil, err
	}
	fresh := newMemoryState()
	return fresh, restoreMemoryState(pointer(likeFileState(like, files, policy, fresh)))
}
