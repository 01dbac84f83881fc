package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"numafit.io/test/lab/children"
	"numafit.io/test/lab/fleet"
)

// ReadAddress is where the extender answers people and Prometheus: read API, /metrics, /readyz.
const ReadAddress = "127.0.0.1:8889"

// StartExtender starts numafit-extender at the address that scheduler-config/trial.yaml names, and
// waits until it is ready (all its lists are read). An extender that runs already is stopped first.
func (c *Cluster) StartExtender(ctx context.Context, arguments ...string) error {
	return c.startExtender(ctx, append([]string{
		"--fleet", c.Fleet.Path, "--kubeconfig", c.kubeconfigOf("extender"),
	}, arguments...))
}

// StartExtenderOfReports is StartExtender with an inventory from NodeReports, as the user of kubeconfig.
func (c *Cluster) StartExtenderOfReports(ctx context.Context, kubeconfig string, arguments ...string) error {
	return c.startExtender(ctx, append([]string{
		"--inventory", "reports", "--kubeconfig", kubeconfig,
	}, arguments...))
}

func (c *Cluster) startExtender(ctx context.Context, arguments []string) error {
	c.StopExtender()
	program, err := fleet.FindExtender(c.Root)
	if err != nil {
		return err
	}
	address, err := ExtenderAddress(c.TrialConfig())
	if err != nil {
		return err
	}
	c.Log("starting numafit-extender")
	child, err := children.Start(children.Spec{
		Name: "numafit-extender", Path: program, Log: c.LogFile("extender"),
		Args: append([]string{
			"--listen", address, "--read-listen", ReadAddress,
		}, arguments...),
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.extender = child
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Timeout: 2 * time.Second}
	return c.waitFor(ctx, child, "numafit-extender to be ready", func() (bool, error) {
		return isOK(client, "http://"+ReadAddress+"/readyz"), nil
	})
}

// StopExtender asks the extender to end; a no-op when it does not run.
func (c *Cluster) StopExtender() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extender.Stop(stopGrace)
}

// KillExtender ends the extender with SIGKILL, as a crash does.
func (c *Cluster) KillExtender() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extender.Kill()
}

// ExtenderMetrics reads the extender's /metrics: sample ("name{labels}") to value.
func (c *Cluster) ExtenderMetrics(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ReadAddress+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics of the extender: %s", response.Status)
	}
	samples := map[string]float64{}
	for _, line := range strings.Split(string(body), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(line[cut+1:], &value); err == nil {
			samples[line[:cut]] = value
		}
	}
	return samples, nil
}

func readYAML(path string, replace map[string]string) (map[string]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for from, to := range replace {
		if !bytes.Contains(text, []byte(from)) {
			return nil, fmt.Errorf("%s does not contain the placeholder %q", path, from)
		}
		text = bytes.ReplaceAll(text, []byte(from), []byte(to))
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}
