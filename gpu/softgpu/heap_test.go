package softgpu

import (
	"bytes"
	gocontext "context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/snapshot"
)

const mallocHeader = `.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
`

// mallocPTX has kernels whose thread i keeps what it got from malloc at out[i], filled with i+1.
// Verify counts at bad what another thread has overwritten, and frees it.
const mallocPTX = mallocHeader + `
.visible .entry fill(.param .u64 out, .param .u64 n)
{
	.reg .b64 %a<8>; .reg .b32 %r<8>; .reg .pred %p;
	ld.param.u64 %a1, [out]; ld.param.u64 %a2, [n];
	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
	mad.wide.u32 %a1, %r1, 8, %a1;
	{ .param .b64 q; .param .b64 s; st.param.b64 [s], %a2; call (q), malloc, (s); ld.param.b64 %a3, [q]; }
	st.global.u64 [%a1], %a3;
	setp.eq.u64 %p, %a3, 0; @%p ret;
	add.u32 %r1, %r1, 1; add.u64 %a2, %a2, %a3;
L:	st.u32 [%a3], %r1; add.u64 %a3, %a3, 4; setp.lt.u64 %p, %a3, %a2; @%p bra L;
	ret;
}
.visible .entry verify(.param .u64 out, .param .u64 n, .param .u64 bad)
{
	.reg .b64 %a<8>; .reg .b32 %r<8>; .reg .pred %p;
	ld.param.u64 %a1, [out]; ld.param.u64 %a2, [n]; ld.param.u64 %a5, [bad];
	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
	mad.wide.u32 %a1, %r1, 8, %a1; ld.global.u64 %a4, [%a1];
	setp.eq.u64 %p, %a4, 0; @%p bra F;
	mov.u64 %a3, %a4; add.u32 %r1, %r1, 1; add.u64 %a2, %a2, %a3;
L:	ld.u32 %r4, [%a3]; setp.ne.u32 %p, %r4, %r1; @%p red.global.add.u32 [%a5], 1;
	add.u64 %a3, %a3, 4; setp.lt.u64 %p, %a3, %a2; @%p bra L;
F:	{ .param .b64 s; st.param.b64 [s], %a4; call free, (s); }
	ret;
}
.visible .entry drop(.param .u64 p)
{
	.reg .b64 %a;
	ld.param.u64 %a, [p];
	{ .param .b64 s; st.param.b64 [s], %a; call free, (s); }
	ret;
}
`

// heapRig is a context with a buffer for pointers.
type heapRig struct {
	*testing.T
	ctx  *context
	ch   *channel
	mod  gpu.Module
	buf  *memory
	asks []uint64 // of reserve
}

var defaultBytes = heapBytes(defaultHeap)

const (
	heapThreads = 64 * 128
	badOffset   = heapThreads * 8 // in the buffer, behind the pointers
)

func newHeapRig(t *testing.T, d *device) *heapRig {
	r := &heapRig{T: t}
	r.ctx, r.ch = testContext(t, d)
	r.mod = r.load(mallocPTX)
	var err error
	r.buf, err = r.ctx.newVRAM(badOffset + 4096)
	require.NoError(t, err)
	require.NoError(t, r.ctx.Map(vramBase, r.buf, 0, r.buf.size, gpu.ProtRead|gpu.ProtWrite))
	return r
}

func (r *heapRig) load(source string) gpu.Module {
	r.Helper()
	m, err := r.ctx.LoadModule(gocontext.Background(), "heap.ptx", []byte(source), func(n uint64) error {
		r.asks = append(r.asks, n)
		return nil
	})
	require.NoError(r, err)
	return m
}

func (r *heapRig) kernel(name string, blocks uint32, params ...uint64) *gpu.Launch {
	f, err := r.mod.Function(name)
	require.NoError(r, err)
	l := &gpu.Launch{Func: f, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{128, 1, 1}}
	for _, p := range params {
		l.Params = binary.LittleEndian.AppendUint64(l.Params, p)
	}
	if blocks == 0 {
		l.Grid[0], l.Block[0] = 1, 1
	}
	return l
}

func (r *heapRig) run(cmds ...gpu.Command) error { return (<-submit(r, r.ch, cmds...)).Err }

