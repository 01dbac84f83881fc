package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/judge"
	"numafit.io/test/lab/namespace"
)

// demo runs the same Pods twice in a lab of its own: without numafit, then with it.
func demo([]string) error {
	if err := namespace.Enter(); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	if err := cluster.CheckPrograms(root); err != nil {
		return err
	}
	machines, err := loadFleet(root, "")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "numafit-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("Starting a real control plane and four real kubelets on made-up NUMA machines …")
	lab, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Fleet: machines})
	if err != nil {
		return err
	}
	defer lab.Stop()
	pods, err := readPods(filepath.Join(root, "test", "lab", "examples", "fragmented.yaml"))
	if err != nil {
		return err
	}
	for _, with := range []bool{false, true} {
		how := "as it comes, without numafit"
		if with {
			how = "with numafit"
			if err := lab.StartExtender(ctx); err != nil {
				return err
			}
		}
		if err := lab.StartScheduler(ctx, cluster.SchedulerOptions{WithoutNumafit: !with}); err != nil {
			return err
		}
		fmt.Printf("\n%d Pods (test/lab/examples/fragmented.yaml), kube-scheduler %s:\n\n", len(pods), how)
		if err := play(ctx, lab, pods); err != nil {
			return err
		}
		lab.StopScheduler()
		if err := removeAll(ctx, lab); err != nil {
			return err
		}
	}
	fmt.Print(`
To try your own Pods:  hack/lab.sh up
`)
	return nil
}

// play creates the Pods one after the other and prints what became of each.
func play(ctx context.Context, lab *cluster.Cluster, pods []core.Pod) error {
	for i := range pods {
		if _, err := lab.Client.CoreV1().Pods("default").Create(ctx, &pods[i], meta.CreateOptions{}); err != nil {
			return err
		}
	}
	now, err := waitSettled(ctx, lab)
	if err != nil {
		return err
	}
	lies := map[string]string{}
	for _, node := range lab.Nodes() {
		holdings, err := node.Holdings(ctx)
		if err != nil {
			return err
		}
		for _, holding := range holdings {
			text := judge.Describe(node.Node, holding)
			if judge.Misaligned(node.Node, holding) != "" {
				text += "  (not aligned; this kubelet enforces nothing)"
			}
			lies[strings.TrimPrefix(holding.Pod, "default/")] = text
		}
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POD\tWANTS\tNODE\tPHASE\tDEVICES LIE ON")
	refused := 0
	for _, item := range now {
		text := lies[item.Name]
		if why := whyNot(&item); why != "" {
			text = why
		}
		if item.Status.Phase == core.PodFailed {
			refused++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", item.Name, wants(&item), orDefault(item.Spec.NodeName, "-"),
			item.Status.Phase, text)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d Pods were refused by a kubelet.\n", refused, len(now))
	return nil
}

func wants(p *core.Pod) string {
	var words []string
	for _, container := range p.Spec.Containers {
		for name, quantity := range container.Resources.Limits {
			if strings.Contains(string(name), "/") {
				words = append(words, fmt.Sprintf("%d %s", quantity.Value(), name))
			}
		}
	}
	sort.Strings(words)
	return strings.Join(words, " + ")
}

// waitSettled waits until every Pod runs, was refused, or is known to wait, for two seconds on end.
func waitSettled(ctx context.Context, lab *cluster.Cluster) ([]core.Pod, error) {
	quiet := time.Now()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		now, err := lab.Client.CoreV1().Pods("default").List(ctx, meta.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range now.Items {
			if now.Items[i].Status.Phase == core.PodPending && whyNot(&now.Items[i]) == "" {
				quiet = time.Now()
			}
		}
		if time.Since(quiet) > 2*time.Second {
			return now.Items, nil
		}
	}
	return nil, fmt.Errorf("the Pods do not come to rest; logs are in %s", lab.Dir)
}

func removeAll(ctx context.Context, lab *cluster.Cluster) error {
	zero := int64(0)
	err := lab.Client.CoreV1().Pods("default").DeleteCollection(ctx,
		meta.DeleteOptions{GracePeriodSeconds: &zero}, meta.ListOptions{})
	if err != nil {
		return err
	}
	for range 300 {
		held := 0
		for _, node := range lab.Nodes() {
			holdings, err := node.Holdings(ctx)
			if err != nil {
				return err
			}
			held += len(holdings)
		}
		if held == 0 {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the kubelets do not let go of their devices")
}

func readPods(path string) ([]core.Pod, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var pods []core.Pod
	for _, document := range strings.Split(string(text), "\n---\n") {
		var item core.Pod
		if err := yaml.UnmarshalStrict([]byte(document), &item); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		pods = append(pods, item)
	}
	return pods, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
