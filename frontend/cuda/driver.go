package cuda

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"syscall"

	"pvdrm/drm"
)

// Opener opens PVDRM's DRM file. Each context opens one of its own.
type Opener func() (drm.File, error)

// Driver is the CUDA driver after cuInit.
type Driver struct {
	// Output takes what kernels print; nil stands for os.Stdout. It is to be set
	// before a context is made, and may be called by several goroutines at once.
	Output io.Writer
	// Errors takes what failed assertions of kernels print; nil stands for os.Stderr.
	Errors io.Writer

	open    Opener
	info    drm.Info
	devices []*Device

	keys keys // that contexts have given to other processes

	mu    sync.Mutex
	spare drm.File // the file that Init opened, until a context takes it
}

// Init is cuInit: it opens the DRM file and reads the properties of the device
// behind it. It is ErrNoDevice when there is none. The first context takes the
// file over, since opening one costs a guest some exits; a program that makes no
// context may call Close.
func Init(open Opener) (*Driver, error) {
	const call = "cuInit"
	f, err := open()
	if err != nil {
		r := resultOf(err)
		// A render node that is not there is a machine without the device.
		if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENXIO) {
			r = ErrNoDevice
		}
		return nil, &Error{call, r, err}
	}
	d := &Driver{open: open, spare: f}
	if err := d.probe(f); err != nil {
		var r Result
		if !errors.As(err, &r) {
			r = resultOf(err)
		}
		return nil, &Error{call, r, errors.Join(err, f.Close())}
	}
	return d, nil
}

// Close closes the file that Init opened, if no context took it. Contexts are
// not touched, and others can still be made.
func (d *Driver) Close() error {
	f := d.takeSpare()
	if f == nil {
		return nil
	}
	if err := f.Close(); err != nil {
		return &Error{"cuInit", resultOf(err), fmt.Errorf("closing its file: %w", err)}
	}
	return nil
}

func (d *Driver) takeSpare() drm.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.spare
	d.spare = nil
	return f
}

// openFile opens a file of a device that was there at Init.
func (d *Driver) openFile(call string) (drm.File, error) {
	f, err := d.open()
	if err != nil {
		r := resultOf(err)
		// A backend that cannot be found is gone.
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			r = ErrDeviceUnavailable
		}
		return nil, &Error{call, r, err}
	}
	return f, nil
}

func (d *Driver) probe(f drm.File) error {
	info, err := f.Version()
	if err != nil {
		return fmt.Errorf("reading the version of the DRM driver: %w", err)
	}
	if info.Name != drm.DriverName || info.Major != drm.DriverMajor {
		return fmt.Errorf("the DRM driver is %q, version %d.%d, but %q, version %d, is needed: %w",
			info.Name, info.Major, info.Minor, drm.DriverName, drm.DriverMajor, ErrDriverMismatch)
	}
	dev := &Device{driver: d, name: info.Desc}
	for p := drm.Param(1); int(p) <= drm.NumParams; p++ {
		if p == drm.ParamVRAMUsed {
			continue // changes, and asks the backend
		}
		if dev.params[p], err = f.GetParam(p); err != nil {
			return fmt.Errorf("reading parameter %d of the device: %w", p, err)
		}
	}
	d.info, d.devices = info, []*Device{dev}
	return nil
}

// Version is the version of the DRM driver.
func (d *Driver) Version() (major, minor int) { return d.info.Major, d.info.Minor }

// DeviceCount is cuDeviceGetCount.
func (d *Driver) DeviceCount() int { return len(d.devices) }

// Device is cuDeviceGet. It is ErrInvalidDevice when i is not below DeviceCount.
func (d *Driver) Device(i int) (*Device, error) {
	if i < 0 || i >= len(d.devices) {
		return nil, errorf("cuDeviceGet", ErrInvalidDevice, "device %d of %d", i, len(d.devices))
	}
	return d.devices[i], nil
}

// Device is one GPU. Its properties were read by Init and do not change; its pools do.
type Device struct {
	driver *Driver
	name   string
	params [drm.NumParams + 1]uint64 // by drm.Param
	pools  pools
	graphs graphMemory

	vram, system addressWindow // of all contexts

	virtual virtual
}

// Name is cuDeviceGetName.
func (dev *Device) Name() string { return dev.name }

// DriverVersion is the CUDA version whose driver API this is, as cuDriverGetVersion writes it.
const DriverVersion = 12080

// BusID is cuDeviceGetPCIBusId: where every paravirtual GPU seems to be.
const BusID = "0000:00:00.0"

// UUID is cuDeviceGetUuid. There is none to ask for: the same device gives the same.
func (dev *Device) UUID() (id [16]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "pvdrm %s %d", dev.Name(), dev.TotalMem()))
	copy(id[:], sum[:])
	return id
}

// TotalMem is cuDeviceTotalMem: the memory of the device in bytes.
func (dev *Device) TotalMem() uint64 { return dev.params[drm.ParamVRAMBytes] }

// ComputeCapability is cuDeviceComputeCapability.
func (dev *Device) ComputeCapability() (major, minor int) {
	return int(dev.params[drm.ParamComputeMajor]), int(dev.params[drm.ParamComputeMinor])
}

// MemOps is 1 if streams of the device have operations on words of memory, else 0.
func (dev *Device) MemOps() int { return dev.param(drm.ParamWords) }

// MaxCluster is the most blocks of a cluster, 0 where the device has no clusters.
func (dev *Device) MaxCluster() uint64 { return dev.params[drm.ParamMaxCluster] }

// Textures reports whether kernels may use the textures and surfaces of package gpu/texture.
func (dev *Device) Textures() bool { return dev.params[drm.ParamTextures] != 0 }

// param bounds a property to what a CUDA attribute, an int32 in C, can hold.
func (dev *Device) param(p drm.Param) int {
	return int(min(dev.params[p], 1<<31-1))
}

// window is a range of GPU addresses where objects of one domain are mapped.
type window struct{ base, size, page uint64 }

// readWindow asks the file for a window: three parameters from p on.
func readWindow(f drm.File, p drm.Param) (w window, err error) {
	for i, v := range []*uint64{&w.base, &w.size, &w.page} {
		if *v, err = f.GetParam(p + drm.Param(i)); err != nil {
			return w, err
		}
	}
	return w, w.check()
}

// check is nil if there may be such a window.
func (w window) check() error {
	if bits.OnesCount64(w.page) != 1 || w.base+w.size < w.base || w.base%w.page != 0 || w.size < w.page {
		return fmt.Errorf("the driver offers a window of addresses that cannot be: base 0x%x, size 0x%x, page 0x%x", w.base, w.size, w.page)
	}
	return nil
}
