package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"pvdrm/gpu"
)

// Read decodes a state that takes at most so many bytes, and reads no further than its
// end. Errors wrap gpu.ErrInvalid where the state is malformed, and else that of r.
func Read(r io.Reader, most uint64) (*State, error) {
	d := &decoder{r: r, left: most}
	s := d.state()
	if d.err != nil {
		return nil, fmt.Errorf("snapshot: %w", d.err)
	}
	return s, nil
}

// decoder keeps the first error; after it all numbers are 0 and all lists empty.
type decoder struct {
	r    io.Reader
	left uint64 // bytes that may be read
	err  error
	word [8]byte
}

func (d *decoder) state() *State {
	s := &State{}
	if string(d.raw(len(magic))) != magic {
		d.bad("it does not begin with %q", magic)
	}
	if v := d.u32(); v != version {
		d.bad("its version is %d; this program reads version %d", v, version)
	}
	s.Driver = d.text()
	for range d.count(MaxMemories, "memories") {
		m := Memory{System: d.flag(), Size: d.u64()}
		m.Data = d.extents(m.Size)
		if m.System && m.Data != nil {
			d.bad("system memory with contents")
		}
		s.Memories = append(s.Memories, m)
	}
	s.Mappings = d.mappings(s.Memories)
	if d.flag() {
		h := &Heap{VA: d.u64(), Size: d.u64()}
		h.Data, h.State = d.extents(h.Size), d.bytes(MaxHeap)
		s.Heap = h
	}
	for range d.count(MaxModules, "modules") {
		m := Module{File: d.text(), Source: d.bytes(MaxSource), VA: d.u64(), Size: d.u64()}
		m.Data = d.extents(m.Size)
		s.Modules = append(s.Modules, m)
	}
	for range d.count(MaxChannels, "channels") {
		s.Channels = append(s.Channels, d.channel(len(s.Modules)))
	}
	s.Output = d.bytes(MaxOutput)
	if d.u32() != endMark {
		d.bad("it does not end where it should")
	}
	return s
}

// bad records that the state is malformed.
func (d *decoder) bad(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: malformed state: %s", gpu.ErrInvalid, fmt.Sprintf(format, args...))
	}
}

// fill reads into b.
func (d *decoder) fill(b []byte) {
	switch {
	case d.err != nil:
	case uint64(len(b)) > d.left:
		d.bad("it is longer than allowed")
	default:
		d.left -= uint64(len(b))
		_, err := io.ReadFull(d.r, b)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			d.bad("it is cut off")
		case err != nil:
			d.err = err
		}
	}
	if d.err != nil {
		clear(b)
	}
}

// raw reads n bytes, and makes room as they come.
func (d *decoder) raw(n int) []byte {
	const piece = 64 << 10
	var b []byte
	for len(b) < n && d.err == nil {
		k := min(n-len(b), max(piece, len(b)))
		b = append(b, make([]byte, k)...)
		d.fill(b[len(b)-k:])
	}
	if d.err != nil {
		return nil
	}
	return b
}

func (d *decoder) u8() uint8   { d.fill(d.word[:1]); return d.word[0] }
func (d *decoder) u32() uint32 { d.fill(d.word[:4]); return binary.LittleEndian.Uint32(d.word[:]) }
func (d *decoder) u64() uint64 { d.fill(d.word[:]); return binary.LittleEndian.Uint64(d.word[:]) }

func (d *decoder) flag() bool {
	v := d.u8()
	if v > 1 {
		d.bad("a flag of %d", v)
	}
	return v == 1
}

// count reads the length of a list, whose elements are read while there is no error.
func (d *decoder) count(most int, of string) func(func(int) bool) {
	n := d.u32()
	if uint64(n) > uint64(most) {
		d.bad("%d %s; there may be %d", n, of, most)
	}
	return func(yield func(int) bool) {
		for i := 0; i < int(n) && d.err == nil && yield(i); i++ {
		}
	}
}

func (d *decoder) bytes(most int) []byte {
	n := d.u32()
	if uint64(n) > uint64(most) {
		d.bad("%d bytes where %d may be", n, most)
	}
	if d.err != nil {
		return nil
	}
	return d.raw(int(n))
}

func (d *decoder) text() string { return string(d.bytes(MaxText)) }

