package virgl

import (
	"fmt"

	"pvdrm/internal/egldevice"
)

// Constants of EGL 1.5 (Khronos' egl.h).
const (
	eglSurfaceType    = 0x3033
	eglPbufferBit     = 1
	eglRenderableType = 0x3040
	eglOpenGLBit      = 8
	eglNone           = 0x3038
	eglMajorVersion   = 0x3098
	eglMinorVersion   = 0x30fb
	eglOpenGLAPI      = 0x30a2
)

// eglFunctions are the functions of libEGL that are used here.
type eglFunctions struct {
	bindAPI           func(api uint32) bool
	chooseConfig      func(display uintptr, attributes *int32, configs *uintptr, room int32, n *int32) bool
	createContext     func(display, config, share uintptr, attributes *int32) uintptr
	destroyContext    func(display, context uintptr) bool
	getCurrentContext func() uintptr
	getError          func() int32
	initialize        func(display uintptr, major, minor *int32) bool
	makeCurrent       func(display, draw, read, context uintptr) bool
}

// display is a display of EGL's on a device that needs neither a screen nor a node below /dev/dri, such as a GPU of
// NVIDIA's in a data centre. virglrenderer's own displays need GBM or a platform of Mesa's, so it gets its contexts
// from here, by the functions that it calls back (virglrenderer.h, struct virgl_renderer_callbacks).
type display struct {
	egl             eglFunctions
	display, config uintptr
	nvidia          bool // it is a GPU of NVIDIA's
}

// openDisplay opens the display of a device.
func openDisplay(on egldevice.Device) (*display, error) {
	at, nvidia, err := on.Display()
	if err != nil {
		return nil, err
	}
	d := &display{display: at, nvidia: nvidia}
	if err := d.egl.load(); err != nil {
		return nil, err
	}
	var major, minor, n int32
	if !d.egl.initialize(d.display, &major, &minor) {
		return nil, d.failed("does not start there")
	}
	if !d.egl.bindAPI(eglOpenGLAPI) {
		return nil, d.failed("has no OpenGL there")
	}
	want := [...]int32{eglSurfaceType, eglPbufferBit, eglRenderableType, eglOpenGLBit, eglNone}
	if !d.egl.chooseConfig(d.display, &want[0], &d.config, 1, &n) || n != 1 {
		return nil, d.failed("offers no OpenGL without a screen there")
	}
	return d, nil
}

func (d *display) failed(what string) error {
	return fmt.Errorf("EGL %s: error %#x", what, d.egl.getError())
}

// contextArgs is struct virgl_renderer_gl_ctx_param of version 1.
type contextArgs struct {
	_            int32 // version
	shared       bool  // with the thread's current context
	major, minor int32
}

// create makes a context; 0 if there can be none.
func (d *display) create(a *contextArgs) uintptr {
	var with uintptr
	if a.shared {
		with = d.egl.getCurrentContext()
	}
	attributes := [...]int32{eglMajorVersion, a.major, eglMinorVersion, a.minor, eglNone}
	return d.egl.createContext(d.display, d.config, with, &attributes[0])
}

// makeCurrent makes a context, or none, the thread's current one.
func (d *display) makeCurrent(context uintptr) int32 {
	if !d.egl.makeCurrent(d.display, 0, 0, context) {
		return -1
	}
	return 0
}

func (d *display) destroy(context uintptr) { d.egl.destroyContext(d.display, context) }
