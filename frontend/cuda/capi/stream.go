package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
)

// stream is a CUstream.
type stream struct {
	*cuda.Stream
	ctx   *context
	flags uint32
}

func (s *stream) owner() *context { return s.ctx }

// Handles that stand for default streams.
const (
	streamLegacy    = 1
	streamPerThread = 2
)

const streamNonBlocking = 1 // CU_STREAM_NON_BLOCKING

// streamOf finds the stream that a value means in a context.
func (c *call) streamOf(x *context, v uint64) (*cuda.Stream, error) {
	switch {
	case v == 0 && !c.perThread || v == streamLegacy:
		return x.DefaultStream(), nil
	case v == 0 || v == streamPerThread:
		return x.threadStream(c.thread.id)
	}
	s, ok := find[*stream](c.lib, v)
	if !ok {
		return nil, c.unknown(cuda.ErrInvalidHandle, "stream", v)
	}
	return s.Stream, nil
}

// stream finds the stream in argument i and its context.
func (c *call) stream(i int) (*context, *cuda.Stream, error) {
	if s, ok := find[*stream](c.lib, c.u64(i)); ok {
		return s.ctx, s.Stream, nil
	}
	x, err := c.current()
	if err != nil {
		return nil, nil, err
	}
	s, err := c.streamOf(x, c.u64(i))
	return x, s, err
}

// streamWith finds the stream that a value means for what belongs to a context: its own default stream is
// that of the current context, which then has to be this one.
func (c *call) streamWith(x *context, v uint64) (*cuda.Stream, error) {
	if v <= streamPerThread {
		if now, err := c.current(); err == nil && now != x {
			return nil, c.fail(cuda.ErrInvalidHandle, "another context is current than the one that this belongs to, and with it another default stream")
		}
	}
	return c.streamOf(x, v)
}

// threadStream is the default stream of a thread. When neither the device nor the context has a
// channel for it, it is the legacy one, which orders more than was asked for.
func (c *context) threadStream(thread uint64) (*cuda.Stream, error) {
	c.mu.Lock()
	s := c.streams[thread]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := c.NewStream()
	if errors.Is(err, cuda.ErrDeviceUnavailable) || errors.Is(err, cuda.ErrOutOfMemory) {
		s, err = c.DefaultStream(), nil
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[thread] = s
	return s, nil
}

// takeThreadStream gives up the stream of a thread that has ended.
func (c *context) takeThreadStream(thread uint64) *cuda.Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[thread]
	delete(c.streams, thread)
	if s == c.DefaultStream() {
		return nil
	}
	delete(c.attributes, s)
	return s
}

func streamCreate(c *call) error { return c.createStream(0) }

// createStream gets (stream, flags).
func (c *call) createStream(priority int32) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if c.u32(1)&^streamNonBlocking != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(1))
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	create := x.NewStream
	if c.u32(1)&streamNonBlocking != 0 {
		create = x.NewStreamNonBlocking
	}
	s, err := create()
	if err != nil {
		return err
	}
	if clampPriority(priority) != 0 {
		x.mu.Lock()
		x.setAttribute(s, streamPriority, priorityValue(priority))
		x.mu.Unlock()
	}
	return to.set(c.lib.handles.add(&stream{s, x, c.u32(1)}))
}

func streamDestroy(c *call) error {
	s, ok := find[*stream](c.lib, c.u64(0))
	if !ok {
		return c.unknown(cuda.ErrInvalidHandle, "stream", c.u64(0))
	}
	c.lib.endUserObjects() // of a capture that began there
	err := c.settle(s.ctx, s.Stream, s.Stream.Destroy)
	if err == nil {
		c.lib.handles.remove(c.u64(0))
		s.ctx.mu.Lock()
		defer s.ctx.mu.Unlock()
		delete(s.ctx.attributes, s.Stream)
	}
	return err
}

func streamSynchronize(c *call) error {
	x, s, err := c.stream(0)
	if err != nil {
		return err
	}
	return c.settle(x, s, s.Synchronize)
}

func streamQuery(c *call) error {
	x, s, err := c.stream(0)
	if err != nil {
		return err
	}
	for _, done := range x.hostFunctions(s) {
		select {
		case <-done:
		default:
			return c.fail(cuda.ErrNotReady, "a host function has not run yet")
		}
	}
	return s.Query()
}

func streamGetFlags(c *call) error {
	to, err := c.out32(1)
	if err != nil {
		return err
	}
	if s, ok := find[*stream](c.lib, c.u64(0)); ok {
		return to.set(uint64(s.flags))
	}
	if _, _, err = c.stream(0); err != nil {
		return err
	}
	return to.set(0)
}

