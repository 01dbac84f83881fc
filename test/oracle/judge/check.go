package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"numafit.io/numafit/test/oracle/form"
)

// checker follows a case while its answer is compared with a claim.
type checker struct {
	c     *form.Case
	exact bool // the mirror knew the state before every step
	t     *Tally
	lists listings

	memory  map[string]int // containers of a Pod that hold memory
	release int            // those of Pods that are gone, since the last admission
}

// check compares a real answer with a claim. With exact the mirror knew the
// state before every admission, so it owes what follows from it. The problem
// is empty when all is well; step is where it is not.
func check(c *form.Case, real *form.Answer, said *claim, exact bool, t *Tally) (problem string, step int) {
	if said.broken() {
		return said.Error, -1
	}
	if real.Error != "" || said.Error != "" {
		if (real.Error != "") != (said.Error != "") {
			return fmt.Sprintf("error: kubelet %q, mirror %q", real.Error, said.Error), -1
		}
		if exact { // each case is asked twice
			t.Errors++
		}
		return "", 0
	}
	if said.unsupported() {
		return "unsupported, and the kubelet has answered", -1
	}
	ended := len(real.Steps) > 0 && real.Steps[len(real.Steps)-1].Ends()
	if len(said.Steps) < len(real.Steps) || (len(said.Steps) > len(real.Steps) && !ended) {
		return fmt.Sprintf("%d steps are answered, not %d", len(said.Steps), len(real.Steps)), -1
	}
	k := &checker{c: c, exact: exact, t: t, lists: listings{}, memory: map[string]int{}}
	k.lists.apply(c.Devices)
	for i := range real.Steps {
		if p := k.step(&c.Steps[i], &real.Steps[i], &said.Steps[i]); p != "" {
			return p, i
		}
	}
	return "", 0
}

func (k *checker) step(s *form.Step, real *form.StepAnswer, said *stepClaim) string {
	switch {
	case s.Devices != nil:
		k.lists.apply(s.Devices)
	case s.Remove != "":
		k.release += k.memory[s.Remove]
		delete(k.memory, s.Remove)
	case s.Admit != nil:
		owed := k.exact && k.release < 2 // the order of one release is known
		p := k.verdict(len(s.Admit.All()), real, said, owed)
		k.release = 0
		k.hold(real)
		return p
	case s.Start != "":
		return k.state(real, said, k.exact)
	case s.Restart:
		clear(k.lists) // no plugin has come back
		return k.restart(real, said)
	case s.Resize != nil:
		return k.resize(real, said)
	}
	return ""
}

// resize compares the verdict on a resize, and what the Pod has afterwards.
func (k *checker) resize(real *form.StepAnswer, said *stepClaim) string {
	t := k.t
	t.Asked++
	switch {
	case said.Pod != real.Pod:
		return fmt.Sprintf("pod: kubelet %q, mirror %q", real.Pod, said.Pod)
	case said.Settling && said.Resize != nil:
		return "settling with a verdict"
	case said.Settling:
		t.Settling++
		return ""
	case said.Resize == nil && !slices.Contains(said.Resizes, real.Resize):
		return fmt.Sprintf("resize: kubelet %s (%s), mirror one of %v", real.Resize, real.Reason, said.Resizes)
	case said.Resize == nil:
		t.Null++
	case *said.Resize != real.Resize:
		return fmt.Sprintf("resize: kubelet %s (%s), mirror %s (%v)", real.Resize, real.Reason, *said.Resize, said.Reasons)
	}
	owed := k.exact && k.release < 2 && said.Resize != nil
	if !real.IsAdmitted() {
		return k.notResized(real, said)
	}
	k.release = 0
	k.memory[real.Pod] = 0
	for _, c := range real.Containers {
		if len(c.Memory) > 0 {
			k.memory[real.Pod]++
		}
	}
	if p := k.containers(real, said, owed); p != "" {
		return p
	}
	return k.state(real, said, owed && len(real.Containers) == 1)
}

func (k *checker) notResized(real *form.StepAnswer, said *stepClaim) string {
	if !slices.Contains(said.Reasons, real.Reason) {
		return fmt.Sprintf("reason: kubelet %s, mirror %v", real.Reason, said.Reasons)
	}
	if real.Reason != form.Gone {
		k.memory[real.Pod] = 0
	}
	for _, h := range real.Left {
		if len(h.Memory) > 0 {
			k.memory[real.Pod]++
		}
	}
	if said.Resize == nil {
		return "" // state and rest are those where it is taken
	}
	if p := k.left(real, said); p != "" {
		return p
	}
	return k.state(real, said, false)
}

// hold notes what will be released some day.
func (k *checker) hold(real *form.StepAnswer) {
	k.memory[real.Pod] = 0
	for _, c := range real.Containers {
		if len(c.Memory) > 0 {
			k.memory[real.Pod]++
		}
	}
	for _, h := range real.Left {
		if len(h.Memory) > 0 {
			k.release++
		}
	}
}

