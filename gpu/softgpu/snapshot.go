package softgpu

import (
	"cmp"
	gocontext "context"
	"errors"
	"fmt"
	"io"
	"slices"

	"pvdrm/gpu"
	"pvdrm/gpu/snapshot"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/gpu/softgpu/internal/heap"
)

// Snapshot implements gpu.Snapshotter.
func (c *context) Snapshot(ctx gocontext.Context, w io.Writer) (*gpu.Objects, error) {
	objects, err := c.snapshot(ctx, w)
	return objects, c.wrap("snapshot", err)
}

func (c *context) snapshot(ctx gocontext.Context, w io.Writer) (*gpu.Objects, error) {
	c.hold.op.Lock()
	defer c.hold.op.Unlock()
	if err := c.stopWith(ctx, draining); err != nil {
		return nil, err
	}
	c.mu.Lock() // the state refers to VRAM until it is written
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	state, objects, err := c.state()
	if err != nil {
		return nil, err
	}
	if err := snapshot.Write(w, state); err != nil {
		return nil, err
	}
	return objects, nil
}

// state describes the context. Preconditions: c.mu is held, and all channels rest.
func (c *context) state() (*snapshot.State, *gpu.Objects, error) {
	s := &snapshot.State{Driver: c.dev.props.Driver, Output: c.output.copy()}
	o := &gpu.Objects{Context: c}
	memories := map[*memory]int{}
	variables := map[*memory]bool{} // and the heap: what the owner does not know
	modules := map[*module]int{}
	for _, m := range inOrder(c.modules, func(m *module) uint64 { return m.id }) {
		modules[m] = len(o.Modules)
		o.Modules = append(o.Modules, m)
		saved := snapshot.Module{File: m.file, Source: m.source}
		if m.data != nil {
			variables[m.data] = true
			saved.VA, saved.Size, saved.Data = m.va, m.data.size, m.data.contents()
		}
		s.Modules = append(s.Modules, saved)
	}
	if h := c.heap.Load(); h != nil {
		variables[h.mem] = true
		s.Heap = h.state()
	}
	for _, m := range inOrder(c.memories, func(m *memory) uint64 { return m.id }) {
		if m.pages != nil && m.pages.several() {
			return nil, nil, fmt.Errorf("%w: memory of the context is shared with others, of which a snapshot has nothing", gpu.ErrUnsupported)
		}
		if !variables[m] {
			memories[m] = len(o.Memories)
			o.Memories = append(o.Memories, m)
			s.Memories = append(s.Memories, snapshot.Memory{System: m.object != nil, Size: m.size, Data: m.contents()})
		}
	}
	s.Mappings = c.space.mappings(memories)
	for _, ch := range inOrder(c.channels, func(ch *channel) uint64 { return ch.id }) {
		o.Channels = append(o.Channels, ch)
		saved, err := ch.state(modules)
		if err != nil {
			return nil, nil, err
		}
		s.Channels = append(s.Channels, saved)
	}
	return s, o, nil
}

// inOrder returns the elements of a set in the order of their ids.
func inOrder[T comparable](set map[T]struct{}, id func(T) uint64) []T {
	list := make([]T, 0, len(set))
	for v := range set {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	return list
}

// contents returns the parts of a memory in VRAM that are not zero, as parts of VRAM.
func (m *memory) contents() (list []snapshot.Extent) {
	off := uint64(0)
	for _, e := range m.extents {
		list = append(list, snapshot.Extents(off, m.ctx.dev.vram.Bytes(e.addr, e.size))...)
		off += e.size
	}
	return list
}

// mappings lists the mappings of the memories, which the map numbers.
func (s *space) mappings(memories map[*memory]int) (list []snapshot.Mapping) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, m := range s.maps {
		if i, ok := memories[m.mem]; ok {
			e, _, _ := s.vram.Walk(s.directory, m.va)
			list = append(list, snapshot.Mapping{VA: m.va, Size: m.n, Memory: i, Off: m.off, Write: !e.ReadOnly()})
		}
	}
	return list
}

