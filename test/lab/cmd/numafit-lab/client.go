package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	core "k8s.io/api/core/v1"

	"numafit.io/test/lab/children"
	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

var errNotUp = errors.New("the lab is not up: hack/lab.sh up")

func control() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(labDir(), "control.sock"))
		},
	}}
}

func getState(query string) (*state, error) {
	response, err := control().Get("http://lab/state" + query)
	if err != nil {
		return nil, errNotUp
	}
	defer response.Body.Close()
	answer := &state{}
	return answer, json.NewDecoder(response.Body).Decode(answer)
}

func post(path string, query url.Values) error {
	response, err := control().Post("http://lab"+path+"?"+query.Encode(), "", nil)
	if err != nil {
		return errNotUp
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(response.Body)
		return errors.New(strings.TrimSpace(string(text)))
	}
	return nil
}

// up starts `serve` as a process of its own and waits until the lab is ready.
func up(arguments []string) error {
	if running, err := getState(""); err == nil {
		if running.Ready {
			fmt.Println("The lab is up already.")
			printNext(running)
			return nil
		}
		return errors.New("the lab is starting or has failed: hack/lab.sh down, then up again")
	}
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	if err := cluster.CheckPrograms(root); err != nil {
		return err
	}
	dir := labDir()
	if err := clearDir(dir); err != nil {
		return err
	}
	logPath := filepath.Join(dir, "lab.log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	begin := time.Now()
	command := exec.Command("/proc/self/exe", append([]string{"serve"}, arguments...)...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	shown := 0
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("the lab ended: %v\n%s", err, children.Tail(logPath, 20))
		case <-time.After(50 * time.Millisecond):
		}
		now, err := getState("")
		if err != nil {
			continue
		}
		for ; shown < len(now.Steps); shown++ {
			fmt.Printf("  %4.1f s  %s\n", time.Since(begin).Seconds(), now.Steps[shown])
		}
		if now.Error != "" {
			_ = post("/stop", nil)
			<-ended
			return errors.New(now.Error)
		}
		if now.Ready {
			fmt.Printf("  %4.1f s  ready\n\n", time.Since(begin).Seconds())
			printNext(now)
			return nil
		}
	}
}

