package softgpu

import (
	gocontext "context"
	"fmt"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/hw"
)

// Hardware is a software GPU without this package's driver on top: VRAM, engines and channels,
// whose descriptors and page tables others write. Package card puts registers and apertures before
// it. It has the channels, engines, walks and counters of New's devices.
type Hardware struct{ dev *device }

// NewHardware makes the hardware of a device. Close it when done.
func NewHardware(config Config) (*Hardware, error) {
	d, err := newDevice(config)
	if err != nil {
		return nil, fmt.Errorf("softgpu: %w", err)
	}
	return &Hardware{dev: d}, nil
}

// VRAM returns the device memory, all of which is its user's.
func (h *Hardware) VRAM() *hw.VRAM { return h.dev.vram.VRAM }

// Stats returns the counters of the engines.
func (h *Hardware) Stats() gpu.Stats { return h.dev.Stats() }

// Channels returns how many channels there are.
func (h *Hardware) Channels() int { return len(h.dev.slots) }

// Close ends all channels and frees VRAM.
func (h *Hardware) Close() error { return h.dev.Close() }

// Domain is the system memory that channels reach, by addresses of its own, as an IOMMU shows it
// to one virtual machine. Its methods may be called by any goroutine.
type Domain struct {
	space *space
	held  atomic.Int64
}

// NewDomain makes a domain without memory.
func (h *Hardware) NewDomain() *Domain {
	return &Domain{space: &space{vram: h.dev.vram, count: &h.dev.mappings, MMU: hw.MMU{VRAM: h.dev.vram.VRAM}}}
}

// Add gives the domain memory of the runs, in order, whose bus address it returns. It must stay
// mapped until no channel uses the domain.
func (d *Domain) Add(runs ...[]byte) (base uint64, err error) {
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	o, err := d.space.Bus.Add(runs)
	if err != nil {
		return 0, err
	}
	return o.Base, nil
}

// Place gives the domain memory at an address, as a machine has it. It must stay mapped until Remove.
func (d *Domain) Place(addr uint64, mem []byte) error {
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	_, err := d.space.Bus.Place(addr, mem)
	return err
}

// Remove takes back what Place has put at an address. Engines may use translations that were looked up
// before, until they are flushed.
func (d *Domain) Remove(addr uint64) {
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if o := d.space.Bus.At(addr); o != nil {
		d.space.Bus.Remove(o)
	}
}

// Nest has the channels' page tables walked through a second level, whose page directory lies at a
// VRAM address; see hw.MMU. Preconditions: no channel has the domain yet.
func (d *Domain) Nest(directory uint64) {
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	d.space.Second = directory + 1
}

// Hold counts host memory that is kept for what uses the domain, and reports whether it is at most a
// limit. Where it is not, nothing is counted. A negative n gives back.
func (d *Domain) Hold(n, limit int64) bool {
	if d.held.Add(n) > limit && n > 0 { // what is given back counts, whatever others try to take meanwhile
		d.held.Add(-n)
		return false
	}
	return true
}

// Held returns what is counted.
func (d *Domain) Held() int64 { return d.held.Load() }

// Has reports whether all of [addr, addr+n) is memory of the domain.
func (d *Domain) Has(addr, n uint64) bool {
	d.space.mu.RLock()
	defer d.space.mu.RUnlock()
	for n > 0 {
		mem, off := d.space.Bus.Run(addr)
		if mem == nil {
			return false
		}
		run := min(n, uint64(len(mem))-off)
		addr, n = addr+run, n-run
	}
	return true
}

// Raw is a channel of the hardware. It reads page directory and limit from its descriptor for each
// page that it looks up. A fault ends it and nothing else.
type Raw struct{ channel *channel }

// Open takes a channel whose descriptor lies at a VRAM address. Errors are gpu.ErrBusy where it is
// open, and gpu.ErrInvalid where the number is wrong.
func (h *Hardware) Open(number int, d *Domain, descriptor uint64) (*Raw, error) {
	if err := h.dev.takeSlot(number); err != nil {
		return nil, err
	}
	c := newContext(h.dev, fmt.Sprintf("channel %d", number), d.space)
	h.dev.mu.Lock()
	h.dev.contexts[c] = struct{}{}
	h.dev.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.addChannel(number, descriptor)
	ch.raw = true
	go ch.loop()
	return &Raw{channel: ch}, nil
}

// takeSlot takes a channel number.
func (d *device) takeSlot(number int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return fmt.Errorf("channel %d: device %w", number, gpu.ErrClosed)
	case number < 0 || number >= len(d.slots):
		return fmt.Errorf("%w: channel %d of %d", gpu.ErrInvalid, number, len(d.slots))
	case d.slots[number]:
		return fmt.Errorf("channel %d: %w", number, gpu.ErrBusy)
	}
	d.slots[number] = true
	d.open++
	return nil
}

