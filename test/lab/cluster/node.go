package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"numafit.io/test/lab/children"
	"numafit.io/test/lab/deviceplugin"
	"numafit.io/test/lab/fleet"
	"numafit.io/test/lab/machine"
	"numafit.io/test/lab/namespace"
	"numafit.io/test/lab/runtime"
)

// Node is one machine with a kubelet.
type Node struct {
	fleet.Node
	Address string

	cluster *Cluster
	dir     string
	runtime *runtime.Runtime
	plugins map[string]*deviceplugin.Plugin // by resource

	mu      sync.Mutex
	kubelet *children.Child
	agent   *children.Child // nil: none was started
}

// Node finds a node by name; nil when there is none.
func (c *Cluster) Node(name string) *Node { return c.nodes[name] }

// Nodes lists the nodes in the order of the fleet.
func (c *Cluster) Nodes() []*Node {
	var nodes []*Node
	for _, spec := range c.Fleet.Nodes {
		if node := c.nodes[spec.Name]; node != nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (c *Cluster) startNodes(ctx context.Context) error {
	if len(c.Fleet.Nodes) > 200 {
		return fmt.Errorf("%s has %d nodes; real kubelets are for small fleets (about 19 at the usual"+
			" fs.inotify.max_user_instances)", c.Fleet.Path, len(c.Fleet.Nodes))
	}
	c.Log("starting %d kubelets", len(c.Fleet.Nodes))
	for i, spec := range c.Fleet.Nodes {
		node := &Node{
			Node: spec, Address: fmt.Sprintf("10.99.0.%d", i+11), cluster: c,
			dir: c.path("nodes", spec.Name), plugins: map[string]*deviceplugin.Plugin{},
		}
		if err := node.start(); err != nil {
			return fmt.Errorf("node %s: %w", spec.Name, err)
		}
		c.nodes[spec.Name] = node
	}
	for _, node := range c.Nodes() {
		if err := node.WaitReady(ctx); err != nil {
			return err
		}
		if err := node.setLabels(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) path(parts ...string) string {
	return filepath.Join(append([]string{n.dir}, parts...)...)
}

// KubeletDir is the node's /var/lib/kubelet as seen from outside: sockets and state files lie in it.
func (n *Node) KubeletDir() string { return n.path("kubelet") }

func (n *Node) start() error {
	devicePlugins := n.path("kubelet", "device-plugins")
	for _, dir := range []string{devicePlugins, n.path("volumeplugins"), n.path("podlogs")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, resource := range n.ResourceNames() {
		if path := deviceplugin.SocketPath(resource, devicePlugins); len(path) > deviceplugin.MaxSocketPath {
			return fmt.Errorf("%s is too long for a socket (%d characters): shorten the node's name or the"+
				" lab's folder", path, deviceplugin.MaxSocketPath)
		}
	}
	if err := namespace.AddAddress(n.Address); err != nil {
		return err
	}
	if err := machine.Render(n.Node, n.path("machine")); err != nil {
		return err
	}
	if err := n.writeConfig(); err != nil {
		return err
	}
	started, err := runtime.Start(n.path("cri.sock"), n.Address)
	if err != nil {
		return err
	}
	n.runtime = started
	if err := n.StartKubelet(); err != nil {
		return err
	}
	for _, resource := range n.ResourceNames() {
		n.plugins[resource] = deviceplugin.Start(resource, n.Devices[resource], devicePlugins)
	}
	return nil
}

func (n *Node) stop() {
	n.StopAgent()
	n.StopKubelet()
	for _, plugin := range n.plugins {
		plugin.Stop()
	}
	if n.runtime != nil {
		n.runtime.Stop()
	}
}

// StartKubelet starts the node's kubelet, for the first time or again; runtime, plugins and state
// files are where they were.
func (n *Node) StartKubelet() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	child, err := children.Start(children.Spec{
		Name: "kubelet of " + n.Name, Path: "/proc/self/exe", Log: n.cluster.LogFile("kubelet-" + n.Name),
		// This program again, which makes the machine up and then becomes the kubelet.
		Env: []string{
			machineVariable + "=" + n.path("machine"),
			machineKubeletVariable + "=" + n.KubeletDir(),
			machineProgramVariable + "=" + n.cluster.binary("kubelet"),
		},
		Args: []string{
			"--config=" + n.path("kubelet.yaml"),
			"--kubeconfig=" + n.cluster.kubeconfigOf("node-"+n.Name),
			"--hostname-override=" + n.Name, "--node-ip=" + n.Address, "--v=2",
		},
		Namespaces: syscall.CLONE_NEWNS,
	})
	n.kubelet = child
	return err
}

// StopKubelet ends the kubelet at once; its containers go on.
func (n *Node) StopKubelet() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kubelet.Kill()
}

// KubeletPID is the process whose namespaces an agent must enter to run "on" this node.
func (n *Node) KubeletPID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kubelet.PID()
}

// SetHealth makes one device healthy or unhealthy, as its plugin would report it.
func (n *Node) SetHealth(resource, device string, healthy bool) error {
	plugin := n.plugins[resource]
	if plugin == nil {
		return fmt.Errorf("node %s has no resource %q", n.Name, resource)
	}
	return plugin.SetHealth(device, healthy)
}

// WaitReady waits until the node is Ready and its devices are allocatable.
func (n *Node) WaitReady(ctx context.Context) error {
	n.mu.Lock()
	kubelet := n.kubelet
	n.mu.Unlock()
	missing := "its registration"
	return n.cluster.waitFor(ctx, kubelet, "node "+n.Name+" to be ready with its devices", func() (bool, error) {
		node, err := n.cluster.Client.CoreV1().Nodes().Get(ctx, n.Name, meta.GetOptions{})
		if err != nil {
			return false, nil
		}
		missing = n.missing(node)
		return missing == "", nil
	})
}

func (n *Node) missing(node *core.Node) string {
	ready := false
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady && condition.Status == core.ConditionTrue {
			ready = true
		}
	}
	if !ready {
		return "Ready"
	}
	for resource, devices := range n.Devices {
		healthy := int64(0)
		seen := map[string]bool{} // a device on several NUMA nodes may have several rows
		for _, device := range devices {
			if device.IsHealthy() && !seen[device.ID] {
				seen[device.ID] = true
				healthy++
			}
		}
		quantity := node.Status.Allocatable[core.ResourceName(resource)]
		if quantity.Value() != healthy {
			return resource
		}
	}
	return ""
}

func (n *Node) setLabels(ctx context.Context) error {
	if len(n.Labels) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": n.Labels}})
	if err != nil {
		return err
	}
	_, err = n.cluster.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, meta.PatchOptions{})
	return err
}

