package tests

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"numafit.io/test/lab/cluster"
)

// Pods come and go at random for a while. Room is given back and given away again while kubelets are
// still busy, which a single burst does not show. NUMAFIT_LAB_SEED repeats a run's choices (not its
// timing).
func TestPodsComeAndGo(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	startNumafit(t, lab)
	comeAndGo(t, lab, churn{pods: 96})
}

// churn is how Pods come and go.
type churn struct {
	pods    int                // created in all; about as many as run at a time are deleted meanwhile
	between func(wave int)     // called between two waves; may be nil
	excused func(refusal) bool // a refusal that nobody could have prevented; nil: there is none
}

const podsInAWave = 8

// comeAndGo makes Pods in waves, and checks that no kubelet refuses one and that none that could run
// waits in the end.
func comeAndGo(t *testing.T, lab *cluster.Cluster, how churn) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("NUMAFIT_LAB_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = given
	}
	t.Logf("NUMAFIT_LAB_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	refusals := watchRefusals(t, lab)
	for wave := range (how.pods + podsInAWave - 1) / podsInAWave {
		for i := range podsInAWave {
			pod := newPod(fmt.Sprintf("wave-%03d-%d", wave, i), randomDemand(random))
			if random.IntN(4) == 0 {
				pod = newPod(pod.Name, randomDemand(random), randomDemand(random))
			}
			create(t, lab, pod)
		}
		deleteAtRandom(t, lab, random)
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // the rhythm of the load
		if how.between != nil {
			how.between(wave)
		}
	}
	pods := settle(t, lab, 4*time.Minute, 12*time.Second)
	t.Logf("%d running, %d waiting", count(pods, "running"), count(pods, "unschedulable"))
	for _, refused := range refusals() {
		if how.excused != nil && how.excused(refused) {
			t.Logf("could not be prevented: %s", refused)
		} else {
			t.Error(refused)
		}
	}
	checkAligned(t, lab)
	checkNoneForgotten(t, lab, pods)
}

// refusal is a Pod that a kubelet has refused.
type refusal struct {
	pod, node string
	bound     time.Time // when it was bound, to the second
	seen      time.Time // when the refusal was seen
	why       string
}

func (r refusal) String() string {
	return fmt.Sprintf("%s, bound to %s at %s, failed: %s", r.pod, r.node, r.bound.Local().Format(time.TimeOnly), r.why)
}

// watchRefusals remembers every Pod that a kubelet refuses, also those that are deleted later.
func watchRefusals(t *testing.T, lab *cluster.Cluster) func() []refusal {
	t.Helper()
	var mu sync.Mutex
	refused := map[types.UID]refusal{}
	bound := map[types.UID]time.Time{}
	see := func(object any) {
		pod, isPod := object.(*core.Pod)
		if !isPod || pod.Spec.NodeName == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, condition := range pod.Status.Conditions {
			if condition.Type == core.PodScheduled && condition.Status == core.ConditionTrue {
				// A kubelet that refuses the Pod writes the condition anew.
				at, known := bound[pod.UID]
				if since := condition.LastTransitionTime.Time; !known || since.Before(at) {
					bound[pod.UID] = since
				}
			}
		}
		if pod.Status.Phase == core.PodFailed && pod.Status.Reason != "" {
			if _, known := refused[pod.UID]; !known {
				refused[pod.UID] = refusal{
					pod: pod.Name, node: pod.Spec.NodeName, bound: bound[pod.UID], seen: time.Now(),
					why: pod.Status.Reason + ": " + pod.Status.Message,
				}
			}
		}
	}
	source := cache.NewListWatchFromClient(lab.Client.CoreV1().RESTClient(), "pods", "default", fields.Everything())
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &core.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: see, UpdateFunc: func(_, object any) { see(object) }, DeleteFunc: see,
		},
	})
	go informer.RunWithContext(t.Context())
	return func() []refusal {
		mu.Lock()
		defer mu.Unlock()
		all := slices.Collect(maps.Values(refused))
		slices.SortFunc(all, func(a, b refusal) int { return a.bound.Compare(b.bound) })
		return all
	}
}

func randomDemand(random *rand.Rand) demand {
	size := []int{1, 1, 2, 2, 3, 4, 8}[random.IntN(7)]
	switch random.IntN(5) {
	case 0:
		return demand{gpus: size}
	case 1:
		return demand{rdmas: min(size, 4)}
	case 2:
		return demand{gpus: size, rdmas: 1}
	default:
		return demand{gpus: size, rdmas: size}
	}
}

// deleteAtRandom removes about a third of the running Pods and some of those that wait, as a person
// does: gracefully.
func deleteAtRandom(t *testing.T, lab *cluster.Cluster, random *rand.Rand) {
	t.Helper()
	pods := list(t, lab)
	for _, name := range sortedNames(pods) {
		keep := 3
		if pods[name].Status.Phase == core.PodPending {
			keep = 6
		}
		if random.IntN(keep) != 0 {
			continue
		}
		if err := lab.Client.CoreV1().Pods("default").Delete(t.Context(), name, meta.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}
