package exec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// besideBodies are loads of words that lie beside each other, %r7 and %r8, by an address %rd7 that differs by lane without order, and
// is a row at times. What stands between them lets them be one load, or does not.
var besideBodies = map[string]string{
	"one after the other": "ld.global.u32 %r7, [%rd7]; ld.global.u32 %r8, [%rd7+4];",
	"the higher first":    "ld.global.u32 %r7, [%rd7+4]; ld.global.u32 %r8, [%rd7];",
	"loads between": "ld.global.u32 %r7, [%rd7+-4]; and.b32 %r11, %r7, 511; mul.wide.u32 %rd8, %r11, 4; add.u64 %rd8, %rd8, %rd1; ld.global.u32 %r11, [%rd8]; ld.global.u32 %r12, [%rd8+4];" +
		"mad.lo.u32 %r6, %r6, 31, %r11; xor.b32 %r6, %r6, %r12; ld.global.u32 %r8, [%rd7];",
	"four of a kind":        "ld.global.u32 %r7, [%rd7]; ld.global.u32 %r11, [%rd7+8]; ld.global.u32 %r8, [%rd7+4]; ld.global.u32 %r12, [%rd7+12]; add.u32 %r6, %r6, %r11; xor.b32 %r6, %r6, %r12;",
	"the result is read":    "mov.u32 %r8, %r5; ld.global.u32 %r7, [%rd7]; mad.lo.u32 %r6, %r6, 3, %r8; ld.global.u32 %r8, [%rd7+4];",
	"the result is written": "ld.global.u32 %r7, [%rd7]; mov.u32 %r8, %r7; mad.lo.u32 %r6, %r6, 3, %r8; ld.global.u32 %r8, [%rd7+4];",
	"the address changes":   "ld.global.u32 %r7, [%rd7]; add.u64 %rd7, %rd7, 12; ld.global.u32 %r8, [%rd7+4];",
	"a store between":       "ld.global.u32 %r7, [%rd7]; st.global.u32 [%rd7+4], %r10; ld.global.u32 %r8, [%rd7+4];",
	"an atomic between":     "ld.global.u32 %r7, [%rd7]; red.global.add.u32 [%rd7+4], %r5; ld.global.u32 %r8, [%rd7+4];",
	"a guard":               "mov.u32 %r8, 5; ld.global.u32 %r7, [%rd7]; setp.gt.u32 %p3, %r10, %r7; @%p3 ld.global.u32 %r8, [%rd7+4];",
	"one register":          "ld.global.u32 %r8, [%rd7]; ld.global.u32 %r8, [%rd7+4]; mov.u32 %r7, %r8;",
	"volatile":              "ld.volatile.global.u32 %r7, [%rd7]; ld.volatile.global.u32 %r8, [%rd7+4];",
	"generic":               "ld.u32 %r7, [%rd7]; ld.u32 %r8, [%rd7+4];",
	"an operation that may not be native": "ld.global.u32 %r7, [%rd7]; cvt.u64.u32 %rd8, %r7; or.b64 %rd9, %rd8, 1; rem.u64 %rd8, %rd7, %rd9; cvt.u32.u64 %r11, %rd8; xor.b32 %r6, %r6, %r11;" +
		"ld.global.u32 %r8, [%rd7+4];",
}

// besideLoop has lanes part, by loops of 1 to 16 turns, each with such loads.
const besideLoop = `mad.lo.u32 %r10, %r2, 0x9e3779b1, 0x7f4a7c15; shr.u32 %r5, %r10, 28; mov.u32 %r6, %r2;
L:	mad.lo.u32 %r10, %r10, 1664525, 1013904223; shr.u32 %r11, %r10, 23; and.b32 %r12, %r5, 3; setp.eq.u32 %p2, %r12, 2; @%p2 add.u32 %r11, %r2, 7;
	mul.wide.u32 %rd7, %r11, 4; add.u64 %rd7, %rd7, %rd1; add.u64 %rd7, %rd7, FIRST; BODY
	mad.lo.u32 %r6, %r6, 31, %r7; mad.lo.u32 %r6, %r6, 29, %r8;
	sub.u32 %r5, %r5, 1; setp.ge.s32 %p1, %r5, 0; @%p1 bra L; st.global.u32 [%rd4+16384], %r6;`

// runBeside runs it over words that begin at an offset of the buffer.
func runBeside(t *testing.T, body, first string, page uint64, when Native) ([]uint32, error) {
	m := exectest.NewMemory(page)
	k := kernel(t, build(t, "k.ptx", source("", strings.NewReplacer("BODY", body, "FIRST", first).Replace(besideLoop)), m), "k")
	m.Map(exectest.BufA, 5*4096)
	data := make([]uint32, 4096)
	for i := range data {
		data[i] = uint32(i) * 0x9e3779b1
	}
	writeAll(m, exectest.BufA, data)
	l := Launch{Grid: grid(2, 1, 1), Block: grid(96, 1, 1), Native: when, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}
	err := Run(k, l, m, new(Control), 1)
	if err == nil { // the first finds the pages
		err = Run(k, l, m, new(Control), 1)
	}
	return readAll[uint32](m, exectest.BufA, 5*1024), err
}

// TestBeside compares loads that are done together with those of the interpreter, on each width, in one page and in several.
func TestBeside(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for name, body := range besideBodies {
			t.Run(name, func(t *testing.T) {
				for _, page := range []uint64{4096, 1 << 16} {
					want, err := runBeside(t, body, "3000", page, NativeNever)
					require.NoError(t, err)
					got, err := runBeside(t, body, "3000", page, NativeAtOnce)
					require.NoError(t, err)
					require.Equal(t, want, got, "pages of %d bytes", page)
				}
			})
		}
	})
}

// The second of two loads that are done together is the one that faults, where it is behind the buffer, and words that are not
// aligned fault as ever.
func TestBesideFault(t *testing.T) {
	for _, c := range []struct {
		first string // of the last thread
		cause gpu.LostCause
	}{{first: "4092", cause: gpu.LostAddress}, {first: "3002", cause: gpu.LostAlign}} {
		for _, loads := range []string{besideBodies["one after the other"], besideBodies["the higher first"]} {
			run := func(when Native) *gpu.LostError {
				m := exectest.NewMemory(4096)
				body := "and.b32 %r5, %r2, 1; setp.eq.u32 %p1, %r5, 0; @%p1 exit; mul.wide.u32 %rd8, %r2, 20; add.u64 %rd7, %rd1, " + c.first + "; add.u64 %rd7, %rd7, -620; add.u64 %rd7, %rd7, %rd8;" +
					loads + "add.u32 %r7, %r7, %r8; st.global.u32 [%rd4], %r7;"
				k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
				m.Map(exectest.BufA, 4096)
				return lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Native: when, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1))
			}
			want := run(NativeNever)
			require.Equal(t, c.cause, want.Cause)
			require.Equal(t, want, run(NativeAtOnce))
			if c.cause == gpu.LostAddress {
				require.EqualValues(t, exectest.BufA+4096, want.Addr)
				require.Equal(t, [3]uint32{31, 0, 0}, want.Thread)
			}
		}
	}
}
