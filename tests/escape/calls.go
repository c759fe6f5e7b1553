package escape

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
	"pvdrm/internal/codemem"
)

// x32 marks the numbers of calls of the x32 ABI, which reach the same code as those
// without it.
const x32 = 0x40000000

// lastNumber is above the numbers that Linux has.
const lastNumber = 1024

// ends are calls that do not return, or return twice: they are not tried where they
// are allowed.
var ends = []uintptr{unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGRETURN, unix.SYS_FORK, unix.SYS_VFORK}

// CheckTable makes every system call by its number, with harmless arguments, and
// reports where the filter decides otherwise than sandbox.Table says.
func CheckTable(h Hands, role sandbox.Role) error {
	a := &attacker{hands: h, role: role}
	self, _ := a.call(unix.SYS_GETPID)
	known := map[uintptr]bool{}
	for _, c := range sandbox.Table() {
		known[c.Number] = true
		if !c.Unfiltered {
			a.check(c, self)
		}
	}
	for nr := range uintptr(lastNumber) {
		if !known[nr] {
			a.refusedByFilter(fmt.Sprint("system call ", nr), nr)
		}
		a.refusedByFilter(fmt.Sprintf("system call %d of x32", nr), nr|x32)
	}
	return a.result("system calls")
}

// check tries a call of the table.
func (a *attacker) check(c sandbox.Call, self uintptr) {
	access := c.Access[a.role]
	switch {
	case !access.Allowed:
		a.refusedByFilter(c.Name+"()", c.Number)
	case access.Only != "":
		a.try(c, conditions(self)[c.Number])
	case !slices.Contains(ends, c.Number):
		a.passesFilter(c.Name, c.Number, worst)
	}
}

// try tries a call that is allowed under a condition.
func (a *attacker) try(c sandbox.Call, trials []trial) {
	fails := false
	for _, t := range trials {
		switch {
		case t.roles != nil && !slices.Contains(t.roles, a.role):
		case t.passes:
			a.passesFilter(c.Name, c.Number, t.args)
		default:
			fails = true
			a.refusedWith(cmp.Or(t.errno, unix.EPERM), fmt.Sprintf("%s(%s)", c.Name, t.what), c.Number, t.args)
		}
	}
	if !fails {
		a.escaped("%s() is allowed under a condition, %s, and no trial breaks it", c.Name, c.Access[a.role].Only)
	}
}

// worst are arguments that are wrong for every call.
var worst = []uintptr{none, none, none, none, none, none}

// refusedByFilter makes a call that the filter does not let through.
func (a *attacker) refusedByFilter(what string, nr uintptr) {
	want := unix.EPERM
	if nr == unix.SYS_CLONE3 {
		want = unix.ENOSYS // so that libraries use clone
	}
	a.refusedWith(want, what, nr, worst)
}

func (a *attacker) refusedWith(want unix.Errno, what string, nr uintptr, args []uintptr) {
	if result, errno := a.call(nr, args...); a.err == nil && errno != want {
		a.escaped("%s is to be refused, and returned %d, errno %d (%v)", what, result, int(errno), errno)
	}
}

// passesFilter makes a call that the filter lets through, whatever becomes of it.
func (a *attacker) passesFilter(name string, nr uintptr, args []uintptr) {
	if _, errno := a.call(nr, args...); a.err == nil && errno == unix.EPERM {
		a.escaped("%s() is to be allowed, and was refused", name)
	}
}

// trial is a call that the table allows under a condition.
type trial struct {
	what   string // for messages, if it is to be refused
	args   []uintptr
	passes bool
	errno  unix.Errno     // of the refusal; 0 for EPERM
	roles  []sandbox.Role // nil for all that the condition is made for
}

// What x/sys has no names for: a request of consoles (ioctl_console(2)), and operations
// of futexes (Linux, include/uapi/linux/futex.h).
const (
	tioclinux          = 0x541c
	futexWake          = 1
	futexLockPI        = 6
	futexWaitRequeuePI = 11
)

const (
	readWrite = unix.PROT_READ | unix.PROT_WRITE
	anonymous = unix.MAP_PRIVATE | unix.MAP_ANON
)

var (
	onBackend = []sandbox.Role{sandbox.Backend}
	onServing = []sandbox.Role{sandbox.Backend, sandbox.Renderer, sandbox.NVIDIARenderer}
)

