package softgpu

import (
	"bytes"
	gocontext "context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
)

// syncPTX has kernels that wait for what they have launched, with the functions of treePTX.
const syncPTX = treePTX + `
.extern .func (.param .b32 r) __pvdrm_synchronize(.param .b32 depth);
.func (.reg .b32 e) sync(.reg .b32 depth)
{
	.param .b32 d; .param .b32 x;
	st.param.b32 [d], depth; call (x), __pvdrm_synchronize, (d); ld.param.b32 e, [x];
	ret;
}
// Each block notes 100 times its number and 1, waits for two launches and a tail launch that does not come before it,
// and a thread of its second warp waits at a barrier for it.
.visible .entry parent(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<4>; .reg .b32 %r<6>; .reg .pred %p; .shared .b32 s;
	ld.param.u64 %d0, [log]; mov.u32 %r0, %ctaid.x; mul.lo.u32 %r0, %r0, 100; mov.u32 %r1, %tid.x;
	setp.ne.u32 %p, %r1, 0; @%p bra B;
	add.u32 %r2, %r0, 1; call note, (%d0, %r2);
	mov.u64 %d1, leaf; mov.u64 %d2, one; mov.u64 %d3, 3;
	add.u32 %r2, %r0, 9; call (%r4), start, (%d1, 1, 32, %d0, %r2, 3);
	add.u32 %r2, %r0, 2; call (%r4), start, (%d2, 1, 1, %d0, %r2, 0);
	add.u32 %r2, %r0, 3; call (%r4), start, (%d1, 1, 32, %d0, %r2, 0);
	call (%r4), sync, (2); st.shared.u32 [s], %r4;
	add.u32 %r2, %r0, 4; call note, (%d0, %r2);
	call (%r4), sync, (2);
B:	bar.sync 0;
	setp.ne.u32 %p, %r1, 40; @%p ret;
	ld.shared.u32 %r4, [s]; add.u32 %r4, %r4, %r0; add.u32 %r4, %r4, 5; call note, (%d0, %r4);
	ret;
}
// Launches itself while id is less than 30, and waits where it may. Each notes its error when it has waited.
.visible .entry deep(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<4>; .reg .pred %p;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id]; setp.ge.u32 %p, %r0, 30; @%p ret;
	add.u32 %r1, %r0, 1; mov.u64 %d1, deep; call (%r2), start, (%d1, 1, 1, %d0, %r1, 0);
	call (%r2), sync, (99);
	mad.lo.u32 %r2, %r2, 1000, %r0; call note, (%d0, %r2);
	ret;
}
// All threads launch and wait, some of them twice.
.visible .entry all(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<4>; .reg .pred %p;
	ld.param.u64 %d0, [log]; mov.u32 %r0, 7; mov.u64 %d1, leaf; mov.u32 %r1, %tid.x;
L:	call (%r2), start, (%d1, 1, 1, %d0, %r0, 0);
	call (%r2), sync, (2);
	ld.u32 %r3, [%d0]; setp.lt.u32 %p, %r3, 64; @%p trap;
	add.u32 %r1, %r1, 32; setp.lt.u32 %p, %r1, 64; @%p bra L;
	ret;
}
// Waits for a launch that faults, or for one that waits.
.visible .entry fails(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>;
	ld.param.u64 %d0, [log]; mov.u64 %d1, child_faults; call (%r0), start, (%d1, 1, 1, %d0, 0, 0);
	call (%r0), sync, (2); call note, (%d0, 1);
	ret;
}
.visible .entry waits(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>;
	ld.param.u64 %d0, [log]; mov.u64 %d1, wait; call (%r0), start, (%d1, 1, 1, %d0, 1, 0);
	mov.u64 %d1, leaf; call (%r0), start, (%d1, 1, 1, %d0, 3, 3);
	call (%r0), sync, (2); call note, (%d0, 2);
	ret;
}
// Launches and waits id times.
.visible .entry repeat(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>; .reg .pred %p;
	ld.param.u64 %d0, [log]; ld.param.u32 %r0, [id]; mov.u64 %d1, nothing;
L:	call (%r1), start, (%d1, 1, 1, %d0, 1, 0); call (%r1), sync, (2);
	sub.u32 %r0, %r0, 1; setp.ne.u32 %p, %r0, 0; @%p bra L;
	ret;
}
// Has much local memory.
.visible .entry large(.param .u64 log, .param .u32 id)
{
	.reg .b64 %d<2>; .reg .b32 %r<2>; .local .b8 room[30000];
	ld.param.u64 %d0, [log]; mov.u64 %d1, nothing; call (%r0), start, (%d1, 1, 1, %d0, 0, 0);
	call (%r0), sync, (2); st.u32 [%d0+32], %r0;
	ret;
}
`

func (r *treeRig) syncing(name string, blocks, threads uint32) *gpu.Launch {
	l := launchOf(r, r.ctx, syncPTX, name)
	l.Grid[0], l.Block[0] = blocks, threads
	l.Params = r.launch("nothing", 1).Params
	return l
}

// parentsOf is what block n of parent notes up to its end.
func parentsOf(n int) (list []int) {
	for _, x := range []int{1, 2, 3, 4, 5} {
		list = append(list, 100*n+x)
		if x == 2 {
			list = append(list, 1000*n+20, 1000*n+20, 1000*n+20)
		}
	}
	return list
}

