package exec

import (
	"errors"
	"testing"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// fuzzSeeds are what stands at module scope and in the kernel; see source.
var fuzzSeeds = [][2]string{
	{"", "L: setp.lt.u32 %p1, %r2, 5; @%p1 bra L; M: add.u32 %r2, %r2, 1; bra L;"},
	{"", "T: .branchtargets A, B; and.b32 %r4, %r2, 1; A: brx.idx %r4, T; B: bar.sync 0; @!%p2 bra A;"},
	{".shared .align 8 .b8 s[64];", "mov.u32 %r4, s; st.shared.v2.u32 [%r4+8], {%r2, %r3}; bar.sync 0; ld.shared.u64 %rd5, [s]; atom.shared.add.u32 %r5, [%r4], 1;"},
	{".func (.param .u32 r) f(.param .u32 x) { .reg .u32 %a; ld.param.u32 %a, [x]; st.param.u32 [r], %a; ret; }", "{ .param .u32 p; .param .u32 q; st.param.u32 [p], %r2; call (q), f, (p); ld.param.u32 %r4, [q]; } st.global.u32 [%rd4], %r4;"},
	{".func f(.reg .u32 %n) { .reg .pred %p; setp.eq.u32 %p, %n, 0; @%p ret; sub.u32 %n, %n, 1; call f, (%n); }", "call f, (%r2); P: .callprototype _ (.reg .u32 %x); mov.u64 %rd5, f; call %rd5, (%r3), P;"},
	{".global .u32 g[4] = {1, 2, 3}; .const .u64 c = g;", "ld.const.u64 %rd5, [c]; ld.u32 %r4, [%rd5+4]; red.global.max.s32 [g], %r4; cvta.global.u64 %rd6, %rd5; isspacep.shared %p1, %rd6;"},
	{"", ".local .b32 l[8]; and.b32 %r4, %r2, 7; shl.b32 %r4, %r4, 2; mov.u32 %r5, l; add.u32 %r5, %r5, %r4; st.local.u32 [%r5], %r2; ld.local.u8 %r6, [l+3]; alloca.u64 %rd5, %rd3;"},
	{"", "shfl.sync.bfly.b32 %r4|%p1, %r2, 1, 31, -1; vote.sync.ballot.b32 %r5, %p1, 0xffff; match.any.sync.b32 %r6, %r4, -1; bar.warp.sync 3; activemask.b32 %r7;"},
	{"", "mul.f32 %f1, %f2, %f3; neg.f32 %f1, %f1; @%p1 add.f32 %f2, %f1, %f3; fma.rn.ftz.sat.f32 %f4, %f2, 0f3F800000, %f1; cvt.rzi.s32.f32 %r4, %f4; div.rn.f32 %f5, %f4, %f1;"},
	{".shared .align 16 .b8 s[600];", "mov.u32 %r3, s; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3]; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r4, %r5, %r6, %r7}, {%r4, %r5}, {%f1, %f2, %f3, %f4}; movmatrix.sync.aligned.m8n8.trans.b16 %r8, %r4;"},
	{"", "wmma.load.c.sync.aligned.row.m8n8k32.global.s32 {%r4, %r5}, [%rd1], 8; wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32.satfinite {%r4, %r5}, {%r2}, {%r3}, {%r4, %r5}; wmma.store.d.sync.aligned.col.m8n8k32.s32 [%rd1], {%r4, %r5}, %r6;"},
	{"", "add.cc.u32 %r4, %r2, -1; addc.u32 %r5, %r4, 0; mad.wide.s32 %rd5, %r4, %r5, %rd3; div.s64 %rd6, %rd5, %rd3; mov.b64 {%r6, %r7}, %rd6; prmt.b32 %r8, %r6, %r7, %r4; lop3.b32 %r9, %r6, %r7, %r8, 0x96;"},
}

// FuzzRun compiles any text and runs the kernels that it has. Nothing that a
// module can say may crash or hang the engine, or reach memory that is not its
// own.
func FuzzRun(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(hopper(seed[0], seed[1]))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		mod, err := verified("fuzz.ptx", src)
		if err != nil {
			return
		}
		p, err := Compile(mod)
		if err != nil {
			var e *gpu.BuildError
			if !errors.As(err, &e) || len(e.Diagnostics) == 0 {
				t.Fatalf("not a BuildError: %v", err)
			}
			return
		}
		image, err := p.Link(dataBase)
		if err != nil {
			t.Fatal(err)
		}
		m := exectest.NewMemory(4096)
		if len(image) < 1<<20 {
			m.Write(dataBase, image)
		}
		m.Map(exectest.BufA, 8192)
		for _, d := range mod.Directives {
			fn, ok := d.(*ptx.Func)
			if !ok || !fn.Entry || !fn.Defined {
				continue
			}
			k, ok := p.Kernel(fn.Name)
			if !ok {
				t.Fatalf("no kernel %q", fn.Name)
			}
			runFuzzed(t, k, m)
		}
	})
}

// runFuzzed runs a kernel for a few milliseconds at most.
func runFuzzed(t *testing.T, k *Kernel, m *exectest.Memory) {
	l := Launch{Grid: grid(2, 1, 1), Block: grid(40, 1, 1), SharedBytes: 64, Params: make([]byte, k.Attributes().ParamBytes)}
	for i := 0; i+8 <= len(l.Params); i += 8 {
		copy(l.Params[i:], params(uint64(exectest.BufA)))
	}
	ctl := new(Control)
	stop := time.AfterFunc(5*time.Millisecond, func() { ctl.Stop(gpu.LostTimeout) })
	defer stop.Stop()
	l.Native = NativeAtOnce
	err := Run(k, l, m, ctl, 2)
	var lost *gpu.LostError
	switch {
	case err == nil, errors.Is(err, gpu.ErrInvalid):
	case !errors.As(err, &lost):
		t.Fatalf("neither a fault nor a bad launch: %v", err)
	case lost.Cause == gpu.LostDevice:
		t.Fatalf("the engine failed: %v", err)
	}
}

// The seeds are modules that run.
func TestFuzzSeeds(t *testing.T) {
	for _, seed := range fuzzSeeds {
		m := exectest.NewMemory(4096)
		build(t, "seed.ptx", hopper(seed[0], seed[1]), m)
	}
}
