package abi

import (
	"encoding/binary"
	"math/bits"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// newBlocks makes n blocks of memory, as the device has them.
func newBlocks(t testing.TB, n int) []Block {
	mem := make([]byte, n*BlockBytes+64)
	for i := range 64 { // Go aligns large slices to pages, small ones to less
		if b, err := Blocks(mem[i:], n); err == nil {
			return b
		}
	}
	require.Fail(t, "no address is aligned")
	return nil
}

func TestBlocksAreChecked(t *testing.T) {
	b := newBlocks(t, 2)
	require.Len(t, b, 2)
	_, err := Blocks(make([]byte, BlockBytes), 2)
	require.ErrorContains(t, err, "for 2 blocks")
	_, err = Blocks(nil, 0)
	require.Error(t, err)
	_, err = Word(make([]byte, 8), 5)
	require.ErrorContains(t, err, "a word at 5 of 8 bytes")
}

// Each request is taken once, and is under way until it is completed.
func TestTable(t *testing.T) {
	blocks := newBlocks(t, 2)
	table := NewTable(blocks)
	take := func() (refs []Ref, sizes []uint64) {
		n, err := table.Take(func(at Ref, r Request) { refs, sizes = append(refs, at), append(sizes, r.Size) })
		require.NoError(t, err)
		require.Equal(t, len(refs), n)
		return refs, sizes
	}
	refs, _ := take()
	require.Empty(t, refs)
	blocks[0].Requests[63].Size, blocks[1].Requests[0].Size, blocks[1].Requests[5].Size = 1, 2, 3
	blocks[0].Posted, blocks[1].Posted = 1<<63, 1|1<<5
	refs, sizes := take()
	require.Equal(t, []Ref{{Block: 0, Slot: 63}, {Block: 1, Slot: 0}, {Block: 1, Slot: 5}}, refs)
	require.Equal(t, []uint64{1, 2, 3}, sizes)
	require.Equal(t, 3, table.UnderWay())
	refs, _ = take()
	require.Empty(t, refs)

	table.Complete(Ref{Block: 1, Slot: 5}, -7)
	require.Equal(t, uint64(1<<5), blocks[1].Done)
	require.Equal(t, int64(-7), blocks[1].Results[5])
	require.True(t, table.Ended(1, 0))
	require.False(t, table.Ended(1, 1<<5))
	require.Panics(t, func() { table.Complete(Ref{Block: 1, Slot: 5}, 0) })

	blocks[1].Posted ^= 1 << 5 // again
	refs, _ = take()
	require.Equal(t, []Ref{{Block: 1, Slot: 5}}, refs)
	table.Complete(refs[0], 1)
	require.Zero(t, blocks[1].Done)

	blocks[1].Posted ^= 1 // under way
	_, err := table.Take(func(Ref, Request) { require.Fail(t, "served twice") })
	require.ErrorIs(t, err, ErrProtocol)
	require.ErrorContains(t, err, "block 1, slot 0")

	_, ok := table.Report(0, 1)
	require.False(t, ok)
	blocks[0].Report = Report{Sequence: 1, State: StateWaiting, Seen: 5, Logical: 9}
	r, ok := table.Report(0, 1)
	require.True(t, ok)
	require.Equal(t, blocks[0].Report, r)
}

func TestOpsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for op := OpOpen; op < opEnd; op++ {
		require.Contains(t, op.String(), "::")
		require.False(t, seen[op.String()])
		seen[op.String()] = true
	}
	require.Equal(t, "operation 99", Op(99).String())
	require.Equal(t, "127.0.0.1:80", (&Request{IP: 0x7f000001, Port: 80}).Endpoint().String())
}

// FuzzRequest decodes what a kernel may write: what passes the check is within bounds.
func FuzzRequest(f *testing.F) {
	f.Add(make([]byte, 64))
	f.Add([]byte{1, 0, 0, 0, 0x42, 0, 0, 0, 0, 0, 0, 0, 5})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var buf [64]byte
		copy(buf[:], raw)
		var r Request
		for i := range r.words() {
			r.words()[i] = binary.LittleEndian.Uint64(buf[8*i:])
		}
		no := r.Check()
		_, _ = r.Op.String(), r.Endpoint()
		if no != 0 {
			require.Contains(t, []syscall.Errno{syscall.ENOSYS, syscall.EINVAL, syscall.ENAMETOOLONG}, no)
			return
		}
		require.Contains(t, r.Op.String(), "::")
		require.Less(t, r.Port, uint32(1<<16))
		require.LessOrEqual(t, int64(r.Timeout), int64(maxTimeout))
		require.GreaterOrEqual(t, int64(r.Offset)+MaxMove, int64(0))
		if r.Op.Moves() {
			require.LessOrEqual(t, r.Size, uint64(MaxMove))
			require.GreaterOrEqual(t, r.Address+r.Size, r.Address)
		}
		if r.Op == OpOpen {
			require.Less(t, r.Text, uint32(MaxText))
		}
	})
}

// FuzzTable lets a kernel write any words at any time: no request is served twice at once, whatever
// the shared memory says.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{255, 254, 0, 0, 0, 128, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		blocks := newBlocks(t, 2)
		table := NewTable(blocks)
		under := map[Ref]bool{}
		for i, b := range script[:min(len(script), 200)] {
			block := &blocks[b>>7]
			switch b & 7 {
			case 0, 1, 2:
				block.Posted ^= 1 << (b >> 3 & 15)
			case 3:
				block.Posted = bits.RotateLeft64(0x9e3779b97f4a7c15, i)
			case 4:
				block.Done, block.Results[b>>3&15] = uint64(i)<<60, int64(b)
			case 5:
				block.Requests[b>>3&15] = Request{Op: Op(b), Size: uint64(i) << 30}
			case 6:
				for at := range under {
					table.Complete(at, int64(i))
					delete(under, at)
					break
				}
			case 7:
				_, err := table.Take(func(at Ref, _ Request) {
					require.False(t, under[at], "%v is served twice", at)
					under[at] = true
				})
				if err != nil {
					require.ErrorIs(t, err, ErrProtocol)
					return // the program ends
				}
			}
			require.Equal(t, len(under), table.UnderWay())
			_, _ = table.Report(int(b>>7), uint32(i))
		}
	})
}
