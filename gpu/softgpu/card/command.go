package card

import (
	"encoding/binary"
	"errors"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// maxModules bounds the host memory that the modules of all channels of a domain take.
const maxModules = 512 << 20

// slot is a place for a module of a channel.
type slot struct {
	code    *softgpu.Code
	bytes   int64 // that are held of the domain
	linked  bool
	kernels [hw.KernelSlots]kernel
}

type kernel struct {
	function gpu.Function
	params   int
}

// unload empties a slot.
func (c *channel) unload(s *slot) {
	c.holder.Hold(-s.bytes, maxModules)
	*s = slot{}
}

// command runs one command.
func (c *channel) command(raw *softgpu.Raw, op uint32, f fields) error {
	switch op {
	case hw.OpNop:
		return nil
	case hw.OpCopy:
		cmd := &gpu.Copy{Dst: f.u64(), Src: f.u64(), DstPitch: f.u64(), SrcPitch: f.u64(), Width: f.u64(), Height: f.u64()}
		return do(raw, &f, cmd)
	case hw.OpFill:
		cmd := &gpu.Fill{Dst: f.u64(), Pitch: f.u64(), Width: f.u64(), Height: f.u64(), Pattern: f.u32(), Size: f.u32()}
		return do(raw, &f, cmd)
	case hw.OpRelease:
		return do(raw, &f, &gpu.Word{Op: gpu.WordWrite, VA: f.u64(), Value: f.u64(), Size: 8})
	}
	n := f.u32()
	if n >= hw.ModuleSlots {
		return wrong("there is no such slot for a module, or no such command")
	}
	s := &c.slots[n]
	switch op {
	case hw.OpLoad:
		return c.load(raw, s, f)
	case hw.OpLink:
		return c.link(raw, s, f)
	case hw.OpFind:
		return c.find(raw, s, f)
	case hw.OpUnload:
		c.unload(s)
		return f.end()
	case hw.OpLaunch:
		return c.launch(raw, s, f)
	}
	return wrong("there is no such command")
}

// do runs a command of the engines, if its words were all there.
func do(raw *softgpu.Raw, f *fields, cmd gpu.Command) error {
	if err := f.end(); err != nil {
		return err
	}
	return raw.Do(cmd)
}

// reply writes the record of a command: what came out, or the text of an error.
func reply(raw *softgpu.Raw, va, size, align uint64, err error) error {
	b := make([]byte, hw.ReplyBytes, hw.ReplyBytes+hw.MaxText)
	status := uint32(hw.ReplyOK)
	if err != nil {
		status = hw.ReplyRefused
		text := err.Error()
		b = append(b, text[:min(len(text), hw.MaxText)]...)
	}
	binary.LittleEndian.PutUint32(b, status)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-hw.ReplyBytes))
	binary.LittleEndian.PutUint64(b[8:], size)
	binary.LittleEndian.PutUint64(b[16:], align)
	return raw.Write(va, b)
}

// load compiles a module into a slot. What it may take is charged before it is read.
func (c *channel) load(raw *softgpu.Raw, s *slot, f fields) error {
	n, source, answer := f.u32(), f.u64(), f.u64()
	if err := f.end(); err != nil {
		return err
	}
	c.unload(s)
	if n > hw.MaxModule {
		return reply(raw, answer, 0, 0, wrong("the module is larger than a card takes"))
	}
	charge := int64(gpu.ModuleMemory(uint64(n)))
	if !c.holder.Hold(charge, maxModules) {
		return reply(raw, answer, 0, 0, wrong("the modules of the domain's channels take all the memory that there is for them"))
	}
	s.bytes = charge
	text := make([]byte, n)
	err := raw.Read(text, source)
	if err != nil {
		return err
	}
	s.code, err = raw.Load(text)
	if err != nil {
		c.unload(s)
		if raw.Err() != nil {
			return raw.Err()
		}
		return reply(raw, answer, 0, 0, err)
	}
	kept := min(s.bytes, int64(s.code.HostBytes()))
	c.holder.Hold(kept-s.bytes, maxModules)
	s.bytes = kept
	size, align := s.code.Variables()
	return reply(raw, answer, size, align, nil)
}

// link gives the variables of a module their place.
func (c *channel) link(raw *softgpu.Raw, s *slot, f fields) error {
	if f.u32() != 0 {
		return wrong("a reserved word is not zero")
	}
	at, answer := f.u64(), f.u64()
	if err := f.end(); err != nil {
		return err
	}
	if s.code == nil || s.linked {
		return reply(raw, answer, 0, 0, wrong("the slot has no module, or one that is linked"))
	}
	err := s.code.Link(raw, at)
	if raw.Err() != nil {
		return raw.Err()
	}
	s.linked = err == nil
	return reply(raw, answer, 0, 0, err)
}

// find looks a kernel up.
func (c *channel) find(raw *softgpu.Raw, s *slot, f fields) error {
	index, name, n, zero, answer := f.u32(), f.u64(), f.u32(), f.u32(), f.u64()
	if err := f.end(); err != nil {
		return err
	}
	if zero != 0 {
		return wrong("a reserved word is not zero")
	}
	if s.code == nil || !s.linked || index >= hw.KernelSlots || n > hw.MaxName {
		return reply(raw, answer, 0, 0, wrong("the slot has no linked module, or there is no such kernel number, or its name is too long"))
	}
	text := make([]byte, n)
	if err := raw.Read(text, name); err != nil {
		return err
	}
	function, params, err := s.code.Kernel(string(text))
	if err == nil {
		s.kernels[index] = kernel{function: function, params: params}
	}
	return reply(raw, answer, uint64(params), 0, err)
}

// launch runs a kernel.
func (c *channel) launch(raw *softgpu.Raw, s *slot, f fields) error {
	index, grid, block, shared, n := f.u32(), f.dims(), f.dims(), f.u32(), f.u32()
	if f.short || index >= hw.KernelSlots || s.kernels[index].function == nil {
		return wrong("a launch names no kernel")
	}
	if padded := (uint64(n) + 3) &^ 3; uint64(len(f.rest)) != padded {
		return wrong("a launch has too few words or too many")
	}
	err := raw.Do(&gpu.Launch{Func: s.kernels[index].function, Grid: grid, Block: block, SharedBytes: shared, Params: f.rest[:n]})
	if errors.Is(err, gpu.ErrInvalid) {
		return wrong(err.Error())
	}
	return err
}
