package sandbox

import (
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/seccomp"

	"pvdrm/internal/codemem"
)

// Role is a kind of process that has a filter of its own.
type Role int

// The roles. A renderer's filter comes on top of its keeper's: it may do what both
// allow.
const (
	Backend        Role = iota // serves a guest: Enter
	Renderer                   // draws or computes for a guest, with a driver's libraries: EnterRenderer
	Keeper                     // starts renderers, which load their libraries: EnterKeeper
	CUDAKeeper                 // starts CUDA workers, which load NVIDIA's driver: EnterCUDAKeeper
	NVIDIARenderer             // draws with NVIDIA's OpenGL, under the eyes of its keeper: EnterNVIDIARenderer
	roles
)

// String names the role.
func (r Role) String() string {
	return [...]string{"backend", "renderer", "keeper", "CUDA keeper", "NVIDIA renderer"}[r]
}

// Access is the right of a role to make a system call.
type Access struct {
	Allowed bool
	Only    string // what the filter demands of the arguments; "" for nothing
	Why     string // the need for the call
}

// Call is a system call of Linux on x86-64, with the access of each role.
type Call struct {
	Name   string
	Number uintptr
	Access [roles]Access // by Role

	// Unfiltered reports that Linux shows the call to no filter (6.14 and later). The call
	// has an effect only in code where a tracer has put probes.
	Unfiltered bool
}

// Table returns all system calls by number, from the same grants that the filters are
// built from.
func Table() []Call {
	var all []Call
	for _, nr := range slices.Sorted(maps.Keys(names)) {
		c := Call{Name: names[nr], Number: nr, Unfiltered: nr == unix.SYS_URETPROBE || nr == unix.SYS_UPROBE}
		for _, g := range grants {
			if !slices.Contains(g.calls, nr) {
				continue
			}
			for _, r := range g.to {
				c.Access[r] = Access{Allowed: true, Only: g.only, Why: g.why}
			}
		}
		all = append(all, c)
	}
	return all
}

// grant allows roles to make calls.
type grant struct {
	why   string
	to    []Role
	calls []uintptr
	only  string                            // what rule demands; "" for nothing
	rule  func([]Ioctl) seccomp.SyscallRule // nil to allow any arguments
}

// rules are all that a role may do, with the ioctls of a renderer.
func rules(r Role, ioctls []Ioctl) seccomp.SyscallRules {
	all := map[uintptr]seccomp.SyscallRule{}
	for _, g := range grants {
		if !slices.Contains(g.to, r) {
			continue
		}
		for _, nr := range g.calls {
			all[nr] = seccomp.MatchAll{}
			if g.rule == nil {
				continue
			}
			if all[nr] = g.rule(ioctls); all[nr] == nil {
				delete(all, nr)
			}
		}
	}
	return seccomp.MakeSyscallRules(all)
}

var (
	everyone   = []Role{Backend, Renderer, Keeper, CUDAKeeper, NVIDIARenderer}
	renderers  = []Role{Renderer, NVIDIARenderer}
	serving    = []Role{Backend, Renderer, NVIDIARenderer}
	withDriver = []Role{Renderer, Keeper, CUDAKeeper, NVIDIARenderer}
	keepers    = []Role{Keeper, CUDAKeeper}
)

