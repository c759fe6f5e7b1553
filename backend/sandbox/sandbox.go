// Package sandbox confines the processes that serve a guest: a guest that takes over
// the code of its backend gets a process that can compute, wait, and communicate on the
// descriptors that it holds, and nothing else. It cannot make sockets or connect, open,
// remove or extend files, start programs, or make memory that other processes share.
//
// A backend takes these steps in order. Its parent calls ReserveIdentity and Start, which
// give it a user and namespaces of its own. The backend first calls Root.Enter and Shed:
// they change its root directory and its user, lower its limits, and execute the program
// again without privileges, since privileges belong to threads. When it has opened all
// that it needs and before it serves a guest, it calls Enter, which installs a seccomp
// filter on all threads; later threads inherit the filter, and no call removes it. The
// processes that run a host's libraries for it have filters of their own (EnterKeeper,
// EnterRenderer). A forbidden call fails with EPERM: the Go runtime and libraries can do
// without the calls that they merely try, and killing the process would end its guest.
//
// Table lists the calls that each role may make. The filters are built from the same
// grants, with gVisor's compiler of filters.
//
// Executable memory of a backend has one mapping. The software GPU compiles kernels into
// addresses that package codemem reserves for that. The filter lets memory become
// executable only there, and only while it is not writable; it refuses to map other
// memory over it. So guest memory, which others write, never becomes executable. A
// backend that is taken over can still write code there and then execute it. Renderers
// may make any memory executable, since drivers compile shaders and kernels.
//
// A confined process can affect other processes only by sending SIGKILL through a pidfd
// that it was given: the keeper of CUDA workers passes those of the backend's own workers.
//
// Limits.Memory bounds private memory. The filter closes the ways round that limit:
// mappings over existing memory, which the kernel does not count (settleHeap), stacks, and
// shared memory. A backend has only the shared memory that it made before Enter or was
// given. Renderers can go round the limit: only a control group bounds them.
//
// The package has no goroutines and no locks. Start and Shed act on the thread that calls
// them.
package sandbox

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/seccomp"

	"pvdrm/internal/codemem"
)

// Enter confines this process irrevocably. The process must already have opened the
// sockets that it listens on, its log, and the memory that it shares.
func Enter() error { return enter(Backend, nil) }

// EnterRenderer irrevocably confines a process that renders for a guest, or computes for
// it on a device of the host. Its libraries must be loaded and started. It may make
// memory executable, because drivers compile shaders and kernels, and make the requests
// of ioctls to the devices that it has open.
func EnterRenderer(ioctls []Ioctl) error { return enter(Renderer, ioctls) }

// EnterNVIDIARenderer is EnterRenderer for a process that draws with NVIDIA's OpenGL. Precondition: openat of this
// process goes to its keeper, which answers it (package usernotify).
func EnterNVIDIARenderer(ioctls []Ioctl) error { return enter(NVIDIARenderer, ioctls) }

// EnterKeeper irrevocably confines a process that starts renderers, and the renderers
// too until they enter filters of their own. They can still open files and devices, load
// libraries and start programs.
func EnterKeeper() error { return enter(Keeper, nil) }

// EnterCUDAKeeper is EnterKeeper for processes that start CUDA workers: cuInit makes a
// socket and listens on it, and fails with CUDA_ERROR_OPERATING_SYSTEM where it cannot (seen
// with NVIDIA's driver 580.159).
func EnterCUDAKeeper() error { return enter(CUDAKeeper, nil) }

// Ioctl is a set of requests to devices: those of which the bits in Mask are Value.
type Ioctl struct{ Mask, Value uint32 }

// DRMIoctls is the requests to render nodes: their type, which has eight bits, is 'd'
// (Linux, include/uapi/drm/drm.h).
var DRMIoctls = []Ioctl{{Mask: 0xff00, Value: 'd' << 8}}

// enter confines this process to what its role may do.
func enter(role Role, ioctls []Ioctl) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbidding core dumps: %w", err)
	}
	if !slices.Contains(keepers, role) { // the libraries of renderers may make memory as they start
		// An attempt fails instead of ending the process.
		signal.Ignore(unix.SIGXFSZ)
		if err := limit(unix.RLIMIT_FSIZE, 0); err != nil {
			return fmt.Errorf("forbidding files to grow: %w", err)
		}
	}
	if role == Backend {
		// Without addresses for code there is none: kernels are interpreted.
		_ = codemem.Reserve()
		if err := settleHeap(); err != nil {
			return err
		}
	}
	sets := []seccomp.RuleSet{
		// A filter cannot see the flags of clone3, so the C library is to use clone.
		{Rules: seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_CLONE3: seccomp.MatchAll{}}),
			Action: seccomp.ReturnError.Code(uint16(unix.ENOSYS))},
	}
	if role == CUDAKeeper {
		sets = append(sets, seccomp.RuleSet{Rules: absent(), Action: seccomp.ReturnError.Code(uint16(unix.ENOENT))})
	}
	if role == Backend && !raceDetector {
		// So that Go's runtime says that memory is at its end.
		sets = append(sets, seccomp.RuleSet{Rules: seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_MMAP: growing()}),
			Action: seccomp.ReturnError.Code(uint16(unix.ENOMEM))})
	}
	sets = append(sets, seccomp.RuleSet{Rules: rules(role, ioctls), Action: seccomp.Allow})
	program := seccomp.Program{
		RuleSets: sets,
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

// Available says why a process of this host cannot be confined, or nil: it takes
// filters and limits of resources.
func Available() error {
	action := uint32(linux.SECCOMP_RET_ERRNO)
	if err := available(&action); err != nil {
		return err
	}
	for _, resource := range []int{unix.RLIMIT_DATA, unix.RLIMIT_FSIZE, unix.RLIMIT_NPROC, unix.RLIMIT_CORE} {
		var r unix.Rlimit
		err := unix.Getrlimit(resource, &r)
		if err == nil {
			err = unix.Setrlimit(resource, &r) // as it is
		}
		if err != nil {
			return fmt.Errorf("limits of resources cannot be set: %w", os.NewSyscallError("setrlimit", err))
		}
	}
	return nil
}
