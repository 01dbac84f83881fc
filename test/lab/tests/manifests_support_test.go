package tests

import (
	"bufio"
	"errors"
	"fmt"
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
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"numafit.io/test/lab/cluster"
)

const (
	numafitNamespace = "numafit-system"
	reportsPath      = "/apis/numafit.io/v1alpha1/nodereports"
)

// applyManifests installs deploy/manifests as a person does.
func applyManifests(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	// The lab gives its own extender, which is a user, rights under the name that the manifests use.
	roles := lab.Client.RbacV1()
	if err := roles.ClusterRoleBindings().Delete(t.Context(), "numafit-extender", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := roles.ClusterRoles().Delete(t.Context(), "numafit-extender", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl := exec.Command(cluster.Program(lab.Root, "kubectl"), "--kubeconfig", lab.Kubeconfig(),
		"apply", "-f", filepath.Join(lab.Root, "deploy", "manifests"))
	output, err := kubectl.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, output)
	}
	if strings.Contains(string(output), "Warning") {
		t.Errorf("the API server warns:\n%s", output)
	}
	eventually(t, 20*time.Second, "the API server to serve NodeReports", func() string {
		if _, err := lab.Client.CoreV1().RESTClient().Get().AbsPath(reportsPath).DoRaw(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// agentToken is what the kubelet of a node would mount into the agent's Pod there. Without a node: what
// anybody who may ask for tokens gets.
func agentToken(t *testing.T, lab *cluster.Cluster, node string) string {
	t.Helper()
	request := &authentication.TokenRequest{}
	if node != "" {
		pod := &core.Pod{
			ObjectMeta: meta.ObjectMeta{Name: "agent-on-" + node, Namespace: numafitNamespace},
			Spec: core.PodSpec{
				NodeName: node, ServiceAccountName: "numafit-agent",
				Containers: []core.Container{{Name: "agent", Image: "numafit-agent:latest"}},
			},
		}
		pod, err := lab.Client.CoreV1().Pods(numafitNamespace).Create(t.Context(), pod, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		request.Spec.BoundObjectRef = &authentication.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	return tokenOf(t, lab, "numafit-agent", request)
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
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster: {server: "https://%s", certificate-authority: %q}
users:
- name: token
  user: {token: %q}
contexts:
- name: lab
  context: {cluster: lab, user: token}
current-context: lab
`, lab.APIServerAddress(), lab.Authority().CAFile(), token)
	path := filepath.Join(lab.Dir, name+".kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
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
