package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
	"numafit.io/numafit/test/oracle/kubelet"
)

func benchCases(args []string) error {
	s := flags("bench-cases")
	if err := s.Parse(args); err != nil {
		return err
	}
	for _, c := range generate.Bench(s.Minor) {
		os.Stdout.Write(form.Line(c))
	}
	return nil
}

// cost is what admissions of one case took. The mirror's benchmark writes the
// same (test/bench/admit_bench.cc).
type cost struct {
	ID         json.RawMessage `json:"id,omitempty"`
	Admissions int             `json:"admissions"`
	Admitted   int             `json:"admitted,omitempty"`
	Median     float64         `json:"medianMicros,omitempty"`
	P99        float64         `json:"p99Micros,omitempty"`
	// The limit, when not even the first admission had come back by then.
	MoreThan float64 `json:"moreThanSeconds,omitempty"`
}

// timeCases times the kubelet's code in every case on standard input and,
// with --beside, another program in the same cases.
func timeCases(args []string) error {
	s := flags("time")
	limit := s.Duration("limit", 10*time.Second, "how long the kubelet may take for one case")
	rounds := s.Int("rounds", 20, "how often a case is played")
	beside := s.String("beside", "", "`command` that reads the same cases and says what they cost")
	asJSON := s.Bool("json", false, "JSON instead of a table")
	if err := s.Parse(args); err != nil {
		return err
	}
	if kubelet.Minor == "" {
		return fmt.Errorf("built without the kubelet's code: nothing to time")
	}
	cases, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	others := map[string]cost{}
	if *beside != "" {
		if others, err = costsOf(*beside, cases); err != nil {
			return err
		}
	}
	t := table{asJSON: *asJSON, others: others}
	t.begin()
	for line := range bytes.Lines(cases) {
		c, err := form.ParseCase(line)
		if err != nil {
			return err
		}
		k, err := timeInChild(line, *rounds, *limit)
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		k.ID = c.ID
		t.row(k)
	}
	t.end()
	return nil
}

// timeInChild runs one case in a process of its own, which can be ended.
func timeInChild(line []byte, rounds int, limit time.Duration) (cost, error) {
	self, err := os.Executable()
	if err != nil {
		return cost{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	child := exec.CommandContext(ctx, self, "time-one", "--cases", strconv.Itoa(rounds))
	child.Stdin = bytes.NewReader(line)
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil && ctx.Err() == nil {
		return cost{}, err
	}
	var micros []float64
	for _, word := range strings.Fields(string(out)) {
		if ns, err := strconv.ParseInt(word, 10, 64); err == nil {
			micros = append(micros, float64(ns)/1000)
		}
	}
	if len(micros) == 0 {
		return cost{MoreThan: limit.Seconds()}, nil
	}
	slices.Sort(micros)
	at := func(percent int) float64 { return micros[min(len(micros)-1, len(micros)*percent/100)] }
	return cost{Admissions: len(micros), Median: at(50), P99: at(99)}, nil
}

// timeOne plays the case on standard input again and again and writes the
// nanoseconds of each admission as it comes.
func timeOne(args []string) error {
	s := flags("time-one")
	if err := s.Parse(args); err != nil {
		return err
	}
	return lines(func(c *form.Case) any {
		out := bufio.NewWriter(os.Stdout)
		for range s.Cases {
			err := kubelet.Time(c, func(d time.Duration) {
				fmt.Fprintln(out, d.Nanoseconds())
				out.Flush()
			})
			if err != nil {
				fmt.Fprintln(os.Stderr, "oracle:", err)
				os.Exit(2)
			}
		}
		return struct{}{}
	})
}

func costsOf(command string, cases []byte) (map[string]cost, error) {
	words := strings.Fields(command)
	run := exec.Command(words[0], words[1:]...)
	run.Stdin = bytes.NewReader(cases)
	run.Stderr = os.Stderr
	out, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	costs := map[string]cost{}
	for line := range bytes.Lines(out) {
		c := cost{}
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", command, err, line)
		}
		costs[string(c.ID)] = c
	}
	return costs, nil
}

// table writes a row as soon as it is known.
type table struct {
	asJSON bool
	others map[string]cost
	rows   int
}

func (t *table) begin() {
	if t.asJSON {
		fmt.Printf("{\"kubernetes\":%q,\"cases\":[", kubelet.Minor)
		return
	}
	fmt.Printf("microseconds of one admission, Kubernetes %s\n%-64s %21s %21s\n%-64s %10s %10s %10s %10s\n", kubelet.Minor,
		"", "numafit", "the kubelet's code", "", "median", "p99", "median", "p99")
}

func (t *table) row(k cost) {
	other, known := t.others[string(k.ID)]
	if t.asJSON {
		row := map[string]any{"id": k.ID, "kubelet": withoutID(k)}
		if known {
			row["numafit"] = withoutID(other)
		}
		if t.rows++; t.rows > 1 {
			fmt.Print(",")
		}
		fmt.Printf("\n%s", bytes.TrimSpace(form.Line(row)))
		return
	}
	name, _ := strconv.Unquote(string(k.ID))
	of := func(c cost, known bool) string {
		switch {
		case !known:
			return fmt.Sprintf("%10s %10s", "-", "-")
		case c.MoreThan > 0:
			return fmt.Sprintf("%21s", fmt.Sprintf("more than %g s", c.MoreThan))
		}
		return fmt.Sprintf("%10.1f %10.1f", c.Median, c.P99)
	}
	fmt.Printf("%-64s %s %s\n", name, of(other, known), of(k, true))
}

func (t *table) end() {
	if t.asJSON {
		fmt.Println("\n]}")
	}
}

func withoutID(c cost) cost { c.ID = nil; return c }
