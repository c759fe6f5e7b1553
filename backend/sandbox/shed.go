package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFiles bounds the descriptors of a process that has no other bound.
const maxFiles = 1 << 16

// Shedding is what a process gives up.
type Shedding struct {
	Args []string // of the program, which is started again

	// UID and GID are the user and group that it becomes, as Assigned returns them; 0
	// to stay who it is.
	UID, GID uint32
	// KeepGroups keeps the supplementary groups that it has; otherwise it gets Groups,
	// such as DeviceGroups returns. Both matter only if it changes its user.
	KeepGroups bool
	Groups     []uint32

	Limits Limits
}

// Limits bound what one process may have; 0 leaves a bound as it is.
type Limits struct {
	Memory    uint64 // bytes of private memory that is writable (RLIMIT_DATA)
	Files     uint64 // open descriptors (RLIMIT_NOFILE)
	Processes uint64 // processes and threads of its user (RLIMIT_NPROC); only with a user of its own
}

// Shed gives up what this process will not need, and starts its program again with
// s.Args in its place: privileges belong to threads, and of a process with many
// only those of the one that calls exec stay. It returns only if it fails. The
// caller must be locked to its thread.
//
// The process becomes another user and group, if s names them. All capabilities go, the
// right to gain any, core dumps, and what exceeds s.Limits.
func Shed(s Shedding) error {
	g, err := begin()
	if err != nil {
		return err
	}
	// Before the user changes: the new one may not reach the program's path.
	path := Program()
	program, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening this program: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	if err := s.Limits.impose(s.UID != 0); err != nil {
		return err
	}
	if err := dropBounding(); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if s.UID != 0 {
		if err := s.change(g); err != nil {
			return err
		}
	}
	if err := DropCapabilities(); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("renouncing privileges: %w", err)
	}
	if unix.Access(path, unix.X_OK) != nil {
		path = fmt.Sprintf("/proc/self/fd/%d", program)
	}
	err = syscall.Exec(path, s.Args, os.Environ())
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("starting %s again as user %d: %w; let everybody read and execute it (chmod a+rx)", s.Args[0], s.UID, err)
	}
	return fmt.Errorf("starting %s again: %w", s.Args[0], err)
}

// change makes the calling thread that of another user and group.
func (s *Shedding) change(g given) error {
	signal, err := parentDeathSignal()
	if err != nil {
		return fmt.Errorf("asking how this process ends with its parent: %w", err)
	}
	if !s.KeepGroups {
		groups := make([]int, len(s.Groups))
		for i, gid := range s.Groups {
			groups[i] = int(gid)
		}
		err := unix.Setgroups(groups)
		if err == unix.EINVAL && len(groups) != 0 {
			err = unix.Setgroups(nil) // a user namespace may not know a device's group
		}
		if err != nil {
			return fmt.Errorf("leaving all groups: %w", os.NewSyscallError("setgroups", err))
		}
	}
	// Those of package syscall change all threads; exec ends the others.
	uid, gid := uintptr(s.UID), uintptr(s.GID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("becoming group %d: %w", s.GID, os.NewSyscallError("setresgid", errno))
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("becoming user %d: %w", s.UID, os.NewSyscallError("setresuid", errno))
	}
	// The kernel forgets the signal when the user changes. It sends none for a parent
	// that ended before this.
	if signal != 0 {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(signal), 0, 0, 0); err != nil {
			return fmt.Errorf("ending with the parent: %w", err)
		}
		return g.check()
	}
	return nil
}

// DeviceGroups returns the groups that may open devices which other users may not. It
// takes paths and patterns of package filepath.
func DeviceGroups(devices ...string) (groups []uint32, err error) {
	const group, others = 0o060, 0o006 // read and write
	for _, pattern := range devices {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pattern, err)
		}
		for _, path := range paths {
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil {
				return nil, &os.PathError{Op: "stat", Path: path, Err: err}
			}
			// That of root would open more than devices.
			if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Mode&others != others && st.Mode&group == group && st.Gid != 0 && !slices.Contains(groups, st.Gid) {
				groups = append(groups, st.Gid)
			}
		}
	}
	return groups, nil
}

// Program returns a path by which this process can start its own program. It is the
// file's own where this user can execute it and it has not been replaced meanwhile,
// and one in /proc otherwise. In a root of its own (Root) the two differ: /proc names
// the file in another mount.
func Program() string {
	const running = "/proc/self/exe"
	self, err := os.Executable()
	if err != nil || unix.Access(self, unix.X_OK) != nil {
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

// dropBounding lets no program that the calling thread starts have capabilities of its
// file. Who has no CAP_SETPCAP has none to lose that no_new_privs does not bar.
func dropBounding() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	if caps[0].Effective&(1<<unix.CAP_SETPCAP) == 0 {
		return nil
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL { // EINVAL: a kernel without it
			return err
		}
	}
	return nil
}

// DropCapabilities leaves the calling thread none, nor what it starts from then on.
// The caller must be locked to its thread.
func DropCapabilities() error {
	if err := dropBounding(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	return unix.Capset(&header, &caps[0])
}
