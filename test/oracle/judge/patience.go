package judge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"numafit.io/numafit/test/oracle/form"
	"numafit.io/numafit/test/oracle/kubelet"
)

// longest is how long the kubelet's code may think about one case. The slowest
// case that ends needs seconds.
const longest = 2 * time.Minute

// waiting knows which cases the kubelet's code is at. Some of its searches
// never end (docs/exactness.md), and nothing in the process can stop them.
type waiting struct {
	mu    sync.Mutex
	since map[*form.Case]time.Time
}

var patience = waiting{since: map[*form.Case]time.Time{}}

func (w *waiting) run(c *form.Case, shuffle *rand.Rand) form.Answer {
	w.mu.Lock()
	w.since[c] = time.Now()
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.since, c)
		w.mu.Unlock()
	}()
	return kubelet.Run(c, shuffle)
}

// watch ends the program when the kubelet does not come back from a case.
func (w *waiting) watch(done <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if c := w.overdue(); c != nil {
				fmt.Printf("the kubelet does not come back from case %s within %v:\n%s", c.ID, longest, form.Line(c))
				os.Exit(1)
			}
		}
	}
}

func (w *waiting) overdue() *form.Case {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, since := range w.since {
		if time.Since(since) > longest {
			return c
		}
	}
	return nil
}
