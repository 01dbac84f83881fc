//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"numafit.io/numafit/test/oracle/form"
)

// resizer is the part of a kubelet that resizes Pods in place. The kubelet's
// own: its allocation manager, which says whether anything changes, what is
// infeasible, and what the Pod has from now on; its handler of resizes; the
// status manager, whose condition is the answer; and the topology manager with
// all that it asks. Ours: no other handler is there, the node is so large that
// it always has enough (1.34, 1.35), no container swaps, and what is deferred
// is tried again only when the case says so.
type resizer struct {
	allocation allocation.Manager
	status     status.Manager
	topology   *topologyHandler
}

// topologyHandler is the topology manager as it is among the handlers of
// admission, and what it said last.
type topologyHandler struct {
	node *node
	said *lifecycle.PodAdmitResult
}

func newResizer(n *node) *resizer {
	r := &resizer{status: status.NewManager(nil, noPods{}, nil, nil), topology: &topologyHandler{node: n}}
	r.allocation = newAllocationManager(n, r.status, r.topology)
	return r
}

// containerManager knows the configuration, and a node without end.
type containerManager struct {
	cm.ContainerManager // calls that are not made panic
	node                *node
}

func (c containerManager) GetNodeConfig() cm.NodeConfig {
	return cm.NodeConfig{CPUManagerPolicy: c.node.cpuPolicy(), MemoryManagerPolicy: c.node.memoryPolicy()}
}

func (containerManager) GetNodeAllocatableAbsolute() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(math.MaxInt64, resource.BinarySI),
	}
}

// noPods is asked for Pods to count resizes by priority.
type noPods struct{ status.PodManager }

func (noPods) GetPodByUID(types.UID) (*v1.Pod, bool) { return nil, false }

// noSwap is a container runtime in which nobody swaps.
type noSwap struct{ kubecontainer.Runtime }

func (noSwap) GetContainerSwapBehavior(*v1.Pod, *v1.Container) kubetypes.SwapBehavior {
	return kubetypes.NoSwap
}

var nobody = &record.FakeRecorder{} // no channel: events go nowhere

// allocated writes down what a Pod has, as the kubelet does when it admits one.
func (n *node) allocated(a *admitted) {
	if n.resizer == nil || n.active[a.of.Name] != a {
		return
	}
	if err := setAllocated(n.resizer.allocation, a.pod); err != nil {
		panic(drift(err.Error())) // it is in memory
	}
}

// resize asks for other requests and limits of a Pod that runs.
func (n *node) resize(p *form.Pod, observed *form.StepAnswer) (form.StepAnswer, error) {
	answer := form.StepAnswer{Pod: p.Name, Resize: form.ResizeNone, Reason: form.Gone}
	if a := n.active[p.Name]; a != nil {
		pod, err := podOf(p, "")
		if err != nil {
			return form.StepAnswer{}, err
		}
		pod.UID = a.pod.UID
		if err := n.askToResize(a, p, pod, &answer); err != nil {
			return form.StepAnswer{}, err
		}
		if err := n.imposeResize(a, p, pod, &answer, observed); err != nil {
			return form.StepAnswer{}, err
		}
	}
	n.fillState(&answer)
	if observed != nil {
		n.imposeState(observed)
	}
	return answer, nil
}

func (n *node) askToResize(a *admitted, p *form.Pod, pod *v1.Pod, answer *form.StepAnswer) error {
	n.resizer.topology.said = nil
	taken, err := handleResize(n.resizer.allocation, pod)
	if err != nil {
		return err
	}
	answer.Reason = ""
	pending := n.pendingResize(pod)
	switch {
	case taken:
		answer.Resize = form.ResizeTaken
		a.of, a.pod = p, pod
		answer.Containers = n.containers(p, string(pod.UID))
		return nil
	case pending == nil:
		answer.Reason = form.Unchanged
	case pending.Reason == v1.PodReasonDeferred && n.resizer.topology.said != nil:
		answer.Resize, answer.Reason = form.ResizeDeferred, n.resizer.topology.said.Reason
	case pending.Reason == v1.PodReasonInfeasible:
		answer.Resize, answer.Reason = form.ResizeInfeasible, whyInfeasible(pending.Message)
	default:
		panic(driftf("a resize is pending: %s, %s", pending.Reason, pending.Message))
	}
	answer.Left = n.held(p, string(pod.UID))
	return nil
}

// held is what the containers of a Pod have.
func (n *node) held(p *form.Pod, uid string) []form.Holding {
	var out []form.Holding
	for _, c := range p.All() {
		h := form.Holding{Name: c.Name, Devices: n.devicesOf(uid, c.Name)}
		if h.CPUs, h.Memory = n.holding(uid, c.Name); h.Devices != nil || h.CPUs != "" || h.Memory != nil {
			out = append(out, h)
		}
	}
	return out
}