func (k *checker) restart(real *form.StepAnswer, said *stepClaim) string {
	owed := k.exact && k.c.MemoryPolicy != "Static"
	switch {
	case said.Restarted == nil && owed:
		return "restarted: the mirror does not say"
	case said.Restarted != nil && *said.Restarted != *real.Restarted:
		return fmt.Sprintf("restarted: kubelet %v, mirror %v", *real.Restarted, *said.Restarted)
	case !*real.Restarted:
		return ""
	}
	if said.Readmitted == nil && !k.exact {
		return k.state(real, said, false) // which Pods were active depends on what happened before
	}
	if len(said.Readmitted) != len(real.Readmitted) {
		return fmt.Sprintf("%d Pods are admitted again, mirror says %d", len(real.Readmitted), len(said.Readmitted))
	}
	for i := range real.Readmitted {
		r := &real.Readmitted[i]
		if p := k.verdict(len(r.Containers), r, &said.Readmitted[i], k.exact && i == 0); p != "" {
			return "admitted again: " + p
		}
		k.hold(r)
	}
	return k.state(real, said, false)
}

// verdict compares an admission. What is owed is what follows from a known
// state.
func (k *checker) verdict(containers int, real *form.StepAnswer, said *stepClaim, owed bool) string {
	t := k.t
	t.Asked++
	if said.Pod != real.Pod {
		return fmt.Sprintf("pod: kubelet %q, mirror %q", real.Pod, said.Pod)
	}
	if said.Settling {
		if owed && containers == 1 {
			return "settling although the state was observed and there is one container"
		}
		if said.Admitted != nil {
			return "settling with a verdict"
		}
		t.Settling++
		return ""
	}
	if said.Admitted == nil {
		t.Null++
	} else if *said.Admitted != real.IsAdmitted() {
		return fmt.Sprintf("admitted: kubelet %v (%s), mirror %v (%s)", real.IsAdmitted(), real.Reason, *said.Admitted, said.Reason)
	}
	if !real.IsAdmitted() {
		return k.refusal(real, said)
	}
	if p := k.containers(real, said, owed); p != "" {
		return p
	}
	if p := wholePod(real, said, owed && said.Admitted != nil); p != "" {
		return p
	}
	return k.state(real, said, owed && containers == 1)
}

func (k *checker) refusal(real *form.StepAnswer, said *stepClaim) string {
	reasons := said.Reasons
	if len(reasons) == 0 && said.Reason != "" {
		reasons = []string{said.Reason}
	}
	if !slices.Contains(reasons, real.Reason) {
		return fmt.Sprintf("reason: kubelet %s, mirror %v", real.Reason, reasons)
	}
	if said.Admitted == nil {
		return "" // state and rest are those of the admitting outcomes
	}
	if p := wholePod(real, said, false); p != "" {
		return p
	}
	if p := k.left(real, said); p != "" {
		return p
	}
	known := *k
	known.t = &Tally{} // a mirror may let go of what is left at once
	return known.state(real, said, false)
}

// left compares what containers have of a Pod that is refused, or not resized.
func (k *checker) left(real *form.StepAnswer, said *stepClaim) string {
	if said.Left == nil {
		return ""
	}
	different := fmt.Sprintf("left: kubelet %s, mirror %s", form.Line(real.Left), form.Line(*said.Left))
	if len(real.Left) != len(*said.Left) {
		return different
	}
	for i, s := range *said.Left {
		r := real.Left[i]
		if s.Name != r.Name || s.CPUs != r.CPUs || !same(s.Memory, r.Memory) {
			return different
		}
		if p := k.devices(r.Devices, s.Devices); p != "" {
			return "left: container " + r.Name + ": " + p
		}
	}
	return ""
}

// wholePod compares what the Pod has beside what its containers have.
func wholePod(real *form.StepAnswer, said *stepClaim, owed bool) string {
	switch {
	case said.PodCPUs != nil && *said.PodCPUs != real.PodCPUs:
		return fmt.Sprintf("podCpus: kubelet %q, mirror %q", real.PodCPUs, *said.PodCPUs)
	case said.PodCPUs == nil && real.PodCPUs != "" && owed:
		return "podCpus: they are determined, the mirror does not say"
	case said.PodMemory != nil && !same(*said.PodMemory, real.PodMemory):
		return fmt.Sprintf("podMemory: kubelet %s, mirror %s", form.Line(real.PodMemory), form.Line(*said.PodMemory))
	case said.PodMemory == nil && len(real.PodMemory) > 0 && owed:
		return "podMemory: it is determined, the mirror does not say"
	}
	return ""
}

