package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
	"pvdrm/frontend/interpose"
	"pvdrm/gpu/ptx"
	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/cgroup"
	"pvdrm/internal/suite"
	"pvdrm/vmm"
)

// check is one line of the doctor's report.
type check struct {
	name   string
	ok     bool
	detail string
	mend   string // what to do, where it is not ok
	needed bool   // nothing works without it
}

func newDoctor() *cobra.Command {
	var qemu string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine has and lacks",
		Long:  `Check what PVDRM needs, and say what to install. The exit code is 1 when something that is needed is missing.`,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			missing := 0
			for _, r := range examine(c.Context(), qemu) {
				state := "ok"
				if !r.ok && r.needed {
					state = "MISSING"
					missing++
				} else if !r.ok {
					state = "no"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", r.name, state, r.detail)
				if !r.ok && r.mend != "" {
					fmt.Fprintf(w, "\t\t→ %s\n", r.mend)
				}
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if missing > 0 {
				fmt.Fprintf(c.OutOrStdout(), "\n%d of the things that are needed for virtual machines are missing. Local guests (pvdrm run) need none of them.\n", missing)
				return exitError{1}
			}
			fmt.Fprintln(c.OutOrStdout(), "\nEverything that is needed is there.")
			return nil
		},
	}
	c.Flags().StringVar(&qemu, "qemu", defaultQEMU(), "QEMU to look at, name or path")
	return c
}

const installQEMU = "apt-get install -t bookworm-backports --no-install-recommends qemu-system-x86 (or run `make deps` as root, which adds the backports)"

func examine(ctx context.Context, qemu string) []check {
	all := []check{checkOS(), checkQEMU(ctx, qemu), checkKVM(), checkImage(), checkMemfd(), checkSandbox()}
	all = append(append(all, checkView()...), checkIdentity(), checkGroup(), checkInterpose(), checkCard(ctx, qemu))
	for _, k := range deviceKinds {
		all = append(all, k.examine()...)
	}
	return append(all, checkGL())
}

// checkNativeCode says whether the software GPU compiles kernels.
func checkNativeCode() check {
	c := check{name: "native code", ok: true, detail: "the software GPU compiles kernels that run often, for " + string(ptxexec.InUse()) + "; pvdrm run --kernel-counts says what ran compiled",
		mend: "kernels are interpreted, which takes some times as long"}
	if err := ptxexec.NativeCode(); err != nil {
		c.ok, c.detail = false, err.Error()
		return c
	}
	n, err := compileSuite()
	if failed := ptxexec.CompilerFailures(); err == nil && failed != 0 {
		err = fmt.Errorf("the compiler fails on %d functions of the suite's %d kernels", failed, n)
	}
	if err != nil {
		c.ok, c.detail, c.mend = false, err.Error(), "a fault of PVDRM: please report it; what is not compiled is interpreted"
		return c
	}
	c.detail += fmt.Sprintf("; it compiles the suite's %d kernels", n)
	return c
}

// compileSuite compiles the kernels of the suite, and returns how many there are.
func compileSuite() (kernels int, err error) {
	err = suite.EachModule(func(file string, source []byte) error {
		module, err := ptx.Load(file, source)
		if err != nil {
			return err
		}
		p, err := ptxexec.Compile(module)
		if err != nil {
			return err
		}
		kernels += p.CompileAll()
		return nil
	})
	return kernels, err
}

func checkOS() check {
	c := check{name: "system", ok: runtime.GOOS == "linux" && runtime.GOARCH == "amd64", needed: true,
		mend: "PVDRM runs on Linux on x86-64"}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		c.detail = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	return c
}

func checkSandbox() check {
	if err := sandbox.Available(); err != nil {
		return check{name: "sandbox", detail: err.Error(), mend: "backends cannot be confined here: use a kernel with CONFIG_SECCOMP_FILTER, or --sandbox=off"}
	}
	return check{name: "sandbox", ok: true, detail: "seccomp confines backends"}
}

// checkView tries what backends get of their own.
func checkView() []check {
	spaces := check{name: "namespaces", ok: true, detail: "backends get namespaces of their own",
		mend: "backends work without, and see this host's network, mounts and processes as pvdrm does: allow user namespaces, or run pvdrm as root outside of containers"}
	root := check{name: "root", ok: true, detail: "backends get a root directory of their own",
		mend: "backends work without, and can read this host's files before they are confined: run pvdrm outside of containers, or in one that has all of /proc"}
	shared, denied := probeView()
	if shared != nil {
		spaces.ok, spaces.detail = false, shared.Error()
		root.ok, root.detail = false, "it takes namespaces"
	} else if denied != nil {
		root.ok, root.detail = false, denied.Error()
	}
	return []check{spaces, root}
}

// checkIdentity looks whether backends get a user of their own.
func checkIdentity() check {
	c := check{name: "users", ok: true, detail: "backends get a user of their own",
		mend: "backends work without, as the user who starts them: what keeps them from that user's files and processes is seccomp, with namespaces and a root where there are any"}
	identity, err := sandbox.ReserveIdentity()
	if err == nil {
		err = identity.Release()
	}
	if err != nil {
		c.ok, c.detail = false, err.Error()
	}
	return c
}

