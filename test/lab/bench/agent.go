package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

const (
	agentNode  = "bench-agent"
	stepLimit  = time.Minute
	kubeletGap = 10 * time.Millisecond // between two looks at the kubelet
	settleTime = 10 * time.Second
	// kube-scheduler tries a refused Pod again after a second at the earliest: a Pod that has waited for
	// longer is what people have.
	waitTime = 1200 * time.Millisecond
)

// AgentBench is a real kubelet of 8 accelerators and 8 endpoints with a real numafit-agent, which has the
// identity and the rights of deploy/manifests.
type AgentBench struct {
	cluster *cluster.Cluster
	node    *cluster.Node
	reports *reportWatch
	failed  bool // its files stay
	log     func(string, ...any)
}

// WriteAgentFleet writes a fleet file of that one machine.
func WriteAgentFleet(dir string) (string, error) {
	var text strings.Builder
	text.WriteString("apiVersion: numafit.io/v1alpha1\nkind: Fleet\nshapes:\n")
	writeShape(&text, "even", 2, 4)
	fmt.Fprintf(&text, "nodes:\n  - {shape: even, name: %s}\n", agentNode)
	path := filepath.Join(dir, "agent.yaml")
	return path, os.WriteFile(path, []byte(text.String()), 0o644)
}

// OpenAgent starts control plane, kubelet and agent.
func OpenAgent(ctx context.Context, root string, machines *fleet.Fleet, log func(string, ...any)) (*AgentBench, error) {
	dir, err := os.MkdirTemp("", "numafit-bench-")
	if err != nil {
		return nil, err
	}
	running, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Fleet: machines})
	if err != nil {
		return nil, err
	}
	b := &AgentBench{cluster: running, node: running.Node(agentNode), log: log}
	if err := b.start(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *AgentBench) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if _, err := b.cluster.ApplyManifests(ctx); err != nil {
		return err
	}
	b.reports = watchReports(b.cluster)
	first := b.reports.expect(func(*status) bool { return true })
	if _, _, err := b.node.StartAgentOfManifests(ctx); err != nil {
		return err
	}
	_, err := first.wait(ctx)
	return err
}

// Close ends everything and removes its files, unless something has failed.
func (b *AgentBench) Close() {
	if b.reports != nil {
		b.reports.stop()
	}
	b.cluster.Stop()
	if b.failed {
		b.log("its files stay in %s", b.cluster.Dir)
		return
	}
	_ = os.RemoveAll(b.cluster.Dir)
}

