package generate

import (
	"bytes"
	"testing"

	"numafit.io/numafit/test/oracle/form"
)

func TestACaseIsMadeAgainAlone(t *testing.T) {
	for i := range uint64(400) {
		kind := []string{Devices, All, Resize}[i%3]
		a, b := Case(kind, "1.36", 5, i), Case(kind, "1.36", 5, i)
		if !bytes.Equal(form.Line(a), form.Line(b)) {
			t.Fatalf("case %d differs from itself", i)
		}
		if i > 2 && bytes.Equal(form.Line(a.Steps), form.Line(Case(kind, "1.36", 5, i-3).Steps)) {
			t.Errorf("case %d is case %d", i, i-3)
		}
	}
}

func TestCasesAreWellFormedAndRead(t *testing.T) {
	for i := range uint64(4000) {
		kind := []string{Devices, All, Resize}[i%3]
		c := Case(kind, "1.36", 6, i)
		if err := c.Validate(); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		again, err := form.ParseCase(form.Line(c))
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if !bytes.Equal(form.Line(again), form.Line(c)) {
			t.Fatalf("case %d is not read as it was written", i)
		}
	}
}
