package sandbox

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The table has every call once, with a reason for what it allows.
func TestTable(t *testing.T) {
	all := Table()
	require.Len(t, all, len(names))
	for i, c := range all {
		require.True(t, i == 0 || all[i-1].Number < c.Number)
		require.NotEmpty(t, c.Name)
		for r, a := range c.Access {
			require.Equal(t, a.Allowed, a.Why != "", "%s of a %v", c.Name, Role(r))
		}
	}
	for _, g := range grants {
		require.Equal(t, g.rule != nil, g.only != "", "%v: what a rule demands is told", g.calls)
		require.NotEmpty(t, g.to)
	}
}

// The filters allow what the table says. A call that two grants give a role would have
// the rule of the last only.
func TestTableIsWhatFiltersAllow(t *testing.T) {
	for r := range roles {
		given := map[uintptr]int{}
		for _, g := range grants {
			if slices.Contains(g.to, r) {
				for _, nr := range g.calls {
					given[nr]++
					require.Equal(t, 1, given[nr], "%s of a %v", names[nr], r)
				}
			}
		}
		built := rules(r, []Ioctl{{Mask: 0, Value: 0}})
		require.Equal(t, len(given), built.Size())
		for nr := range maps.Keys(given) {
			require.True(t, built.Has(nr), names[nr])
		}
	}
	without := rules(Renderer, nil)
	require.False(t, without.Has(unix.SYS_IOCTL))
}

// What must never come back is refused to all.
func TestTableRefuses(t *testing.T) {
	for _, c := range Table() {
		switch c.Number {
		case unix.SYS_MEMFD_CREATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE:
			require.False(t, c.Access[Backend].Allowed || c.Access[Renderer].Allowed || c.Access[NVIDIARenderer].Allowed, c.Name)
		case unix.SYS_SOCKET, unix.SYS_BIND, unix.SYS_LISTEN:
			for r, a := range c.Access {
				require.Equal(t, Role(r) == CUDAKeeper, a.Allowed, "%s of a %v", c.Name, Role(r)) // cuInit makes a socket
			}
		case unix.SYS_CONNECT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
			unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
			unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CLONE3,
			unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETGROUPS, unix.SYS_SETFSUID, unix.SYS_SETFSGID,
			unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
			unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
			unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
			unix.SYS_QUOTACTL, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX,
			unix.SYS_PERSONALITY, unix.SYS_KILL, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_REMAP_FILE_PAGES, unix.SYS_PKEY_MPROTECT,
			unix.SYS_VMSPLICE, unix.SYS_SPLICE, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_ACCT, unix.SYS_SYSLOG:
			for r, a := range c.Access {
				require.False(t, a.Allowed, "%s of a %v", c.Name, Role(r))
			}
		}
	}
}
