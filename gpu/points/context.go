package points

import (
	gocontext "context"
	"fmt"
	"sync"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/internal/extent"
)

// context is a context whose kernels may run in pieces.
type context struct {
	gpu.Context
	dev  *Device
	slot int // of the device's words

	names names

	mu       sync.Mutex
	closed   bool
	launches bool          // it has had a channel, so it counts in Device.contexts
	charged  bool          // the area was reserved, once and for all
	users    int           // of the area: modules, and launches in pieces
	area     *extent.Space // of VRAM; nil while it has no users
	words    *extent.Space // of the page
	memory   []gpu.Memory  // of both
	channels map[*channel]struct{}

	far struct { // with Config.Far
		sync.Mutex
		channel gpu.Channel // by which signals are set; nil before the first
	}
}

// ReadOutput implements gpu.Printer.
func (c *context) ReadOutput(p []byte) int {
	if printer, is := c.Context.(gpu.Printer); is {
		return printer.ReadOutput(p)
	}
	return 0
}

// Retained implements gpu.Retainer: what was reserved for the area counts for as long as the context lives.
func (c *context) Retained() (bytes uint64) {
	if r, ok := c.Context.(gpu.Retainer); ok {
		bytes = r.Retained()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.charged {
		bytes += c.dev.config.Area
	}
	return bytes
}

// most is how large the state of a launch may be.
func (c *context) most() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.area == nil {
		return 0
	}
	return c.dev.config.Area - farBytes
}

// Preempt implements gpu.Preempter.
func (c *context) Preempt(ctx gocontext.Context) error {
	if p, ok := c.Context.(gpu.Preempter); ok {
		return p.Preempt(ctx)
	}
	return fmt.Errorf("%w: the device does not stop contexts", gpu.ErrUnsupported)
}

// Resume implements gpu.Preempter.
func (c *context) Resume() error {
	if p, ok := c.Context.(gpu.Preempter); ok {
		return p.Resume()
	}
	return fmt.Errorf("%w: the device does not stop contexts", gpu.ErrUnsupported)
}

// Occupied implements gpu.Occupier.
func (c *context) Occupied() uint64 {
	if o, ok := c.Context.(gpu.Occupier); ok {
		return o.Occupied()
	}
	return 0
}

// inside reports whether a range lies where the guest may map, or in no window of the device at all.
func (c *context) inside(va, n uint64) bool {
	p := &c.dev.props
	for _, w := range []struct {
		own gpu.Window
		at  uint64
	}{{own: p.VRAM, at: c.dev.config.Area}, {own: p.System, at: c.dev.page}} {
		from := w.own.Base + w.own.Size
		if va < from+w.at && va+n > from {
			return false
		}
	}
	return true
}

// Map implements gpu.Context.
func (c *context) Map(va uint64, m gpu.Memory, off, n uint64, prot gpu.Prot) error {
	if n == 0 || !c.inside(va, n) {
		return fmt.Errorf("%w: [0x%x, 0x%x) lies in no window", gpu.ErrInvalid, va, va+n)
	}
	return c.names.named(c.Context.Map(va, m, off, n, prot))
}

// Unmap implements gpu.Context.
func (c *context) Unmap(va, n uint64) error {
	if err := check.Unmap(&c.dev.props, va, n); err != nil {
		return err
	}
	return c.names.named(c.Context.Unmap(va, n))
}

// prepare makes the area and the words for a module, unless they are there. It returns what it reserved.
// Where there is no memory for them kernels stay as they are.
func (c *context) prepare(reserve gpu.Reserve) (taken uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	if c.area != nil || c.closed {
		return 0
	}
	p, size := &c.dev.props, c.dev.config.Area
	if !c.charged {
		if reserve != nil && reserve(size) != nil {
			return 0
		}
		c.charged, taken = true, size
	}
	area, err := c.Context.NewVRAM(size)
	if err != nil {
		return taken
	}
	at, words := p.VRAM.Base+p.VRAM.Size, p.System.Base+p.System.Size
	const rights = gpu.ProtRead | gpu.ProtWrite
	sys, err := c.Context.NewSystem([][]byte{c.dev.words(c.slot)})
	if err == nil {
		err = c.Context.Map(at, area, 0, size, rights)
	}
	if err == nil {
		err = c.Context.Map(words, sys, 0, c.dev.page, rights)
	}
	if err != nil {
		_ = area.Close() // the context goes on without
		if sys != nil {
			_ = sys.Close()
		}
		return taken
	}
	c.memory = []gpu.Memory{area, sys}
	c.area, c.words = extent.New(at, at+size), extent.New(words, words+c.dev.page)
	return taken
}

// leave ends the use of the area by a module or a launch. The last user frees it. c.mu is held.
func (c *context) leave() {
	if c.users--; c.users > 0 || c.area == nil || c.closed {
		return
	}
	for _, m := range c.memory {
		_ = m.Close() // it goes with the context otherwise
	}
	c.area, c.words, c.memory = nil, nil, nil
}

// take takes room for the state of a launch, and words for its signal.
func (c *context) take(bytes uint64) (r *room, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.area == nil || c.closed {
		return nil, false
	}
	r = &room{c: c, bytes: bytes + farBytes}
	if r.words, ok = c.words.Take(wordBytes, wordBytes); !ok {
		return nil, false
	}
	if r.far, ok = c.area.Take(r.bytes, areaAlign); !ok {
		c.words.Give(r.words, wordBytes)
		return nil, false
	}
	c.users++
	r.state = r.far + farBytes
	p := &c.dev.props
	r.host = c.dev.words(c.slot)[r.words-p.System.Base-p.System.Size:][:wordBytes]
	return r, true
}

// Close implements gpu.Context.
func (c *context) Close() error {
	c.mu.Lock()
	was, launches := c.closed, c.launches
	c.closed = true
	var open []*channel
	for ch := range c.channels {
		open = append(open, ch)
	}
	c.mu.Unlock()
	for _, ch := range open {
		ch.shut()
	}
	if launches && !was {
		c.dev.contexts.Add(-1) // it waits for no kernel from here on, and to end takes an NVIDIA GPU's context a while
	}
	err := c.Context.Close()
	for _, ch := range open {
		ch.busy.Wait()
	}
	if !was {
		c.dev.give(c.slot)
	}
	return err
}