// grants are all that the roles may do. What is in none is refused.
var grants = []grant{
	// What every process needs, whatever it does.
	{why: "memory", to: everyone, calls: []uintptr{unix.SYS_BRK}},
	{why: "threads that wait, yield and exit", to: everyone, calls: []uintptr{
		unix.SYS_SCHED_YIELD, unix.SYS_NANOSLEEP, unix.SYS_RESTART_SYSCALL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	}},
	{why: "threads of the Go runtime and the C library", to: everyone, calls: []uintptr{
		unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_SCHED_GETAFFINITY,
	}},
	{why: "signals of the Go runtime", to: everyone, calls: []uintptr{
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	}},
	{why: "time and random numbers", to: everyone, calls: []uintptr{
		unix.SYS_CLOCK_GETTIME, unix.SYS_GETRANDOM, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME,
	}},
	{why: "descriptors that it holds", to: everyone, calls: []uintptr{
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_FSTATFS,
	}},
	{why: "waiting for descriptors, and waking waiters", to: everyone, calls: []uintptr{
		unix.SYS_POLL, unix.SYS_PPOLL, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
		unix.SYS_EVENTFD2, unix.SYS_PIPE2,
	}},
	{why: "sockets that it holds", to: everyone, calls: []uintptr{
		unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_RECVFROM, unix.SYS_SENDTO, unix.SYS_SHUTDOWN,
		unix.SYS_GETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	}},
	{why: "time limits of links to workers", to: everyone, calls: []uintptr{unix.SYS_SETSOCKOPT},
		only: "SOL_SOCKET, SO_RCVTIMEO or SO_SNDTIMEO", rule: socketTimeouts},
	{why: "waiting for processes that it started", to: []Role{Backend, Keeper, CUDAKeeper}, calls: []uintptr{unix.SYS_WAITID}},

	// The same of confined processes, with fewer arguments.
	{why: "threads", to: serving, calls: []uintptr{unix.SYS_CLONE},
		only: "CLONE_THREAD, no namespaces", rule: threads},
	{why: "preemption of the process's own threads", to: serving, calls: []uintptr{unix.SYS_TGKILL},
		only: "its own process", rule: ownThreads},

	// A backend listens on sockets that it was given, and ends workers by pidfds that
	// their keeper gave it: it can open none itself.
	{why: "its guest's connections", to: []Role{Backend}, calls: []uintptr{unix.SYS_ACCEPT4}},
	{why: "ending workers, by descriptors of their keeper", to: []Role{Backend}, calls: []uintptr{unix.SYS_PIDFD_SEND_SIGNAL},
		only: "SIGKILL", rule: kill},
	{why: "the Go runtime and the C library", to: []Role{Backend}, calls: []uintptr{unix.SYS_FUTEX},
		only: "no priority inheritance", rule: plainFutex},
	{why: "the heap, and guests' memory", to: []Role{Backend}, calls: []uintptr{unix.SYS_MADVISE},
		only: "the advice of the Go runtime, malloc and the software GPU", rule: advices},
	{why: "memory; guests' memory", to: []Role{Backend}, calls: []uintptr{unix.SYS_MMAP},
		only: "not executable; not over code; of descriptors shared, otherwise private; not growing down; not writable over other memory", rule: backendMap},
	{why: "memory", to: []Role{Backend}, calls: []uintptr{unix.SYS_MUNMAP}, only: "not code", rule: notCode},
	{why: "guard pages; kernels that the software GPU compiles", to: []Role{Backend}, calls: []uintptr{unix.SYS_MPROTECT},
		only: "not executable, except private memory reserved for code while it is not writable", rule: backendProtect},
	{why: "nonblocking descriptors, copies of them, memory that cannot shrink", to: []Role{Backend}, calls: []uintptr{unix.SYS_FCNTL},
		only: "F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GET_SEALS", rule: commands},
	{why: "sleeps that end on time", to: []Role{Backend}, calls: []uintptr{unix.SYS_PRCTL},
		only: "PR_SET_TIMERSLACK", rule: prctls(unix.PR_SET_TIMERSLACK)},

	// What Mesa and virglrenderer, or NVIDIA's driver, need while they work.
	{why: "memory; shaders and kernels that drivers compile", to: withDriver, calls: []uintptr{
		unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_FUTEX, unix.SYS_MEMBARRIER,
	}},
	{why: "memory; shaders and kernels that drivers compile", to: withDriver, calls: []uintptr{unix.SYS_MMAP},
		only: "not growing down", rule: driverMap},
	{why: "drivers that place threads and inspect the machine", to: withDriver, calls: []uintptr{
		unix.SYS_SCHED_SETAFFINITY, unix.SYS_GETCPU, unix.SYS_SYSINFO, unix.SYS_GETRUSAGE,
		unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN,
		unix.SYS_GETTIMEOFDAY, unix.SYS_TIME, unix.SYS_CLOCK_NANOSLEEP,
	}},
	{why: "descriptors of drivers", to: withDriver, calls: []uintptr{
		unix.SYS_LSEEK, unix.SYS_PREAD64, unix.SYS_READV, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_EPOLL_WAIT,
	}},
	{why: "descriptors of drivers", to: renderers, calls: []uintptr{unix.SYS_NEWFSTATAT},
		only: "AT_EMPTY_PATH", rule: statDescriptor},
	{why: "descriptors of drivers", to: renderers, calls: []uintptr{unix.SYS_FCNTL},
		only: "F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GET_SEALS", rule: commands},
	{why: "devices", to: renderers, calls: []uintptr{unix.SYS_IOCTL},
		only: "the requests passed to EnterRenderer", rule: requests},
	// NVIDIA's OpenGL opens its devices for each mapping. A filter that was installed before sends these calls to the
	// keeper, which opens those and refuses all others.
	{why: "NVIDIA's devices", to: []Role{NVIDIARenderer}, calls: []uintptr{unix.SYS_OPENAT},
		only: "O_RDWR; the keeper answers, with devices of NVIDIA's", rule: deviceFlags},
	{why: "drivers that inspect the machine and themselves", to: []Role{NVIDIARenderer}, calls: []uintptr{
		unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	}},
	{why: "sleeps that end on time; names of threads", to: renderers, calls: []uintptr{unix.SYS_PRCTL},
		only: "PR_SET_TIMERSLACK, PR_SET_NAME", rule: prctls(unix.PR_SET_TIMERSLACK, unix.PR_SET_NAME)},

	// A keeper starts programs, and those load drivers before they are confined.
	{why: "starting renderers", to: keepers, calls: []uintptr{
		unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_EXECVE, unix.SYS_WAIT4,
		unix.SYS_ARCH_PRCTL, unix.SYS_SET_TID_ADDRESS, unix.SYS_PRLIMIT64, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT,
	}},
	{why: "starting renderers; threads", to: keepers, calls: []uintptr{unix.SYS_CLONE}, only: "no namespaces", rule: noNamespaces},
	{why: "confining renderers", to: keepers, calls: []uintptr{unix.SYS_SECCOMP, unix.SYS_CAPGET, unix.SYS_CAPSET}},
	{why: "ending renderers", to: keepers, calls: []uintptr{unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_TGKILL}},
	{why: "links to renderers", to: keepers, calls: []uintptr{unix.SYS_SOCKETPAIR}, only: "AF_UNIX, with a connection", rule: unixPair},
	// NVIDIA's driver does not start without a socket on which it listens. It is in the guest's own
	// network namespace, and nothing here may connect.
	{why: "the socket that cuInit makes", to: []Role{CUDAKeeper}, calls: []uintptr{unix.SYS_SOCKET}, only: "AF_UNIX, SOCK_SEQPACKET", rule: unixListener},
	{why: "the socket that cuInit makes", to: []Role{CUDAKeeper}, calls: []uintptr{unix.SYS_BIND, unix.SYS_LISTEN}},
	{why: "lanes to CUDA workers; memory of drivers", to: keepers, calls: []uintptr{unix.SYS_MEMFD_CREATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE}},
	{why: "libraries, settings and devices", to: keepers, calls: []uintptr{
		unix.SYS_OPEN, unix.SYS_OPENAT, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_STATFS,
		unix.SYS_ACCESS, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINK, unix.SYS_READLINKAT,
		unix.SYS_GETDENTS, unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_UMASK,
		unix.SYS_PREADV, unix.SYS_PWRITE64, unix.SYS_FLOCK, unix.SYS_FADVISE64, unix.SYS_MSYNC,
	}},
	{why: "libraries, settings and devices", to: []Role{Keeper}, calls: []uintptr{unix.SYS_FCNTL},
		only: "no signals, leases and notifications", rule: commandsOf(keeperCommands)},
	{why: "libraries, settings and devices; room in the pipes for what kernels print", to: []Role{CUDAKeeper}, calls: []uintptr{unix.SYS_FCNTL},
		only: "no signals, leases and notifications", rule: commandsOf(append(slices.Clone(keeperCommands), unix.F_SETPIPE_SZ))},
	{why: "devices", to: keepers, calls: []uintptr{unix.SYS_IOCTL}, only: "no input to terminals", rule: noTyping},
	{why: "drivers that inspect the machine and themselves", to: keepers, calls: []uintptr{
		unix.SYS_UNAME, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID,
		unix.SYS_GETGROUPS, unix.SYS_GETPPID, unix.SYS_GETPGRP, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_GETPRIORITY, unix.SYS_TIMES,
		unix.SYS_CLOCK_GETRES, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_GET_MEMPOLICY,
	}},
	{why: "drivers that place threads and memory", to: keepers, calls: []uintptr{
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SETPRIORITY,
		unix.SYS_SET_MEMPOLICY, unix.SYS_MBIND, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MUNLOCK,
	}},
	{why: "waiting, as older libraries do", to: keepers, calls: []uintptr{
		unix.SYS_SELECT, unix.SYS_PSELECT6, unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_EVENTFD,
		unix.SYS_EPOLL_CREATE, unix.SYS_TIMERFD_GETTIME, unix.SYS_SETITIMER, unix.SYS_GETITIMER, unix.SYS_ALARM,
		unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_DELETE,
		unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_GET_ROBUST_LIST, unix.SYS_FUTEX_WAITV,
	}},
	{why: "ending with the parent, names, confining renderers", to: keepers, calls: []uintptr{unix.SYS_PRCTL},
		only: "no option that weakens the confinement", rule: prctls(
			unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG, unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_DUMPABLE, unix.PR_GET_DUMPABLE,
			unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS, unix.PR_CAPBSET_READ, unix.PR_CAPBSET_DROP, unix.PR_CAP_AMBIENT,
			unix.PR_SET_TIMERSLACK, unix.PR_GET_TIMERSLACK, unix.PR_SET_VMA, unix.PR_GET_SECCOMP)},
}

