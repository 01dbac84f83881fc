package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/judge"
	"numafit.io/test/lab/namespace"
)

// state is what the running lab says about itself over its control socket.
type state struct {
	PID         int      `json:"pid"` // a process inside the lab's namespaces
	User        bool     `json:"user"`
	Ready       bool     `json:"ready"`
	Error       string   `json:"error,omitempty"`
	WithNumafit bool     `json:"withNumafit"`
	Kubeconfig  string   `json:"kubeconfig"`
	Steps       []string `json:"steps"`
	Nodes       []node   `json:"nodes,omitempty"`
	Pods        []pod    `json:"pods,omitempty"`
}

type node struct {
	Name   string                    `json:"name"`
	Policy string                    `json:"policy"`
	Scope  string                    `json:"scope"`
	NUMA   []int                     `json:"numa"`
	Free   map[string]map[string]int `json:"free"`  // resource, NUMA node
	Total  map[string]map[string]int `json:"total"` // healthy devices
}

type pod struct {
	Name  string `json:"name"`
	Phase string `json:"phase"`
	Node  string `json:"node"`
	Why   string `json:"why,omitempty"`
	NUMA  string `json:"numa,omitempty"`
}

// lab is the process that holds a person's lab.
type lab struct {
	mu      sync.Mutex
	state   state
	cluster *cluster.Cluster
	stop    context.CancelFunc
}

// serve runs a lab in the foreground until SIGTERM, SIGINT or `down`.
func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	fleetPath := flags.String("fleet", "", "fleet file")
	without := flags.Bool("without-numafit", false, "kube-scheduler as it comes")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := namespace.Enter(); err != nil {
		return err
	}
	dir := labDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	l := &lab{stop: cancel, state: state{PID: os.Getpid(), User: namespace.IsUser(), WithNumafit: !*without}}
	server := &http.Server{Handler: l.handler()}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if err := l.start(ctx, dir, *fleetPath); err != nil {
		l.mu.Lock()
		l.state.Error = err.Error()
		l.mu.Unlock()
		fmt.Fprintln(os.Stderr, err)
		// `up` reads the error and then tells us to end; without it there is nobody to wait for.
	}
	<-ctx.Done()
	if l.cluster != nil {
		l.cluster.Stop()
	}
	return os.RemoveAll(dir)
}

func (l *lab) start(ctx context.Context, dir, fleetPath string) error {
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	machines, err := loadFleet(root, fleetPath)
	if err != nil {
		return err
	}
	running, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Fleet: machines, Log: l.step})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.cluster = running
	l.state.Kubeconfig = running.Kubeconfig()
	numafit := l.state.WithNumafit
	l.mu.Unlock()
	if err := l.startScheduler(ctx, numafit); err != nil {
		return err
	}
	l.mu.Lock()
	l.state.Ready = true
	l.mu.Unlock()
	return nil
}

func (l *lab) startScheduler(ctx context.Context, numafit bool) error {
	if numafit {
		if err := l.cluster.StartExtender(ctx); err != nil {
			return err
		}
	} else {
		l.cluster.StopExtender()
	}
	if err := l.cluster.StartScheduler(ctx, cluster.SchedulerOptions{WithoutNumafit: !numafit}); err != nil {
		return err
	}
	l.mu.Lock()
	l.state.WithNumafit = numafit
	l.mu.Unlock()
	return nil
}

func (l *lab) step(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Steps = append(l.state.Steps, fmt.Sprintf(format, arguments...))
}

func (l *lab) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		answer := l.state
		answer.Steps = append([]string(nil), l.state.Steps...)
		l.mu.Unlock()
		if answer.Ready && r.URL.Query().Has("nodes") {
			if err := l.look(r.Context(), &answer); err != nil {
				answer.Error = err.Error()
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		l.stop()
	})
	mux.HandleFunc("POST /scheduler", func(w http.ResponseWriter, r *http.Request) {
		answer(w, l.whenReady(func() error {
			return l.startScheduler(r.Context(), r.URL.Query().Get("numafit") == "true")
		}))
	})
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		answer(w, l.whenReady(func() error {
			node := l.cluster.Node(query.Get("node"))
			if node == nil {
				return fmt.Errorf("the lab has no node %q", query.Get("node"))
			}
			return node.SetHealth(query.Get("resource"), query.Get("id"), query.Get("healthy") == "true")
		}))
	})
	return mux
}

func (l *lab) whenReady(do func() error) error {
	l.mu.Lock()
	ready := l.state.Ready
	l.mu.Unlock()
	if !ready {
		return errors.New("the lab is not ready yet")
	}
	return do()
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// look asks the kubelets and the API server how things are.
func (l *lab) look(ctx context.Context, answer *state) error {
	lies := map[string]string{} // Pod to where its devices are
	for _, machine := range l.cluster.Nodes() {
		holdings, err := machine.Holdings(ctx)
		if err != nil {
			return fmt.Errorf("PodResources of %s: %w", machine.Name, err)
		}
		entry := node{
			Name: machine.Name, Policy: orDefault(machine.Kubelet.TopologyPolicy, "none"),
			Scope: orDefault(machine.Kubelet.TopologyScope, "container"),
			Free:  byName(judge.FreeDevices(machine.Node, holdings)),
			Total: byName(judge.FreeDevices(machine.Node, nil)),
		}
		for _, numa := range machine.NUMA {
			entry.NUMA = append(entry.NUMA, numa.ID)
		}
		answer.Nodes = append(answer.Nodes, entry)
		for _, holding := range holdings {
			if text := judge.Describe(machine.Node, holding); text != "" {
				if lies[holding.Pod] != "" {
					text = lies[holding.Pod] + "; " + text
				}
				lies[holding.Pod] = text
			}
		}
	}
	pods, err := l.cluster.Client.CoreV1().Pods("").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range pods.Items {
		name := item.Namespace + "/" + item.Name
		answer.Pods = append(answer.Pods, pod{
			Name: name, Phase: string(item.Status.Phase), Node: item.Spec.NodeName,
			Why: whyNot(&item), NUMA: lies[name],
		})
	}
	return nil
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func byName(counts judge.Free) map[string]map[string]int {
	named := map[string]map[string]int{}
	for resource, perNUMA := range counts {
		named[resource] = map[string]int{}
		for numa, count := range perNUMA {
			named[resource][fmt.Sprint(numa)] = count
		}
	}
	return named
}
