package softgpu

import (
	"bytes"
	gocontext "context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
)

// treePTX has kernels that launch kernels. All take a log, where 8 bytes count the words behind
// them, and a number, which note appends. The word at log-8 opens wait.
const treePTX = `.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 r) __pvdrm_parameter_bytes(.param .b64 kernel);
.extern .func (.param .b32 r) __pvdrm_launch(.param .b64 header, .param .b64 stream);
.extern .func (.param .b32 r) __pvdrm_last_error(.param .b32 code, .param .b32 set);
.func note(.reg .b64 log, .reg .b32 id)
{
	.reg .b64 %d<3>;
	atom.add.u64 %d0, [log], 1;
	mad.lo.u64 %d1, %d0, 4, log;
	st.u32 [%d1+8], id;
	ret;
}
.func (.reg .b32 e) start(.reg .b64 kernel, .reg .b32 grid, .reg .b32 threads, .reg .b64 log, .reg .b32 id, .reg .b64 stream)
{
	.local .align 8 .b8 h[80]; .reg .b64 %d<2>; .reg .b32 %r<2>;
	.param .b64 at; .param .b64 s; .param .b32 x;
	mov.u64 %d0, h; cvta.local.u64 %d0, %d0; mov.u32 %r0, 1; mov.u32 %r1, 0;
	st.u64 [%d0], kernel;
	st.u32 [%d0+8], grid; st.u32 [%d0+12], %r0; st.u32 [%d0+16], %r0;
	st.u32 [%d0+20], threads; st.u32 [%d0+24], %r0; st.u32 [%d0+28], %r0; st.u32 [%d0+32], %r1;
	st.u64 [%d0+64], log; st.u32 [%d0+72], id;
	st.param.b64 [at], %d0; st.param.b64 [s], stream;
	call (x), __pvdrm_launch, (at, s);
	ld.param.b32 e, [x];
	ret;
}
.visible .entry nothing(.param .u64 log, .param .u32 id) { ret; }
.visible .entry leaf(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d0; .reg .b32 %r<2>; .reg .pred %p;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id]; mov.u32 %r1, %tid.x;
	setp.ne.u32 %p, %r1, 0; @%p ret;
	call note, (%d0, %r0);
	ret;
}
.visible .entry wait(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d0; .reg .b32 %r<2>; .reg .pred %p;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id];
	call note, (%d0, %r0);
L:	ld.volatile.u32 %r1, [%d0+-8]; setp.eq.u32 %p, %r1, 0; @%p bra L;
	ret;
}
.visible .entry one(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<3>; .reg .b32 %r<3>;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id];
	call note, (%d0, %r0);
	mul.lo.u32 %r0, %r0, 10; mov.u64 %d1, leaf; mov.u64 %d2, 0;
	call (%r1), start, (%d1, 3, 32, %d0, %r0, %d2);
	ret;
}
.visible .entry root(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<5>; .reg .b32 %r<6>; .reg .pred %p;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id];
	mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 0; @%p ret;
	mov.u32 %r2, %ctaid.x; mul.lo.u32 %r2, %r2, 100;
	mov.u64 %d1, leaf; mov.u64 %d2, one; mov.u64 %d3, wait;
	add.u32 %r3, %r2, 9; call (%r4), start, (%d1, 1, 32, %d0, %r3, 3);
	add.u32 %r3, %r2, 1; call (%r4), start, (%d2, 1, 1, %d0, %r3, 0);
	add.u32 %r3, %r2, 2; call (%r4), start, (%d3, 1, 1, %d0, %r3, 4);
	add.u32 %r3, %r2, 3; call (%r4), start, (%d1, 1, 64, %d0, %r3, 4096);
	ret;
}
.visible .entry errors(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<5>; .reg .b32 %r<8>; .reg .pred %p; .param .b64 k; .param .b32 c; .param .b32 s; .param .b32 x;
	ld.param.u64 %d0, [log]; mov.u32 %r0, 0;
	mov.u64 %d1, leaf; mov.u64 %d2, start;
	call (%r1), start, (%d1, 1, 0, %d0, %r0, 0); call note, (%d0, %r1);
	call (%r1), start, (%d1, 0, 1, %d0, %r0, 0); call note, (%d0, %r1);
	call (%r1), start, (%d1, 1, 1025, %d0, %r0, 0); call note, (%d0, %r1);
	call (%r1), start, (%d2, 1, 1, %d0, %r0, 0); call note, (%d0, %r1);
	mov.u64 %d2, 5;
	call (%r1), start, (%d2, 1, 1, %d0, %r0, 0); call note, (%d0, %r1);
	st.param.b64 [k], %d2; call (x), __pvdrm_parameter_bytes, (k); ld.param.b32 %r1, [x]; call note, (%d0, %r1);
	st.param.b64 [k], %d1; call (x), __pvdrm_parameter_bytes, (k); ld.param.b32 %r1, [x]; call note, (%d0, %r1);
	mov.u32 %r2, 7; mov.u32 %r3, 1;
	st.param.b32 [c], %r2; st.param.b32 [s], %r3; call (x), __pvdrm_last_error, (c, s); ld.param.b32 %r1, [x]; call note, (%d0, %r1);
	st.param.b32 [s], %r0; call (x), __pvdrm_last_error, (c, s); ld.param.b32 %r1, [x]; call note, (%d0, %r1);
	st.param.b32 [c], %r0; st.param.b32 [s], %r3; call (x), __pvdrm_last_error, (c, s); ld.param.b32 %r1, [x]; call note, (%d0, %r1);
	call (x), __pvdrm_last_error, (c, s); ld.param.b32 %r1, [x]; call note, (%d0, %r1);
	mov.u32 %r5, 0; mov.u64 %d3, nothing;
T:	call (%r1), start, (%d3, 1, 1, %d0, %r0, 3); add.u32 %r5, %r5, 1; setp.eq.u32 %p, %r1, 0; @%p bra T;
	call note, (%d0, %r1); call note, (%d0, %r5);
	ret;
}
.visible .entry nest(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id];
	st.u32 [%d0+8], %r0; add.u32 %r0, %r0, 1; mov.u64 %d1, nest;
	call (%r1), start, (%d1, 1, 1, %d0, %r0, 0);
	st.u32 [%d0+12], %r1;
	ret;
}
.visible .entry loop(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>; .reg .pred %p;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id];
	st.u32 [%d0+8], %r0; add.u32 %r0, %r0, 1; setp.gt.u32 %p, %r0, 5000; @%p ret; mov.u64 %d1, loop;
	call (%r1), start, (%d1, 1, 1, %d0, %r0, 3);
	st.u32 [%d0+12], %r1;
	ret;
}
.visible .entry again(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>;
	ld.param.u64 %d0, [log]; mov.u64 %d1, again; mov.u32 %r0, 0;
	call (%r1), start, (%d1, 1, 1, %d0, %r0, 3);
	ret;
}
.visible .entry flood(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<3>; .reg .pred %p;
	ld.param.u64 %d0, [log]; mov.u64 %d1, nothing; mov.u32 %r2, 0;
L:	call (%r1), start, (%d1, 1, 1, %d0, %r2, 0); add.u32 %r2, %r2, 1; setp.eq.u32 %p, %r1, 0; @%p bra L;
	st.u32 [%d0+8], %r2; st.u32 [%d0+12], %r1;
	trap;
}
.visible .entry child_faults(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>;
	mov.u64 %d0, 64; mov.u64 %d1, leaf;
	call (%r1), start, (%d1, 1, 1, %d0, 0, 0);
	ret;
}
`

