package cluster

import (
	"fmt"
	"os"
	"syscall"

	"numafit.io/test/lab/children"
	"numafit.io/test/lab/fleet"
)

// StartAgent starts numafit-agent "on" the node: in a mount namespace that shows the node's machine and
// its kubelet's folder. kubeconfig and tokenFile say who it is. An agent that runs already is stopped
// first.
func (n *Node) StartAgent(kubeconfig, tokenFile string, arguments ...string) error {
	n.StopAgent()
	program, err := fleet.FindAgent(n.cluster.Root)
	if err != nil {
		return err
	}
	config := fmt.Sprintf("apiVersion: numafit.io/v1alpha1\nkind: AgentConfiguration\n"+
		"paths: {podLogs: %q}\n"+
		"kubelet: {url: \"https://%s:10250\", caFile: %q, tokenFile: %q}\n",
		n.path("podlogs"), n.Address, n.cluster.authority.CAFile(), tokenFile)
	if err := os.WriteFile(n.path("agent.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agent, err = children.Start(children.Spec{
		Name: "agent of " + n.Name, Path: "/proc/self/exe", Log: n.cluster.LogFile("agent-" + n.Name),
		Env: []string{
			machineVariable + "=" + n.path("machine"),
			machineKubeletVariable + "=" + n.KubeletDir(),
			machineProgramVariable + "=" + program,
		},
		Args: append([]string{
			"--config=" + n.path("agent.yaml"), "--kubeconfig=" + kubeconfig, "--node-name=" + n.Name,
		}, arguments...),
		Namespaces: syscall.CLONE_NEWNS,
	})
	return err
}

// StopAgent ends the node's agent at once; a no-op when there is none.
func (n *Node) StopAgent() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agent.Kill()
	n.agent = nil
}

// AgentPID is 0 when no agent runs.
func (n *Node) AgentPID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.agent == nil {
		return 0
	}
	return n.agent.PID()
}
