package exec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// claimsBody makes registers of which native code knows how their lanes lie: %x9 follows the lanes, %x8 and %y8 are the same in
// all, and %y9 follows them by 4. CHANGE writes them in some way, and then they are read, and others that
// are made of them, behind a barrier that leaves none in a vector.
const claimsBody = `.shared .align 64 .b8 pad[64]; .shared .align 16 .b8 s[8192]; .reg .b32 %x<80>; .reg .b64 %y<30>; .reg .pred %q<8>;
	mov.u32 %x1, %tid.y; mov.u32 %x2, %ntid.x; mad.lo.u32 %x3, %x1, %x2, %r2; mov.u32 %x18, s; mad.lo.u32 %x18, %x3, 16, %x18;
	mul.wide.u32 %y1, %x3, 4; add.u64 %y2, %rd1, %y1; mov.u32 %x0, 1; ld.global.u32 %x4, [%y2]; st.shared.u32 [%x18], %x4; not.b32 %x5, %x4; st.shared.u32 [%x18+4], %x5;
	setp.gt.u32 %q1, %r2, 11; setp.eq.u32 %q2, %r1, 0; setp.eq.u32 %q3, %r1, 1;
	add.u32 %x9, %r2, 7; add.u32 %x8, %x2, 3; mul.wide.u32 %y9, %r2, 4; cvt.u64.u32 %y8, %x8; bar.sync 0;
	CHANGE
	add.u32 %x11, %x9, 1; add.u32 %x12, %x8, 1; add.u64 %y11, %y9, 16; add.u64 %y12, %y8, 1; bar.sync 0; mad.lo.u32 %x0, %x0, 19, %x11; mad.lo.u32 %x0, %x0, 17, %x12; cvt.u32.u64 %x10, %y11; mad.lo.u32 %x0, %x0, 13, %x10; shr.u64 %y13, %y11, 32; cvt.u32.u64 %x10, %y13; mad.lo.u32 %x0, %x0, 13, %x10;
	cvt.u32.u64 %x10, %y12; mad.lo.u32 %x0, %x0, 11, %x10; shr.u64 %y13, %y12, 32; cvt.u32.u64 %x10, %y13; mad.lo.u32 %x0, %x0, 11, %x10;
	add.u32 %x10, %x9, 1; mad.lo.u32 %x0, %x0, 31, %x10; mad.lo.u32 %x0, %x0, 29, %x8;
	add.u64 %y10, %y9, 16; cvt.u32.u64 %x10, %y10; mad.lo.u32 %x0, %x0, 27, %x10; shr.u64 %y13, %y10, 32; cvt.u32.u64 %x10, %y13; mad.lo.u32 %x0, %x0, 27, %x10; add.u64 %y10, %y8, 1; cvt.u32.u64 %x10, %y10; mad.lo.u32 %x0, %x0, 23, %x10; shr.u64 %y13, %y10, 32; cvt.u32.u64 %x10, %y13; mad.lo.u32 %x0, %x0, 23, %x10;
	st.global.u32 [%y2+OUT], %x0;`

// claimsFunctions are functions whose results differ from lane to lane.
const claimsFunctions = `
.func (.reg .b32 r) mixed(.reg .b32 a) { .reg .b32 %t; mul.lo.u32 %t, a, 77777; xor.b32 r, %t, a; ret; }
.func (.reg .b64 r) mixed64(.reg .b32 a) { .reg .b32 %t; mul.lo.u32 %t, a, 77777; xor.b32 %t, %t, a; cvt.u64.u32 r, %t; ret; }
.func (.reg .b32 r) other(.reg .b32 a) { mul.lo.u32 r, a, 99; ret; }
`

// keeps stands for 30 registers that are alive, more than there are vectors.
func keeps(op string) string {
	var s strings.Builder
	for i := range 30 {
		s.WriteString(strings.ReplaceAll(op, "N", fmt.Sprint(30+i)))
	}
	return s.String()
}

