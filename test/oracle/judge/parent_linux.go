package judge

import (
	"os/exec"
	"syscall"
)

// dieWithParent: no mirror outlives the comparison.
func dieWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