// program is a command that runs Go code in the goroutine of the channel.
type program struct {
	gpu.Command // nil: it makes this type a command
	run         func() error
}

// Run queues f, which the goroutine of the channel calls, and done with f's error or why f was not
// called. Within f, and only there, Do, Read, Write and Load may be called.
func (r *Raw) Run(f func() error, done func(error)) error {
	return r.channel.Submit([]gpu.Command{&program{run: f}}, func(res gpu.Result) { done(res.Err) })
}

// Do runs one command.
func (r *Raw) Do(cmd gpu.Command) error {
	if err := r.channel.halted(); err != nil {
		return err
	}
	return r.channel.execute(cmd)
}

// Read copies memory of the channel's address space. It takes no turn on an
// engine: it is for what a channel fetches.
func (r *Raw) Read(p []byte, va uint64) error { return r.access(p, va, false) }

// Write is Read in the other direction.
func (r *Raw) Write(va uint64, p []byte) error { return r.access(p, va, true) }

func (r *Raw) access(p []byte, va uint64, write bool) error {
	if f := r.move(p, va, write); f != nil {
		return r.channel.fault(f)
	}
	return nil
}

func (r *Raw) move(p []byte, va uint64, write bool) (fault *gpu.LostError) {
	s := r.channel.ctx.space
	s.mu.RLock()
	defer s.mu.RUnlock()
	defer touch(&fault)
	view := r.channel.view().View
	for len(p) > 0 {
		page, base, readOnly, ok := view.Lookup(va)
		switch {
		case !ok:
			return &gpu.LostError{Cause: gpu.LostAddress, Addr: va, Write: write, Detail: "not mapped"}
		case write && readOnly:
			return &gpu.LostError{Cause: gpu.LostAddress, Addr: va, Write: true, Detail: "mapped read-only"}
		}
		var n int
		if write {
			n = copy(page[va-base:], p)
		} else {
			n = copy(p, page[va-base:])
		}
		p, va = p[n:], va+uint64(n)
	}
	return nil
}

// Notify writes a record where it is mapped. It works on a channel that has ended, too.
func (r *Raw) Notify(va uint64, p []byte) { _ = r.move(p, va, true) } // no channel is left to tell

// FlushTLB returns when the engines use no translation of the channel that was looked up before.
func (r *Raw) FlushTLB() { r.channel.ctx.flushTLB() }

// Err returns why the channel has ended; nil if it has not.
func (r *Raw) Err() error { return r.channel.ctx.Err() }

// Close ends the channel and waits until nothing of it runs.
func (r *Raw) Close() { r.channel.ctx.Close() }

// Code is a module that a channel has loaded.
type Code struct{ module *module }

// Load compiles PTX. Kernels of it may be launched after Link. Modules whose kernels call malloc
// are refused: the heap would need memory that a driver gives.
func (r *Raw) Load(source []byte) (*Code, error) {
	c := r.channel.ctx
	ctx, cancel := gocontext.WithCancelCause(gocontext.Background())
	defer cancel(nil)
	defer c.onEnd(cancel)()
	effort := ptx.NewEffort(ctx, gpu.ModuleMemory(uint64(len(source))))
	prog, err := compile(effort, "module", source, c.dev.props, c.dev.config.ModelTime)
	if err != nil {
		return nil, err
	}
	if prog.Mallocs {
		return nil, fmt.Errorf("%w: kernels of the module call malloc, for which a card's channels have no heap", gpu.ErrInvalid)
	}
	return &Code{module: &module{ctx: c, prog: prog}}, nil
}

// Variables returns how many bytes of memory Link needs, and their alignment.
func (m *Code) Variables() (size, align uint64) {
	_, align = m.module.prog.DataBytes()
	return variableBytes(m.module.prog), max(align, hw.SmallPage)
}

// HostBytes returns the host memory that the module keeps.
func (m *Code) HostBytes() uint64 { return moduleBytes + m.module.prog.HostBytes() }

// Link gives the variables their place, where the memory is mapped and reads as zero, and writes
// their first values.
func (m *Code) Link(r *Raw, va uint64) error {
	var fault error
	err := m.module.prog.LinkTo(va, func(off uint64, piece []byte) {
		if fault == nil {
			fault = r.Write(va+off, piece)
		}
	})
	if err != nil {
		return err
	}
	return fault
}

// Kernel finds a kernel and returns the bytes of its parameters.
func (m *Code) Kernel(name string) (f gpu.Function, paramBytes int, err error) {
	k, ok := m.module.prog.Kernel(name)
	if !ok {
		return nil, 0, fmt.Errorf("%w: no such kernel", gpu.ErrNotFound)
	}
	return &function{mod: m.module, kernel: k, attrs: k.Fixed()}, k.Fixed().ParamBytes, nil
}
