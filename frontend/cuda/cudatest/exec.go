package cudatest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"

	"pvdrm/drm"
)

// The modules and the engine of File.

// A module is lines of "kernel NAME", or ".entry NAME" as PTX has it, "global NAME" and, as PTX
// has it, ".texref NAME;"; a variable has 64 bytes. Pragmas are passed over. Machine code, where the device takes
// it, has all kernels.
func (f *File) ModuleLoad(name string, source []byte) (uint32, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("ModuleLoad"), f.live()); err != nil {
		return 0, err
	}
	if len(name) >= drm.ModuleNameBytes {
		f.g.violation("module name %q is too long", name)
	}
	id := f.id()
	m := &module{names: map[string]mapping{}}
	if drm.IsImage(source) {
		if f.g.Params[drm.ParamImages] == 0 {
			return 0, &drm.ModuleError{Log: "machine code", Err: syscall.ENOEXEC}
		}
		f.g.Image = bytes.Clone(source)
		if f.g.Refusal != "" {
			return 0, &drm.ModuleError{Log: f.g.Refusal, Err: syscall.ENOEXEC}
		}
		for name := range f.g.Kernels {
			m.names[name] = mapping{}
		}
		f.modules[id] = m
		return id, nil
	}
	for i, line := range strings.Split(strings.TrimSpace(string(source)), "\n") {
		kind, word, _ := strings.Cut(line, " ")
		switch {
		case kind == ".pragma":
		case (kind == "kernel" || kind == ".entry") && f.g.Kernels[word] != nil:
			m.names[word] = mapping{}
		case kind == "global" || kind == ".texref":
			word = strings.TrimSuffix(word, ";")
			v := mapping{addr: f.nextGlobal, data: make([]byte, 64), mod: id}
			f.nextGlobal += 256
			f.maps = append(f.maps, v)
			m.names[word] = v
		default:
			return 0, &drm.ModuleError{Log: fmt.Sprintf("%s:%d:1: %q is not known", name, i+1, line), Err: syscall.EINVAL}
		}
	}
	f.modules[id] = m
	return id, nil
}

func (f *File) ModuleUnload(id uint32) error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("ModuleUnload"); err != nil {
		return err
	}
	if f.modules[id] == nil {
		f.g.violation("ModuleUnload of %d, which is not loaded", id)
	}
	delete(f.modules, id)
	kept := f.maps[:0]
	for _, m := range f.maps {
		if m.mod != id {
			kept = append(kept, m)
		}
	}
	f.maps = kept
	return f.live()
}

func (f *File) ModuleFunction(id uint32, name string) (uint32, drm.FunctionAttributes, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("ModuleFunction"), f.live()); err != nil {
		return 0, drm.FunctionAttributes{}, err
	}
	v, ok := f.modules[id].names[name]
	if !ok || v.data != nil {
		return 0, drm.FunctionAttributes{}, syscall.ENOENT
	}
	fn := f.id()
	f.functions[fn] = f.g.Kernels[name]
	return fn, f.g.Kernels[name].Attributes, nil
}

func (f *File) ModuleGlobal(id uint32, name string) (uint64, uint64, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("ModuleGlobal"), f.live()); err != nil {
		return 0, 0, err
	}
	v, ok := f.modules[id].names[name]
	if !ok || v.data == nil {
		return 0, 0, syscall.ENOENT
	}
	return v.addr, uint64(len(v.data)), nil
}

// At finds memory that is mapped in one piece; a miss loses the context.
func (f *File) At(addr, n uint64, write bool) ([]byte, error) {
	b, err := f.some(addr, n, write)
	if err == nil && uint64(len(b)) < n {
		_, err = f.some(math.MaxUint64, 1, write)
	}
	return b, err
}

// lostAddress is the cause of a fault at an address that is not mapped.
const lostAddress = 1

// some finds up to n bytes of mapped memory, at least one.
func (f *File) some(addr, n uint64, write bool) ([]byte, error) {
	for _, m := range f.maps {
		if off := addr - m.addr; addr >= m.addr && off < uint64(len(m.data)) && !(write && m.readOnly) {
			return m.data[off:][:min(n, uint64(len(m.data))-off)], nil
		}
	}
	f.Lost = &Fault{Cause: lostAddress, Addr: addr, Write: write}
	return nil, f.Lost
}

// engine runs commands.
type engine struct{ f *File }

func (e engine) Copy(c drm.CopyCmd) error {
	for y := range c.Height {
		for x := uint64(0); x < c.Width; {
			dst, err := e.f.some(c.Dst+y*c.DstPitch+x, c.Width-x, true)
			if err != nil {
				return err
			}
			src, err := e.f.some(c.Src+y*c.SrcPitch+x, uint64(len(dst)), false)
			if err != nil {
				return err
			}
			x += uint64(copy(dst, src))
		}
	}
	return nil
}

