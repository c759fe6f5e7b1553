package nvml

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// apiVersion is the major version of the interface.
const apiVersion = "12"

func initialize(c *call) error { return c.lib.init() }
func shutdown(c *call) error   { return c.lib.shutdown() }

// initWithFlags is nvmlInitWithFlags. Its flags allow that there is no GPU, and that none is
// attached to; the first changes nothing where there is no driver either.
func initWithFlags(c *call) error {
	if flags := c.u32(0); flags&^3 != 0 {
		return fail(ErrInvalidArgument, "flags 0x%x", flags)
	}
	return c.lib.init()
}

func driverVersion(c *call) error { return c.setText(0, c.driver) }

// nvmlVersion has the version of the interface, and behind it the version of this library.
func nvmlVersion(c *call) error {
	return c.setText(0, fmt.Sprintf("%s.%d.%d", apiVersion, drm.DriverMajor, drm.DriverMinor))
}

func cudaVersion(c *call) error { return c.set32(0, cuda.DriverVersion) }

// number makes the handler of a property in argument i.
func number(i int, v uint32) func(*call) error {
	return func(c *call) error { return c.set32(i, v) }
}

// none is the answer of an array of things that there are none of, whose number is argument i.
func none(i int) func(*call) error { return number(i, 0) }

func handleByIndex(c *call) error {
	i := c.u32(0)
	if uint64(i) >= uint64(len(c.devices)) {
		return fail(ErrInvalidArgument, "device %d of %d", i, len(c.devices))
	}
	return c.set64(1, c.devices[i].handle())
}

func deviceCount(c *call) error { return c.set32(0, uint32(len(c.devices))) }
func deviceIndex(c *call) error { return c.set32(1, uint32(c.device.index)) }

// handleOf writes the handle of the first device that fits to argument 1.
func (c *call) handleOf(fits func(*device) bool, what string) error {
	i := slices.IndexFunc(c.devices, fits)
	if i < 0 {
		return fail(ErrNotFound, "no device has %s", what)
	}
	return c.set64(1, c.devices[i].handle())
}

