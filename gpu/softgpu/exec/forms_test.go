package exec

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// lanePatterns are ways in which the lanes of a warp access its 256 elements.
var lanePatterns = []func(i int) int{
	func(i int) int { return i },
	func(int) int { return 5 },
	func(i int) int { return i &^ 15 },
	func(i int) int { return i / 8 },
	func(i int) int { return i/8*9 + i%8 },
	func(i int) int { return i * 5 % 64 },
	func(i int) int { return 63 - i },
	func(i int) int { return i * 37 % 256 }, // in several pages
	func(i int) int { return i / 16 * 150 },
}

// patternLoop has a body run for each of lanePatterns, which lie at %rd2: with the element of the thread in %r8, and
// %r6 and %rd7 for what it finds. Some threads have %p2, and no warp has all of them.
func patternLoop(body string) string {
	return fmt.Sprintf(`.reg .b64 %%l<5>; .reg .b32 %%x<5>;
	mov.u32 %%r5, 0; mov.u32 %%r6, %%r2; cvt.u64.u32 %%rd7, %%r2; and.b32 %%r9, %%r2, 5; setp.ne.u32 %%p2, %%r9, 1; setp.gt.u32 %%p3, %%r9, 3;
	mul.wide.u32 %%rd5, %%r2, 4; add.u64 %%rd8, %%rd2, %%rd5; mov.u64 %%l1, 0; mov.u64 %%l2, 0; mov.u32 %%x1, 0; mov.u32 %%x2, 0; mov.u32 %%x3, 0; mov.u32 %%x4, 0;
L:	ld.global.u32 %%r8, [%%rd8]; add.u64 %%rd8, %%rd8, 1024;
	%s
	xor.b64 %%rd7, %%rd7, %%l1; mad.lo.u64 %%rd7, %%rd7, 0x9E3779B97F4A7C15, %%l2; xor.b32 %%r6, %%r6, %%x1; mad.lo.u32 %%r6, %%r6, 0x01000193, %%x2; add.u32 %%x3, %%x3, %%x4; xor.b32 %%r6, %%r6, %%x3;
	add.u32 %%r5, %%r5, 1; setp.lt.u32 %%p1, %%r5, %d; @%%p1 bra L;
	mul.wide.u32 %%rd5, %%r2, 8; add.u64 %%rd5, %%rd5, %%rd1; st.global.u32 [%%rd4], %%r6; st.global.u64 [%%rd5+4096], %%rd7;`, body, len(lanePatterns))
}

// runForm runs a body of a patternLoop, or another one, in blocks of so many threads. BufA has 12 pages of 4 KiB with
// numbers in them, of which the first two are for results.
func runForm(t *testing.T, extra, body string, threads uint32, when Native) ([]byte, Tallied, error) {
	t.Helper()
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", hopper(extra, body), m), "k")
	var patterns []byte
	for _, p := range lanePatterns {
		for i := range 256 {
			patterns = binary.LittleEndian.AppendUint32(patterns, uint32(p(i%32)+i/32*256))
		}
	}
	m.Write(exectest.BufB, patterns)
	numbers := make([]byte, 12*4096)
	for i := range numbers[8192:] {
		numbers[8192+i] = byte(i*i>>3 ^ i*7)
	}
	m.Write(exectest.BufA, numbers)
	m.Map(exectest.BufC, 4096)
	m.Prot[exectest.BufC] = gpu.ProtRead
	var to Tally
	err := Run(k, Launch{Grid: grid(2, 1, 1), Block: grid(threads, 1, 1), SharedBytes: 256, Native: when, Tally: &to,
		Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(threads))}, m, new(Control), 1)
	return m.Read(exectest.BufA, uint64(len(numbers))), to.Rows()[0], err
}

// requireForm compares native code with the interpreter, for blocks with warps of which all lanes run, and some, and
// requires that no operation has been left to the interpreter, or done by its function.
func requireForm(t *testing.T, extra, body string) {
	t.Helper()
	requireFormOf(t, extra, body, 32, 77, 128)
}

