package judge

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
	"numafit.io/numafit/test/oracle/kubelet"
)

// recorded is one line of a recording: a case that carries what was observed
// is its own answer.
type recorded struct {
	Case  *form.Case `json:"case"`
	Error string     `json:"error,omitempty"`
}

// Record writes what the real managers answer to generated cases.
func Record(w io.Writer, o Options) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	for i := range o.Cases {
		c := generate.Case(o.Managers, o.Minor, o.Seed, o.From+i)
		a := kubelet.Run(c, nil)
		if _, err := z.Write(form.Line(recorded{Case: c.WithObserved(a.Steps), Error: a.Error})); err != nil {
			return err
		}
	}
	return z.Close()
}

// Replay compares the mirror with a recording.
func Replay(path, command string) (Tally, time.Duration, error) {
	start := time.Now()
	var t Tally
	f, err := os.Open(path)
	if err != nil {
		return t, 0, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return t, 0, fmt.Errorf("%s: %w", path, err)
	}
	m, err := startMirror(command)
	if err != nil {
		return t, 0, err
	}
	defer m.stop()
	in := bufio.NewScanner(z)
	in.Buffer(nil, 16<<20)
	for line := 1; in.Scan(); line++ {
		r := recorded{}
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return t, 0, fmt.Errorf("%s: line %d: %w", path, line, err)
		}
		real := answerOf(&r)
		if problem := m.checkKnown(r.Case, &real, &t); problem != "" && t.Disagreements <= 5 {
			fmt.Printf("%s: line %d: %s\ncase    %s", path, line, problem, form.Line(r.Case))
		}
	}
	return t, time.Since(start), in.Err()
}

func answerOf(r *recorded) form.Answer {
	a := form.Answer{ID: r.Case.ID, Error: r.Error}
	if a.Error != "" {
		return a
	}
	for _, s := range r.Case.Steps {
		if s.Observed != nil {
			a.Steps = append(a.Steps, *s.Observed)
			if s.Observed.Ends() {
				break // nothing is answered after that
			}
		} else {
			a.Steps = append(a.Steps, form.StepAnswer{})
		}
	}
	return a
}
