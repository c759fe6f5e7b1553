package virgl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/egldevice"
	"pvdrm/internal/workers"
)

// WorkerCommand and KeeperCommand are the hidden commands of the program that
// uses this package which call ServeWorker and ServeKeeper.
const (
	WorkerCommand = "virgl-worker"
	KeeperCommand = "virgl-keeper"
)

// socketFD is the socket of a worker, and of a keeper.
const socketFD = workers.Socket

// guardFD is the link to the keeper of a worker that draws on a device of EGL's (nvidia.GLKeeper).
const guardFD = socketFD + 1

// WorkerConfig says how a worker is to work.
type WorkerConfig struct {
	// RenderNode is the device that renders: the path of a DRM device, such as /dev/dri/renderD128; egl:N for
	// the device that EGL lists as the Nth (EGL_EXT_device_enumeration); cuda:N for the GPU that CUDA counts as
	// the Nth. Empty: the processor does (Mesa's llvmpipe).
	RenderNode string
	// Memory is how many bytes the process may allocate; 0 for any number.
	Memory uint64
	// Confine says whether it enters the sandbox.
	Confine bool
	// Look is how long the process looks for requests and fences after the last one before it sleeps. Only one that
	// draws with a GPU of NVIDIA's does, where there are more than two processors. 0: it sleeps at once.
	Look time.Duration
}

// ServeWorker is the program of the process that renders: it opens the library,
// confines itself, and serves the backend at the other end of descriptor 3 until
// that hangs up. It must be called on the main thread.
func ServeWorker(c WorkerConfig) error {
	lib, err := openLibrary()
	return serveWorker(c, lib, err)
}

func serveWorker(c WorkerConfig, lib *library, err error) error {
	return newWorker(lib).main(c, err)
}

func newWorker(lib *library) *worker {
	return &worker{lib: lib, socket: socketFD, memory: newMemory()}
}

// main is the worker from its start, unless err says why it cannot, to its end.
func (w *worker) main(c WorkerConfig, err error) error {
	runtime.LockOSThread()
	unix.CloseOnExec(socketFD)
	if err == nil {
		err = w.start(c)
	}
	if err != nil {
		r := reply{errno: unix.ENODEV, payload: uint32(len(err.Error()))}
		w.out = append(r.append(nil), err.Error()...)
		return w.send()
	}
	return w.serve()
}

// start starts the library, confines the process, and greets the backend.
func (w *worker) start(c WorkerConfig) error {
	if err := errors.Join(c.prepare(), silence()); err != nil {
		return err
	}
	yielded, err := c.yield()
	if err != nil {
		return err
	}
	flags, on, err := c.target()
	if err != nil {
		return err
	}
	w.looks.choose(c.Look, on)
	if code := w.lib.init(flags, on); code != 0 {
		return fmt.Errorf("virglrenderer does not start (%d): it needs EGL and a Mesa driver, packages libegl1 and libgl1-mesa-dri", code)
	}
	w.pollFD = w.lib.pollFD()
	var caps []byte
	for _, id := range []uint32{capsetVirgl, capsetVirgl2} {
		version, size := w.lib.capset(id)
		if size == 0 {
			continue
		}
		data := make([]byte, size)
		w.lib.fillCaps(id, version, &data[0])
		caps = appendCapset(caps, capset{ID: id, Version: version, Data: data})
	}
	if c.Confine {
		if err := c.confine(on, yielded); err != nil {
			return err
		}
	}
	r := reply{payload: uint32(len(caps))}
	w.out = append(r.append(nil), caps...)
	return w.send()
}

// yield has the keeper see what a worker asks of NVIDIA's driver that is to be confined and draws on a device of EGL's:
// whose device that is, it learns only as it starts. Others yield nothing.
func (c *WorkerConfig) yield() (*nvidia.GLYield, error) {
	if !Guarded(c.RenderNode) {
		return nil, nil
	}
	unix.CloseOnExec(guardFD)
	if !c.Confine {
		return nil, os.NewSyscallError("close", unix.Close(guardFD))
	}
	return nvidia.YieldGL(guardFD)
}