// word reads the buffer.
func (r *heapRig) word(off uint64) uint64 {
	_, addr, _ := r.buf.place(off)
	return r.ctx.dev.vram.Word(addr)
}

// pointers returns what fill stored.
func (r *heapRig) pointers(n int) (list []uint64) {
	for i := range n {
		list = append(list, r.word(uint64(i)*8))
	}
	return list
}

// TestMallocThreads has thousands of threads allocate at once, and another module's threads
// check and free what they got.
func TestMallocThreads(t *testing.T) {
	r := newHeapRig(t, testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 4}))
	for _, n := range []uint64{4, 16, 40, 100, 700} {
		require.NoError(t, r.run(r.kernel("fill", 64, vramBase, n)))
		seen := map[uint64]bool{}
		for _, p := range r.pointers(heapThreads) {
			require.NotZero(t, p)
			require.Zero(t, p%16)
			require.False(t, seen[p], "%#x twice", p)
			seen[p] = true
		}
		require.Equal(t, heapThreads, r.ctx.allocator().Live())
		require.NoError(t, r.mod.Close(), "what it allocated stays")
		r.mod = r.load(mallocPTX)
		require.NoError(t, r.run(r.kernel("verify", 64, vramBase, n, vramBase+badOffset)))
		require.Zero(t, r.word(badOffset))
		require.Zero(t, r.ctx.allocator().Live())
	}
}

// TestMallocExhausted checks that malloc returns 0 then, and memory again when some is freed.
func TestMallocExhausted(t *testing.T) {
	r := newHeapRig(t, testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 4}))
	const n = 4096
	for range 3 {
		require.NoError(t, r.run(r.kernel("fill", 64, vramBase, n)))
		got := 0
		for _, p := range r.pointers(heapThreads) {
			if p != 0 {
				got++
			}
		}
		require.GreaterOrEqual(t, got, defaultHeap/n, "CUDA promises the limit")
		require.LessOrEqual(t, uint64(got), defaultBytes/n)
		require.NoError(t, r.run(r.kernel("verify", 64, vramBase, n, vramBase+badOffset)), "free of 0 is nothing")
		require.Zero(t, r.word(badOffset))
	}
	for _, n := range []uint64{defaultBytes + 1, 1 << 40, ^uint64(0), ^uint64(15)} {
		require.NoError(t, r.run(r.kernel("fill", 0, vramBase, n)))
		require.Zero(t, r.word(0), "malloc of %d bytes", n)
	}
}

// TestFreeOfOther checks that free of what malloc did not return ends the context, and only it.
func TestFreeOfOther(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 128 << 20, SMs: 2})
	other := newHeapRig(t, d)
	require.NoError(t, other.run(other.kernel("fill", 64, vramBase, 64)))
	var own uint64 // in every context the same
	for _, change := range []func(uint64) uint64{
		func(p uint64) uint64 { return p + 16 },
		func(p uint64) uint64 { return p + 1 },
		func(p uint64) uint64 { return p - 64 },
		func(p uint64) uint64 { return p + 1<<20 },
		func(p uint64) uint64 { return p + defaultBytes },
		func(uint64) uint64 { return 1 },
		func(uint64) uint64 { return vramBase },
		func(uint64) uint64 { return ^uint64(0) },
	} {
		r := newHeapRig(t, d)
		require.NoError(t, r.run(r.kernel("fill", 0, vramBase, 64)))
		own = change(r.word(0))
		var lost *gpu.LostError
		require.ErrorAs(t, r.run(r.kernel("drop", 0, own)), &lost)
		require.Equal(t, gpu.LostAddress, lost.Cause)
		require.Equal(t, own, lost.Addr)
		require.ErrorContains(t, lost, "malloc")
		require.NoError(t, r.ctx.Close())
	}
	r := newHeapRig(t, d)
	require.NoError(t, r.run(r.kernel("fill", 0, vramBase, 64), r.kernel("drop", 0, 0)))
	p := r.word(0)
	require.NoError(t, r.run(r.kernel("drop", 0, p)))
	require.Error(t, r.run(r.kernel("drop", 0, p)), "twice")
	require.NoError(t, other.run(other.kernel("verify", 64, vramBase, 64, vramBase+badOffset)))
	require.Zero(t, other.word(badOffset), "another context has its own")
}

