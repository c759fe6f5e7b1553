package hw

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A walk through two levels finds what one through each finds: the second level's translation of
// what the first names, and nothing where either maps nothing.
func TestNestedWalk(t *testing.T) {
	const (
		part   = 16 << 20 // where the machine's VRAM lies
		second = 0        // and its second level, in front
		pair   = second + DirectoryBytes
		own    = 8 << 20 // bytes of the machine's VRAM
		top    = 0x10000 // its directory, and tables behind
		tables = 0x40000
	)
	v, err := NewVRAM(32 << 20)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Unmap()) })
	r := rand.New(rand.NewPCG(3, 4))
	// The second level scatters small pages, but for the first 2 MiB.
	frames := map[uint64]uint64{}
	v.SetWord(second, uint64(MakePDE(pair+SmallTable, pair)))
	v.SetWord(pair+SmallTable, uint64(MakePTE(TargetVRAM, part, false)))
	for page := uint64(LargePage); page < own; page += SmallPage {
		if r.IntN(4) == 0 {
			continue
		}
		frames[page] = part + LargePage + r.Uint64N(6<<20)&^(SmallPage-1)
		v.SetWord(pair+page/SmallPage*EntryBytes, uint64(MakePTE(TargetVRAM, frames[page], false)))
	}
	for page := uint64(0); page < LargePage; page += SmallPage {
		frames[page] = part + page
	}
	m := &MMU{VRAM: v, Second: second + 1}
	v.SetWord(part+top, uint64(MakePDE(tables+SmallTable, tables)))
	v.SetWord(part+top+EntryBytes, uint64(MakePDE(own, own+LargePage))) // tables that it has not
	want := map[uint64]uint64{}
	for n := range uint64(4096) {
		addr := r.Uint64N(2*own) &^ (SmallPage - 1) // half of it beyond
		if n >= 512 && n < 1024 {
			addr = n * SmallPage // consecutive for the machine, and scattered behind
		}
		want[n*SmallPage] = addr
		v.SetWord(part+tables+n*EntryBytes, uint64(MakePTE(TargetVRAM, addr, n%3 == 0 && n >= 1024)))
	}
	for va, addr := range want {
		va += r.Uint64N(SmallPage)
		page, base, readOnly, ok := m.Lookup(top, va)
		frame, mapped := frames[addr]
		require.Equal(t, mapped, ok, "0x%x names 0x%x", va, addr)
		if !ok {
			continue
		}
		require.Equal(t, place(v.Bytes(frame+va%SmallPage, 1)), place(page[va-base:]))
		require.Equal(t, va/SmallPage%3 == 0 && va/SmallPage >= 1024, readOnly)
		for at := base; at < base+uint64(len(page)); at += SmallPage { // all of the piece is what it seems
			require.Equal(t, place(v.Bytes(frames[want[at]], 1)), place(page[at-base:]))
		}
	}
	for _, va := range []uint64{DirectorySpan, 2 * DirectorySpan, AddressMax - 1, AddressMax, 4096 * SmallPage} {
		_, _, _, ok := m.Lookup(top, va)
		require.False(t, ok, "0x%x", va)
	}
	for _, directory := range []uint64{own, top + 1, part, 1<<64 - 8} {
		_, _, _, ok := m.Lookup(directory, 0)
		require.False(t, ok, "directory 0x%x", directory)
	}
}
