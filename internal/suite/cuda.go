package suite

import (
	"errors"
	"fmt"

	"pvdrm/frontend/cuda"
)

// cudaDevice is a device on the CUDA driver API.
type cudaDevice struct {
	ctx       *cuda.Context
	module    *cuda.Module
	functions map[string]*cuda.Function
	memory    []cuda.DevicePtr
	host      []*cuda.HostMem
}

// openCUDA makes a context on the first device of drv.
func openCUDA(drv *cuda.Driver) (device, error) {
	dev, err := drv.Device(0)
	if err != nil {
		return nil, err
	}
	ctx, err := dev.CreateContext()
	if err != nil {
		return nil, err
	}
	return &cudaDevice{ctx: ctx, functions: map[string]*cuda.Function{}}, nil
}

func (d *cudaDevice) load(name string, ptx []byte) (err error) {
	d.module, err = d.ctx.LoadModule(name, ptx)
	return err
}

func (d *cudaDevice) alloc(n uint64) (cuda.DevicePtr, error) {
	p, err := d.ctx.MemAlloc(n)
	if err == nil {
		d.memory = append(d.memory, p)
	}
	return p, err
}

func (d *cudaDevice) allocPinned(n uint64) (pinned, error) {
	h, err := d.ctx.MemAllocHost(n)
	if err != nil {
		return nil, err
	}
	d.host = append(d.host, h)
	return h, nil
}

func (d *cudaDevice) write(dst cuda.DevicePtr, src []byte) error { return d.ctx.MemcpyHtoD(dst, src) }
func (d *cudaDevice) read(dst []byte, src cuda.DevicePtr) error  { return d.ctx.MemcpyDtoH(dst, src) }

// writePinned and readPinned take only what allocPinned made.
func (d *cudaDevice) writePinned(dst cuda.DevicePtr, src pinned) error {
	n := uint64(len(src.Bytes()))
	return errors.Join(d.ctx.MemcpyHtoDAsync(dst, src.(*cuda.HostMem), 0, n, nil), d.ctx.Synchronize())
}

func (d *cudaDevice) readPinned(dst pinned, src cuda.DevicePtr) error {
	n := uint64(len(dst.Bytes()))
	return errors.Join(d.ctx.MemcpyDtoHAsync(dst.(*cuda.HostMem), 0, src, n, nil), d.ctx.Synchronize())
}

func (d *cudaDevice) fill(p cuda.DevicePtr, word uint32, n uint64) error {
	return d.ctx.MemsetD32(p, word, n)
}

func (d *cudaDevice) launch(kernel string, grid, block dim, args ...any) error {
	f := d.functions[kernel]
	if f == nil {
		if d.module == nil {
			return fmt.Errorf("kernel %s: no module is loaded", kernel)
		}
		var err error
		if f, err = d.module.Function(kernel); err != nil {
			return err
		}
		d.functions[kernel] = f
	}
	return f.Launch(cuda.LaunchConfig{
		Grid:  [3]uint32{grid.x, grid.y, 1},
		Block: [3]uint32{block.x, block.y, 1},
	}, args...)
}

func (d *cudaDevice) sync() error { return d.ctx.Synchronize() }

// close gives back each thing by its own call, as a careful program does. After
// an error it goes on, since destroying the context frees what is left, but that
// first error tells what happened.
func (d *cudaDevice) close() error {
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, p := range d.memory {
		note(d.ctx.MemFree(p))
	}
	for _, h := range d.host {
		note(h.Free())
	}
	if d.module != nil {
		note(d.module.Unload())
	}
	note(d.ctx.Destroy())
	return first
}
