package trace

import (
	"bytes"
	"encoding/binary"

	"pvdrm/drm"
)

// define says what a symbol of the trace is now.
func (f *replayed) define(k Kind, was, now uint64) {
	if f.symbols[k] == nil {
		f.symbols[k] = map[uint64]uint64{}
	}
	f.symbols[k][was] = now
}

// symbol is the replay's number for one of the trace. What the trace does not
// define, a program made up: it stays what it is.
func (f *replayed) symbol(k Kind, was uint64) uint64 {
	if now, ok := f.symbols[k][was]; ok {
		return now
	}
	return was
}

func (f *replayed) id(k Kind, was uint64) uint32 { return uint32(f.symbol(k, was)) }

func (f *replayed) point(channel, seqno uint64) drm.Point {
	now, ok := f.seqnos[drm.Point{Channel: uint32(channel), Seqno: seqno}]
	if !ok {
		now = seqno
	}
	return drm.Point{Channel: f.id(KindChannel, channel), Seqno: now}
}

// param remembers the windows of addresses.
func (f *replayed) param(p drm.Param, was, now uint64) {
	base := p
	if p == drm.ParamVRAMSize {
		base = drm.ParamVRAMBase
	}
	if p == drm.ParamSystemSize {
		base = drm.ParamSystemBase
	}
	if base != drm.ParamVRAMBase && base != drm.ParamSystemBase {
		return
	}
	w := f.windows[base]
	if w == nil {
		w = &window{size: ^uint64(0)}
		f.windows[base] = w
	}
	if p == base {
		w.was, w.now = was, now
	} else {
		w.size = was
	}
}

// address translates a GPU address.
func (f *replayed) address(a uint64) uint64 {
	for _, g := range f.globals {
		if a-g.was < g.size {
			return a - g.was + g.now
		}
	}
	for _, m := range f.space.maps {
		if a-m.addr < m.size {
			return f.inWindow(a)
		}
	}
	return a
}

// inWindow translates an address by the window that it lies in.
func (f *replayed) inWindow(a uint64) uint64 {
	for _, w := range f.windows {
		if w.was != 0 && a-w.was < w.size {
			return a - w.was + w.now
		}
	}
	return a
}

// translation is a drm.CommandSink that writes a stream for the replay.
type translation struct {
	f      *replayed
	stream []byte
}

func (t *translation) Copy(c drm.CopyCmd) error {
	c.Dst, c.Src = t.f.address(c.Dst), t.f.address(c.Src)
	t.stream = c.Append(t.stream)
	return nil
}

func (t *translation) Fill(c drm.FillCmd) error {
	c.Dst = t.f.address(c.Dst)
	t.stream = c.Append(t.stream)
	return nil
}

func (t *translation) Task() error {
	t.stream = drm.TaskCmd{}.Append(t.stream)
	return nil
}

func (t *translation) Timestamp(c drm.TimestampCmd) error {
	c.Addr = t.f.address(c.Addr)
	t.stream = c.Append(t.stream)
	return nil
}

func (t *translation) Word(c drm.WordCmd) error {
	c.Addr = t.f.address(c.Addr)
	t.stream = c.Append(t.stream)
	return nil
}

// Call translates where arguments and results lie. Addresses within the arguments stay.
func (t *translation) Call(c drm.CallCmd) error {
	if c.ArgsAddr != 0 {
		c.ArgsAddr = t.f.address(c.ArgsAddr)
	}
	if c.Results != 0 {
		c.Results = t.f.address(c.Results)
	}
	t.stream = c.Append(t.stream)
	return nil
}

// Launch translates arguments that are addresses: 8 bytes, aligned, and within
// what is mapped.
func (t *translation) Launch(c drm.LaunchCmd) error {
	c.Function = t.f.id(KindFunction, uint64(c.Function))
	c.Params = bytes.Clone(c.Params)
	for at := 0; at+8 <= len(c.Params); at += 8 {
		word := c.Params[at:]
		binary.LittleEndian.PutUint64(word, t.f.address(binary.LittleEndian.Uint64(word)))
	}
	t.stream = c.Append(t.stream)
	return nil
}