// state describes the channel, which rests.
func (c *channel) state(modules map[*module]int) (s snapshot.Channel, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []batch
	if b := c.current; b != nil {
		left = append(left, batch{begun: b.begun + c.begun, cmds: b.cmds[c.begun:], from: c.from})
	}
	left = append(left, c.queue...)
	s.Completed = c.submitted - uint64(len(left))
	if c.failed != nil {
		s.Failed = c.failed.Error()
	}
	for _, b := range left {
		saved := snapshot.Batch{Begun: uint64(b.begun), Commands: commands(b.cmds, modules)}
		if b.from != nil {
			if saved.Launch, err = b.from.MarshalBinary(); err != nil {
				return s, err
			}
		}
		s.Batches = append(s.Batches, saved)
	}
	return s, nil
}

// commands puts names in place of the functions of launches.
func commands(cmds []gpu.Command, modules map[*module]int) []gpu.Command {
	list := make([]gpu.Command, 0, len(cmds))
	for _, cmd := range cmds {
		if l, ok := cmd.(*gpu.Launch); ok && l != nil {
			named := *l
			named.Func = nil // of another context: the device refuses it
			if f, ok := l.Func.(*function); ok && f != nil {
				k := snapshot.Kernel{Module: snapshot.None, Name: f.attrs.Name}
				if i, ok := modules[f.mod]; ok {
					k.Module = i
				}
				named.Func = k
			}
			cmd = &named
		}
		list = append(list, cmd)
	}
	return list
}

// stateOverhead is how much longer than the device's VRAM an encoded state may be.
const stateOverhead = 1 << 30

// Restore implements gpu.Restorer.
func (d *device) Restore(ctx gocontext.Context, label string, r io.Reader, owner gpu.Owner) (*gpu.Objects, error) {
	s, err := snapshot.Read(r, d.config.VRAMBytes+stateOverhead)
	if err != nil {
		return nil, fmt.Errorf("restore context %q: %w", label, err)
	}
	if s.Driver != d.props.Driver {
		return nil, fmt.Errorf("restore context %q: %w: the state is of a device %q, this one is %q", label, gpu.ErrUnsupported, s.Driver, d.props.Driver)
	}
	made, err := d.NewContext(label)
	if err != nil {
		return nil, err
	}
	c := made.(*context) // NewContext makes no other
	c.hold.set(draining)
	b := &builder{context: c, state: s, owner: owner, objects: &gpu.Objects{Context: c}}
	if err := b.build(ctx); err != nil {
		_ = c.Close() // the first error counts
		return nil, c.wrap("restore", err)
	}
	return b.objects, nil
}

// builder makes a context, which is stopped, what a state says.
type builder struct {
	*context
	state   *snapshot.State
	owner   gpu.Owner
	objects *gpu.Objects
	modules []*module
	gone    *module // of launches whose module was closed
}

func (b *builder) build(ctx gocontext.Context) error {
	b.gone = &module{ctx: b.context}
	b.gone.closed.Store(true)
	for i := range b.state.Memories {
		if err := b.memory(i); err != nil {
			return fmt.Errorf("memory %d: %w", i, err)
		}
	}
	for i, m := range b.state.Mappings {
		prot := gpu.ProtRead
		if m.Write {
			prot |= gpu.ProtWrite
		}
		if err := b.mapMemory(m.VA, b.objects.Memories[m.Memory], m.Off, m.Size, prot); err != nil {
			return fmt.Errorf("mapping %d: %w", i, err)
		}
	}
	if err := b.heap(); err != nil {
		return err
	}
	for i := range b.state.Modules {
		m := &b.state.Modules[i]
		mod, err := b.loadModule(ctx, m.File, m.Source, b.owner.Reserve, m)
		if err != nil {
			return fmt.Errorf("module %d: %w", i, err)
		}
		b.modules = append(b.modules, mod)
		b.objects.Modules = append(b.objects.Modules, mod)
	}
	for i := range b.state.Channels {
		if err := b.channel(i); err != nil {
			return fmt.Errorf("channel %d: %w", i, err)
		}
	}
	b.output.print(string(b.state.Output))
	return nil
}

