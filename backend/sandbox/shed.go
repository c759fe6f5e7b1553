package sandbox

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFiles bounds the descriptors of a backend: each granted memory of a local
// guest has one, and no guest is served better with more.
const maxFiles = 1 << 16

// Shed gives up what this process will not need, and runs its program anew with
// args in its place: privileges belong to threads, and of a process with many
// only those of the one that calls exec stay. It returns only if it fails. The
// caller must be locked to its thread.
//
// All capabilities go, the right to gain any, core dumps, and descriptors beyond
// maxFiles.
func Shed(args []string) error {
	if err := limit(unix.RLIMIT_CORE, 0); err != nil {
		return fmt.Errorf("forbidding core dumps: %w", err)
	}
	if err := limit(unix.RLIMIT_NOFILE, maxFiles); err != nil {
		return fmt.Errorf("limiting descriptors: %w", err)
	}
	if err := DropCapabilities(); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("renouncing privileges: %w", err)
	}
	err := syscall.Exec(program(), args, os.Environ())
	return fmt.Errorf("running %s anew: %w", args[0], err)
}

// program is the path of the program that runs. In a root of its own (Root) it is not
// that which /proc tells, of another mount.
func program() string {
	const running = "/proc/self/exe"
	self, err := os.Executable()
	if err != nil {
		return running
	}
	path, err := os.Stat(self)
	if err != nil {
		return running
	}
	if exe, err := os.Stat(running); err != nil || !os.SameFile(path, exe) {
		return running // replaced meanwhile
	}
	return self
}

// limit lowers a limit of resources, for good. By way of package syscall, which else
// puts that of descriptors back at exec.
func limit(resource int, most uint64) error {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(resource, &r); err != nil {
		return err
	}
	r.Max = min(r.Max, most)
	r.Cur = r.Max
	return syscall.Setrlimit(resource, &r)
}

// DropCapabilities leaves the calling thread none, nor what it starts from then on.
// The caller must be locked to its thread.
func DropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	// The bounding set takes a capability to be lowered. Who has none gains none by it
	// either: Shed sees to that.
	if caps[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL { // EINVAL: a kernel without it
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	caps = [2]unix.CapUserData{}
	return unix.Capset(&header, &caps[0])
}