// checkGroup looks whether backends get a control group of their own.
func checkGroup() check {
	c := check{name: "cgroups", ok: true, detail: "backends get a control group of their own, with bounds of memory, processor and processes",
		mend: "backends work without: limits bound the memory of each process of theirs, and nothing how much of the processor they use"}
	const tiny = 64 << 20
	group, err := cgroup.New("doctor", cgroup.Limits{MemoryBytes: tiny, PIDs: 1, CPUWeight: 1})
	if err == nil {
		err = group.Close()
	}
	if err != nil {
		c.ok, c.detail = false, err.Error()
	}
	return c
}

// sandboxProbe is the hidden command behind probeView.
const sandboxProbe = "sandbox-probe"

func newSandboxProbe() *cobra.Command {
	return &cobra.Command{
		Use:    sandboxProbe,
		Short:  "Try to have a root of its own",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return sandbox.Root{}.Enter() },
	}
}

// probeView has a process get what backends do: namespaces, and a root of its own.
// It returns why it got no namespaces, or else why it got no root.
func probeView() (shared, root error) {
	self, err := os.Executable()
	if err != nil {
		return err, nil
	}
	var said bytes.Buffer
	cmd, shared, err := sandbox.Start(func(own bool) *exec.Cmd {
		c := exec.Command(self, sandboxProbe)
		if !own {
			c = exec.Command(self, "version") // the probe would change this host's mounts
		}
		c.Stderr = &said
		return c
	}, sandbox.Options{PIDs: true})
	if err != nil {
		return err, nil
	}
	if err := cmd.Wait(); err != nil {
		root = errors.New(strings.TrimPrefix(strings.TrimSpace(said.String()), "pvdrm: "))
	}
	return shared, root
}

// checkInterpose looks at this kernel; that of the guest image has what it takes.
func checkInterpose() check {
	if err := interpose.Available(); err != nil {
		return check{name: "pvdrm-run", detail: err.Error(),
			mend: "not needed: programs that make DRM ioctls themselves run in virtual machines only; elsewhere it takes Linux 5.19 with CONFIG_SECCOMP_FILTER and CONFIG_KCMP"}
	}
	return check{name: "pvdrm-run", ok: true, detail: "system calls of programs can be served (seccomp user notification)"}
}

func checkQEMU(ctx context.Context, path string) check {
	c := check{name: "QEMU", needed: true, mend: installQEMU}
	q, err := vmm.FindQEMU(ctx, path)
	switch {
	case err != nil:
		c.detail = err.Error()
	case q.Version.Less(vmm.MinVersionTCG):
		c.detail = fmt.Sprintf("%s at %s works with KVM only; emulation needs %s", q.Version, q.Path, vmm.MinVersionTCG)
	default:
		c.ok, c.detail = true, fmt.Sprintf("%s at %s", q.Version, q.Path)
	}
	return c
}

// checkCard says by which ways guests reach a card of GPUvm (--interface).
func checkCard(ctx context.Context, qemu string) check {
	c := check{name: "card (GPUvm)", ok: true, detail: "guests reach it by doorbells, or by a polled page, and machines by BARs of a PCI device (--traps pci)"}
	if q, err := vmm.FindQEMU(ctx, qemu); err != nil || q.Version.Less(vmm.MinVersionPCI) {
		c.detail = fmt.Sprintf("guests reach it by doorbells, or by a polled page; not by BARs of PCI (--traps pci), which takes vfio-user-pci of QEMU %v: scripts/qemu-pci.sh unpacks one, for --qemu", vmm.MinVersionPCI)
	}
	if runtime.NumCPU() < 2 {
		c.ok, c.detail = false, "guests reach it by doorbells; to poll a page (--traps page, side-core) takes a second processor"
		c.mend = "not needed: leave --traps and --interface side-core out"
	}
	return c
}

// checkKVM looks at what is cheap to see; `pvdrm up` tries whether KVM works.
func checkKVM() check {
	c := check{name: "KVM", mend: "not needed: machines are emulated without it, slower"}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.detail = "there is no /dev/kvm"
	case err != nil:
		c.detail = err.Error()
	default:
		_ = f.Close() // opened to see whether it can be
		c.ok, c.detail = true, "/dev/kvm can be opened; pvdrm up tries whether guests really run in it"
	}
	return c
}

// checkImage looks for a guest image in the bundle, or for what makes one.
func checkImage() check {
	if i, err := bundledImage(); err == nil {
		return check{name: "guest image", ok: true, detail: "Linux " + i.Release + ", beside pvdrm"}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return check{name: "guest image", needed: true, detail: err.Error()}
	}
	return checkTool("apt-get", "the guest image is made from Debian's packages, with apt-get")
}

func checkTool(name, why string) check {
	path, err := exec.LookPath(name)
	if err != nil {
		return check{name: name, needed: true, detail: "not in PATH", mend: why}
	}
	return check{name: name, ok: true, detail: path}
}

func checkMemfd() check {
	fd, err := unix.MemfdCreate("pvdrm-doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return check{name: "memfd", needed: true, detail: err.Error(), mend: "guest memory is shared as memfds: use Linux 4.14 or later, and a sandbox that allows memfd_create"}
	}
	_ = unix.Close(fd) // made to see whether it can be
	return check{name: "memfd", ok: true, detail: "memory can be shared and sealed"}
}

func checkCPUs() check {
	return check{name: "processors", ok: true, detail: fmt.Sprintf("%d: the software GPU uses all of them", runtime.NumCPU())}
}
