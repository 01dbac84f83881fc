package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	extender "k8s.io/kube-scheduler/extender/v1"

	"numafit.io/test/lab/cluster"
)

// fragment leaves room for one aligned 3+3 on lab-a, although by count two would fit: NUMA 0 keeps 2+2,
// NUMA 1 has 4+4.
func fragment(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	create(t, lab, on("lab-a", newPod("half", demand{2, 2})))
	eventually(t, 30*time.Second, "the first Pod to run", func() string {
		if pod := list(t, lab)["half"]; pod.Status.Phase != core.PodRunning {
			return podState(pod)
		}
		return ""
	})
}

func on(node string, pod *core.Pod) *core.Pod {
	pod.Spec.NodeSelector = map[string]string{core.LabelHostname: node}
	return pod
}

func TestTwoPodsRaceForTheLastAlignedRoom(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	startNumafit(t, lab)
	for round := range 5 {
		fragment(t, lab)
		racers := []*core.Pod{
			on("lab-a", newPod(fmt.Sprintf("racer-%d-a", round), demand{3, 3})),
			on("lab-a", newPod(fmt.Sprintf("racer-%d-b", round), demand{3, 3})),
		}
		var together sync.WaitGroup
		for _, pod := range racers {
			together.Go(func() { create(t, lab, pod) })
		}
		together.Wait()
		pods := settle(t, lab, time.Minute, 3*time.Second)
		checkNoneFailed(t, pods)
		checkAligned(t, lab)
		if bound := boundOf(pods, racers); len(bound) != 1 {
			t.Errorf("round %d: bound: %v, want exactly one\n%s", round, bound, stateOf(pods))
		}
		deleteAll(t, lab)
	}
}

// The scheduler itself rarely lets two Pods race, because it places one at a time. Here both were
// offered the room before either is bound, and both binds come at once: only the gate can decide.
func TestTwoBindsAtOnceForTheSameRoom(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	startNumafit(t, lab)
	for round := range 5 {
		fragment(t, lab)
		var racers []*core.Pod
		for _, suffix := range []string{"a", "b"} {
			pod := newPod(fmt.Sprintf("racer-%d-%s", round, suffix), demand{3, 3})
			pod.Spec.SchedulerName = "this-test" // no scheduler touches it
			create(t, lab, pod)
			racers = append(racers, list(t, lab)[pod.Name])
		}
		for _, pod := range racers {
			offered := ask[extender.ExtenderFilterResult](t, lab, "filter", extender.ExtenderArgs{
				Pod: pod, NodeNames: &[]string{"lab-a"},
			})
			if offered.NodeNames == nil || len(*offered.NodeNames) != 1 {
				t.Fatalf("round %d: %s was not offered lab-a: %+v", round, pod.Name, offered)
			}
		}
		var together sync.WaitGroup
		answers := make([]extender.ExtenderBindingResult, len(racers))
		for i, pod := range racers {
			together.Go(func() {
				answers[i] = ask[extender.ExtenderBindingResult](t, lab, "bind", extender.ExtenderBindingArgs{
					PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: "lab-a",
				})
			})
		}
		together.Wait()
		bound := boundOf(list(t, lab), racers)
		if len(bound) != 1 {
			t.Errorf("round %d: bound: %v, want exactly one; answers %+v", round, bound, answers)
		}
		said := 0
		for _, answer := range answers {
			if answer.Error == "" {
				said++
			}
		}
		if said != 1 {
			t.Errorf("round %d: %d answers say that the Pod is bound: %+v", round, said, answers)
		}
		for _, name := range bound {
			eventually(t, 20*time.Second, name+" to run", func() string {
				if pod := list(t, lab)[name]; pod.Status.Phase != core.PodRunning {
					return string(pod.Status.Phase) + " " + pod.Status.Reason
				}
				return ""
			})
		}
		deleteAll(t, lab)
	}
}

func boundOf(pods map[string]*core.Pod, among []*core.Pod) []string {
	var bound []string
	for _, pod := range among {
		if pods[pod.Name].Spec.NodeName != "" {
			bound = append(bound, pod.Name)
		}
	}
	return bound
}

// ask calls the extender as kube-scheduler does.
func ask[Answer any](t *testing.T, lab *cluster.Cluster, verb string, question any) Answer {
	t.Helper()
	var answer Answer
	address, err := cluster.ExtenderAddress(lab.TrialConfig())
	if err != nil {
		t.Error(err)
		return answer
	}
	body, err := json.Marshal(question)
	if err != nil {
		t.Error(err)
		return answer
	}
	response, err := http.Post("http://"+address+"/"+verb, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Errorf("%s: %v", verb, err)
		return answer
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s answered %s", verb, response.Status)
		return answer
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Errorf("%s: %v", verb, err)
	}
	return answer
}