// uuid is the answer of cuDeviceGetUuid, as NVML writes it.
func uuid(dev *cuda.Device) string {
	id := dev.UUID()
	h := hex.EncodeToString(id[:])
	return strings.Join([]string{"GPU", h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func handleByUUID(c *call) error {
	id, err := c.text(0)
	if err != nil {
		return err
	}
	return c.handleOf(func(d *device) bool { return id == uuid(d.Device) }, fmt.Sprintf("the UUID %q", id))
}

// handleByUUIDV is handleByUUID for a struct: its version, the kind (1: a string, 2: bytes), and
// the UUID.
func handleByUUIDV(c *call) error {
	const structBytes, text, raw, at = 52, 1, 2, 8
	if err := c.version(0, structBytes, 1); err != nil {
		return err
	}
	b, err := c.read(0, structBytes)
	if err != nil {
		return err
	}
	kind := le32(b[4:])
	if kind != text && kind != raw {
		return fail(ErrInvalidArgument, "there is no kind %d of UUIDs", kind)
	}
	got, _, _ := strings.Cut(string(b[at:]), "\x00")
	return c.handleOf(func(d *device) bool {
		id := d.UUID()
		return kind == text && got == uuid(d.Device) || kind == raw && string(b[at:at+len(id)]) == string(id[:])
	}, "this UUID")
}

func handleBySerial(c *call) error {
	serial, err := c.text(0)
	if err != nil {
		return err
	}
	return fail(ErrNotFound, "no device has the serial number %q", serial)
}

// busIDs are the forms domain:bus:device.function, domain:bus:device and bus:device.function.
var busIDs = regexp.MustCompile(`^(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?$`)

func handleByBusID(c *call) error {
	id, err := c.text(0)
	if err != nil {
		return err
	}
	parts := busIDs.FindStringSubmatch(strings.ToLower(id))
	if parts == nil {
		return fail(ErrInvalidArgument, "%q is no ID of a bus", id)
	}
	const bus = 1 // of domain, bus, device and function, which are 0 but for the bus
	return c.handleOf(func(d *device) bool {
		for i, part := range parts[1:] {
			want := uint64(0)
			if i == bus {
				want = uint64(d.Bus())
			}
			if n, err := strconv.ParseUint(part, 16, 32); part != "" && (err != nil || n != want) {
				return false
			}
		}
		return true
	}, fmt.Sprintf("the bus ID %q", id))
}

func deviceName(c *call) error { return c.setText(1, c.device.Name()) }
func deviceUUID(c *call) error { return c.setText(1, uuid(c.device.Device)) }

// Numbers of nvmlDeviceArchitecture_t, by the compute capability from which on they count.
var architectures = []struct {
	from   int // major * 10 + minor
	number uint32
}{
	{from: 130, number: unknownArchitecture}, {from: 100, number: 10}, {from: 90, number: 9}, {from: 89, number: 8}, {from: 80, number: 7},
	{from: 75, number: 6}, {from: 70, number: 5}, {from: 60, number: 4}, {from: 50, number: 3}, {from: 30, number: 2},
}

const unknownArchitecture = 1<<32 - 1

func (c *call) capability() int {
	major, minor := c.device.ComputeCapability()
	return major*10 + minor
}

func architecture(c *call) error {
	for _, a := range architectures {
		if c.capability() >= a.from {
			return c.set32(1, a.number)
		}
	}
	return c.set32(1, unknownArchitecture)
}

func computeCapability(c *call) error {
	major, minor := c.device.ComputeCapability()
	return errors.Join(c.set32(1, uint32(major)), c.set32(2, uint32(minor)))
}

// coresOf are the CUDA cores of a multiprocessor, by compute capability, as NVIDIA's CUDA
// programming guide lists them.
var coresOf = map[int]uint32{30: 192, 35: 192, 37: 192, 50: 128, 52: 128, 53: 128, 60: 64, 61: 128, 62: 128, 70: 64, 72: 64, 75: 64,
	80: 64, 86: 128, 87: 128, 89: 128, 90: 128, 100: 128, 103: 128, 120: 128}

func cores(c *call) error {
	each, ok := coresOf[c.capability()]
	if !ok {
		return fail(ErrNotSupported, "the cores of capability %d", c.capability())
	}
	n, err := c.device.Attribute(cuda.AttributeMultiprocessorCount)
	if err != nil {
		return err
	}
	return c.set32(1, each*uint32(n))
}

func busWidth(c *call) error {
	n, err := c.file.GetParam(drm.ParamMemBusBits)
	if err != nil {
		return err
	}
	if n == 0 {
		return fail(ErrNotSupported, "the device does not say how wide its bus is")
	}
	return c.set32(1, uint32(n))
}

// pciInfo makes the handler for a version of nvmlPciInfo_t: the older ones are the newest, cut.
func pciInfo(bytes int) func(*call) error {
	return func(c *call) error {
		b := fixedText(c.BusID(), 16)
		b = put32(b, 0, uint32(c.Bus()), 0, 0, 0) // domain, bus, device; ids of device and subsystem, which it has none of
		return c.write(1, append(b, fixedText("0000"+c.BusID(), 32)...)[:bytes])
	}
}

// hostBridge is NVML_TOPOLOGY_HOSTBRIDGE: devices on PCI buses of their own meet there.
const hostBridge = 30

// topology is nvmlDeviceGetTopologyCommonAncestor. As on an H100, a device and itself have none.
func topology(c *call) error {
	if c.peer == c.device {
		return ErrNotSupported
	}
	return c.set32(2, hostBridge)
}

// nearest is nvmlDeviceGetTopologyNearestGpus, for the level in argument 1: how many others there are, and
// as many of them as there is room for.
func nearest(c *call) error {
	room, err := c.read32(2)
	if err != nil {
		return err
	}
	var others []byte
	for _, d := range c.devices {
		if d != c.device && c.u32(1) == hostBridge {
			others = put64(others, d.handle())
		}
	}
	if room > 0 && c.args[3] != 0 && len(others) > 0 {
		others = others[:min(8*uint64(room), uint64(len(others)))]
		if err := c.write(3, others); err != nil {
			return err
		}
	}
	return c.set32(2, uint32(len(others)/8))
}

// onSameBoard is nvmlDeviceOnSameBoard.
func onSameBoard(c *call) error {
	same := uint32(0)
	if c.peer == c.device {
		same = 1
	}
	return c.set32(2, same)
}

// peerStatus is nvmlDeviceGetP2PStatus: devices that reach each other's memory read and write it. Whether by NVLink,
// and with atomic operations, the backend does not tell.
func peerStatus(c *call) error {
	const kinds, read, write, notSupported = 5, 0, 1, 5
	switch kind := c.u32(2); {
	case kind >= kinds:
		return fail(ErrInvalidArgument, "there is no kind %d of access", kind)
	case (kind == read || kind == write) && c.device.CanAccessPeer(c.peer.Device):
		return c.set32(3, 0)
	}
	return c.set32(3, notSupported)
}

func memoryInfo(c *call) error {
	u, err := c.file.Usage()
	if err != nil {
		return err
	}
	return c.write(1, put64(nil, u.VRAM, u.VRAMFree, u.VRAM-min(u.VRAM, u.VRAMFree)))
}

// memoryInfoV2 is memoryInfo with a version, and what the driver reserves: nothing.
func memoryInfoV2(c *call) error {
	const structBytes, number = 40, 2
	if err := c.version(1, structBytes, number); err != nil {
		if resultOf(err) == ErrVersionMismatch {
			return fail(ErrFunctionNotFound, "%w", err) // NVIDIA's library answers this here, and only here
		}
		return err
	}
	u, err := c.file.Usage()
	if err != nil {
		return err
	}
	head := put32(nil, structBytes|number<<24, 0)
	return c.write(1, put64(head, u.VRAM, 0, u.VRAMFree, u.VRAM-min(u.VRAM, u.VRAMFree)))
}

func utilization(c *call) error {
	r, err := c.lib.rates(c.device)
	if err != nil {
		return err
	}
	return c.write(1, put32(nil, r.compute, r.copies))
}

// fieldValues is nvmlDeviceGetFieldValues: each field has a result of its own, and PVDRM has none of them.
func fieldValues(c *call) error {
	const structBytes, resultAt, most = 40, 28, 4096
	n := c.u32(1)
	if n == 0 || n > most {
		return fail(ErrInvalidArgument, "%d fields", n)
	}
	b, err := c.read(2, int(n)*structBytes)
	if err != nil {
		return err
	}
	for at := 0; at < len(b); at += structBytes {
		binary.LittleEndian.PutUint32(b[at+resultAt:], uint32(ErrNotSupported))
	}
	return c.write(2, b)
}
