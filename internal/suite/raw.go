package suite

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"pvdrm/frontend/cuda"
)

// RawDevice is one context of something that runs kernels, to run a program
// without PVDRM: on the driver of a GPU, or on C code of the host.
type RawDevice interface {
	// Load loads the kernels of a module, PTX.
	Load(module string, ptx []byte) error
	// Alloc allocates device memory, and AllocHost memory that both reach.
	Alloc(n uint64) (address uint64, err error)
	AllocHost(n uint64) ([]byte, error)
	// Write and Read copy to and from device memory; of memory from AllocHost if
	// pinned is set. They return when all is copied.
	Write(dst uint64, src []byte, pinned bool) error
	Read(dst []byte, src uint64, pinned bool) error
	// Fill sets n words.
	Fill(dst uint64, word uint32, n uint64) error
	// Launch queues a kernel, which may run at once, and Sync waits for all of them.
	// Parameters lie in params as in the parameter block of the kernel: each aligned to
	// its size, little-endian.
	Launch(kernel string, grid, block [2]uint32, params []byte) error
	Sync() error
	// Close gives everything back.
	Close() error
}

// RunRaw runs a program on the device that open opens. What it returns is as of
// Run.
func RunRaw(name string, open func() (RawDevice, error), opts Options) (Result, error) {
	b, err := Find(name)
	if err == nil {
		err = CheckScale(max(opts.Scale, 1))
	}
	if err != nil {
		return Result{}, err
	}
	return run(b, func() (device, error) {
		d, err := open()
		if err != nil {
			return nil, err
		}
		return rawDevice{d}, nil
	}, opts), nil
}

// rawDevice is a device on a RawDevice.
type rawDevice struct{ raw RawDevice }

// rawMemory is memory from AllocHost.
type rawMemory []byte

func (m rawMemory) Bytes() []byte { return m }

func (d rawDevice) load(name string, ptx []byte) error {
	return d.raw.Load(strings.TrimSuffix(name, ".ptx"), ptx)
}

func (d rawDevice) alloc(n uint64) (cuda.DevicePtr, error) {
	p, err := d.raw.Alloc(n)
	return cuda.DevicePtr(p), err
}

func (d rawDevice) allocPinned(n uint64) (pinned, error) {
	m, err := d.raw.AllocHost(n)
	return rawMemory(m), err
}

func (d rawDevice) write(dst cuda.DevicePtr, src []byte) error {
	return d.raw.Write(uint64(dst), src, false)
}

func (d rawDevice) read(dst []byte, src cuda.DevicePtr) error {
	return d.raw.Read(dst, uint64(src), false)
}

func (d rawDevice) writePinned(dst cuda.DevicePtr, src pinned) error {
	return d.raw.Write(uint64(dst), src.Bytes(), true)
}

func (d rawDevice) readPinned(dst pinned, src cuda.DevicePtr) error {
	return d.raw.Read(dst.Bytes(), uint64(src), true)
}

func (d rawDevice) fill(p cuda.DevicePtr, word uint32, n uint64) error {
	return d.raw.Fill(uint64(p), word, n)
}

func (d rawDevice) launch(kernel string, grid, block dim, args ...any) error {
	params, err := parameters(args)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", kernel, err)
	}
	return d.raw.Launch(kernel, [2]uint32{grid.x, grid.y}, [2]uint32{block.x, block.y}, params)
}

func (d rawDevice) sync() error  { return d.raw.Sync() }
func (d rawDevice) close() error { return d.raw.Close() }

// parameters lays arguments out as C does.
func parameters(args []any) (b []byte, err error) {
	for i, arg := range args {
		switch v := arg.(type) {
		case cuda.DevicePtr:
			b = append(b, make([]byte, -len(b)&7)...)
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		case int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		default:
			return nil, fmt.Errorf("argument %d is a %T", i, arg)
		}
	}
	return b, nil
}
