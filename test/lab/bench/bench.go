// Package bench measures the real kube-scheduler with numafit against the same scheduler without it, on
// made-up nodes that have no kubelet.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

const (
	accelerator = "nvidia.com/gpu"
	endpoint    = "device.gpustack.ai/rdma"
	runLimit    = 5 * time.Minute
)

// Bench is one control plane with made-up nodes.
type Bench struct {
	cluster *cluster.Cluster
	runs    int
	log     func(string, ...any)
}

// Open starts a control plane and registers the fleet's nodes.
func Open(ctx context.Context, root string, machines *fleet.Fleet, log func(string, ...any)) (*Bench, error) {
	dir, err := os.MkdirTemp("", "numafit-bench-")
	if err != nil {
		return nil, err
	}
	running, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Fleet: machines, NoKubelets: true})
	if err != nil {
		return nil, err
	}
	b := &Bench{cluster: running, log: log}
	if err := running.RegisterMadeUpNodes(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends the control plane and removes its files.
func (b *Bench) Close() {
	b.cluster.Stop()
	_ = os.RemoveAll(b.cluster.Dir)
}

// pods makes the bench's workload: small and medium shapes in turn, few enough devices that there is
// aligned room for all of them.
func (b *Bench) pods(count int) []*core.Pod {
	b.runs++
	sizes := []int{1, 2, 1, 4}
	var pods []*core.Pod
	for i := range count {
		limits := core.ResourceList{
			core.ResourceCPU: resource.MustParse("100m"), core.ResourceMemory: resource.MustParse("64Mi"),
		}
		amount := *resource.NewQuantity(int64(sizes[i%len(sizes)]), resource.DecimalSI)
		limits[accelerator], limits[endpoint] = amount, amount
		pods = append(pods, &core.Pod{
			ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("bench-%d-%04d", b.runs, i), Namespace: "default"},
			Spec: core.PodSpec{Containers: []core.Container{{
				Name: "main", Image: "none", Resources: core.ResourceRequirements{Limits: limits},
			}}},
		})
	}
	return pods
}

// watcher follows binds. It also plays the kubelets: a bound Pod is reported Running at once, as a
// kubelet that admits it would, so that numafit sees a living cluster. The reports cost the API server
// the same with and without numafit.
type watcher struct {
	mu     sync.Mutex
	first  time.Time
	last   time.Time
	bound  map[string]bool
	done   chan struct{}
	wanted int
	report chan string
}

func (b *Bench) watch(ctx context.Context, wanted int) *watcher {
	w := &watcher{
		bound: map[string]bool{}, done: make(chan struct{}), wanted: wanted,
		report: make(chan string, wanted),
	}
	for range 8 {
		go b.reportRunning(ctx, w)
	}
	source := cache.NewListWatchFromClient(b.cluster.Client.CoreV1().RESTClient(), "pods", "default",
		fields.Everything())
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &core.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { w.see(object.(*core.Pod)) },
			UpdateFunc: func(_, object any) { w.see(object.(*core.Pod)) },
		},
	})
	watching, stop := context.WithCancel(ctx)
	go informer.RunWithContext(watching)
	go func() { // ends the informer with the run
		select {
		case <-w.done:
		case <-ctx.Done():
		}
		stop()
	}()
	return w
}

func (w *watcher) see(pod *core.Pod) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod.Spec.NodeName == "" || w.bound[pod.Name] || len(w.bound) == w.wanted {
		return
	}
	if len(w.bound) == 0 {
		w.first = now
	}
	w.last = now
	w.bound[pod.Name] = true
	w.report <- pod.Name // never blocks: it has room for all
	if len(w.bound) == w.wanted {
		close(w.report)
		close(w.done)
	}
}

// wait returns when every Pod is bound, with their rate: Pods per second between first and last bind.
func (w *watcher) wait(ctx context.Context) (float64, error) {
	select {
	case <-w.done:
		return float64(w.wanted-1) / w.last.Sub(w.first).Seconds(), nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		return 0, fmt.Errorf("%d of %d Pods were bound in time", len(w.bound), w.wanted)
	}
}