// treeRig is a context with a log.
type treeRig struct {
	*testing.T
	ctx *context
	ch  *channel
	buf *memory
}

const treeLog = vramBase + 8 // behind the word that opens wait

func newTreeRig(t *testing.T, c Config) *treeRig {
	c.VRAMBytes = 64 << 20
	r := &treeRig{T: t}
	r.ctx, r.ch = testContext(t, testDevice(t, c))
	var err error
	r.buf, err = r.ctx.newVRAM(4096)
	require.NoError(t, err)
	require.NoError(t, r.ctx.Map(vramBase, r.buf, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
	return r
}

func (r *treeRig) launch(name string, blocks uint32) *gpu.Launch {
	l := launchOf(r, r.ctx, treePTX, name)
	l.Grid[0], l.Block[0] = blocks, 1
	l.Params = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, treeLog), 0)
	return l
}

func (r *treeRig) word(off uint64) uint32 {
	_, addr, _ := r.buf.place(off &^ 7)
	return uint32(r.ctx.dev.vram.Word(addr) >> (off % 8 * 8))
}

func (r *treeRig) open() { r.buf.write(0, []byte{1}) }

// log returns what the kernels noted.
func (r *treeRig) log() (list []int) {
	for i := range r.word(8) {
		list = append(list, int(int32(r.word(16+4*uint64(i)))))
	}
	return list
}

