package capi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/link"
	"pvdrm/gpu/fatbin"
)

// linker is a CUlinkState. Its inputs are PTX, and so is the result: a module is compiled when it
// is loaded.
type linker struct {
	jit *jit

	mu   sync.Mutex
	link *link.Linker
	n    int // inputs so far
}

// Kinds of CUjitInputType.
const (
	inputPTX     = 1 // 0 is machine code, 2 a fatbin
	inputObject  = 3
	inputLibrary = 4
	inputNVVM    = 5
	inputKinds   = 6 // CU_JIT_NUM_INPUT_TYPES
)

func linkCreate(c *call) error {
	j, err := c.jitOptions(c.u32(0), c.u64(1), c.u64(2))
	if err != nil {
		return err
	}
	to, err := c.out64(3)
	if err != nil {
		return err
	}
	if _, err := c.current(); err != nil {
		return err
	}
	return to.set(c.lib.handles.add(&linker{jit: j, link: link.New()}))
}

func (c *call) linker() (*linker, error) {
	l, ok := find[*linker](c.lib, c.u64(0))
	if !ok {
		return nil, c.fail(cuda.ErrInvalidHandle, "0x%x is no link state", c.u64(0))
	}
	return l, nil
}

// addInput takes an input. The log gets what is wrong with it.
func (c *call) addInput(l *linker, name string, b []byte) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if name == "" {
		name = fmt.Sprintf("input %d", l.n)
	}
	l.n++
	var u *link.Error
	if err = l.take(c.u32(1), name, b, capability(x.Device())); errors.As(err, &u) {
		err = errors.Join(err, l.jit.done(0, err))
	}
	return err
}

// take takes an input for a device of compute capability cc (× 10).
func (l *linker) take(kind uint32, name string, b []byte, cc uint32) error {
	if kind == inputObject || kind == inputLibrary {
		return l.takeObject(name, b, cc)
	}
	if len(b) >= fatbin.HeaderBytes && le32(b) == fatbin.Magic {
		images, _, err := Images(b)
		if err != nil {
			return err
		}
		if isRuntime(images) {
			l.link.UseRuntime()
			return nil
		}
	}
	if len(b) >= 4 && le32(b) == fatbin.ELFMagic {
		return l.takeUnits(name, b, cc)
	}
	ptx, err := parseImage(b, takes{cc: cc})
	if err != nil {
		return err
	}
	if bytes.Contains(ptx, []byte(runtimeMark)) {
		l.link.UseRuntime()
		return nil
	}
	return linkError(l.link.Add(name, ptx))
}

// takeUnits takes the PTX of a file of machine code.
func (l *linker) takeUnits(name string, b []byte, cc uint32) error {
	e, err := openELF(inFile(b))
	if err != nil {
		return err
	}
	units, _, err := e.debugUnits(cc)
	for _, text := range units {
		if err := linkError(l.link.Add(name, text)); err != nil {
			return err
		}
	}
	return err
}

// takeObject takes the fatbins of an object file, or of a library of such files.
func (l *linker) takeObject(name string, b []byte, cc uint32) error {
	units := Units{l: l.link}
	magic := binary.LittleEndian.AppendUint32(nil, fatbin.Magic)
	magic = binary.LittleEndian.AppendUint16(magic, 1) // its version
	for n := 0; ; n++ {
		at := bytes.Index(b, magic)
		switch {
		case at < 0 && n == 0:
			return fmt.Errorf("%s has no device code: %w", name, invalidImage)
		case at < 0:
			return nil
		case n == link.MaxUnits:
			return fmt.Errorf("%s has more than %d units: %w", name, n, invalidImage)
		}
		images, size, err := Images(b[at:])
		if err != nil {
			return err
		}
		if isRuntime(images) {
			l.link.UseRuntime()
		} else if err := units.Add(images, cc); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b = b[at+max(size, len(magic)):]
	}
}

func linkAddData(c *call) error {
	l, err := c.linker()
	if err != nil {
		return err
	}
	if err := c.inputKind(); err != nil {
		return err
	}
	if n := c.u64(3); n == 0 || n > drm.MaxSource {
		return c.fail(cuda.ErrInvalidValue, "an input of %d bytes", n)
	}
	b, err := c.read(c.u64(2), int(c.u64(3)))
	if err != nil {
		return err
	}
	name := ""
	if c.u64(4) != 0 {
		if name, err = c.text(4); err != nil {
			return err
		}
	}
	return c.addInput(l, name, b)
}

func linkAddFile(c *call) error {
	l, err := c.linker()
	if err != nil {
		return err
	}
	if err := c.inputKind(); err != nil {
		return err
	}
	path, err := c.text(2)
	if err != nil {
		return err
	}
	b, err := c.readWhole(path)
	if err != nil {
		return err
	}
	return c.addInput(l, path, b)
}

func (c *call) inputKind() error {
	switch kind := c.u32(1); {
	case kind == inputNVVM:
		return c.fail(cuda.ErrNotSupported, "inputs of NVVM; compile to PTX")
	case kind >= inputKinds:
		return c.fail(cuda.ErrInvalidValue, "there is no input of kind %d", kind)
	}
	return nil
}

// linkComplete links, checks the PTX by loading it, and hands it out.
func linkComplete(c *call) error {
	l, err := c.linker()
	if err != nil {
		return err
	}
	image, err := c.out64(1)
	if err != nil {
		return err
	}
	size, err := c.optional(2, 8)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	start := time.Now()
	ptx, err := l.link.Complete()
	if err = linkError(err); err == nil {
		err = c.compiles(x, ptx)
	}
	ptx = l.jit.limited(ptx)
	if jerr := l.jit.done(time.Since(start), err); err == nil {
		err = jerr
	}
	if err != nil {
		return err
	}
	if err := size.set(uint64(len(ptx) + 1)); err != nil {
		return err
	}
	return image.set(c.lib.text(string(ptx)))
}

// compiles checks that the device takes PTX.
func (c *call) compiles(x *context, ptx []byte) error {
	m, err := x.LoadModule("link", ptx)
	if err != nil {
		return err
	}
	return m.Unload()
}

func linkDestroy(c *call) error {
	if _, err := c.linker(); err != nil {
		return err
	}
	c.lib.handles.remove(c.u64(0))
	return nil
}