// TestHeapIsCharged checks what the owner of a context is asked for.
func TestHeapIsCharged(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 64 << 20})
	before := d.Stats().VRAMUsed
	r := newHeapRig(t, d)
	require.Equal(t, []uint64{heapCharge(defaultBytes)}, r.asks)
	require.Equal(t, heapCharge(defaultBytes), r.mod.(gpu.Retainer).Retained())
	require.Equal(t, heapCharge(defaultBytes), r.ctx.Retained())
	second := r.load(mallocPTX)
	require.Zero(t, second.(gpu.Retainer).Retained(), "there is one heap")
	require.Len(t, r.asks, 1)
	require.Zero(t, r.load(empty).(gpu.Retainer).Retained())
	require.NoError(t, r.mod.Close())
	require.NoError(t, second.Close())
	require.GreaterOrEqual(t, d.Stats().VRAMUsed, before+defaultBytes)
	require.NoError(t, r.ctx.Close())
	require.LessOrEqual(t, d.Stats().VRAMUsed, before)

	refused := errors.New("not that much")
	c, _ := testContext(t, d)
	_, err := c.LoadModule(gocontext.Background(), "heap.ptx", []byte(mallocPTX), func(uint64) error { return refused })
	require.ErrorIs(t, err, refused)
	require.Nil(t, c.allocator())

	small, _ := testContext(t, testDevice(t, Config{VRAMBytes: 8 << 20}))
	free := small.dev.Stats().VRAMUsed
	_, err = small.LoadModule(gocontext.Background(), "heap.ptx", []byte(mallocPTX+".global .u32 v;"), nil)
	require.ErrorIs(t, err, gpu.ErrNoMemory)
	require.Equal(t, free, small.dev.Stats().VRAMUsed)
}

// TestHeapSnapshot moves a context with allocations to another device.
func TestHeapSnapshot(t *testing.T) {
	r := newHeapRig(t, testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 4}))
	require.NoError(t, r.run(r.kernel("fill", 32, vramBase, 100)))
	var state bytes.Buffer
	_, err := r.ctx.Snapshot(gocontext.Background(), &state)
	require.NoError(t, err)

	elsewhere := testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 2})
	var asks []uint64
	objects, err := elsewhere.Restore(gocontext.Background(), "heir", bytes.NewReader(state.Bytes()), gpu.Owner{
		Reserve: func(n uint64) error { asks = append(asks, n); return nil },
	})
	require.NoError(t, err)
	require.Equal(t, []uint64{heapCharge(defaultBytes)}, asks)
	heir := &heapRig{T: t, ctx: objects.Context.(*context), ch: objects.Channels[0].(*channel), mod: objects.Modules[0], buf: objects.Memories[0].(*memory)}
	require.NoError(t, heir.ctx.Resume())
	require.Equal(t, heapThreads/2, heir.ctx.allocator().Live())
	require.NoError(t, heir.run(heir.kernel("fill", 32, vramBase+heapThreads/2*8, 100)), "overlaps nothing")
	require.NoError(t, heir.run(heir.kernel("verify", 32, vramBase, 100, vramBase+badOffset)))
	require.NoError(t, heir.run(heir.kernel("verify", 32, vramBase+heapThreads/2*8, 100, vramBase+badOffset)))
	require.Zero(t, heir.word(badOffset))
	require.Zero(t, heir.ctx.allocator().Live())

	refused := errors.New("not that much")
	_, err = elsewhere.Restore(gocontext.Background(), "poor", bytes.NewReader(state.Bytes()), gpu.Owner{Reserve: func(uint64) error { return refused }})
	require.ErrorIs(t, err, refused)
}