// A kernel's launches run after it, each with all that it launches, tail launches last; their order
// follows the blocks.
var rootOrder = []int{1, 10, 10, 10, 2, 3, 101, 1010, 1010, 1010, 102, 103, 9, 109}

func TestTreeOrder(t *testing.T) {
	for _, sms := range []int{1, 4} {
		r := newTreeRig(t, Config{SMs: sms})
		r.open()
		l := r.launch("root", 2)
		for range 2 {
			require.NoError(t, (<-submit(t, r.ch, l)).Err)
		}
		require.Equal(t, append(rootOrder[:len(rootOrder):len(rootOrder)], rootOrder...), r.log())
		require.Equal(t, uint64(2*11), r.ctx.dev.Stats().Launches)
	}
}

// Kernels that are shorter than the time after which a kernel looks whether it is to give way, and
// launch each other without end, give way all the same.
func TestShortLaunchesGiveWay(t *testing.T) {
	r := newTreeRig(t, Config{SMs: 1, LaunchLimit: time.Minute, LimitWaiting: true})
	endless := submit(t, r.ch, r.launch("again", 1))
	for r.ctx.dev.Stats().Launches < 100 {
		time.Sleep(time.Millisecond)
	}
	other, ch := testContext(t, r.ctx.dev)
	for range 3 {
		require.NoError(t, (<-submit(t, ch, launchOf(t, other, empty, "empty"))).Err)
	}
	require.Empty(t, endless)
	require.Positive(t, r.ctx.dev.Stats().Preemptions)
	require.NoError(t, r.ctx.Close())
	require.Error(t, (<-endless).Err)
}

func TestTreeErrors(t *testing.T) {
	r := newTreeRig(t, Config{SMs: 2})
	require.NoError(t, (<-submit(t, r.ch, r.launch("errors", 1))).Err)
	require.Equal(t, []int{9, 9, 9, 98, 98, -1, 12, 0, 7, 7, 0, 69, 2049}, r.log())

	require.NoError(t, (<-submit(t, r.ch, r.launch("nest", 1))).Err)
	require.Equal(t, []uint32{2048, 69}, []uint32{r.word(16), r.word(20)})
	require.NoError(t, (<-submit(t, r.ch, r.launch("loop", 1))).Err)
	require.Equal(t, []uint32{5000, 0}, []uint32{r.word(16), r.word(20)})

	var lost *gpu.LostError
	require.ErrorAs(t, (<-submit(t, r.ch, r.launch("child_faults", 1))).Err, &lost)
	require.Equal(t, gpu.LostAddress, lost.Cause)
	require.Equal(t, "leaf", lost.Kernel)

	r = newTreeRig(t, Config{SMs: 1})
	require.ErrorAs(t, (<-submit(t, r.ch, r.launch("flood", 1))).Err, &lost)
	require.EqualValues(t, 69, r.word(20), "what waits is bounded")
	require.Greater(t, r.word(16), uint32(20_000))
}

