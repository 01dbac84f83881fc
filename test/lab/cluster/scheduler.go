package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"numafit.io/test/lab/children"
)

const schedulerURL = "https://127.0.0.1:10259"

// SchedulerOptions say how kube-scheduler is configured.
type SchedulerOptions struct {
	// Config is a KubeSchedulerConfiguration, by default scheduler-config/trial.yaml. Only what ties it
	// to a machine is replaced: the kubeconfig, and the files named in Replace.
	Config string
	// WithoutNumafit leaves the extenders out: the same scheduler as it comes.
	WithoutNumafit bool
	// DefaultPercentage drops percentageOfNodesToScore from the profiles.
	DefaultPercentage bool
	// Replace maps texts of the file to others, for its documented placeholders.
	Replace map[string]string
}

// TrialConfig is the configuration that people try numafit with.
func (c *Cluster) TrialConfig() string {
	return filepath.Join(c.Root, "scheduler-config", "trial.yaml")
}

// StartScheduler starts the real kube-scheduler and waits until it is healthy. A scheduler that runs
// already is stopped first.
func (c *Cluster) StartScheduler(ctx context.Context, options SchedulerOptions) error {
	c.StopScheduler()
	if options.Config == "" {
		options.Config = c.TrialConfig()
	}
	config, err := c.schedulerConfig(options)
	if err != nil {
		return err
	}
	if options.WithoutNumafit {
		c.Log("starting kube-scheduler without numafit")
	} else {
		c.Log("starting kube-scheduler with %s", filepath.Base(options.Config))
	}
	child, err := children.Start(children.Spec{
		Name: "kube-scheduler", Path: c.binary("kube-scheduler"), Log: c.LogFile("kube-scheduler"),
		Args: []string{
			"--config=" + config, "--bind-address=127.0.0.1", "--secure-port=10259",
			"--cert-dir=" + c.path("scheduler-certs"), "--v=2",
			"--authentication-kubeconfig=" + c.kubeconfigOf("scheduler"),
			"--authorization-kubeconfig=" + c.kubeconfigOf("scheduler"),
		},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.scheduler = child
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := insecureClient()
	return c.waitFor(ctx, child, "kube-scheduler to be ready", func() (bool, error) {
		// readyz waits for the informers, healthz does not.
		return isOK(client, schedulerURL+"/readyz"), nil
	})
}

// StopScheduler ends kube-scheduler; a no-op when it does not run.
func (c *Cluster) StopScheduler() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scheduler.Stop(stopGrace)
}

// KillScheduler ends kube-scheduler with SIGKILL.
func (c *Cluster) KillScheduler() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scheduler.Kill()
}

// schedulerConfig writes the configuration with which kube-scheduler runs here, and returns its path.
func (c *Cluster) schedulerConfig(options SchedulerOptions) (string, error) {
	config, err := readYAML(options.Config, options.Replace)
	if err != nil {
		return "", err
	}
	connection, _ := config["clientConnection"].(map[string]any)
	if connection == nil {
		connection = map[string]any{}
		config["clientConnection"] = connection
	}
	connection["kubeconfig"] = c.kubeconfigOf("scheduler")
	// The default of 50 requests a second would measure the client, not the scheduler.
	connection["qps"] = 5000
	connection["burst"] = 10000
	config["leaderElection"] = map[string]any{"leaderElect": false}
	if options.WithoutNumafit {
		delete(config, "extenders")
	}
	if profiles, isList := config["profiles"].([]any); isList && options.DefaultPercentage {
		for _, profile := range profiles {
			delete(profile.(map[string]any), "percentageOfNodesToScore")
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", err
	}
	path := c.path("scheduler.yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// ExtenderAddress is the host and port at which a scheduler configuration looks for the extender.
func ExtenderAddress(config string) (string, error) {
	values, err := readYAML(config, nil)
	if err != nil {
		return "", err
	}
	extenders, _ := values["extenders"].([]any)
	if len(extenders) != 1 {
		return "", fmt.Errorf("%s: want one extender, have %d", config, len(extenders))
	}
	extender, _ := extenders[0].(map[string]any)
	prefix, _ := extender["urlPrefix"].(string)
	parsed, err := url.Parse(prefix)
	if err != nil || parsed.Port() == "" {
		return "", fmt.Errorf("%s: urlPrefix %q names no port", config, prefix)
	}
	return parsed.Host, nil
}

func insecureClient() *http.Client {
	return &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // its own self-signed certificate
			DisableKeepAlives: true,
		},
	}
}