// clearDir makes the lab's folder anew. It removes only a folder that a lab made.
func clearDir(dir string) error {
	marker := filepath.Join(dir, ".numafit-lab")
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		if _, err := os.Stat(marker); err != nil {
			return fmt.Errorf("%s exists and is not a lab's: remove it, or name another folder in"+
				" NUMAFIT_LAB_DIR", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(marker, nil, 0o600)
}

func printNext(now *state) {
	how, other := "with", "without"
	if !now.WithNumafit {
		how, other = other, how
	}
	fmt.Printf(`The lab is up: real kubelets on made-up NUMA machines, kube-scheduler %s numafit.

  hack/lab.sh kubectl get nodes
  hack/lab.sh kubectl apply -f test/lab/examples/aligned.yaml     4 accelerators + 4 endpoints on one NUMA node
  hack/lab.sh kubectl apply -f test/lab/examples/fragmented.yaml  Pods that break NUMA nodes, then larger ones
  hack/lab.sh status                                              what is free where, and which Pod lies where
  hack/lab.sh numafit explain -f test/lab/examples/aligned.yaml   what numafit thinks of a Pod
  hack/lab.sh scheduler %-7s                                   restart kube-scheduler %s numafit
  hack/lab.sh down
`, how, other, other)
}

func down([]string) error {
	running, err := getState("")
	if err != nil {
		return err
	}
	if err := post("/stop", nil); err != nil {
		return err
	}
	for range 400 {
		if _, err := os.Stat(labDir()); os.IsNotExist(err) {
			fmt.Println("The lab is down; nothing of it is left.")
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("process %d does not end", running.PID)
}

func switchScheduler(arguments []string) error {
	if len(arguments) != 1 || arguments[0] != "with" && arguments[0] != "without" {
		return errors.New("usage: hack/lab.sh scheduler with|without")
	}
	with := arguments[0] == "with"
	if err := post("/scheduler", url.Values{"numafit": {fmt.Sprint(with)}}); err != nil {
		return err
	}
	fmt.Printf("kube-scheduler runs %s numafit.\n", arguments[0])
	return nil
}

func changeDevice(arguments []string) error {
	if len(arguments) != 4 || arguments[3] != "healthy" && arguments[3] != "unhealthy" {
		return errors.New("usage: hack/lab.sh device NODE RESOURCE ID healthy|unhealthy")
	}
	return post("/device", url.Values{
		"node": {arguments[0]}, "resource": {arguments[1]}, "id": {arguments[2]},
		"healthy": {fmt.Sprint(arguments[3] == "healthy")},
	})
}

// kubectl runs the real kubectl inside the lab's network.
func kubectl(arguments []string) error {
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	return enter(append([]string{cluster.Program(root, "kubectl")}, arguments...))
}

// askNumafit runs the numafit command against the lab's extender.
func askNumafit(arguments []string) error {
	root, err := cluster.FindRoot()
	if err != nil {
		return err
	}
	numafit, err := fleet.FindNumafit(root)
	if err != nil {
		return err
	}
	return enter(append(append([]string{numafit}, arguments...), "--server", "http://"+cluster.ReadAddress))
}

func shell(arguments []string) error {
	program := os.Getenv("SHELL")
	if program == "" {
		program = "/bin/sh"
	}
	return enter(append([]string{program}, arguments...))
}

// enter becomes a program in the lab's network (and, as a plain user, in its user namespace).
func enter(program []string) error {
	running, err := getState("")
	if err != nil {
		return err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return errors.New("nsenter (util-linux) is needed to enter the lab's network")
	}
	arguments := []string{"nsenter", "--target", fmt.Sprint(running.PID), "--net"}
	if running.User {
		arguments = append(arguments, "--user", "--preserve-credentials")
	}
	arguments = append(append(arguments, "--"), program...)
	environment := append(os.Environ(), "KUBECONFIG="+running.Kubeconfig)
	return syscall.Exec(nsenter, arguments, environment)
}

func status([]string) error {
	now, err := getState("?nodes")
	if err != nil {
		return err
	}
	if now.Error != "" {
		return errors.New(now.Error)
	}
	if !now.Ready {
		fmt.Printf("The lab is starting: %s\n", strings.Join(now.Steps, ", "))
		return nil
	}
	how := "with"
	if !now.WithNumafit {
		how = "without"
	}
	fmt.Printf("The lab is up: kube-scheduler %s numafit, process %d, KUBECONFIG=%s\n\n", how, now.PID, now.Kubeconfig)
	printNodes(now.Nodes)
	fmt.Println()
	printPods(now.Pods)
	return nil
}

func printNodes(nodes []node) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "NODE\tPOLICY\tSCOPE\tRESOURCE\tFREE/ALL PER NUMA NODE, AS ITS KUBELET SAYS")
	for _, machine := range nodes {
		first := true
		for _, resource := range sortedKeys(machine.Total) {
			var words []string
			for _, numa := range machine.NUMA {
				key := fmt.Sprint(numa)
				words = append(words, fmt.Sprintf("NUMA %d: %d/%d", numa,
					machine.Free[resource][key], machine.Total[resource][key]))
			}
			name, policy, scope := "", "", ""
			if first {
				name, policy, scope = machine.Name, machine.Policy, machine.Scope
			}
			first = false
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, policy, scope, resource, strings.Join(words, "  "))
		}
	}
}

func printPods(pods []pod) {
	if len(pods) == 0 {
		fmt.Println("No Pods.")
		return
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "POD\tPHASE\tNODE\tDEVICES LIE ON")
	for _, p := range pods {
		text := p.NUMA
		if p.Why != "" {
			text = p.Why
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", p.Name, p.Phase, orDefault(p.Node, "-"), text)
	}
}

// whyNot is the cluster's own word on a Pod that does not run.
func whyNot(p *core.Pod) string {
	if p.Status.Phase == core.PodFailed {
		return p.Status.Reason + ": " + p.Status.Message
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == core.PodScheduled && condition.Status == core.ConditionFalse {
			return condition.Reason + ": " + condition.Message
		}
	}
	return ""
}
