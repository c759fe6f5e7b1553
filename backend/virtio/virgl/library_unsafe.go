package virgl

import (
	"fmt"
	"strings"
	"structs"
	"unsafe"

	"github.com/ebitengine/purego"

	"pvdrm/internal/egldevice"
)

// LibraryName is what Debian's package libvirglrenderer1 installs. It is opened
// at run time, so that programs start where there is none.
const LibraryName = "libvirglrenderer.so.1"

// callbacks is struct virgl_renderer_callbacks of version 2.
type callbacks struct {
	_             structs.HostLayout
	version       int32
	writeFence    uintptr
	createContext uintptr
	destroy       uintptr
	makeCurrent   uintptr
	getDRMFD      uintptr
}

// draws has contexts made on a display of ours. The library's thread for fences also calls makeCurrent.
func (c *callbacks) draws(on *display) {
	c.createContext = purego.NewCallback(func(_ uintptr, _ int32, a *contextArgs) uintptr { return on.create(a) })
	c.destroy = purego.NewCallback(func(_, context uintptr) uintptr {
		on.destroy(context)
		return 0
	})
	c.makeCurrent = purego.NewCallback(func(_ uintptr, _ int32, context uintptr) int32 { return on.makeCurrent(context) })
}

// kept is what the library keeps a pointer to as long as it runs.
var kept callbacks

// openLibrary loads the library and finds the functions. It calls none.
func openLibrary() (*library, error) {
	lib, err := purego.Dlopen(LibraryName, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("no virglrenderer here (%s of package libvirglrenderer1): %w", LibraryName, err)
	}
	if err := probeGL(); err != nil {
		return nil, err
	}
	l := &library{}
	var start func(cookie uintptr, flags int32, cb *callbacks) int32
	var getCapset func(set uint32, version, size *uint32)
	var detachIOV func(id uint32, iov, n uintptr)
	for name, fn := range map[string]any{
		"virgl_renderer_init": &start, "virgl_renderer_poll": &l.poll, "virgl_renderer_get_poll_fd": &l.pollFD,
		"virgl_renderer_get_cap_set": &getCapset, "virgl_renderer_fill_caps": &l.fillCaps,
		"virgl_renderer_context_create": &l.contextCreate, "virgl_renderer_context_destroy": &l.contextDestroy,
		"virgl_renderer_resource_create": &l.resourceCreate, "virgl_renderer_resource_unref": &l.resourceUnref,
		"virgl_renderer_resource_attach_iov": &l.resourceAttachIOV, "virgl_renderer_resource_detach_iov": &detachIOV,
		"virgl_renderer_ctx_attach_resource": &l.ctxAttach, "virgl_renderer_ctx_detach_resource": &l.ctxDetach,
		"virgl_renderer_transfer_read_iov": &l.transferRead, "virgl_renderer_transfer_write_iov": &l.transferWrite,
		"virgl_renderer_submit_cmd": &l.submit, "virgl_renderer_create_fence": &l.createFence,
	} {
		if _, err := purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("%s lacks %s; install version 0.10.4 or later: %w", LibraryName, name, err)
		}
		purego.RegisterLibFunc(fn, lib, name)
	}
	l.capset = func(set uint32) (version, size uint32) {
		getCapset(set, &version, &size)
		return version, size
	}
	l.resourceDetachIOV = func(id uint32) { detachIOV(id, 0, 0) }
	l.init = func(flags int32, on target) int32 {
		kept = callbacks{version: 1, writeFence: purego.NewCallback(func(_ uintptr, fence uint32) uintptr {
			l.retired = fence // inside of poll, on the thread that called it
			return 0
		})}
		if on.node >= 0 {
			kept.version = 2
			kept.getDRMFD = purego.NewCallback(func(uintptr) uintptr { return uintptr(on.node) })
		}
		if on.display != nil {
			kept.draws(on.display)
		}
		return start(1, flags, &kept) // kept is a variable of the package: it stays where it is
	}
	return l, nil
}

// probeGL looks for what libvirglrenderer has libepoxy open when it starts. Where
// that is missing libepoxy ends the process instead of returning an error.
func probeGL() error {
	for _, one := range [][]string{{"libEGL.so.1"}, {"libOpenGL.so.0", "libGL.so.1"}} {
		var err error
		for _, name := range one {
			if _, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("virglrenderer has no OpenGL here (%s of packages libegl1 and libopengl0): %w", strings.Join(one, " or "), err)
		}
	}
	return nil
}

// iovec is struct iovec.
type iovec struct {
	_    structs.HostLayout
	base uintptr
	len  uintptr
}

const iovecBytes = int(unsafe.Sizeof(iovec{}))

// iovecs is memory, which the Go runtime does not know, as a list of iovecs.
// Precondition: mem is page-aligned.
func iovecs(mem []byte) []iovec {
	return unsafe.Slice((*iovec)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/iovecBytes)
}

// addressOf is where b lies. B is a mapping, which Go neither moves nor frees.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// load finds the functions.
func (e *eglFunctions) load() error {
	lib, err := purego.Dlopen(egldevice.Library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("no EGL here (%s of package libegl1): %w", egldevice.Library, err)
	}
	for name, fn := range map[string]any{
		"eglBindAPI": &e.bindAPI, "eglChooseConfig": &e.chooseConfig, "eglCreateContext": &e.createContext,
		"eglDestroyContext": &e.destroyContext, "eglGetCurrentContext": &e.getCurrentContext, "eglGetError": &e.getError,
		"eglInitialize": &e.initialize, "eglMakeCurrent": &e.makeCurrent,
	} {
		if _, err := purego.Dlsym(lib, name); err != nil {
			return fmt.Errorf("%s lacks %s: %w", egldevice.Library, name, err)
		}
		purego.RegisterLibFunc(fn, lib, name)
	}
	return nil
}
