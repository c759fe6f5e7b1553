package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/term"

	"pvdrm/backend/arbiter"
	guestimage "pvdrm/guest-image"
	"pvdrm/guest-image/guestinit"
	"pvdrm/internal/missing"
	"pvdrm/vmm"
	"pvdrm/vmm/control"
)

// upFlags are the flags of `pvdrm up`.
type upFlags struct {
	dev     deviceFlags
	cfg     vmm.Config
	cache   string
	console bool
	print   bool
	quiet   bool
	screen  screenFlags
	image   string
	copies  []string
	guests  guestsFlags
	share   shareFlags
	card    cardFlags
	owner   string // socket of a backend that serves the machine; "" for one of its own
}

// quietConsole keeps the text cursor from blinking: each blink would be a
// doorbell of its own.
const quietConsole = "vt.global_cursor_default=0"

// bootTimeout is how long a guest may take to come up, unless a flag says otherwise.
// A busy host that emulates needs minutes.
const bootTimeout = 5 * time.Minute

func newUp(g *global) *cobra.Command {
	f := upFlags{dev: deviceFlags{several: true}}
	c := &cobra.Command{
		Use:   "up [flags] [-- PROGRAM [ARGUMENT ...]]",
		Short: "Boot a virtual machine with a paravirtual GPU, and run a program in it",
		Long: `Boot a virtual machine with the distribution's kernel and a paravirtual GPU, and run
PROGRAM in it. Its output and exit code become those of pvdrm. Where it fails, pvdrm
says what it asked for of CUDA that is not supported. Without PROGRAM, pvdrm opens
a shell. With --guests several machines share the GPU, and PROGRAM runs in all of
them concurrently. When it ends, pvdrm shuts the machine down and removes its
temporary files. The first use builds the image; see pvdrm image.

Programs in the image: gdev, and a shell with the usual small commands.

The image debian also has the distribution's C and C++ libraries, and libcuda.so.1,
libcudart.so, libnvidia-ml.so.1 and libgloop.so of PVDRM. The image mesa also has the
distribution's Mesa, glscene, glmark2-es2-drm and kmscube. With either, a PROGRAM
whose name has a slash is a file of the host: pvdrm copies it to /root and runs it
there.

With --root the guest has a directory of the host as its root file system, with the
programs, libraries and interpreters that are there, and libcuda.so.1, libcudart.so
and libnvidia-ml.so.1 of PVDRM. With --cuda-libs programs in it, and in the other
images with libraries, find PVDRM's libraries in place of cuBLAS, cuDNN and others,
which call those of the host. Where the directory has the working directory, the
program starts in it. --share shows further directories.

With several devices (--device softgpu:0,1 or cuda:0,1) the machine has as many GPUs,
each with a backend of its own, and CUDA programs in it have as many devices; --vram,
--quota and --arbiter are as for pvdrm run. With --guests each machine has all of them,
and one arbiter gives it its turns on all at the same time. Programs that make DRM
ioctls themselves and OpenGL have the first.

With --image oci:NAME the root file system is a container image's, and its variables
and working directory hold: NAME is a reference in a registry (debian:12), a
directory with an OCI layout, or an archive that docker, podman or skopeo saved.
PROGRAM takes the place of the image's entry point, and runs as root.`,
		Example: "  pvdrm up -- gdev run --all\n  pvdrm up --image debian --copy kernels.ptx -- ./prog\n  pvdrm up --image mesa -- glmark2-es2-drm --off-screen\n  pvdrm up --guests 3 --weights 50,30,20 -- gdev run mmul\n  pvdrm up --root / --share results:rw -- python3 train.py\n  pvdrm up --image oci:python:3.12 --share . -- python3 a.py\n  pvdrm up --console -- sh -c 'dmesg | grep -i drm'\n  pvdrm up",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return up(c.Context(), g, &f, args)
		},
	}
	c.Flags().SetInterspersed(false)
	f.dev.add(c)
	f.card.add(c)
	c.Flags().StringVar(&f.owner, "gpu-socket", "", "socket of a pvdrm backend --vhost-user that serves the machine")
	_ = c.Flags().MarkHidden("gpu-socket") // bench modes has several machines on one card with it
	c.Flags().BoolVar(&f.quiet, "quiet-boot", false, "say nothing about a machine that boots")
	_ = c.Flags().MarkHidden("quiet-boot") // benches start many
	c.Flags().StringVar(&f.cfg.QEMU, "qemu", defaultQEMU(), "QEMU to use, name or path")
	c.Flags().StringVar(&f.cfg.Accel, "accel", vmm.Auto, "what runs the guest's processors: kvm, tcg, or auto: kvm where it works")
	c.Flags().IntVar(&f.cfg.MemoryMiB, "memory", vmm.DefaultMemoryMiB, "memory of the machine, MiB")
	c.Flags().IntVar(&f.cfg.CPUs, "cpus", 0, "processors of the machine; 0 means one or two, of half of the host's, which the machines of --guests share")
	c.Flags().StringVar(&f.cfg.CPU, "cpu", "", "processor that the machine has, as QEMU names it, such as max, which has AVX2 where it is emulated (default: the host's with KVM, else one of x86-64-v2)")
	c.Flags().DurationVar(&f.cfg.BootTimeout, "boot-timeout", bootTimeout, "how long the guest may take to come up")
	c.Flags().StringVar(&f.cache, "cache", guestimage.DefaultCacheDir(), "directory for images")
	c.Flags().StringVar(&f.image, "image", guestimage.Base, "image to boot: "+strings.Join(guestimage.Kinds(), ", ")+", or oci: and a container image's name, OCI layout or archive")
	c.Flags().StringArrayVar(&f.copies, "copy", nil, "copy a file of the host to the guest's /root, where the program then runs; may be given several times")
	c.Flags().BoolVar(&f.console, "console", term.IsTerminal(int(os.Stderr.Fd())), "show the guest's console on standard error while it boots and runs (default: at a terminal)")
	c.Flags().BoolVar(&f.print, "print-command", false, "print the QEMU command line, to repeat it by hand")
	c.Flags().StringVar(&f.share.root, "root", "", "directory of the host that the guest has as its root file system, such as /: it reads it, and what it writes stays in its memory")
	c.Flags().StringArrayVar(&f.share.shares, "share", nil, "directory of the host that the guest sees, as DIR (at the same path) or DIR:PATH, to read, or with :rw after it to write as the user who runs pvdrm; may be given several times")
	f.guests.add(c)
	f.screen.add(c)
	return c
}

