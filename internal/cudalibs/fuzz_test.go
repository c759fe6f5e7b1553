package cudalibs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// anyGuest is a program all of whose memory holds the same bytes, and whose handles are all good.
type anyGuest struct{ bytes [16]byte }

func (g *anyGuest) Read(p []byte, addr uint64) error {
	if addr < 4096 {
		return errors.New("not mapped")
	}
	for i := range p {
		p[i] = g.bytes[(addr+uint64(i))%16]
	}
	return nil
}

func (g *anyGuest) Text(uint64) ([]byte, error) { return []byte("text"), nil }

func (g *anyGuest) Pointer(addr uint64) (va uint64, device, pinned bool) {
	return addr, addr>>40 == 16, addr>>40 == 17
}

func (g *anyGuest) Use(k *Kind, v uint64) *Handle {
	h := &Handle{Kind: k, ID: uint32(v) | 1}
	if v&2 != 0 {
		for i := range k.Slots {
			h.SetSlot(i, make([]uint64, k.Slots[i].Words))
		}
	}
	return h
}

func (g *anyGuest) Make(k *Kind) (*Handle, error) { return &Handle{Kind: k, ID: 7}, nil }

// anyHost has all handles.
type anyHost struct {
	worked uint64
	lacks  bool // some handles
}

func (h *anyHost) Real(_ *Kind, id uint32) (uint64, bool) {
	return 0x4ea1_0000_0000 + uint64(id), !h.lacks || id%5 != 4
}

func (h *anyHost) Work(n uint64) (uint64, error) {
	h.worked += n
	return 0x3a3a_0000, nil
}
func (h *anyHost) Keep(uint32, [ScalarBytes]byte) (uint64, error) { return 0x2b2b_0000, nil }

const (
	recordBase  = 0x10_0000_0000
	resultsBase = 0x20_0000_0000
	resultsMost = 1 << 16
)

// inside reports whether n bytes at an address lie in a record or in the results.
func inside(at, n uint64, record []byte) bool {
	if n > 1<<32 {
		return false
	}
	in := func(base, size uint64) bool { return at >= base && at-base+n <= size }
	return in(recordBase, uint64(len(record))) || in(resultsBase+ResultHead, resultsMost-ResultHead)
}

// checkInvocation checks that what a function gets for memory of the host lies in the record or the
// results, and is as long as its row says.
func checkInvocation(t *testing.T, f *Function, inv *Invocation, record []byte) {
	var args [MaxParams]uint64
	for i := range f.Params {
		args[i] = inv.Args[i].Word
	}
	for i, p := range f.Params {
		if p.Class != In && p.Class != Out && p.Class != InOut || args[i] == 0 {
			continue
		}
		n, err := p.Size.eval(f, args[:])
		require.NoError(t, err)
		require.True(t, inside(args[i], n, record), "%s: argument %d: %d bytes at 0x%x", f.Name, i, n, args[i])
	}
	for _, c := range inv.Copies {
		require.LessOrEqual(t, uint64(c.From)+c.Bytes, uint64(len(record)))
		require.LessOrEqual(t, c.To+c.Bytes, uint64(resultsMost))
	}
	for _, m := range inv.Made {
		require.LessOrEqual(t, m.At+8, len(record))
	}
	require.LessOrEqual(t, inv.Results, uint64(resultsMost))
}

// seedArgs are arguments for the functions of the table: small numbers, and addresses that are mapped.
func seedArgs(f *Function, v uint64) []uint64 {
	args := make([]uint64, len(f.Params))
	for i, p := range f.Params {
		switch p.Class {
		case Int32, Int64:
			args[i] = v % 4
		case Float, Double, Null:
		case Device:
			args[i] = 16<<40 + v*64
		default:
			args[i] = 0x7f00_0000_0000 + v*128
		}
	}
	return args
}

// Every call that is encoded is decoded to the same arguments.
func TestEveryFunctionRoundTrips(t *testing.T) {
	for _, f := range All().Functions {
		if f.Mode == None || f.Mode == Set || f.Mode == Get {
			continue
		}
		for v := range uint64(8) {
			args := seedArgs(f, v)
			c, err := f.Encode(args, &anyGuest{})
			require.NoError(t, err, f.Name)
			g, record, rest, err := Split(c.Record)
			require.NoError(t, err, f.Name)
			require.Same(t, f, g)
			require.Empty(t, rest)
			var inv Invocation
			require.NoError(t, f.Decode(&inv, record, recordBase, resultsBase, ResultHead, resultsMost, &anyHost{}), f.Name)
			require.Equal(t, c.Results, inv.Results, f.Name)
			checkInvocation(t, f, &inv, record)
			for i, p := range f.Params {
				if p.Class == Int32 || p.Class == Int64 || p.Class == Device || p.Class == Float || p.Class == Double {
					require.Equal(t, args[i], inv.Args[i].Word, f.Name)
				}
			}
		}
	}
}

// FuzzDecode decodes records, of which the seeds have one of each function of the table.
func FuzzDecode(f *testing.F) {
	for _, fn := range All().Functions {
		if fn.Mode != None && fn.Mode != Set && fn.Mode != Get {
			c, err := fn.Encode(seedArgs(fn, 3), &anyGuest{})
			require.NoError(f, err)
			f.Add(c.Record)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		record := append([]byte{}, b...)
		for n := 0; len(record) > 0 && n < 16; n++ {
			fn, one, rest, err := Split(record)
			if err != nil {
				return
			}
			var inv Invocation
			host := &anyHost{lacks: true}
			if fn.Mode != None && fn.Decode(&inv, one, recordBase, resultsBase, ResultHead, resultsMost, host) == nil {
				checkInvocation(t, fn, &inv, one)
				require.LessOrEqual(t, host.worked, uint64(MaxParams)*MaxBuffer)
			}
			record = rest
		}
	})
}

// FuzzEncode encodes calls of each function with any arguments: what is encoded is decoded, and nothing is
// larger than its bounds.
func FuzzEncode(f *testing.F) {
	for i := range All().Functions {
		f.Add(uint32(i), binary.LittleEndian.AppendUint64(nil, 16<<40), []byte{1, 2, 3})
	}
	f.Add(All().Named("cudnnBackendSetAttribute").Index, []byte(fmt.Sprint(make([]uint64, 40))), []byte{15})
	f.Fuzz(func(t *testing.T, index uint32, words, memory []byte) {
		fn := All().Function(index)
		if fn == nil || fn.Mode == None {
			return
		}
		args := make([]uint64, len(fn.Params))
		for i := range args {
			var w [8]byte
			if 8*i < len(words) {
				copy(w[:], words[8*i:])
			}
			args[i] = binary.LittleEndian.Uint64(w[:])
		}
		g := &anyGuest{}
		copy(g.bytes[:], memory)
		c, err := fn.Encode(args, g)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(c.Record), MaxParams*(MaxBuffer+64))
		_, record, _, err := Split(c.Record)
		require.NoError(t, err)
		var inv Invocation
		if err := fn.Decode(&inv, record, recordBase, resultsBase, ResultHead, resultsMost, &anyHost{}); err == nil {
			checkInvocation(t, fn, &inv, record)
		}
	})
}
