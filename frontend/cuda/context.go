package cuda

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"pvdrm/drm"
)

// Context is a CUDA context: a GPU address space with its memory, modules and
// streams, in a DRM file of its own. There is no current context; every call
// names its own.
type Context struct {
	dev  *Device
	file drm.File
	def  *Stream // the default stream

	life      sync.RWMutex
	destroyed bool
	lost      atomic.Pointer[loss] // set once

	output  output
	heap    kernelHeap
	staging staging
	memory  memory
	libs    libraries

	modMu   sync.Mutex
	modules map[*Module]struct{}

	mu      sync.Mutex
	streams []*Stream      // the default stream first
	users   map[uint32]int // how many streams each channel has
	scratch []byte         // the command stream of one EXEC
	waits   []drm.Point
	waited  []point
}

// loss is why no more work can be done in a context.
type loss struct {
	result Result
	addr   uint64 // that was not mapped; 0: none, or it is not known
	err    error
}

// CreateContext is cuCtxCreate. It is ErrDeviceUnavailable when the device has
// no channel left or the backend is gone.
func (dev *Device) CreateContext() (*Context, error) {
	const call = "cuCtxCreate"
	if f := dev.takeSpare(); f != nil {
		c, err := dev.newContext(call, f)
		if err == nil || !errors.Is(err, syscall.ENODEV) {
			return c, err
		}
		// The backend of back then is gone. There may be another.
	}
	f, err := dev.openFile(call)
	if err != nil {
		return nil, err
	}
	return dev.newContext(call, f)
}

// newContext makes a context of a file, which it owns from then on.
func (dev *Device) newContext(call string, f drm.File) (*Context, error) {
	c := &Context{dev: dev, file: f, modules: map[*Module]struct{}{}}
	c.staging.workers.Looks = copierLooks
	if err := c.setUp(); err != nil {
		for _, handle := range dev.virtual.leave(c) {
			err = errors.Join(err, f.GemClose(handle))
		}
		dev.driver.portable.leave(c)
		r := resultOf(err)
		if errors.Is(err, syscall.EIO) {
			r = ErrUnknown
		}
		return nil, &Error{call, r, errors.Join(err, f.Close(), c.memory.leave())}
	}
	return c, nil
}

func (c *Context) setUp() error {
	vram, err := readWindow(c.file, drm.ParamVRAMBase)
	if err != nil {
		return err
	}
	system, err := readWindow(c.file, drm.ParamSystemBase)
	if err != nil {
		return err
	}
	if err := c.memory.setUp(c.dev, c.file, vram, system); err != nil {
		return err
	}
	c.memory.vram.live = map[*object]struct{}{}
	c.memory.vram.made = func(o *object) error {
		c.memory.vram.live[o] = struct{}{}
		return c.dev.driver.peers.made(c, o)
	}
	c.memory.vram.closed = func(o *object) {
		delete(c.memory.vram.live, o)
		c.dev.driver.peers.gone(c, o)
		c.dev.driver.keys.remove(o.key)
	}
	id, err := c.file.ChannelAlloc()
	if err != nil {
		return fmt.Errorf("a channel for the default stream: %w", err)
	}
	c.def = newStream(c, id, false)
	c.streams, c.users = []*Stream{c.def}, map[uint32]int{id: 1}
	// From now on calls for memory of all contexts may use this one.
	if err = c.dev.virtual.join(c); err == nil {
		err = c.dev.driver.portable.join(c)
	}
	if err != nil {
		return errors.Join(err, c.file.ChannelFree(id))
	}
	if len(staged.sizes) == 1 {
		// The first copies need not wait for it. A copy that finds none makes it, or says
		// why not.
		_ = c.staging.grow(c, "cuCtxCreate", staged.sizes[0])
	}
	return nil
}

// DefaultStream is what a nil *Stream means in calls of the context. It cannot
// be destroyed.
func (c *Context) DefaultStream() *Stream { return c.def }

// Device is cuCtxGetDevice.
func (c *Context) Device() *Device { return c.dev }

// Synchronize is cuCtxSynchronize: it waits until all work of the context is done.
func (c *Context) Synchronize() error {
	const call = "cuCtxSynchronize"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if err := c.waitIdle(call); err != nil {
		return err
	}
	return c.settled(call)
}