// TestHeapPragma checks that the first module that calls malloc says how large the heap is.
func TestHeapPragma(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 512 << 20, SMs: 2})
	for _, limit := range []uint64{1, 100_000, 1 << 20, 200 << 20} {
		c, _ := testContext(t, d)
		r := &heapRig{T: t, ctx: c}
		pragma := fmt.Sprintf("\n.pragma \"pvdrm_malloc_heap %d\";\n", limit)
		r.load(empty + pragma)
		require.Nil(t, c.allocator(), "it does not call malloc")
		r.load(mallocPTX + pragma)
		r.load(mallocPTX + "\n.pragma \"pvdrm_malloc_heap 4096\";\n")
		_, size := c.allocator().Range()
		require.Equal(t, []uint64{heapCharge(size)}, r.asks)
		require.GreaterOrEqual(t, size, limit)
		require.LessOrEqual(t, size, limit+limit/8+4096)
		require.NotZero(t, c.allocator().Malloc(limit))
		require.NoError(t, c.Close())
	}
	c, _ := testContext(t, d)
	for _, limit := range []string{"2147483648", "18446744073709551615", "99999999999999999999", "x"} {
		_, err := c.LoadModule(gocontext.Background(), "heap.ptx", []byte(mallocPTX+".pragma \"pvdrm_malloc_heap "+limit+"\";"), nil)
		require.ErrorIs(t, err, gpu.ErrNoMemory, limit)
	}
}

// TestManagedPragma checks that code and initialisers use the address that the pragma gives, and that
// the variable's own place has what it begins with.
func TestManagedPragma(t *testing.T) {
	const source = mallocHeader + `
.visible .global .attribute(.managed) .align 8 .u64 counter = 40;
.visible .global .attribute(.managed) .align 8 .u64 other = 7;
.visible .global .align 8 .u64 first = generic(counter)+8;
.visible .entry count(.param .u64 out)
{
	.reg .b64 %a<8>;
	ld.param.u64 %a1, [out];
	atom.global.add.u64 %a2, [counter], 2; st.global.u64 [%a1], %a2;
	mov.u64 %a3, counter+8; st.global.u64 [%a1+8], %a3;
	ld.global.u64 %a4, [first]; st.global.u64 [%a1+16], %a4;
	ld.global.u64 %a5, [other]; st.global.u64 [%a1+24], %a5;
	ret;
}
`
	r := newHeapRig(t, testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 1}))
	const at = vramBase + 1024
	r.mod = r.load(source + fmt.Sprintf(".pragma \"pvdrm_managed %d counter\";\n.pragma \"pvdrm_managed x other\";\n.pragma \"pvdrm_managed 64 nothing\";\n", at))
	m := r.mod.(*module)
	addr, size, err := m.Global("counter")
	require.NoError(t, err)
	require.EqualValues(t, 8, size)
	require.NotEqual(t, uint64(at), addr)
	require.NoError(t, r.run(r.kernel("count", 0, vramBase)))
	require.Equal(t, []uint64{0, at + 8, at + 8, 7}, r.pointers(4))
	require.Equal(t, uint64(2), r.word(at-vramBase))
	_, own, _ := m.data.place(addr - m.va)
	require.Equal(t, uint64(40), r.ctx.dev.vram.Word(own))
}

// TestHeapRestoreHostile gives Restore heaps that no context can have.
func TestHeapRestoreHostile(t *testing.T) {
	r := newHeapRig(t, testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 1}))
	require.NoError(t, r.run(r.kernel("fill", 1, vramBase, 100)))
	var b bytes.Buffer
	_, err := r.ctx.Snapshot(gocontext.Background(), &b)
	require.NoError(t, err)
	d := testDevice(t, Config{VRAMBytes: 64 << 20})
	before := d.Stats().VRAMUsed
	for name, change := range map[string]func(*snapshot.Heap){
		"huge":          func(h *snapshot.Heap) { h.Size = ^uint64(0) },
		"too large":     func(h *snapshot.Heap) { h.Size = 1 << 30 },
		"empty":         func(h *snapshot.Heap) { h.Size, h.Data = 0, nil },
		"not of pages":  func(h *snapshot.Heap) { h.Size += 1024 },
		"in VRAM":       func(h *snapshot.Heap) { h.VA = vramBase },
		"of the module": func(h *snapshot.Heap) { h.VA -= 4096 },
		"state":         func(h *snapshot.Heap) { h.State = h.State[1:] },
		"class":         func(h *snapshot.Heap) { h.State[8] = 200 },
	} {
		s, err := snapshot.Read(bytes.NewReader(b.Bytes()), 1<<30)
		require.NoError(t, err)
		change(s.Heap)
		var changed bytes.Buffer
		if snapshot.Write(&changed, s) != nil {
			continue
		}
		_, err = d.Restore(gocontext.Background(), "heir", &changed, gpu.Owner{})
		require.Error(t, err, name)
		require.Equal(t, before, d.Stats().VRAMUsed, name)
	}
}
