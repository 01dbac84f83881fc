package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

// waitLimit is for a machine that is busy with something else; a kubelet needs a second or two.
const waitLimit = 3 * time.Minute

// Kubelets with static CPU and memory managers, every topology policy and scope, take random Pods that
// are bound to them without a scheduler; what each will do is said before by `numafit admit`, from what
// the kubelet is seen to have done with the Pods before.
//
// The counting of whole nodes (OutOfcpu and its like) is not part of `numafit admit`, which mirrors
// topology admission; it is done here, by predictCounting.
//
// NUMAFIT_LAB_PREDICTIONS is the number of Pods (200), NUMAFIT_LAB_SEED repeats a run's Pods.
func TestKubeletsDoWhatIsPredicted(t *testing.T) {
	root, err := cluster.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	numafit, err := fleet.FindNumafit(root)
	if err != nil {
		t.Fatal(err)
	}
	machines, err := fleet.Load(filepath.Join(root, "test", "fleets", "lab-static.yaml"), numafit)
	if err != nil {
		t.Fatal(err)
	}
	total := int(numberFromEnvironment(t, "NUMAFIT_LAB_PREDICTIONS", 200))
	seed := numberFromEnvironment(t, "NUMAFIT_LAB_SEED", uint64(time.Now().UnixNano()))
	t.Logf("NUMAFIT_LAB_PREDICTIONS=%d NUMAFIT_LAB_SEED=%d", total, seed)
	lab := startLab(t, cluster.Options{Fleet: machines})
	pods := watchPods(t, lab)

	begin := time.Now()
	result := &tally{reasons: map[string]int{}}
	var group sync.WaitGroup
	nodes := lab.Nodes()
	for i, node := range nodes {
		count := (total + len(nodes) - 1 - i) / len(nodes)
		group.Add(1)
		go func() {
			defer group.Done()
			run, err := newPredictionRun(t, lab, node, numafit, pods, rand.New(rand.NewPCG(seed, uint64(i))), result)
			if err == nil {
				err = run.play(count)
			}
			if err != nil {
				t.Errorf("%s: %v", node.Name, err)
			}
		}()
	}
	group.Wait()
	result.report(t, time.Since(begin), filepath.Join(lab.Dir, "mispredictions.jsonl"))
}

func numberFromEnvironment(t *testing.T, name string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return number
}