// conditions returns trials of the calls that the table allows under a condition. self is
// the process's own id. Those that pass do nothing: their other arguments are wrong.
func conditions(self uintptr) map[uintptr][]trial {
	all := map[uintptr][]trial{
		unix.SYS_TGKILL: {
			{args: []uintptr{self, none, 0}, passes: true},
			{what: "another process", args: []uintptr{self + 1, self + 1, 0}},
		},
	}
	maps.Copy(all, aboutMemory)
	maps.Copy(all, aboutDescriptors)
	maps.Copy(all, aboutProcesses)
	return all
}

var aboutMemory = map[uintptr][]trial{
	unix.SYS_MADVISE: {
		{args: []uintptr{none, none, unix.MADV_DONTNEED}, passes: true},
		{what: "MADV_MERGEABLE", args: []uintptr{none, none, unix.MADV_MERGEABLE}},
		{what: "MADV_REMOVE", args: []uintptr{none, none, unix.MADV_REMOVE}},
	},
	unix.SYS_MMAP: {
		{args: []uintptr{0, 0, readWrite, anonymous, none, 0}, passes: true},
		{args: []uintptr{0, 0, readWrite, unix.MAP_SHARED, none, 0}, passes: true},
		{what: "PROT_EXEC", args: []uintptr{0, 0, unix.PROT_READ | unix.PROT_EXEC, anonymous, none, 0}, roles: onBackend},
		{what: "PROT_EXEC of a file", args: []uintptr{0, 0, unix.PROT_EXEC, unix.MAP_SHARED, none, 0}, roles: onBackend},
		{what: "MAP_SHARED|MAP_ANON", args: []uintptr{0, 0, readWrite, unix.MAP_SHARED | unix.MAP_ANON, none, 0}, roles: onBackend},
		{what: "MAP_GROWSDOWN", args: []uintptr{0, 0, readWrite, anonymous | unix.MAP_GROWSDOWN, none, 0}},
		{what: "writable, in place of other", args: []uintptr{4096, 0, readWrite, anonymous | unix.MAP_FIXED, none, 0}, errno: unix.ENOMEM, roles: onBackend},
		{what: "a copy of a file", args: []uintptr{0, 0, readWrite, unix.MAP_PRIVATE, none, 0}, roles: onBackend},
		{what: "in place of code", args: []uintptr{codemem.Start, 0, readWrite, unix.MAP_SHARED | unix.MAP_FIXED, none, 0}, roles: onBackend},
		{what: "up to code", args: []uintptr{4096, codemem.Start, readWrite, unix.MAP_SHARED | unix.MAP_FIXED, none, 0}, roles: onBackend},
	},
	unix.SYS_MUNMAP: {
		{args: []uintptr{none, 1}, passes: true},
		{what: "code", args: []uintptr{codemem.Start, 4096}},
		{what: "up to code", args: []uintptr{4096, codemem.Start}},
	},
	unix.SYS_MPROTECT: {
		{args: []uintptr{1, 0, readWrite}, passes: true},
		{args: []uintptr{codemem.Start + 1, 0, unix.PROT_READ | unix.PROT_EXEC}, passes: true},
		{what: "executable, not code", args: []uintptr{1, 0, unix.PROT_READ | unix.PROT_EXEC}},
		{what: "executable, behind code", args: []uintptr{codemem.Start + codemem.Bytes + 1, 0, unix.PROT_READ | unix.PROT_EXEC}},
		{what: "writable and executable", args: []uintptr{codemem.Start + 1, 0, readWrite | unix.PROT_EXEC}},
		{what: "PROT_EXEC", args: []uintptr{codemem.Start + 1, 0, unix.PROT_EXEC}},
	},
}

