package tests

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
)

const (
	numafitNamespace = cluster.NumafitNamespace
	reportsPath      = cluster.ReportsPath
)

// applyManifests installs deploy/manifests as a person does.
func applyManifests(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	output, err := lab.ApplyManifests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(output, "Warning") {
		t.Errorf("the API server warns:\n%s", output)
	}
}

// agentToken is the token of an agent on a node; without one: that of an agent anywhere.
func agentToken(t *testing.T, lab *cluster.Cluster, node string) string {
	t.Helper()
	token, err := lab.AgentToken(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func tokenOf(t *testing.T, lab *cluster.Cluster, account string, request *authentication.TokenRequest) string {
	t.Helper()
	token, err := lab.Client.CoreV1().ServiceAccounts(numafitNamespace).
		CreateToken(t.Context(), account, request, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// tokenKubeconfig writes a kubeconfig whose user is a token.
func tokenKubeconfig(t *testing.T, lab *cluster.Cluster, name, token string) string {
	t.Helper()
	path, err := lab.TokenKubeconfig(name, token)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// probeProgram finds test/kube/probe.cc, our client by hand; NUMAFIT_KUBE_PROBE first.
func probeProgram(t *testing.T, lab *cluster.Cluster) string {
	t.Helper()
	path := os.Getenv("NUMAFIT_KUBE_PROBE")
	if path == "" {
		path = filepath.Join(lab.Root, "build", "release", "kube_probe")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("kube_probe is not built: %v", err)
	}
	return path
}

// probe makes one call with our client and returns the line that says how it went.
func probe(t *testing.T, lab *cluster.Cluster, kubeconfig, input string, words ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), probeProgram(t, lab), append([]string{kubeconfig}, words...)...)
	command.Stdin = strings.NewReader(input)
	output, err := command.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("kube_probe %v: %v", words, err)
	}
	return strings.TrimSpace(string(output))
}

// follower is a running watch of our client.
type follower struct {
	mu    sync.Mutex
	lines []string
}

// follow starts a watch, which ends with the test.
func follow(t *testing.T, lab *cluster.Cluster, kubeconfig, verb string) *follower {
	t.Helper()
	command := exec.Command(probeProgram(t, lab), kubeconfig, verb)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	f := &follower{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			f.mu.Lock()
			f.lines = append(f.lines, scanner.Text())
			f.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		input.Close()
		<-done
		if err := command.Wait(); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	})
	return f
}

// await waits for a line that starts with one of the given texts, and returns it.
func (f *follower) await(t *testing.T, starts ...string) string {
	t.Helper()
	found := ""
	eventually(t, 30*time.Second, "a line "+strings.Join(starts, " or "), func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, line := range f.lines {
			for _, start := range starts {
				if strings.HasPrefix(line, start) {
					found = line
					return ""
				}
			}
		}
		return "lines so far:\n" + strings.Join(f.lines, "\n")
	})
	return found
}

// postJSON posts and returns the answer's body.
func postJSON(t *testing.T, url, body string) string {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
