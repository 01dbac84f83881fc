// Command oracle is the judge of numafit's mirror of the kubelet: it runs the
// kubelet's own managers over cases (docs/case-format.md) and compares.
//
//	oracle run                       cases on standard input, answers on standard output
//	oracle gen                       random cases
//	oracle compare --mirror COMMAND  random cases, both sides; exit 1 on a disagreement
//	oracle fixture --fixtures FOLDER [--name NAME] NOTE  keeps the case on standard input with the real answer
//	oracle fixtures --mirror COMMAND the stored disagreements
//	oracle record                    random cases with the real answers, gzip
//	oracle replay FILE --mirror COMMAND
//	oracle bench-cases               the cases of hack/bench.sh policy
//	oracle time                      what the topology manager's Admit costs in the cases on standard input
//
// Built with -modfile=mod/k136.mod -tags k136 it holds Kubernetes 1.36;
// without a tag it holds none, and can only gen, replay and check fixtures.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
	"numafit.io/numafit/test/oracle/judge"
	"numafit.io/numafit/test/oracle/kubelet"
)

func main() {
	debug.SetGCPercent(800)
	if len(os.Args) < 2 {
		usage()
	}
	commands := map[string]func([]string) error{
		"run": run, "gen": gen, "compare": compare, "fixtures": fixtures, "record": record, "replay": replay, "fixture": fixture,
		"bench-cases": benchCases, "time": timeCases, "time-one": timeOne,
	}
	command := commands[os.Args[1]]
	if command == nil {
		usage()
	}
	if err := command(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: oracle run|gen|compare|fixture|fixtures|record|replay|bench-cases|time [flags]; see docs/case-format.md")
	os.Exit(2)
}

// settings are the flags that several commands share.
type settings struct {
	*flag.FlagSet
	judge.Options
	cpuProfile string
	name       string
}

func flags(name string) *settings {
	s := &settings{FlagSet: flag.NewFlagSet(name, flag.ExitOnError)}
	minor := kubelet.Minor
	if minor == "" {
		minor = "1.36"
	}
	s.StringVar(&s.Minor, "kubernetes", minor, "whose `minor` the cases name")
	s.Uint64Var(&s.Seed, "seed", rand.Uint64()>>32, "seed of the cases; random when left out")
	s.Uint64Var(&s.From, "from", 0, "index of the first case")
	s.Uint64Var(&s.Cases, "cases", 1000, "number of cases")
	s.StringVar(&s.Managers, "managers", generate.Devices, "`which` the cases are about: devices, all, pod-level, or resize")
	s.IntVar(&s.Jobs, "jobs", runtime.NumCPU(), "cases at the same time")
	s.StringVar(&s.Mirror, "mirror", "", "`command` that reads cases and answers them")
	s.StringVar(&s.Fixtures, "fixtures", "", "`folder` for disagreements")
	s.IntVar(&s.Most, "most", 3, "stop after so many disagreements")
	s.StringVar(&s.name, "name", "", "`file` name of a fixture, without folder and .json; from its contents when left out")
	s.BoolVar(&s.Expected, "expect-disagreement", false, "the mirror is known to be wrong: exit 1 when it is not found out")
	s.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile to this `file`")
	return s
}

// Parse also says which kinds of cases there are.
func (s *settings) Parse(args []string) error {
	if err := s.FlagSet.Parse(args); err != nil {
		return err
	}
	if !slices.Contains(generate.Kinds, s.Managers) {
		return fmt.Errorf("--managers %s: one of %v is wanted", s.Managers, generate.Kinds)
	}
	return nil
}

// lines reads cases and hands each to do, which answers.
func lines(do func(c *form.Case) any) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		c, err := form.ParseCase(in.Bytes())
		var out any = nil
		if err != nil {
			out = form.Answer{Error: err.Error()}
		} else {
			out = do(c)
		}
		if _, err := os.Stdout.Write(form.Line(out)); err != nil {
			return err
		}
	}
	return in.Err()
}

func run(args []string) error {
	if err := flags("run").Parse(args); err != nil {
		return err
	}
	return lines(func(c *form.Case) any {
		if c.Repeat > 1 {
			return repeat(c)
		}
		return kubelet.Run(c, nil)
	})
}