func (b *Bench) reportRunning(ctx context.Context, w *watcher) {
	for name := range w.report {
		// A failed report only leaves the Pod unreported for a while, as a slow kubelet does.
		_ = b.cluster.ReportRunning(ctx, name, "main")
	}
}

func (b *Bench) create(ctx context.Context, pods []*core.Pod) error {
	return cluster.Parallel(len(pods), func(i int) error {
		_, err := b.cluster.Client.CoreV1().Pods("default").Create(ctx, pods[i], meta.CreateOptions{})
		return err
	})
}

// clear removes every Pod.
func (b *Bench) clear(ctx context.Context) error {
	zero := int64(0)
	return b.cluster.Client.CoreV1().Pods("default").DeleteCollection(ctx,
		meta.DeleteOptions{GracePeriodSeconds: &zero}, meta.ListOptions{})
}

// kind is how the scheduler runs.
type kind string

const (
	with    kind = "with numafit"
	without kind = "without numafit"
	sampled kind = "without numafit, sampling nodes"
)

// measure places count Pods, which wait already when the scheduler starts, so that neither creating
// them nor the scheduler's start is measured.
func (b *Bench) measure(ctx context.Context, count int, kind kind) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	if kind == with {
		if err := b.cluster.StartExtender(ctx); err != nil {
			return 0, err
		}
		defer b.cluster.StopExtender()
	}
	if err := b.create(ctx, b.pods(count)); err != nil {
		return 0, err
	}
	w := b.watch(ctx, count)
	err := b.cluster.StartScheduler(ctx, cluster.SchedulerOptions{
		WithoutNumafit: kind != with, DefaultPercentage: kind == sampled,
	})
	if err != nil {
		return 0, err
	}
	rate, err := w.wait(ctx)
	b.cluster.StopScheduler()
	if err != nil {
		return 0, err
	}
	return rate, b.clear(ctx)
}

// Throughput is the answer of CompareThroughput. With and Without differ in the extender only: both look
// at every node (percentageOfNodesToScore 100). Sampled is the scheduler's own default, which looks at a
// part of a large fleet; it is there to be honest about what looking at every node costs.
type Throughput struct {
	Nodes          int       `json:"nodes"`
	Pods           int       `json:"pods"`
	With           []float64 `json:"podsPerSecondWith"`
	Without        []float64 `json:"podsPerSecondWithout"`
	Sampled        []float64 `json:"podsPerSecondWithoutAtDefaultPercentage"`
	Ratio          float64   `json:"ratioOfMedians"`
	RatioToSampled float64   `json:"ratioOfMediansToDefaultPercentage"`
}

// CompareThroughput measures each kind in turn, rounds times, after one unmeasured round.
func (b *Bench) CompareThroughput(ctx context.Context, pods, rounds int) (*Throughput, error) {
	rates := map[kind][]float64{}
	order := []kind{without, with, sampled}
	for round := range rounds + 1 {
		for _, kind := range order {
			rate, err := b.measure(ctx, pods, kind)
			if err != nil {
				return nil, err
			}
			b.log("%d nodes, round %d, %s: %.1f Pods/s", len(b.cluster.Fleet.Nodes), round, kind, rate)
			if round > 0 {
				rates[kind] = append(rates[kind], rate)
			}
		}
		slices.Reverse(order) // so that a machine that slows down slows all kinds alike
	}
	return &Throughput{
		Nodes: len(b.cluster.Fleet.Nodes), Pods: pods,
		With: rates[with], Without: rates[without], Sampled: rates[sampled],
		Ratio:          Median(rates[with]) / Median(rates[without]),
		RatioToSampled: Median(rates[with]) / Median(rates[sampled]),
	}, nil
}

// Gate is the answer of MeasureGate.
type Gate struct {
	Nodes        int                `json:"nodes"`
	Pods         int                `json:"pods"`
	Seconds      float64            `json:"seconds"`
	Binds        map[string]float64 `json:"bindsByResult"`
	RefusedShare float64            `json:"refusedShare"`
}

