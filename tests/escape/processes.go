package escape

import (
	"fmt"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
)

// startProcesses starts a process, and programs.
func startProcesses(a *attacker) {
	program := a.text("/bin/true")
	a.refused("clone()", unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0)
	a.refused("clone3()", unix.SYS_CLONE3, none, 88)
	a.refused("fork()", unix.SYS_FORK)
	a.refused("vfork()", unix.SYS_VFORK)
	a.refused("execve()", unix.SYS_EXECVE, program, 0, 0)
	a.refused("execveat()", unix.SYS_EXECVEAT, here, program, 0, 0, 0)
}

// touchProcesses ends, stops, reads, traces and slows processes of others.
func touchProcesses(a *attacker) {
	at := a.put(make([]byte, 128))
	self, _ := a.call(unix.SYS_GETPID) // 1 in a namespace of its own
	for _, n := range append([]int{1, -1}, a.host.Processes...) {
		pid, who := uintptr(n), fmt.Sprint(" of process ", n)
		if pid == self {
			continue
		}
		a.refused("ptrace()"+who, unix.SYS_PTRACE, unix.PTRACE_SEIZE, pid, 0, 0)
		a.refused("process_vm_readv()"+who, unix.SYS_PROCESS_VM_READV, pid, at, 1, at, 1, 0)
		a.refused("process_vm_writev()"+who, unix.SYS_PROCESS_VM_WRITEV, pid, at, 1, at, 1, 0)
		a.refused("kcmp()"+who, unix.SYS_KCMP, pid, pid, 0, 0, 0)
		a.refused("rt_sigqueueinfo()"+who, unix.SYS_RT_SIGQUEUEINFO, pid, 0, at)
		a.refused("kill()"+who, unix.SYS_KILL, pid, 0)
		a.refused("tkill()"+who, unix.SYS_TKILL, pid, 0)
		if !a.keeper() { // which ends its workers
			a.refused("pidfd_open()"+who, unix.SYS_PIDFD_OPEN, pid, 0)
			a.refused("prlimit()"+who, unix.SYS_PRLIMIT64, pid, unix.RLIMIT_NOFILE, at, 0)
			a.refused("tgkill()"+who, unix.SYS_TGKILL, pid, pid, 0)
		}
	}
	a.refused("pidfd_getfd()", unix.SYS_PIDFD_GETFD, 0, 0, 0)
	a.refused("process_madvise()", unix.SYS_PROCESS_MADVISE, 0, at, 1, 0, 0)
}

// keeper reports whether the process is one of those that start others.
func (a *attacker) keeper() bool { return a.role == sandbox.Keeper || a.role == sandbox.CUDAKeeper }

// changeIdentity takes another identity and gets privileges.
func changeIdentity(a *attacker) {
	at := a.put(make([]byte, 64))
	a.refused("setuid()", unix.SYS_SETUID, 0)
	a.refused("setgid()", unix.SYS_SETGID, 0)
	a.refused("setreuid()", unix.SYS_SETREUID, 0, 0)
	a.refused("setresuid()", unix.SYS_SETRESUID, 0, 0, 0)
	a.refused("setresgid()", unix.SYS_SETRESGID, 0, 0, 0)
	a.refused("setfsuid()", unix.SYS_SETFSUID, 0)
	a.refused("setgroups()", unix.SYS_SETGROUPS, 0, at)
	if !a.keeper() { // whose workers drop capabilities
		a.refused("capset()", unix.SYS_CAPSET, at, at)
	}
	a.refused("keyctl()", unix.SYS_KEYCTL, 0, 0)
	a.refused("personality()", unix.SYS_PERSONALITY, 0xffffffff)
}

// leaveNamespaces changes what the process sees of the host.
func leaveNamespaces(a *attacker) {
	at := a.text("/")
	a.refused("unshare()", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	a.refused("setns()", unix.SYS_SETNS, 0, 0)
	a.refused("chroot()", unix.SYS_CHROOT, at)
	a.refused("pivot_root()", unix.SYS_PIVOT_ROOT, at, at)
	a.refused("mount()", unix.SYS_MOUNT, at, at, 0, unix.MS_BIND, 0)
	a.refused("umount()", unix.SYS_UMOUNT2, at, unix.MNT_DETACH)
	a.refused("open_tree()", unix.SYS_OPEN_TREE, here, at, 0)
	a.refused("move_mount()", unix.SYS_MOVE_MOUNT, 0, at, 0, at, 0)
	a.refused("fsopen()", unix.SYS_FSOPEN, at, 0)
	a.refused("mount_setattr()", unix.SYS_MOUNT_SETATTR, 0, at, 0, 0, 0)
	a.refused("sethostname()", unix.SYS_SETHOSTNAME, at, 1)
	a.refused("bpf()", unix.SYS_BPF, 0, at, 8)
	a.refused("io_uring_setup()", unix.SYS_IO_URING_SETUP, 1, at)
	a.refused("userfaultfd()", unix.SYS_USERFAULTFD, 0)
	a.refused("perf_event_open()", unix.SYS_PERF_EVENT_OPEN, at, 0, 0, none, 0)
}