// extents reads the contents of a memory of size bytes.
func (d *decoder) extents(size uint64) (list []Extent) {
	for end := uint64(0); ; {
		x := Extent{Off: d.u64(), Bytes: d.bytes(MaxExtent)}
		n := uint64(len(x.Bytes))
		switch {
		case d.err != nil:
			return nil
		case n == 0 && x.Off == 0:
			return list
		case n == 0 || x.Off < end || x.Off > size || n > size-x.Off:
			d.bad("%d bytes at offset %#x of a memory of %#x bytes, after offset %#x", n, x.Off, size, end)
			return nil
		}
		end = x.Off + n
		list = append(list, x)
	}
}

func (d *decoder) mappings(memories []Memory) (list []Mapping) {
	end := uint64(0)
	for range d.count(MaxMappings, "mappings") {
		m := Mapping{VA: d.u64(), Size: d.u64(), Memory: d.index(len(memories)), Off: d.u64(), Write: d.flag()}
		if d.err != nil {
			return nil
		}
		size := memories[m.Memory].Size
		if m.Size == 0 || m.VA < end || m.Size > ^uint64(0)-m.VA || m.Off > size || m.Size > size-m.Off {
			d.bad("mapping of %#x bytes at %#x, from offset %#x of a memory of %#x bytes", m.Size, m.VA, m.Off, size)
			return nil
		}
		end = m.VA + m.Size
		list = append(list, m)
	}
	return list
}

// index reads the index of one of n objects.
func (d *decoder) index(n int) int {
	v := d.u32()
	if uint64(v) >= uint64(n) {
		d.bad("object %d of %d", v, n)
		return 0
	}
	return int(v)
}

func (d *decoder) channel(modules int) Channel {
	c := Channel{Completed: d.u64(), Failed: d.text()}
	for range d.count(MaxBatches, "batches of a channel") {
		b := Batch{Begun: d.u64(), Launch: d.bytes(MaxLaunch)}
		if b.Begun > MaxCommands {
			d.bad("%d commands of a batch have begun", b.Begun)
		}
		for range d.count(MaxCommands, "commands of a batch") {
			b.Commands = append(b.Commands, d.command(modules))
		}
		if b.Launch != nil && !begins[*gpu.Launch](b.Commands) {
			d.bad("a launch was preempted in a batch that does not begin with one")
		}
		c.Batches = append(c.Batches, b)
	}
	if c.Completed > ^uint64(0)-MaxBatches {
		d.bad("%d batches have ended", c.Completed)
	}
	return c
}

// begins reports whether a batch begins with a command of a type.
func begins[T gpu.Command](cmds []gpu.Command) bool {
	if len(cmds) == 0 {
		return false
	}
	_, ok := cmds[0].(T)
	return ok
}

func (d *decoder) command(modules int) gpu.Command {
	switch kind := d.u8(); kind {
	case kindTask:
		return &gpu.Task{}
	case kindCopy:
		return &gpu.Copy{Dst: d.u64(), Src: d.u64(), Width: d.u64(), Height: d.u64(), DstPitch: d.u64(), SrcPitch: d.u64()}
	case kindFill:
		return &gpu.Fill{Dst: d.u64(), Pattern: d.u32(), Size: d.u32(), Width: d.u64(), Height: d.u64(), Pitch: d.u64()}
	case kindTimestamp:
		return &gpu.Timestamp{VA: d.u64()}
	case kindWord:
		return &gpu.Word{VA: d.u64(), Value: d.u64(), Size: d.u32(), Op: gpu.WordOp(d.u32())}
	case kindLaunch:
		return d.launch(modules)
	default:
		if kind != kindInvalid {
			d.bad("command of kind %d", kind)
		}
	}
	return (*gpu.Copy)(nil)
}

func (d *decoder) launch(modules int) *gpu.Launch {
	l, k := &gpu.Launch{}, Kernel{Module: int(int32(d.u32()))}
	if k.Module != None && (k.Module < 0 || k.Module >= modules) {
		d.bad("launch of a kernel of module %d of %d", k.Module, modules)
	}
	k.Name = d.text()
	l.Func = k
	for i := range 3 {
		l.Grid[i], l.Block[i], l.Cluster[i] = d.u32(), d.u32(), d.u32()
	}
	l.SharedBytes = d.u32()
	l.Cooperative = d.flag()
	l.Signal = d.u64()
	l.Params = d.bytes(MaxParams)
	return l
}
