package gloop

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
)

//go:embed device/*.ptx
var kernels embed.FS

// moduleOf names the PTX of a program's version.
func moduleOf(name string, v Version) string {
	switch v {
	case GLoop:
		return name + ".loop.ptx"
	case NoShared:
		return name + ".noshared.ptx"
	}
	return name + ".ptx"
}

// open makes a context and loads the program's module.
func (j *job) open() error {
	dev, err := j.drv.Device(0)
	if err != nil {
		return err
	}
	ptx, err := j.source()
	if err != nil {
		return err
	}
	ctx, err := dev.CreateContext()
	if err != nil {
		return err
	}
	if j.module, err = ctx.LoadModule(moduleOf(j.name, j.Version), ptx); err != nil {
		return errors.Join(err, ctx.Destroy())
	}
	j.ctx, j.pool, j.functions = ctx, host.NewPool(ctx), map[string]*cuda.Function{}
	return nil
}

// close ends the context.
func (j *job) close() error { return errors.Join(j.pool.Close(), j.ctx.Destroy()) }

// source is the program's PTX.
func (j *job) source() ([]byte, error) {
	if j.PTX != "" {
		return os.ReadFile(filepath.Join(j.PTX, moduleOf(j.name, j.Version)))
	}
	return kernels.ReadFile("device/" + moduleOf(j.name, j.Version))
}

// bytesOf encodes numbers, and structs of them that have their padding, as the GPU lays them out.
func bytesOf(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(fmt.Sprintf("gloop: %T: %v", v, err)) // a type of this package
	}
	return b
}

// alloc makes memory of n zeros.
func (j *job) alloc(n int) (p cuda.DevicePtr, err error) {
	err = j.timed(&j.phases.Data, func() error {
		if p, err = j.ctx.MemAlloc(uint64(max(n, 1))); err != nil {
			return err
		}
		return j.ctx.MemsetD8(p, 0, uint64(max(n, 1)))
	})
	return p, err
}

// upload makes memory with something in it.
func (j *job) upload(v any) (cuda.DevicePtr, error) {
	b, ok := v.([]byte)
	if !ok {
		b = bytesOf(v)
	}
	p, err := j.alloc(len(b))
	if err == nil && len(b) > 0 {
		err = j.write(p, b)
	}
	return p, err
}

// uploads makes memory of each of some values, and zeros where a value is an int, of so many bytes.
func (j *job) uploads(values ...any) (all []cuda.DevicePtr, err error) {
	for _, v := range values {
		var p cuda.DevicePtr
		if n, ok := v.(int); ok {
			p, err = j.alloc(n)
		} else {
			p, err = j.upload(v)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (j *job) write(p cuda.DevicePtr, b []byte) error {
	return j.timed(&j.phases.Copy, func() error { return j.ctx.MemcpyHtoD(p, b) })
}

// clear sets n bytes of memory to a value.
func (j *job) clear(p cuda.DevicePtr, v byte, n int) error {
	return j.timed(&j.phases.Data, func() error { return j.ctx.MemsetD8(p, v, uint64(n)) })
}

// read fills a slice of numbers or structs, or a pointer to one, from the GPU's memory.
func (j *job) read(v any, p cuda.DevicePtr) error {
	b, err := j.readBytes(p, binary.Size(v))
	if err != nil {
		return err
	}
	_, err = binary.Decode(b, binary.LittleEndian, v)
	return err
}

// readBytes reads n bytes of the GPU's memory.
func (j *job) readBytes(p cuda.DevicePtr, n int) ([]byte, error) {
	b := make([]byte, n)
	return b, j.timed(&j.phases.Data, func() error { return j.ctx.MemcpyDtoH(b, p) })
}

// launch queues a kernel.
func (j *job) launch(kernel string, blocks, threads int, args ...any) error {
	return j.timed(&j.phases.Kernel, func() (err error) {
		f := j.functions[kernel]
		if f == nil {
			if f, err = j.module.Function(kernel); err != nil {
				return err
			}
			j.functions[kernel] = f
		}
		j.launches++
		return f.Launch(cuda.LaunchConfig{Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}}, args...)
	})
}

// step launches a kernel and waits for it, as a kernel that is cut at its scheduling points is
// launched: the GPU is free for others when it returns.
func (j *job) step(kernel string, blocks, threads int, args ...any) error {
	if err := j.launch(kernel, blocks, threads, args...); err != nil {
		return err
	}
	if j.Version == Split {
		j.points++
	}
	return j.sync()
}

// sync waits for all kernels.
func (j *job) sync() error { return j.timed(&j.phases.Kernel, j.ctx.Synchronize) }