// writeConfig writes the node's identity and the KubeletConfiguration.
func (n *Node) writeConfig() error {
	c := n.cluster
	user := "system:node:" + n.Name
	if err := c.makeKubeconfig("node-"+n.Name, apiServerURL, user, "system:nodes"); err != nil {
		return err
	}
	serving, err := c.authority.Server("kubelet-"+n.Name, n.Address, n.Name)
	if err != nil {
		return err
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": n.Address, "healthzPort": 0,
		"tlsCertFile": serving.Cert, "tlsPrivateKeyFile": serving.Key,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true, "cacheTTL": "5s"},
			"x509":      map[string]any{"clientCAFile": c.authority.CAFile()},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + n.path("cri.sock"),
		"podLogsDir":               n.path("podlogs"),
		"volumePluginDir":          n.path("volumeplugins"),
		"resolvConf":               "",
		// The lab shares its machine's cgroups and kernel settings, and must not touch them.
		"cgroupsPerQOS": false, "enforceNodeAllocatable": []string{}, "cgroupDriver": "cgroupfs",
		"failSwapOn": false, "oomScoreAdj": 0, "makeIPTablesUtilChains": false,
		"featureGates":                map[string]bool{},
		"evictionHard":                map[string]string{"memory.available": "100Mi"},
		"imageGCHighThresholdPercent": 100,
		"nodeStatusUpdateFrequency":   "2s",
		"serializeImagePulls":         false,
		"eventRecordQPS":              0,
		"kubeAPIQPS":                  500, "kubeAPIBurst": 1000,
		"maxPods": 250,
	}
	if machine.HasCgroupV1() {
		config["failCgroupV1"] = false
	}
	if namespace.IsUser() {
		config["featureGates"].(map[string]bool)["KubeletInUserNamespace"] = true
	}
	n.addManagers(config)
	text, err := json.MarshalIndent(config, "", "  ") // JSON is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(n.path("kubelet.yaml"), text, 0o600)
}

// addManagers copies the settings that decide an admission; what the fleet file leaves out stays the
// kubelet's default.
func (n *Node) addManagers(config map[string]any) {
	kubelet := n.Kubelet
	for key, value := range map[string]string{
		"topologyManagerPolicy": kubelet.TopologyPolicy,
		"topologyManagerScope":  kubelet.TopologyScope,
		"cpuManagerPolicy":      kubelet.CPUPolicy,
		"memoryManagerPolicy":   kubelet.MemoryPolicy,
		"reservedSystemCPUs":    kubelet.ReservedCPUs,
	} {
		if value != "" {
			config[key] = value
		}
	}
	for key, value := range map[string]map[string]string{
		"topologyManagerPolicyOptions": kubelet.TopologyOptions,
		"cpuManagerPolicyOptions":      kubelet.CPUOptions,
		"kubeReserved":                 kubelet.KubeReserved,
		"systemReserved":               kubelet.SystemReserved,
		"evictionHard":                 kubelet.EvictionHard,
	} {
		if len(value) > 0 {
			config[key] = value
		}
	}
	if kubelet.CPUPolicy == "static" {
		// Every so often the CPU manager drops what Pods had that are gone. Admission does that first anyway,
		// and a state file that only admission changes can be compared with.
		config["cpuManagerReconcilePeriod"] = "1h"
	}
	maps.Copy(config["featureGates"].(map[string]bool), kubelet.FeatureGates)
	if len(kubelet.ReservedMemory) > 0 {
		config["reservedMemory"] = kubelet.ReservedMemory
	}
}
