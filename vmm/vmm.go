// Package vmm starts a guest in QEMU and watches it: accelerator, memory in a shared and sealed memfd,
// the GPU's vhost-user socket, the console, QMP, and a control port through which programs are run in
// the guest (package control).
//
// # What is left behind
//
// Nothing, however this process ends. QEMU is killed by the kernel when the process that started it is
// gone; QMP, the control port and the console are inherited descriptors, and the guest's memory is an
// anonymous file: none has a name on disk that would have to be removed.
//
// # Who owns what
//
// A VM has these goroutines, all of which end with QEMU: one that started QEMU and waits for it, two
// that copy its console and messages, the readers of QMP and of the control port, one that takes QMP
// events, and one that draws the conclusion when QEMU has ended. VM.mu guards the few fields below it
// and is never held while waiting.
package vmm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"pvdrm/vmm/control"
	"pvdrm/vmm/qmp"
)

// Defaults and limits of a Config.
const (
	DefaultMemoryMiB = 512
	minMemoryMiB     = 128
	maxCPUs          = 64
	maxDefaultCPUs   = 2 // more only slow an emulated boot down
	bootTimeoutKVM   = 30 * time.Second
	bootTimeoutTCG   = 5 * time.Minute
	// maxSocketPath is the longest path that a Unix socket can have (unix(7): 108 with the final NUL).
	maxSocketPath = 107
)

// qmpTimeout is how long QEMU may take until it answers. It answers once its devices are there, which
// for the GPU means that the backend has answered. Tests shorten it.
var qmpTimeout = time.Minute

// Config configures a machine to start.
type Config struct {
	QEMU        string    // path or name, DefaultQEMU where empty
	Accel       string    // Auto (also where empty), KVM or TCG
	MemoryMiB   int       // of the guest; DefaultMemoryMiB where 0
	CPUs        int       // of the guest; DefaultCPUs(1) where 0
	CPU         string    // QEMU's name of the processor that the guest sees; the host's with KVM, else cpuTCG, where empty
	Kernel      string    // bzImage, or an ELF kernel with a PVH entry
	Initrd      string    // with PVDRM's init, or the guest cannot be controlled
	Disk        string    // of the image, given to the guest read-only as /dev/vda; none where empty
	Display     string    // QEMU's -display: none, gtk or sdl, with its options; none where empty
	Width       int       // of the guest's screen in pixels; 0 for QEMU's default, 1280x800
	Height      int       // 0 exactly if Width is
	Shares      []Share   // directories of the host that the guest may mount
	Input       bool      // a keyboard and a tablet beside the keyboard and the mouse that every PC has
	Append      string    // added to the kernel's command line
	GPUSocket   string    // of the backend's vhost-user-gpu server; no GPU where empty
	PCISocket   string    // of a vfio-user server, whose PCI device the machine gets; none where empty
	MoreGPUs    []string  // such sockets of further GPUs
	Console     io.Writer // gets the output of the guest's serial line; may be nil
	ExtraArgs   []string  // added to QEMU's command line
	BootTimeout time.Duration
	// CacheDir is where the result of trying KVM is kept. It is tried every time where empty.
	CacheDir string
	Log      *zap.Logger // may be nil
	// Progress is told what takes long, one line at a time. May be nil.
	Progress func(line string)
}

// DefaultCPUs is how many processors each of n guests gets that are started together: one
// or two, of half of the host's. What a guest waits for, a GPU or a renderer in software and the
// backend that polls for it, runs on the other half: on a host of two processors a guest with
// both of them draws a tenth slower than one with one.
func DefaultCPUs(n int) int { return max(1, min(runtime.NumCPU()/2/n, maxDefaultCPUs)) }

func (cfg *Config) log() *zap.Logger {
	if cfg.Log == nil {
		return zap.NewNop()
	}
	return cfg.Log
}

