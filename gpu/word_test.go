package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordHolds(t *testing.T) {
	for _, c := range []struct {
		op          WordOp
		size        uint32
		word, value uint64
		want        bool
	}{
		{op: WaitGreaterEqual, size: 4, word: 5, value: 5, want: true},
		{op: WaitGreaterEqual, size: 4, word: 6, value: 5, want: true},
		{op: WaitGreaterEqual, size: 4, word: 4, value: 5},
		{op: WaitGreaterEqual, size: 4, word: 1, value: 0xffffffff, want: true}, // a counter that wrapped
		{op: WaitGreaterEqual, size: 4, word: 0xffffffff, value: 1},
		{op: WaitGreaterEqual, size: 8, word: 1, value: 1<<64 - 1, want: true},
		{op: WaitGreaterEqual, size: 8, word: 1 << 31, value: 0, want: true},
		{op: WaitGreaterEqual, size: 8, word: 1 << 63, value: 0},
		{op: WaitEqual, size: 4, word: 7, value: 7, want: true},
		{op: WaitEqual, size: 4, word: 7, value: 1<<32 | 7, want: true}, // what a word has not does not count
		{op: WaitEqual, size: 8, word: 7, value: 1<<32 | 7},
		{op: WaitAnd, size: 4, word: 6, value: 4, want: true},
		{op: WaitAnd, size: 4, word: 6, value: 1},
		{op: WaitAnd, size: 8, word: 1 << 40, value: 1 << 40, want: true},
		{op: WaitNor, size: 4, word: 0xffff, value: 0xffff0000},
		{op: WaitNor, size: 4, word: 0xffff, value: 0xfffe0000, want: true},
		{op: WaitNor, size: 8, word: 0xffff, value: 0xffff0000, want: true},
		{op: WaitNor, size: 8, word: 1<<64 - 1, value: 0},
	} {
		w := Word{Size: c.size, Op: c.op, Value: c.value}
		require.Equal(t, c.want, w.Holds(c.word), "%+v", c)
	}
}
