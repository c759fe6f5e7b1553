package softgpu

import (
	"fmt"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/softgpu/hw"
)

// turnSlices is how many slices the copy engine does before it looks whether another channel
// waits: it bounds how long others wait, as a slice bounds how long Unmap and Close do, which
// wait for the address space.
const turnSlices = 16

// transfer runs a job on the copy engine.
func (c *channel) transfer(j hw.Job) error {
	e := &c.ctx.dev.copy
	for at := between; ; at = moving {
		if err := c.enter(e, at); err != nil {
			return err
		}
		start, before := time.Now(), c.moved
		more, err := c.hold(e, j)
		used := time.Since(start)
		if c.ctx.dev.config.ModelTime {
			used = time.Duration((c.moved - before) / copyBytesPerNS)
		}
		again := err == nil && more
		e.release(use{took: used, whole: used, commands: 1, again: again})
		if !again {
			return err
		}
	}
}

// hold does slices of a job until it ends, fails, or has to give way.
func (c *channel) hold(e *engine, j hw.Job) (more bool, err error) {
	for n := 1; ; n++ {
		more, fault := c.slice(j)
		if fault != nil {
			return false, c.fault(fault)
		}
		if !more {
			return false, nil
		}
		if err := c.ctx.Err(); err != nil {
			return false, err
		}
		if n%turnSlices == 0 && e.contended() || c.ctx.hold.mode.Load() == preempted {
			return true, nil
		}
		if e.gate != nil && e.gate.Preempted(e.kind) {
			c.ctx.dev.preemptions.Add(1)
			return true, nil
		}
	}
}

// slice does one step of a job.
func (c *channel) slice(j hw.Job) (more bool, fault *gpu.LostError) {
	s := c.ctx.space
	s.mu.RLock()
	defer s.mu.RUnlock()
	slice := hw.NewSlice(c.view().View) // with the lock, so that settle waits for it
	defer func() {
		c.moved += slice.Moved
		c.ctx.dev.copyBytes.Add(slice.Moved)
	}()
	defer touch(&fault)
	more, bad := j.Step(slice)
	if bad != nil {
		fault = &gpu.LostError{Cause: gpu.LostAddress, Addr: bad.Addr, Write: bad.Write, Detail: "not mapped"}
		if bad.Mapped {
			fault.Detail = "mapped read-only"
		}
	}
	return more, fault
}

// touch turns a fault of the host into one of the context: system memory that
// its owner truncated away. It is to be deferred in a goroutine that has set
// debug.SetPanicOnFault. Other panics go on.
func touch(fault **gpu.LostError) {
	p := recover()
	if p == nil {
		return
	}
	if _, ok := p.(interface{ Addr() uintptr }); !ok {
		panic(p)
	}
	*fault = &gpu.LostError{Cause: gpu.LostDevice, Detail: fmt.Sprintf("system memory is gone: %v", p)}
}

func (c *channel) copyBytes(cmd *gpu.Copy) error {
	if err := check.Copy(cmd); err != nil {
		return err
	}
	return c.transfer(&hw.Copy{Dst: cmd.Dst, Src: cmd.Src, DstPitch: cmd.DstPitch, SrcPitch: cmd.SrcPitch,
		Rows: hw.Rows{Width: cmd.Width, Height: cmd.Height}})
}

func (c *channel) fill(cmd *gpu.Fill) error {
	if err := check.Fill(cmd); err != nil {
		return err
	}
	return c.transfer(&hw.Fill{Dst: cmd.Dst, Pitch: cmd.Pitch, Pattern: cmd.Pattern, Size: cmd.Size,
		Rows: hw.Rows{Width: cmd.Width, Height: cmd.Height}})
}

func (c *channel) timestamp(cmd *gpu.Timestamp) error {
	if err := check.Timestamp(cmd); err != nil {
		return err
	}
	return c.transfer(hw.Stamp{VA: cmd.VA, Now: c.ctx.dev.now})
}
