package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/frontend"
	"pvdrm/frontend/cuda/rt"
	"pvdrm/internal/missing"
)

func newRun(g *global) *cobra.Command {
	dev := deviceFlags{several: true}
	var card cardFlags
	c := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARGUMENT ...]",
		Short: "Run a program as a local guest, without a virtual machine",
		Long: `Run a program of this host with a GPU of PVDRM: the same protocol as in a
virtual machine, without the machine. PROGRAM is looked for beside pvdrm first,
then in PATH. Its exit code becomes that of pvdrm.

A program that was built against CUDA's driver API, or by nvcc, finds libcuda.so.1,
libcudart.so and libnvidia-ml.so.1 of PVDRM first (LD_LIBRARY_PATH), if they are in
lib beside pvdrm. A CUDA runtime that nvcc linked into it is led there (LD_AUDIT),
unless the program was stripped of its symbol table. Where it runs nvcc, the machine
code gets PTX (NVCC_APPEND_FLAGS gets -lineinfo, unless it is set and empty), and CuPy
keeps its kernels apart (CUPY_CACHE_DIR, unless it is set). PVDRM_CUDA_LOG=errors makes
them say what fails and why. Where the program fails, pvdrm says at its end what it
asked for that is not supported; where it does not, which modules of it were refused.
Its modules may take 4 GiB of memory (--quota module-memory). A program that makes DRM
ioctls itself runs under pvdrm-run.

With several devices (--device softgpu:0,1 or cuda:0,1) the program has as many CUDA
devices, in this order, each with a backend of its own. --vram and --quota are for each;
without --vram, software GPUs share a quarter of the host's memory. --arbiter takes the
sockets of as many arbiters, in the same order (/tmp/a,/tmp/b). CUDA_VISIBLE_DEVICES is
about the GPUs of this host; for the program, set it in front of that: env
CUDA_VISIBLE_DEVICES=1 PROGRAM. Programs that make
DRM ioctls themselves have the first only.`,
		Example: "  pvdrm run -- gdev run --all\n  pvdrm run -- ./vectorAddDrv\n  pvdrm run -- pvdrm-run ./prog\n  pvdrm run --device softgpu:0,1 -- ./simpleMultiGPU",
		Args:    needProgram,
		RunE: func(c *cobra.Command, args []string) error {
			if card.traps == trapsPCI {
				return usageError{errors.New("--traps pci: virtual machines have PCI devices (pvdrm up); choose doorbell or page")}
			}
			if err := errors.Join(card.check(&dev), card.share(&dev, localGuest, "")); err != nil {
				return err
			}
			return runLocal(c.Context(), g, &dev, args, card.args()...)
		},
	}
	c.Flags().SetInterspersed(false)
	dev.add(c)
	card.add(c)
	return c
}

// runLocal runs a program with backends that get further arguments.
func runLocal(ctx context.Context, g *global, dev *deviceFlags, args []string, more ...string) (err error) {
	log, err := g.logger()
	if err != nil {
		return err
	}
	path, err := findProgram(args[0])
	if err != nil {
		return err
	}
	dev.trustModules()
	if err := dev.check(); err != nil {
		return err
	}
	env, err := withLibcuda(os.Environ())
	if err != nil {
		return err
	}
	dir, err := newRunDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.remove()) }()
	backends, sockets, err := startBackends(ctx, g, log, dev, localGuest, dir, more...)
	defer func() {
		for _, b := range backends {
			b.stop()
		}
	}()
	if err != nil {
		return err
	}
	gone, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchBackends(backends, cancel)
	cmd := exec.CommandContext(gone, path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = ofProgram(env)
	if dev.givesStubs() {
		cmd.Env = append(cmd.Env, rt.StubsEnv+"=1")
	}
	for i, socket := range sockets {
		cmd.Env = append(cmd.Env, frontend.SocketEnvOf(i)+"="+socket)
	}
	lacking, err := missing.Listen(dir.path(socketMissing))
	if err != nil {
		log.Warn("the end of a program that fails will not say what it lacked", zap.Error(err))
	} else {
		cmd.Env = append(cmd.Env, missing.Env+"="+lacking.Address())
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it has no GPU without us
	cmd.WaitDelay = 10 * time.Second                                   // then it is killed
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = runCommand(cmd)
	report := lacking.Close()
	if gone.Err() != nil && ctx.Err() == nil {
		return context.Cause(gone)
	}
	var failed exitError
	if ctx.Err() == nil && (err == nil || errors.As(err, &failed)) {
		for _, line := range closingLines(report, err != nil) {
			progress("%s", line)
		}
	}
	return err
}

// startBackends starts a backend for each device, with further arguments, and returns their sockets. Those
// that were started are returned with an error, too.
func startBackends(ctx context.Context, g *global, log *zap.Logger, dev *deviceFlags, kind carrierKind, dir *runDir, more ...string) (backends []*backendProcess, sockets []string, err error) {
	all := dev.each()
	if err := linkPeers(all); err != nil {
		return nil, nil, err
	}
	for i, one := range all {
		suffix := ""
		if i > 0 {
			suffix = fmt.Sprintf("-%d", i)
		}
		socket := dir.path(socketGPU + suffix)
		for n := range one.parts.seats { // machines that share a card
			if n > 0 && kind != localGuest {
				one.parts.sockets = append(one.parts.sockets, partSocket(socket, n))
			}
		}
		b, err := startBackend(ctx, g, log, &one, kind, socket, dir.path(socketStats+suffix), more...)
		if err != nil {
			return backends, nil, errors.Join(err, closePeers(all[i+1:]))
		}
		backends, sockets = append(backends, b), append(sockets, socket)
	}
	return backends, sockets, nil
}

// watchBackends has a program stopped when a GPU of it is gone, and says why.
func watchBackends(backends []*backendProcess, stop context.CancelCauseFunc) {
	for _, b := range backends {
		go func() {
			<-b.Done()
			if b.Err() == nil {
				stop(errors.New("the backend ended, so the program was stopped"))
				return
			}
			stop(fmt.Errorf("the backend ended (%w), so the program was stopped", b.Err()))
		}()
	}
}

// ofProgram is an environment for a program: without the devices of a pvdrm that this one may run in, and
// without what chooses among the GPUs of this host, which it does for a backend that drives one of them.
func ofProgram(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, frontend.SocketEnv) || name == "CUDA_VISIBLE_DEVICES" || name == "CUDA_DEVICE_ORDER"
	})
}

// runCommand runs cmd and turns its exit code into an exitError.
func runCommand(cmd *exec.Cmd) error {
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return fmt.Errorf("running %s: %w", cmd.Args[0], err)
		}
		return nil
	}
	if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		const signalBase = 128 // as shells do
		return exitError{signalBase + int(st.Signal())}
	}
	return exitError{exit.ExitCode()}
}

// findProgram looks for a program beside pvdrm, then in PATH.
func findProgram(name string) (string, error) {
	if !strings.ContainsRune(name, os.PathSeparator) {
		if self, err := os.Executable(); err == nil {
			beside := filepath.Join(filepath.Dir(self), name)
			if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no program %q beside pvdrm or in PATH (in a source tree: `make build` makes bin/gdev)", name)
	}
	return path, nil
}
