//go:build linux

package jit

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu/softgpu/exec/tlb"
)

// Pages that continue one another for the guest and on the host become one extent, whatever their order, which
// every page of it has; those of which one is missing, or lies elsewhere on the host, stay apart.
func TestExtents(t *testing.T) {
	const page = 4096
	mem := make([]byte, 40*page)
	at := func(n int) *tlb.Translation {
		host := n
		if n >= 20 { // one page is left out on the host
			host = n + 1
		}
		return &tlb.Translation{Base: uint64(64+n) * page, Mask: page - 1, Page: unsafe.Pointer(&mem[host*page])}
	}
	for seed := range uint64(20) {
		order := rand.New(rand.NewPCG(3, seed)).Perm(30)
		s := new(Sites)
		table := make([]Site, tableSites)
		for _, n := range order {
			if n != 8 { // nor is this one mapped
				s.enter(table, at(n))
			}
		}
		for n := range 30 {
			got := table[(64+n)%tableSites]
			first, last := 0, 8
			switch {
			case n == 8:
				require.Zero(t, got)
				continue
			case n >= 20:
				first, last = 20, 30
			case n > 8:
				first, last = 9, 20
			}
			require.Equal(t, at(first).Base, got.from, "page %d of %v", n, order)
			require.Equal(t, uint64(last-first)*page, got.bytes)
			require.Equal(t, at(first).Page, got.host)
			require.Equal(t, at(n).Page, got.page)
		}
	}
}

// An extent is no larger than the offsets that native code has.
func TestExtentsAreBounded(t *testing.T) {
	const page = 1 << 30
	s, table := new(Sites), make([]Site, tableSites)
	mem, err := unix.Mmap(-1, 0, 5*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	for n := range uint64(5) {
		got := s.enter(table, &tlb.Translation{Base: n * page, Mask: page - 1, Page: unsafe.Pointer(&mem[n*page])})
		require.LessOrEqual(t, got.bytes, uint64(maxExtent))
		require.Less(t, n*page-got.from, got.bytes)
	}
	large := s.enter(table, &tlb.Translation{Base: 1 << 33, Mask: 1<<33 - 1, Page: unsafe.Pointer(&mem[0])})
	require.Equal(t, uint64(maxExtent), large.bytes)
	require.Equal(t, uint64(1)<<33, large.from)
}