// progress prints a line about what takes long.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pvdrm: "+format+"\n", args...)
}

// up boots a machine, runs args in it, and takes everything down again.
func up(ctx context.Context, g *global, f *upFlags, args []string) error {
	return upWith(ctx, g, f, args, programInput(), os.Stdout)
}

// upOnce is up with all flags but the device's as they are by default, for
// commands that need a machine for one program with such files, input and output.
func upOnce(ctx context.Context, g *global, dev deviceFlags, image string, copies, args []string, stdin io.Reader, stdout io.Writer) error {
	f := upFlags{dev: dev, card: cardFlags{mode: interfaceDRM, partition: partitionStatic}, cache: guestimage.DefaultCacheDir(), image: image, copies: copies, guests: guestsFlags{count: 1, policy: arbiter.DefaultPolicy}}
	f.cfg = vmm.Config{QEMU: defaultQEMU(), Accel: vmm.Auto, MemoryMiB: vmm.DefaultMemoryMiB, BootTimeout: bootTimeout}
	return upWith(ctx, g, &f, args, stdin, stdout)
}

func upWith(ctx context.Context, g *global, f *upFlags, args []string, stdin io.Reader, stdout io.Writer) (err error) {
	log, err := g.logger()
	if err != nil {
		return err
	}
	if err := errors.Join(f.dev.check(), f.card.check(&f.dev)); err != nil {
		return err
	}
	plan, err := f.plan(args)
	if err != nil {
		return err
	}
	if f.image, err = f.share.image(f.image); err != nil {
		return err
	}
	if err := f.share.apply(&f.cfg); err != nil {
		return err
	}
	if err := f.screen.apply(ctx, &f.cfg); err != nil {
		return err
	}
	defer f.screen.close()
	files, err := filesForGuest(f, args)
	if err != nil {
		return err
	}
	build := func() (guestimage.Image, error) {
		return buildImage(ctx, f.cache, f.image, len(f.share.shares) > 0, f.dev.givesStubs())
	}
	find := build
	if len(f.share.shares) == 0 { // a bundle's image has no modules for them
		find = func() (guestimage.Image, error) { return findImage(f.cache, f.image, build) }
	}
	image, err := find()
	if err != nil {
		return err
	}
	if len(plan) > 1 {
		return f.upSeveral(ctx, g, log, plan, image, files, args)
	}
	if err := f.card.share(&f.dev, localGuest, ""); err != nil {
		return err
	}
	one, err := f.begin(ctx, g, log, f.dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.end()) }()
	if err := serveGuestMetrics(ctx, f.guests.metrics, []*guest{one}, nil); err != nil {
		return err
	}
	one.stdin, one.stdout, one.stderr = stdin, stdout, os.Stderr
	one.say = progress
	code, err := one.live(ctx, log, image, files, args)
	if err == nil && code != 0 {
		err = exitError{code}
	}
	return err
}