// complete fills in defaults and refuses what cannot work, before QEMU does so in its own words.
func (cfg *Config) complete() error {
	if cfg.MemoryMiB == 0 {
		cfg.MemoryMiB = DefaultMemoryMiB
	}
	if cfg.CPUs == 0 {
		cfg.CPUs = DefaultCPUs(1)
	}
	if cfg.MemoryMiB < minMemoryMiB {
		return fmt.Errorf("a guest with %d MiB of memory does not boot: give it at least %d", cfg.MemoryMiB, minMemoryMiB)
	}
	if cfg.CPUs < 1 || cfg.CPUs > maxCPUs {
		return fmt.Errorf("%d processors: a guest has 1 to %d", cfg.CPUs, maxCPUs)
	}
	if cfg.Kernel == "" {
		return errors.New("no kernel to boot")
	}
	if err := cfg.CheckScreen(); err != nil {
		return err
	}
	if err := cfg.absolute(); err != nil {
		return err
	}
	for _, f := range []string{cfg.Kernel, cfg.Initrd, cfg.Disk} {
		if f == "" {
			continue
		}
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("%w: build the image again (pvdrm image)", err)
		}
	}
	if err := cfg.checkShares(); err != nil {
		return err
	}
	return cfg.checkSockets()
}

// gpus are the sockets of all GPUs.
func (cfg *Config) gpus() []string {
	if cfg.GPUSocket == "" {
		return nil
	}
	return append([]string{cfg.GPUSocket}, cfg.MoreGPUs...)
}

func (cfg *Config) checkSockets() error {
	sockets := cfg.gpus()
	if cfg.PCISocket != "" {
		sockets = append(slices.Clone(sockets), cfg.PCISocket)
	}
	for _, socket := range sockets {
		if len(socket) > maxSocketPath {
			return fmt.Errorf("the GPU's socket %s has a path of %d bytes, and Unix sockets allow %d: use a shorter directory", socket, len(socket), maxSocketPath)
		}
		st, err := os.Stat(socket)
		if err != nil {
			return fmt.Errorf("the GPU's backend is not there: %w: start it first (pvdrm backend)", err)
		}
		if st.Mode().Type() != os.ModeSocket {
			return fmt.Errorf("the GPU's backend is not there: %s is not a socket", socket)
		}
	}
	return nil
}

// VM is a machine that has been started.
type VM struct {
	cfg     Config
	qemu    QEMU
	accel   Accelerator
	began   time.Time
	proc    *process
	console *console
	qmp     *qmp.Client
	control *control.Client
	done    chan struct{} // closed after proc.done, when err is known

	mu       sync.Mutex
	asked    bool   // someone wants the machine to end
	shutdown string // reason in QEMU's SHUTDOWN event
	err      error  // why the machine ended; valid after done
}

// Start starts a machine. Its guest boots on its own; WaitReady waits for that. When ctx ends, the
// machine is killed.
func Start(ctx context.Context, cfg Config) (*VM, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	qemu, err := FindQEMU(ctx, cfg.QEMU)
	if err != nil {
		return nil, err
	}
	if cfg.PCISocket != "" {
		if err := qemu.check(MinVersionPCI, "with a card as a PCI device "); err != nil {
			return nil, err
		}
	}
	accel, err := ChooseAccelerator(ctx, qemu, cfg)
	if err != nil {
		return nil, err
	}
	if accel.Name == TCG && cfg.GPUSocket != "" {
		if err := qemu.check(MinVersionTCG, "without KVM "); err != nil {
			return nil, err
		}
	}
	if cfg.BootTimeout == 0 {
		cfg.BootTimeout = bootTimeoutTCG
		if accel.Name == KVM {
			cfg.BootTimeout = bootTimeoutKVM
		}
	}
	cfg.log().Info("starting QEMU", zap.Stringer("version", qemu.Version), zap.String("accelerator", accel.Name), zap.String("why", accel.Reason))
	return start(ctx, qemu, accel, cfg)
}