var aboutDescriptors = map[uintptr][]trial{
	unix.SYS_SETSOCKOPT: {
		{args: []uintptr{none, unix.SOL_SOCKET, unix.SO_RCVTIMEO, none, none}, passes: true},
		{args: []uintptr{none, unix.SOL_SOCKET, unix.SO_SNDTIMEO, none, none}, passes: true},
		{what: "SO_SNDBUFFORCE", args: []uintptr{none, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, none, none}},
		{what: "SO_ATTACH_FILTER", args: []uintptr{none, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, none, none}},
		{what: "SOL_TCP", args: []uintptr{none, unix.SOL_TCP, unix.SO_RCVTIMEO, none, none}},
	},
	unix.SYS_FCNTL: {
		{args: []uintptr{none, unix.F_GETFL}, passes: true},
		{args: []uintptr{none, unix.F_GET_SEALS}, passes: true},
		{what: "F_SETOWN", args: []uintptr{none, unix.F_SETOWN, 1}},
		{what: "F_SETSIG", args: []uintptr{none, unix.F_SETSIG, 9}},
		{what: "F_SETLEASE", args: []uintptr{none, unix.F_SETLEASE, 0}},
		{what: "F_SETPIPE_SZ", args: []uintptr{none, unix.F_SETPIPE_SZ, 1 << 20}},
		{what: "F_NOTIFY", args: []uintptr{none, unix.F_NOTIFY, 0}},
	},
	unix.SYS_NEWFSTATAT: {
		{args: []uintptr{none, none, none, unix.AT_EMPTY_PATH}, passes: true},
		{what: "a path", args: []uintptr{here, none, none, 0}},
	},
	unix.SYS_OPENAT: {
		{args: []uintptr{none, none, unix.O_RDWR}, passes: true},
		{what: "O_RDONLY", args: []uintptr{none, none, unix.O_RDONLY}},
		{what: "O_CREAT", args: []uintptr{none, none, unix.O_RDWR | unix.O_CREAT}},
		{what: "O_TMPFILE", args: []uintptr{none, none, unix.O_RDWR | unix.O_TMPFILE}},
	},
	unix.SYS_SOCKETPAIR: {
		{args: []uintptr{unix.AF_UNIX, unix.SOCK_STREAM, none, none}, passes: true},
		{what: "AF_INET", args: []uintptr{unix.AF_INET, unix.SOCK_STREAM, 0, none}},
		{what: "SOCK_DGRAM", args: []uintptr{unix.AF_UNIX, unix.SOCK_DGRAM, 0, none}},
	},
	unix.SYS_IOCTL: {
		{args: []uintptr{none, unix.TCGETS, 0}, passes: true, roles: []sandbox.Role{sandbox.Keeper}},
		{what: "TIOCSTI", args: []uintptr{none, unix.TIOCSTI, 0}},
		{what: "TIOCLINUX", args: []uintptr{none, tioclinux, 0}},
	},
}

var aboutProcesses = map[uintptr][]trial{
	unix.SYS_CLONE: {
		{args: []uintptr{unix.CLONE_THREAD, 0, 0, 0, 0}, passes: true},
		{what: "SIGCHLD", args: []uintptr{uintptr(unix.SIGCHLD), 0, 0, 0, 0}, roles: onServing},
		{what: "CLONE_VFORK", args: []uintptr{unix.CLONE_VM | unix.CLONE_VFORK, 0, 0, 0, 0}, roles: onServing},
		{what: "CLONE_THREAD|CLONE_NEWUSER", args: []uintptr{unix.CLONE_THREAD | unix.CLONE_NEWUSER, 0, 0, 0, 0}},
		{what: "CLONE_NEWNS", args: []uintptr{unix.CLONE_NEWNS, 0, 0, 0, 0}},
	},
	unix.SYS_PIDFD_SEND_SIGNAL: {
		{args: []uintptr{none, uintptr(unix.SIGKILL), 0, 0}, passes: true},
		{what: "SIGSTOP", args: []uintptr{none, uintptr(unix.SIGSTOP), 0, 0}},
	},
	unix.SYS_FUTEX: {
		{args: []uintptr{none, futexWake, 1}, passes: true},
		{what: "FUTEX_LOCK_PI", args: []uintptr{none, futexLockPI, 1}},
		{what: "FUTEX_WAIT_REQUEUE_PI", args: []uintptr{none, futexWaitRequeuePI, 1}},
	},
	unix.SYS_PRCTL: {
		{args: []uintptr{unix.PR_SET_TIMERSLACK, 0, 0, 0, 0}, passes: true},
		{what: "PR_SET_DUMPABLE", args: []uintptr{unix.PR_SET_DUMPABLE, 1, 0, 0, 0}, roles: onServing},
		{what: "PR_SET_SECCOMP", args: []uintptr{unix.PR_SET_SECCOMP, none, 0, 0, 0}},
		{what: "PR_SET_PTRACER", args: []uintptr{unix.PR_SET_PTRACER, none, 0, 0, 0}},
		{what: "PR_SET_MM", args: []uintptr{unix.PR_SET_MM, none, 0, 0, 0}},
	},
}
