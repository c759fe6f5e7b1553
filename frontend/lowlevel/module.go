package lowlevel

import (
	"encoding/binary"
	"fmt"

	"pvdrm/gpu/softgpu/hw"
)

// found is a kernel that the card has looked up.
type found struct {
	index  uint32
	params uint64 // bytes
}

// Load loads PTX. A context has one module; the name is for people, whom the card does not tell.
func (c *Context) Load(_ string, ptx []byte) error {
	if c.loaded {
		return fmt.Errorf("lowlevel: the context has a module already")
	}
	h, err := c.takeHost(uint64(len(ptx)))
	if err != nil {
		return err
	}
	copy(h.mem, ptx)
	if err := c.mapHost(h); err != nil {
		return err
	}
	size, align, err := c.ask(hw.OpLoad, append([]uint32{0, uint32(len(ptx))}, words64(h.va, c.answer.va)...)...)
	if err != nil {
		return fmt.Errorf("lowlevel: load a module: %w", err)
	}
	if err := c.freeHost(h); err != nil {
		return err
	}
	variables := align // of a module without variables
	if size > 0 {
		if variables, err = c.Alloc(size); err != nil {
			return err
		}
		if variables%align != 0 {
			return fmt.Errorf("lowlevel: the variables of the module want a multiple of %d bytes", align)
		}
		if err := c.Fill(variables, 0, size/4); err != nil {
			return err
		}
	}
	_, _, err = c.ask(hw.OpLink, append([]uint32{0, 0}, words64(variables, c.answer.va)...)...)
	c.loaded = err == nil
	return err
}

// ask submits a command with a reply, and waits for that.
func (c *Context) ask(op uint32, words ...uint32) (size, align uint64, err error) {
	if err := c.submit(op, words...); err != nil {
		return 0, 0, err
	}
	if err := c.Sync(); err != nil {
		return 0, 0, err
	}
	a := c.answer.mem
	if status, n := binary.LittleEndian.Uint32(a), binary.LittleEndian.Uint32(a[4:]); status != hw.ReplyOK {
		return 0, 0, fmt.Errorf("the card refuses: %s", a[hw.ReplyBytes:][:min(n, hw.MaxText)])
	}
	return binary.LittleEndian.Uint64(a[8:]), binary.LittleEndian.Uint64(a[16:]), nil
}

// find looks a kernel up, the first time.
func (c *Context) find(name string) (found, error) {
	if f, ok := c.kernels[name]; ok {
		return f, nil
	}
	if len(name) > hw.MaxName || len(c.kernels) == hw.KernelSlots {
		return found{}, fmt.Errorf("lowlevel: kernel %.64s: a context finds %d kernels, of names of %d bytes", name, hw.KernelSlots, hw.MaxName)
	}
	f := found{index: uint32(len(c.kernels))}
	at := c.answer.va + hw.SmallPage
	copy(c.answer.mem[hw.SmallPage:], name)
	words := append([]uint32{0, f.index}, words64(at)...)
	words = append(words, uint32(len(name)), 0)
	var err error
	f.params, _, err = c.ask(hw.OpFind, append(words, words64(c.answer.va)...)...)
	if err != nil {
		return found{}, fmt.Errorf("lowlevel: kernel %s: %w", name, err)
	}
	c.kernels[name] = f
	return f, nil
}

// Launch queues a kernel. Parameters lie in params as in the parameter block of the kernel.
func (c *Context) Launch(kernel string, grid, block [2]uint32, params []byte) error {
	f, err := c.find(kernel)
	if err != nil {
		return err
	}
	if uint64(len(params)) != f.params {
		return fmt.Errorf("lowlevel: kernel %s takes %d bytes of parameters, not %d", kernel, f.params, len(params))
	}
	words := []uint32{0, f.index, grid[0], grid[1], 1, block[0], block[1], 1, 0, uint32(len(params))}
	for len(params) > 0 {
		var w [4]byte
		n := copy(w[:], params)
		words = append(words, binary.LittleEndian.Uint32(w[:]))
		params = params[n:]
	}
	return c.submit(hw.OpLaunch, words...)
}
