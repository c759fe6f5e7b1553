package libstest

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/cudalibs"
)

// Guest is a program and its side of calls. Its memory lies at an address from Base on; what is from GPU on
// counts as the GPU's.
type Guest struct {
	testing.TB
	Mem       []byte
	Base, GPU uint64

	used    [2]uint64
	handles map[uint64]*cudalibs.Handle
	last    uint32
	waiting []byte // records
}

// Read implements cudalibs.Guest.
func (g *Guest) Read(b []byte, addr uint64) error { copy(b, g.Mem[addr-g.Base:]); return nil }

// Text implements cudalibs.Guest.
func (g *Guest) Text(addr uint64) ([]byte, error) {
	s, _, _ := strings.Cut(string(g.Mem[addr-g.Base:][:64]), "\x00")
	return []byte(s), nil
}

// Pointer implements cudalibs.Guest.
func (g *Guest) Pointer(addr uint64) (va uint64, device, pinned bool) {
	return addr, addr >= g.GPU && addr < g.Base+uint64(len(g.Mem)), false
}

// Use implements cudalibs.Guest.
func (g *Guest) Use(k *cudalibs.Kind, v uint64) *cudalibs.Handle {
	if h := g.handles[v]; h != nil && k.Takes(h.Kind) {
		return h
	}
	return nil
}

// Make implements cudalibs.Guest.
func (g *Guest) Make(k *cudalibs.Kind) (*cudalibs.Handle, error) {
	g.last++
	return &cudalibs.Handle{Kind: k, ID: g.last}, nil
}

// Room is memory of the program, or of the GPU.
func (g *Guest) Room(n uint64, gpu bool) (addr uint64, mem []byte) {
	which, at := 0, uint64(0)
	if gpu {
		which, at = 1, g.GPU-g.Base
	}
	at += g.used[which]
	g.used[which] += (n + 31) &^ 31
	return g.Base + at, g.Mem[at:][:n]
}

// Floats puts numbers into memory, and returns a function that reads them.
func (g *Guest) Floats(gpu bool, v ...float32) (uint64, func() []float32) {
	addr, mem := g.Room(4*uint64(len(v)), gpu)
	for i, x := range v {
		binary.LittleEndian.PutUint32(mem[4*i:], math.Float32bits(x))
	}
	return addr, func() []float32 {
		got := make([]float32, len(v))
		for i := range got {
			got[i] = math.Float32frombits(binary.LittleEndian.Uint32(mem[4*i:]))
		}
		return got
	}
}

// Encode makes a batch of a call and those that wait for it. It is nil for a call that waits itself.
func (g *Guest) Encode(name string, args ...uint64) (batch []byte, c *cudalibs.Call) {
	f := cudalibs.All().Named(name)
	require.NotNil(g, f, name)
	if f.Mode == cudalibs.Set {
		h := g.Use(f.Params[0].Kind, args[0])
		if f.Slot >= 0 {
			h.SetSlot(f.Slot, args[1:])
		} else {
			h.ResetByStream()
		}
		return nil, nil
	}
	c, err := f.Encode(args, g)
	require.NoError(g, err)
	for _, m := range c.Made {
		v := 0x1000 + 16*uint64(m.Handle.ID)
		if g.handles == nil {
			g.handles = map[uint64]*cudalibs.Handle{}
		}
		g.handles[v] = m.Handle
		n := 8
		if m.Handle.Kind.Int {
			n = 4
		}
		copy(g.Mem[m.Addr-g.Base:][:n], binary.LittleEndian.AppendUint64(nil, v))
	}
	g.waiting = append(g.waiting, c.Record...)
	if c.Late {
		return nil, c
	}
	batch = append(binary.LittleEndian.AppendUint64(nil, cudalibs.All().Sum), g.waiting...)
	g.waiting = nil
	return batch, c
}

// Refused is the error of a call that the program's side does not encode.
func (g *Guest) Refused(name string, args ...uint64) error {
	_, err := cudalibs.All().Named(name).Encode(args, g)
	return err
}

// ID is the number by which a record has a handle of the program.
func (g *Guest) ID(v uint64) uint32 { return g.handles[v].ID }

// Waits reports whether records wait for another call.
func (g *Guest) Waits() bool { return len(g.waiting) > 0 }

// Take copies results to where the program wants them.
func (g *Guest) Take(c *cudalibs.Call, results []byte) {
	if !c.Waits {
		return
	}
	require.EqualValues(g, cudalibs.ResultDone, binary.LittleEndian.Uint32(results[4:])&cudalibs.ResultDone)
	require.NoError(g, c.Deliver(results, func(addr uint64, p []byte) error {
		copy(g.Mem[addr-g.Base:][:len(p)], p)
		return nil
	}))
}

// Made is the arguments of a call that makes a handle, and where the handle goes.
func (g *Guest) Made(name string, before ...uint64) (args []uint64, handle func() uint64) {
	to, mem := g.Room(8, false)
	args = append(append(args, before...), to)
	if cudalibs.All().Named(name).Params[0].Class == cudalibs.Create {
		args = append([]uint64{to}, before...)
	}
	return args, func() uint64 { return binary.LittleEndian.Uint64(mem) }
}