// Latency is how long something took, in milliseconds.
type Latency struct {
	What  string  `json:"what"`
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

func latencyOf(what string, took []time.Duration) Latency {
	sorted := slices.Sorted(slices.Values(took))
	at := func(share float64) float64 {
		if len(sorted) == 0 {
			return 0
		}
		i := max(int(math.Ceil(share*float64(len(sorted))))-1, 0)
		return float64(sorted[i]) / float64(time.Millisecond)
	}
	return Latency{What: what, Count: len(sorted), P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// AgentCost is the answer of Measure. Memory is in 10^6 bytes.
type AgentCost struct {
	Pods           int       `json:"pods"`
	MemoryMB       float64   `json:"memoryMB"`
	PeakMemoryMB   float64   `json:"peakMemoryMB"`
	IdleSeconds    float64   `json:"idleSeconds"`
	IdleCPUPercent float64   `json:"idleCPUPercentOfACore"`
	Reports        []Latency `json:"changeToReportMilliseconds"`
	Release        Latency   `json:"releaseToBindMilliseconds"`
}

// Measure measures an idle node with some Pods, then changes of each kind, rounds of each, then releases
// that a Pod waits for.
func (b *AgentBench) Measure(ctx context.Context, idle time.Duration, rounds, releases int) (cost *AgentCost, err error) {
	defer func() { b.failed = err != nil }()
	answer := &AgentCost{Pods: 4}
	for i := range answer.Pods {
		if _, err := b.startPod(ctx, fmt.Sprintf("stays-%d", i), 1); err != nil {
			return nil, err
		}
	}
	time.Sleep(settleTime)
	if err := b.measureIdle(answer, idle); err != nil {
		return nil, err
	}
	if answer.Reports, err = b.measureChanges(ctx, rounds); err != nil {
		return nil, err
	}
	if releases > 0 {
		if answer.Release, err = b.measureReleases(ctx, releases); err != nil {
			return nil, err
		}
	}
	answer.PeakMemoryMB, err = memoryMB(b.node.AgentPID(), "VmHWM")
	return answer, err
}

func (b *AgentBench) measureIdle(answer *AgentCost, idle time.Duration) error {
	pid := b.node.AgentPID()
	begin, before := time.Now(), 0.0
	before, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	time.Sleep(idle)
	after, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	answer.IdleSeconds = time.Since(begin).Seconds()
	answer.IdleCPUPercent = 100 * (after - before) / answer.IdleSeconds
	answer.MemoryMB, err = memoryMB(pid, "VmRSS")
	b.log("idle for %.0f s: %.2f %% of a core, %.1f MB", answer.IdleSeconds, answer.IdleCPUPercent, answer.MemoryMB)
	return err
}

func (b *AgentBench) measureChanges(ctx context.Context, rounds int) ([]Latency, error) {
	gpu := b.node.Devices[accelerator][7].ID
	kinds := []struct {
		what string
		do   func(round int) (time.Duration, error)
	}{
		{"Pod started", func(round int) (time.Duration, error) {
			return b.startPod(ctx, fmt.Sprintf("comes-%d", round), 1)
		}},
		{"Pod ended", func(round int) (time.Duration, error) { return b.endPod(ctx, fmt.Sprintf("comes-%d", round)) }},
		{"device unhealthy", func(int) (time.Duration, error) { return b.setHealth(ctx, gpu, false) }},
		{"device healthy", func(int) (time.Duration, error) { return b.setHealth(ctx, gpu, true) }},
	}
	took := make([][]time.Duration, len(kinds))
	for round := range rounds {
		for i, kind := range kinds {
			one, err := kind.do(round)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", kind.what, round, err)
			}
			took[i] = append(took[i], one)
		}
	}
	var all []Latency
	for i, kind := range kinds {
		all = append(all, latencyOf(kind.what, took[i]))
	}
	return append(all, latencyOf("any of these", slices.Concat(took...))), nil
}

// measureReleases fills one NUMA node for good and passes the other on from Pod to Pod, through
// kube-scheduler and the extender. What is measured ends with the bind, which follows the filter call at
// once.
func (b *AgentBench) measureReleases(ctx context.Context, rounds int) (Latency, error) {
	fail := func(err error) (Latency, error) { return Latency{}, err }
	if err := b.clear(ctx); err != nil {
		return fail(err)
	}
	token, err := b.cluster.ExtenderToken(ctx)
	if err != nil {
		return fail(err)
	}
	kubeconfig, err := b.cluster.TokenKubeconfig("extender-token", token)
	if err != nil {
		return fail(err)
	}
	if err := b.cluster.StartExtenderOfReports(ctx, kubeconfig); err != nil {
		return fail(err)
	}
	defer b.cluster.StopExtender()
	if err := b.cluster.StartScheduler(ctx, cluster.SchedulerOptions{}); err != nil {
		return fail(err)
	}
	defer b.cluster.StopScheduler()
	for _, name := range []string{"stays", "waits-0"} {
		if err := b.createPod(ctx, newPod(name, 4)); err != nil {
			return fail(err)
		}
		if _, err := b.awaitPod(ctx, name, isRunning); err != nil {
			return fail(err)
		}
	}
	var took []time.Duration
	for round := range rounds {
		one, err := b.passOn(ctx, fmt.Sprintf("waits-%d", round), fmt.Sprintf("waits-%d", round+1))
		if err != nil {
			return fail(fmt.Errorf("release, round %d: %w", round, err))
		}
		took = append(took, one)
	}
	return latencyOf("release to bind", took), nil
}

// passOn measures from the kubelet's release of what one Pod holds to the bind of another that waits.
func (b *AgentBench) passOn(ctx context.Context, from, to string) (time.Duration, error) {
	if err := b.createPod(ctx, newPod(to, 4)); err != nil {
		return 0, err
	}
	if _, err := b.awaitPod(ctx, to, isRefused); err != nil {
		return 0, err
	}
	time.Sleep(waitTime)
	type moment struct {
		at  time.Time
		err error
	}
	bound := make(chan moment, 1)
	go func() {
		at, err := b.awaitPod(ctx, to, func(pod *core.Pod) bool { return pod.Spec.NodeName != "" })
		bound <- moment{at, err}
	}()
	if err := b.deletePod(ctx, from); err != nil {
		return 0, err
	}
	released, err := b.awaitKubelet(ctx, from, false)
	if err != nil {
		return 0, err
	}
	end := <-bound
	if end.err != nil {
		return 0, end.err
	}
	_, err = b.awaitPod(ctx, to, isRunning)
	return end.at.Sub(released), err
}

func isRunning(pod *core.Pod) bool { return pod.Status.Phase == core.PodRunning }

func isRefused(pod *core.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodScheduled && c.Status == core.ConditionFalse
	})
}

// startPod starts a Pod on the node without a scheduler. From the last moment in which the kubelet did not
// list it to its report at the API server.
func (b *AgentBench) startPod(ctx context.Context, name string, devices int) (time.Duration, error) {
	pod := newPod(name, devices)
	pod.Spec.NodeName = agentNode
	reported := b.reports.expect(func(s *status) bool { return s.holds(name) })
	if err := b.createPod(ctx, pod); err != nil {
		return 0, err
	}
	return b.afterKubelet(ctx, name, true, reported)
}

