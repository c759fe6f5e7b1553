// Package escape attacks a host from inside a confined process: what an attacker
// tries who has taken over a backend, a renderer, a CUDA worker or a keeper of
// these. Attempts consist of system calls only, so the same ones run in two ways:
// in a program that goes through a backend's confinement and then does its worst
// (Self), and injected into processes that serve a guest (package inject).
//
// An attempt reports each thing that it got and must not have. The tests of this
// package see to it that there is none, that the table of system calls in
// docs/security.md is what the kernel enforces, and that other guests notice
// nothing.
package escape

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
)

// Hands are what an attacker has in a process: its system calls and its memory.
type Hands interface {
	// Call makes a system call there. An error means that it could not be made.
	Call(nr uintptr, args ...uintptr) (result uintptr, errno unix.Errno, err error)
	// Put copies bytes to memory there.
	Put(b []byte) (addr uintptr, err error)
	// Get copies bytes from memory there.
	Get(addr uintptr, size int) ([]byte, error)
}

// Host is what the attacker knows of the host. A real one would guess.
type Host struct {
	Sockets     []string // addresses of Unix sockets; abstract ones begin with @
	Processes   []int    // process ids of others
	Files       []string // that hold secrets
	Memory      uint64   // most bytes that the process may map, beyond what it has mapped
	Descriptors uint64   // most descriptors that the process may have
}

// Attempt is one kind of escape.
type Attempt struct {
	Name  string
	Roles []sandbox.Role // in which it must fail
	Long  bool           // it makes many calls
	run   func(*attacker)
}

// Attempts lists them.
func Attempts() []Attempt {
	most, backend := []sandbox.Role{sandbox.Backend, sandbox.Keeper, sandbox.Renderer, sandbox.NVIDIARenderer}, []sandbox.Role{sandbox.Backend}
	all := append([]sandbox.Role{sandbox.CUDAKeeper}, most...)
	confined := []sandbox.Role{sandbox.Backend, sandbox.Renderer, sandbox.NVIDIARenderer}
	return []Attempt{
		{Name: "connect to sockets", Roles: all, run: connectToSockets},
		{Name: "send to sockets", Roles: all, run: sendToSockets},
		{Name: "listen on sockets", Roles: most, run: listenOnSockets},
		{Name: "open files", Roles: confined, run: openFiles},
		{Name: "open files to write", Roles: all, run: openFilesToWrite},
		{Name: "change files by name", Roles: all, run: changeFilesByName},
		{Name: "grow files by descriptor", Roles: confined, run: growDescriptors},
		{Name: "fill the memory", Roles: confined, run: fillMemory},
		{Name: "share memory", Roles: backend, run: shareMemory},
		{Name: "fill the table of descriptors", Roles: confined, Long: true, run: fillDescriptors},
		{Name: "start processes", Roles: confined, run: startProcesses},
		{Name: "touch other processes", Roles: all, run: touchProcesses},
		{Name: "become somebody else", Roles: all, run: changeIdentity},
		{Name: "leave the namespaces", Roles: all, run: leaveNamespaces},
	}
}

// Run runs the attempt and returns what it got, or nil.
func (a Attempt) Run(h Hands, host Host, role sandbox.Role) error {
	at := &attacker{hands: h, host: host, role: role}
	a.run(at)
	return at.result(a.Name)
}

// attacker is an attempt that runs. When a call could not be made, it makes no more.
type attacker struct {
	hands Hands
	host  Host
	role  sandbox.Role
	got   []error
	err   error
}

// result is what was got, or what kept it from being tried.
func (a *attacker) result(what string) error {
	if err := errors.Join(a.err, errors.Join(a.got...)); err != nil {
		return fmt.Errorf("%s in a %v: %w", what, a.role, err)
	}
	return nil
}

// escaped notes what was got.
func (a *attacker) escaped(format string, args ...any) {
	const enough = 20
	if len(a.got) < enough {
		a.got = append(a.got, fmt.Errorf(format, args...))
	}
}

// call makes a system call.
func (a *attacker) call(nr uintptr, args ...uintptr) (uintptr, unix.Errno) {
	if a.err != nil {
		return 0, unix.EPERM
	}
	result, errno, err := a.hands.Call(nr, args...)
	if err != nil {
		a.err = fmt.Errorf("system call %d: %w", nr, err)
		return 0, unix.EPERM
	}
	return result, errno
}

// refused makes a call that the filter must refuse, whatever its arguments are.
func (a *attacker) refused(what string, nr uintptr, args ...uintptr) {
	_, errno := a.call(nr, args...)
	switch errno {
	case unix.EPERM, unix.ENOSYS:
	case 0:
		a.escaped("%s went through", what)
	default:
		a.escaped("%s reached the kernel: %v", what, errno)
	}
}

// put puts bytes for the kernel.
func (a *attacker) put(b []byte) (addr uintptr) {
	if a.err == nil {
		addr, a.err = a.hands.Put(b)
	}
	return addr
}

// text puts a text for the kernel, which ends with a zero.
func (a *attacker) text(s string) uintptr { return a.put(append([]byte(s), 0)) }

// get copies bytes that the kernel wrote.
func (a *attacker) get(addr uintptr, size int) []byte {
	if a.err == nil {
		var b []byte
		if b, a.err = a.hands.Get(addr, size); a.err == nil {
			return b
		}
	}
	return make([]byte, size)
}

// What is no descriptor, address or process id, and the directory that paths begin at.
const (
	none = ^uintptr(0)
	here = none - 99 // AT_FDCWD
)

// address is a Unix socket's address as the kernel takes it.
func address(path string) []byte {
	raw := []byte{unix.AF_UNIX, 0}
	if name, ok := strings.CutPrefix(path, "@"); ok {
		return append(append(raw, 0), name...)
	}
	return append(append(raw, path...), 0)
}

// mostDescriptors is how many numbers of descriptors are tried.
const mostDescriptors = 128