// Modelled time counts all kernels, one after the other, and so does its limit.
func TestTreeModel(t *testing.T) {
	busy := func(sms int) time.Duration {
		r := newTreeRig(t, Config{SMs: sms, ModelTime: true})
		r.open()
		require.NoError(t, (<-submit(t, r.ch, r.launch("root", 1))).Err)
		return r.ctx.dev.Stats().ComputeBusy
	}
	one, three := busy(1), busy(3)
	require.Less(t, three, one, "the kernel of three blocks is faster")
	require.Greater(t, three, one/2)

	r := newTreeRig(t, Config{SMs: 2, ModelTime: true, LaunchLimit: time.Millisecond})
	var lost *gpu.LostError
	require.ErrorAs(t, (<-submit(t, r.ch, r.launch("loop", 1))).Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
	require.Greater(t, r.word(16), uint32(10))
}

// Kernels that are preempted at every n-th point launch the same, once.
func TestTreePreempted(t *testing.T) {
	pieces := int64(0)
	for _, every := range []int64{1, 2, 5} {
		g := newFussyGate(every)
		r := newTreeRig(t, Config{SMs: 2, Gate: g})
		r.open()
		require.NoError(t, (<-submit(t, r.ch, r.launch("root", 2))).Err)
		require.Equal(t, rootOrder, r.log())
		require.NoError(t, (<-submit(t, r.ch, r.launch("nest", 1))).Err)
		require.Equal(t, []uint32{2048, 69}, []uint32{r.word(16), r.word(20)})
		require.EqualValues(t, 2, g.commands.Load(), "a launch of the host counts once")
		pieces += g.pieces.Load()
	}
	require.Greater(t, pieces, int64(6))
}

// A context that is saved while a launch by a kernel runs goes on elsewhere with all that waits.
func TestTreeSnapshot(t *testing.T) {
	r := newTreeRig(t, Config{SMs: 2})
	done := submit(t, r.ch, r.launch("root", 2))
	for began := time.Now(); len(r.log()) < 5; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(began), 5*time.Minute, "it does not get there")
	}
	var state bytes.Buffer
	_, err := r.ctx.Snapshot(gocontext.Background(), &state)
	require.NoError(t, err)
	require.Equal(t, rootOrder[:5], r.log())
	require.NoError(t, r.ctx.Close())
	require.Error(t, (<-done).Err)

	ended := make(chan gpu.Result, 1)
	restore := func(state []byte) *treeRig {
		objects, err := testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 3}).Restore(gocontext.Background(), "heir", bytes.NewReader(state), gpu.Owner{
			Done: func(int, uint64) func(gpu.Result) { return func(r gpu.Result) { ended <- r } },
		})
		require.NoError(t, err)
		heir := &treeRig{T: t, ctx: objects.Context.(*context), ch: objects.Channels[0].(*channel), buf: objects.Memories[0].(*memory)}
		heir.open()
		require.NoError(t, heir.ctx.Resume())
		return heir
	}
	heir := restore(state.Bytes())
	require.NoError(t, (<-ended).Err)
	require.Equal(t, rootOrder, heir.log())
	require.Equal(t, &exec.Waiting{}, &heir.ctx.dev.waiting)

	// A state that names a kernel which there is not takes none of the device's memory for launches.
	forged := bytes.Replace(state.Bytes(), []byte("\x04\x00\x00\x00wait"), []byte("\x04\x00\x00\x00Wait"), 1)
	require.NotEqual(t, state.Bytes(), forged)
	heir = restore(forged)
	require.ErrorIs(t, (<-ended).Err, gpu.ErrInvalid)
	require.Equal(t, &exec.Waiting{}, &heir.ctx.dev.waiting)
}