// Guarded reports whether a keeper has a link to each worker for a render node: one that EGL lists.
func Guarded(node string) bool {
	_, ok, err := egldevice.Parse(node)
	return ok && err == nil
}

// confine enters the sandbox, with the requests that are needed to draw.
func (c *WorkerConfig) confine(on target, yielded *nvidia.GLYield) error {
	switch {
	case on.display != nil && on.display.nvidia:
		requests, err := yielded.Seal()
		if err != nil {
			return err
		}
		ioctls := make([]sandbox.Ioctl, len(requests))
		for i, r := range requests {
			ioctls[i] = sandbox.Ioctl(r)
		}
		return sandbox.EnterNVIDIARenderer(ioctls)
	case c.RenderNode != "":
		return sandbox.EnterRenderer(sandbox.DRMIoctls)
	}
	return sandbox.EnterRenderer(nil)
}

// target opens what renders.
func (c *WorkerConfig) target() (flags int32, on target, err error) {
	on.node = -1
	if c.RenderNode == "" {
		return flagEGL | flagSurfaceless | flagThreadSync, on, nil
	}
	device, ok, err := egldevice.Parse(c.RenderNode)
	switch {
	case err != nil:
		return 0, on, fmt.Errorf("cannot render: %w, or a path below /dev/dri", err)
	case ok:
		if on.display, err = openDisplay(device); err != nil {
			return 0, on, fmt.Errorf("cannot render on %s: %w; without --render-node this host's processors render", c.RenderNode, err)
		}
		return flagThreadSync, on, nil
	}
	on.node, err = openNode(c.RenderNode)
	return flagEGL | flagThreadSync, on, err
}

// drmMajor is the major number of DRM devices (Linux, include/drm/drm_drv.h).
const drmMajor = 226

// openNode opens a DRM device. The library takes any descriptor, and draws
// elsewhere if it is none.
func openNode(path string) (fd int, err error) {
	var st unix.Stat_t
	if fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		if err = unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != drmMajor) {
			err = errors.New("it is no DRM device")
		}
		if err != nil {
			_ = unix.Close(fd) // was only looked at
		}
	}
	if err != nil {
		return -1, fmt.Errorf("cannot render on %s: %w; `ls /dev/dri` lists the devices of this host, and without --render-node its processors render", path, err)
	}
	return fd, nil
}

// silence sees to it that nobody reads what the libraries print: a guest can have
// them print without end. What ends the process is still told.
func silence() error {
	fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	crash := os.NewFile(uintptr(fd), "stderr")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return errors.Join(err, crash.Close())
	}
	err = debug.SetCrashOutput(crash, debug.CrashOptions{}) // which duplicates it
	for _, fd := range []int{1, 2} {
		err = errors.Join(err, os.NewSyscallError("dup3", unix.Dup3(int(null.Fd()), fd, 0)))
	}
	return errors.Join(err, null.Close(), crash.Close())
}

// prepare sets up what the library finds around it.
func (c *WorkerConfig) prepare() error {
	env := map[string]string{
		"MESA_SHADER_CACHE_DISABLE": "true", // nothing of a guest goes to the host's disks
		"__GL_SHADER_DISK_CACHE":    "0",    // the same of NVIDIA's OpenGL
		"MESA_LOG_FILE":             "/dev/null",
	}
	if c.RenderNode == "" {
		env["LIBGL_ALWAYS_SOFTWARE"] = "true"
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 256}
	if c.Memory != 0 {
		limits[unix.RLIMIT_DATA] = c.Memory
	}
	for what, most := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limiting the renderer: %w", os.NewSyscallError("setrlimit", err))
		}
	}
	return nil
}

// Probe says why there is no virglrenderer here, or nil. It does not start it.
func Probe() error {
	_, err := openLibrary()
	return err
}
