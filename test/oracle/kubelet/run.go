//go:build k134 || k135 || k136 || k137

// Package kubelet runs the kubelet's own topology, device, CPU and memory
// managers, of the Kubernetes minor that the program is built with, over one
// case. It is the judge: nothing in here decides anything.
package kubelet

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"numafit.io/numafit/test/oracle/form"
)

// Run plays the case on a fresh node. With shuffle, what the kubelet picks at
// random is more random than Go's small maps make it. A step's `observed` is
// what the node goes on from; the answer is still what really happened.
func Run(c *form.Case, shuffle *rand.Rand) (answer form.Answer) {
	answer.ID = c.ID
	defer func() {
		if p := recover(); p != nil {
			answer = form.Answer{ID: c.ID, Error: fmt.Sprint("the kubelet panics: ", p)}
		}
	}()
	if err := c.Validate(); err != nil {
		answer.Error = err.Error()
		return answer
	}
	n, err := newNode(c, shuffle)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	for i := range c.Steps {
		step, err := n.step(i, &c.Steps[i])
		if err != nil {
			return form.Answer{ID: c.ID, Error: fmt.Sprintf("steps[%d]: %v", i, err)}
		}
		answer.Steps = append(answer.Steps, step)
	}
	return answer
}

func (n *node) step(i int, s *form.Step) (form.StepAnswer, error) {
	switch {
	case s.Admit != nil:
		return n.admit(i, s.Admit, s.Observed)
	case s.Remove != "":
		delete(n.active, s.Remove)
	case s.Start != "":
		n.start(s.Start)
	case s.Devices != nil:
		for _, r := range sortedKeys(s.Devices) {
			if err := n.list(r, s.Devices[r]); err != nil {
				return form.StepAnswer{}, err
			}
		}
	case s.Disconnect != "":
		return form.StepAnswer{}, n.disconnect(s.Disconnect)
	case s.Prefer != nil:
		for r, order := range s.Prefer {
			n.prefer(r, order)
		}
	}
	return form.StepAnswer{}, nil
}

// admit is the kubelet's order: the Pod is active while it is being admitted,
// and inactive once it is refused.
func (n *node) admit(i int, p *form.Pod, observed *form.StepAnswer) (form.StepAnswer, error) {
	pod, err := podOf(p, strconv.Itoa(i))
	if err != nil {
		return form.StepAnswer{}, err
	}
	n.pods[p.Name] = pod
	n.active[p.Name] = pod
	result := admit(n.topology, pod)
	answer := form.StepAnswer{Pod: p.Name, Admitted: &result.Admit}
	if result.Admit {
		answer.Containers = n.containers(p, string(pod.UID))
	} else {
		answer.Reason = result.Reason
		delete(n.active, p.Name)
	}
	if observed != nil {
		n.impose(p.Name, pod, observed)
	}
	return answer, nil
}

func (n *node) containers(p *form.Pod, uid string) []form.ContainerAnswer {
	var out []form.ContainerAnswer
	for _, c := range p.All() {
		a := form.ContainerAnswer{Name: c.Name}
		hint := affinity(n.topology, uid, c.Name)
		a.Preferred = hint.Preferred
		if hint.NUMANodeAffinity != nil {
			a.Affinity = append([]int{}, hint.NUMANodeAffinity.GetBits()...)
		}
		for r, list := range n.devices.GetDevices(uid, c.Name) {
			if len(list) == 0 {
				continue
			}
			if a.Devices == nil {
				a.Devices = map[string][]string{}
			}
			a.Devices[r] = sortedKeys(list)
		}
		if cpus, ok := n.exclusiveCPUs(uid, c.Name); ok {
			a.CPUs = cpus
		}
		for _, b := range memoryBlocks(n.memory, uid, c.Name) {
			a.Memory = append(a.Memory, form.MemoryBlock{Type: string(b.Type), NUMA: b.NUMAAffinity, Size: b.Size})
		}
		out = append(out, a)
	}
	return out
}

