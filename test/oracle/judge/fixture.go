package judge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
	"numafit.io/numafit/test/oracle/kubelet"
)

// Fixture is a case in which kubelet and mirror once differed, and what the
// real kubelets answered. The case carries what was observed.
type Fixture struct {
	Note       string                 `json:"note"`
	Case       *form.Case             `json:"case"`
	Kubernetes map[string]form.Answer `json:"kubernetes"`
	// Kubelets that were never heard of again: the mirror has to foretell it.
	Unsupported []string `json:"unsupported,omitempty"`
}

func store(dir string, d *disagreement) (string, error) {
	return Store(dir, "", d.problem, d.c, d.real)
}

// Store keeps a case and what this program's kubelet answers to it, under a
// name or under one made of the case. A case that is there already keeps its
// note and gains the answer.
func Store(dir, name, note string, c *form.Case, real form.Answer) (string, error) {
	bare := c.WithObserved(nil)
	bare.ID, bare.KubeletVersion = nil, ""
	if name == "" {
		sum := sha256.Sum256(form.Line(bare))
		name = hex.EncodeToString(sum[:6])
	}
	path := filepath.Join(dir, name+".json")
	real.ID = nil
	f := &Fixture{Note: note, Kubernetes: map[string]form.Answer{}}
	if old, err := read(path); err == nil {
		f = old
	}
	f.Case = c.WithObserved(real.Steps)
	f.Kubernetes[kubelet.Minor] = real
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, f.text(), 0o644)
}

// text is JSON with a line for the case and one for each answer.
func (f *Fixture) text() []byte {
	line := func(v any) []byte { return bytes.TrimSuffix(form.Line(v), []byte("\n")) }
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"note\": %s,\n \"case\": %s,\n \"kubernetes\": {", line(f.Note), line(f.Case))
	for i, minor := range sorted(f.Kubernetes) {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, "\n  %q: %s", minor, line(f.Kubernetes[minor]))
	}
	out.WriteString("}")
	if len(f.Unsupported) > 0 {
		fmt.Fprintf(&out, ",\n \"unsupported\": %s", line(f.Unsupported))
	}
	out.WriteString("}\n")
	return out.Bytes()
}

func read(path string) (*Fixture, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &Fixture{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.Case == nil {
		return nil, fmt.Errorf("%s: no case", path)
	}
	return f, nil
}

// CheckFixtures asks the mirror every stored case, against the stored answers
// and, when this program's kubelet is among them, against a fresh one. (Some
// machines keep the kubelets before 1.36 busy for years: they are not listed.)
//
// Without managers, cases about more than devices are passed over.
func CheckFixtures(command, dir string, managers bool) (Tally, error) {
	var t Tally
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return t, err
	}
	slices.Sort(paths)
	m, err := startMirror(command)
	if err != nil {
		return t, err
	}
	defer m.stop()
	for _, path := range paths {
		f, err := read(path)
		if err != nil {
			return t, err
		}
		if f.Case.UsesManagers() && !managers {
			continue
		}
		for _, minor := range sorted(f.Kubernetes) {
			m.checkFixture(path, f.Case, minor, f.Kubernetes[minor], &t)
		}
		for _, minor := range f.Unsupported {
			m.checkUnsupported(path, f.Case, minor, &t)
		}
		if _, listed := f.Kubernetes[kubelet.Minor]; listed {
			bare := f.Case.WithObserved(nil)
			bare.KubeletVersion = generate.Versions[kubelet.Minor]
			m.checkFixture(path, bare, kubelet.Minor, kubelet.Run(bare, nil), &t)
		}
	}
	return t, nil
}

func (m *mirror) checkUnsupported(path string, c *form.Case, minor string, t *Tally) {
	again := *c.WithObserved(nil)
	again.KubeletVersion = generate.Versions[minor]
	t.Cases++
	if claim := m.ask(&again)[0]; !claim.unsupported() {
		t.Disagreements++
		fmt.Printf("%s, Kubernetes %s: the kubelet would not come back, the mirror does not say so\ncase    %s", path, minor, form.Line(again))
	}
}

func (m *mirror) checkFixture(path string, c *form.Case, minor string, real form.Answer, t *Tally) {
	again := *c.WithObserved(real.Steps)
	again.KubeletVersion = generate.Versions[minor]
	if problem := m.checkKnown(&again, &real, t); problem != "" {
		fmt.Printf("%s, Kubernetes %s: %s\ncase    %s", path, minor, problem, form.Line(again))
	}
}

// checkKnown compares the mirror with an answer that is known, with and
// without what was observed.
func (m *mirror) checkKnown(c *form.Case, real *form.Answer, t *Tally) string {
	t.real(real)
	bare := c.WithObserved(nil)
	claims := m.ask(c, bare)
	for i, exact := range []bool{true, false} {
		if problem, step := check(c, real, &claims[i], exact, t); problem != "" {
			t.Disagreements++
			return fmt.Sprintf("steps[%d], observed %v: %s", step, exact, problem)
		}
	}
	return ""
}