// Namespaces that a process could make with its next.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

var anything seccomp.AnyValue

// oneOf allows calls of which an argument has one of some values.
func oneOf(arg int, values ...uintptr) seccomp.SyscallRule {
	var or seccomp.Or
	for _, v := range values {
		var p seccomp.PerArg
		for i := range arg {
			p[i] = anything
		}
		p[arg] = seccomp.EqualTo(v)
		or = append(or, p)
	}
	return or
}

func threads([]Ioctl) seccomp.SyscallRule {
	return seccomp.PerArg{seccomp.MaskedEqual(unix.CLONE_THREAD|newNamespaces, unix.CLONE_THREAD)}
}

func noNamespaces([]Ioctl) seccomp.SyscallRule {
	return seccomp.PerArg{seccomp.MaskedEqual(newNamespaces, 0)}
}

func ownThreads([]Ioctl) seccomp.SyscallRule {
	return seccomp.PerArg{seccomp.EqualTo(os.Getpid())}
}

func kill([]Ioctl) seccomp.SyscallRule { return oneOf(1, uintptr(unix.SIGKILL)) }

// unixPair allows sockets that reach each other only. Datagram sockets send to any that they
// can name.
func unixPair([]Ioctl) seccomp.SyscallRule {
	const kind = 0xf // the rest of the type is flags
	return seccomp.Or{
		seccomp.PerArg{seccomp.EqualTo(unix.AF_UNIX), seccomp.MaskedEqual(kind, unix.SOCK_STREAM)},
		seccomp.PerArg{seccomp.EqualTo(unix.AF_UNIX), seccomp.MaskedEqual(kind, unix.SOCK_SEQPACKET)},
	}
}

