// Package cgroup bounds the memory, processor and processes that a group of
// processes may use, by control groups of version 2.
//
// A process may only divide a control group that was delegated to it: systemd does
// that for units with Delegate=yes, and a container or a host without systemd leaves
// it to root. No process may be in a group that is divided, so the first New moves
// this process to a group "supervisor" below its own, where the processes that it
// starts later are, too. It moves no other: if there are others it returns an error
// that tells how to start pvdrm in a group of its own.
//
// There are no goroutines and no locks. Processes that share a delegated group may
// call New concurrently.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound the processes of a group together; 0 sets no bound.
type Limits struct {
	MemoryBytes uint64 // memory, its files in memory included; none of it is swapped
	PIDs        uint64 // processes and threads
	CPUWeight   uint   // share of the processor relative to other groups, 1 to 10000; the default is 100
}

// Group is a control group. Its methods must not be called concurrently.
type Group struct {
	path string
	dir  *os.File
}

// supervisor is the group for the process that divides its own, and prefix begins the
// names of those that it makes.
const (
	supervisor = "supervisor"
	prefix     = "pvdrm-"
)

// New makes a group for a guest below that of this process. The error tells what this
// host or user lacks.
func New(name string, l Limits) (*Group, error) {
	t, err := find()
	if err == nil {
		var g *Group
		if g, err = t.group(name, l); err == nil {
			return g, nil
		}
	}
	return nil, fmt.Errorf("a control group: %w", err)
}

// AddTo has a command start in the group.
func (g *Group) AddTo(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.dir.Fd())
}

// closing bounds how long Close waits for processes to end that were killed.
const closing = 5 * time.Second

// Close kills what is left in the group and removes it.
func (g *Group) Close() error {
	defer func() { _ = g.dir.Close() }() // it was only passed on
	kill := filepath.Join(g.path, "cgroup.kill")
	if err := write(kill, "1"); err != nil && !errors.Is(err, fs.ErrNotExist) { // Linux 5.14
		return fmt.Errorf("ending the processes of a control group: %w", err)
	}
	events, err := os.Open(filepath.Join(g.path, "cgroup.events"))
	if err != nil {
		return fmt.Errorf("removing a control group: %w", err)
	}
	defer func() { _ = events.Close() }() // only read
	deadline := time.Now().Add(closing)
	for {
		// Reading arms the notification, so it comes before the attempt.
		_, err := events.ReadAt(make([]byte, 256), 0)
		if rm := unix.Rmdir(g.path); rm == nil {
			return nil
		} else if rm != unix.EBUSY {
			return &fs.PathError{Op: "rmdir", Path: g.path, Err: errors.Join(rm, err)}
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("control group %s still has processes", g.path)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, int(left.Milliseconds())+1) // the next attempt tells
	}
}

// tree is where a process is in the control groups of its host.
type tree struct {
	mount   string // where the file system is mounted
	own     string // group of this process, from the mount on
	pid     int
	root    bool // this process is root
	systemd bool // runs this host, and divides the groups that it has not delegated
	mkdir   func(path string, mode os.FileMode) error
}

// find looks for the groups of this host.
func find() (*tree, error) {
	t := &tree{pid: os.Getpid(), root: os.Geteuid() == 0, mkdir: os.Mkdir}
	for _, path := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var s unix.Statfs_t
		if err := unix.Statfs(path, &s); err == nil && s.Type == unix.CGROUP2_SUPER_MAGIC {
			t.mount = path
			break
		}
	}
	if t.mount == "" {
		return nil, errors.New("this host has no control groups of version 2 at /sys/fs/cgroup; boot it with systemd.unified_cgroup_hierarchy=1")
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	if t.own, err = own(string(groups)); err != nil {
		return nil, err
	}
	_, err = os.Stat("/run/systemd/system") // sd_booted(3)
	t.systemd = err == nil
	return t, nil
}

// own returns the group that a file such as /proc/self/cgroup names.
func own(groups string) (string, error) {
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::/"); ok {
			if slices.Contains(strings.Split(path, "/"), "..") {
				return "", fmt.Errorf("the group %s of this process is outside of its namespace", path)
			}
			return "/" + path, nil
		}
	}
	return "", errors.New("this process is in no control group of version 2")
}

// group makes a group below that of this process.
func (t *tree) group(name string, l Limits) (*Group, error) {
	base := filepath.Join(t.mount, t.own)
	if filepath.Base(t.own) == supervisor {
		base = filepath.Dir(base) // New was called before
	}
	if err := t.delegated(base); err != nil {
		return nil, err
	}
	if err := t.divide(base, l.controllers()); err != nil {
		return nil, err
	}
	t.sweep(base)
	path, err := t.makeGroup(base, name)
	if err != nil {
		return nil, err
	}
	g := &Group{path: path}
	if err = l.set(path); err == nil {
		g.dir, err = os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Rmdir(path))
	}
	return g, nil
}

