// Package sandbox confines a backend before it serves a guest: a guest that
// takes over the code of its backend gets a process that can compute, wait, and
// talk on the descriptors and Unix sockets that it has, and nothing else. It
// cannot open or remove files, start programs, reach the network, or have memory
// that is writable and executable at once. It can make memory executable that is
// written, because the software GPU compiles kernels.
//
// There are three steps, in the order of a backend's life. Start, in the process
// that starts it, gives it namespaces. Shed, first thing in the backend, gives up
// capabilities and runs the program anew; Root.Enter comes before it. Enter, when
// all is open and a guest is about to be served, installs a seccomp filter on all
// threads, built with gVisor's compiler for them; later threads inherit it, and
// nothing takes it off. A forbidden call fails with EPERM: what the Go runtime or a
// library tries in passing has a way round, and a process that is killed for it
// would take its guest along.
//
// There are no goroutines and no locks. Start and Shed act on, or with, the
// thread that calls them.
package sandbox

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/seccomp"
)

// calls are what a serving backend needs with any arguments.
var calls = []uintptr{
	// Memory, and threads that wait and give way.
	unix.SYS_BRK, unix.SYS_MADVISE, unix.SYS_MUNMAP, unix.SYS_MINCORE,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_SCHED_YIELD,
	unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_RESTART_SYSCALL, unix.SYS_MEMBARRIER, unix.SYS_WAITID,
	// Threads and signals of the Go runtime and the C library.
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_GETRANDOM,
	// Descriptors that are open: sockets, pipes, the guest's memory, the log.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_FCNTL, unix.SYS_DUP,
	unix.SYS_DUP3, unix.SYS_POLL, unix.SYS_PPOLL, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_WAIT,
	unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_MEMFD_CREATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
	unix.SYS_ACCEPT4, unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_RECVFROM, unix.SYS_SENDTO, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	// To end workers of an NVIDIA GPU, by descriptors that their keeper gave it.
	unix.SYS_PIDFD_SEND_SIGNAL,
	// To join an arbiter that was restarted; what kind of socket is checked below.
	unix.SYS_CONNECT,
}

// rules are all that a backend may do.
func rules() seccomp.SyscallRules { return seccomp.MakeSyscallRules(allowed()) }

func allowed() map[uintptr]seccomp.SyscallRule {
	all := map[uintptr]seccomp.SyscallRule{}
	for _, nr := range calls {
		all[nr] = seccomp.MatchAll{}
	}
	var any seccomp.AnyValue
	notExecutable := seccomp.PerArg{any, any, seccomp.MaskedEqual(unix.PROT_EXEC, 0)}
	all[unix.SYS_MMAP] = notExecutable
	// The software GPU compiles kernels: what it has written it makes executable, and
	// no longer writable.
	all[unix.SYS_MPROTECT] = seccomp.Or{notExecutable, seccomp.PerArg{any, any, seccomp.EqualTo(unix.PROT_READ | unix.PROT_EXEC)}}
	all[unix.SYS_SOCKET] = seccomp.PerArg{seccomp.EqualTo(unix.AF_UNIX)}
	all[unix.SYS_TGKILL] = seccomp.PerArg{seccomp.EqualTo(os.Getpid())}                             // threads of this process: preemption
	all[unix.SYS_CLONE] = seccomp.PerArg{seccomp.MaskedEqual(unix.CLONE_THREAD, unix.CLONE_THREAD)} // threads, no processes
	all[unix.SYS_PRCTL] = seccomp.PerArg{seccomp.EqualTo(unix.PR_SET_TIMERSLACK)}                   // for naps that are no longer than asked for
	return all
}

// Enter confines this process, for good. What it serves must be open already:
// sockets that it listens on, and its log.
func Enter() error { return enter(rules()) }

// EnterRenderer confines a process that renders for a guest, or computes for it on a
// device of the host, for good, once its libraries are loaded and started. It may make
// memory executable, because Mesa compiles shaders, and starts threads for that. With device it may also talk to
// the devices that it has open.
func EnterRenderer(device bool) error {
	all := allowed()
	for _, nr := range rendererCalls {
		all[nr] = seccomp.MatchAll{}
	}
	if device {
		all[unix.SYS_IOCTL] = seccomp.MatchAll{}
	}
	all[unix.SYS_PRCTL] = seccomp.Or{all[unix.SYS_PRCTL], seccomp.PerArg{seccomp.EqualTo(unix.PR_SET_NAME)}} // of threads
	// It connects to nobody.
	delete(all, unix.SYS_CONNECT)
	delete(all, unix.SYS_SOCKET)
	delete(all, unix.SYS_ACCEPT4)
	return enter(seccomp.MakeSyscallRules(all))
}

// rendererCalls are what Mesa and virglrenderer, or NVIDIA's driver, need beyond calls.
var rendererCalls = []uintptr{
	unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_SCHED_SETAFFINITY, unix.SYS_GETCPU, unix.SYS_SYSINFO,
	unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_LSEEK, unix.SYS_NEWFSTATAT, unix.SYS_GETTIMEOFDAY, unix.SYS_TIME, unix.SYS_GETRUSAGE,
}

// enter confines this process to what is allowed.
func enter(rules seccomp.SyscallRules) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbidding core dumps: %w", err)
	}
	program := seccomp.Program{
		RuleSets: []seccomp.RuleSet{
			// A filter cannot see the flags of clone3, so the C library is to use clone.
			{Rules: seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_CLONE3: seccomp.MatchAll{}}),
				Action: seccomp.ReturnError.Code(uint16(unix.ENOSYS))},
			{Rules: rules, Action: seccomp.Allow},
		},
		Options: seccomp.ProgramOptions{
			DefaultAction: seccomp.ReturnError.Code(uint16(unix.EPERM)),
			BadArchAction: seccomp.KillProcess,
			HotSyscalls:   []uintptr{unix.SYS_SCHED_YIELD, unix.SYS_FUTEX},
		},
	}
	filter, _, err := program.Build()
	if err != nil {
		return fmt.Errorf("building the seccomp filter: %w", err)
	}
	// No new privileges for this thread; the filter takes that to the others.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := seccomp.SetFilter(filter); err != nil {
		return fmt.Errorf("installing the seccomp filter: %w (this host may have no seccomp; --sandbox=off goes without)", err)
	}
	return nil
}

// Available says why a process of this host cannot be confined, or nil.
func Available() error {
	action := uint32(linux.SECCOMP_RET_ERRNO)
	return available(&action)
}
