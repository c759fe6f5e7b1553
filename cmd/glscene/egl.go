package main

import (
	"fmt"
)

// Constants of EGL 1.5 and of Mesa's platforms (Khronos' egl.h and eglext.h).
const (
	eglDepthSize       = 0x3025
	eglNone            = 0x3038
	eglNativeVisualID  = 0x302e
	eglSurfaceType     = 0x3033
	eglWindowBit       = 0x0004
	eglRenderableType  = 0x3040
	eglOpenGLES2Bit    = 0x0004
	eglClientVersion   = 0x3098
	eglOpenGLESAPI     = 0x30a0
	eglPlatformGBM     = 0x31d7
	eglPlatformNothing = 0x31dd // EGL_PLATFORM_SURFACELESS_MESA
	eglSyncFence       = 0x30f9

	eglConditionSatisfied = 0x30f6
	eglForever            = ^uint64(0)
)

// eglFunctions are the functions of libEGL that are used here.
type eglFunctions struct {
	BindAPI             func(api uint32) bool
	ChooseConfig        func(display uintptr, attributes *int32, configs *uintptr, room int32, n *int32) bool
	ClientWaitSync      func(display, sync uintptr, flags int32, nanoseconds uint64) int32
	CreateContext       func(display, config, share uintptr, attributes *int32) uintptr
	CreateSync          func(display uintptr, kind uint32, attributes *uintptr) uintptr
	CreateWindowSurface func(display, config, window uintptr, attributes *int32) uintptr
	DestroyContext      func(display, context uintptr) bool
	DestroySurface      func(display, surface uintptr) bool
	DestroySync         func(display, sync uintptr) bool
	GetConfigAttrib     func(display, config uintptr, name int32, value *int32) bool
	GetError            func() int32
	GetPlatformDisplay  func(platform uint32, native uintptr, attributes *uintptr) uintptr
	Initialize          func(display uintptr, major, minor *int32) bool
	MakeCurrent         func(display, draw, read, context uintptr) bool
	SwapBuffers         func(display, surface uintptr) bool
	Terminate           func(display uintptr) bool
}

// context is an OpenGL ES 2 context, current on the thread that made it.
type context struct {
	*gles
	egl                   *eglFunctions
	display, surface, own uintptr // own: the EGLContext
}

// newContext makes a context. Without a window it has no surface: draw into a
// framebuffer. open opens the display, and visual is the pixel format that a window's
// configuration must have.
func newContext(open func(*eglFunctions) (uintptr, error), window func() (uintptr, error), visual int32) (*context, error) {
	c := &context{egl: &eglFunctions{}}
	if err := loadFunctions("libEGL.so.1", "egl", "libegl1", c.egl); err != nil {
		return nil, err
	}
	var err error
	if c.gles, err = loadGLES(); err != nil {
		return nil, err
	}
	if c.display, err = open(c.egl); err != nil {
		return nil, err
	}
	if !c.egl.Initialize(c.display, nil, nil) {
		return nil, c.failed("eglInitialize")
	}
	if !c.egl.BindAPI(eglOpenGLESAPI) {
		return nil, c.failed("eglBindAPI")
	}
	config, err := c.config(window != nil, visual)
	if err != nil {
		return nil, err
	}
	if c.own = c.egl.CreateContext(c.display, config, 0, list(eglClientVersion, 2)); c.own == 0 {
		return nil, c.failed("eglCreateContext")
	}
	if window != nil {
		w, err := window()
		if err != nil {
			return nil, err
		}
		if c.surface = c.egl.CreateWindowSurface(c.display, config, w, nil); c.surface == 0 {
			return nil, c.failed("eglCreateWindowSurface")
		}
	}
	if !c.egl.MakeCurrent(c.display, c.surface, c.surface, c.own) {
		return nil, c.failed("eglMakeCurrent")
	}
	return c, nil
}

// onPlatform opens a display of a platform, by what the platform takes for one.
func onPlatform(platform uint32, native uintptr) func(*eglFunctions) (uintptr, error) {
	return func(e *eglFunctions) (uintptr, error) {
		display := e.GetPlatformDisplay(platform, native, nil)
		if display == 0 {
			return 0, e.failed("eglGetPlatformDisplay")
		}
		return display, nil
	}
}

// config chooses a configuration for OpenGL ES 2.
func (c *context) config(window bool, visual int32) (uintptr, error) {
	want := []int32{eglRenderableType, eglOpenGLES2Bit, eglSurfaceType, 0}
	if window {
		want = []int32{eglRenderableType, eglOpenGLES2Bit, eglSurfaceType, eglWindowBit, eglDepthSize, 16}
	}
	var configs [256]uintptr
	var n int32
	if !c.egl.ChooseConfig(c.display, list(want...), &configs[0], int32(len(configs)), &n) {
		return 0, c.failed("eglChooseConfig")
	}
	for _, config := range configs[:n] {
		var id int32
		if !window || c.egl.GetConfigAttrib(c.display, config, eglNativeVisualID, &id) && id == visual {
			return config, nil
		}
	}
	return 0, fmt.Errorf("none of %d EGL configurations fits", n)
}

func (c *context) failed(what string) error { return c.egl.failed(what) }

func (e *eglFunctions) failed(what string) error {
	return fmt.Errorf("%s failed: EGL error %#x (EGL_LOG_LEVEL=debug says more)", what, e.GetError())
}

// list makes an attribute list.
func list(v ...int32) *int32 {
	v = append(v, eglNone)
	return &v[0]
}

// renderer names what draws.
func (c *context) renderer() string {
	return c.GetString(glRenderer) + ", " + c.GetString(glVersion)
}

// close ends the context, on the thread that made it. What fails there is over too.
func (c *context) close() {
	c.egl.MakeCurrent(c.display, 0, 0, 0)
	c.egl.DestroyContext(c.display, c.own)
	if c.surface != 0 {
		c.egl.DestroySurface(c.display, c.surface)
	}
	c.egl.Terminate(c.display)
}
