package sandbox

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// impose lowers the limits of this process, for good. Processes are counted by user,
// so they are bounded only if the process has one of its own.
func (l Limits) impose(own bool) error {
	if !own {
		l.Processes = 0
	}
	if l.Files == 0 {
		l.Files = maxFiles
	}
	for _, bound := range []struct {
		resource int
		most     uint64
		set      bool
		what     string
	}{
		{resource: unix.RLIMIT_CORE, most: 0, set: true, what: "core dumps"},
		{resource: unix.RLIMIT_NOFILE, most: l.Files, set: true, what: "descriptors"},
		{resource: unix.RLIMIT_DATA, most: l.Memory, set: l.Memory != 0, what: "memory"},
		{resource: unix.RLIMIT_NPROC, most: l.Processes, set: l.Processes != 0, what: "processes"},
	} {
		if !bound.set {
			continue
		}
		if err := limit(bound.resource, bound.most); err != nil {
			return fmt.Errorf("limiting %s: %w", bound.what, err)
		}
	}
	return nil
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
