package main

import "fmt"

// Constants of Mesa's gbm.h and of the kernel's drm_fourcc.h.
const (
	gbmFormatXRGB8888 = 0x34325258
	gbmUseScanout     = 1 << 0
	gbmUseRendering   = 1 << 2
)

// gbmFunctions are the functions of libgbm that are used here.
type gbmFunctions struct {
	CreateDevice     func(fd int32) uintptr                                 `name:"create_device"`
	SurfaceCreate    func(device uintptr, w, h, format, use uint32) uintptr `name:"surface_create"`
	SurfaceLockFront func(surface uintptr) uintptr                          `name:"surface_lock_front_buffer"`
	SurfaceRelease   func(surface, buffer uintptr)                          `name:"surface_release_buffer"`
	DeviceDestroy    func(device uintptr)                                   `name:"device_destroy"`
	SurfaceDestroy   func(surface uintptr)                                  `name:"surface_destroy"`
	BufferHandle     func(buffer uintptr) uint64                            `name:"bo_get_handle"`
	BufferStride     func(buffer uintptr) uint32                            `name:"bo_get_stride"`
}

// screen is an output of the display on which a context draws.
type screen struct {
	*context
	gbm           *gbmFunctions
	kms           *kms
	device        uintptr
	window, shown uintptr           // the buffer on the screen; 0 before the first
	framebuffers  map[uint64]uint32 // by GEM handle
}

// newScreen takes the first connected output of a card, with a mode of that size (WxH), or the
// one that it prefers.
func newScreen(card, mode string) (s *screen, err error) {
	s = &screen{gbm: &gbmFunctions{}, framebuffers: map[uint64]uint32{}}
	if s.kms, err = openKMS(card, mode); err != nil {
		return nil, err
	}
	if err := loadFunctions("libgbm.so.1", "gbm_", "libgbm1", s.gbm); err != nil {
		return nil, err
	}
	if s.device = s.gbm.CreateDevice(int32(s.kms.file.Fd())); s.device == 0 {
		return nil, fmt.Errorf("GBM does not work on %s", card)
	}
	s.context, err = newContext(onPlatform(eglPlatformGBM, s.device), func() (uintptr, error) {
		s.window = s.gbm.SurfaceCreate(s.device, s.kms.width(), s.kms.height(), gbmFormatXRGB8888, gbmUseScanout|gbmUseRendering)
		if s.window == 0 {
			return 0, fmt.Errorf("GBM makes no surface of %dx%d pixels", s.kms.width(), s.kms.height())
		}
		return s.window, nil
	}, gbmFormatXRGB8888)
	return s, err
}

// show brings what was drawn to the screen, and waits until it is there.
func (s *screen) show() error {
	if !s.egl.SwapBuffers(s.display, s.surface) {
		return s.failed("eglSwapBuffers")
	}
	buffer := s.gbm.SurfaceLockFront(s.window)
	if buffer == 0 {
		return fmt.Errorf("GBM has no front buffer")
	}
	handle := s.gbm.BufferHandle(buffer)
	fb, ok := s.framebuffers[handle]
	if !ok {
		var err error
		if fb, err = s.kms.addFramebuffer(uint32(handle), s.gbm.BufferStride(buffer)); err != nil {
			return err
		}
		s.framebuffers[handle] = fb
	}
	var err error
	if s.shown == 0 {
		err = s.kms.set(fb)
	} else if err = s.kms.flip(fb); err == nil {
		s.gbm.SurfaceRelease(s.window, s.shown)
	}
	s.shown = buffer
	return err
}

// close gives the output up: the console has it again.
func (s *screen) close() {
	s.context.close()
	s.gbm.SurfaceDestroy(s.window)
	s.gbm.DeviceDestroy(s.device)
	_ = s.kms.file.Close() // its framebuffers go with it
}
