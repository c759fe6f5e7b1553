// Package preempt has the two programs of `pvdrm bench preempt`: one whose kernel never ends, and
// one that launches a short kernel now and then. Both kernels tell the time by the GPU's own clock,
// %globaltimer, which all contexts of a GPU share.
package preempt

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"time"

	"pvdrm/frontend/cuda"
)

//go:embed kernels.ptx
var kernels []byte

// Gap is a time in which the endless kernel made no progress, by the GPU's clock in nanoseconds.
type Gap struct{ From, To uint64 }

// Probe is a run of the short kernel.
type Probe struct {
	Took time.Duration // from its launch until the program knew that it had ended
	At   uint64        // when it ran, by the GPU's clock in nanoseconds
}

const (
	maxGaps = 1 << 16
	// leastGap is longer than a turn of the kernel's loop, and shorter than any preemption.
	leastGap = 20 * time.Microsecond
	threads  = 32 // of a block
	gapBytes = 16
)

// program is a context with the kernels loaded.
type program struct {
	ctx    *cuda.Context
	module *cuda.Module
	dev    *cuda.Device
}

func open(drv *cuda.Driver) (p program, err error) {
	if p.dev, err = drv.Device(0); err != nil {
		return p, err
	}
	if p.ctx, err = p.dev.CreateContext(); err != nil {
		return p, err
	}
	if p.module, err = p.ctx.LoadModule("preempt.ptx", kernels); err != nil {
		return p, errors.Join(err, p.ctx.Destroy())
	}
	return p, nil
}

// Endless runs the endless kernel on the whole GPU until stop is closed, and returns its gaps. It
// calls ready when the kernel is queued. As a task the kernel may be run again from its start
// (cuda.Stream.Task), which is the end of a gap.
func Endless(drv *cuda.Driver, task bool, ready func(), stop <-chan struct{}) (gaps []Gap, err error) {
	p, err := open(drv)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.ctx.Destroy()) }()
	kernel, err := p.module.Function("endless")
	if err != nil {
		return nil, err
	}
	// Host memory: the word that stops it, the time of its last turn, the number of gaps, the gaps.
	const beatAt, countAt, gapsAt = 32, 64, 128
	host, err := p.ctx.MemAllocHost(gapsAt + maxGaps*gapBytes)
	if err != nil {
		return nil, err
	}
	clear(host.Bytes())
	stopped, err := p.ctx.MemAlloc(4)
	if err != nil {
		return nil, err
	}
	blocks, err := p.dev.Attribute(cuda.AttributeMultiprocessorCount)
	if err != nil {
		return nil, err
	}
	stream, err := p.ctx.NewStream()
	if err != nil {
		return nil, err
	}
	at := host.DevicePtr()
	launch := func() error {
		if err := p.ctx.MemsetD32Async(stopped, 0, 1, stream); err != nil {
			return err
		}
		return kernel.Launch(cuda.LaunchConfig{Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{threads, 1, 1}, Stream: stream},
			at, stopped, at+beatAt, at+countAt, at+gapsAt, uint32(maxGaps), uint64(leastGap))
	}
	if task {
		err = stream.Task(launch)
	} else {
		err = launch()
	}
	if err != nil {
		return nil, err
	}
	ready()
	<-stop
	if err := host.SetWord(0, 1); err != nil {
		return nil, err
	}
	if err := stream.Synchronize(); err != nil {
		return nil, err
	}
	b := host.Bytes()
	for i := range min(binary.LittleEndian.Uint32(b[countAt:]), maxGaps) {
		g := b[gapsAt+gapBytes*i:]
		gaps = append(gaps, Gap{From: binary.LittleEndian.Uint64(g), To: binary.LittleEndian.Uint64(g[8:])})
	}
	return gaps, nil
}

// Probes runs the short kernel a number of times with pauses between, and calls done after each.
// The first, which loads and warms up, does not count.
func Probes(drv *cuda.Driver, number int, pause time.Duration, done func(Probe)) (err error) {
	p, err := open(drv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.ctx.Destroy()) }()
	kernel, err := p.module.Function("probe")
	if err != nil {
		return err
	}
	// On the whole GPU: a kernel of one block would run beside the endless one.
	blocks, err := p.dev.Attribute(cuda.AttributeMultiprocessorCount)
	if err != nil {
		return err
	}
	host, err := p.ctx.MemAllocHost(8)
	if err != nil {
		return err
	}
	for i := range number + 1 {
		time.Sleep(pause)
		began := time.Now()
		if err := kernel.Launch(cuda.LaunchConfig{Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{1, 1, 1}}, host.DevicePtr()); err != nil {
			return err
		}
		if err := p.ctx.Synchronize(); err != nil {
			return err
		}
		took := time.Since(began)
		if i > 0 {
			done(Probe{Took: took, At: binary.LittleEndian.Uint64(host.Bytes())})
		}
	}
	return nil
}