// endPod is the same for a Pod that ends.
func (b *AgentBench) endPod(ctx context.Context, name string) (time.Duration, error) {
	reported := b.reports.expect(func(s *status) bool { return !s.holds(name) })
	if err := b.deletePod(ctx, name); err != nil {
		return 0, err
	}
	return b.afterKubelet(ctx, name, false, reported)
}

func (b *AgentBench) afterKubelet(ctx context.Context, name string, listed bool, reported *expectation) (time.Duration, error) {
	changed, err := b.awaitKubelet(ctx, name, listed)
	if err != nil {
		return 0, err
	}
	at, err := reported.wait(ctx)
	return at.Sub(changed), err
}

// setHealth is measured from the plugin's word.
func (b *AgentBench) setHealth(ctx context.Context, device string, healthy bool) (time.Duration, error) {
	reported := b.reports.expect(func(s *status) bool { return s.isHealthy(accelerator, device) == healthy })
	begin := time.Now()
	if err := b.node.SetHealth(accelerator, device, healthy); err != nil {
		return 0, err
	}
	at, err := reported.wait(ctx)
	return at.Sub(begin), err
}

// awaitKubelet returns when the last answer was asked for in which the kubelet did not say so yet.
func (b *AgentBench) awaitKubelet(ctx context.Context, name string, listed bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	last := time.Now()
	for {
		asked := time.Now()
		holdings, err := b.node.Holdings(ctx)
		if err != nil {
			return last, err
		}
		found := false
		for _, holding := range holdings {
			found = found || (holding.Pod == "default/"+name && len(holding.Devices) > 0)
		}
		if found == listed {
			return last, nil
		}
		last = asked
		time.Sleep(kubeletGap)
	}
}

func newPod(name string, devices int) *core.Pod {
	limits := core.ResourceList{
		core.ResourceCPU: resource.MustParse("100m"), core.ResourceMemory: resource.MustParse("64Mi"),
	}
	amount := *resource.NewQuantity(int64(devices), resource.DecimalSI)
	limits[accelerator], limits[endpoint] = amount, amount
	second := int64(1)
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default"},
		Spec: core.PodSpec{
			TerminationGracePeriodSeconds: &second,
			Containers: []core.Container{{
				Name: "main", Image: "none", Resources: core.ResourceRequirements{Limits: limits},
			}},
		},
	}
}

func (b *AgentBench) createPod(ctx context.Context, pod *core.Pod) error {
	_, err := b.cluster.Client.CoreV1().Pods("default").Create(ctx, pod, meta.CreateOptions{})
	return err
}

func (b *AgentBench) deletePod(ctx context.Context, name string) error {
	return b.cluster.Client.CoreV1().Pods("default").Delete(ctx, name, meta.DeleteOptions{})
}

// awaitPod returns when the watch showed that the Pod is so.
func (b *AgentBench) awaitPod(ctx context.Context, name string, is func(*core.Pod) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	stream, err := b.cluster.Client.CoreV1().Pods("default").Watch(ctx, meta.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	if err != nil {
		return time.Time{}, err
	}
	defer stream.Stop()
	last := &core.Pod{}
	for event := range stream.ResultChan() {
		pod, isPod := event.Object.(*core.Pod)
		if isPod && is(pod) {
			return time.Now(), nil
		}
		if isPod {
			last = pod
		}
	}
	return time.Time{}, fmt.Errorf("Pod %s did not become what was waited for; it is on node %q, %s, %s: %+v", name,
		last.Spec.NodeName, last.Status.Phase, last.Status.Message, last.Status.Conditions)
}

// clear removes every Pod and waits until the report names none.
func (b *AgentBench) clear(ctx context.Context) error {
	empty := b.reports.expect(func(s *status) bool { return len(s.Pods) == 0 })
	pods := b.cluster.Client.CoreV1().Pods("default")
	if err := pods.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{}); err != nil {
		return err
	}
	_, err := empty.wait(ctx)
	return err
}

// memoryMB reads a line of /proc/PID/status.
func memoryMB(pid int, line string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for row := range strings.Lines(string(text)) {
		if words := strings.Fields(row); len(words) == 3 && words[0] == line+":" {
			kib, err := strconv.ParseFloat(words[1], 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", pid, line)
}

// cpuSeconds is what the process has used so far: utime and stime of /proc/PID/stat.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, a name in brackets, may have spaces in it; the third is the first after it.
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const utime, stime, ticksPerSecond = 14 - 3, 15 - 3, 100
	if len(words) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(words))
	}
	ticks := 0.0
	for _, word := range []string{words[utime], words[stime]} {
		one, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return 0, err
		}
		ticks += one
	}
	return ticks / ticksPerSecond, nil
}
