package virgl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
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
}

// ServeWorker is the program of the process that renders: it opens the library,
// confines itself, and serves the backend at the other end of descriptor 3 until
// that hangs up. It must be called on the main thread.
func ServeWorker(c WorkerConfig) error {
	lib, err := openLibrary()
	return serveWorker(c, lib, err)
}

func serveWorker(c WorkerConfig, lib *library, err error) error {
	runtime.LockOSThread()
	unix.CloseOnExec(socketFD)
	w := &worker{lib: lib, socket: socketFD, memory: newMemory()}
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
	flags, on, err := c.target()
	if err != nil {
		return err
	}
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
		var requests []sandbox.Ioctl
		if c.RenderNode != "" {
			requests = sandbox.DRMIoctls
		}
		if err := sandbox.EnterRenderer(requests); err != nil {
			return err
		}
	}
	r := reply{payload: uint32(len(caps))}
	w.out = append(r.append(nil), caps...)
	return w.send()
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
		if on.display.nvidia && c.Confine {
			return 0, on, fmt.Errorf("cannot render on %s: the requests of NVIDIA's OpenGL are not filtered yet, so the process that renders cannot be confined; --sandbox off renders for guests that you trust", c.RenderNode)
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
