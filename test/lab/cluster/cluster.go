// Package cluster starts a real Kubernetes cluster on loopback: etcd, kube-apiserver, kube-scheduler,
// and one real kubelet per node of a fleet file, on a made-up NUMA machine with real device plugins
// and a container runtime that runs nothing. numafit's extender joins as any extender does.
//
// It must run inside namespace.Enter, which every program that uses it calls first (see Main). All
// programs are children of this process and die with it. One cluster at a time per process: ports and
// addresses are fixed, because the network is the lab's own.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"numafit.io/test/lab/children"
	"numafit.io/test/lab/fleet"
	"numafit.io/test/lab/pki"
)

const (
	apiServerURL = "https://127.0.0.1:6443"
	etcdURL      = "http://127.0.0.1:2379"
	etcdPeerURL  = "http://127.0.0.1:2380"

	startTimeout = 90 * time.Second
	// Kubelets start all at once; on a busy machine each takes its time.
	startTimePerNode = 10 * time.Second
	stopGrace        = 3 * time.Second
)

// Options say what to start.
type Options struct {
	// Root is the repository's folder: programs are found below it, and scheduler-config/.
	Root string
	// Dir holds everything that the lab writes. Short: unix sockets lie below it.
	Dir string
	// Fleet names the machines.
	Fleet *fleet.Fleet
	// NoKubelets starts the control plane only (the Node objects are then the caller's).
	NoKubelets bool
	// Log receives one line per step; nil is silence.
	Log func(format string, arguments ...any)
}

// Cluster is a running lab.
type Cluster struct {
	Options
	Client kubernetes.Interface // as cluster-admin, without a rate limit
	Config *rest.Config

	authority *pki.Authority
	nodes     map[string]*Node

	mu                sync.Mutex // guards the children
	etcd              *children.Child
	apiServer         *children.Child
	scheduler         *children.Child
	extender          *children.Child
	controllerManager *children.Child // nil: none was started
	kueue             *children.Child // nil: none was started
}