// requireFormOf is requireForm for so many threads.
func requireFormOf(t *testing.T, extra, body string, counts ...uint32) {
	t.Helper()
	for _, threads := range counts {
		want, _, err := runForm(t, extra, body, threads, NativeNever)
		require.NoError(t, err)
		got, row, err := runForm(t, extra, body, threads, NativeAtOnce)
		require.NoError(t, err)
		requireSame(t, want, got, fmt.Sprintf("%d threads", threads))
		if NativeCode() == nil && (threads%32 == 0 || len(counts) > 1) {
			require.Zero(t, row.Interpreted[jit.Operation], "%d threads", threads)
		}
	}
}

// requireSame compares what kernels leave, and names the first word that differs.
func requireSame(t *testing.T, want, got []byte, what string) {
	t.Helper()
	for i := 0; i < len(want); i += 4 {
		if a, b := binary.LittleEndian.Uint32(want[i:]), binary.LittleEndian.Uint32(got[i:]); a != b {
			t.Fatalf("%s: byte 0x%x: 0x%08x interpreted, 0x%08x in native code", what, i, a, b)
		}
	}
}

// requireFault compares how native code and the interpreter end a kernel, and what it leaves. The access is good at first,
// so that native code has seen it.
func requireFault(t *testing.T, extra, body string) *gpu.LostError {
	t.Helper()
	want, _, err := runForm(t, extra, body, 64, NativeNever)
	cause := lost(t, err)
	got, _, err := runForm(t, extra, body, 64, NativeAtOnce)
	require.Equal(t, cause, lost(t, err))
	requireSame(t, want, got, body)
	return cause
}

// vectorForms are loads and stores with an address A, of elements of 16 bytes, or less.
var vectorForms = map[string]string{
	"v2.f64": "ld.SPACE.v2.f64 {%l1, %l2}, [A]; xor.b64 %rd7, %rd7, %l2; @%p2 ld.SPACE.v2.b64 {%l1, %l2}, [A]; SYNC xor.b64 %l3, %rd7, 5; @%p3 st.SPACE.v2.b64 [A], {%rd7, %l3}; SYNC st.SPACE.v2.u64 [A], {%l3, %rd7}; SYNC ld.SPACE.v2.u64 {%l2, %l1}, [A]; SYNC",
	"b64":    "ld.SPACE.b64 %l1, [A+8]; @%p2 ld.SPACE.b64 %l2, [A]; SYNC @%p3 st.SPACE.b64 [A], %rd7; SYNC st.SPACE.b64 [A+8], %rd7; SYNC ld.SPACE.b64 %l2, [A+8]; SYNC",
	"v4.b32": "ld.SPACE.v4.b32 {%x1, %x2, %x3, %x4}, [A]; xor.b32 %r6, %r6, %x2; @%p2 ld.SPACE.v4.b32 {%x1, %x2, %x3, %x4}, [A]; SYNC xor.b32 %r7, %r6, 5; @%p3 st.SPACE.v4.b32 [A], {%r6, %r7, %x1, %x2}; SYNC st.SPACE.v4.b32 [A], {%r7, %r6, %x2, %x3}; SYNC ld.SPACE.v2.b32 {%x1, %x2}, [A+8]; SYNC",
	"whole":  "ld.volatile.SPACE.v4.b32 {%x1, %x2, %x3, %x4}, [A]; @%p2 ld.volatile.SPACE.v2.b32 {%x3, %x1}, [A+8]; SYNC @%p3 st.volatile.SPACE.v4.b32 [A], {%r6, %x2, %x1, %r2}; SYNC st.volatile.SPACE.v2.b64 [A], {%rd7, %l2}; SYNC ld.volatile.SPACE.v2.b64 {%l2, %l1}, [A]; @%p3 ld.volatile.SPACE.v2.b64 {%l1, %l2}, [A]; SYNC @!%p2 st.volatile.SPACE.v2.b32 [A+8], {%r6, %x2}; SYNC",
	"small":  "ld.SPACE.u16 %x1, [A+2]; @%p2 ld.SPACE.s8 %x2, [A+3]; SYNC @%p3 st.SPACE.u8 [A+1], %r6; SYNC st.SPACE.u16 [A+4], %r6; SYNC st.SPACE.u8 [A+7], %r6; SYNC ld.SPACE.b32 %x3, [A+4]; SYNC",
}