// unixListener allows sockets that send nothing unless they are connected.
func unixListener([]Ioctl) seccomp.SyscallRule {
	const kind = 0xf // the rest of the type is flags
	return seccomp.PerArg{seccomp.EqualTo(unix.AF_UNIX), seccomp.MaskedEqual(kind, unix.SOCK_SEQPACKET)}
}

// absent is what a CUDA keeper is refused with ENOENT: NVIDIA's driver renews links below
// /dev/char, goes on where there is no such directory, and may not where it has no right to.
func absent() seccomp.SyscallRules {
	return seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_UNLINK: seccomp.MatchAll{}, unix.SYS_SYMLINK: seccomp.MatchAll{}})
}

func socketTimeouts([]Ioctl) seccomp.SyscallRule {
	return seccomp.And{oneOf(1, unix.SOL_SOCKET), oneOf(2, unix.SO_RCVTIMEO, unix.SO_SNDTIMEO)}
}

func prctls(operations ...uintptr) func([]Ioctl) seccomp.SyscallRule {
	return func([]Ioctl) seccomp.SyscallRule { return oneOf(0, operations...) }
}

// Operations of futex(2) (Linux, include/uapi/linux/futex.h). Those that inherit
// priorities have had most of its faults, and nothing needs them.
const (
	futexWait       = 0
	futexWake       = 1
	futexRequeue    = 3
	futexCmpRequeue = 4
	futexWakeOp     = 5
	futexWaitBits   = 9
	futexWakeBits   = 10
	futexOptions    = 128 | 256 // private; by the wall clock
)

