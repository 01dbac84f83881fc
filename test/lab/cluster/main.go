package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"numafit.io/test/lab/machine"
	"numafit.io/test/lab/namespace"
)

// The lab starts its own program again to make a machine up in a new mount namespace; these variables
// say so.
const (
	machineVariable        = "NUMAFIT_LAB_MACHINE"
	machineKubeletVariable = "NUMAFIT_LAB_KUBELET_DIR"
	machineProgramVariable = "NUMAFIT_LAB_PROGRAM"
)

// Main must be called first in every test program that starts a Cluster: BecomeMachine, then into the
// lab's namespaces.
func Main() {
	BecomeMachine()
	if err := namespace.Enter(); err != nil {
		fail(err)
	}
}

// BecomeMachine makes a machine up and becomes its kubelet when that is what this program was started
// for; else it is a no-op. It comes before anything else in main.
func BecomeMachine() {
	if dir := os.Getenv(machineVariable); dir != "" {
		kubeletDir, program := os.Getenv(machineKubeletVariable), os.Getenv(machineProgramVariable)
		for _, name := range []string{machineVariable, machineKubeletVariable, machineProgramVariable} {
			os.Unsetenv(name)
		}
		fail(machine.Enter(dir, kubeletDir, program, os.Args[1:]))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "numafit-lab:", err)
	os.Exit(2)
}

// FindRoot finds the repository's folder from the working directory upward; NUMAFIT_ROOT first.
func FindRoot() (string, error) {
	if root := os.Getenv("NUMAFIT_ROOT"); root != "" {
		return filepath.Abs(root)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "lab", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the numafit repository; name it in NUMAFIT_ROOT")
		}
	}
}
