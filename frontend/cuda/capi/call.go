package capi

import (
	"encoding/binary"
	"fmt"
	"math"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/progmem"
)

// call is one call of an entry point.
type call struct {
	lib       *Library
	entry     *entry
	thread    *thread
	args      *[MaxArgs]uint64
	stack     Stack
	perThread bool // stream 0 is the thread's
}

// The ABI leaves the upper half of a 32-bit argument undefined, so it is cut off.
func (c *call) u32(i int) uint32 { return uint32(c.args[i]) }
func (c *call) i32(i int) int32  { return int32(c.args[i]) }
func (c *call) u64(i int) uint64 { return c.args[i] }

func (c *call) devicePtr(i int) cuda.DevicePtr { return cuda.DevicePtr(c.args[i]) }

// fail makes an error with a reason.
func (c *call) fail(r cuda.Result, format string, args ...any) error {
	return &cuda.Error{Call: c.entry.name, Result: r, Err: fmt.Errorf(format, args...)}
}

// out is where a result goes. It must be asked for before anything is made that
// the program could not free without the result.
type out struct {
	c    *call
	addr uint64
	n    int
}

// out checks that n bytes at the address in argument i can be written, and leaves
// them as they are: a call that fails changes nothing.
func (c *call) out(i, n int) (out, error) {
	o := out{c, c.args[i], n}
	if o.addr == 0 {
		return o, c.fail(cuda.ErrInvalidValue, "argument %d is a null pointer", i+1)
	}
	if c.direct(o.addr, n) != nil {
		return o, nil
	}
	now, err := c.read(o.addr, n)
	if err != nil {
		return o, err
	}
	return o, o.write(now)
}

// direct is how n bytes at an address are reached without the kernel, or nil: on the stack of the thread.
func (c *call) direct(addr uint64, n int) progmem.Direct {
	if !c.stack.holds(addr, n) {
		return nil
	}
	d, _ := c.lib.cfg.Memory.(progmem.Direct)
	return d
}

func (c *call) out32(i int) (out, error) { return c.out(i, 4) }
func (c *call) out64(i int) (out, error) { return c.out(i, 8) }

// noFlags refuses flags in argument i, of a call that has none.
func (c *call) noFlags(i int) error {
	if c.u32(i) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(i))
	}
	return nil
}

// outInContext is out for a call that needs the current context.
func (c *call) outInContext(i, n int) (out, *context, error) {
	to, err := c.out(i, n)
	if err != nil {
		return to, nil, err
	}
	x, err := c.current()
	return to, x, err
}

// outAndFunction is out for a call about the function in argument fn.
func (c *call) outAndFunction(i, n, fn int) (out, *function, error) {
	to, err := c.out(i, n)
	if err != nil {
		return to, nil, err
	}
	f, err := c.function(fn)
	return to, f, err
}

// outAndDevice is out for a call about the device in argument dev.
func (c *call) outAndDevice(i, n, dev int) (out, *cuda.Device, error) {
	to, err := c.out(i, n)
	if err != nil {
		return to, nil, err
	}
	d, err := c.device(dev)
	return to, d, err
}

// outAndLibrary is out for a handle that is asked of the library in argument 1.
func (c *call) outAndLibrary() (out, *library, error) {
	to, err := c.out64(0)
	if err != nil {
		return to, nil, err
	}
	l, err := c.library(1)
	return to, l, err
}

// optional is out for a pointer that may be null: nothing is written then.
func (c *call) optional(i, n int) (out, error) {
	if c.args[i] == 0 {
		return out{}, nil
	}
	return c.out(i, n)
}

func (o out) write(b []byte) error {
	if o.addr == 0 {
		return nil
	}
	if d := o.c.direct(o.addr, len(b)); d != nil {
		d.WriteDirect(o.addr, b)
		return nil
	}
	return o.c.lib.cfg.Memory.Write(o.addr, b)
}

// set writes an integer of the size that was asked for.
func (o out) set(v uint64) error {
	b := binary.LittleEndian.AppendUint64(nil, v)
	return o.write(b[:o.n])
}

func (o out) setFloat(f float32) error { return o.set(uint64(math.Float32bits(f))) }

// setText writes a string, cut to fit with its zero byte.
func (o out) setText(s string) error {
	b := make([]byte, o.n)
	copy(b[:len(b)-1], s)
	return o.write(b)
}

// read copies n bytes of the program.
func (c *call) read(addr uint64, n int) ([]byte, error) {
	if addr == 0 {
		return nil, c.fail(cuda.ErrInvalidValue, "a null pointer")
	}
	b := make([]byte, n)
	return b, c.readInto(b, addr)
}

func (c *call) readInto(b []byte, addr uint64) error {
	if d := c.direct(addr, len(b)); d != nil {
		d.ReadDirect(b, addr)
		return nil
	}
	return c.lib.cfg.Memory.Read(b, addr)
}

func (c *call) read64(addr uint64) (uint64, error) {
	b, err := c.read(addr, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// maxText bounds names and paths.
const maxText = 4096

// text reads the string in argument i.
func (c *call) text(i int) (string, error) {
	if c.args[i] == 0 {
		return "", c.fail(cuda.ErrInvalidValue, "argument %d is a null pointer", i+1)
	}
	b, err := progmem.ReadString(c.lib.cfg.Memory, c.args[i], maxText)
	return string(b), err
}

// device finds the device in argument i.
func (c *call) device(i int) (*cuda.Device, error) {
	return c.lib.driver.Load().Device(int(c.i32(i)))
}

// devices lists those that the program sees.
func (c *call) devices() []*cuda.Device {
	d := c.lib.driver.Load()
	all := make([]*cuda.Device, d.DeviceCount())
	for i := range all {
		all[i], _ = d.Device(i) // there is one
	}
	return all
}

// current is the current context of the thread.
func (c *call) current() (*context, error) {
	n := len(c.thread.stack)
	if n == 0 {
		return nil, c.fail(invalidContext, "the thread has no current context")
	}
	x := &c.thread.stack[n-1]
	for next := (*x).next.Load(); next != nil; next = (*x).next.Load() {
		*x = next // the primary context was retained again
	}
	return *x, nil
}

// unknown is the error for a handle or an address that nothing is known of: r, or that the
// current context is destroyed, and with it what it had.
func (c *call) unknown(r cuda.Result, what string, v uint64) error {
	if len(c.thread.stack) > 0 {
		if x, err := c.current(); err == nil && x.isEnded() {
			r = cuda.ErrContextIsDestroyed
		}
	}
	return c.fail(r, "0x%x is no %s", v, what)
}
