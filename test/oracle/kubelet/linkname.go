//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"unsafe"

	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
)

// The device manager's own book of who holds what; the same in every minor.

//go:linkname podDevicesInsert k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.(*podDevices).insert
func podDevicesInsert(held unsafe.Pointer, podUID, container, resource string, devices checkpoint.DevicesPerNUMA, resp *pluginapi.ContainerAllocateResponse)

//go:linkname podDevicesAll k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.(*podDevices).devices
func podDevicesAll(held unsafe.Pointer) map[string]sets.Set[string]

// Writing and reading the state files of the CPU and the memory manager.

//go:linkname storeCPUState k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state.(*stateCheckpoint).storeState
func storeCPUState(state unsafe.Pointer) error

//go:linkname restoreCPUState k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state.(*stateCheckpoint).restoreState
func restoreCPUState(state unsafe.Pointer) error

//go:linkname storeMemoryState k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state.(*stateCheckpoint).storeState
func storeMemoryState(state unsafe.Pointer) error

//go:linkname restoreMemoryState k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state.(*stateCheckpoint).restoreState
func restoreMemoryState(state unsafe.Pointer) error