// start is Start after all decisions.
func start(ctx context.Context, qemu QEMU, accel Accelerator, cfg Config) (*VM, error) {
	vm := &VM{cfg: cfg, qemu: qemu, accel: accel, began: time.Now(), console: &console{to: cfg.Console}, done: make(chan struct{})}
	qmpConn, qmpFile, err := socketpair("qmp")
	if err != nil {
		return nil, err
	}
	controlConn, controlFile, err := socketpair("control")
	if err != nil {
		qmpConn.Close()
		qmpFile.Close()
		return nil, err
	}
	vm.proc, err = spawn(qemu.Path, arguments(cfg, accel.Name, false), vm.console, qmpFile, controlFile)
	if err != nil {
		qmpConn.Close()
		controlConn.Close()
		return nil, err
	}
	vm.control = control.NewClient(controlConn)
	stop := context.AfterFunc(ctx, vm.Kill)
	qctx, cancel := context.WithTimeout(ctx, qmpTimeout)
	defer cancel()
	vm.qmp, err = qmp.New(qctx, qmpConn)
	if err == nil {
		// An answer to this comes from QEMU's main loop, which runs once all devices are there.
		err = vm.qmp.Execute(qctx, "query-status", nil, nil)
	}
	if err != nil {
		defer stop()
		return nil, vm.notStarted(ctx, err)
	}
	go vm.watch(stop)
	return vm, nil
}

// notStarted ends a QEMU that did not come up and says why.
func (vm *VM) notStarted(ctx context.Context, cause error) error {
	// QEMU that ends by itself has something to say; one that hangs has not.
	if !errors.Is(cause, context.DeadlineExceeded) && ctx.Err() == nil {
		select {
		case <-vm.proc.done:
		case <-time.After(outputGrace):
		}
	}
	vm.proc.kill()
	<-vm.proc.done
	vm.control.Close()
	if vm.qmp != nil {
		vm.qmp.Close()
	}
	switch said := vm.proc.messages(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case said != "":
		return fmt.Errorf("QEMU did not start:\n%s%s", said, vm.hint(said))
	case errors.Is(cause, context.DeadlineExceeded) && vm.cfg.GPUSocket != "":
		return fmt.Errorf("QEMU did not start within %v: the backend at %s does not answer. A backend serves one guest: if it serves another already, start one more (pvdrm backend)", qmpTimeout, vm.cfg.GPUSocket)
	}
	return fmt.Errorf("QEMU did not start: %w", cause)
}

// watch waits for the end of QEMU and determines its cause.
func (vm *VM) watch(stop func() bool) {
	events := make(chan struct{})
	go func() {
		defer close(events)
		for e := range vm.qmp.Events() {
			vm.event(e)
		}
	}()
	<-vm.proc.done
	<-vm.qmp.Done() // its connection ended with QEMU; all events are in
	<-events
	stop()
	vm.mu.Lock()
	vm.err = vm.conclude()
	vm.mu.Unlock()
	if vm.err != nil {
		vm.cfg.log().Debug("QEMU ended", zap.Error(vm.err))
	}
	close(vm.done)
	vm.control.Close()
}

// Wait waits until the machine has ended. It returns nil where the guest powered off or someone here
// wanted it to end, else what happened.
func (vm *VM) Wait() error {
	<-vm.done
	return vm.err
}

// Done is closed when the machine has ended.
func (vm *VM) Done() <-chan struct{} { return vm.done }

// Kill ends the machine at once, as pulling the plug does. It does not wait.
func (vm *VM) Kill() {
	vm.mu.Lock()
	vm.asked = true
	vm.mu.Unlock()
	vm.proc.kill()
}

// Accelerator returns what runs the guest's processors.
func (vm *VM) Accelerator() Accelerator { return vm.accel }

// QEMU returns the QEMU that runs the machine.
func (vm *VM) QEMU() QEMU { return vm.qemu }

// PID returns QEMU's process number.
func (vm *VM) PID() int { return vm.proc.cmd.Process.Pid }