// vectorSpaces are where they go, and how A is found.
var vectorSpaces = map[string][2]string{
	"global":    {"", "mul.wide.u32 %rd6, %r8, 16; add.u64 %rd6, %rd6, %rd1; add.u64 %rd6, %rd6, 14336;"},
	"shared":    {".shared .align 16 .b8 s[16384];", "mov.u32 %r10, s; mad.lo.u32 %r10, %r8, 16, %r10;"},
	"shared 64": {".shared .align 16 .b8 s[16384];", "mov.u64 %rd6, s; mad.wide.u32 %rd6, %r8, 16, %rd6;"},
	"local":     {".local .align 16 .b8 s[1024];", "and.b32 %r7, %r8, 63; mov.u64 %rd6, s; mad.wide.u32 %rd6, %r7, 16, %rd6;"},
}

func TestVectorForms(t *testing.T) {
	for space, at := range vectorSpaces {
		for form, body := range vectorForms {
			if space == "local" && form == "whole" {
				continue
			}
			t.Run(space+"/"+form, func(t *testing.T) {
				address, sync := "%rd6", "bar.sync 0;"
				if space == "shared" {
					address = "%r10"
				}
				name, _, _ := strings.Cut(space, " ")
				body = strings.NewReplacer("SPACE", name, "[A", "["+address, "SYNC", sync).Replace(body)
				requireForm(t, "", at[0]+patternLoop(at[1]+body))
			})
		}
	}
}

// Lanes that part access vectors, and addresses that are known to be the same in all lanes.
func TestVectorFormsParted(t *testing.T) {
	requireForm(t, "", `.shared .align 16 .b8 s[16384]; .local .align 16 .b8 l[1024];`+patternLoop(`mul.wide.u32 %rd6, %r8, 16; add.u64 %rd6, %rd6, %rd1; mov.u32 %r10, s; mad.lo.u32 %r10, %r8, 16, %r10;
		and.b32 %r7, %r8, 63; mov.u64 %rd9, l; mad.wide.u32 %rd9, %r7, 16, %rd9; mad.wide.u32 %rd10, %r5, 16, %rd1;
		ld.global.v2.f64 {%l1, %l2}, [%rd10+12288]; xor.b64 %rd7, %rd7, %l1; @%p2 bra A;
		ld.global.v2.f64 {%l1, %l2}, [%rd6+14336]; st.shared.v2.f64 [%r10], {%l2, %l1}; st.local.v2.f64 [%rd9], {%l2, %l2}; mov.u64 %rd11, l; st.local.v2.f64 [%rd11+64], {%rd7, %l1}; bra B;
	A:	st.local.v2.f64 [%rd9+0], {%rd7, %l1}; mov.u64 %rd11, l; ld.local.v2.f64 {%l3, %l4}, [%rd11+16]; xor.b64 %rd7, %rd7, %l3; ld.local.v2.f64 {%l3, %l4}, [%rd9]; add.u64 %rd7, %rd7, %l4; and.b32 %r7, %r8, 775; mad.wide.u32 %rd11, %r7, 16, %rd1; st.global.v2.f64 [%rd11+32768], {%l3, %rd7};
	B:	bar.sync 0; ld.shared.v2.f64 {%l2, %l1}, [%r10]; bar.sync 0;`))
}