// Start brings the control plane and the kubelets up and returns when every node is Ready and has all
// its devices. Neither kube-scheduler nor the extender is started: see StartScheduler, StartExtender.
// On an error everything that was started is stopped.
func Start(ctx context.Context, options Options) (cluster *Cluster, err error) {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	c := &Cluster{Options: options, nodes: map[string]*Node{}}
	for _, dir := range []string{"logs", "pki", "etcd", "nodes"} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	timeout := startTimeout
	if !options.NoKubelets {
		timeout += time.Duration(len(options.Fleet.Nodes)) * startTimePerNode
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.makeIdentities(); err != nil {
		return nil, err
	}
	if err := c.startEtcd(); err != nil {
		return nil, err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return nil, err
	}
	if err := c.grantExtender(ctx); err != nil {
		return nil, err
	}
	if !options.NoKubelets {
		if err := c.startNodes(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// APIServerAddress is the host and port of the API server.
func (c *Cluster) APIServerAddress() string { return strings.TrimPrefix(apiServerURL, "https://") }

// RouteExtender makes the extender talk to the API server through another address of 127.0.0.1, from
// its next start on: a test puts a bad network there.
func (c *Cluster) RouteExtender(address string) error {
	return c.makeKubeconfig("extender", "https://"+address, "numafit-extender")
}

// Stop ends everything that was started. Files stay: remove Options.Dir to be rid of them.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Nothing is worth saving: the cluster's whole state goes away with it.
	for _, child := range []*children.Child{c.scheduler, c.extender, c.kueue, c.controllerManager} {
		child.Kill()
	}
	for _, node := range c.nodes {
		node.stop()
	}
	c.apiServer.Kill()
	c.etcd.Kill()
}

// PIDs lists the processes of the programs that run now.
func (c *Cluster) PIDs() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []*children.Child{c.etcd, c.apiServer, c.scheduler, c.extender, c.kueue, c.controllerManager}
	for _, node := range c.nodes {
		node.mu.Lock()
		all = append(all, node.kubelet)
		node.mu.Unlock()
	}
	var pids []int
	for _, child := range all {
		if child != nil && child.Running() {
			pids = append(pids, child.PID())
		}
	}
	return pids
}

// Kubeconfig is the file with which a person is cluster-admin.
func (c *Cluster) Kubeconfig() string { return c.kubeconfigOf("admin") }

// Authority signs certificates that the lab's programs trust.
func (c *Cluster) Authority() *pki.Authority { return c.authority }

// LogFile is where a program writes: "kube-apiserver", "kube-scheduler", "extender", "kubelet-NODE",
// "kube-controller-manager", "kueue".
func (c *Cluster) LogFile(program string) string { return c.path("logs", program+".log") }

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}

func (c *Cluster) binary(name string) string { return Program(c.Root, name) }

// Program is where a built program of the lab lies.
func Program(root, name string) string { return filepath.Join(binDir(root), name) }

func binDir(root string) string {
	if dir := os.Getenv("NUMAFIT_LAB_BIN"); dir != "" {
		return dir
	}
	return filepath.Join(root, "build", "lab", "bin")
}

func (c *Cluster) kubeconfigOf(identity string) string { return c.path(identity + ".kubeconfig") }

// makeIdentities makes one authority, the API server's certificates and a kubeconfig per client.
func (c *Cluster) makeIdentities() error {
	var err error
	if c.authority, err = pki.NewAuthority(c.path("pki")); err != nil {
		return err
	}
	if err := pki.ServiceAccountKey(c.path("pki", "service-account.key")); err != nil {
		return err
	}
	if _, err := c.authority.Server("apiserver", "127.0.0.1", "localhost", "kubernetes.default"); err != nil {
		return err
	}
	if _, err := c.authority.Client("apiserver-to-kubelet", "apiserver", "system:masters"); err != nil {
		return err
	}
	for identity, who := range map[string][]string{
		"admin":              {"lab-admin", "system:masters"},
		"scheduler":          {"system:kube-scheduler"},
		"extender":           {"numafit-extender"},
		"controller-manager": {"system:kube-controller-manager"},
	} {
		if err := c.makeKubeconfig(identity, apiServerURL, who[0], who[1:]...); err != nil {
			return err
		}
	}
	c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return err
	}
	c.Config.QPS = -1
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

func (c *Cluster) makeKubeconfig(identity, server, user string, groups ...string) error {
	pair, err := c.authority.Client(identity, user, groups...)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster: {server: %q, certificate-authority: %q}
users:
- name: %q
  user: {client-certificate: %q, client-key: %q}
contexts:
- name: lab
  context: {cluster: lab, user: %q}
current-context: lab
`, server, c.authority.CAFile(), user, pair.Cert, pair.Key, user)
	return os.WriteFile(c.kubeconfigOf(identity), []byte(text), 0o600)
}

func (c *Cluster) startEtcd() error {
	c.Log("starting etcd")
	child, err := children.Start(children.Spec{
		Name: "etcd", Path: c.binary("etcd"), Log: c.LogFile("etcd"),
		Args: []string{
			"--name=lab", "--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=" + etcdPeerURL, "--initial-advertise-peer-urls=" + etcdPeerURL,
			"--initial-cluster=lab=" + etcdPeerURL, "--quota-backend-bytes=4294967296",
		},
	})
	c.etcd = child
	return err
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	c.Log("starting kube-apiserver")
	pkiFile := func(name string) string { return c.path("pki", name) }
	child, err := children.Start(children.Spec{
		Name: "kube-apiserver", Path: c.binary("kube-apiserver"), Log: c.LogFile("kube-apiserver"),
		Args: []string{
			"--etcd-servers=" + etcdURL,
			"--bind-address=127.0.0.1", "--secure-port=6443", "--advertise-address=127.0.0.1",
			"--tls-cert-file=" + pkiFile("apiserver.crt"),
			"--tls-private-key-file=" + pkiFile("apiserver.key"),
			"--client-ca-file=" + c.authority.CAFile(),
			"--kubelet-certificate-authority=" + c.authority.CAFile(),
			"--kubelet-client-certificate=" + pkiFile("apiserver-to-kubelet.crt"),
			"--kubelet-client-key=" + pkiFile("apiserver-to-kubelet.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + pkiFile("service-account.key"),
			"--service-account-signing-key-file=" + pkiFile("service-account.key"),
			"--service-cluster-ip-range=10.98.0.0/16",
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			// No controller makes service accounts or clears the taint of a new node.
			"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
			"--endpoint-reconciler-type=none",
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
			"--shutdown-delay-duration=0s",
		},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.apiServer = child
	c.mu.Unlock()
	return c.waitFor(ctx, child, "kube-apiserver to be ready", func() (bool, error) {
		_, err := c.Client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
}

// StopAPIServer takes the API server away; etcd keeps the state.
func (c *Cluster) StopAPIServer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apiServer.Stop(stopGrace)
}

// StartAPIServer brings the API server back and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error { return c.startAPIServer(ctx) }

// grantExtender gives the extender's own identity what it needs, verb by verb.
func (c *Cluster) grantExtender(ctx context.Context) error {
	role := &rbac.ClusterRole{
		ObjectMeta: meta.ObjectMeta{Name: "numafit-extender"},
		Rules: []rbac.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods/binding"}, Verbs: []string{"create"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}},
			{APIGroups: []string{"kueue.x-k8s.io"}, Resources: []string{"workloads", "clusterqueues", "resourceflavors", "admissionchecks"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
		},
	}
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "numafit-extender"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "numafit-extender"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: "numafit-extender"}},
	}
	_, err := c.Client.RbacV1().ClusterRoles().Create(ctx, role, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = c.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// waitFor polls until done says yes, the child ends, or the time is up.
func (c *Cluster) waitFor(ctx context.Context, child *children.Child, what string, done func() (bool, error)) error {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		var ended <-chan struct{}
		if child != nil {
			ended = child.Done()
		}
		select {
		case <-ended:
			return child.Failure()
		case <-ctx.Done():
			message := fmt.Sprintf("waited in vain for %s", what)
			if child != nil {
				message += fmt.Sprintf("; the end of %s:\n%s", child.Log, children.Tail(child.Log, 15))
			}
			return errors.New(message)
		case <-ticker.C:
		}
	}
}

// isOK says whether a plain HTTP GET answers 200.
func isOK(client *http.Client, url string) bool {
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// CheckPrograms says which of the lab's programs are not built.
func CheckPrograms(root string) error {
	var missing []string
	for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler", "kubelet", "kubectl"} {
		if _, err := os.Stat(filepath.Join(binDir(root), name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not built: %s (run test/lab/build.sh)", strings.Join(missing, ", "))
	}
	return nil
}