// claimsChanges are ways in which registers change. All lanes of a warp know of each.
var claimsChanges = map[string]string{
	"nothing":                   "",
	"a load":                    "ld.shared.u32 %x9, [%x18]; ld.shared.u32 %x8, [%x18];",
	"elements of a load":        "ld.shared.v2.u32 {%x9, %x8}, [%x18];",
	"a load of 64 bits":         "ld.shared.u64 %y9, [%x18]; ld.shared.u64 %y8, [%x18];",
	"an operation":              "xor.b32 %x9, %x4, 5; mul.lo.u32 %x8, %x4, 3; cvt.u64.u32 %y9, %x4; cvt.s64.s32 %y8, %x4;",
	"some lanes":                "@%q1 add.u32 %x9, %x9, 2; @%q1 add.u32 %x8, %x8, 2; @!%q1 add.u64 %y9, %y9, 2; @!%q1 add.u64 %y8, %y8, 2;",
	"a branch of some lanes":    "@%q1 bra B; add.u32 %x9, %r2, 70; add.u32 %x8, %x2, 30; mul.wide.u32 %y9, %r2, 8; cvt.u64.u32 %y8, %x9; st.shared.u32 [%x18], %x8; B:",
	"two sides":                 "@%q1 bra B; add.u32 %x9, %r2, 70; add.u32 %x8, %x2, 30; mul.wide.u32 %y9, %r2, 8; cvt.u64.u32 %y8, %x9; st.shared.u32 [%x18], %x8; bra C; B: add.u32 %x9, %r2, 9; mov.u32 %x8, %x2; mov.u64 %y8, %rd1; shl.b64 %y9, %y9, 3; st.shared.u32 [%x18], %x8; C:",
	"two sides, with a barrier": "@%q1 bra B; add.u32 %x9, %r2, 70; add.u32 %x8, %x2, 30; mul.wide.u32 %y9, %r2, 8; cvt.u64.u32 %y8, %x9; bar.sync 1; bra C; B: add.u32 %x9, %r2, 9; mov.u32 %x8, %x2; mov.u64 %y8, %rd1; shl.b64 %y9, %y9, 3; bar.sync 1; C:",
	"a branch of all lanes":     "@%q2 bra B; xor.b32 %x9, %x4, 5; mul.lo.u32 %x8, %x4, 3; st.shared.u32 [%x18], %x8; bar.sync 0; B:",
	"a branch that none takes":  "@!%q2 bra B; xor.b32 %x9, %x4, 5; mul.lo.u32 %x8, %x4, 3; st.shared.u32 [%x18], %x8; bar.sync 0; B:",
	"a loop":                    "mov.u32 %x20, 0; L: xor.b32 %x9, %x9, %x4; add.u32 %x8, %x8, %x9; add.u32 %x20, %x20, 1; setp.lt.u32 %q4, %x20, 3; @%q4 bra L;",
	"a loop that lanes leave":   "mov.u32 %x20, 0; L: add.u32 %x9, %r2, %x20; mov.u32 %x8, %x20; add.u32 %x20, %x20, 1; setp.lt.u32 %q4, %x20, %r2; bar.warp.sync -1; @%q4 bra L;",
	"a loop by a table":         "mov.u32 %x20, 0; mov.u32 %x21, 0; T: .branchtargets L, E; L: add.u32 %x9, %x9, %x4; add.u32 %x20, %x20, 1; setp.gt.u32 %q4, %x20, 3; selp.u32 %x21, 1, 0, %q4; brx.idx %x21, T; E:",
	"a call":                    "call (%x9), mixed, (%x4); call (%x8), mixed, (%x4); call (%y8), mixed64, (%x4); call (%y9), mixed64, (%x4);",
	"a call of some lanes":      "@%q1 call (%x9), mixed, (%x4); @%q1 call (%x8), mixed, (%x4);",
	"a call through a register": "mov.u64 %y20, mixed; mov.u64 %y21, other; selp.b64 %y20, %y20, %y21, %q1; P: .callprototype (.reg .b32 _) _ (.reg .b32 _); call (%x9), %y20, (%x4), P; call (%x8), %y20, (%x4), P;",
	"a count at a barrier":      "bar.red.popc.u32 %x9, 0, %q1;",
	"a shuffle":                 "shfl.sync.bfly.b32 %x9, %x4, 3, 31, -1; shfl.sync.idx.b32 %x8|%q4, %x4, %x4, 31, -1;",
	"votes and matches":         "vote.sync.ballot.b32 %x9, %q1, -1; match.any.sync.b32 %x8, %r2, -1;",
	"an atomic operation":       "atom.shared.add.u32 %x9, [%x18], 3; atom.shared.exch.b32 %x8, [%x18+4], %x4;",
	"a chain of carries":        "add.cc.u32 %x9, %x4, %x5; addc.u32 %x8, %x9, %x4;",
	"a product of matrices":     "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%x9, %x8}, {%x4}, {%x5}, {%x4, %x5};",
	"an operation of Go":        "fns.b32 %x9, %x4, 0, 1; bfind.u64 %x8, %y2; fns.b32 %x8, %x4, 3, 2;",
	"elements of a load of Go":  "cvta.shared.u64 %y20, %y20; cvt.u64.u32 %y20, %x18; ld.shared.v2.u64 {%y8, %y9}, [%y20];",
	"the lane":                  "mov.u32 %x9, %laneid; mov.u32 %x8, %lanemask_lt;",
	"a row of words": "mov.u32 %x21, s; mad.lo.u32 %x20, %x3, 64, %x21; add.u32 %x22, %r2, 4294967290; ld.shared.u32 %x23, [%x20]; mul.wide.u32 %y20, %x22, 4; add.u64 %y9, %y9, %y20; " +
		"ld.shared.u32 %x24, [%x20+4]; add.u32 %x9, %r2, 90; ld.shared.u32 %x25, [%x20+8]; add.u32 %x8, %x23, 8; ld.shared.u32 %x26, [%x20+12]; add.u32 %x22, %x9, %x8; ld.shared.u32 %x27, [%x20+16]; add.u32 %x0, %x0, %x22; add.u32 %x22, %x9, 4294967190; cvt.u64.u32 %y21, %x22; " +
		"ld.shared.u32 %x28, [%x20+20]; mad.lo.u32 %x0, %x0, 3, %x26; st.shared.u32 [%x20+32], %x0; st.shared.u32 [%x20+36], %x9; st.shared.u32 [%x20+40], %x28; st.shared.u32 [%x20+44], %x22; shr.u64 %y21, %y21, 12; cvt.u32.u64 %x28, %y21; ld.shared.u32 %x29, [%x20+40]; mad.lo.u32 %x0, %x0, 3, %x28; mad.lo.u32 %x0, %x0, 3, %x29;",
	"words that are the same": "mov.u32 %x21, s; add.u32 %x20, %x21, 16; bar.sync 0; ld.shared.u32 %x23, [%x20]; ld.shared.u32 %x24, [%x20+4]; ld.shared.u32 %x25, [%x20+8]; ld.shared.u32 %x26, [%x20+12]; ld.shared.u32 %x27, [%x20+16]; ld.shared.u32 %x28, [%x20+20]; ld.shared.u32 %x29, [%x20+24]; " +
		"mad.lo.u32 %x0, %x0, 3, %x23; mad.lo.u32 %x0, %x0, 3, %x24; mad.lo.u32 %x0, %x0, 3, %x28;",
	"differences":                "add.u32 %x20, %r2, 5; sub.u32 %x9, %x20, %r2; sub.u32 %x8, %x8, %x20; sub.u64 %y9, %y9, %y8; sub.u64 %y8, %y8, %y9;",
	"a factor of the block's":    "mov.u32 %x19, pad; st.shared.u32 [%x19], %x0; mov.u32 %x20, s; mul.lo.u32 %x9, %r2, %x20; mov.u64 %y20, s; mul.lo.u64 %y9, %y9, %y20;",
	"a factor of the program's":  "mov.u64 %y20, global; mul.lo.u64 %y9, %y9, %y20; mov.u64 %y8, global;",
	"a factor of the launch's":   "mov.u32 %x20, %ctaid.x; add.u32 %x20, %x20, 4; mul.lo.u32 %x9, %r2, %x20; mov.u32 %x8, %x20; mul.lo.u32 %x8, %x8, 5;",
	"a product that wraps":       "add.u32 %x20, %r2, 4294967290; mul.wide.u32 %y9, %x20, 4; mul.wide.s32 %y8, %x20, 4;",
	"wrapping, few vectors":      "mov.u32 %x25, 0; L: add.u32 %x20, %r2, 4294967290; add.u32 %x21, %r2, 2147483640;" + keeps("mul.lo.u32 %xN, %x4, N;") + "mul.wide.u32 %y9, 4, %x20; mul.wide.s32 %y8, 4, %x21;" + keeps("xor.b32 %x0, %x0, %xN; ld.shared.u32 %x22, [%x18]; add.u32 %x0, %x0, %xN;") + "add.u32 %x25, %x25, 1; setp.lt.u32 %q4, %x25, 2; @%q4 bra L;",
	"few vectors":                "mov.u32 %x25, 0; L: add.u32 %x20, %r2, %x25; add.u32 %x21, %x20, 5; @%q1 add.u32 %x21, %x21, 3;" + keeps("mul.lo.u32 %xN, %x4, N;") + "mad.lo.u32 %x0, %x0, 3, %x20; mad.lo.u32 %x0, %x0, 5, %x21;" + keeps("xor.b32 %x0, %x0, %xN; add.u32 %x20, %x20, %x4; mad.lo.u32 %x0, %x0, 3, %x20;") + "add.u32 %x25, %x25, 1; setp.lt.u32 %q4, %x25, 2; @%q4 bra L;",
	"an entry behind what wraps": "mov.u32 %x25, 0; L: add.u32 %x20, %r2, 4294967290; mul.wide.u32 %y20, %x20, 4; ld.global.u32 %x21, [%y2]; cvt.u32.u64 %x22, %y20; shr.u64 %y20, %y20, 20; cvt.u32.u64 %x23, %y20; mad.lo.u32 %x0, %x0, 3, %x21; mad.lo.u32 %x0, %x0, 3, %x22; mad.lo.u32 %x0, %x0, 3, %x23; add.u32 %x25, %x25, 1; setp.lt.u32 %q4, %x25, 4; @%q4 bra L;",
}