// Accesses that one lane, or all, may not make.
func TestVectorFormFaults(t *testing.T) {
	var cases sample
	for space, at := range vectorSpaces {
		address := "%rd6"
		if space == "shared" {
			address = "%r10"
		}
		for name, change := range map[string]string{
			"misaligned": "add.TYPE A, A, 8;", "by 4": "add.TYPE A, A, 4;", "far": "add.TYPE A, A, 0x7ffffff0;", "before": "sub.TYPE A, A, 0x10000;", "at the end": "add.TYPE A, A, 0x4ff0;", "half behind the end": "add.TYPE A, A, 0x3ff8;",
			"just behind": "add.TYPE A, A, 1024;",
		} {
			for _, guard := range []string{"", "@%p4 "} {
				for _, access := range []string{"ld.SPACE.v2.f64 {%l1, %l2}, [A];", "st.SPACE.v2.f64 [A], {%rd7, %l2};", "ld.SPACE.v4.b32 {%x1, %x2, %x3, %x4}, [A];", "@%p2 st.SPACE.v4.b32 [A], {%x1, %x2, %x3, %x4};", "ld.SPACE.b64 %l1, [A];", "@%p2 st.SPACE.b64 [A], %l1;", "st.SPACE.u16 [A+1], %r6;"} {
					if space == "local" && name == "just behind" || name == "half behind the end" || name == "at the end" {
						continue // in the frame's rest
					}
					if !cases.next() {
						continue
					}
					kind, _, _ := strings.Cut(space, " ")
					body := at[0] + patternLoop(at[1]+"setp.eq.u32 %p4, %r2, 37; setp.eq.u32 %p5, %r5, 4; and.pred %p4, %p4, %p5; "+strings.TrimSuffix(guard+"ONE ", "ONE ")+change+access)
					if guard == "" {
						body = strings.Replace(body, change, "@%p5 "+change, 1)
					}
					width := "u64"
					if address == "%r10" {
						width = "u32"
					}
					body = strings.NewReplacer("SPACE", kind, "[A", "["+address, " A, A,", " "+address+", "+address+",", "TYPE", width).Replace(body)
					want, _, errWant := runForm(t, "", body, 64, NativeNever)
					got, _, err := runForm(t, "", body, 64, NativeAtOnce)
					require.Equal(t, errWant, err, "%s %s %s%s", space, access, guard, name)
					requireSame(t, want, got, fmt.Sprintf("%s %s %s%s", space, access, guard, name))
				}
			}
		}
	}
}

// copyForms are cp.async to A from global memory at %rd6, of which %x1 says how many bytes there are.
var copyForms = map[string]string{
	"4": "cp.async.ca.shared.global [A+4], [%rd6+4], 4; @%p2 cp.async.ca.shared.global [A], [%rd6+8], 4;", "8": "cp.async.ca.shared.global [A+8], [%rd6+8], 8; @%p3 cp.async.ca.shared.global [A], [%rd6+8], 8;",
	"16": "cp.async.cg.shared.global [A], [%rd6], 16; SYNC @%p2 cp.async.cg.shared.global [A], [%rd6+32], 16;", "all or nothing": "shl.b32 %x1, %r2, 4; and.b32 %x1, %x1, 16; cp.async.cg.shared.global [A], [%rd6], 16, %x1; SYNC mul.lo.u32 %x1, %r5, 16; @%p3 cp.async.cg.shared.global [A], [%rd6+16], 16, %x1;",
	"nothing": "mov.u32 %x1, 0; cp.async.ca.shared.global [A], [%rd6], 16, %x1; @%p2 cp.async.ca.shared.global [A], [%l1], 8, %x1; mov.u32 %x1, 100; cp.async.ca.shared.global [A+8], [%rd6], 4, %x1;", "less": "and.b32 %x1, %r2, 15; cp.async.ca.shared.global [A], [%rd6], 16, %x1; SYNC @%p2 cp.async.ca.shared.global [A], [%rd6], 8, 5;",
}

func TestCopyForms(t *testing.T) {
	for name, body := range copyForms {
		t.Run(name, func(t *testing.T) {
			body = strings.NewReplacer("[A", "[%r10", "SYNC", "cp.async.wait_all; ld.shared.v4.u32 {%x1, %x2, %x3, %x4}, [%r10]; xor.b32 %r6, %r6, %x4; bar.sync 0;").Replace(
				"mul.wide.u32 %rd6, %r8, 16; add.u64 %rd6, %rd6, %rd1; add.u64 %rd6, %rd6, 14336; mul.lo.u32 %r7, %r8, 7; and.b32 %r7, %r7, 255; and.b32 %r10, %r8, 768; or.b32 %r7, %r7, %r10; mov.u32 %r10, s; mad.lo.u32 %r10, %r7, 16, %r10;" + body + "SYNC")
			body = ".shared .align 16 .b8 s[16384];" + patternLoop(body)
			if name != "less" {
				requireForm(t, "", body)
				return
			}
			for _, threads := range []uint32{32, 77, 128} {
				want, _, err := runForm(t, "", body, threads, NativeNever)
				require.NoError(t, err)
				got, _, err := runForm(t, "", body, threads, NativeAtOnce)
				require.NoError(t, err)
				requireSame(t, want, got, name)
			}
		})
	}
}

