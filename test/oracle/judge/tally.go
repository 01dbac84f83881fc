package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"numafit.io/numafit/test/oracle/form"
)

// Tally is what a comparison counts.
type Tally struct {
	Cases, Admissions, Admitted int
	Refused                     map[string]int

	NotRun    int // cases from which the kubelet would not come back, as the mirror foretells
	Errors    int // cases that neither side starts
	Asked     int // admissions that the mirror was asked about
	Null      int // verdicts that depend on a random pick
	Proven    int // of these, sampled ones where both verdicts were seen
	Unproven  int // of these, sampled ones where they were not
	Settling  int // more states than the mirror carries
	Claimed   int // devices of a container and resource that the mirror foretold
	Unclaimed int // ... and that it left open

	CPUs, Memory, States foretold // containers' CPUs and memory blocks, states after a step

	Restarts      int
	Resizes       map[string]int // by verdict and reason
	Disagreements int
}

// foretold counts what the mirror said and what it left open, from states that
// it knew and from sets of states.
type foretold struct{ Said, Open, SaidOfSets, OpenOfSets int }

func (f *foretold) count(exact, said bool) {
	switch {
	case exact && said:
		f.Said++
	case exact:
		f.Open++
	case said:
		f.SaidOfSets++
	default:
		f.OpenOfSets++
	}
}

func (f *foretold) add(o foretold) {
	f.Said += o.Said
	f.Open += o.Open
	f.SaidOfSets += o.SaidOfSets
	f.OpenOfSets += o.OpenOfSets
}

func (f *foretold) weak() bool { return f.Open > (f.Said+f.Open)/20 }

func (f foretold) String() string {
	return fmt.Sprintf("%d of %d (from sets of states %d of %d)", f.Said, f.Said+f.Open, f.SaidOfSets, f.SaidOfSets+f.OpenOfSets)
}

func (t *Tally) real(a *form.Answer) {
	t.Cases++
	t.admissions(a.Steps)
}

func (t *Tally) admissions(steps []form.StepAnswer) {
	for i := range steps {
		s := &steps[i]
		if s.Restarted != nil {
			t.Restarts++
			t.admissions(s.Readmitted)
		}
		if s.Resize != "" {
			t.resize(s)
			continue
		}
		if s.Pod == "" {
			continue
		}
		t.Admissions++
		if s.IsAdmitted() {
			t.Admitted++
			continue
		}
		if t.Refused == nil {
			t.Refused = map[string]int{}
		}
		t.Refused[s.Reason]++
	}
}

func (t *Tally) resize(s *form.StepAnswer) {
	if t.Resizes == nil {
		t.Resizes = map[string]int{}
	}
	t.Resizes[strings.TrimSpace(s.Resize+" "+s.Reason)]++
}

func (t *Tally) add(o *Tally) {
	t.Cases += o.Cases
	t.Admissions += o.Admissions
	t.Admitted += o.Admitted
	for r, n := range o.Refused {
		if t.Refused == nil {
			t.Refused = map[string]int{}
		}
		t.Refused[r] += n
	}
	t.NotRun += o.NotRun
	t.Errors += o.Errors
	t.Asked += o.Asked
	t.Null += o.Null
	t.Proven += o.Proven
	t.Unproven += o.Unproven
	t.Settling += o.Settling
	t.Claimed += o.Claimed
	t.Unclaimed += o.Unclaimed
	t.CPUs.add(o.CPUs)
	t.Memory.add(o.Memory)
	t.States.add(o.States)
	t.Restarts += o.Restarts
	for verdict, n := range o.Resizes {
		if t.Resizes == nil {
			t.Resizes = map[string]int{}
		}
		t.Resizes[verdict] += n
	}
	t.Disagreements += o.Disagreements
}

// Line is the figures of a run, in one line.
func (t *Tally) Line(took time.Duration) string {
	var reasons []string
	for r := range t.Refused {
		reasons = append(reasons, r)
	}
	slices.Sort(reasons)
	var refused []string
	for _, r := range reasons {
		refused = append(refused, fmt.Sprintf("%d %s", t.Refused[r], r))
	}
	if refused == nil {
		refused = []string{"0 refused"}
	}
	managers := ""
	if t.States != (foretold{}) {
		managers = fmt.Sprintf(", CPUs %s, memory %s, states %s, %d restarts", t.CPUs, t.Memory, t.States, t.Restarts)
	}
	for i, verdict := range sorted(t.Resizes) {
		if i == 0 {
			managers += ", resizes:"
		}
		managers += fmt.Sprintf(" %d %s;", t.Resizes[verdict], verdict)
	}
	managers = strings.TrimSuffix(managers, ";")
	notRun := ""
	if t.NotRun > 0 {
		notRun = fmt.Sprintf(", %d not run because the kubelet would not come back", t.NotRun)
	}
	return fmt.Sprintf("%d cases, %d admissions: %d admitted, %s; mirror: %d asked, %d null (sampled: %d proven, %d not), %d settling, devices foretold %d of %d%s, %d cases refused at start%s; %.0f s, %.0f cases/s; %d disagreements",
		t.Cases, t.Admissions, t.Admitted, strings.Join(refused, ", "), t.Asked, t.Null, t.Proven, t.Unproven, t.Settling,
		t.Claimed, t.Claimed+t.Unclaimed, managers, t.Errors, notRun, took.Seconds(), float64(t.Cases)/max(took.Seconds(), 0.001), t.Disagreements)
}

// Weak says in what the mirror claims too little: one that leaves everything
// open would never disagree. The bounds are far above what is needed.
func (t *Tally) Weak() string {
	switch {
	case t.NotRun > 10 && t.NotRun > t.Cases/200:
		return fmt.Sprintf("%d of %d cases are called unsupported", t.NotRun, t.Cases)
	case t.Asked < 1000:
		return ""
	case t.Null > t.Asked/50:
		return fmt.Sprintf("%d of %d verdicts are left open", t.Null, t.Asked)
	case t.Unproven > 3 && t.Unproven > t.Proven/4:
		return fmt.Sprintf("of the open verdicts that were tried again, %d never changed", t.Unproven)
	case t.Settling > t.Asked/100:
		return fmt.Sprintf("%d of %d verdicts are given up as settling", t.Settling, t.Asked)
	case t.Unclaimed > (t.Claimed+t.Unclaimed)/50:
		return fmt.Sprintf("%d of %d device picks are left open", t.Unclaimed, t.Claimed+t.Unclaimed)
	case t.CPUs.weak():
		return "of the CPU sets from known states: foretold " + t.CPUs.String()
	case t.Memory.weak():
		return "of the memory blocks from known states: foretold " + t.Memory.String()
	case t.States.weak():
		return "of the states after a step, from known states: foretold " + t.States.String()
	}
	return ""
}
