package softgpu

import (
	gocontext "context"
	"encoding/binary"
	"errors"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// A context that is revoked stops as one that is preempted, and then the states of its launches are
// dropped, so that these begin again. This device need not do so, because it can keep any kernel's
// state. It does so that what revokes is tested where there is no GPU.

// Revoke implements gpu.Revoker.
func (c *context) Revoke(ctx gocontext.Context) error {
	c.hold.op.Lock()
	defer c.hold.op.Unlock()
	was := c.hold.mode.Load()
	if err := c.stopWith(ctx, preempted); err != nil {
		return c.wrap("revoke", err)
	}
	if err := c.revoke(); err != nil {
		if was == running {
			c.hold.set(running)
		}
		return c.wrap("revoke", err)
	}
	return nil
}

// revoke drops the states of all launches that rest, or of none.
func (c *context) revoke() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var some []*channel
	for ch := range c.channels {
		ch.mu.Lock()
		begun := ch.current != nil && ch.from != nil
		ch.mu.Unlock()
		if !begun {
			continue
		}
		if err := ch.mayBeginAgain(); err != nil {
			return fmt.Errorf("%w: %w", gpu.ErrUnsupported, err)
		}
		some = append(some, ch)
	}
	for _, ch := range some {
		ch.task.putBack()
		ch.mu.Lock()
		ch.from = nil
		ch.mu.Unlock()
		c.dev.replays.Add(1)
	}
	return nil
}

// mayBeginAgain returns why the launch that rests cannot begin again; nil if it can. The channel rests
// in it, and ctx.mu is held.
func (c *channel) mayBeginAgain() error {
	l, ok := c.current.cmds[c.begun].(*gpu.Launch)
	k := &c.task
	if !ok || k.module == nil {
		return errors.New("a launch has begun that is not known") // it was restored in the middle
	}
	if k.launch.Tree != nil {
		return fmt.Errorf("kernel %s may launch kernels", l.Func.Attributes().Name)
	}
	save, err := k.module.restart(l)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", l.Func.Attributes().Name, err)
	}
	for _, id := range save {
		if !k.hasKept(id) {
			return fmt.Errorf("kernel %s: %w: it changes what it reads, of which nothing was saved", l.Func.Attributes().Name, ptx.ErrNoRestart)
		}
	}
	return nil
}

// restart returns the memories, by their numbers, that have to be as they were before a launch for it
// to begin again.
func (m *module) restart(l *gpu.Launch) ([]uint64, error) {
	attrs := l.Func.Attributes()
	e, err := m.effects(attrs.Name)
	if err != nil {
		return nil, err
	}
	return e.Restart(func(p ptx.Pointer) (uint64, bool) {
		if p.Var != nil {
			if m.data == nil {
				return 0, false
			}
			return m.data.id, true
		}
		at := attrs.Params[p.Param].Offset + int(p.Offset)
		if at+8 > len(l.Params) {
			return 0, false
		}
		return m.ctx.space.memoryAt(binary.LittleEndian.Uint64(l.Params[at:]))
	})
}

// effects returns what a kernel of the module does to memory. The source is read when that is asked
// first.
func (m *module) effects(kernel string) (*ptx.Effects, error) {
	m.looked.Do(func() {
		e := ptx.NewEffort(gocontext.Background(), gpu.ModuleMemory(uint64(len(m.source))))
		m.parsed, m.unread = ptx.LoadWithin(e, m.file, m.source)
	})
	if m.unread != nil {
		return nil, m.unread
	}
	for _, d := range m.parsed.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Entry && f.Name == kernel {
			return m.parsed.Effects(f), nil
		}
	}
	return nil, fmt.Errorf("%w: kernel %s", gpu.ErrNotFound, kernel)
}

// memoryAt returns the number of the memory that an address lies in.
func (s *space) memoryAt(va uint64) (id uint64, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.first(va)
	if i == len(s.maps) || s.maps[i].va > va {
		return 0, false
	}
	return s.maps[i].mem.id, true
}

// kept is what a memory contained before a launch.
type kept struct {
	memory *memory
	bytes  []byte
}

// keep saves what has to be put back before a launch could begin again, if the device saves so much.
// The launch may run anyway.
func (k *task) keep(l *gpu.Launch) error {
	c := k.channel.ctx
	if c.dev.config.SaveBytes == 0 || k.channel.from != nil {
		return nil
	}
	save, err := k.module.restart(l)
	if err != nil || len(save) == 0 {
		return nil // it cannot begin again, or needs nothing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*memory
	need := int64(0)
	for m := range c.memories {
		for _, id := range save {
			if m.id == id && m.object == nil { // of granted pages the host sees each change
				list = append(list, m)
				need += int64(m.size)
			}
		}
	}
	if len(list) < len(save) || c.dev.kept.Add(need) > c.dev.config.SaveBytes {
		if len(list) == len(save) {
			c.dev.kept.Add(-need)
		}
		return nil
	}
	for _, m := range list {
		b := make([]byte, 0, m.size)
		for _, e := range m.extents {
			b = append(b, c.dev.vram.Bytes(e.addr, e.size)...)
		}
		k.before = append(k.before, kept{memory: m, bytes: b})
	}
	return nil
}

// hasKept reports whether a memory was saved, and still is one.
func (k *task) hasKept(id uint64) bool {
	for i := range k.before {
		if m := k.before[i].memory; m.id == id && !m.closed {
			return true
		}
	}
	return false
}

// putBack gives memories what they contained before the launch. Preconditions: ctx.mu is held, and
// no engine works for the context.
func (k *task) putBack() {
	for _, x := range k.before {
		if !x.memory.closed {
			x.memory.write(0, x.bytes)
		}
	}
}

// drop forgets what was saved.
func (k *task) drop() {
	for _, x := range k.before {
		k.channel.ctx.dev.kept.Add(-int64(len(x.bytes)))
	}
	k.before = nil
}

// again makes the task of a launch that was revoked a new one. What was saved stays.
func (k *task) again(f *function, l *gpu.Launch) {
	before := k.before
	k.save(nil)
	k.set(k.channel, f, l)
	k.used, k.spent, k.before = 0, 0, before
}
