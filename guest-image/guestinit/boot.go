// Package guestinit is PID 1 of a PVDRM guest: it mounts what programs expect, loads the modules of
// the image, waits for the render node, and serves the control port (package vmm/control) until it is
// told to power off. cmd/pvdrm-init is its main.
//
// # Who owns what
//
// One reaper collects all children. One goroutine reads the control port; each call has a goroutine
// that runs its program, one for each output and one for the input. Lock order: server.mu, job.mu,
// reaper.mu, then the mutexes of package control.
//
// # Kernel command line
//
//	pvdrm.probe            say so on the console and power off: does this machine boot at all?
//	pvdrm.root=TAG         a directory of the host is the root file system, below a layer in memory
//	pvdrm.share=TAG:PATH   a directory of the host to mount, read-only; pvdrm.share.rw= to write to it
//	pvdrm.gpu_timeout=SEC  how long to wait for the render node where there is a GPU (default 30)
package guestinit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/vmm/control"
)

// Paths in the image that its builder and init agree on.
const (
	ModulesDir  = "/lib/modules"       // the modules, as NAME.ko
	ModulesList = "/lib/modules/order" // one file name a line, in the order of loading
	DiskDir     = "/disk"              // where the image's disk is mounted; there only where it has one
)

const (
	renderNode     = "/dev/dri/renderD128"
	diskDevice     = "/dev/vda"
	diskType       = "erofs"
	diskTimeout    = 10 * time.Second
	gpuTimeout     = 30 * time.Second
	portTimeout    = 10 * time.Second
	pollInterval   = 5 * time.Millisecond
	virtioGPU      = "0x0010" // device type of virtio-gpu, as sysfs writes it
	consoleShell   = "/bin/sh"
	maxCommandLine = 4096
)

// Main is all of init. It returns only where it is not PID 1.
func Main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "pvdrm-init is the first process of a PVDRM guest; it is of no use elsewhere")
		os.Exit(2)
	}
	handleSignals()
	if err := boot(); err != nil {
		say("%v; powering off", err)
	}
	powerOff()
}

// handleSignals does what the guest's poweroff, halt and reboot ask init for, and drops whatever else
// would end a Go program: the end of PID 1 is a kernel panic. None is set to be ignored, because
// programs would inherit that.
func handleSignals() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	dropped := make(chan os.Signal, 1) // when full, a signal is lost, as it is to be
	signal.Notify(dropped, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE, unix.SIGALRM, unix.SIGXCPU)
	go func() {
		<-asked
		powerOff()
	}()
}

// say writes a line to the console.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pvdrm-init: "+format+"\n", args...)
}

func boot() error {
	if err := mountAll(); err != nil {
		return err
	}
	cmdline := readCommandLine()
	if cmdline.has(control.ProbeParameter) {
		// As it is: the host looks for it.
		fmt.Fprintln(os.Stderr, control.ProbeMarker)
		return nil
	}
	if err := loadModules(); err != nil {
		// Say so and go on: what is missing will be missed by name.
		say("%v", err)
	}
	root := cmdline.value(RootParameter)
	if root != "" {
		if err := enterRoot(root); err != nil {
			return err
		}
	}
	os.Clearenv()
	for _, e := range defaultEnv {
		name, value, _ := strings.Cut(e, "=")
		_ = os.Setenv(name, value)
	}
	_ = unix.Sethostname([]byte("pvdrm"))
	if err := startLoopback(); err != nil {
		say("%v", err)
	}
	if err := cmdline.mountShares(); err != nil {
		return err // the program would miss its files, or write them where they are lost
	}
	if root == "" {
		if err := mountDisk(); err != nil {
			say("%v", err)
		}
	}
	hello := control.Hello{Kernel: kernelRelease()}
	hello.RenderNode, hello.Note = waitRenderNode(cmdline.seconds("pvdrm.gpu_timeout", gpuTimeout))
	if hello.Note != "" {
		say("%s", hello.Note)
	}
	if hello.RenderNode != "" && slices.Contains(defaultEnv, StubsEnv+"=1") {
		if err := nameNVIDIA("/dev", hello.RenderNode); err != nil {
			say("%v", err)
		}
	}
	if err := startProcessors("/sys/devices/system/cpu"); err != nil {
		say("%v", err)
	}
	banner(hello)
	r := newReaper()
	port, err := openPort()
	if err != nil {
		return fmt.Errorf("no control port: %w", err)
	}
	if port == nil {
		return shellOnConsole(r)
	}
	defer port.Close()
	if err := newServer(port, r).serve(hello); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("control port: %w", err)
	}
	return nil
}