func plainFutex([]Ioctl) seccomp.SyscallRule {
	var or seccomp.Or
	for _, op := range []uintptr{futexWait, futexWake, futexRequeue, futexCmpRequeue, futexWakeOp, futexWaitBits, futexWakeBits} {
		or = append(or, seccomp.PerArg{anything, seccomp.MaskedEqual(^uintptr(futexOptions), op)})
	}
	return or
}

// guardInstall and guardRemove are advices of Linux 6.13, for stacks of threads.
const (
	guardInstall = 102
	guardRemove  = 103
)

func advices([]Ioctl) seccomp.SyscallRule {
	return oneOf(2, unix.MADV_DONTNEED, unix.MADV_FREE, unix.MADV_HUGEPAGE, unix.MADV_NOHUGEPAGE, unix.MADV_COLLAPSE,
		unix.MADV_POPULATE_WRITE, guardInstall, guardRemove)
}

// mapType has the bits of mmap's flags that tell whether memory is shared.
const mapType = 0xf

// backendMap allows private memory and that of descriptors. Memory that is shared and
// anonymous, such that grows down, and such that is mapped in place of other, would not
// count as data (RLIMIT_DATA).
func backendMap([]Ioctl) seccomp.SyscallRule {
	notExecutable := seccomp.MaskedEqual(unix.PROT_EXEC, 0)
	// Where the kernel chooses the address it takes none that is in use.
	elsewhere := append(notCode(nil).(seccomp.Or), seccomp.PerArg{seccomp.EqualTo(0)})
	const kind = unix.MAP_ANONYMOUS | unix.MAP_GROWSDOWN | mapType
	const private = unix.MAP_ANONYMOUS | unix.MAP_PRIVATE
	if raceDetector {
		return seccomp.And{elsewhere, seccomp.PerArg{anything, anything, notExecutable, seccomp.MaskedEqual(unix.MAP_GROWSDOWN, 0)}}
	}
	return seccomp.And{elsewhere, seccomp.Or{
		seccomp.PerArg{anything, anything, notExecutable, seccomp.MaskedEqual(kind, unix.MAP_SHARED)},
		seccomp.PerArg{anything, anything, notExecutable, seccomp.MaskedEqual(kind|unix.MAP_FIXED, private)},
		seccomp.PerArg{anything, anything, seccomp.MaskedEqual(unix.PROT_EXEC|unix.PROT_WRITE, 0), seccomp.MaskedEqual(kind, private)},
	}}
}

