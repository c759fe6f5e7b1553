package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/internal/heap"
)

const mallocHeader = ".version 7.0\n.target sm_70\n.address_size 64\n" + `
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
`

// chain builds a list of n nodes in each thread, adds its numbers up and frees it, in several
// ways to write the calls: through .param variables, with registers, in branches.
const chain = mallocHeader + `
.visible .entry chain(.param .u64 a, .param .u32 n)
{
	.reg .b64 %d<8>; .reg .b32 %r<8>; .reg .pred %p;
	ld.param.u64 %d1, [a]; ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r2, %r2, %r3, %r4;
	mad.wide.u32 %d1, %r2, 4, %d1; mov.u64 %d2, 0; and.b32 %r5, %r2, 1;
M:	setp.eq.u32 %p, %r5, 0; @%p bra even;
	call (%d3), malloc, (12);
	bra link;
even:
	{ .param .b64 q; .param .b64 s; st.param.b64 [s], 40; call (q), malloc, (s); ld.param.b64 %d3, [q]; }
link:
	setp.eq.u64 %p, %d3, 0; @%p trap;
	st.u64 [%d3], %d2; st.u32 [%d3+8], %r1; mov.u64 %d2, %d3;
	sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra M;
	mov.u32 %r6, %r2;
F:	ld.u32 %r7, [%d2+8]; add.u32 %r6, %r6, %r7; ld.u64 %d3, [%d2];
	call free, (%d2);
	mov.u64 %d2, %d3; setp.ne.u64 %p, %d2, 0; @%p bra F;
	call free, (0);
	st.global.u32 [%d1], %r6;
	ret;
}
`

const heapBase = 0x4000_0000

func TestMalloc(t *testing.T) {
	for name, native := range map[string]Native{"interpreted": NativeNever, "native": NativeAtOnce} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "chain.ptx", []byte(chain), m), "chain")
			m.Map(exectest.BufA, 4096)
			m.Map(heapBase, 1<<20)
			h := heap.New(heapBase, 1<<20)
			l := Launch{Grid: grid(7, 1, 1), Block: grid(100, 1, 1), Params: params(uint64(exectest.BufA), uint32(10)), Heap: h, Native: native}
			for range 5 {
				require.NoError(t, Run(k, l, m, new(Control), 4))
				for i, got := range readAll[uint32](m, exectest.BufA, 700) {
					require.EqualValues(t, i+55, got)
				}
				require.Zero(t, h.Live())
			}
			l.Heap = nil
			require.Equal(t, gpu.LostTrap, lost(t, Run(k, l, m, new(Control), 4)).Cause, "no heap, no memory")
		})
	}
}

func TestMallocRefused(t *testing.T) {
	for _, c := range []struct{ decl, call, want string }{
		{decl: ".extern .func (.param .b32 r) malloc (.param .b64 n);", call: ".param .b32 q; call (q), malloc, (8);", want: "malloc takes and returns 8 bytes"},
		{decl: ".extern .func (.param .b64 r) malloc (.param .b32 n);", call: ".param .b64 q; call (q), malloc, (8);", want: "malloc takes and returns 8 bytes"},
		{decl: ".extern .func malloc (.param .b64 n);", call: "call malloc, (8);", want: "malloc takes and returns 8 bytes"},
		{decl: ".extern .func free (.param .b32 p);", call: "call free, (8);", want: "free takes 8 bytes"},
		{decl: ".extern .func (.param .b64 r) free (.param .b64 p);", call: ".param .b64 q; call (q), free, (8);", want: "free takes 8 bytes"},
	} {
		src := ".version 7.0\n.target sm_70\n.address_size 64\n" + c.decl + "\n.visible .entry k() { " + c.call + " ret; }\n"
		mod, err := verified("k.ptx", []byte(src))
		require.NoError(t, err, src)
		_, err = Compile(mod)
		require.ErrorContains(t, err, c.want, src)
	}
}

// A module may have a function of its own of that name.
func TestOwnMalloc(t *testing.T) {
	m := exectest.NewMemory(4096)
	m.Map(exectest.BufA, 4096)
	p := build(t, "own.ptx", []byte(".version 7.0\n.target sm_70\n.address_size 64\n"+`
.func (.reg .u64 %r) malloc(.reg .u64 %n) { add.u64 %r, %n, 1; ret; }
.visible .entry k(.param .u64 a) { .reg .u64 %d<3>; ld.param.u64 %d1, [a]; call (%d2), malloc, (41); st.global.u64 [%d1], %d2; ret; }
`), m)
	require.False(t, p.Mallocs)
	require.NoError(t, Run(kernel(t, p, "k"), Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA))}, m, new(Control), 1))
	require.EqualValues(t, 42, readAll[uint64](m, exectest.BufA, 1)[0])
}
