package card

import (
	"encoding/binary"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// fetch runs what the indirect buffer names until get is put. It is the goroutine of the channel.
func (c *channel) fetch(raw *softgpu.Raw) error {
	for {
		get, put, more := c.more()
		if !more {
			return nil
		}
		if err := raw.Err(); err != nil {
			return err
		}
		buffer := c.card.vram.Word(c.descriptor + hw.DescIndirect)
		log := buffer >> hw.IndirectLog
		entries := uint32(1) << min(log, hw.IndirectMaxLog)
		if log > hw.IndirectMaxLog || max(get, put) >= entries { // else get would never be put
			return wrong("the indirect buffer has no such entry")
		}
		words, err := entry(raw, buffer&hw.IndirectVA+8*uint64(get))
		if err != nil {
			return err
		}
		if err := c.run(raw, words); err != nil {
			return err
		}
		c.advance((get + 1) & (entries - 1))
	}
}

// more returns the next entry to fetch. Where there is none, the channel is not busy any more.
func (c *channel) more() (get, put uint32, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.get == c.put || !c.runs {
		c.busy = false
		return 0, 0, false
	}
	return c.get, c.put, true
}

// advance notes that an entry has been run, and shows it in the control page.
func (c *channel) advance(get uint32) {
	c.mu.Lock()
	c.get = get
	c.mu.Unlock()
	if b := c.controlAt(hw.ControlGet); b != nil {
		hw.StoreHalf(b[:4], get)
	}
}

// entry copies the command words that an entry of the indirect buffer names.
func entry(raw *softgpu.Raw, va uint64) (words []byte, err error) {
	var e [8]byte
	if err := raw.Read(e[:], va); err != nil {
		return nil, err
	}
	v := binary.LittleEndian.Uint64(e[:])
	n := v >> hw.IndirectShift & (1<<21 - 1)
	if v&^(hw.IndirectAddress|(1<<21-1)<<hw.IndirectShift) != 0 || n > hw.IndirectWords {
		return nil, wrong("an entry of the indirect buffer has reserved bits or too many words")
	}
	words = make([]byte, 4*n)
	return words, raw.Read(words, v&hw.IndirectAddress)
}

// run decodes and runs commands.
func (c *channel) run(raw *softgpu.Raw, words []byte) error {
	for len(words) > 0 {
		head := binary.LittleEndian.Uint32(words)
		n := 4 * int(head>>16)
		words = words[4:]
		if n > len(words) {
			return wrong("a command is longer than the words that are left")
		}
		if err := c.command(raw, head&0xffff, fields{rest: words[:n]}); err != nil {
			return err
		}
		words = words[n:]
	}
	return nil
}

// fields reads the words of a command. It remembers whether there were too few.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) u32() uint32 {
	if len(f.rest) < 4 {
		f.short = true
		return 0
	}
	v := binary.LittleEndian.Uint32(f.rest)
	f.rest = f.rest[4:]
	return v
}

func (f *fields) u64() uint64 {
	low := f.u32()
	return uint64(f.u32())<<32 | uint64(low)
}

// dims reads three words.
func (f *fields) dims() (d [3]uint32) {
	for i := range d {
		d[i] = f.u32()
	}
	return d
}

// end returns whether the command had as many words as it needs, and no more.
func (f *fields) end() error {
	if f.short || len(f.rest) > 0 {
		return wrong("a command has too few words or too many")
	}
	return nil
}
