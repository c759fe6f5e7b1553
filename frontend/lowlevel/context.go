package lowlevel

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/paging"
	"pvdrm/internal/extent"
)

// Sizes of what a context has.
const (
	indirectLog  = 9
	indirectEnd  = 1 << indirectLog // entries
	commandBytes = 256 << 10
	bounceBytes  = 1 << 20

	firstVA = hw.DirectorySpan
	lastVA  = 64 << 30
)

// Context is an address space with a channel.
type Context struct {
	driver *Driver
	number int
	dir    directory
	va     *extent.Space

	descriptor, control *instance
	indirect, commands  *Host
	fence, answer       *Host // of 4 KiB; the notifier lies in fence
	toGPU, fromGPU      *Host // copies go through them
	hosts               []*Host
	buffers             []*buffer

	put     uint32
	at      int    // in commands
	last    uint64 // number of the last submission
	kernels map[string]found
	loaded  bool
}

// NewContext opens a channel with an address space of its own.
func (d *Driver) NewContext() (*Context, error) {
	number := -1
	for i, c := range d.channels {
		if c == nil {
			number = i
			break
		}
	}
	if number < 0 {
		return nil, fmt.Errorf("lowlevel: all %d channels are in use", len(d.channels))
	}
	c := &Context{driver: d, number: number, va: extent.New(firstVA, lastVA), kernels: map[string]found{}}
	if err := c.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("lowlevel: channel %d: %w", number, err), c.Close())
	}
	return c, nil
}

// open binds the channel and then maps what it needs.
func (c *Context) open() (err error) {
	d := c.driver
	if c.dir, err = d.newDirectory(); err != nil {
		return err
	}
	d.channels[c.number] = c
	if c.control, err = d.newInstance(hw.ControlBytes); err != nil {
		return err
	}
	if c.descriptor, err = d.newInstance(hw.DescBytes); err != nil {
		return err
	}
	hosts := []struct {
		host **Host
		size uint64
	}{{&c.indirect, indirectEnd * 8}, {&c.commands, commandBytes}, {&c.fence, hw.SmallPage}, {&c.answer, 2 * hw.SmallPage}, {&c.toGPU, bounceBytes}, {&c.fromGPU, bounceBytes}}
	for _, h := range hosts {
		if *h.host, err = c.takeHost(h.size); err != nil {
			return err
		}
		clear((*h.host).mem)
	}
	c.descriptor.write64(hw.DescControl, c.control.vram)
	c.descriptor.write64(hw.DescIndirect, c.indirect.va|indirectLog<<hw.IndirectLog)
	c.descriptor.write64(hw.DescNotifier, c.fence.va+notifier)
	c.descriptor.write64(hw.DescDirectory, c.dir.address())
	c.descriptor.write64(hw.DescLimit, lastVA-1)
	if d.Calls != nil {
		err = d.call(paging.Call{Op: paging.SetChannel, Directory: c.dir.(*granted).id, A: uint64(c.number)})
		if err = errors.Join(err, c.dir.flush()); err != nil {
			return err
		}
	}
	d.setRegister(hw.RegChannel+hw.ChannelBytes*uint64(c.number), hw.Valid|uint32(c.descriptor.vram>>12))
	d.writeRunList()
	for _, h := range hosts {
		if err := c.mapHost(*h.host); err != nil {
			return err
		}
	}
	if err := c.submit(hw.OpNop); err != nil {
		return err
	}
	return c.Sync()
}

// writeRunList lists the channels that have a context.
func (d *Driver) writeRunList() {
	n := uint32(0)
	for i, c := range d.channels {
		if c != nil {
			d.runList.write64(hw.RunListEntry*uint64(n), uint64(i))
			n++
		}
	}
	d.setRegister(hw.RegRunList, uint32(d.runList.vram>>12))
	d.setRegister(hw.RegRunListUpdate, n)
}

// Close gives back each thing by its own call, as a careful program does.
func (c *Context) Close() error {
	d := c.driver
	if d.channels[c.number] != c {
		return nil
	}
	var errs []error
	for len(c.buffers) > 0 {
		errs = append(errs, c.free(c.buffers[len(c.buffers)-1]))
	}
	for len(c.hosts) > 0 {
		errs = append(errs, c.freeHost(c.hosts[len(c.hosts)-1]))
	}
	d.setRegister(hw.RegChannel+hw.ChannelBytes*uint64(c.number), 0)
	d.channels[c.number] = nil
	d.writeRunList()
	errs = append(errs, c.dir.free())
	for _, o := range []*instance{c.control, c.descriptor} {
		if o != nil {
			errs = append(errs, o.free())
		}
	}
	return errors.Join(append(errs, d.flushCalls())...)
}

// submit sends a command, followed by one that moves the fence.
func (c *Context) submit(op uint32, words ...uint32) error {
	b := command(nil, op, words...)
	b = command(b, hw.OpRelease, append(words64(c.fence.va), words64(c.last+1)...)...)
	if c.at+len(b) > len(c.commands.mem) || c.last-c.passed() >= indirectEnd-1 {
		if err := c.Sync(); err != nil {
			return err
		}
		c.at = 0
	}
	copy(c.commands.mem[c.at:], b)
	entry := (c.commands.va + uint64(c.at)) | uint64(len(b)/4)<<hw.IndirectShift
	binary.LittleEndian.PutUint64(c.indirect.mem[8*c.put:], entry)
	c.at += len(b)
	c.last++
	c.put = (c.put + 1) % indirectEnd
	c.driver.doorbells++
	c.driver.Bus.Write(hw.BAR1, uint64(c.number)*hw.ControlBytes+hw.ControlPut, c.put)
	return nil
}

// command encodes a command.
func command(b []byte, op uint32, words ...uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, op|uint32(len(words))<<16)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// words64 are the words of 64-bit numbers.
func words64(v ...uint64) (words []uint32) {
	for _, x := range v {
		words = append(words, uint32(x), uint32(x>>32))
	}
	return words
}
