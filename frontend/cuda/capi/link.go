package capi

import (
	"bytes"
	"sync"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// linker is a CUlinkState. One input is possible, and its PTX is the result: a
// module is compiled when it is loaded.
type linker struct {
	jit *jit

	mu    sync.Mutex
	input []byte
}

// Kinds of CUjitInputType.
const (
	inputCubin     = 0
	inputPTX       = 1
	inputFatbinary = 2
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
	return to.set(c.lib.handles.add(&linker{jit: j}))
}

func (c *call) linker() (*linker, error) {
	l, ok := find[*linker](c.lib, c.u64(0))
	if !ok {
		return nil, c.fail(cuda.ErrInvalidHandle, "0x%x is no link state", c.u64(0))
	}
	return l, nil
}

// add takes an image as input.
func (c *call) addInput(l *linker, image []byte) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	ptx, err := parseImage(image, capability(x.Device()))
	if err != nil {
		return err
	}
	if ptx = bytes.TrimRight(ptx, "\x00"); len(ptx) == 0 {
		return c.fail(invalidImage, "the input is empty")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.input != nil {
		return c.fail(cuda.ErrNotSupported, "PVDRM links one input only; put all PTX into one")
	}
	l.input = ptx
	return nil
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
	return c.addInput(l, b)
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
	x, err := c.current()
	if err != nil {
		return err
	}
	b, err := c.readFile(path, x.Device())
	if err != nil {
		return err
	}
	return c.addInput(l, b)
}

func (c *call) inputKind() error {
	switch c.u32(1) {
	case inputCubin:
		return errCubin
	case inputPTX, inputFatbinary:
		return nil
	}
	return c.fail(cuda.ErrNotSupported, "inputs of kind %d", c.u32(1))
}

// linkComplete checks the PTX by loading it, and hands it out.
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
	if l.input == nil {
		return c.fail(cuda.ErrInvalidValue, "no input was added")
	}
	start := time.Now()
	m, err := x.LoadModule("link", l.input)
	if jerr := l.jit.done(time.Since(start), err); err == nil {
		err = jerr
	}
	if err != nil {
		return err
	}
	if err := m.Unload(); err != nil {
		return err
	}
	if err := size.set(uint64(len(l.input) + 1)); err != nil {
		return err
	}
	return image.set(c.lib.text(string(l.input)))
}

func linkDestroy(c *call) error {
	if _, err := c.linker(); err != nil {
		return err
	}
	c.lib.handles.remove(c.u64(0))
	return nil
}