// startProcessors starts the processors that the kernel left off (maxcpus=1). It returns an error for
// those that do not start; the guest works without them.
func startProcessors(dir string) error {
	// The first processor has no such file where it cannot be stopped.
	files, err := filepath.Glob(filepath.Join(dir, "cpu[0-9]*", "online"))
	for _, f := range files {
		if b, e := os.ReadFile(f); e == nil && strings.TrimSpace(string(b)) == "0" {
			err = errors.Join(err, os.WriteFile(f, []byte("1"), 0))
		}
	}
	if err != nil {
		return fmt.Errorf("starting processors: %w", err)
	}
	return nil
}

type mount struct {
	source, target, fstype string
	flags                  uintptr
	data                   string
}

var mounts = []mount{
	{source: "proc", target: "/proc", fstype: "proc", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{source: "sysfs", target: "/sys", fstype: "sysfs", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{source: "devtmpfs", target: "/dev", fstype: "devtmpfs", flags: unix.MS_NOSUID, data: "mode=0755"},
	{source: "devpts", target: "/dev/pts", fstype: "devpts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, data: "mode=0620,ptmxmode=0666"},
	{source: "tmpfs", target: "/dev/shm", fstype: "tmpfs", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=1777"},
	{source: "tmpfs", target: "/tmp", fstype: "tmpfs", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=1777"},
	{source: "tmpfs", target: "/run", fstype: "tmpfs", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=0755"},
}

func mountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for link, target := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2"} {
		if err := os.Symlink(target, link); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// commandLine is the kernel's, cut at blanks.
type commandLine []string

func readCommandLine() commandLine {
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		say("%v", err)
	}
	return strings.Fields(string(b[:min(len(b), maxCommandLine)]))
}

func (c commandLine) has(word string) bool { return slices.Contains(c, word) }

func (c commandLine) seconds(name string, otherwise time.Duration) time.Duration {
	for _, w := range c {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			n, err := strconv.ParseUint(v, 10, 16)
			if err == nil {
				return time.Duration(n) * time.Second
			}
			say("%s is not a number of seconds", w)
		}
	}
	return otherwise
}

// loadModules loads what the image lists, in that order.
func loadModules() error {
	list, err := os.ReadFile(ModulesList)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(list)) {
		if err := loadModule(filepath.Join(ModulesDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", path, err)
	}
	return nil
}

// mountDisk mounts the image's disk where it has one.
func mountDisk() error {
	if _, err := os.Stat(DiskDir); err != nil {
		return nil
	}
	return mountDiskAt(DiskDir)
}

// mountDiskAt mounts the disk, once the machine has it.
func mountDiskAt(target string) error {
	for end := time.Now().Add(diskTimeout); ; time.Sleep(pollInterval) {
		err := unix.Mount(diskDevice, target, diskType, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENXIO) || time.Now().After(end) {
			return fmt.Errorf("the image has a disk, and this machine gives none at %s (%w): start QEMU with it as a virtio-blk device", diskDevice, err)
		}
	}
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// waitRenderNode returns the render node, or why there is none. It waits only where there is a GPU
// that could give one.
func waitRenderNode(limit time.Duration) (node, note string) {
	if !hasVirtioGPU() {
		return "", "this machine has no virtio-gpu device, so there is no render node"
	}
	for end := time.Now().Add(limit); ; time.Sleep(pollInterval) {
		if _, err := os.Stat(renderNode); err == nil {
			return renderNode, ""
		}
		if time.Now().After(end) {
			return "", fmt.Sprintf("there is a virtio-gpu device, but its driver has made no %s in %v: is the backend alive, and does it offer VIRTIO_GPU_F_VIRGL?", renderNode, limit)
		}
	}
}

// nvidiaNodes are files of NVIDIA's driver. JAX looks for them before it asks libcuda for devices, and computes on the
// processors where there are none. Nothing of PVDRM opens them.
var nvidiaNodes = []string{"nvidiactl", "nvidia0"}

// nameNVIDIA makes links of these names to the render node of an NVIDIA GPU, which programs reach by PVDRM's libcuda.
func nameNVIDIA(dir, node string) error {
	for _, name := range nvidiaNodes {
		if err := os.Symlink(node, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("JAX may not find the GPU: %w", err)
		}
	}
	return nil
}

func hasVirtioGPU() bool {
	files, _ := filepath.Glob("/sys/bus/virtio/devices/*/device") // the pattern is good
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && string(bytes.TrimSpace(b)) == virtioGPU {
			return true
		}
	}
	return false
}

// banner greets on the GPU's own console, where there is one.
func banner(h control.Hello) {
	tty, err := os.OpenFile("/dev/tty1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return
	}
	defer tty.Close()
	gpu := h.RenderNode
	if gpu == "" {
		gpu = "no render node"
	}
	fmt.Fprintf(tty, "\nPVDRM guest, Linux %s, %s\n\n", h.Kernel, gpu)
}

// openPort opens the control port. It returns nil where the machine has none.
func openPort() (*os.File, error) {
	if _, err := os.Stat("/sys/class/virtio-ports"); err != nil {
		return nil, nil
	}
	for end := time.Now().Add(portTimeout); ; time.Sleep(pollInterval) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name") // the pattern is good
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil || string(bytes.TrimSpace(b)) != control.PortName {
				continue
			}
			return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(n))), os.O_RDWR|unix.O_NONBLOCK, 0)
		}
		if len(names) == 0 && !hasVirtioConsole() || time.Now().After(end) {
			return nil, nil
		}
	}
}