// TestClaims compares what native code knows of registers with what the interpreter finds in them.
func TestClaims(t *testing.T) {
	for name, change := range claimsChanges {
		t.Run(name, func(t *testing.T) {
			for _, block := range [][3]uint32{{64, 1, 1}, {32, 4, 1}, {70, 1, 1}, {16, 8, 1}} {
				if block[0] == 70 && (strings.Contains(change, ".sync 1") || strings.Contains(change, "mma")) {
					continue // they want whole warps
				}
				run := func(when Native) []uint32 {
					m := exectest.NewMemory(4096)
					text := strings.NewReplacer("CHANGE", change, "OUT", fmt.Sprint(strideOut)).Replace(claimsBody)
					src := source(".global .align 64 .b8 hole[64]; .global .align 64 .b8 global[64];"+claimsFunctions, text)
					src = []byte(strings.NewReplacer(".version 7.0", ".version 8.0", "sm_70", "sm_80").Replace(string(src)))
					k := kernel(t, build(t, "k.ptx", src, m), "k")
					data := make([]uint32, 2*strideOut/4)
					for i := range data {
						data[i] = uint32(i) * 0x9e3779b1
					}
					writeAll(m, exectest.BufA, data)
					require.NoError(t, Run(k, Launch{Grid: grid(2, 1, 1), Block: block, Native: when, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1))
					return readAll[uint32](m, exectest.BufA+strideOut, 256)
				}
				require.Equal(t, run(NativeNever), run(NativeAtOnce), "%v", block)
			}
		})
	}
}