// guest is a machine of `pvdrm up`, with its backends, which are another's where owner is set.
type guest struct {
	flags          *upFlags
	run            *runDir
	backends       []*backendProcess // of each device
	sockets        []string          // theirs
	owner          *guest
	stdin          io.Reader
	stdout, stderr io.Writer
	say            func(format string, args ...any) // progress
}

// begin starts a guest's backends. It is to be called on the main goroutine; see main.
func (f *upFlags) begin(ctx context.Context, g *global, log *zap.Logger, dev deviceFlags) (*guest, error) {
	run, err := newRunDir()
	if err != nil {
		return nil, err
	}
	if f.owner != "" {
		return &guest{flags: f, run: run, sockets: []string{f.owner}}, nil
	}
	more := append([]string{"--once"}, f.card.args()...)
	if !f.screen.window() {
		more = append(more, "--draw-pointer")
	}
	o := &guest{flags: f, run: run}
	if o.backends, o.sockets, err = startBackends(ctx, g, log, &dev, f.card.carrier(), run, more...); err != nil {
		return nil, errors.Join(err, o.end())
	}
	return o, nil
}

// end ends the backends and removes what is left.
func (o *guest) end() error {
	if o.owner == nil {
		for _, b := range o.backends {
			b.stop()
		}
	}
	return o.run.remove()
}

// live boots the machine, runs args in it and takes it down again. It returns
// the program's exit code.
func (o *guest) live(ctx context.Context, log *zap.Logger, image guestimage.Image, files guestFiles, args []string) (code int, err error) {
	f, run := o.flags, o.run
	cfg := f.cfg
	cfg.Kernel, cfg.Initrd, cfg.Disk = image.Kernel, image.Initrd, image.Disk
	cfg.Append = quietConsole + cfg.Append
	if f.card.carrier() == vfioUser {
		cfg.PCISocket = o.sockets[0]
	} else {
		cfg.GPUSocket, cfg.MoreGPUs = o.sockets[0], o.sockets[1:]
	}
	cfg.CacheDir, cfg.Log = f.cache, log
	cfg.Progress = func(line string) { o.say("%s", line) }
	cfg.ExtraArgs = []string{"-qmp", "unix:" + strings.ReplaceAll(run.path(socketQMP), ",", ",,") + ",server=on,wait=off"}
	if f.console {
		cfg.Console = o.stderr
		cfg.Append += " loglevel=7" // what Linux finds; without it only what goes wrong
	}
	machine, err := vmm.Start(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() {
		// The program has ended, or something failed: in any case the machine goes now.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if e := machine.Shutdown(end); e != nil && err == nil {
			log.Warn("the guest did not power off by itself", zap.Error(e))
		}
	}()
	unshow := f.screen.show(ctx, log, machine)
	defer func() { err = errors.Join(err, unshow()) }()
	for _, b := range o.backends {
		go func() { // a machine whose GPU is gone is of no use
			select {
			case <-b.Done():
				machine.Kill()
			case <-machine.Done():
			}
		}()
	}
	tell := o.say
	if f.quiet {
		tell = func(string, ...any) {}
	}
	tell("QEMU %s, %s; booting Linux %s", machine.QEMU().Version, machine.Accelerator(), image.Release)
	if f.print {
		o.say("by hand, beside `pvdrm backend --vhost-user %s`:\n%s", strings.Join(o.sockets, "` and `pvdrm backend --vhost-user "), machine.CommandLine())
	}
	booted := time.Now()
	if err := machine.WaitReady(ctx); err != nil {
		return 0, explain(ctx, o.backends, err)
	}
	tell("the guest is up after %.1f s: Linux %s", time.Since(booted).Seconds(), image.Release)
	if err := files.copy(ctx, machine); err != nil {
		return 0, explain(ctx, o.backends, err)
	}
	start := control.Start{Argv: files.args(args), Dir: cmp.Or(files.dir(), image.Container.Dir), Env: append(guestinit.ProgramEnv(image.Container.Env), guestEnv()...)}
	code, err = o.program(ctx, machine, start)
	if err != nil {
		return 0, explain(ctx, o.backends, err)
	}
	if f.screen.screenshot != "" {
		if err := machine.Screenshot(ctx, f.screen.screenshot); err != nil {
			return 0, err
		}
	}
	return code, nil
}

// Exit codes of a program that could not be started, as in a shell.
const (
	notExecutable = 126
	notFound      = 127
)

