package bench

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"numafit.io/test/lab/cluster"
)

// status is what the bench reads of a NodeReport.
type status struct {
	Resources []struct {
		Name   string
		Groups []struct {
			Endpoint  string
			Unhealthy bool
		}
	}
	Pods []struct{ Namespace, Name string }
}

func (s *status) holds(pod string) bool {
	for _, p := range s.Pods {
		if p.Namespace == "default" && p.Name == pod {
			return true
		}
	}
	return false
}

func (s *status) isHealthy(resource, device string) bool {
	for _, r := range s.Resources {
		for _, group := range r.Groups {
			if r.Name == resource && group.Endpoint == device {
				return !group.Unhealthy
			}
		}
	}
	return false
}

// reportWatch follows the NodeReports, as an extender does.
type reportWatch struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	last    *status
	waiting *expectation // nil: nobody waits
}

// expectation is met by the first report that is as expected.
type expectation struct {
	is  func(*status) bool
	met chan time.Time
}

func watchReports(c *cluster.Cluster) *reportWatch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &reportWatch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			w.follow(ctx, c)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return w
}

// follow reads one watch until it ends.
func (w *reportWatch) follow(ctx context.Context, c *cluster.Cluster) {
	stream, err := c.Client.CoreV1().RESTClient().Get().AbsPath(cluster.ReportsPath).
		Param("watch", "true").Stream(ctx)
	if err != nil {
		return
	}
	defer stream.Close()
	decoder := json.NewDecoder(stream)
	for {
		var event struct {
			Type   string
			Object struct{ Status status }
		}
		if decoder.Decode(&event) != nil {
			return
		}
		if event.Type == "ADDED" || event.Type == "MODIFIED" {
			w.see(&event.Object.Status)
		}
	}
}

func (w *reportWatch) see(report *status) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = report
	if w.waiting != nil && w.waiting.is(report) {
		w.waiting.met <- now
		w.waiting = nil
	}
}

// expect waits for a report, from now on; the last one counts, too. One at a time.
func (w *reportWatch) expect(is func(*status) bool) *expectation {
	expected := &expectation{is: is, met: make(chan time.Time, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last != nil && is(w.last) {
		expected.met <- time.Now()
	} else {
		w.waiting = expected
	}
	return expected
}

func (e *expectation) wait(ctx context.Context) (time.Time, error) {
	select {
	case at := <-e.met:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-time.After(stepLimit):
		return time.Time{}, errors.New("no report said so in time")
	}
}

func (w *reportWatch) stop() {
	w.cancel()
	<-w.done
}