// watchPods keeps all Pods of the default namespace as the API server has them.
func watchPods(t *testing.T, lab *cluster.Cluster) cache.Store {
	t.Helper()
	source := cache.NewListWatchFromClient(lab.Client.CoreV1().RESTClient(), "pods", "default", fields.Everything())
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &core.Pod{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	go informer.RunWithContext(t.Context())
	return store
}

// predictionRun is the story of one node.
type predictionRun struct {
	t           *testing.T
	lab         *cluster.Cluster
	node        *cluster.Node
	numafit     string
	store       cache.Store
	random      *rand.Rand
	maker       *podMaker
	result      *tally
	described   map[string]any
	allocatable core.ResourceList
	steps       []caseStep  // what has happened
	active      []*core.Pod // admitted and not removed
	wrong       []string    // about the last Pod
}

func newPredictionRun(t *testing.T, lab *cluster.Cluster, node *cluster.Node, numafit string, store cache.Store,
	random *rand.Rand, result *tally) (*predictionRun, error) {
	described, err := caseOf(node.Node)
	if err != nil {
		return nil, err
	}
	object, err := lab.Client.CoreV1().Nodes().Get(t.Context(), node.Name, meta.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &predictionRun{t: t, lab: lab, node: node, numafit: numafit, store: store, random: random,
		maker: newPodMaker(random, node.Node), result: result, described: described,
		allocatable: object.Status.Allocatable}, nil
}

func (r *predictionRun) play(count int) error {
	for range count {
		for len(r.active) > 0 && r.random.IntN(8) < len(r.active)+1 {
			if err := r.remove(r.random.IntN(len(r.active))); err != nil {
				return err
			}
			if r.random.IntN(4) > 0 {
				break
			}
		}
		if err := r.admitOne(r.maker.next()); err != nil {
			return err
		}
	}
	for _, pod := range r.active {
		if _, err := r.await(pod.Name, "to run", isRunning); err != nil {
			return err
		}
	}
	return nil
}

// admitOne predicts, creates, and compares.
func (r *predictionRun) admitOne(pod *core.Pod) error {
	steps := append(slices.Clone(r.steps), caseStep{Admit: casePodOf(pod)})
	hasInit := pod.Annotations["lab.numafit.io/init-containers"] != ""
	if hasInit {
		steps = append(steps, caseStep{Start: pod.Name})
	}
	answers, line, err := askNumafit(r.numafit, r.described, steps)
	if err != nil {
		return fmt.Errorf("%w; the case: %s", err, line)
	}
	predicted := answers[len(r.steps)]
	counting := r.predictCounting(pod)

	created, err := r.lab.Client.CoreV1().Pods(pod.Namespace).Create(r.t.Context(), pod, meta.CreateOptions{})
	if err != nil {
		return err
	}
	decided := isDecided
	if hasInit {
		decided = func(pod *core.Pod) bool { return pod.Status.Phase == core.PodFailed || isRunning(pod) }
	}
	seen, err := r.await(pod.Name, "to be admitted or refused", decided)
	if err != nil {
		return err
	}
	r.result.add(func(t *tally) {
		t.pods++
		if predicted.Admitted == nil {
			t.either++
		}
		reason := seen.Status.Reason
		if seen.Status.Phase != core.PodFailed {
			reason = "admitted"
		}
		t.reasons[reason]++
	})
	r.wrong = nil
	if verdict := compareVerdict(predicted, counting, seen); verdict != "" {
		r.complain("%s %s", verdict, seen.Status.Message)
	}
	books, err := r.node.Books()
	if err != nil {
		return err
	}
	switch {
	case seen.Status.Phase != core.PodFailed:
		r.active = append(r.active, created)
		err = r.takeAdmitted(created, predicted, answers[len(answers)-1], books, hasInit)
	case strings.HasPrefix(seen.Status.Reason, "OutOf"):
		r.takeCountedOut(created, predicted, books)
	default:
		r.takeRefused(created, predicted, books)
	}
	r.reportWrong(pod.Name)
	return err
}

func (r *predictionRun) complain(format string, arguments ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, arguments...))
}

// reportWrong fails the test with what was wrong about the last Pod, and with the case that shows it.
func (r *predictionRun) reportWrong(name string) {
	if len(r.wrong) == 0 {
		return
	}
	r.t.Errorf("%s: %s", name, strings.Join(r.wrong, "; "))
	r.described["steps"] = r.steps
	line, err := json.Marshal(r.described)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.result.add(func(t *tally) { t.wrong = append(t.wrong, string(line)) })
}

// takeAdmitted compares what an admitted Pod got and writes it down.
func (r *predictionRun) takeAdmitted(pod *core.Pod, predicted, last answer, books *cluster.Books, hasInit bool) error {
	got, err := r.holdings(pod, books)
	if err != nil {
		return err
	}
	if predicted.Admitted != nil && *predicted.Admitted {
		r.compareHoldings(pod, predicted, got)
		r.compareBooks(last, books)
	}
	seen := observationOf(pod, true)
	seen.Containers = got
	if !hasInit {
		seen.takeBooks(books)
		r.steps = append(r.steps, caseStep{Admit: casePodOf(pod), Observed: seen})
		return nil
	}
	// The books were read after the init containers had ended: their memory is not to be seen any more. It
	// is taken as predicted; if that was wrong, so is the state after the start.
	for i := range got {
		for _, claimed := range predicted.Containers {
			if claimed.Name == got[i].Name && isPlainInit(pod, claimed.Name) {
				got[i].Memory = claimed.Memory
			}
		}
	}
	started := &observed{}
	started.takeBooks(books)
	r.steps = append(r.steps, caseStep{Admit: casePodOf(pod), Observed: seen},
		caseStep{Start: pod.Name, Observed: started})
	return nil
}