// programInput is what programs in guests read: our standard input where that is
// a file or a pipe. A terminal's input is for the shell.
func programInput() io.Reader {
	if st, err := os.Stdin.Stat(); err == nil && st.Mode()&os.ModeCharDevice == 0 {
		return os.Stdin
	}
	return nil
}

// program runs a program with the guest's streams, or a shell with our own.
func (o *guest) program(ctx context.Context, machine *vmm.VM, start control.Start) (int, error) {
	if len(start.Argv) == 0 {
		progress("a shell in the guest; `exit` shuts the machine down")
		return machine.Shell(ctx, nil, os.Stdin, os.Stdout)
	}
	exit, err := machine.RunWith(ctx, start, o.stdin, o.stdout, o.stderr)
	code := int(exit.Code)
	if (code == notExecutable || code == notFound) && err != nil {
		o.say("in the guest: %v", err)
		return code, nil
	}
	if err == nil {
		for _, line := range closingLines(missing.Report{Lines: exit.Missing, More: int(exit.More)}, code != 0) {
			o.say("%s", line)
		}
	}
	return code, err
}

// buildImage returns an image of a kind, for machines that see directories of the host, or whose programs
// get stubs of NVIDIA's libraries.
func buildImage(ctx context.Context, cache, kind string, shares, stubs bool) (guestimage.Image, error) {
	cfg := guestimage.Config{
		CacheDir: cache,
		Kind:     kind,
		Shares:   shares,
		Programs: []guestimage.Program{{Name: "gdev"}, {Name: "pvdrm-run"}},
		Progress: func(line string) { progress("%s", line) },
	}
	if kind == guestimage.Mesa {
		cfg.Programs = append(cfg.Programs, guestimage.Program{Name: "glscene"})
	}
	if kind != guestimage.Base {
		dir, err := libraryDir()
		if err != nil {
			return guestimage.Image{}, err
		}
		if cfg.Libraries, err = imageLibraries(dir); err != nil {
			return guestimage.Image{}, err
		}
		if stubs {
			if cfg.Stubs, err = stubLibraries(dir); err != nil {
				return guestimage.Image{}, err
			}
		}
	}
	return guestimage.Build(ctx, cfg)
}

// Sockets of a running machine.
const (
	socketGPU     = "gpu"
	socketQMP     = "qmp"
	socketStats   = "stats"
	socketArbiter = "arbiter"
	socketMissing = "missing"
)

// runDir is the directory with the sockets of one running machine. A lock on it
// tells whether its pvdrm still lives.
type runDir struct {
	dir  string
	lock *os.File
}

// runRoot is where the directories of running machines are.
func runRoot() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		return filepath.Join(d, "pvdrm")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("pvdrm-%d", os.Getuid()))
}

func newRunDir() (*runDir, error) {
	root := runRoot()
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("a directory for sockets: %w (set XDG_RUNTIME_DIR to a directory of your own)", err)
	}
	if st, err := os.Lstat(root); err != nil || !st.IsDir() || st.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return nil, fmt.Errorf("%s belongs to somebody else: set XDG_RUNTIME_DIR to a directory of your own", root)
	}
	guard, err := lockRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = guard.Close() }() // gives the lock up
	for _, dir := range staleDirs(root) {
		_ = os.RemoveAll(dir) // left by a pvdrm that was killed
	}
	dir, err := os.MkdirTemp(root, "vm-")
	if err != nil {
		return nil, fmt.Errorf("a directory for sockets: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &runDir{dir, lock}, nil
}

// lockRoot keeps others from making, cleaning up and removing directories until
// the file is closed.
func lockRoot(root string) (*os.File, error) {
	f, err := os.Open(root)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", root, err), f.Close())
	}
	return f, nil
}

// lockDir takes the lock of a directory, unless its owner lives.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use: %w", dir, err), f.Close())
	}
	return f, nil
}

// staleDirs lists the directories of machines whose pvdrm is gone. Caller holds
// the lock of the root.
func staleDirs(root string) (stale []string) {
	dirs, _ := filepath.Glob(filepath.Join(root, "vm-*")) // the pattern is good
	for _, dir := range dirs {
		if f, err := lockDir(dir); err == nil {
			_ = f.Close() // was a question only
			stale = append(stale, dir)
		}
	}
	return stale
}

func (r *runDir) path(name string) string { return filepath.Join(r.dir, name) }

func (r *runDir) remove() error {
	guard, err := lockRoot(filepath.Dir(r.dir))
	if err != nil {
		return errors.Join(err, r.lock.Close())
	}
	return errors.Join(os.RemoveAll(r.dir), r.lock.Close(), guard.Close())
}