// A source that may be read only is native code's, too.
func TestCopyReadOnly(t *testing.T) {
	if NativeCode() != nil {
		t.Skip(NativeCode())
	}
	_, row, err := runForm(t, "", ".shared .align 16 .b8 s[16384];"+patternLoop(fmt.Sprintf("mov.u64 %%rd6, %d; mov.u32 %%r10, s; mad.lo.u32 %%r10, %%r8, 16, %%r10; cp.async.cg.shared.global [%%r10], [%%rd6], 16;", exectest.BufC)), 32, NativeAtOnce)
	require.NoError(t, err)
	require.LessOrEqual(t, row.Interpreted[jit.Page], uint64(8), "others have pages, too")
}

// Copies of which one lane's source or target may not be accessed, at a round in which native code knows the pages.
func TestCopyFormFaults(t *testing.T) {
	for _, change := range []string{"add.u64 %rd6, %rd6, 8;", "add.u64 %rd6, %rd6, 0x100000;", "add.u32 %r10, %r10, 4;", "add.u32 %r10, %r10, 0x100000;", "sub.u32 %r10, %r10, 0x8000;", "mov.u64 %rd6, 0; mov.u32 %x1, 4;"} {
		for _, form := range []string{"cp.async.cg.shared.global [%r10], [%rd6], 16;", "cp.async.cg.shared.global [%r10], [%rd6], 16, %x1;", "@%p3 cp.async.cg.shared.global [%r10], [%rd6], 16;"} {
			for _, all := range []bool{true, false} {
				guard := "%p5"
				if !all {
					guard = "%p4"
				}
				if strings.Contains(change, "mov") && !strings.Contains(form, "x1") {
					continue
				}
				guarded := ""
				for _, c := range strings.SplitAfter(change, ";") {
					if c != "" {
						guarded += "@" + guard + " " + c
					}
				}
				requireFault(t, "", ".shared .align 16 .b8 s[16384];"+patternLoop(`mul.wide.u32 %rd6, %r8, 16; add.u64 %rd6, %rd6, %rd1; add.u64 %rd6, %rd6, 14336; mov.u32 %r10, s; mad.lo.u32 %r10, %r8, 16, %r10; mov.u32 %x1, 16;
					setp.eq.u32 %p4, %r2, 37; setp.eq.u32 %p5, %r5, 4; and.pred %p4, %p4, %p5; `+guarded+form))
			}
		}
	}
}

// matrixForms are ldmatrix, stmatrix and movmatrix with rows at A.
var matrixForms = map[string]string{
	"x1":   "ldmatrix.sync.aligned.m8n8.x1.SPACE.b16 {%x1}, [A]; ldmatrix.sync.aligned.m8n8.x1.trans.SPACE.b16 {%x2}, [A+16]; stmatrix.sync.aligned.m8n8.x1.SPACE.b16 [A+32], {%x2}; stmatrix.sync.aligned.m8n8.x1.trans.SPACE.b16 [A], {%r6};",
	"x2":   "ldmatrix.sync.aligned.m8n8.x2.SPACE.b16 {%x1, %x3}, [A]; ldmatrix.sync.aligned.m8n8.x2.trans.SPACE.b16 {%x2, %x4}, [A+16]; stmatrix.sync.aligned.m8n8.x2.SPACE.b16 [A+32], {%x2, %x1}; stmatrix.sync.aligned.m8n8.x2.trans.SPACE.b16 [A], {%r6, %x4};",
	"x4":   "ldmatrix.sync.aligned.m8n8.x4.SPACE.b16 {%x1, %x2, %x3, %x4}, [A]; xor.b32 %r6, %r6, %x1; add.u32 %r6, %r6, %x2; ldmatrix.sync.aligned.m8n8.x4.trans.SPACE.b16 {%x2, %x3, %x1, %x4}, [A+16]; stmatrix.sync.aligned.m8n8.x4.SPACE.b16 [A+32], {%x2, %x1, %r6, %x4}; stmatrix.sync.aligned.m8n8.x4.trans.SPACE.b16 [A], {%r6, %x4, %x1, %x3};",
	"turn": "movmatrix.sync.aligned.m8n8.trans.b16 %x1, %r6; movmatrix.sync.aligned.m8n8.trans.b16 %x2, %x1; movmatrix.sync.aligned.m8n8.trans.b16 %x3, %x3; xor.b32 %x2, %x2, %x1;",
}