// takeCountedOut: topology admission has given the Pod everything, and takes it back when it next looks.
func (r *predictionRun) takeCountedOut(pod *core.Pod, predicted answer, books *cluster.Books) {
	r.compareBooks(predicted, books)
	seen := observationOf(pod, true)
	seen.Containers = fromBooks(pod, books)
	seen.takeBooks(books)
	r.steps = append(r.steps, caseStep{Admit: casePodOf(pod), Observed: seen}, caseStep{Remove: pod.Name})
}

// takeRefused: what was given before the refusal is taken back when topology admission next looks.
func (r *predictionRun) takeRefused(pod *core.Pod, predicted answer, books *cluster.Books) {
	r.compareBooks(predicted, books)
	seen := observationOf(pod, false)
	for _, have := range fromBooks(pod, books) {
		have.Devices = nil
		if have.CPUs != "" || have.Memory != nil {
			seen.Left = append(seen.Left, have)
		}
	}
	seen.takeBooks(books)
	r.steps = append(r.steps, caseStep{Admit: casePodOf(pod), Observed: seen})
}

func observationOf(pod *core.Pod, admitted bool) *observed {
	return &observed{Pod: pod.Name, Admitted: &admitted}
}

func (o *observed) takeBooks(books *cluster.Books) {
	o.DefaultCPUs, o.MemoryState = &books.DefaultCPUs, books.Memory
}

// remove deletes a running Pod, and waits until the kubelet has let go of it: then its resources are free
// for the next admission.
func (r *predictionRun) remove(at int) error {
	pod := r.active[at]
	if err := r.lab.Client.CoreV1().Pods(pod.Namespace).Delete(r.t.Context(), pod.Name, meta.DeleteOptions{}); err != nil {
		return err
	}
	r.active = slices.Delete(r.active, at, at+1)
	r.steps = append(r.steps, caseStep{Remove: pod.Name})
	r.result.add(func(t *tally) { t.removed++ })
	deadline := time.Now().Add(waitLimit)
	for {
		list, err := r.node.PodResources(r.t.Context())
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(p *podresources.PodResources) bool { return p.Name == pod.Name }) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was deleted %s ago, and its kubelet has not let go of it", pod.Name, waitLimit)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *predictionRun) await(name, what string, done func(*core.Pod) bool) (*core.Pod, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), waitLimit)
	defer cancel()
	for {
		object, there, err := r.store.GetByKey("default/" + name)
		if err != nil {
			return nil, err
		}
		if there && done(object.(*core.Pod)) {
			return object.(*core.Pod), nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("waited in vain for " + name + " " + what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isDecided: a kubelet writes the state of containers only of Pods that it has admitted.
func isDecided(pod *core.Pod) bool {
	return pod.Status.Phase == core.PodFailed || len(pod.Status.ContainerStatuses) > 0
}

func isRunning(pod *core.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running == nil {
			return false
		}
	}
	return pod.Status.Phase == core.PodRunning && len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers)
}

// predictCounting says which resources the whole node has not enough of; the kubelet counts after
// topology admission (lifecycle/predicate.go). It names the first of CPU, memory and any other.
func (r *predictionRun) predictCounting(pod *core.Pod) []string {
	used := core.ResourceList{}
	for _, other := range append(slices.Clone(r.active), pod) {
		for name, quantity := range resourcehelper.PodRequests(other, resourcehelper.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(quantity)
			used[name] = sum
		}
	}
	var others []string
	for name, sum := range used {
		if allocatable := r.allocatable[name]; sum.Cmp(allocatable) > 0 {
			if own := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})[name]; own.IsZero() {
				continue
			}
			others = append(others, "OutOf"+string(name))
		}
	}
	for _, first := range []string{"OutOfcpu", "OutOfmemory"} {
		if slices.Contains(others, first) {
			return []string{first}
		}
	}
	return others
}