func (n *node) pendingResize(pod *v1.Pod) *v1.PodCondition {
	for _, c := range n.resizer.status.GetPodResizeConditions(pod.UID) {
		if c.Type == v1.PodResizePending {
			return c
		}
	}
	return nil
}

// whyInfeasible is the label of the kubelet's metric that the message belongs to.
func whyInfeasible(message string) string {
	switch {
	case strings.Contains(message, "CPU Manager policy"):
		return "guaranteed_pod_cpu_manager_static_policy"
	case strings.Contains(message, "Memory Manager policy"):
		return "guaranteed_pod_memory_manager_static_policy"
	}
	panic(driftf("a resize is infeasible: %s", message))
}

// imposeResize: what the Pod has from now on is what was observed.
func (n *node) imposeResize(a *admitted, p *form.Pod, pod *v1.Pod, real, observed *form.StepAnswer) error {
	if observed == nil {
		return nil
	}
	if observed.Resize == form.ResizeTaken && real.Resize != form.ResizeTaken {
		a.of, a.pod = p, pod
		n.allocated(a)
	}
	if observed.Resize != form.ResizeTaken && observed.Resize != form.ResizeDeferred {
		return nil
	}
	if devices := allDevices(observed); !reflect.DeepEqual(devices, allDevices(real)) {
		n.imposeDevices(a, devices)
	}
	return n.imposeHoldings(a, observed)
}

// checkResizes says which of them no API server lets pass for this kubelet
// (ValidatePodResize): those the mirror does not have to answer either.
func checkResizes(c *form.Case) error {
	admitted := map[string]*form.Pod{}
	for i, s := range c.Steps {
		if s.Admit != nil {
			admitted[s.Admit.Name] = s.Admit
		}
		if s.Resize == nil {
			continue
		}
		if err := checkResize(admitted[s.Resize.Name], s.Resize); err != nil {
			return fmt.Errorf("steps[%d]: resize: %w", i, err)
		}
	}
	return nil
}

func checkResize(has, asked *form.Pod) error {
	if len(has.InitContainers) != len(asked.InitContainers) || len(has.Containers) != len(asked.Containers) {
		return fmt.Errorf("other containers")
	}
	before, err := podOf(has, "")
	if err != nil {
		return err
	}
	after, err := podOf(asked, "")
	if err != nil {
		return err
	}
	for i, c := range asked.All() {
		was := has.All()[i]
		sidecar := i < len(asked.InitContainers) && c.RestartPolicy == string(v1.ContainerRestartPolicyAlways)
		wasSidecar := i < len(asked.InitContainers) && was.RestartPolicy == string(v1.ContainerRestartPolicyAlways)
		if c.Name != was.Name || sidecar != wasSidecar {
			return fmt.Errorf("container %s is another one", c.Name)
		}
		to, from := resourcesAt(after, i), resourcesAt(before, i)
		if !sameButForCPUAndMemory(to, from) {
			return fmt.Errorf("container %s: only cpu and memory can be resized", c.Name)
		}
		fixed := i < len(asked.InitContainers) && !sidecar && !resizesInitContainers
		if fixed && !(sameList(to.Limits, from.Limits) && sameList(to.Requests, from.Requests)) {
			return fmt.Errorf("init container %s cannot be resized", c.Name)
		}
	}
	if v1qos.ComputePodQOS(before) != v1qos.ComputePodQOS(after) {
		return fmt.Errorf("the QoS class changes")
	}
	return checkPodLevelResize(before, after)
}

func checkPodLevelResize(before, after *v1.Pod) error {
	if hasOwn(before) != hasOwn(after) {
		return fmt.Errorf("resources of the Pod's own come or go")
	}
	if !hasOwn(after) {
		return nil
	}
	if !sameButForCPUAndMemory(after.Spec.Resources, before.Spec.Resources) {
		return fmt.Errorf("only cpu and memory can be resized")
	}
	if !resizesPodLevelResources {
		return fmt.Errorf("the Pod has resources of its own")
	}
	return nil
}

// hasOwn: the Pod has resources of its own that a kubelet knows.
func hasOwn(p *v1.Pod) bool {
	if p.Spec.Resources == nil {
		return false
	}
	for name := range p.Spec.Resources.Requests {
		if name == v1.ResourceCPU || name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			return true
		}
	}
	return false
}

func resourcesAt(p *v1.Pod, i int) *v1.ResourceRequirements {
	if i < len(p.Spec.InitContainers) {
		return &p.Spec.InitContainers[i].Resources
	}
	return &p.Spec.Containers[i-len(p.Spec.InitContainers)].Resources
}

func sameButForCPUAndMemory(a, b *v1.ResourceRequirements) bool {
	others := func(list v1.ResourceList) v1.ResourceList {
		out := list.DeepCopy()
		delete(out, v1.ResourceCPU)
		delete(out, v1.ResourceMemory)
		return out
	}
	return sameList(others(a.Limits), others(b.Limits)) && sameList(others(a.Requests), others(b.Requests))
}

func sameList(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, is := b[name]
		if !is || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
