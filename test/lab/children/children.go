// Package children starts and stops the programs of the lab.
//
// Every child dies with the process that started it, however that one ends: the kernel sends it
// SIGKILL (PR_SET_PDEATHSIG). The signal is tied to the *thread* that forked, so all forks happen on
// one thread that is never given back.
package children

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Child is one running (or ended) program.
type Child struct {
	Name string
	Log  string // file with its standard output and error

	command *exec.Cmd
	done    chan struct{}
	err     error // after done
}

// Spec says what to start.
type Spec struct {
	Name       string
	Path       string
	Args       []string
	Env        []string // added to the environment
	Log        string   // appended to
	Namespaces uintptr  // further CLONE_NEW* flags
}

var (
	forkOnce sync.Once
	forks    chan func()
)

func onForkThread(f func()) {
	forkOnce.Do(func() {
		forks = make(chan func())
		go func() {
			runtime.LockOSThread()
			for work := range forks {
				work()
			}
		}()
	})
	finished := make(chan struct{})
	forks <- func() { f(); close(finished) }
	<-finished
}

// Start starts a program.
func Start(spec Spec) (*Child, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(spec.Path, spec.Args...)
	command.Env = append(os.Environ(), spec.Env...)
	command.Stdout = log
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: spec.Namespaces,
		Setpgid:    true, // Ctrl-C at a terminal reaches the harness only, which then stops in order
	}
	onForkThread(func() { err = command.Start() })
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	child := &Child{Name: spec.Name, Log: spec.Log, command: command, done: make(chan struct{})}
	go func() {
		child.err = command.Wait()
		close(child.done)
	}()
	return child, nil
}

// PID is the child's process id.
func (c *Child) PID() int { return c.command.Process.Pid }

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Running says whether the child is still there.
func (c *Child) Running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Stop asks the child to end, and kills it after grace. A nil or ended child is a no-op.
func (c *Child) Stop(grace time.Duration) {
	if c == nil || !c.Running() {
		return
	}
	_ = c.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(grace):
		c.Kill()
	}
}

// Kill ends the child at once (SIGKILL) and waits for it. A nil or ended child is a no-op.
func (c *Child) Kill() {
	if c == nil || !c.Running() {
		return
	}
	_ = c.command.Process.Kill()
	<-c.done
}

// Failure describes a child that ended by itself: how, and the last lines that it wrote.
func (c *Child) Failure() error {
	return fmt.Errorf("%s ended (%v); the end of %s:\n%s", c.Name, c.err, c.Log, Tail(c.Log, 15))
}

// Tail returns the last lines of a file, each cut to a readable length.
func Tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	for i, line := range all {
		if len(line) > 400 {
			line = line[:400] + "…"
		}
		all[i] = "  " + line
	}
	return strings.Join(all, "\n")
}