func (e engine) Fill(c drm.FillCmd) error {
	var word [4]byte
	binary.LittleEndian.PutUint32(word[:], c.Pattern)
	for y := range c.Height {
		for x := uint64(0); x < c.Width; x += uint64(c.Size) {
			dst, err := e.f.At(c.Dst+y*c.Pitch+x, uint64(c.Size), true)
			if err != nil {
				return err
			}
			copy(dst, word[:c.Size])
		}
	}
	return nil
}

func (e engine) Launch(c drm.LaunchCmd) error {
	k := e.f.functions[c.Function]
	if k == nil {
		return syscall.EINVAL
	}
	if err := k.Run(e.f, c.Params); err != nil {
		e.f.Lost = err
		return err
	}
	return nil
}

func (e engine) Task() error { return nil }

func (e engine) Timestamp(c drm.TimestampCmd) error {
	if c.Addr%8 != 0 {
		return syscall.EINVAL
	}
	b, err := e.f.At(c.Addr, 8, true)
	if err != nil {
		return err
	}
	e.f.g.clock += 1000
	binary.LittleEndian.PutUint64(b, e.f.g.clock)
	return nil
}

// Word fails where a wait does not hold: what runs here runs alone.
func (e engine) Word(c drm.WordCmd) error {
	b, err := e.f.At(c.Addr, uint64(c.Size), c.Op == drm.WordWrite)
	if err != nil {
		return err
	}
	var now [8]byte
	copy(now[:], b)
	word := binary.LittleEndian.Uint64(now[:])
	holds := true
	switch c.Op {
	case drm.WordWrite:
		binary.LittleEndian.PutUint64(now[:], c.Value)
		copy(b, now[:c.Size])
	case drm.WaitGreaterEqual:
		holds = int64((word-c.Value)<<(64-8*c.Size)) >= 0
	case drm.WaitEqual:
		holds = word == c.Value
	case drm.WaitAnd:
		holds = word&c.Value != 0
	case drm.WaitNor:
		holds = ^(word|c.Value)<<(64-8*c.Size) != 0
	}
	if !holds {
		return syscall.EDEADLK
	}
	return nil
}

// Call fails where there are no libraries.
func (e engine) Call(c drm.CallCmd) error {
	if e.f.g.Library == nil {
		return syscall.EINVAL
	}
	results, err := e.f.At(c.Results, uint64(c.ResultBytes), true)
	if err != nil {
		return err
	}
	if c.ArgsAddr != 0 {
		if c.Args, err = e.f.At(c.ArgsAddr, uint64(c.ArgsBytes), false); err != nil {
			return err
		}
	}
	e.f.g.Library(c, results)
	return nil
}

// users looks for commands that touch [lo, hi).
type users struct {
	lo, hi uint64
	found  bool
}

func (u *users) in(stream []byte) bool {
	_, _ = drm.WalkCommands(stream, u)
	return u.found
}

func (u *users) touch(addr uint64) error {
	u.found = u.found || addr >= u.lo && addr < u.hi
	return nil
}

func (u *users) Copy(c drm.CopyCmd) error           { _ = u.touch(c.Src); return u.touch(c.Dst) }
func (u *users) Fill(c drm.FillCmd) error           { return u.touch(c.Dst) }
func (u *users) Task() error                        { return nil }
func (u *users) Timestamp(c drm.TimestampCmd) error { return u.touch(c.Addr) }
func (u *users) Word(c drm.WordCmd) error           { return u.touch(c.Addr) }
func (u *users) Call(c drm.CallCmd) error           { return u.touch(c.Results) }
func (u *users) Launch(drm.LaunchCmd) error         { return nil }

// Ask implements drm.Asker where the device takes machine code: an answer tells the question, the number of its values and the
// last of them, as many words as a tensor map has for the question after one, and Left for free memory.
func (f *File) Ask(q drm.Question, _ uint32, values []uint64) ([]uint64, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("Ask"), f.live()); err != nil {
		return nil, err
	}
	switch {
	case f.g.Params[drm.ParamImages] == 0:
		return nil, syscall.EOPNOTSUPP
	case q == drm.AskFree:
		return []uint64{f.g.Left}, nil
	case q != drm.AskTensorMap:
		return []uint64{uint64(q-drm.AskClusters)<<24 | uint64(len(values))<<16 | values[len(values)-1]}, nil
	}
	answer := make([]uint64, 16)
	answer[0], answer[15] = uint64(len(values)), values[3]
	return answer, nil
}
