package judge

import (
	"fmt"
	"path/filepath"
	"testing"
)

// The corners in which a mirror of the kubelet goes wrong most easily, by
// their number; those that a kubelet's admission does not show are left out
// (15: devices through DRA, 19 and 20: the scheduler's side).
func TestEveryTrapHasAFixture(t *testing.T) {
	for trap := 1; trap <= 18; trap++ {
		if trap == 15 {
			continue
		}
		paths, err := filepath.Glob(fmt.Sprintf("../fixtures/trap-%02d-*.json", trap))
		if err != nil || len(paths) == 0 {
			t.Errorf("trap %d: no fixture", trap)
		}
		for _, path := range paths {
			f, err := read(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Kubernetes) != 4 {
				t.Errorf("%s: %d kubelets have answered, not 4", path, len(f.Kubernetes))
			}
		}
	}
}
