package cuda

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sync"
	"syscall"

	"pvdrm/drm"
)

// Opener opens PVDRM's DRM file on a device. Each context opens one of its own.
type Opener func() (drm.File, error)

// Driver is the CUDA driver after cuInit.
type Driver struct {
	// Output takes what kernels print; nil stands for os.Stdout. It is to be set
	// before a context is made, and may be called by several goroutines at once.
	Output io.Writer
	// Errors takes what failed assertions of kernels print; nil stands for os.Stderr.
	Errors io.Writer

	info    drm.Info
	devices []*Device

	keys     keys // that contexts have given to other processes
	peers    peering
	portable portable
	registry registry

	mu sync.Mutex // guards Device.spare
}

// Init is cuInit for the devices that openers open: it opens a DRM file of each and reads
// the properties of the device behind it. It is ErrNoDevice when there is none. The first context
// of a device takes its file over, since opening one costs a guest some exits; a program that makes
// no context may call Close.
func Init(open ...Opener) (*Driver, error) {
	if len(open) == 0 {
		return nil, errorf("cuInit", ErrNoDevice, "there is no device")
	}
	d := &Driver{}
	for _, o := range open {
		if err := d.add(o); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if err := d.shareAddresses(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// add opens a device, which is the last one from then on.
func (d *Driver) add(open Opener) error {
	const call = "cuInit"
	f, err := open()
	if err != nil {
		r := resultOf(err)
		// A render node that is not there is a machine without the device.
		if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENXIO) {
			r = ErrNoDevice
		}
		return &Error{call, r, err}
	}
	dev := &Device{driver: d, open: open, spare: f, place: len(d.devices), ordinal: len(d.devices)}
	if err := dev.probe(f); err != nil {
		var r Result
		if !errors.As(err, &r) {
			r = resultOf(err)
		}
		return &Error{call, r, errors.Join(err, f.Close())}
	}
	d.devices = append(d.devices, dev)
	return nil
}

// Close closes the files that Init opened, if no context took them. Contexts are
// not touched, and others can still be made.
func (d *Driver) Close() (err error) {
	for _, dev := range d.devices {
		err = errors.Join(err, dev.closeSpare())
	}
	return err
}

// Show leaves only the devices that which numbers, in that order, which then have the numbers from 0
// on. It is for CUDA_VISIBLE_DEVICES, before anything else is asked of the driver.
func (d *Driver) Show(which []int) (err error) {
	var shown []*Device
	for _, i := range which {
		shown = append(shown, d.devices[i])
	}
	for _, dev := range d.devices {
		if !slices.Contains(shown, dev) {
			err = errors.Join(err, dev.closeSpare())
		}
	}
	for i, dev := range shown {
		dev.ordinal = i
	}
	d.devices = shown
	return err
}

func (dev *Device) closeSpare() error {
	f := dev.takeSpare()
	if f == nil {
		return nil
	}
	if err := f.Close(); err != nil {
		return &Error{"cuInit", resultOf(err), fmt.Errorf("closing its file: %w", err)}
	}
	return nil
}

func (dev *Device) takeSpare() drm.File {
	dev.driver.mu.Lock()
	defer dev.driver.mu.Unlock()
	f := dev.spare
	dev.spare = nil
	return f
}

// openFile opens a file of a device that was there at Init.
func (dev *Device) openFile(call string) (drm.File, error) {
	f, err := dev.open()
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

func (dev *Device) probe(f drm.File) error {
	info, err := f.Version()
	if err != nil {
		return fmt.Errorf("reading the version of the DRM driver: %w", err)
	}
	if info.Name != drm.DriverName || info.Major != drm.DriverMajor {
		return fmt.Errorf("the DRM driver is %q, version %d.%d, but %q, version %d, is needed: %w",
			info.Name, info.Major, info.Minor, drm.DriverName, drm.DriverMajor, ErrDriverMismatch)
	}
	dev.name = info.Desc
	for p := drm.Param(1); int(p) <= drm.NumParams; p++ {
		if p == drm.ParamVRAMUsed {
			continue // changes, and asks the backend
		}
		if dev.params[p], err = f.GetParam(p); err != nil {
			return fmt.Errorf("reading parameter %d of the device: %w", p, err)
		}
	}
	dev.driver.info = info
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
	driver  *Driver
	open    Opener
	spare   drm.File // the file that Init opened, until a context takes it
	place   int      // among the devices of the process
	ordinal int      // among those that the program sees
	name    string
	params  [drm.NumParams + 1]uint64 // by drm.Param
	pools   pools
	graphs  graphMemory

	vram, system addressWindow // of all contexts

	virtual virtual
}

// Ordinal is the CUdevice of the device: its number among those that the program sees.
func (dev *Device) Ordinal() int { return dev.ordinal }

// Name is cuDeviceGetName.
func (dev *Device) Name() string { return dev.name }

// DriverVersion is the CUDA version whose driver API this is, as cuDriverGetVersion writes it.
const DriverVersion = 13000

// Bus is the number of the PCI bus on which the device seems to be alone: 0 for the first of the
// process, whichever of them the program sees.
func (dev *Device) Bus() int { return dev.place }

// BusID is cuDeviceGetPCIBusId: where the paravirtual GPU seems to be.
func (dev *Device) BusID() string { return fmt.Sprintf("0000:%02x:00.0", dev.Bus()) }

// UUID is cuDeviceGetUuid. There is none to ask for: the same device gives the same.
func (dev *Device) UUID() (id [16]byte) {
	what := fmt.Appendf(nil, "pvdrm %s %d", dev.Name(), dev.TotalMem())
	if n := dev.params[drm.ParamDevice]; n != 0 {
		what = fmt.Appendf(what, " %d", n)
	}
	sum := sha256.Sum256(what)
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

// Images reports whether modules may be machine code.
func (dev *Device) Images() bool { return dev.params[drm.ParamImages] != 0 }

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

func (w window) end() uint64 { return w.base + w.size }

// check refuses what is no range of addresses with whole pages.
func (w window) check() error {
	if bits.OnesCount64(w.page) != 1 || w.base+w.size < w.base || w.base%w.page != 0 || w.size < w.page {
		return fmt.Errorf("the driver offers a window of addresses that cannot be: base 0x%x, size 0x%x, page 0x%x", w.base, w.size, w.page)
	}
	return nil
}