// divisible tells users how to get a group that this package can divide.
const divisible = "start pvdrm by `systemd-run --user --scope -p Delegate=yes pvdrm …`, as root without --user, or in a service with Delegate=yes"

// delegated explains why this process may not divide a group.
func (t *tree) delegated(base string) error {
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		path := filepath.Join(base, name)
		if err := unix.Access(path, unix.W_OK); err != nil {
			return fmt.Errorf("this user may not divide the group: %w; %s", &fs.PathError{Op: "access", Path: path, Err: err}, divisible)
		}
	}
	// Root may write everywhere. What systemd has not marked it rearranges at will. The
	// first group of a namespace is its container's.
	if !t.root || !t.systemd || base == filepath.Clean(t.mount) {
		return nil
	}
	for _, attr := range []string{"trusted.delegate", "user.delegate"} {
		var b [1]byte
		if n, err := unix.Getxattr(base, attr, b[:]); err == nil && n == 1 && b[0] == '1' {
			return nil
		}
	}
	return fmt.Errorf("systemd has not delegated %s; %s", base, divisible)
}

// controllers are those that l needs.
func (l Limits) controllers() (names []string) {
	for _, c := range []struct {
		name string
		used bool
	}{{"memory", l.MemoryBytes != 0}, {"pids", l.PIDs != 0}, {"cpu", l.CPUWeight != 0}} {
		if c.used {
			names = append(names, c.name)
		}
	}
	return names
}

// divide lets groups below base have controllers.
func (t *tree) divide(base string, controllers []string) error {
	available, err := words(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return err
	}
	var lacking, turnOn []string
	for _, c := range controllers {
		if !slices.Contains(available, c) {
			lacking = append(lacking, c)
		}
		turnOn = append(turnOn, "+"+c)
	}
	if lacking != nil {
		return fmt.Errorf("%s has no controllers %s (only %q); they may be in use by version 1, or not be delegated", base, strings.Join(lacking, ", "), available)
	}
	// The host's first group may have processes beside its divisions; it alone has no
	// type.
	if _, err := os.Stat(filepath.Join(base, "cgroup.type")); err == nil {
		if err := t.vacate(base); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(base, "cgroup.subtree_control"), strings.Join(turnOn, " ")); err != nil {
		return fmt.Errorf("dividing the group: %w", err)
	}
	return nil
}

// vacate moves this process from base to a group below it.
func (t *tree) vacate(base string) error {
	procs, err := words(filepath.Join(base, "cgroup.procs"))
	if err != nil {
		return err
	}
	if len(procs) == 0 {
		return nil
	}
	if !slices.Equal(procs, []string{strconv.Itoa(t.pid)}) {
		return fmt.Errorf("%d other processes are in %s; %s", len(procs)-1, base, divisible)
	}
	leaf := filepath.Join(base, supervisor)
	if err := t.mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(t.pid)); err != nil {
		return fmt.Errorf("moving this process to a group of its own: %w", err)
	}
	return nil
}

// sweep removes the groups of processes that ended without Close.
func (t *tree) sweep(base string) {
	old, _ := filepath.Glob(filepath.Join(base, prefix+"*")) // the pattern is right
	for _, path := range old {
		parts := strings.Split(path, "-")
		if len(parts) < 3 {
			continue
		}
		pid, err := strconv.Atoi(parts[len(parts)-2])
		if err == nil && pid != t.pid && unix.Kill(pid, 0) == unix.ESRCH {
			_ = unix.Rmdir(path) // where processes are left it stays
		}
	}
}

// maxName bounds the part of a group's name that is its guest's.
const maxName = 64

// makeGroup makes a group named for a guest and this process.
func (t *tree) makeGroup(base, name string) (string, error) {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
	plain = plain[:min(len(plain), maxName)]
	for n := 0; ; n++ {
		path := filepath.Join(base, fmt.Sprintf("%s%s-%d-%d", prefix, plain, t.pid, n))
		err := t.mkdir(path, 0o755)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

// set writes the limits of the group at path.
func (l Limits) set(path string) error {
	for _, f := range []struct {
		name  string
		value uint64
		limit uint64 // it is set where this is not 0
		may   bool   // be absent
	}{
		{name: "memory.max", value: l.MemoryBytes, limit: l.MemoryBytes},
		{name: "memory.swap.max", value: 0, limit: l.MemoryBytes, may: true}, // hosts without swap
		{name: "memory.oom.group", value: 1, limit: l.MemoryBytes, may: true},
		{name: "pids.max", value: l.PIDs, limit: l.PIDs},
		{name: "cpu.weight", value: uint64(l.CPUWeight), limit: uint64(l.CPUWeight)},
	} {
		if f.limit == 0 {
			continue
		}
		if err := write(filepath.Join(path, f.name), strconv.FormatUint(f.value, 10)); err != nil && !(f.may && errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("limiting the group: %w", err)
		}
	}
	return nil
}

// words reads a control file.
func words(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return strings.Fields(string(b)), err
}

// write writes a control file, which takes a value in one write.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