// MeasureGate creates Pods as fast as the API server takes them, with the scheduler running, and counts
// how many binds the extender's gate refused although there is room for all.
func (b *Bench) MeasureGate(ctx context.Context, count int) (*Gate, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	if err := b.cluster.StartExtender(ctx); err != nil {
		return nil, err
	}
	if err := b.cluster.StartScheduler(ctx, cluster.SchedulerOptions{}); err != nil {
		return nil, err
	}
	w := b.watch(ctx, count)
	begin := time.Now()
	if err := b.create(ctx, b.pods(count)); err != nil {
		return nil, err
	}
	_, err := w.wait(ctx)
	if err != nil {
		return nil, err
	}
	answer := &Gate{
		Nodes: len(b.cluster.Fleet.Nodes), Pods: count,
		Seconds: time.Since(begin).Seconds(), Binds: map[string]float64{},
	}
	// The watch shows a Pod as bound before the extender has counted it.
	for answer.Binds["bound"]+answer.Binds["already"] < float64(count) {
		if answer.Binds, err = b.binds(ctx); err != nil {
			return nil, err
		}
	}
	total := 0.0
	for _, value := range answer.Binds {
		total += value
	}
	answer.RefusedShare = answer.Binds["refused"] / total
	b.cluster.StopScheduler()
	b.cluster.StopExtender()
	return answer, b.clear(ctx)
}

// binds reads how the extender's binds ended: result to number.
func (b *Bench) binds(ctx context.Context) (map[string]float64, error) {
	samples, err := b.cluster.ExtenderMetrics(ctx)
	if err != nil {
		return nil, err
	}
	results := map[string]float64{}
	for name, value := range samples {
		result, isBind := strings.CutPrefix(name, `numafit_bind_total{result="`)
		if isBind && value != 0 {
			results[strings.TrimSuffix(result, `"}`)] = value
		}
	}
	if len(results) == 0 {
		return nil, errors.New("the extender's metrics have no numafit_bind_total")
	}
	return results, nil
}

// Median is 0 for no values.
func Median(values []float64) float64 {
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	n := len(sorted)
	if n == 0 {
		return 0
	}
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// parallel runs do(0..n-1) on a few goroutines and returns the first error.
// WriteFleet writes a fleet file of about nodes machines: half with two NUMA nodes of 4 + 4 devices and
// half with four of 2 + 2, every kubelet enforcing.
func WriteFleet(dir string, nodes int) (string, error) {
	var text strings.Builder
	text.WriteString("apiVersion: numafit.io/v1alpha1\nkind: Fleet\nshapes:\n")
	writeShape(&text, "even", 2, 4)
	writeShape(&text, "quarters", 4, 2)
	fmt.Fprintf(&text, "nodes:\n  - {shape: even, count: %d, namePrefix: gpu-node-of-the-bench-even-}\n", (nodes+1)/2)
	fmt.Fprintf(&text, "  - {shape: quarters, count: %d, namePrefix: gpu-node-of-the-bench-quarters-}\n", nodes/2)
	path := filepath.Join(dir, fmt.Sprintf("bench-%d.yaml", nodes))
	return path, os.WriteFile(path, []byte(text.String()), 0o644)
}

func writeShape(text *strings.Builder, name string, numas, each int) {
	fmt.Fprintf(text, "  - name: %s\n    kubelet: {version: v1.36.3, topologyManagerPolicy: single-numa-node,"+
		" topologyManagerScope: container}\n    numa:\n", name)
	for id := range numas {
		fmt.Fprintf(text, "      - {id: %d, cpus: %d-%d, threadsPerCore: 2, socket: %d, memory: 256Gi}\n",
			id, id*32, id*32+31, id*2/numas)
	}
	text.WriteString("    devices:\n")
	for id := range numas {
		fmt.Fprintf(text, "      - {resource: %s, numa: %d, count: %d}\n", accelerator, id, each)
		fmt.Fprintf(text, "      - {resource: %s, numa: %d, count: %d}\n", endpoint, id, each)
	}
}
