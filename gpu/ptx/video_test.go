package ptx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSelectors reads and prints the parts that operands of video instructions name.
func TestSelectors(t *testing.T) {
	for _, text := range []string{
		"vadd.u32.s32.u32.sat %r1.h1, %r2.b3, %r3.h0, %r4;",
		"vmad.s32.s32.u32.sat.shr7 %r1, -%r2.h0, %r3, %r4;",
		"vmad.u32.u32.u32 %r1, %r2, 3, -%r4;",
		"vset2.u32.s32.lt.add %r1.h10, %r2.h01, %r3.h32, %r4;",
		"vavrg4.s32.s32.s32.sat %r1.b320, %r2.b7654, %r3.b0123, %r4;",
	} {
		m, err := Load("f", []byte(kernel(text)))
		require.NoError(t, err)
		require.True(t, instrs(m.Directives[0].(*Func))[0].Op.Video())
		again, err := Load("f", []byte(printed(t, m)))
		require.NoError(t, err)
		require.Empty(t, equal(m, again), text)
		require.Contains(t, printed(t, m), text[:len(text)-1])
	}
	s, ok := parseSelector("b7160")
	require.True(t, ok)
	require.Equal(t, []int{0, 6, 1, 7}, []int{s.At(0), s.At(1), s.At(2), s.At(3)})
	require.Equal(t, "b7160", s.String())
	require.False(t, s.Half())
	for _, word := range []string{"", "b", "h", "b8", "x0", "b01234", "h-1", "b٣"} {
		_, ok := parseSelector(word)
		require.False(t, ok, word)
	}
}
