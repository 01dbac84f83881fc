// Command numafit-lab runs the lab for a person (hack/lab.sh): a real cluster on loopback, in
// namespaces of its own, that stays up until it is told to end.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"numafit.io/test/lab/cluster"
	"numafit.io/test/lab/fleet"
)

const usage = `usage: hack/lab.sh COMMAND

  up [--fleet FILE] [--without-numafit]   start the lab and return when it is ready
  status                                  nodes, free devices per NUMA node, Pods
  kubectl ARGUMENTS…                      kubectl, as cluster-admin of the lab
  numafit ARGUMENTS…                      the numafit command, asking the lab's extender
  shell                                   a shell inside the lab's network, with KUBECONFIG set
  scheduler with|without                  restart kube-scheduler with or without numafit
  device NODE RESOURCE ID healthy|unhealthy
                                          change a device's health, as its plugin would
  down                                    end the lab
  demo                                    the same Pods without and with numafit, in a lab of its own
  test [ARGUMENTS…]                       the lab's tests (arguments of go test)
  build                                   build the programs only

The lab lives in $NUMAFIT_LAB_DIR (default: numafit-lab-<user id> in the folder for temporary files).`

func main() {
	cluster.BecomeMachine()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	commands := map[string]func([]string) error{
		"up": up, "serve": serve, "down": down, "status": status, "kubectl": kubectl, "shell": shell, "numafit": askNumafit,
		"scheduler": switchScheduler, "device": changeDevice, "demo": demo, "bench": benchScheduler,
		"bench-agent": benchAgent,
	}
	run, known := commands[os.Args[1]]
	if !known {
		if help := os.Args[1]; help == "-h" || help == "--help" || help == "help" {
			fmt.Println(usage)
			return
		}
		fmt.Fprintf(os.Stderr, "lab: no command %q\n%s\n", os.Args[1], usage)
		os.Exit(2)
	}
	if err := run(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// labDir is where the person's lab lives. It is short, because unix sockets lie below it.
func labDir() string {
	if dir := os.Getenv("NUMAFIT_LAB_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(os.TempDir(), "numafit-lab-"+strconv.Itoa(os.Getuid()))
}

func loadFleet(root, path string) (*fleet.Fleet, error) {
	if path == "" {
		path = filepath.Join(root, "test", "fleets", "lab.yaml")
	}
	numafit := ""
	if !strings.HasSuffix(path, ".json") {
		var err error
		if numafit, err = fleet.FindNumafit(root); err != nil {
			return nil, err
		}
	}
	return fleet.Load(path, numafit)
}
