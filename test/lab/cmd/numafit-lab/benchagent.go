package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"numafit.io/test/lab/bench"
	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/namespace"
)

// benchAgent is `hack/bench.sh agent`.
func benchAgent(arguments []string) error {
	flags := flag.NewFlagSet("bench-agent", flag.ContinueOnError)
	idle := flags.Int("idle", 60, "seconds without a change")
	rounds := flags.Int("rounds", 40, "changes of each kind")
	releases := flags.Int("releases", 50, "releases that a Pod waits for; 0 leaves them out")
	asJSON := flags.Bool("json", false, "print one JSON object")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := namespace.Enter(); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "numafit-bench-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := bench.WriteAgentFleet(dir)
	if err != nil {
		return err
	}
	machines, err := loadFleet(root, path)
	if err != nil {
		return err
	}
	b, err := bench.OpenAgent(ctx, root, machines, func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	})
	if err != nil {
		return err
	}
	defer b.Close()
	cost, err := b.Measure(ctx, time.Duration(*idle)*time.Second, *rounds, *releases)
	if err != nil {
		return err
	}
	if *asJSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(cost)
	}
	printAgentCost(cost)
	return nil
}

func printAgentCost(cost *bench.AgentCost) {
	fmt.Printf("8 accelerators, 8 endpoints, %d Pods\n", cost.Pods)
	fmt.Printf("memory: %.1f MB, at most %.1f MB (wanted: under 25 MB)\n", cost.MemoryMB, cost.PeakMemoryMB)
	fmt.Printf("idle for %.0f s: %.2f %% of a core (wanted: under 0.5 %%)\n", cost.IdleSeconds, cost.IdleCPUPercent)
	fmt.Println("from a change on the node to its report at the API server (wanted: p99 under 1000 ms)")
	for _, latency := range cost.Reports {
		printLatency(latency)
	}
	if cost.Release.Count > 0 {
		fmt.Println("from the kubelet's release to the bind of a Pod that waits (wanted: p99 under 2000 ms)")
		printLatency(cost.Release)
	}
}

func printLatency(l bench.Latency) {
	fmt.Printf("  %-18s %4d times, p50 %5.0f ms, p99 %5.0f ms, at most %5.0f ms\n", l.What, l.Count, l.P50, l.P99, l.Max)
}
