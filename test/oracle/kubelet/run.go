//go:build k134 || k135 || k136 || k137

// Package kubelet runs the kubelet's own topology, device, CPU and memory
// managers, of the Kubernetes minor that the program is built with, over one
// case. It is the judge: nothing in here decides anything.
package kubelet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"numafit.io/numafit/test/oracle/form"
)

// Run plays the case on a fresh node. With shuffle, what the kubelet picks at
// random is more random than Go's small maps make it. A step's `observed` is
// what the node goes on from; the answer is still what really happened.
func Run(c *form.Case, shuffle *rand.Rand) form.Answer { return runTimed(c, shuffle, nil) }

func runTimed(c *form.Case, shuffle *rand.Rand, took func(time.Duration)) (answer form.Answer) {
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
	once.Do(prepare)
	whileMaking, throughout, err := gateSets(c.FeatureGates)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	if len(throughout) > 0 {
		alone.Lock()
		defer alone.Unlock()
		back, err := setGates(throughout)
		if err != nil {
			answer.Error = err.Error()
			return answer
		}
		defer back()
	} else {
		alone.RLock()
		defer alone.RUnlock()
	}
	if err := checkResizes(c); err != nil {
		answer.Error = err.Error()
		return answer
	}
	n, err := newNode(c, whileMaking, shuffle)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	n.took = took
	for i := range c.Steps {
		step, err := n.survive(i, &c.Steps[i])
		if err != nil {
			return form.Answer{ID: c.ID, Error: fmt.Sprintf("steps[%d]: %v", i, err)}
		}
		answer.Steps = append(answer.Steps, step)
		if step.Ends() {
			break
		}
	}
	return answer
}

// survive is a step; an admission in which the kubelet panics is the last one.
func (n *node) survive(i int, s *form.Step) (answer form.StepAnswer, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case drift:
			panic(p)
		default:
			no := false
			switch {
			case s.Admit != nil:
				answer = form.StepAnswer{Pod: s.Admit.Name, Admitted: &no, Reason: form.Panic}
			case s.Resize != nil:
				answer = form.StepAnswer{Pod: s.Resize.Name, Resize: form.ResizeNone, Reason: form.Panic}
			case s.Restart:
				answer = form.StepAnswer{Restarted: &no}
			default:
				panic(p)
			}
		}
	}()
	return n.step(i, s)
}

func (n *node) step(i int, s *form.Step) (form.StepAnswer, error) {
	switch {
	case s.Admit != nil:
		return n.admit(i, s.Admit, s.Observed)
	case s.Remove != "":
		delete(n.active, s.Remove)
		delete(n.started, s.Remove)
	case s.Start != "":
		n.start(s.Start)
		answer := form.StepAnswer{}
		n.fillState(&answer)
		if s.Observed != nil {
			n.imposeState(s.Observed)
		}
		return answer, nil
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
	case s.Restart:
		return n.restart(s.Observed)
	case s.Resize != nil:
		return n.resize(s.Resize, s.Observed)
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
	a := &admitted{pod: pod, of: p, at: i}
	delete(n.started, p.Name)
	answer := n.ask(a)
	n.fillState(&answer)
	if observed != nil {
		n.imposeDevices(a, allDevices(observed))
		if err := n.impose(a, observed); err != nil {
			return form.StepAnswer{}, err
		}
		n.imposeState(observed)
	}
	n.allocated(a)
	return answer, nil
}

// ask is topology admission, and what the Pod then has.
func (n *node) ask(a *admitted) form.StepAnswer {
	n.active[a.of.Name] = a
	start := time.Now()
	result := admit(n.topology, a.pod)
	if n.took != nil {
		n.took(time.Since(start))
	}
	answer := form.StepAnswer{Pod: a.of.Name, Admitted: &result.Admit}
	if result.Admit {
		answer.Containers = n.containers(a.of, string(a.pod.UID))
	} else {
		answer.Reason = result.Reason
		answer.Left = n.left(a.of, string(a.pod.UID))
		delete(n.active, a.of.Name)
	}
	n.fillPod(string(a.pod.UID), &answer)
	return answer
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
		a.Devices = n.devicesOf(uid, c.Name)
		a.CPUs, a.Memory = n.holding(uid, c.Name)
		out = append(out, a)
	}
	return out
}

// devicesOf is nil when the container has none.
func (n *node) devicesOf(uid, container string) map[string][]string {
	var out map[string][]string
	for r, list := range n.devices.GetDevices(uid, container) {
		if len(list) == 0 {
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[r] = sortedKeys(list)
	}
	return out
}

// start is PreStartContainer of each container, in order.
func (n *node) start(name string) {
	a := n.active[name]
	if a == nil {
		return
	}
	for i := range a.pod.Spec.InitContainers {
		n.startContainer(a.pod, &a.pod.Spec.InitContainers[i])
	}
	for i := range a.pod.Spec.Containers {
		n.startContainer(a.pod, &a.pod.Spec.Containers[i])
	}
	n.started[name] = true
}

func (n *node) startContainer(pod *v1.Pod, c *v1.Container) {
	startContainer(n.cpus, n.memory, n.topology, pod, c, containerID(pod, c))
}

func containerID(pod *v1.Pod, c *v1.Container) string { return string(pod.UID) + "/" + c.Name }
