package snapshot

import (
	"encoding/binary"
	"fmt"
	"io"

	"pvdrm/gpu"
)

// The encoding: the magic, the version, the fields of State in their order, the end mark.
// Numbers are little-endian. A list is its length (u32) and its elements; text and bytes
// are a list of bytes; a list of extents ends with one that has no bytes. A command begins
// with its kind (u8).
const (
	magic   = "PVDRMgpu"
	version = 5
	endMark = 0x2e444e45 // "END."
)

// Kinds of commands.
const (
	kindInvalid = iota // one that the device would refuse
	kindTask
	kindCopy
	kindFill
	kindLaunch
	kindTimestamp
	kindWord
)

// Write encodes a state.
func Write(w io.Writer, s *State) error {
	e := &encoder{w: w}
	e.raw([]byte(magic))
	e.u32(version)
	e.text(s.Driver)
	e.count(len(s.Memories), MaxMemories, "memories")
	for i := range s.Memories {
		m := &s.Memories[i]
		e.flag(m.System)
		e.u64(m.Size)
		e.extents(m.Data)
	}
	e.count(len(s.Mappings), MaxMappings, "mappings")
	for _, m := range s.Mappings {
		e.u64(m.VA)
		e.u64(m.Size)
		e.u32(uint32(m.Memory))
		e.u64(m.Off)
		e.flag(m.Write)
	}
	e.flag(s.Heap != nil)
	if h := s.Heap; h != nil {
		e.u64(h.VA)
		e.u64(h.Size)
		e.extents(h.Data)
		e.bytes(h.State, MaxHeap, "state of a heap")
	}
	e.count(len(s.Modules), MaxModules, "modules")
	for i := range s.Modules {
		m := &s.Modules[i]
		e.text(m.File)
		e.bytes(m.Source, MaxSource, "source")
		e.u64(m.VA)
		e.u64(m.Size)
		e.extents(m.Data)
	}
	e.count(len(s.Channels), MaxChannels, "channels")
	for i := range s.Channels {
		e.channel(&s.Channels[i])
	}
	e.bytes(s.Output, MaxOutput, "output")
	e.u32(endMark)
	if e.err == nil {
		e.flush()
	}
	if e.err != nil {
		return fmt.Errorf("snapshot: %w", e.err)
	}
	return nil
}

// encoder gathers what is small and keeps the first error.
type encoder struct {
	w   io.Writer
	buf []byte
	err error
}

// gathered is how much an encoder gathers before it writes.
const gathered = 64 << 10

func (e *encoder) flush() {
	if e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *encoder) raw(b []byte) {
	if len(e.buf)+len(b) > gathered {
		e.flush()
	}
	if len(b) < gathered {
		e.buf = append(e.buf, b...)
	} else if e.err == nil {
		_, e.err = e.w.Write(b)
	}
}

func (e *encoder) u8(v uint8)   { e.raw([]byte{v}) }
func (e *encoder) u32(v uint32) { e.raw(binary.LittleEndian.AppendUint32(nil, v)) }
func (e *encoder) u64(v uint64) { e.raw(binary.LittleEndian.AppendUint64(nil, v)) }

func (e *encoder) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *encoder) count(n, most int, of string) {
	if n > most && e.err == nil {
		e.err = fmt.Errorf("%w: a state has at most %d %s, not %d", gpu.ErrTooLarge, most, of, n)
	}
	e.u32(uint32(n))
}

func (e *encoder) bytes(b []byte, most int, of string) {
	e.count(len(b), most, "bytes of "+of)
	e.raw(b)
}

func (e *encoder) text(s string) { e.bytes([]byte(s), MaxText, "a name") }

func (e *encoder) extents(list []Extent) {
	for _, x := range list {
		e.u64(x.Off)
		e.bytes(x.Bytes, MaxExtent, "an extent")
	}
	e.u64(0)
	e.u32(0)
}

func (e *encoder) channel(c *Channel) {
	e.u64(c.Completed)
	e.text(c.Failed[:min(len(c.Failed), MaxText)])
	e.count(len(c.Batches), MaxBatches, "batches of a channel")
	for i := range c.Batches {
		b := &c.Batches[i]
		e.u64(b.Begun)
		e.bytes(b.Launch, MaxLaunch, "a launch")
		e.count(len(b.Commands), MaxCommands, "commands of a batch")
		for _, cmd := range b.Commands {
			e.command(cmd)
		}
	}
}

func (e *encoder) command(cmd gpu.Command) {
	switch c := cmd.(type) {
	case *gpu.Task:
		e.u8(kindTask)
		return
	case *gpu.Copy:
		if c != nil {
			e.u8(kindCopy)
			e.words(c.Dst, c.Src, c.Width, c.Height, c.DstPitch, c.SrcPitch)
			return
		}
	case *gpu.Fill:
		if c != nil {
			e.u8(kindFill)
			e.words(c.Dst, uint64(c.Pattern)|uint64(c.Size)<<32, c.Width, c.Height, c.Pitch)
			return
		}
	case *gpu.Timestamp:
		if c != nil {
			e.u8(kindTimestamp)
			e.u64(c.VA)
			return
		}
	case *gpu.Word:
		if c != nil {
			e.u8(kindWord)
			e.words(c.VA, c.Value, uint64(c.Size)|uint64(c.Op)<<32)
			return
		}
	case *gpu.Launch:
		if k, ok := kernelOf(c); ok {
			e.u8(kindLaunch)
			e.u32(uint32(k.Module))
			e.text(k.Name)
			for i := range 3 {
				e.u32(c.Grid[i])
				e.u32(c.Block[i])
				e.u32(c.Cluster[i])
			}
			e.u32(c.SharedBytes)
			e.flag(c.Cooperative)
			e.u64(c.Signal)
			e.bytes(c.Params, MaxParams, "parameters")
			return
		}
	}
	e.u8(kindInvalid)
}

// kernelOf returns what a launch runs. Parameters that no device takes make it invalid.
func kernelOf(l *gpu.Launch) (Kernel, bool) {
	if l == nil || len(l.Params) > MaxParams {
		return Kernel{}, false
	}
	k, ok := l.Func.(Kernel)
	return k, ok
}

func (e *encoder) words(list ...uint64) {
	for _, v := range list {
		e.u64(v)
	}
}
