package tests

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"numafit.io/test/lab/cluster"
)

const holdVariable = "NUMAFIT_LAB_TEST_HOLD"

// A test that is killed must leave nothing behind: no kubelet, no API server.
func TestChildrenDieWithAKilledHarness(t *testing.T) {
	if os.Getenv(holdVariable) != "" {
		holdLab(t)
		return
	}
	holder := exec.Command("/proc/self/exe", "-test.run=^TestChildrenDieWithAKilledHarness$", "-test.v")
	holder.Env = append(os.Environ(), holdVariable+"=1")
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	var children, dir string
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		if rest, found := strings.CutPrefix(scanner.Text(), "HELD "); found {
			dir, children, _ = strings.Cut(rest, " ")
			break
		}
	}
	if err := holder.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = holder.Wait()
	if dir != "" {
		defer os.RemoveAll(dir)
	}
	pids := strings.Fields(children)
	if len(pids) < 5 {
		t.Fatalf("the killed harness had the children %v, want etcd, kube-apiserver, kubelets", pids)
	}
	eventually(t, 10*time.Second, "the children to be gone", func() string {
		for _, pid := range pids {
			state, err := os.ReadFile("/proc/" + pid + "/stat")
			if err == nil && !strings.Contains(string(state), ") Z ") {
				return "still there: " + string(state)
			}
		}
		return ""
	})
}

// holdLab starts a lab, names its processes and waits for its death.
func holdLab(t *testing.T) {
	root, err := cluster.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "numafit-lab-")
	if err != nil {
		t.Fatal(err)
	}
	lab, err := cluster.Start(t.Context(), cluster.Options{Root: root, Dir: dir, Fleet: labFleet(t, root)})
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, pid := range lab.PIDs() {
		pids = append(pids, fmt.Sprint(pid))
	}
	fmt.Println("\nHELD", dir, strings.Join(pids, " "))
	_ = syscall.Pause()
}
