package judge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
)

// Options of a comparison.
type Options struct {
	Mirror   string // command line
	Minor    string
	Managers string // kind of cases
	Seed     uint64
	From     uint64 // first index
	Cases    uint64
	Jobs     int
	Fixtures string // where shrunk disagreements are stored; empty: nowhere
	Most     int    // stop after so many disagreements
	Expected bool   // the mirror is known to be wrong: name the first case, do not shrink
}

// disagreement is one case in which the two differ, as found.
type disagreement struct {
	c       *form.Case // without observed
	exact   bool
	real    form.Answer
	said    claim
	problem string
	step    int
}

// batch is how many cases a mirror is asked at a time.
const batch = 32

// Compare runs random cases through the real managers and through the mirror,
// with and without what was observed, and stores what they differ in.
func Compare(o Options) (Tally, error) {
	start := time.Now()
	var (
		next  atomic.Uint64
		stop  atomic.Bool
		mu    sync.Mutex
		total Tally
		found []disagreement
		fail  error
		wg    sync.WaitGroup
	)
	for range max(1, o.Jobs) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			m, err := startMirror(o.Mirror)
			if err != nil {
				mu.Lock()
				fail = err
				mu.Unlock()
				return
			}
			defer m.stop()
			for !stop.Load() {
				first := next.Add(batch) - batch
				if first >= o.Cases {
					return
				}
				var t Tally
				bad := m.compareBatch(o, o.From+first, min(batch, o.Cases-first), &t)
				mu.Lock()
				total.add(&t)
				found = append(found, bad...)
				if len(found) >= max(1, o.Most) {
					stop.Store(true)
				}
				mu.Unlock()
			}
		}()
	}
	done := make(chan struct{})
	go progress(&mu, &total, start, done)
	go patience.watch(done)
	wg.Wait()
	close(done)
	if fail != nil {
		return total, fail
	}
	total.Disagreements = len(found)
	return total, report(o, found)
}

// progress says once a minute how far a long run is.
func progress(mu *sync.Mutex, t *Tally, start time.Time, done chan struct{}) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			mu.Lock()
			fmt.Fprintf(os.Stderr, "… %d cases, %d admissions, %.0f s\n", t.Cases, t.Admissions, time.Since(start).Seconds())
			mu.Unlock()
		}
	}
}

func (m *mirror) compareBatch(o Options, first, n uint64, t *Tally) []disagreement {
	cases := make([]*form.Case, n)
	for i := range cases {
		cases[i] = generate.Case(o.Managers, o.Minor, o.Seed, first+uint64(i))
	}
	// The mirror is asked first: where it foretells that the kubelet would not
	// come back, the kubelet is not sent there.
	claims := m.ask(cases...)
	reals := make([]form.Answer, n)
	observed := make([]*form.Case, n)
	for i, c := range cases {
		observed[i] = c
		if claims[i].unsupported() {
			t.Cases++
			t.NotRun++
			continue
		}
		reals[i] = patience.run(c, nil)
		t.real(&reals[i])
		observed[i] = c.WithObserved(reals[i].Steps)
	}
	exactClaims := m.ask(observed...)
	var bad []disagreement
	for i, c := range cases {
		if claims[i].unsupported() {
			continue
		}
		r := rand.New(rand.NewPCG(o.Seed, first+uint64(i)))
		for _, exact := range []bool{true, false} {
			said := &claims[i]
			if exact {
				said = &exactClaims[i]
			}
			if problem, step := check(c, &reals[i], said, exact, t); problem != "" {
				bad = append(bad, disagreement{c: c, exact: exact, real: reals[i], said: *said, problem: problem, step: step})
				break
			}
			if problem, step, real := m.prove(c, &reals[i], said, exact, t, r); problem != "" {
				bad = append(bad, disagreement{c: c, exact: exact, real: real, said: *said, problem: problem, step: step})
				break
			}
			if exact || i%16 != 0 {
				continue
			}
			if problem, step, real := again(c, said, r); problem != "" {
				bad = append(bad, disagreement{c: c, real: real, said: *said, problem: problem, step: step})
			}
		}
	}
	return bad
}

// again runs a case some more times: whatever the kubelet picks must lie
// within what the mirror says can happen.
func again(c *form.Case, said *claim, r *rand.Rand) (string, int, form.Answer) {
	for range 6 {
		real := patience.run(c, r)
		if problem, step := check(c, &real, said, false, &Tally{}); problem != "" {
			return problem, step, real
		}
	}
	return "", 0, form.Answer{}
}

// prove takes some verdicts that the mirror leaves open and runs the real
// admission again, from the same state, until both verdicts were seen. What
// is seen on the way must be within the claim as well.
func (m *mirror) prove(c *form.Case, real *form.Answer, said *claim, exact bool, t *Tally, r *rand.Rand) (string, int, form.Answer) {
	if said.Error != "" {
		return "", 0, form.Answer{}
	}
	for i := range said.Steps {
		s := &said.Steps[i]
		if i >= len(real.Steps) { // the kubelet's process has ended before
			break
		}
		if !s.open(&c.Steps[i]) || (!exact && r.IntN(20) != 0) {
			continue
		}
		again := *c
		if exact {
			again = *c.WithObserved(real.Steps)
		}
		again.Steps = again.Steps[:i+1]
		part := *said
		part.Steps = said.Steps[:i+1]
		seen := [2]bool{}
		for range 200 {
			a := patience.run(&again, r)
			switch {
			case len(a.Steps) <= i: // ended before
			case a.Steps[i].IsAdmitted():
				seen[1] = true
			default:
				seen[0] = true
			}
			if !exact {
				if problem, step := check(&again, &a, &part, false, &Tally{}); problem != "" {
					return problem, step, a
				}
			}
			if seen[0] && seen[1] {
				break
			}
		}
		if seen[0] && seen[1] {
			t.Proven++
		} else {
			t.Unproven++
		}
		break // one a case
	}
	return "", 0, form.Answer{}
}

func report(o Options, found []disagreement) error {
	if len(found) == 0 {
		return nil
	}
	if o.Expected {
		d := &found[0]
		fmt.Printf("found out by case %s, observed %v: %s\n", d.c.ID, d.exact, d.problem)
		return nil
	}
	m, err := startMirror(o.Mirror)
	if err != nil {
		return err
	}
	defer m.stop()
	for i := range found {
		if i >= max(1, o.Most) {
			break
		}
		d := &found[i]
		fmt.Printf("\ndisagreement in case %s (seed %d), observed %v: %s\n", d.c.ID, o.Seed, d.exact, d.problem)
		small := m.shrink(d)
		fmt.Printf("shrunk: %s\ncase    %skubelet %smirror  %s", small.problem, form.Line(small.asked()), form.Line(small.real), form.Line(small.said.raw()))
		if o.Fixtures != "" {
			path, err := store(o.Fixtures, small)
			if err != nil {
				return err
			}
			fmt.Printf("stored  %s\n", path)
		}
	}
	return nil
}

// asked is the case as the mirror was asked.
func (d *disagreement) asked() *form.Case {
	if d.exact {
		return d.c.WithObserved(d.real.Steps)
	}
	return d.c
}