func streamGetDevice(c *call) error {
	to, err := c.out32(1)
	if err != nil {
		return err
	}
	x, _, err := c.stream(0)
	if err != nil {
		return err
	}
	return to.set(uint64(x.Device().Ordinal()))
}

func streamGetCtx(c *call) error {
	to, err := c.out64(1)
	if err != nil {
		return err
	}
	x, _, err := c.stream(0)
	if err != nil {
		return err
	}
	return to.set(x.handle)
}

// streamGetCtxV2 also writes a green context, which there is none of.
func streamGetCtxV2(c *call) error {
	green, err := c.optional(2, 8)
	if err != nil {
		return err
	}
	if err := streamGetCtx(c); err != nil {
		return err
	}
	return green.set(0)
}

func streamGetID(c *call) error {
	to, err := c.out64(1)
	if err != nil {
		return err
	}
	_, s, err := c.stream(0)
	if err != nil {
		return err
	}
	return to.set(s.ID())
}

// lastCaptureMode is CU_STREAM_CAPTURE_MODE_RELAXED.
const lastCaptureMode = 2

// exchangeCaptureMode swaps the thread's mode with that of the program, which restores it later.
func exchangeCaptureMode(c *call) error {
	b, err := c.read(c.u64(0), 4)
	if err != nil {
		return err
	}
	mode := le32(b)
	if mode > lastCaptureMode {
		return c.fail(cuda.ErrInvalidValue, "mode %d", mode)
	}
	if err := (out{c, c.u64(0), 4}).set(uint64(c.thread.captureMode)); err != nil {
		return err
	}
	c.thread.captureMode = mode
	return nil
}

// Host functions. The device cannot call the program, so what is queued on a
// stream after a host function is held back in the program until it has run.

// launchHostFunc runs nothing after an error of the context.
func launchHostFunc(c *call) error {
	fn, data := c.u64(1), c.u64(2)
	return c.hostFunction(fn, func(r cuda.Result) {
		if r == cuda.Success {
			c.lib.cfg.Invoke(fn, data, 0, 0)
		}
	})
}

// streamAddCallback hands errors to the function.
func streamAddCallback(c *call) error {
	if err := c.noFlags(3); err != nil {
		return err
	}
	s, fn, data := c.u64(0), c.u64(1), c.u64(2)
	return c.hostFunction(fn, func(r cuda.Result) { c.lib.cfg.Invoke(fn, s, uint64(r), data) })
}

func (c *call) hostFunction(fn uint64, invoke func(cuda.Result)) error {
	if fn == 0 {
		return c.fail(cuda.ErrInvalidValue, "the function is a null pointer")
	}
	x, s, err := c.stream(0)
	if err != nil {
		return err
	}
	x.afterHostFunctions(s, func() { invoke(resultOf(s.Synchronize())) })
	return nil
}

// afterHostFunctions starts run after the host functions that are queued already. What comes
// later on the stream waits until it returns.
func (c *context) afterHostFunctions(s *cuda.Stream, run func()) {
	before, done := c.reserve(s)
	go func() {
		for _, b := range before {
			<-b
		}
		run()
		done()
	}()
}

// reserve takes the place behind the host functions of a stream, which are to be waited for first.
// What comes later on the stream waits until done is called. It is one step, so that calls of several
// threads for a stream come one after the other.
func (c *context) reserve(s *cuda.Stream) (before []chan struct{}, done func()) {
	mine := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.hostFunctionsOf(s)
	c.host[s] = mine
	return before, func() {
		close(mine)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.host[s] == mine {
			delete(c.host, s)
		}
	}
}

// hostFunctions lists what work on a stream must wait for: host functions of the
// stream itself and, by the rule of the default stream, of that or of all others but those that
// were made non-blocking. No stream stands for what waits for the whole context.
func (c *context) hostFunctions(s *cuda.Stream) []chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hostFunctionsOf(s)
}

// hostFunctionsOf is hostFunctions. Preconditions: c.mu is held.
func (c *context) hostFunctionsOf(s *cuda.Stream) []chan struct{} {
	var all []chan struct{}
	for on, done := range c.host {
		legacy := s == c.DefaultStream() || on == c.DefaultStream()
		if s == nil || on == s || legacy && !s.NonBlocking() && !on.NonBlocking() {
			all = append(all, done)
		}
	}
	return all
}

// settle runs what queues or waits for work of a stream, or with none for that of the context, after
// its host functions.
func (c *call) settle(x *context, s *cuda.Stream, do func() error) error {
	for _, done := range x.hostFunctions(s) {
		<-done
	}
	if err := x.late.Load(); err != nil {
		return *err
	}
	return do()
}
