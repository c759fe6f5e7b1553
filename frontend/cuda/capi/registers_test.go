package capi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an H100 answers for a kernel of 128 registers.
func TestLimitsOfRegisters(t *testing.T) {
	for _, c := range []struct {
		directives string
		option     uint32
		want       uint32
	}{
		{want: 128},
		{option: 16, want: 24}, {option: 24, want: 24}, {option: 32, want: 32}, {option: 50, want: 50}, {option: 64, want: 64},
		{option: 128, want: 128}, {option: 255, want: 128}, {option: 256, want: 128}, {option: 1000, want: 128},
		{directives: ".maxntid 1024", want: 64},
		{directives: ".maxntid 256", want: 128},
		{directives: ".maxntid 256\n.minnctapersm 4", want: 64},
		{directives: ".maxnreg 40", want: 40},
		{directives: ".maxntid 32, 32, 2", want: 32},
	} {
		text := fmt.Sprintf(".version 7.0\n.entry other() .maxnreg 30 { add 1, 2; }\n.visible .entry k(\n.param .u64 q)\n%s\n{\nmov.u32 %%r1, 16;\nret;\n}\n.entry last(){}", c.directives)
		all, limit := tunings([]byte(text))
		require.Zero(t, limit)
		require.Equal(t, c.want, min(128, all["k"].limit(c.option)), "%s %d", c.directives, c.option)
		require.EqualValues(t, 30, all["other"].limit(0))
		require.EqualValues(t, 255, all["last"].limit(0))
	}
	all, limit := tunings([]byte(".entry k() { ret; }"))
	require.Empty(t, all)
	require.Zero(t, limit)
	all, limit = tunings([]byte(".entry k() .maxnreg\n.minnctapersm 99999999999 .maxntid 0 { ret; }\n.pragma \"pvdrm_max_registers 57\";"))
	require.EqualValues(t, 57, limit)
	require.EqualValues(t, 255, all["k"].limit(0))
	all, _ = tunings([]byte(".entry k() .maxntid 4294967295, 4294967295 .minnctapersm 4294967295 { ret; }"))
	require.EqualValues(t, 24, all["k"].limit(0))
}

// A library carries the limit to the contexts that load it.
func TestLimitOfRegistersOfALibrary(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	p.gpu.Kernels["add"].Attributes.Regs = 100
	text := p.text(".entry add")
	for option, want := range map[uint64]uint32{0: 100, 48: 48} {
		lib := p.word64("cuLibraryLoadData", text, p.halves(jitMaxRegisters), p.words(option), 1, 0, 0, 0)
		k := p.word64("cuLibraryGetKernel", lib, p.text("add"))
		require.Equal(t, want, p.word32("cuKernelGetAttribute", funcRegs, k, 0))
	}
}
