package capi

import (
	"encoding/binary"
	"errors"
	"regexp"
	"strings"

	"pvdrm/frontend/cuda"
)

// driverVersion is the CUDA version whose driver API this is, as cuDriverGetVersion writes it.
const driverVersion = cuda.DriverVersion

func initDriver(c *call) error {
	if c.u32(0) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(0))
	}
	if c.lib.driver.Load() != nil {
		return nil
	}
	c.lib.once.Lock()
	defer c.lib.once.Unlock()
	if c.lib.driver.Load() != nil {
		return nil
	}
	d, err := c.openDriver()
	if err != nil {
		return err
	}
	d.Output = c.lib.cfg.Output
	if c.lib.cfg.Pages != nil {
		d.SetHostPages(c.lib.cfg.Pages)
	}
	c.lib.driver.Store(d)
	return nil
}

// openDriver opens the devices, and shows those that the program is to see.
func (c *call) openDriver() (*cuda.Driver, error) {
	d, err := cuda.Init(c.lib.cfg.Open...)
	if err != nil {
		return nil, err
	}
	if err := c.showVisible(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func driverGetVersion(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	return to.set(driverVersion)
}

func getErrorName(c *call) error   { return c.errorText(cuda.Result.String) }
func getErrorString(c *call) error { return c.errorText(describe) }

func (c *call) errorText(text func(cuda.Result) string) error {
	to, err := c.out64(1)
	if err != nil {
		return err
	}
	r := cuda.Result(c.i32(0))
	if !r.Known() {
		if err := to.set(0); err != nil {
			return err
		}
		return c.fail(cuda.ErrInvalidValue, "there is no CUresult %d", int(r))
	}
	return to.set(c.lib.text(text(r)))
}

func deviceGet(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	if _, err := c.device(1); err != nil {
		return err
	}
	return to.set(uint64(c.u32(1)))
}

func deviceGetCount(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	return to.set(uint64(c.lib.driver.Load().DeviceCount()))
}

// maxNameRoom is as much of a caller's buffer for a text as is ever written to.
const maxNameRoom = 4096

// textOut is where a text goes: the room is argument i+1.
func (c *call) textOut(i int) (out, error) {
	n := c.i32(i + 1)
	if n <= 0 {
		return out{}, c.fail(cuda.ErrInvalidValue, "room for %d bytes", n)
	}
	if c.u64(i) == 0 {
		return out{}, c.fail(cuda.ErrInvalidValue, "argument %d is a null pointer", i+1)
	}
	return out{c, c.u64(i), min(int(n), maxNameRoom)}, nil
}

// setString writes a text and its zero byte, cut to the room.
func (o out) setString(s string) error {
	return out{o.c, o.addr, min(o.n, len(s)+1)}.setText(s)
}

// textOfDevice is textOut for a text (argument 0) of the device in argument 2.
func (c *call) textOfDevice() (out, *cuda.Device, error) {
	to, err := c.textOut(0)
	if err != nil {
		return to, nil, err
	}
	dev, err := c.device(2)
	return to, dev, err
}

func deviceGetName(c *call) error {
	to, dev, err := c.textOfDevice()
	if err != nil {
		return err
	}
	return to.setString(dev.Name())
}

func deviceGetUUID(c *call) error {
	to, dev, err := c.outAndDevice(0, 16, 1)
	if err != nil {
		return err
	}
	id := dev.UUID()
	return to.write(id[:])
}

func deviceTotalMem(c *call) error {
	to, dev, err := c.outAndDevice(0, 8, 1)
	if err != nil {
		return err
	}
	return to.set(dev.TotalMem())
}

func deviceGetAttribute(c *call) error {
	to, dev, err := c.outAndDevice(0, 4, 2)
	if err != nil {
		return err
	}
	v, ok := attribute(dev, int(c.i32(1)))
	if !ok {
		return c.fail(cuda.ErrInvalidValue, "attribute %d is not known", c.i32(1))
	}
	return to.set(uint64(uint32(v)))
}

// Values of CUdevice_attribute that frontend/cuda does not answer.
const (
	attrLinearWidth             = 69 // elements of a texture in linear memory
	attrSharedPerMultiprocessor = 81
	attrRegsPerMultiprocessor   = 82
	attrSharedOptin             = 97
	attrPersistingL2            = 108
	attrLargestWindow           = 109
	attrSharedReserved          = 111
	attrSyncDomains             = 126
)

const (
	// sharedDefault is the most shared memory of a block whose kernel did not ask for more.
	sharedDefault = 48 << 10
	// ampere is the compute capability × 10 of the first devices of that name.
	ampere = 80

	// largestWindow is the most bytes of an access policy window.
	largestWindow = 128 << 20

	// syncDomains is how many memory synchronization domains devices have from hopper on.
	syncDomains = 4

	// hopper is the compute capability × 10 from which kernels do not wait for those that they launch.
	hopper = 90
)

// lastAttribute is the highest CUdevice_attribute of CUDA 13.0.
const lastAttribute = 147

// attribute is a CUdevice_attribute. What PVDRM does not have is 0, as it is for
// a device of NVIDIA's that does not have it.
func attribute(dev *cuda.Device, a int) (int, bool) {
	get := func(k cuda.Attribute) int {
		v, err := dev.Attribute(k)
		if err != nil {
			return 0 // those asked for below are known
		}
		return v
	}
	if v, ok := realGPU[a]; ok && dev.Images() {
		return v, true
	}
	switch a {
	case 14: // TEXTURE_ALIGNMENT
		return 512, true
	case 33: // PCI_BUS_ID
		return dev.Bus(), true
	case 34, 50: // PCI_DEVICE_ID, PCI_DOMAIN_ID
		return 0, true
	case 51: // TEXTURE_PITCH_ALIGNMENT
		return 32, true
	case 78: // STREAM_PRIORITIES_SUPPORTED
		return 1, true
	case 79, 80, 86: // GLOBAL_, LOCAL_L1_CACHE_SUPPORTED, HOST_NATIVE_ATOMIC_SUPPORTED
		return 0, true
	case int(cuda.AttributeMaxSharedMemoryPerBlock):
		return min(get(cuda.AttributeMaxSharedMemoryPerBlock), sharedDefault), true
	case attrSharedOptin:
		return get(cuda.AttributeMaxSharedMemoryPerBlock), true
	case attrSharedReserved:
		return dev.Multiprocessor().Reserved, true
	case attrSharedPerMultiprocessor:
		return get(cuda.AttributeMaxSharedMemoryPerBlock) + dev.Multiprocessor().Reserved, true
	case attrRegsPerMultiprocessor:
		return get(cuda.AttributeMaxRegistersPerBlock), true
	case attrPersistingL2: // five eighths, as on an H100; nothing changes by it
		if capability(dev) >= ampere {
			return get(cuda.AttributeL2CacheSize) / 8 * 5, true
		}
		return 0, true
	case attrLargestWindow:
		if capability(dev) >= ampere {
			return largestWindow, true
		}
		return 0, true
	case 83, 89: // MANAGED_MEMORY, CONCURRENT_MANAGED_ACCESS
		return 1, true
	case 87: // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
		return 2, true
	case 99, 113: // HOST_REGISTER_SUPPORTED, READ_ONLY_HOST_REGISTER_SUPPORTED
		return dev.RegistersHost(), true
	case 92, 93, 94, 122, 123: // CAN_USE_STREAM_MEM_OPS_V1 to CAN_USE_STREAM_WAIT_VALUE_NOR
		return dev.MemOps(), true
	case 103, 119: // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, MEMPOOL_SUPPORTED_HANDLE_TYPES
		return dev.Shares(), true
	case 125: // IPC_EVENT_SUPPORTED
		return dev.SharesMapped(), true
	case 127: // TENSOR_MAP_ACCESS_SUPPORTED
		if (dev.Textures() || dev.Images()) && capability(dev) >= hopper {
			return 1, true
		}
		return 0, true
	case attrSyncDomains: // fences order writes of all domains, which CUDA allows
		if capability(dev) >= hopper {
			return syncDomains, true
		}
		return 1, true
	case 120: // CLUSTER_LAUNCH
		return int(min(dev.MaxCluster(), 1)), true
	case 102, 115: // VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED, MEMORY_POOLS_SUPPORTED
		return 1, true
	}
	if v, ok := textureLimits[a]; ok && dev.Textures() {
		return v, true
	}
	if v, err := dev.Attribute(cuda.Attribute(a)); err == nil {
		return v, true
	}
	return 0, a > 0 && a <= lastAttribute
}

// realGPU has attributes of NVIDIA's GPUs which the software GPU does not have. PVDRM adds nothing to them.
var realGPU = map[int]int{
	17:  0,  // KERNEL_EXEC_TIMEOUT: kernels are preempted
	79:  1,  // GLOBAL_L1_CACHE_SUPPORTED
	80:  1,  // LOCAL_L1_CACHE_SUPPORTED
	90:  1,  // COMPUTE_PREEMPTION_SUPPORTED
	129: 1,  // UNIFIED_FUNCTION_POINTERS
	131: -1, // HOST_NUMA_ID
}

func deviceComputeCapability(c *call) error {
	major, err := c.out32(0)
	if err != nil {
		return err
	}
	minor, err := c.out32(1)
	if err != nil {
		return err
	}
	dev, err := c.device(2)
	if err != nil {
		return err
	}
	ma, mi := dev.ComputeCapability()
	return errors.Join(major.set(uint64(ma)), minor.set(uint64(mi)))
}

// deviceProperties is the struct CUdevprop: ten ints, some of them arrays of three.
var deviceProperties = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}

func deviceGetProperties(c *call) error {
	to, err := c.out(0, 4*len(deviceProperties))
	if err != nil {
		return err
	}
	dev, err := c.device(1)
	if err != nil {
		return err
	}
	var b []byte
	for _, a := range deviceProperties {
		v, _ := attribute(dev, a)
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return to.write(b)
}

func deviceGetPCIBusID(c *call) error {
	to, dev, err := c.textOfDevice()
	if err != nil {
		return err
	}
	busID := dev.BusID()
	if to.n <= len(busID) {
		return c.fail(cuda.ErrInvalidValue, "room for %d bytes; the ID has %d and a zero byte", to.n, len(busID))
	}
	return to.setString(busID)
}

// busIDs are the forms domain:bus:device.function, domain:bus:device and bus:device.function.
var busIDs = regexp.MustCompile(`^([0-9a-f]{1,8}:[0-9a-f]{1,2}:[0-9a-f]{1,2}(\.[0-7])?|[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-7])$`)

func deviceGetByPCIBusID(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	id, err := c.text(1)
	if err != nil {
		return err
	}
	id = strings.ToLower(id)
	if !busIDs.MatchString(id) {
		return c.fail(cuda.ErrInvalidValue, "%q is no ID of a bus", id)
	}
	for _, dev := range c.devices() {
		if busID := dev.BusID(); id == busID || "0000:"+id == busID || id+".0" == busID {
			return to.set(uint64(dev.Ordinal()))
		}
	}
	return c.fail(cuda.ErrInvalidDevice, "no device at %q", id)
}

// twoDevices are the devices in arguments i and i+1.
func (c *call) twoDevices(i int) (dev, other *cuda.Device, err error) {
	if dev, err = c.device(i); err == nil {
		other, err = c.device(i + 1)
	}
	return dev, other, err
}

// Values of CUdevice_P2PAttribute. The fastest connection has rank 0, and so has none.
const (
	p2pAccess = 2
	lastP2P   = 5
)

// deviceGetP2PAttribute gets (value, attribute, device, device), which have to be two devices. What is said of atomics is
// not told by the backend, so it is no.
func deviceGetP2PAttribute(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	dev, other, err := c.twoDevices(2)
	if err != nil {
		return err
	}
	if dev == other {
		return c.fail(cuda.ErrInvalidDevice, "a device is no peer of its own")
	}
	a := c.u32(1)
	if a == 0 || a > lastP2P {
		return c.fail(cuda.ErrInvalidValue, "the attribute %d of two devices", a)
	}
	if a == p2pAccess && dev.CanAccessPeer(other) {
		return to.set(1)
	}
	return to.set(0)
}

// deviceCanAccessPeer gets (answer, device, device).
func deviceCanAccessPeer(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	dev, other, err := c.twoDevices(1)
	if err != nil {
		return err
	}
	if dev.CanAccessPeer(other) {
		return to.set(1)
	}
	return to.set(0)
}
