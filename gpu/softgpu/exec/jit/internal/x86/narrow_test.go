package x86

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is one instruction of AVX2 has a form in narrow code.
func TestNarrowHasAll(t *testing.T) {
	for _, op := range slices.Concat(three, two, []*Op{&UNPCKLD, &UNPCKHD, &UNPCKLQ, &UNPCKHQ, &PSHUFB, &PMADDWD}) {
		if op.same != nil {
			require.NotNil(t, op.same.narrow, op.Name)
		}
	}
	for _, op := range []*Op{&LOADX, &LOADXA, &STOREX, &STOREXA, &BROADCASTX4, &CVTPS2DQ} {
		require.NotNil(t, op.narrow, op.Name)
	}
}

func TestNarrowRefusesOperandsThatItsFormIgnores(t *testing.T) {
	a := &Asm{}
	a.MakeNarrow()
	require.PanicsWithValue(t, "x86: vpslld has no form for such an operand in narrow code", func() { a.ym(&PSLLD, 1, 0, Mem{Base: area}, 3) })
	require.PanicsWithValue(t, "x86: vpmaskmovd has no form for such an operand in narrow code", func() { a.y(&yMASKLOAD, 1, 2, 3, 0) })
}