func TestMatrixForms(t *testing.T) {
	for name, form := range matrixForms {
		for space, address := range map[string]string{"shared": "%r10", "generic": "%rd6"} {
			t.Run(name+"/"+space, func(t *testing.T) {
				form := strings.NewReplacer(".SPACE", map[string]string{"shared": ".shared"}[space], "[A", "["+address).Replace(form)
				body := ".shared .align 16 .b8 s[17408];" + patternLoop(`mov.u32 %r10, s; mad.lo.u32 %r10, %r8, 16, %r10; mov.u32 %r7, s; sub.u32 %r7, %r10, %r7; cvt.u64.u32 %rd6, %r7; mov.u64 %rd9, s; add.u64 %rd6, %rd6, %rd9; cvta.shared.u64 %rd6, %rd6;
					mul.lo.u32 %x2, %r6, 0x01000193; st.shared.v4.u32 [%r10], {%r6, %x2, %x3, %r2}; bar.sync 0; `+form+` bar.sync 0; ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r10+16]; xor.b32 %r6, %r6, %r12; add.u32 %r6, %r6, %r14; bar.sync 0;`)
				requireFormOf(t, "", body, 32, 128)
				if name != "turn" { // of which lanes that are not there count
					requireFormOf(t, "", body, 77) // the last warp's are done by their functions
				}
			})
		}
	}
}

// What native code has done by functions is counted as operations that are not compiled, with its line, also where that is
// so for some warps only.
func TestCalledFormsAreCounted(t *testing.T) {
	if NativeCode() != nil {
		t.Skip(NativeCode())
	}
	body := ".shared .align 16 .b8 s[1024]; mov.u32 %r10, s; and.b32 %r7, %r2, 31; mad.lo.u32 %r10, %r7, 16, %r10; mov.u32 %r6, 0;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r10];\nst.global.u32 [%rd4], %r6;"
	_, row, err := runForm(t, "", body, 64, NativeAtOnce)
	require.NoError(t, err)
	require.Zero(t, row.Interpreted[jit.Operation])
	_, row, err = runForm(t, "", body, 77, NativeAtOnce)
	require.NoError(t, err)
	require.Equal(t, uint64(2), row.Interpreted[jit.Operation], "the last warps of two blocks")
	require.Len(t, row.Lines, 1)
}

// Rows of matrices that are not there, or not aligned, and rows of lanes that do not count.
func TestMatrixFormFaults(t *testing.T) {
	var cases sample
	for _, form := range []string{"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%x1, %x2}, [%r10];", "ldmatrix.sync.aligned.m8n8.x4.trans.b16 {%x1, %x2, %x3, %x4}, [%rd6];", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r6};", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r10], {%r6, %x1, %x2, %r2};"} {
		for _, by := range []int{8, 4096 + 1024, -4096 - 16, 1 << 30, 4096 + 1024 - 8} {
			for _, row := range []int{0, 5, 13, 30} {
				if !cases.next() {
					continue
				}
				body := ".shared .align 16 .b8 s[4096];" + patternLoop(fmt.Sprintf(`and.b32 %%r7, %%r8, 255; mov.u32 %%r10, s; mad.lo.u32 %%r10, %%r7, 16, %%r10; mov.u64 %%rd6, s; mad.wide.u32 %%rd6, %%r7, 16, %%rd6; cvta.shared.u64 %%rd6, %%rd6;
					setp.eq.u32 %%p4, %%r2, %d; setp.eq.u32 %%p5, %%r5, 4; and.pred %%p4, %%p4, %%p5; @%%p4 add.u32 %%r10, %%r10, %d; @%%p4 add.u64 %%rd6, %%rd6, %d; `, row, by, by)+form)
				want, _, errWant := runForm(t, "", body, 64, NativeNever)
				got, _, err := runForm(t, "", body, 64, NativeAtOnce)
				require.Equal(t, errWant, err, "%s row %d by %d", form, row, by)
				requireSame(t, want, got, form)
			}
		}
	}
}

