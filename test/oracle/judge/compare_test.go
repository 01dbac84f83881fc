//go:build k134 || k135 || k136 || k137

package judge

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/generate"
	"numafit.io/numafit/test/oracle/kubelet"
)

// The test binary is its own mirror: the real managers, made wrong.
func TestMain(m *testing.M) {
	if os.Getenv("ORACLE_TEST_MIRROR") == "" {
		os.Exit(m.Run())
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		c, err := form.ParseCase(in.Bytes())
		if err != nil {
			panic(err)
		}
		for _, l := range limits(c) {
			for r, q := range l {
				if q == "3" {
					l[r] = "4"
				}
			}
		}
		a := kubelet.Run(c, nil)
		for i := range a.Steps { // picks are random: it does not claim any
			for k := range a.Steps[i].Containers {
				a.Steps[i].Containers[k].Devices = nil
			}
		}
		os.Stdout.Write(form.Line(a))
	}
}

func TestADisagreementIsShrunkAndStored(t *testing.T) {
	t.Setenv("ORACLE_TEST_MIRROR", "1")
	m, err := startMirror(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	for i := range uint64(1000) {
		c := generate.Case(generate.Devices, kubelet.Minor, 3, i)
		d := &disagreement{c: c, exact: true, real: kubelet.Run(c, nil)}
		d.said = m.ask(d.asked())[0]
		if d.problem, d.step = check(c, &d.real, &d.said, true, &Tally{}); d.problem == "" {
			continue
		}
		small := m.shrink(d)
		if n := len(small.c.Steps); n != 1 {
			t.Errorf("%d steps are left of\n%s", n, form.Line(small.c))
		}
		path, err := store(t.TempDir(), small)
		if err != nil {
			t.Fatal(err)
		}
		f, err := read(path)
		if err != nil {
			t.Fatal(err)
		}
		tally := Tally{}
		m.checkFixture(path, f.Case, kubelet.Minor, f.Kubernetes[kubelet.Minor], &tally)
		if tally.Disagreements != 1 {
			t.Error("the fixture does not show the disagreement")
		}
		return
	}
	t.Fatal("a wrong mirror was not found out in 1,000 cases")
}

func TestAMirrorThatDiesIsADisagreement(t *testing.T) {
	m, err := startMirror("head -n 1")
	if err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	c := generate.Case(generate.Devices, kubelet.Minor, 3, 0)
	for _, said := range m.ask(c, c, c) {
		if !said.broken() {
			t.Errorf("%s is taken for an answer", said.line)
		}
	}
}

func TestManagersAreShrunkToo(t *testing.T) {
	const line = `{"numa":[{"id":0,"cpus":[0,1,2,3],"reservedCpus":[0,1],"memory":8589934592,"hugepages":{"2Mi":4}},{"id":3,"cores":[{"threads":[4,5],"uncore":1},{"threads":[6,7]}],"memory":8589934592,"hugepages":{"2Mi":4}}],
		"topologyPolicy":"restricted","cpuPolicy":"static","cpuOptions":{"full-pcpus-only":"false","strict-cpu-reservation":"true"},"memoryPolicy":"Static","reservedMemory":[{"numa":0,"limits":{"memory":"1Gi"}},{"numa":3,"limits":{"memory":"1Gi"}}],
		"steps":[{"restart":true},{"admit":{"name":"p","containers":[{"name":"c","resources":{"requests":{"cpu":"3"},"limits":{"cpu":"3","memory":"1073741824","hugepages-2Mi":"2097152"}}}]}}]}`
	t.Setenv("ORACLE_TEST_MIRROR", "1")
	m, err := startMirror(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	c, err := form.ParseCase([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	d := m.still(c, true)
	if d == nil {
		t.Fatal("a wrong mirror was not found out")
	}
	small := m.shrink(d).c
	if len(small.Steps) != 1 || len(small.NUMA) != 1 || len(small.NUMA[0].Hugepages) > 0 || len(small.CPUOptions) > 0 || len(small.ReservedMemory) > 1 || small.CPUPolicy != "" && small.MemoryPolicy != "" {
		t.Errorf("more is left than it takes: %s", form.Line(small))
	}
}

// A mirror that is the kubelet itself owes nothing; picks apart, and the order
// in which several Pods' memory is released.
func TestTheKubeletAgreesWithItself(t *testing.T) {
	differ := 0
	for i := range uint64(500) {
		c := generate.Case(generate.All, kubelet.Minor, 9, i)
		real := kubelet.Run(c, nil)
		again := kubelet.Run(c.WithObserved(real.Steps), nil)
		for k := range again.Steps {
			for l := range again.Steps[k].Containers {
				again.Steps[k].Containers[l].Devices = nil
			}
		}
		said := claim{}
		if err := json.Unmarshal(form.Line(again), &said); err != nil {
			t.Fatal(err)
		}
		if problem, step := check(c, &real, &said, true, &Tally{}); problem != "" {
			t.Logf("case %d step %d: %s", i, step, problem)
			if differ++; differ > 5 {
				t.Fatalf("step %d: %s\n%s", step, problem, form.Line(c.WithObserved(real.Steps)))
			}
		}
	}
	t.Logf("%d differ", differ)
}