func (n *node) exclusiveCPUs(uid, container string) (string, bool) {
	s := n.cpus.GetExclusiveCPUs(uid, container)
	return s.String(), !s.IsEmpty()
}

// impose replaces what the Pod got by what was observed.
func (n *node) impose(name string, pod *v1.Pod, observed *form.StepAnswer) {
	podDevices := field(n.devices, "podDevices")
	held := podDevices.UnsafePointer()
	devs := field(podDevices.Interface(), "devs")
	for _, key := range devs.MapKeys() {
		if key.String() == string(pod.UID) {
			devs.SetMapIndex(key, reflect.Value{}) // delete
		}
	}
	if observed.IsAdmitted() {
		n.active[name] = pod
		for _, c := range observed.Containers {
			for r, ids := range c.Devices {
				podDevicesInsert(held, string(pod.UID), c.Name, r, n.byNUMA(r, ids), &pluginapi.ContainerAllocateResponse{})
			}
		}
	} else {
		delete(n.active, name)
	}
	setField(n.devices, "allocatedDevices", podDevicesAll(held))
}

func (n *node) byNUMA(r string, ids []string) checkpoint.DevicesPerNUMA {
	wanted := sets.New(ids...)
	out := checkpoint.NewDevicesPerNUMA()
	for _, d := range n.lists[r] {
		if !wanted.Has(d.ID) {
			continue
		}
		if len(d.NUMA) == 0 {
			out[-1] = append(out[-1], d.ID)
		}
		for _, id := range d.NUMA {
			out[int64(id)] = append(out[int64(id)], d.ID)
		}
	}
	return out
}

// start is PreStartContainer of each container, in order.
func (n *node) start(name string) {
	pod := n.active[name]
	if pod == nil {
		return
	}
	for i := range pod.Spec.InitContainers {
		n.startContainer(pod, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		n.startContainer(pod, &pod.Spec.Containers[i])
	}
}

func (n *node) startContainer(pod *v1.Pod, c *v1.Container) {
	startContainer(n.cpus, n.memory, n.topology, pod, c, string(pod.UID)+"/"+c.Name)
}

func podOf(p *form.Pod, step string) (*v1.Pod, error) {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace = p.Name, "default"
	pod.UID = types.UID(p.Name + "#" + step)
	var err error
	if pod.Spec.InitContainers, err = containersOf(p.InitContainers); err != nil {
		return nil, err
	}
	if pod.Spec.Containers, err = containersOf(p.Containers); err != nil {
		return nil, err
	}
	if p.Resources != nil {
		r, err := resourcesOf(*p.Resources)
		if err != nil {
			return nil, err
		}
		pod.Spec.Resources = &r
	}
	return pod, nil
}

func containersOf(list []form.Container) ([]v1.Container, error) {
	var out []v1.Container
	for _, c := range list {
		r, err := resourcesOf(c.Resources)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", c.Name, err)
		}
		k := v1.Container{Name: c.Name, Resources: r}
		if c.RestartPolicy != "" {
			policy := v1.ContainerRestartPolicy(c.RestartPolicy)
			k.RestartPolicy = &policy
		}
		out = append(out, k)
	}
	return out, nil
}

// resourcesOf parses quantities; a missing request takes the limit, as the API
// server would have it.
func resourcesOf(r form.Resources) (v1.ResourceRequirements, error) {
	out := v1.ResourceRequirements{}
	var err error
	if out.Limits, err = quantities(r.Limits); err != nil {
		return out, err
	}
	if out.Requests, err = quantities(r.Requests); err != nil {
		return out, err
	}
	for name, q := range out.Limits {
		if _, given := out.Requests[name]; !given {
			if out.Requests == nil {
				out.Requests = v1.ResourceList{}
			}
			out.Requests[name] = q
		}
	}
	return out, nil
}

func quantities(in map[string]string) (v1.ResourceList, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := v1.ResourceList{}
	for name, s := range in {
		q, err := resource.ParseQuantity(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, s, err)
		}
		if q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is below zero: the API server refuses it", name, s)
		}
		out[v1.ResourceName(name)] = q
	}
	return out, nil
}