// A kernel that waits goes on behind what it has launched, with what that has launched, and before its tail launches.
func TestSynchronize(t *testing.T) {
	for _, sms := range []int{1, 3} {
		for _, every := range []int64{0, 1, 3} {
			c := Config{SMs: sms}
			if every != 0 {
				c.Gate = newFussyGate(every)
			}
			r := newTreeRig(t, c)
			require.NoError(t, (<-submit(t, r.ch, r.syncing("parent", 1, 64))).Err)
			require.Equal(t, append(parentsOf(0), 9), r.log())
			r.buf.write(8, make([]byte, 8))
			require.NoError(t, (<-submit(t, r.ch, r.syncing("parent", 3, 64))).Err)
			log := r.log()
			for n := range 3 {
				var own []int
				for _, x := range log {
					if x/100 == n && x < 1000 && x%100 < 9 && (n != 0 || x < 9) || x/1000 == n && x >= 1000 {
						own = append(own, x)
					}
				}
				if n != 0 {
					require.Equal(t, parentsOf(n), own)
				}
			}
			require.Equal(t, []int{9, 109, 209}, log[len(log)-3:], "tail launches are last")
			require.Equal(t, &exec.Waiting{}, &r.ctx.dev.waiting)
		}
	}
}

// All threads of several warps may wait at once, and again.
func TestSynchronizeAll(t *testing.T) {
	r := newTreeRig(t, Config{SMs: 2})
	require.NoError(t, (<-submit(t, r.ch, r.syncing("all", 1, 64))).Err)
	require.Len(t, r.log(), 96)
}

// Kernels of 24 levels may wait, deeper ones get an error.
func TestSynchronizeDepth(t *testing.T) {
	r := newTreeRig(t, Config{SMs: 2})
	require.NoError(t, (<-submit(t, r.ch, r.syncing("deep", 1, 1))).Err)
	var want []int
	for depth := 24; depth < 30; depth++ {
		want = append(want, 68_000+depth)
	}
	for depth := 23; depth >= 0; depth-- {
		want = append(want, depth)
	}
	require.Equal(t, want, r.log())
	require.Equal(t, &exec.Waiting{}, &r.ctx.dev.waiting)
}

// What waits is bounded, and gone where a launch fails.
func TestSynchronizeFails(t *testing.T) {
	r := newTreeRig(t, Config{SMs: 4})
	require.NoError(t, (<-submit(t, r.ch, r.syncing("large", 1, 1))).Err)
	require.Zero(t, r.word(40))
	require.NoError(t, (<-submit(t, r.ch, r.syncing("large", 8, 1024))).Err)
	require.Zero(t, r.word(40), "one worker runs it")
	require.Equal(t, &exec.Waiting{}, &r.ctx.dev.waiting)
	var lost *gpu.LostError
	require.ErrorAs(t, (<-submit(t, r.ch, r.syncing("fails", 1, 1))).Err, &lost)
	require.Equal(t, "leaf", lost.Kernel)
	require.Equal(t, &exec.Waiting{}, &r.ctx.dev.waiting)
}

// Modelled time counts the parts of a kernel that waits once, and its limit ends them.
func TestSynchronizeModel(t *testing.T) {
	run := func(times byte, limit time.Duration) (time.Duration, error) {
		r := newTreeRig(t, Config{SMs: 1, ModelTime: true, LaunchLimit: limit})
		l := r.syncing("repeat", 1, 1)
		l.Params[8] = times
		err := (<-submit(t, r.ch, l)).Err
		return r.ctx.dev.Stats().ComputeBusy, err
	}
	ten, err := run(10, 0)
	require.NoError(t, err)
	forty, err := run(40, 0)
	require.NoError(t, err)
	require.Greater(t, forty, 3*ten)
	require.Less(t, forty, 5*ten)
	_, err = run(40, forty)
	require.NoError(t, err)
	var lost *gpu.LostError
	_, err = run(40, forty/2)
	require.ErrorAs(t, err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
}

// A context that is saved while a kernel waits goes on elsewhere.
func TestSynchronizeSnapshot(t *testing.T) {
	r := newTreeRig(t, Config{SMs: 2})
	done := submit(t, r.ch, r.syncing("waits", 1, 1))
	for began := time.Now(); len(r.log()) < 1; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(began), 5*time.Minute, "it does not get there")
	}
	var state bytes.Buffer
	_, err := r.ctx.Snapshot(gocontext.Background(), &state)
	require.NoError(t, err)
	require.NoError(t, r.ctx.Close())
	require.Error(t, (<-done).Err)
	ended := make(chan gpu.Result, 1)
	objects, err := testDevice(t, Config{VRAMBytes: 64 << 20, SMs: 3}).Restore(gocontext.Background(), "heir", bytes.NewReader(state.Bytes()), gpu.Owner{
		Done: func(int, uint64) func(gpu.Result) { return func(r gpu.Result) { ended <- r } },
	})
	require.NoError(t, err)
	heir := &treeRig{T: t, ctx: objects.Context.(*context), ch: objects.Channels[0].(*channel), buf: objects.Memories[0].(*memory)}
	heir.open()
	require.NoError(t, heir.ctx.Resume())
	require.NoError(t, (<-ended).Err)
	require.Equal(t, []int{1, 2, 3}, heir.log())
	require.Equal(t, &exec.Waiting{}, &heir.ctx.dev.waiting)
}
