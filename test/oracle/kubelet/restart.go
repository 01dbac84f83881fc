//go:build k134 || k135 || k136 || k137

package kubelet

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"

	"numafit.io/numafit/test/oracle/form"
)

// restart is the end of the kubelet's process and a new one, containers
// running on: new managers read the state files of the old ones, then every
// Pod that was active is admitted again, oldest first, before the sources of
// Pods are ready and before any device plugin has come back.
func (n *node) restart(observed *form.StepAnswer) (form.StepAnswer, error) {
	files := checkpoints{}
	setField(n.devices, "checkpointManager", checkpointmanager.CheckpointManager(files))
	if err := saveDevices(n.devices); err != nil {
		return form.StepAnswer{}, err
	}
	pods, there, running := n.found()
	restarted := false
	answer := form.StepAnswer{Restarted: &restarted}
	oldCPUs, oldMemory := n.cpuState, n.memoryState
	if err := n.wire(there, running); err != nil {
		return form.StepAnswer{}, err // they were made like this before
	}
	cpus, err := reloadCPUs(oldCPUs, n.cpuPolicy(), there.Clone())
	if err != nil {
		return answer, nil
	}
	memory, err := reloadMemory(oldMemory, n.memoryPolicy())
	if err != nil {
		return answer, nil
	}
	if err := n.startPolicies(cpus, memory); err != nil {
		return answer, nil // "please drain node and remove policy state file"
	}
	setField(n.devices, "checkpointManager", checkpointmanager.CheckpointManager(files))
	if err := loadDevices(n.devices); err != nil {
		return form.StepAnswer{}, err
	}
	setField(n.devices, "checkpointManager", checkpointmanager.CheckpointManager(noCheckpoints{}))

	n.active = map[string]*admitted{}
	for _, a := range pods {
		again := n.ask(a)
		for i := range again.Containers {
			again.Containers[i].Devices = nil // none is given out
		}
		answer.Readmitted = append(answer.Readmitted, again)
	}
	n.sources.ready = true
	restarted = true
	n.fillState(&answer)
	return answer, n.imposeRestart(pods, observed)
}

// found is what a new kubelet finds: Pods in the order of their admission, the
// containers that the runtime knows, and those that run.
func (n *node) found() ([]*admitted, containermap.ContainerMap, sets.Set[string]) {
	var pods []*admitted
	there, running := containermap.NewContainerMap(), sets.New[string]()
	for name, a := range n.active {
		pods = append(pods, a)
		if !n.started[name] {
			continue
		}
		for i := range a.pod.Spec.InitContainers {
			c := &a.pod.Spec.InitContainers[i]
			there.Add(string(a.pod.UID), c.Name, containerID(a.pod, c))
			if c.RestartPolicy != nil { // a sidecar; the others have ended
				running.Insert(containerID(a.pod, c))
			}
		}
		for i := range a.pod.Spec.Containers {
			c := &a.pod.Spec.Containers[i]
			there.Add(string(a.pod.UID), c.Name, containerID(a.pod, c))
			running.Insert(containerID(a.pod, c))
		}
	}
	slices.SortFunc(pods, func(x, y *admitted) int { return x.at - y.at })
	return pods, there, running
}

// imposeRestart: devices are not given out in a restart, they stay with a Pod
// or go with it.
func (n *node) imposeRestart(pods []*admitted, observed *form.StepAnswer) error {
	if observed == nil {
		return nil
	}
	for i := range observed.Readmitted {
		seen := &observed.Readmitted[i]
		for _, a := range pods {
			if a.of.Name != seen.Pod {
				continue
			}
			if err := n.impose(a, seen); err != nil {
				return err
			}
		}
	}
	n.imposeState(observed)
	return nil
}
