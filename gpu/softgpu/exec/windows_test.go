package exec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/jit"
)

// windowPlaces are generic addresses A of .shared and .local, of 16 bytes that the lanes of a pattern have.
var windowPlaces = map[string]string{
	"shared": ".shared .align 16 .b8 s[16384];mov.u64 %rd6, s; cvta.shared.u64 %rd6, %rd6; mad.wide.u32 %rd6, %r8, 16, %rd6;",
	"local":  ".local .align 16 .b8 s[1024];and.b32 %r7, %r8, 63; mov.u64 %rd6, s; cvta.local.u64 %rd6, %rd6; mad.wide.u32 %rd6, %r7, 16, %rd6;",
}

// windowForms are accesses by generic addresses beside vectorForms.
var windowForms = map[string]string{
	"word":    "ld.f32 %x1, [A]; @%p2 ld.u32 %x2, [A+4]; SYNC @%p3 st.u32 [A+8], %r6; SYNC st.u32 [A+12], %x2; SYNC ld.u32 %x3, [A+8]; st.u32 [A+8], %r2; SYNC",
	"same":    "shr.u64 %l3, A, 56; shl.b64 %l3, %l3, 56; mul.wide.u32 %l4, %r5, 8; add.u64 %l3, %l3, %l4; SYNC ld.u32 %x1, [%l3]; ld.u64 %l1, [%l3+8]; @%p2 ld.u64 %l2, [%l3+16]; SYNC st.u64 [%l3+24], 77; st.u32 [%l3+8], %r5; SYNC",
	"fixed":   "ld.u32 %x1, [B]; ld.u64 %l1, [B+8]; ld.u32 %x2, [B+16]; @%p2 ld.u64 %l2, [B+16]; SYNC @%p3 st.u64 [B+24], 77; SYNC st.u32 [B+8], %r5; st.u32 [B+12], %r5; SYNC ld.u32 %x3, [B+12]; ld.v4.u32 {%x1, %x2, %x3, %x4}, [B]; SYNC st.v2.u32 [B+24], {%r5, %x3}; SYNC",
	"rows":    "st.u32 [C+64], %r6; ld.u32 %x1, [C+64]; @%p2 ld.u32 %x2, [C+64]; @%p3 st.u32 [C+64], %r2; SYNC ld.u32 %x3, [C+64]; SYNC",
	"beside":  "bra.uni N; N: @!%p2 bra M; ld.u32 %x1, [A+4]; ld.u32 %x2, [A+8]; xor.b32 %r6, %r6, %x1; M: SYNC st.u32 [A+4], %r6; st.u32 [A+8], %r2; SYNC",
	"itself":  "mov.u64 %l3, A; ld.u64 %l3, [%l3]; xor.b64 %rd7, %rd7, %l3; mov.u64 %l4, B; ld.u64 %l4, [%l4+8]; add.u64 %rd7, %rd7, %l4; mov.u64 %l3, A; @%p2 ld.u64 %l3, [%l3]; @!%p2 mov.u64 %l3, 1; add.u64 %rd7, %rd7, %l3; SYNC st.u64 [A], %rd7; SYNC",
	"bytes":   "ld.u8 %x1, [C+64]; @%p2 st.u8 [C+65], %r6; SYNC st.u16 [A+6], %r6; SYNC ld.s16 %x2, [A+6]; @%p3 ld.u8 %x3, [A+7]; SYNC",
	"counted": "@%p2 ld.v2.u32 {%x1, %x2}, [A+8]; @%p3 st.v2.u32 [A+8], {%r6, %r2}; SYNC ld.volatile.u32 %x3, [A+8]; SYNC st.volatile.u64 [A], %rd7; SYNC",
}

// windowBody is the kernel's body for a form and a space.
func windowBody(space, form string) string {
	at, how, _ := strings.Cut(windowPlaces[space], ";")
	how += ` mov.u64 %rd9, s; cvta.SPACE.u64 %rd9, %rd9; mad.wide.u32 %rd11, %r2, 4, %rd9;`
	r := strings.NewReplacer("[A", "[%rd6", "[B", "[%rd9", "[C", "[%rd11", ", A", ", %rd6", ", B", ", %rd9", ".SPACE", "", "SYNC", "bar.sync 0;", "cvta.SPACE", "cvta."+space)
	return at + ";" + patternLoop(r.Replace(how+form))
}

// requireWindow is requireForm, and requires that native code has gone on with what lies in a window.
func requireWindow(t *testing.T, body string) {
	t.Helper()
	for _, threads := range []uint32{32, 77, 128} {
		want, _, err := runForm(t, "", body, threads, NativeNever)
		require.NoError(t, err)
		got, row, err := runForm(t, "", body, threads, NativeAtOnce)
		require.NoError(t, err)
		requireSame(t, want, got, fmt.Sprintf("%d threads", threads))
		if NativeCode() == nil {
			require.Zero(t, row.Interpreted[jit.Operation], "%d threads", threads)
			// Each warp meets the pages of the patterns and of the results, and no window.
			require.LessOrEqual(t, row.Interpreted[jit.Page], uint64(8*2*4), "%d threads", threads)
		}
	}
}

