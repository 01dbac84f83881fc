package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/fleet"
)

// podMaker makes random Pods for one machine, with amounts where it is decided something: about a NUMA
// node, about the whole, about what is free.
type podMaker struct {
	random *rand.Rand
	node   fleet.Node
	made   int
	// Pods that are refused for one reason each where the machine has that rule; mixed in between.
	provocations []func(*core.Pod)
}

const (
	cpu       = core.ResourceCPU
	memory    = core.ResourceMemory
	hugepages = core.ResourceName("hugepages-2Mi")
	gi        = int64(1) << 30
	mi        = int64(1) << 20
)

func newPodMaker(random *rand.Rand, node fleet.Node) *podMaker {
	m := &podMaker{random: random, node: node}
	only := func(limits bool, name core.ResourceName, value int64) func(*core.Pod) {
		return func(pod *core.Pod) {
			container := &pod.Spec.Containers[0]
			container.Resources = core.ResourceRequirements{Requests: core.ResourceList{
				cpu: resource.MustParse("100m"), memory: *resource.NewQuantity(mi, resource.BinarySI),
				name: *resource.NewQuantity(value, resource.BinarySI),
			}}
			if limits {
				container.Resources.Limits = container.Resources.Requests.DeepCopy()
			}
			if name == hugepages {
				container.Resources.Limits = core.ResourceList{name: container.Resources.Requests[name]}
			}
		}
	}
	cpus, bytes, _ := m.whole()
	m.provocations = []func(*core.Pod){
		only(true, cpu, 1),              // half a core
		only(false, cpu, cpus),          // more than Pods may have
		only(false, memory, bytes),      // likewise
		only(false, hugepages, bytes/2), // likewise
		only(true, memory, bytes*5/8),   // memory of several NUMA nodes
		only(true, gpu, 5),              // on no NUMA node
		only(true, cpu, cpus/2-1),
	}
	random.Shuffle(len(m.provocations), func(i, j int) {
		m.provocations[i], m.provocations[j] = m.provocations[j], m.provocations[i]
	})
	return m
}

// whole is what the machine has, and how many of its NUMA nodes have CPUs.
func (m *podMaker) whole() (cpus, bytes int64, withCPUs int) {
	for _, numa := range m.node.NUMA {
		cpus += int64(len(numa.CPUs()))
		bytes += numa.Memory
		if len(numa.Cores) > 0 {
			withCPUs++
		}
	}
	return cpus, bytes, withCPUs
}

// next is a Pod bound to the node.
func (m *podMaker) next() *core.Pod {
	m.made++
	grace := int64(1)
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Name: fmt.Sprintf("%s-%03d", m.node.Name, m.made), Namespace: "default",
			Annotations: map[string]string{},
		},
		Spec: core.PodSpec{
			NodeName: m.node.Name, TerminationGracePeriodSeconds: &grace, RestartPolicy: core.RestartPolicyNever,
			Containers: []core.Container{{Name: "c0", Image: "lab"}},
		},
	}
	if len(m.provocations) > 0 && m.made > 2 && m.random.IntN(3) == 0 {
		m.provocations[0](pod)
		m.provocations = m.provocations[1:]
		return pod
	}
	kind := m.random.IntN(10)
	m.fill(&pod.Spec.Containers[0], kind)
	if m.random.IntN(10) < 3 {
		second := core.Container{Name: "c1", Image: "lab"}
		m.fill(&second, kind)
		pod.Spec.Containers = append(pod.Spec.Containers, second)
	}
	var inits []string
	for i := range []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 2}[m.random.IntN(10)] {
		init := core.Container{Name: fmt.Sprintf("i%d", i), Image: "lab"}
		m.fill(&init, kind)
		if m.random.IntN(2) == 0 {
			always := core.ContainerRestartPolicyAlways
			init.RestartPolicy = &always
		} else {
			inits = append(inits, init.Name)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if len(inits) > 0 {
		pod.Annotations["lab.numafit.io/init-containers"] = strings.Join(inits, ",")
	}
	return pod
}

// fill gives a container its resources: kinds 0-5 make the Pod Guaranteed, 6 with half a CPU somewhere,
// 7 and 8 Burstable, 9 asks for devices alone.
func (m *podMaker) fill(container *core.Container, kind int) {
	limits := core.ResourceList{}
	set := func(name core.ResourceName, value int64) {
		if value > 0 {
			limits[name] = *resource.NewQuantity(value, resource.BinarySI)
		}
	}
	set(gpu, m.pick(0, 0, 1, 1, 1, 2, 2, 3, 4))
	set(rdma, m.pick(0, 0, 0, 1, 1, 2))
	container.Resources = core.ResourceRequirements{Limits: limits, Requests: core.ResourceList{}}
	if kind == 9 {
		if len(limits) == 0 {
			set(gpu, 1)
		}
		container.Resources.Requests = limits.DeepCopy()
		return
	}
	all, bytes, withCPUs := m.whole()
	perNUMA := all / int64(withCPUs)
	bytesPerNUMA := bytes / int64(len(m.node.NUMA))
	set(cpu, m.pick(1, 1, 2, 2, 2, 3, 4, perNUMA-1, perNUMA, perNUMA+2))
	set(memory, m.pick(256*mi, gi, gi, 4*gi, bytesPerNUMA/3, bytesPerNUMA/2, bytesPerNUMA-gi, bytesPerNUMA*5/4))
	if m.random.IntN(5) == 0 {
		set(hugepages, m.pick(2, 64, 512, 1024)*2*mi)
	}
	if kind == 6 && m.random.IntN(3) > 0 {
		limits[cpu] = *resource.NewMilliQuantity(m.pick(500, 1500, 2500), resource.DecimalSI)
	}
	container.Resources.Requests = limits.DeepCopy()
	if kind == 7 || kind == 8 {
		container.Resources.Requests[memory] = *resource.NewQuantity(m.pick(64*mi, 256*mi), resource.BinarySI)
		if kind == 8 {
			delete(limits, cpu)
		}
	}
}

func (m *podMaker) pick(values ...int64) int64 { return max(0, values[m.random.IntN(len(values))]) }
