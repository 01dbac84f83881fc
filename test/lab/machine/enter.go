package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Enter mounts the machine rendered in dir over the real one, then becomes program. It must run in a
// mount namespace of its own. kubeletDir becomes /var/lib/kubelet. It returns only with an error.
func Enter(dir, kubeletDir, program string, args []string) error {
	// Opened first: the program may lie below a folder that is about to be hidden.
	fd, err := unix.Open(program, unix.O_PATH, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", program, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	cgroups, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, target := range cgroups {
		if err := remountReadOnly(target); err != nil {
			return fmt.Errorf("making %s read-only: %w", target, err)
		}
	}
	binds := []struct {
		source, target string
		optional       bool // there is nothing to hide when the machine has no such file
	}{
		{"system", "/sys/devices/system", false},
		{"hugepages", "/sys/kernel/mm/hugepages", true},
		{"meminfo", "/proc/meminfo", false},
		{"cpuinfo", "/proc/cpuinfo", false},
		{"machine-id", "/etc/machine-id", true},
	}
	for _, bind := range binds {
		if _, err := os.Stat(bind.target); err != nil && bind.optional {
			continue
		}
		if err := bindReadOnly(filepath.Join(dir, bind.source), bind.target); err != nil {
			return err
		}
	}
	for name := range kernelSettings {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); err != nil {
			continue
		}
		if err := bindReadOnly(filepath.Join(dir, "sysctl", name), target); err != nil {
			return err
		}
	}
	if err := mountKubeletDir(dir, kubeletDir); err != nil {
		return err
	}
	argv := append([]string{program}, args...)
	if err := keepDeathSignal(); err != nil {
		return err
	}
	err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), argv, os.Environ())
	return fmt.Errorf("running %s: %w", program, err)
}

// keepDeathSignal lets the program that this process becomes die with the harness. The kernel keeps the
// death signal per thread, and the one that calls exec need not be the one that was forked with it.
func keepDeathSignal() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("setting the death signal: %w", err)
	}
	return nil
}

// mountKubeletDir puts kubeletDir at /var/lib/kubelet, whose path is fixed in the device plugin API.
// Where the machine has no such folder none is made: /var/lib is replaced in this namespace instead.
func mountKubeletDir(dir, kubeletDir string) error {
	const target = "/var/lib/kubelet"
	if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
		standIn := filepath.Join(dir, "var-lib")
		if err := os.MkdirAll(filepath.Join(standIn, "kubelet"), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(standIn, "/var/lib", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting over /var/lib: %w", err)
		}
	}
	if err := unix.Mount(kubeletDir, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting over %s: %w", target, err)
	}
	return nil
}

func bindReadOnly(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting over %s: %w", target, err)
	}
	return remountReadOnly(target)
}

// remountReadOnly keeps the other flags of the mount: in a user namespace they are locked, and a
// remount without them is refused.
func remountReadOnly(target string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return err
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY)
	for _, pair := range []struct{ st, ms uintptr }{
		{unix.ST_NOSUID, unix.MS_NOSUID},
		{unix.ST_NODEV, unix.MS_NODEV},
		{unix.ST_NOEXEC, unix.MS_NOEXEC},
		{unix.ST_NOATIME, unix.MS_NOATIME},
		{unix.ST_NODIRATIME, unix.MS_NODIRATIME},
		{unix.ST_RELATIME, unix.MS_RELATIME},
	} {
		if uintptr(stat.Flags)&pair.st != 0 {
			flags |= pair.ms
		}
	}
	return unix.Mount("", target, "", flags, "")
}

func cgroupMounts() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var targets []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		before, after, found := strings.Cut(scanner.Text(), " - ")
		fields := strings.Fields(before)
		if found && len(fields) > 4 && strings.HasPrefix(after, "cgroup") {
			targets = append(targets, fields[4])
		}
	}
	return targets, scanner.Err()
}

// HasCgroupV1 says whether the machine still uses cgroup v1, which a kubelet must be told to accept.
func HasCgroupV1() bool {
	var stat unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &stat); err != nil {
		return false
	}
	return stat.Type != unix.CGROUP2_SUPER_MAGIC
}