// Accesses of .shared and .local by generic addresses stay in native code, with what the interpreter returns.
func TestWindowForms(t *testing.T) {
	all := maps.Clone(windowForms)
	for name, form := range vectorForms {
		all["vectors "+name] = form
	}
	for space := range windowPlaces {
		for name, form := range all {
			t.Run(space+"/"+name, func(t *testing.T) { requireWindow(t, windowBody(space, form)) })
		}
	}
}

// Atomic operations on .shared by generic addresses flush no subnormal numbers, as those of global memory do.
func TestWindowAtoms(t *testing.T) {
	for _, op := range []string{"add.u32", "add.s32", "add.u64", "add.f32", "add.f64", "and.b32", "xor.b64", "exch.b32", "exch.b64", "min.s32", "max.u64", "inc.u32", "dec.u32", "cas.b32", "cas.b64"} {
		d, b, c := "%x1", "%r6", ""
		if strings.HasSuffix(op, "64") {
			d, b = "%l1", "%rd7"
		}
		if op == "add.f32" {
			b = "%r2" // subnormal
		}
		if strings.HasPrefix(op, "cas") {
			c = ", " + b
		}
		kind, _, _ := strings.Cut(op, ".")
		form := fmt.Sprintf("atom.%[1]s %[2]s, [A], %[3]s%[4]s; @%%p2 atom.%[1]s %[2]s, [A+8], %[3]s%[4]s; SYNC ", op, d, b, c)
		if kind != "exch" && kind != "cas" {
			form += fmt.Sprintf("red.%s [A], %s; @%%p3 red.%[1]s [A+8], %[2]s; SYNC ", strings.Replace(op, "add.s32", "add.u32", 1), b)
		}
		t.Run(op, func(t *testing.T) {
			requireWindow(t, windowBody("shared", form+"ld.u64 %l2, [A]; SYNC"))
			want, _, err := runForm(t, "", windowBody("local", form+"ld.u64 %l2, [A];"), 77, NativeNever)
			require.NoError(t, err)
			got, _, err := runForm(t, "", windowBody("local", form+"ld.u64 %l2, [A];"), 77, NativeAtOnce)
			require.NoError(t, err)
			requireSame(t, want, got, "local")
		})
	}
}

// Addresses that one lane, or all, may not access end the kernel as in the interpreter, and lanes in several spaces go on.
func TestWindowFaults(t *testing.T) {
	var cases sample
	changes := []string{
		"add.u64 A, A, 4;", "add.u64 A, A, 1;", "sub.u64 A, A, 0x8000;", "add.u64 A, A, 0x7ffff000;", "add.u64 A, A, 0x1000000;", "add.u64 A, A, 0x10000000000;",
		"and.b64 A, A, 0xff00000000000000; add.u64 A, A, END;", "and.b64 A, A, 0xff00000000000000; add.u64 A, A, END; sub.u64 A, A, 4;", "and.b64 A, A, 0xff00000000000000; add.u64 A, A, END; sub.u64 A, A, 8;",
		"and.b64 A, A, 0xff00000000000000; add.u64 A, A, END; sub.u64 A, A, 16;", "and.b64 A, A, 0xff00000000000000; sub.u64 A, A, 8;", "shl.b64 A, A, 1;", "shl.b64 A, A, 2;", "add.u64 A, %rd1, 16384;", "mov.u64 A, 0;",
	}
	accesses := []string{
		"ld.v2.f64 {%l1, %l2}, [A];", "st.v2.f64 [A], {%rd7, %l2};", "@%p2 st.v4.b32 [A], {%x1, %x2, %x3, %x4};", "ld.b64 %l1, [A];", "@%p2 ld.b64 %l1, [A];", "@%p2 st.b64 [A], %l1;", "st.u16 [A+2], %r6;", "ld.u8 %x1, [A+3];",
		"ld.u32 %x1, [A]; ld.u32 %x2, [A+4];", "st.u32 [A], %r6;", "atom.add.u32 %x1, [A], %r6;", "@%p2 red.add.u64 [A], %rd7;", "ld.volatile.v4.b32 {%x1, %x2, %x3, %x4}, [A];",
	}
	for _, space := range slices.Sorted(maps.Keys(windowPlaces)) {
		for _, change := range changes {
			for _, access := range accesses {
				for _, guard := range []string{"%p4", "%p5"} {
					if !cases.next() {
						continue
					}
					form := "setp.eq.u32 %p4, %r2, 37; setp.eq.u32 %p5, %r5, 4; and.pred %p4, %p4, %p5; "
					for _, c := range strings.SplitAfter(change, ";") {
						if c = strings.TrimSpace(c); c != "" {
							form += "@" + guard + " " + c + " "
						}
					}
					form = strings.NewReplacer(" A,", " %rd6,", "END", map[string]string{"shared": "16640", "local": "1024"}[space]).Replace(form)
					body := windowBody(space, form+access)
					want, _, errWant := runForm(t, "", body, 64, NativeNever)
					got, _, err := runForm(t, "", body, 64, NativeAtOnce)
					require.Equal(t, errWant, err, "%s %s %s %s", space, change, guard, access)
					requireSame(t, want, got, space+change+guard+access)
				}
			}
		}
	}
}