// growing is how Go's heap grows, which settleHeap made as large as it may be.
func growing() seccomp.SyscallRule {
	const kind = unix.MAP_ANONYMOUS | unix.MAP_FIXED
	return seccomp.PerArg{anything, anything, seccomp.MaskedEqual(unix.PROT_WRITE, unix.PROT_WRITE), seccomp.MaskedEqual(kind, kind)}
}

// reach is the most bytes of a range that begins below the addresses of code. A filter
// cannot add, so it wants such a range to begin so far below that it ends before them.
const reach = 1 << 40

// codeEnd is where the addresses end that package codemem keeps.
const codeEnd = codemem.Start + codemem.Bytes + codemem.Guard

// notCode allows ranges of addresses that have none of those of code.
func notCode([]Ioctl) seccomp.SyscallRule {
	return seccomp.Or{
		seccomp.PerArg{seccomp.GreaterThanOrEqual(codeEnd)},
		seccomp.PerArg{seccomp.LessThan(codemem.Start - reach), seccomp.LessThanOrEqual(reach)},
	}
}

// backendProtect lets the software GPU make executable what it has written, and no
// longer writable, where no other memory can come to lie: notCode keeps it there. So
// there is no mapping but that one by which executable memory could be written.
func backendProtect([]Ioctl) seccomp.SyscallRule {
	return seccomp.Or{
		seccomp.PerArg{anything, anything, seccomp.MaskedEqual(unix.PROT_EXEC, 0)},
		seccomp.And{
			seccomp.PerArg{seccomp.GreaterThanOrEqual(codemem.Start), seccomp.LessThanOrEqual(codemem.Guard), seccomp.EqualTo(unix.PROT_READ | unix.PROT_EXEC)},
			seccomp.PerArg{seccomp.LessThan(codemem.Start + codemem.Bytes)},
		},
	}
}

func driverMap([]Ioctl) seccomp.SyscallRule {
	return seccomp.PerArg{anything, anything, anything, seccomp.MaskedEqual(unix.MAP_GROWSDOWN, 0)}
}

func statDescriptor([]Ioctl) seccomp.SyscallRule {
	return seccomp.PerArg{anything, anything, anything, seccomp.MaskedEqual(unix.AT_EMPTY_PATH, unix.AT_EMPTY_PATH)}
}

func commands([]Ioctl) seccomp.SyscallRule {
	return oneOf(1, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_GET_SEALS)
}

// keeperCommands are those of fcntl that keepers have.
var keeperCommands = []uintptr{unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL,
	unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, unix.F_ADD_SEALS, unix.F_GET_SEALS}

func commandsOf(list []uintptr) func([]Ioctl) seccomp.SyscallRule {
	return func([]Ioctl) seccomp.SyscallRule { return oneOf(1, list...) }
}

// noTyping keeps a process from giving input to a terminal, as if somebody typed it.
func noTyping([]Ioctl) seccomp.SyscallRule {
	return seccomp.And{
		seccomp.PerArg{anything, seccomp.NotEqual(unix.TIOCSTI)},
		seccomp.PerArg{anything, seccomp.NotEqual(tioclinux)},
	}
}

// tioclinux is a request that pastes a selection (ioctl_console(2)).
const tioclinux = 0x541c

// deviceFlags allows what NVIDIA's OpenGL opens its devices with.
func deviceFlags([]Ioctl) seccomp.SyscallRule {
	return oneOf(2, unix.O_RDWR, unix.O_RDWR|unix.O_CLOEXEC)
}

// requests are those that a renderer was given, or nil.
func requests(ioctls []Ioctl) seccomp.SyscallRule {
	if len(ioctls) == 0 {
		return nil
	}
	var or seccomp.Or
	for _, i := range ioctls {
		or = append(or, seccomp.PerArg{anything, seccomp.MaskedEqual(uintptr(i.Mask), uintptr(i.Value))})
	}
	return or
}
