package suite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/cuda"
)

// HostKernels are kernels as code of the host, to run a program without a GPU.
type HostKernels interface {
	// Begin comes before the first launch of a run, and End after the last.
	Begin() error
	// Launch runs a kernel to its end. Parameters lie in params as in the parameter
	// block of the GPU's kernel: each aligned to its size, little-endian, addresses
	// being those of host memory.
	Launch(kernel string, grid, block [2]uint32, params []byte) error
	End()
}

// RunHost runs a program on the processor, with k as its kernels. What it says
// of the program and the error are as those of Run.
func RunHost(name string, k HostKernels, opts Options) (Result, error) {
	b, err := Find(name)
	if err == nil {
		err = CheckScale(max(opts.Scale, 1))
	}
	if err != nil {
		return Result{}, err
	}
	return run(b, func() (device, error) {
		if err := k.Begin(); err != nil {
			return nil, err
		}
		return &hostDevice{kernels: k, memory: map[cuda.DevicePtr]mapped{}}, nil
	}, opts), nil
}

// hostDevice is a device whose memory is that of this process.
type hostDevice struct {
	kernels HostKernels
	memory  map[cuda.DevicePtr]mapped // by address
}

// mapped is memory from the kernel, which does not move.
type mapped []byte

func (m mapped) Bytes() []byte { return m }

func (d *hostDevice) load(string, []byte) error { return nil }

// alloc maps pages that are there already, so that no kernel waits for them.
func (d *hostDevice) alloc(n uint64) (cuda.DevicePtr, error) {
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return 0, fmt.Errorf("mapping %d bytes: %w", n, err)
	}
	p := cuda.DevicePtr(addressOf(m))
	d.memory[p] = m
	return p, nil
}

func (d *hostDevice) allocPinned(n uint64) (pinned, error) {
	p, err := d.alloc(n)
	return d.memory[p], err
}

// at is the memory from p to the end of its allocation, of at least n bytes.
func (d *hostDevice) at(p cuda.DevicePtr, n int) ([]byte, error) {
	for base, m := range d.memory {
		if p >= base && uint64(p-base) <= uint64(len(m)) && len(m)-int(p-base) >= n {
			return m[p-base:], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x are in no allocation", n, uint64(p))
}

func (d *hostDevice) write(dst cuda.DevicePtr, src []byte) error {
	m, err := d.at(dst, len(src))
	copy(m, src)
	return err
}

func (d *hostDevice) read(dst []byte, src cuda.DevicePtr) error {
	m, err := d.at(src, len(dst))
	copy(dst, m)
	return err
}

func (d *hostDevice) writePinned(dst cuda.DevicePtr, src pinned) error {
	return d.write(dst, src.Bytes())
}

func (d *hostDevice) readPinned(dst pinned, src cuda.DevicePtr) error {
	return d.read(dst.Bytes(), src)
}

func (d *hostDevice) fill(p cuda.DevicePtr, word uint32, n uint64) error {
	m, err := d.at(p, int(4*n))
	if err != nil {
		return err
	}
	for i := range n {
		binary.LittleEndian.PutUint32(m[4*i:], word)
	}
	return nil
}

func (d *hostDevice) launch(kernel string, grid, block dim, args ...any) error {
	params, err := parameters(args)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", kernel, err)
	}
	return d.kernels.Launch(kernel, [2]uint32{grid.x, grid.y}, [2]uint32{block.x, block.y}, params)
}

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

func (d *hostDevice) sync() error { return nil } // a launch has ended when it returns

func (d *hostDevice) close() error {
	d.kernels.End()
	var errs []error
	for _, m := range d.memory {
		errs = append(errs, unix.Munmap(m))
	}
	clear(d.memory)
	return errors.Join(errs...)
}