// Destroy is cuCtxDestroy. It waits for calls of other goroutines and for
// queued work, then frees all that the context holds; what HostMem.Bytes
// returned must not be used any more. It frees also when the context is lost,
// and returns an error when the queued work failed or the file could not be closed.
func (c *Context) Destroy() error {
	const call = "cuCtxDestroy"
	mapped := c.dev.virtual.leave(c)
	c.dev.driver.portable.settle(call, c)
	c.dev.driver.registry.leaveOthers(call, c)
	c.life.Lock()
	defer c.life.Unlock()
	if c.destroyed {
		return &Error{Call: call, Result: ErrContextIsDestroyed}
	}
	c.destroyed = true
	var first error
	if c.lost.Load() == nil {
		first = c.waitIdle(call)
	} else {
		c.output.flush(c.file, c.dev.driver) // what came before the fault
	}
	keep := func(err error) {
		// Of a lost context only the loss matters, and it was told already.
		if err != nil && first == nil && c.lost.Load() == nil {
			first = c.fail(call, err)
		}
	}
	// Channels first: should work be left, it stops here.
	for _, s := range c.streams {
		s.dead = true
		if c.users[s.channel] > 0 {
			keep(c.file.ChannelFree(s.channel))
			delete(c.users, s.channel)
		}
	}
	c.streams = nil
	c.modMu.Lock()
	for m := range c.modules {
		keep(c.file.ModuleUnload(m.id))
		m.unloaded.Store(true)
	}
	clear(c.modules)
	c.modMu.Unlock()
	c.staging.touching.Wait()
	keep(c.dev.driver.peers.leave(c))
	for _, handle := range append(mapped, c.dev.virtual.leave(c)...) {
		keep(c.file.GemClose(handle))
	}
	c.dev.driver.portable.leave(c)
	keep(c.dev.driver.registry.leave(call, c))
	c.memory.close(keep)
	if err := errors.Join(c.file.Close(), c.memory.leave()); err != nil && first == nil {
		first = &Error{call, resultOf(err), err}
	}
	return first
}

// enter begins a call: it keeps Destroy out until life is read-unlocked, and
// fails when the context is destroyed or lost. Exported functions call it once
// and never call each other, since a read lock must not be taken twice.
func (c *Context) enter(call string) error {
	c.life.RLock()
	if c.destroyed {
		c.life.RUnlock()
		return &Error{Call: call, Result: ErrContextIsDestroyed}
	}
	if l := c.lost.Load(); l != nil {
		c.life.RUnlock()
		return l.as(call)
	}
	return nil
}

// Err returns why no more calls can be made in the context, if so.
func (c *Context) Err(call string) error {
	err := c.enter(call)
	if err == nil {
		c.life.RUnlock()
	}
	return err
}

func (l *loss) as(call string) error { return &Error{call, l.result, l.err} }

// fail turns an error of the file into an Error. When it says that the context
// or the backend is gone, the context is lost from now on.
func (c *Context) fail(call string, err error) error {
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	var l *loss
	switch {
	case errors.Is(err, syscall.EIO):
		l = c.askLoss(err)
	case errors.Is(err, syscall.ENODEV):
		l = &loss{result: ErrDeviceUnavailable,
			err: fmt.Errorf("the backend is gone; destroy the context and create another when it is back: %w", err)}
	default:
		return &Error{call, resultOf(err), err}
	}
	if !c.lost.CompareAndSwap(nil, l) {
		return c.lost.Load().as(call)
	}
	c.output.flush(c.file, c.dev.driver) // what assertions say
	return l.as(call)
}

func (c *Context) askLoss(err error) *loss {
	cause, text, serr := c.file.LostStatus()
	if serr != nil {
		return &loss{result: ErrUnknown, err: fmt.Errorf("the context is lost and why could not be asked (%w): %w", serr, err)}
	}
	if text == "" {
		text = "no reason given"
	}
	return &loss{result: lostResult(cause), addr: faultAddress(text), err: fmt.Errorf("the context is lost, destroy it and create another: %s: %w", text, err)}
}

// faulted finds the address in what the device tells of a fault.
var faulted = regexp.MustCompile(` at 0x([0-9a-f]{1,16})\b`)

func faultAddress(text string) uint64 {
	m := faulted.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	addr, _ := strconv.ParseUint(m[1], 16, 64)
	return addr
}

// FaultAddress returns the address for which the context was lost, or 0.
func (c *Context) FaultAddress() uint64 {
	if l := c.lost.Load(); l != nil {
		return l.addr
	}
	return 0
}
