// Package namespace puts the lab into namespaces of its own: a network in which it may use any
// address and port, and mounts that nobody else sees. As a plain user a user namespace makes that
// possible.
package namespace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	insideVariable = "NUMAFIT_LAB_INSIDE"
	insideRoot     = "root"
	insideUser     = "user"
)

// Inside says whether this process runs in the lab's namespaces.
func Inside() bool { return os.Getenv(insideVariable) != "" }

// IsUser says whether the lab belongs to a plain user, and so lives in a user namespace.
func IsUser() bool { return os.Getenv(insideVariable) == insideUser }

// Enter runs this program again in namespaces of its own and exits with its exit code. Inside, it
// brings the loopback interface up and returns.
func Enter() error {
	if Inside() {
		return loopbackUp()
	}
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Args[0] = os.Args[0]
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	attributes := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	kind := insideRoot
	if os.Geteuid() != 0 {
		kind = insideUser
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	command.SysProcAttr = attributes
	command.Env = append(os.Environ(), insideVariable+"="+kind)

	// The parent's death signal is tied to this thread; it stays until the child has ended.
	runtime.LockOSThread()
	if err := command.Start(); err != nil {
		return fmt.Errorf("making the lab's namespaces: %w%s", err, hint(err))
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	go func() {
		for received := range signals {
			if received == syscall.SIGINT && isTerminal(os.Stdin) {
				continue // the terminal sent it to the child as well
			}
			_ = command.Process.Signal(received)
		}
	}()
	err := command.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if exit.ExitCode() >= 0 {
			os.Exit(exit.ExitCode())
		}
		return fmt.Errorf("the lab was ended: %w", err)
	}
	if err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

func hint(err error) string {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		return "\nThis machine does not allow it. As root the lab needs CAP_SYS_ADMIN; as a plain user it" +
			" needs unprivileged user namespaces (sysctl user.max_user_namespaces," +
			" kernel.apparmor_restrict_unprivileged_userns)."
	}
	return ""
}

func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

func loopbackUp() error {
	return withInterface("lo", func(socket int, request *unix.Ifreq) error {
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
		return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
	})
}

// AddAddress gives the loopback interface one more IPv4 address. A kubelet refuses 127.0.0.0/8 as its
// node's address, so every node gets one of 10.99.0.0/24. An address that is there is a no-op.
func AddAddress(address string) error {
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return fmt.Errorf("%q is not an IPv4 address", address)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, known := range addresses {
		if strings.HasPrefix(known.String(), address+"/") {
			return nil
		}
	}
	// An alias (lo:1) holds one further address; its label carries the last two bytes.
	label := fmt.Sprintf("lo:%d-%d", ip[2], ip[3])
	err = withInterface(label, func(socket int, request *unix.Ifreq) error {
		if err := request.SetInet4Addr(ip); err != nil {
			return err
		}
		return unix.IoctlIfreq(socket, unix.SIOCSIFADDR, request)
	})
	if err != nil {
		return err
	}
	return withInterface(label, func(socket int, request *unix.Ifreq) error {
		if err := request.SetInet4Addr(net.IPv4(255, 255, 255, 255).To4()); err != nil {
			return err
		}
		return unix.IoctlIfreq(socket, unix.SIOCSIFNETMASK, request)
	})
}

func withInterface(name string, do func(socket int, request *unix.Ifreq) error) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := do(socket, request); err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return nil
}