// heap makes the heap, before a module could make one.
func (b *builder) heap() error {
	saved := b.state.Heap
	if saved == nil {
		return nil
	}
	if saved.Size > heap.MaxBytes {
		return fmt.Errorf("%w: a heap of %d bytes", gpu.ErrInvalid, saved.Size)
	}
	if b.owner.Reserve != nil {
		if err := b.owner.Reserve(heapCharge(saved.Size)); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.restoreHeap(saved)
}

func (b *builder) memory(i int) error {
	saved := &b.state.Memories[i]
	var m *memory
	var err error
	if saved.System {
		m, err = b.system(i, saved.Size)
	} else if m, err = b.newVRAM(saved.Size); err == nil {
		m.fill(saved.Data)
	}
	if err != nil {
		return err
	}
	b.objects.Memories = append(b.objects.Memories, m)
	return nil
}

func (b *builder) system(i int, size uint64) (*memory, error) {
	if b.owner.System == nil {
		return nil, fmt.Errorf("%w: the owner has no pages for it", gpu.ErrInvalid)
	}
	runs, err := b.owner.System(i, size)
	if err != nil {
		return nil, err
	}
	m, err := b.newSystem(runs)
	if err == nil && m.size != size {
		err = fmt.Errorf("%w: the owner has %d bytes of pages for it; it takes %d", gpu.ErrInvalid, m.size, size)
	}
	return m, err
}

// fill writes the contents of a memory in VRAM, which is zero. No engine uses it yet.
func (m *memory) fill(data []snapshot.Extent) {
	for _, x := range data {
		m.write(x.Off, x.Bytes)
	}
}

func (b *builder) channel(i int) error {
	saved := &b.state.Channels[i]
	var queue []batch
	for n := range saved.Batches {
		s := &saved.Batches[n]
		if b.owner.Done == nil {
			return fmt.Errorf("%w: the owner has no done functions for its batches", gpu.ErrInvalid)
		}
		done := b.owner.Done(i, saved.Completed+uint64(n))
		if done == nil {
			return fmt.Errorf("%w: the owner has no done function for batch %d", gpu.ErrInvalid, saved.Completed+uint64(n))
		}
		if err := b.functions(s.Commands); err != nil {
			return err
		}
		var from *exec.State
		if s.Launch != nil {
			from = new(exec.State)
			if err := from.UnmarshalBinary(s.Launch); err != nil {
				return err
			}
		}
		queue = append(queue, batch{cmds: s.Commands, begun: int(s.Begun), from: from, done: done})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ch, err := b.newChannel()
	if err != nil {
		return err
	}
	ch.queue, ch.completed, ch.submitted = queue, saved.Completed, saved.Completed+uint64(len(queue))
	if saved.Failed != "" {
		ch.failed = errors.New(saved.Failed)
	}
	desc := hw.Descriptor(ch.number)
	b.dev.vram.SetWord(desc+hw.DescSubmitted, ch.submitted)
	b.dev.vram.SetWord(desc+hw.DescCompleted, saved.Completed)
	b.objects.Channels = append(b.objects.Channels, ch)
	go ch.loop()
	return nil
}

// functions puts functions of the context in place of their names.
func (b *builder) functions(cmds []gpu.Command) error {
	for _, cmd := range cmds {
		l, ok := cmd.(*gpu.Launch)
		if !ok {
			continue
		}
		k := l.Func.(snapshot.Kernel) // Read makes no other
		if k.Module == snapshot.None {
			l.Func = &function{mod: b.gone, attrs: &gpu.FunctionAttributes{Name: k.Name}}
			continue
		}
		f, err := b.modules[k.Module].Function(k.Name)
		if err != nil {
			return err
		}
		l.Func = f
	}
	return nil
}
