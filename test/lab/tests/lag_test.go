package tests

import (
	"io"
	"net"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
)

// kube-scheduler asks again about a waiting Pod when *it* learns that room was given back. numafit has a
// watch of its own and may learn it later; then the answer is still no, no further event comes, and the
// Pod waits for minutes beside free devices, unless numafit speaks up.
func TestNobodyIsForgottenWhenTheExtenderLearnsLate(t *testing.T) {
	lab := startLab(t, cluster.Options{})
	if err := lab.RouteExtender(slowRoute(t, lab.APIServerAddress(), 700*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	startNumafit(t, lab)
	create(t, lab, on("lab-a", newPod("first", demand{4, 4})), on("lab-a", newPod("second", demand{3, 3})))
	running := func(name string) func() string {
		return func() string {
			if pod := list(t, lab)[name]; pod.Status.Phase != core.PodRunning {
				return podState(pod) + " " + scheduledMessage(pod)
			}
			return ""
		}
	}
	eventually(t, 30*time.Second, "the first Pod to run", running("first"))
	eventually(t, 30*time.Second, "the second Pod to run", running("second"))

	// By count alone 1 + 1 is free, so the scheduler itself would refuse 3 + 3; once the second Pod is
	// gone only numafit's word is missing.
	create(t, lab, on("lab-a", newPod("third", demand{3, 3})))
	eventually(t, 30*time.Second, "the third Pod to wait", func() string {
		if state := podState(list(t, lab)["third"]); state != "unschedulable" {
			return state
		}
		return ""
	})
	if err := lab.Client.CoreV1().Pods("default").Delete(t.Context(), "second", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the third Pod to run", running("third"))
	checkNoneFailed(t, list(t, lab))
	checkAligned(t, lab)
}

// slowRoute forwards to target; what target answers arrives late by delay.
func slowRoute(t *testing.T, target string, delay time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(server, client)
				server.Close()
			}()
			go copyLate(client, server, delay)
		}
	}()
	return listener.Addr().String()
}

// copyLate keeps the order and delays every piece by the same time.
func copyLate(to io.WriteCloser, from io.Reader, delay time.Duration) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 4096)
	go func() {
		defer to.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				return
			}
		}
	}()
	defer close(pieces)
	for {
		buffer := make([]byte, 32*1024)
		n, err := from.Read(buffer)
		if n > 0 {
			pieces <- piece{buffer[:n], time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}
