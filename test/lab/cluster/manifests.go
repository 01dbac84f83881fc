package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// NumafitNamespace is where deploy/manifests installs numafit.
	NumafitNamespace = "numafit-system"
	// ReportsPath lists the NodeReports.
	ReportsPath = "/apis/numafit.io/v1alpha1/nodereports"
)

// ApplyManifests installs deploy/manifests as a person does, and returns what kubectl said.
func (c *Cluster) ApplyManifests(ctx context.Context) (string, error) {
	// The lab gives its own extender, which is a user, rights under the name that the manifests use.
	roles := c.Client.RbacV1()
	if err := roles.ClusterRoleBindings().Delete(ctx, "numafit-extender", meta.DeleteOptions{}); err != nil {
		return "", err
	}
	if err := roles.ClusterRoles().Delete(ctx, "numafit-extender", meta.DeleteOptions{}); err != nil {
		return "", err
	}
	kubectl := exec.CommandContext(ctx, c.binary("kubectl"), "--kubeconfig", c.Kubeconfig(),
		"apply", "-f", filepath.Join(c.Root, "deploy", "manifests"))
	output, err := kubectl.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl apply: %w\n%s", err, output)
	}
	return string(output), c.waitFor(ctx, nil, "the API server to serve NodeReports", func() (bool, error) {
		_, err := c.Client.CoreV1().RESTClient().Get().AbsPath(ReportsPath).DoRaw(ctx)
		return err == nil, nil
	})
}

// AgentToken is what the kubelet of a node would mount into the agent's Pod there. Without a node: what
// anybody who may ask for tokens gets.
func (c *Cluster) AgentToken(ctx context.Context, node string) (string, error) {
	request := &authentication.TokenRequest{}
	if node != "" {
		pod := &core.Pod{
			ObjectMeta: meta.ObjectMeta{Name: "agent-on-" + node, Namespace: NumafitNamespace},
			Spec: core.PodSpec{
				NodeName: node, ServiceAccountName: "numafit-agent",
				Containers: []core.Container{{Name: "agent", Image: "numafit-agent:latest"}},
			},
		}
		pod, err := c.Client.CoreV1().Pods(NumafitNamespace).Create(ctx, pod, meta.CreateOptions{})
		if err != nil {
			return "", err
		}
		request.Spec.BoundObjectRef = &authentication.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	return c.tokenOf(ctx, "numafit-agent", request)
}

// ExtenderToken is a token of the extender's service account.
func (c *Cluster) ExtenderToken(ctx context.Context) (string, error) {
	return c.tokenOf(ctx, "numafit-extender", &authentication.TokenRequest{})
}

func (c *Cluster) tokenOf(ctx context.Context, account string, request *authentication.TokenRequest) (string, error) {
	token, err := c.Client.CoreV1().ServiceAccounts(NumafitNamespace).
		CreateToken(ctx, account, request, meta.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// TokenKubeconfig writes a kubeconfig whose user is a token, and returns its path.
func (c *Cluster) TokenKubeconfig(name, token string) (string, error) {
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
`, c.APIServerAddress(), c.authority.CAFile(), token)
	path := c.kubeconfigOf(name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// StartAgentOfManifests starts the node's agent with the identity that deploy/manifests gives it, and
// returns that identity: its kubeconfig and the file with its token.
func (n *Node) StartAgentOfManifests(ctx context.Context) (kubeconfig, tokenFile string, err error) {
	token, err := n.cluster.AgentToken(ctx, n.Name)
	if err != nil {
		return "", "", err
	}
	tokenFile = n.cluster.path("agent-" + n.Name + ".token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return "", "", err
	}
	if kubeconfig, err = n.cluster.TokenKubeconfig("agent-"+n.Name, token); err != nil {
		return "", "", err
	}
	return kubeconfig, tokenFile, n.StartAgent(kubeconfig, tokenFile)
}
