package cprintf

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAssert(t *testing.T) {
	texts := map[uint64]string{100: "a < b", 200: "dir/a.cu", 300: "void k(int)", 1 << 20: strings.Repeat("x", 2*maxText)}
	read := func(addr, _ uint64) uint64 {
		for at, s := range texts {
			if addr >= at && addr < at+uint64(len(s)) {
				return uint64(s[addr-at])
			}
		}
		return 0
	}
	a := Assert{Message: 100, File: 200, Function: 300, Line: 12, Block: [3]uint32{1, 2, 3}, Thread: [3]uint32{4, 5, 6}}
	require.Equal(t, "dir/a.cu:12: void k(int): block: [1,2,3], thread: [4,5,6] Assertion `a < b` failed.\n", a.Text(read))
	a = Assert{}
	require.Equal(t, ":0: : block: [0,0,0], thread: [0,0,0] Assertion `` failed.\n", a.Text(func(uint64, uint64) uint64 { panic("address 0") }))
	a = Assert{Message: 1 << 20, File: 1 << 20, Function: 1 << 20}
	require.LessOrEqual(t, len(a.Text(read)), 3*maxText+100)
}