// transferForms are loads and stores of matrices at A, with rows P elements apart.
var transferForms = map[string]string{
	"a f16":       "wmma.load.a.sync.aligned.row.m16n16k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"a f16 col":   "wmma.load.a.sync.aligned.col.m16n16k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"b f16":       "wmma.load.b.sync.aligned.row.m16n16k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"b f16 col":   "wmma.load.b.sync.aligned.col.m16n16k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A];",
	"a f16 tall":  "wmma.load.a.sync.aligned.row.m32n8k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"b f16 tall":  "wmma.load.b.sync.aligned.row.m32n8k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"a f16 wide":  "wmma.load.a.sync.aligned.col.m8n32k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"b f16 wide":  "wmma.load.b.sync.aligned.col.m8n32k16SPACE.f16 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"a bf16":      "wmma.load.a.sync.aligned.row.m16n16k16SPACE.bf16 {%m0, %m1, %m2, %m3}, [A], P;",
	"a tf32":      "wmma.load.a.sync.aligned.row.m16n16k8SPACE.tf32 {%m0, %m1, %m2, %m3}, [A], P;",
	"b tf32 col":  "wmma.load.b.sync.aligned.col.m16n16k8SPACE.tf32 {%m0, %m1, %m2, %m3}, [A], P;",
	"a s8":        "wmma.load.a.sync.aligned.row.m16n16k16SPACE.s8 {%m0, %m1}, [A], 16;",
	"c f32":       "wmma.load.c.sync.aligned.row.m16n16k16SPACE.f32 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"c f32 tall":  "wmma.load.c.sync.aligned.row.m32n8k16SPACE.f32 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, [A], P;",
	"c f16":       "wmma.load.c.sync.aligned.row.m16n16k16SPACE.f16 {%m0, %m1, %m2, %m3}, [A], P;",
	"c f16 col":   "wmma.load.c.sync.aligned.col.m16n16k16SPACE.f16 {%m0, %m1, %m2, %m3}, [A], P;",
	"d f32":       "wmma.store.d.sync.aligned.row.m16n16k16SPACE.f32 [A], {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, P;",
	"d f32 wide":  "wmma.store.d.sync.aligned.col.m8n32k16SPACE.f32 [A], {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, P;",
	"d s32":       "wmma.store.d.sync.aligned.row.m16n16k16SPACE.s32 [A], {%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}, 16;",
	"d f16":       "wmma.store.d.sync.aligned.row.m16n16k16SPACE.f16 [A], {%m0, %m1, %m2, %m3}, P;",
	"d f16 col":   "wmma.store.d.sync.aligned.col.m16n16k16SPACE.f16 [A], {%m0, %m1, %m2, %m3}, P;",
	"d f16 plain": "wmma.store.d.sync.aligned.row.m32n8k16SPACE.f16 [A], {%m0, %m1, %m2, %m3};",
}