// hasVirtioConsole says whether a port may still appear.
func hasVirtioConsole() bool {
	found, _ := filepath.Glob("/sys/bus/virtio/drivers/virtio_console/virtio*")
	return len(found) > 0
}

// shellOnConsole is for a machine that a person started without a control port.
func shellOnConsole(r *reaper) error {
	say("no control port: a shell on the console; \"exit\" powers off")
	// The console cannot be a controlling terminal where it is /dev/console itself; a session of its
	// own is all that a shell needs.
	attr := &syscall.ProcAttr{Dir: "/", Env: defaultEnv, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}}
	_, status, err := r.start(consoleShell, []string{"-sh"}, attr)
	if err != nil {
		return fmt.Errorf("run %s: %w", consoleShell, err)
	}
	<-status
	return nil
}

// powerOff does not return.
func powerOff() {
	unix.Sync()
	quietScreen()
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	say("power off: %v", err)
	select {} // PID 1 must not end: that is a kernel panic
}

// quietScreen takes the kernel's console off the framebuffer. At power-off Linux
// stops the virtio devices first and then still prints a line, and the virtio-gpu
// driver warns with a trace when it is to draw on a device that is stopped.
func quietScreen() {
	consoles, _ := filepath.Glob("/sys/class/vtconsole/vtcon*") // the pattern is good
	for _, c := range consoles {
		name, err := os.ReadFile(filepath.Join(c, "name"))
		if err == nil && strings.Contains(string(name), "frame buffer") {
			_ = os.WriteFile(filepath.Join(c, "bind"), []byte("0"), 0) // at worst there is that trace
		}
	}
}
