package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"numafit.io/test/lab/bench"
	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/namespace"
)

type benchReport struct {
	Throughput []*bench.Throughput `json:"throughput"`
	Gate       *bench.Gate         `json:"gate,omitempty"`
}

// benchScheduler is `hack/bench.sh scheduler`.
func benchScheduler(arguments []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	sizes := flags.String("nodes", "1000,5000", "made-up nodes, one comparison each")
	pods := flags.Int("pods", 400, "Pods per run")
	rounds := flags.Int("rounds", 5, "measured runs of each kind")
	gateNodes := flags.Int("gate-nodes", 500, "made-up nodes of the burst; 0 leaves it out")
	gatePods := flags.Int("gate-pods", 1000, "Pods of the burst")
	asJSON := flags.Bool("json", false, "print one JSON object")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := namespace.Enter(); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	report := &benchReport{}
	for _, size := range strings.Split(*sizes, ",") {
		if size == "" {
			continue
		}
		nodes, err := strconv.Atoi(size)
		if err != nil {
			return fmt.Errorf("--nodes: %w", err)
		}
		err = withBench(ctx, nodes, func(b *bench.Bench) error {
			answer, err := b.CompareThroughput(ctx, *pods, *rounds)
			report.Throughput = append(report.Throughput, answer)
			return err
		})
		if err != nil {
			return err
		}
	}
	if *gateNodes > 0 {
		err := withBench(ctx, *gateNodes, func(b *bench.Bench) (err error) {
			report.Gate, err = b.MeasureGate(ctx, *gatePods)
			return err
		})
		if err != nil {
			return err
		}
	}
	if *asJSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	printBench(report)
	return nil
}

func withBench(ctx context.Context, nodes int, do func(*bench.Bench) error) error {
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "numafit-bench-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := bench.WriteFleet(dir, nodes)
	if err != nil {
		return err
	}
	machines, err := loadFleet(root, path)
	if err != nil {
		return err
	}
	b, err := bench.Open(ctx, root, machines, func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	})
	if err != nil {
		return err
	}
	defer b.Close()
	return do(b)
}

func printBench(report *benchReport) {
	for _, t := range report.Throughput {
		fmt.Printf("%5d nodes, %d Pods a run, medians of %d runs: %.1f Pods/s with numafit, %.1f without; ratio %.2f (wanted: at least 0.90)\n",
			t.Nodes, t.Pods, len(t.With), bench.Median(t.With), bench.Median(t.Without), t.Ratio)
		fmt.Printf("             both look at every node; without numafit and at the default percentageOfNodesToScore: %.1f Pods/s, ratio %.2f\n",
			bench.Median(t.Sampled), t.RatioToSampled)
	}
	if g := report.Gate; g != nil {
		fmt.Printf("burst of %d Pods over %d nodes with room for all: %.1f s, %.2f %% of binds refused at the gate (wanted: under 1 %%); %v\n",
			g.Pods, g.Nodes, g.Seconds, 100*g.RefusedShare, g.Binds)
	}
}