// transferBody runs a form for several places, distances and all, and mixes what registers have, and memory.
func transferBody(form, space string) string {
	address, name := "%rd6", "."+space
	if space == "generic" || space == "generic shared" {
		name = ""
	}
	place := "add.u64 %rd6, %rd1, 14336;"
	if space == "shared" || space == "generic shared" {
		place = "mov.u64 %rd6, s; add.u64 %rd6, %rd6, 1024;"
		if space == "generic shared" {
			place += "cvta.shared.u64 %rd6, %rd6;"
		}
	}
	form = strings.NewReplacer("SPACE", name, "[A", "["+address, " P", " %r10").Replace(form)
	return `.shared .align 16 .b8 s[16384]; .reg .b32 %m<8>;` + patternLoop(place+`mov.u32 %r7, s; mad.lo.u32 %r7, %r2, 16, %r7; st.shared.v4.u32 [%r7+1024], {%r6, %r2, %x1, %x2}; st.shared.v4.u32 [%r7+3072], {%r2, %r6, %x1, %x2};
		mov.u32 %m0, %r6; mad.lo.u32 %m1, %r6, 3, %r2; mad.lo.u32 %m2, %r6, 5, 1; mad.lo.u32 %m3, %r6, 7, 2; mov.u32 %m4, %r2; mad.lo.u32 %m5, %r6, 9, 3; mov.u32 %m6, 6; mad.lo.u32 %m7, %r6, 11, 4;
		mul.lo.u32 %r10, %r5, 8; and.b32 %r10, %r10, 56; add.u32 %r10, %r10, 16; mul.wide.u32 %rd9, %r5, 32; add.u64 %rd6, %rd6, %rd9; bar.sync 0; `+form+` bar.sync 0;
		mad.lo.u32 %r6, %m0, 3, %m1; mad.lo.u32 %r6, %r6, 3, %m2; mad.lo.u32 %r6, %r6, 3, %m3; mad.lo.u32 %r6, %r6, 3, %m4; mad.lo.u32 %r6, %r6, 3, %m5; mad.lo.u32 %r6, %r6, 3, %m6; mad.lo.u32 %r6, %r6, 3, %m7;
		ld.shared.v4.u32 {%x1, %x2, %x3, %x4}, [%r7+2048]; bar.sync 0;`)
}

func TestTransferForms(t *testing.T) {
	var cases sample
	for name, form := range transferForms {
		for _, space := range []string{"global", "shared", "generic", "generic shared"} {
			if !cases.next() {
				continue
			}
			t.Run(name+"/"+space, func(t *testing.T) {
				requireFormOf(t, "", transferBody(form, space), 32)
				if !strings.HasPrefix(name, "d") {
					requireFormOf(t, "", transferBody(form, space), 128)
				}
			})
		}
	}
}

// Matrices that are not all there, not aligned, or that lanes name apart.
func TestTransferFormFaults(t *testing.T) {
	var cases sample
	for _, form := range []string{transferForms["a f16"], transferForms["b f16"], transferForms["c f32"], transferForms["d f32"], transferForms["d f16 col"]} {
		for _, space := range []string{"global", "shared", "generic", "generic shared"} {
			for _, change := range []string{"add.u64 %rd6, %rd6, 1;", "add.u64 %rd6, %rd6, 2;", "mov.u32 %r10, 0x7fffffff;", "mov.u32 %r10, 100000;", "add.u64 %rd6, %rd6, 33000;", "add.u64 %rd6, %rd6, 14600;", "sub.u64 %rd6, %rd6, 20000;", "mov.u64 %rd6, 0;", "mov.u32 %r10, 17;", "mov.u32 %r10, 0;", "setp.eq.u32 %p6, %r2, 9; @%p6 add.u64 %rd6, %rd6, 64;", "setp.eq.u32 %p6, %r2, 9; @%p6 add.u32 %r10, %r10, 8;"} {
				if !cases.next() {
					continue
				}
				guarded := "setp.eq.u32 %p5, %r5, 4; "
				for _, c := range strings.SplitAfter(change, ";") {
					if c = strings.TrimSpace(c); strings.HasPrefix(c, "@") {
						guarded += "and.pred %p6, %p6, %p5; " + c
					} else if c != "" {
						guarded += "@%p5 " + c
					}
				}
				body := strings.Replace(transferBody(form, space), "bar.sync 0; wmma", guarded+" bar.sync 0; wmma", 1)
				want, _, errWant := runForm(t, "", body, 32, NativeNever)
				got, _, err := runForm(t, "", body, 32, NativeAtOnce)
				require.Equal(t, errWant, err, "%s %s %s", form, space, change)
				requireSame(t, want, got, form+space+change)
			}
		}
	}
}
