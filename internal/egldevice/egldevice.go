// Package egldevice finds a GPU that needs neither a screen nor a node below /dev/dri to draw, such as NVIDIA's in a
// data centre: one of the devices that EGL lists (EGL_EXT_device_enumeration), and its display
// (EGL_EXT_platform_device).
//
// It owns nothing: displays belong to EGL, and are the same for each call. Its functions may be called on any thread.
package egldevice

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ebitengine/purego"
)

// Kind says who numbers devices.
type Kind string

// Kinds.
const (
	EGL  Kind = "egl"  // EGL's own list
	CUDA Kind = "cuda" // CUDA (EGL_NV_device_cuda)
)

// Device names a device.
type Device struct {
	Kind   Kind
	Number int
}

// String returns what Parse takes.
func (d Device) String() string { return fmt.Sprintf("%s:%d", d.Kind, d.Number) }

// Parse reads "egl:N", "cuda:N", or "cuda", which is cuda:0. It reports false for what begins with neither word, which
// may be a path, and an error for a number that is none.
func Parse(name string) (Device, bool, error) {
	kind, digits, numbered := strings.Cut(name, ":")
	d := Device{Kind: Kind(kind)}
	if d.Kind != EGL && d.Kind != CUDA {
		return Device{}, false, nil
	}
	if !numbered && d.Kind == CUDA {
		return d, true, nil
	}
	n, err := strconv.ParseUint(digits, 10, 8)
	if err != nil {
		return Device{}, false, fmt.Errorf("%q names no device: say %s:N or %s:N with a number below 256", name, CUDA, EGL)
	}
	d.Number = int(n)
	return d, true, nil
}

// Constants of EGL's extensions (Khronos' eglext.h).
const (
	extensions     = 0x3055
	platformDevice = 0x313f
	cudaDevice     = 0x323a
)

// most bounds the devices of a host that are looked at.
const most = 64

// functions are those of the extensions.
type functions struct {
	getError           func() int32
	getPlatformDisplay func(platform uint32, native uintptr, attributes *int32) uintptr
	queryDevices       func(room int32, devices *uintptr, n *int32) bool
	queryDevice        func(device uintptr, attribute int32, value *uintptr) bool
	queryDeviceString  func(device uintptr, name int32) string
}

// Library is where they are, in Debian's package libegl1.
const Library = "libEGL.so.1"

func load() (*functions, error) {
	lib, err := purego.Dlopen(Library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("no EGL here (%s of package libegl1): %w", Library, err)
	}
	var e functions
	var address func(name string) uintptr
	purego.RegisterLibFunc(&address, lib, "eglGetProcAddress")
	purego.RegisterLibFunc(&e.getError, lib, "eglGetError")
	for name, fn := range map[string]any{
		"eglGetPlatformDisplayEXT": &e.getPlatformDisplay, "eglQueryDevicesEXT": &e.queryDevices,
		"eglQueryDeviceAttribEXT": &e.queryDevice, "eglQueryDeviceStringEXT": &e.queryDeviceString,
	} {
		at := address(name)
		if at == 0 {
			return nil, fmt.Errorf("%s lacks %s, so it lists no devices: install libglvnd's (package libegl1)", Library, name)
		}
		purego.RegisterFunc(fn, at)
	}
	return &e, nil
}

// Display returns the EGLDisplay of a device, which the caller initializes, and whether it is a GPU of NVIDIA's. The error
// names the devices that there are.
func (d Device) Display() (display uintptr, nvidia bool, err error) {
	e, err := load()
	if err != nil {
		return 0, false, err
	}
	device, nvidia, err := e.find(d)
	if err != nil {
		return 0, false, err
	}
	if display = e.getPlatformDisplay(platformDevice, device, nil); display == 0 {
		return 0, false, fmt.Errorf("EGL has no display on %v: error %#x", d, e.getError())
	}
	return display, nvidia, nil
}

// find finds a device.
func (e *functions) find(d Device) (handle uintptr, nvidia bool, err error) {
	var devices [most]uintptr
	var n int32
	if !e.queryDevices(most, &devices[0], &n) {
		return 0, false, fmt.Errorf("EGL lists no devices: error %#x", e.getError())
	}
	var known []string
	for i, device := range devices[:max(0, min(n, most))] {
		listed := Device{EGL, i}
		nvidia := strings.Contains(e.queryDeviceString(device, extensions), "EGL_NV_device_cuda")
		if d == listed {
			return device, nvidia, nil
		}
		name := listed.String()
		var ordinal uintptr
		if nvidia && e.queryDevice(device, cudaDevice, &ordinal) { // which starts CUDA, in a few tenths of a second
			counted := Device{CUDA, int(ordinal)}
			if d == counted {
				return device, true, nil
			}
			name = fmt.Sprintf("%v (%v)", counted, listed)
		}
		known = append(known, name)
	}
	if len(known) == 0 {
		return 0, false, errors.New("EGL lists no devices: install the EGL of the GPU's driver, for NVIDIA's libnvidia-gl, or Mesa's libegl-mesa0")
	}
	return 0, false, fmt.Errorf("EGL lists no %v, but %s", d, strings.Join(known, ", "))
}