// repeat answers with every different outcome, the most frequent first.
func repeat(c *form.Case) form.Answer {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	seen := map[string]*form.Outcome{}
	for range c.Repeat {
		a := kubelet.Run(c, r)
		if a.Error != "" {
			return a
		}
		if c.Brief {
			for i := range a.Steps {
				a.Steps[i].Containers = nil
			}
		}
		key := string(form.Line(a.Steps))
		if seen[key] == nil {
			seen[key] = &form.Outcome{Steps: a.Steps}
		}
		seen[key].Count++
	}
	a := form.Answer{ID: c.ID}
	for _, o := range seen {
		a.Outcomes = append(a.Outcomes, *o)
	}
	slices.SortFunc(a.Outcomes, func(x, y form.Outcome) int { return y.Count - x.Count })
	return a
}

func gen(args []string) error {
	s := flags("gen")
	if err := s.Parse(args); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "seed", s.Seed)
	out := bufio.NewWriter(os.Stdout)
	for i := range s.Cases {
		out.Write(form.Line(generate.Case(s.Managers, s.Minor, s.Seed, s.From+i)))
	}
	return out.Flush()
}

func compare(args []string) error {
	s := flags("compare")
	if err := s.Parse(args); err != nil {
		return err
	}
	if kubelet.Minor == "" {
		return fmt.Errorf("built without the kubelet's code: cannot compare, only replay")
	}
	s.Minor = kubelet.Minor
	if s.cpuProfile != "" {
		f, err := os.Create(s.cpuProfile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if !s.Expected {
		fmt.Printf("Kubernetes %s, seed %d, cases %d..%d\n", s.Minor, s.Seed, s.From, s.From+s.Cases-1)
	}
	start := time.Now()
	t, err := judge.Compare(s.Options)
	if err != nil {
		return err
	}
	if !s.Expected {
		fmt.Printf("Kubernetes %s, seed %d: %s\n", s.Minor, s.Seed, t.Line(time.Since(start)))
	}
	pprof.StopCPUProfile()
	s.exit(t)
	return nil
}

// exit with 1 when the verdict is not the wanted one.
func (s *settings) exit(t judge.Tally) {
	if weak := t.Weak(); weak != "" && !s.Expected {
		fmt.Println("the mirror claims too little:", weak)
		os.Exit(1)
	}
	if (t.Disagreements > 0) != s.Expected {
		if s.Expected {
			fmt.Printf("a mirror that is known to be wrong was not found out (seed %d)\n", s.Seed)
		}
		os.Exit(1)
	}
}

func fixture(args []string) error {
	s := flags("fixture")
	if err := s.Parse(args); err != nil {
		return err
	}
	if kubelet.Minor == "" {
		return fmt.Errorf("built without the kubelet's code: nothing to keep")
	}
	return lines(func(c *form.Case) any {
		c = c.WithObserved(nil)
		c.KubeletVersion = generate.Versions[kubelet.Minor]
		path, err := judge.Store(s.Fixtures, s.name, strings.Join(s.Args(), " "), c, kubelet.Run(c, nil))
		if err != nil {
			return form.Answer{Error: err.Error()}
		}
		return path
	})
}

func fixtures(args []string) error {
	s := flags("fixtures")
	if err := s.Parse(args); err != nil {
		return err
	}
	start := time.Now()
	t, err := judge.CheckFixtures(s.Mirror, s.Fixtures, s.Managers != generate.Devices)
	if err != nil {
		return err
	}
	fmt.Printf("fixtures: %s\n", t.Line(time.Since(start)))
	s.exit(t)
	return nil
}

func record(args []string) error {
	s := flags("record")
	if err := s.Parse(args); err != nil {
		return err
	}
	if kubelet.Minor == "" {
		return fmt.Errorf("built without the kubelet's code: nothing to record")
	}
	s.Minor = kubelet.Minor
	fmt.Fprintf(os.Stderr, "Kubernetes %s, seed %d\n", s.Minor, s.Seed)
	return judge.Record(os.Stdout, s.Options)
}

func replay(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("replay wants a FILE first")
	}
	s := flags("replay")
	if err := s.Parse(args[1:]); err != nil {
		return err
	}
	t, took, err := judge.Replay(args[0], s.Mirror)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", args[0], t.Line(took))
	s.exit(t)
	return nil
}
