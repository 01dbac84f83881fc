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
	comeAndGo(t, lab, 12)
}

// comeAndGo makes so many waves of Pods, and checks that no kubelet refuses one and that none that could
// run waits in the end.
func comeAndGo(t *testing.T, lab *cluster.Cluster, waves int) {
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
	for wave := range waves {
		for i := range 8 {
			pod := newPod(fmt.Sprintf("wave-%02d-%d", wave, i), randomDemand(random))
			if random.IntN(4) == 0 {
				pod = newPod(pod.Name, randomDemand(random), randomDemand(random))
			}
			create(t, lab, pod)
		}
		deleteAtRandom(t, lab, random)
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // the rhythm of the load
	}
	pods := settle(t, lab, 4*time.Minute, 12*time.Second)
	t.Logf("%d running, %d waiting", count(pods, "running"), count(pods, "unschedulable"))
	for _, refusal := range refusals() {
		t.Error(refusal)
	}
	checkAligned(t, lab)
	checkNoneForgotten(t, lab, pods)
}

// watchRefusals remembers every Pod that a kubelet refuses, also those that are deleted later.
func watchRefusals(t *testing.T, lab *cluster.Cluster) func() []string {
	t.Helper()
	var mu sync.Mutex
	refused := map[types.UID]string{}
	see := func(object any) {
		pod, isPod := object.(*core.Pod)
		if !isPod || pod.Status.Phase != core.PodFailed || pod.Status.Reason == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		refused[pod.UID] = fmt.Sprintf("%s on %s failed: %s: %s",
			pod.Name, pod.Spec.NodeName, pod.Status.Reason, pod.Status.Message)
	}
	source := cache.NewListWatchFromClient(lab.Client.CoreV1().RESTClient(), "pods", "default", fields.Everything())
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &core.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: see, UpdateFunc: func(_, object any) { see(object) }, DeleteFunc: see,
		},
	})
	go informer.RunWithContext(t.Context())
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Values(refused))
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
