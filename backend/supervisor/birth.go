package supervisor

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
)

// BirthFlag is the flag of the hidden command by which a parent configures its child.
const BirthFlag = "birth"

// birth is the configuration that a parent passes to its child at its start.
type birth struct {
	Confine bool    `json:"confine"`
	Own     bool    `json:"own"` // it has namespaces of its own
	Bounds  Bounds  `json:"bounds"`
	Devices Devices `json:"devices"`
	More    int     `json:"more"`  // sockets of further guests
	Peers   int     `json:"peers"` // sockets to what serves the guest's other devices, behind those

	// The child passes these to itself when it executes its program again.
	Shed    bool   `json:"shed"`
	Lacking string `json:"lacking"` // why it has no root of its own
}

// Devices lists the devices of the host that a child, or a worker of it, opens.
type Devices struct {
	Root sandbox.Root `json:"root"`
	// Groups are those that a child gets as root's, and KeepGroups says that it keeps those of
	// another user's.
	Groups     []uint32 `json:"groups"`
	KeepGroups bool     `json:"keep_groups"`
}

// flag encodes the flag.
func (b birth) flag() (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("what the backend is to be: %w", err)
	}
	return "--" + BirthFlag + "=" + string(text), nil
}

// stackBytes is the soft limit of a child's stacks, and so the size of those of its threads, which
// count as memory that it has. RestoreStacks puts defaultStack back for workers, whose libraries need
// more.
const (
	stackBytes   = 512 << 10
	defaultStack = 8 << 20
)

// RestoreStacks gives the programs that this one starts stacks of the usual size. A keeper calls it.
func RestoreStacks() error { return limitStacks(defaultStack) }

func limitStacks(n uint64) error {
	var r syscall.Rlimit
	err := syscall.Getrlimit(unix.RLIMIT_STACK, &r)
	if err == nil {
		r.Cur = min(n, r.Max)
		err = syscall.Setrlimit(unix.RLIMIT_STACK, &r)
	}
	if err != nil {
		return fmt.Errorf("limiting stacks: %w", err)
	}
	return nil
}

// shed drops the rights that the child does not need, and executes its program again. It returns
// only if that fails. It is to be called on the main thread.
func (b birth) shed(args []string) error {
	runtime.LockOSThread() // it is; for package sandbox
	if err := closeOthers(childFDs + b.More + b.Peers); err != nil {
		return err
	}
	if b.Own {
		if err := b.Devices.Root.Enter(); err != nil {
			b.Lacking = err.Error()
		}
	}
	uid, gid, err := sandbox.Assigned()
	if err != nil {
		return err
	}
	if err := limitStacks(stackBytes); err != nil {
		return err
	}
	b.Shed = true
	again, err := b.flag()
	if err != nil {
		return err
	}
	return sandbox.Shed(sandbox.Shedding{
		Args: append(args[:len(args):len(args)], again), UID: uid, GID: gid,
		KeepGroups: b.Devices.KeepGroups, Groups: b.Devices.Groups,
		Limits: sandbox.Limits{Memory: b.Bounds.Start, Processes: b.Bounds.Processes},
	})
}

// closeOthers has descriptors from a number on closed at exec that the parent did not mean to give: what it inherited
// from its own parent and does not know of.
func closeOthers(from int) error {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("looking for descriptors: %w", err)
	}
	for _, entry := range dir {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= from {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// parseBirth decodes the flag's value.
func parseBirth(text string) (b birth, err error) {
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return b, fmt.Errorf("--%s: %w (this command is pvdrm's own; see pvdrm backend)", BirthFlag, err)
	}
	return b, nil
}

// limitMemory bounds the memory of a child from now on.
func limitMemory(n uint64) error {
	if n == 0 {
		return nil
	}
	var r syscall.Rlimit
	err := syscall.Getrlimit(unix.RLIMIT_DATA, &r)
	if err == nil {
		r.Max = min(r.Max, n)
		r.Cur = r.Max
		err = syscall.Setrlimit(unix.RLIMIT_DATA, &r)
	}
	if err != nil {
		return fmt.Errorf("limiting memory: %w", os.NewSyscallError("setrlimit", err))
	}
	return nil
}
