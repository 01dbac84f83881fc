package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"numafit.io/test/lab/children"
)

const (
	kueueNamespace = "kueue-system"
	kueueService   = "kueue-webhook-service"
	kueueSecret    = "kueue-webhook-server-cert"

	kueueWebhookPort = 9443
	kueueHealth      = "127.0.0.1:8081"
)

// KueueOptions say how Kueue is configured. The zero value admits only what a ClusterQueue covers.
type KueueOptions struct {
	// ExcludeResourcePrefixes lists resources that quota does not count ("device.gpustack.ai/").
	ExcludeResourcePrefixes []string
	// WaitForPodsReady evicts what does not run in time; nil is Kueue's default: it waits for ever.
	WaitForPodsReady *KueueWaitForPodsReady
	// FeatureGates are set beside the lab's own.
	FeatureGates map[string]bool
	// Frameworks are the kinds that Kueue watches, by default batch/job and pod.
	Frameworks []string
}

// KueueWaitForPodsReady is waitForPodsReady of Kueue's Configuration, times in whole seconds.
type KueueWaitForPodsReady struct {
	Timeout time.Duration
	// Backoff is the time before the first requeue; it doubles.
	Backoff time.Duration
	// BackoffLimit is how often a Workload is requeued before it is deactivated.
	BackoffLimit int
}

// StartKueue installs Kueue's objects and webhooks once, starts the real, unmodified Kueue, and waits
// until it serves. One that runs already is stopped first, so that a test can change the options; its
// objects stay.
//
// The webhooks are Kueue's own, with failurePolicy Fail: while Kueue is stopped, Pods and Jobs cannot
// be created.
func (c *Cluster) StartKueue(ctx context.Context, options KueueOptions) error {
	c.StopKueue()
	if _, err := os.Stat(c.binary("kueue")); err != nil {
		return fmt.Errorf("not built: kueue (run test/lab/build.sh kueue)")
	}
	if len(options.Frameworks) == 0 {
		options.Frameworks = []string{"batch/job", "pod"}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.installKueue(ctx, options); err != nil {
		return fmt.Errorf("installing Kueue: %w", err)
	}
	config, err := c.kueueConfig(options)
	if err != nil {
		return err
	}
	if err := c.makeKubeconfig("kueue", apiServerURL, "kueue", "system:masters"); err != nil {
		return err
	}
	c.Log("starting kueue")
	child, err := children.Start(children.Spec{
		Name: "kueue", Path: c.binary("kueue"), Log: c.LogFile("kueue"),
		Args: []string{"--config=" + config, "--kubeconfig=" + c.kubeconfigOf("kueue"), "--zap-log-level=2"},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.kueue = child
	c.mu.Unlock()
	client := &http.Client{Timeout: 2 * time.Second}
	return c.waitFor(ctx, child, "kueue to be ready", func() (bool, error) {
		if err := c.mountKueueCertificates(ctx); err != nil {
			return false, err
		}
		return isOK(client, "http://"+kueueHealth+"/readyz"), nil
	})
}

// StopKueue asks Kueue to end; a no-op when it does not run.
func (c *Cluster) StopKueue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kueue.Stop(stopGrace)
}

// Objects is a client for objects whose types the lab does not compile in.
func (c *Cluster) Objects() (dynamic.Interface, error) { return dynamic.NewForConfig(c.Config) }

// kueueConfig writes Kueue's Configuration and returns its path.
func (c *Cluster) kueueConfig(options KueueOptions) (string, error) {
	gates := map[string]bool{
		// An API server of its own, which would have to be registered and ends Kueue when it cannot start.
		"VisibilityOnDemand": false,
	}
	for name, value := range options.FeatureGates {
		gates[name] = value
	}
	config := map[string]any{
		"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
		"namespace":              kueueNamespace,
		"health":                 map[string]any{"healthProbeBindAddress": kueueHealth},
		"metrics":                map[string]any{"bindAddress": "127.0.0.1:8443"},
		"webhook":                map[string]any{"port": kueueWebhookPort, "certDir": c.kueueCertificates()},
		"leaderElection":         map[string]any{"leaderElect": false},
		"clientConnection":       map[string]any{"qps": 500, "burst": 1000},
		"internalCertManagement": map[string]any{"enable": true},
		"integrations":           map[string]any{"frameworks": options.Frameworks},
		"featureGates":           gates,
	}
	if len(options.ExcludeResourcePrefixes) > 0 {
		config["resources"] = map[string]any{"excludeResourcePrefixes": options.ExcludeResourcePrefixes}
	}
	if wait := options.WaitForPodsReady; wait != nil {
		config["waitForPodsReady"] = map[string]any{
			"timeout": wait.Timeout.String(),
			"requeuingStrategy": map[string]any{
				"timestamp":          "Eviction",
				"backoffLimitCount":  wait.BackoffLimit,
				"backoffBaseSeconds": int(wait.Backoff.Seconds()),
			},
		}
	}
	text, err := json.MarshalIndent(config, "", "  ") // JSON is YAML
	if err != nil {
		return "", err
	}
	path := c.path("kueue.yaml")
	return path, os.WriteFile(path, text, 0o600)
}

func (c *Cluster) kueueCertificates() string { return c.path("kueue-certs") }

// mountKueueCertificates does what a kubelet does for Kueue's Pod: once Kueue has filled its Secret, the
// Secret's files appear in its folder. Kueue waits for them.
func (c *Cluster) mountKueueCertificates(ctx context.Context) error {
	dir := c.kueueCertificates()
	if _, err := os.Stat(filepath.Join(dir, "tls.crt")); err == nil {
		return nil
	}
	secret, err := c.Client.CoreV1().Secrets(kueueNamespace).Get(ctx, kueueSecret, meta.GetOptions{})
	if err != nil || len(secret.Data["tls.crt"]) == 0 {
		return nil // not yet
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The certificate comes last: it is the file that Kueue waits for.
	for _, name := range []string{"ca.crt", "tls.key", "tls.crt"} {
		temporary := filepath.Join(dir, "."+name)
		if err := os.WriteFile(temporary, secret.Data[name], 0o600); err != nil {
			return err
		}
		if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// installKueue creates what Kueue needs in the API server. What is there already stays.
func (c *Cluster) installKueue(ctx context.Context, options KueueOptions) error {
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: kueueNamespace}}
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, namespace, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// Kueue fills the Secret, but does not make it.
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: kueueSecret, Namespace: kueueNamespace}}
	_, err = c.Client.CoreV1().Secrets(kueueNamespace).Create(ctx, secret, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// The name that Kueue's certificate is for leads to this machine.
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: kueueService, Namespace: kueueNamespace},
		Spec:       core.ServiceSpec{Type: core.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	_, err = c.Client.CoreV1().Services(kueueNamespace).Create(ctx, service, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	objects, err := c.Objects()
	if err != nil {
		return err
	}
	if err := c.installKueueDefinitions(ctx, objects); err != nil {
		return err
	}
	return c.installKueueWebhooks(ctx, objects, options.Frameworks)
}