// state compares what the state files hold after a step.
func (k *checker) state(real *form.StepAnswer, said *stepClaim, owed bool) string {
	if real.DefaultCPUs != nil {
		switch {
		case said.DefaultCPUs != nil && *said.DefaultCPUs != *real.DefaultCPUs:
			return fmt.Sprintf("defaultCpus: kubelet %q, mirror %q", *real.DefaultCPUs, *said.DefaultCPUs)
		case said.DefaultCPUs == nil && owed:
			return "defaultCpus: they are determined, the mirror does not say"
		}
		k.t.States.count(k.exact, said.DefaultCPUs != nil)
	} else if said.DefaultCPUs != nil {
		return fmt.Sprintf("defaultCpus: the kubelet keeps none, mirror %q", *said.DefaultCPUs)
	}
	if real.MemoryState != nil {
		switch {
		case said.MemoryState != nil && !same(*said.MemoryState, real.MemoryState):
			return fmt.Sprintf("memoryState: kubelet %s, mirror %s", form.Line(real.MemoryState), form.Line(*said.MemoryState))
		case said.MemoryState == nil && owed:
			return "memoryState: it is determined, the mirror does not say"
		}
		k.t.States.count(k.exact, said.MemoryState != nil)
	} else if said.MemoryState != nil {
		return "memoryState: the kubelet keeps none"
	}
	return ""
}

// same compares as JSON: an empty list and none are one.
func same[T any](a, b []T) bool {
	return (len(a) == 0 && len(b) == 0) || bytes.Equal(form.Line(a), form.Line(b))
}

func (k *checker) containers(real *form.StepAnswer, said *stepClaim, owed bool) string {
	if len(said.Containers) != len(real.Containers) {
		return fmt.Sprintf("%d containers, mirror says %d", len(real.Containers), len(said.Containers))
	}
	for i := range real.Containers {
		r, s := &real.Containers[i], &said.Containers[i]
		if r.Name != s.Name {
			return fmt.Sprintf("container %d: kubelet %q, mirror %q", i, r.Name, s.Name)
		}
		mustKnow := owed && i == 0
		for _, p := range []string{alignment(r, s, mustKnow), k.devices(r.Devices, s.Devices), k.holding(r, s, mustKnow, len(real.Containers) == 1)} {
			if p != "" {
				return fmt.Sprintf("container %s: %s", r.Name, p)
			}
		}
	}
	return ""
}

func alignment(r *form.ContainerAnswer, s *containerClaim, owed bool) string {
	if owed && (s.Affinity == nil || s.Preferred == nil) {
		return "affinity and preferred are determined, the mirror does not say"
	}
	if affinity, _ := json.Marshal(r.Affinity); s.Affinity != nil && !bytes.Equal(affinity, compact(s.Affinity)) {
		return fmt.Sprintf("affinity: kubelet %s, mirror %s", affinity, s.Affinity)
	}
	if s.Preferred != nil && *s.Preferred != r.Preferred {
		return fmt.Sprintf("preferred: kubelet %v, mirror %v", r.Preferred, *s.Preferred)
	}
	return ""
}

func (k *checker) devices(real map[string][]string, said map[string]deviceClaim) string {
	for name, ids := range real {
		d, claimed := said[name]
		if !claimed {
			k.t.Unclaimed++
			continue
		}
		k.t.Claimed++
		if counts := k.lists.count(name, ids); !d.holds(ids, counts) {
			return fmt.Sprintf("%s: kubelet gave %v, by NUMA %v, mirror says %v %v", name, ids, counts, d.ids, d.possible)
		}
	}
	for name, d := range said {
		if _, has := real[name]; !has && !d.holds(nil, map[string]int{}) {
			return fmt.Sprintf("%s: kubelet gave none, mirror says %v %v", name, d.ids, d.possible)
		}
	}
	return ""
}

// holding compares CPUs and memory blocks. What an only container has of memory
// no other container uses again.
func (k *checker) holding(r *form.ContainerAnswer, s *containerClaim, owed, only bool) string {
	switch {
	case s.CPUs != nil && *s.CPUs != r.CPUs:
		return fmt.Sprintf("cpus: kubelet %q, mirror %q", r.CPUs, *s.CPUs)
	case s.CPUs == nil && r.CPUs != "" && owed:
		return "cpus: they are determined, the mirror does not say"
	case s.Memory != nil && !same(*s.Memory, r.Memory):
		return fmt.Sprintf("memory: kubelet %s, mirror %s", form.Line(r.Memory), form.Line(*s.Memory))
	case s.Memory == nil && len(r.Memory) > 0 && owed && only:
		return "memory: it is determined, the mirror does not say"
	}
	if r.CPUs != "" {
		k.t.CPUs.count(k.exact, s.CPUs != nil)
	}
	if len(r.Memory) > 0 {
		k.t.Memory.count(k.exact, s.Memory != nil)
	}
	return ""
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return b
	}
	return out.Bytes()
}
