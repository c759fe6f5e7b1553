package softgpu

import (
	gocontext "context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// adds is a short kernel that adds to a word.
const adds = `.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 p)
{
	.reg .u64 %rd<2>; .reg .u32 %r<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
	add.u32 %r1, %r1, 1;
	st.global.u32 [%rd1], %r1;
	ret;
}
`

// inlineRig is a context with a channel and a word in VRAM that add adds to.
type inlineRig struct {
	testing.TB
	d   *device
	c   *context
	ch  *channel
	mem gpu.Memory
	add *gpu.Launch
}

func newInlineRig(t testing.TB, config Config) *inlineRig {
	config.VRAMBytes = 16 << 20
	r := &inlineRig{TB: t, d: testDevice(t, config)}
	r.c, r.ch = testContext(t, r.d)
	var err error
	r.mem, err = r.c.NewVRAM(4096)
	require.NoError(t, err)
	require.NoError(t, r.c.Map(vramBase, r.mem, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
	r.add = launchOf(t, r.c, adds, "add")
	r.add.Params = binary.LittleEndian.AppendUint64(nil, vramBase)
	return r
}

// word is what add has added to.
func (r *inlineRig) word() uint32 {
	return binary.LittleEndian.Uint32(r.d.vram.Bytes(r.mem.(*memory).extents[0].addr, 4))
}

// atOnce submits commands and reports whether they had ended when Submit returned. The result is kept.
func (r *inlineRig) atOnce(cmds ...gpu.Command) (ended bool, result <-chan gpu.Result) {
	results := make(chan gpu.Result, 1)
	var done, returned atomic.Bool
	require.NoError(r, r.ch.Submit(cmds, func(res gpu.Result) {
		done.Store(!returned.Load())
		results <- res
	}))
	returned.Store(true)
	return done.Load(), results
}

// settled waits until the channel rests.
func (r *inlineRig) settled() {
	require.NoError(r, (<-submit(r, r.ch)).Err)
	require.Eventually(r, func() bool {
		r.ch.mu.Lock()
		defer r.ch.mu.Unlock()
		return r.ch.current == nil
	}, 5*time.Minute, time.Millisecond)
}

// A short launch has ended when Submit returns, and counts like any other.
func TestShortLaunchesRunAtOnce(t *testing.T) {
	r := newInlineRig(t, Config{})
	for n := range uint32(100) {
		ended, result := r.atOnce(r.add)
		require.True(t, ended)
		require.NoError(t, (<-result).Err)
		require.Equal(t, n+1, r.word())
	}
	st := r.d.Stats()
	require.EqualValues(t, 100, st.Launches)
	require.Positive(t, st.ComputeBusy)
	require.EqualValues(t, 100, r.ch.completed)
}

// What is not short, or has something in its way, goes through the queue.
func TestWhatDoesNotRunAtOnce(t *testing.T) {
	r := newInlineRig(t, Config{})
	wide := *r.add
	wide.Grid[0] = 4096
	for name, cmds := range map[string][]gpu.Command{
		"many blocks":  {&wide},
		"two commands": {r.add, r.add},
		"none":         {},
		"a timestamp":  {&gpu.Timestamp{VA: vramBase + 8}},
		"nil":          {(*gpu.Launch)(nil)},
	} {
		r.settled()
		require.False(t, r.ch.mayInline(cmds), name)
	}
	other, ch := testContext(t, r.d)
	spins := submit(t, ch, launchOf(t, other, endless, "spin"))
	require.Eventually(t, func() bool { return r.d.Stats().Launches > 0 }, 5*time.Minute, time.Millisecond)
	ended, result := r.atOnce(r.add)
	require.False(t, ended, "the engine is another's")
	require.NoError(t, other.Close())
	require.Error(t, (<-spins).Err)
	require.NoError(t, (<-result).Err)

	for _, c := range []Config{{ModelTime: true}, {Gate: newTestGate()}} {
		r := newInlineRig(t, c)
		r.settled()
		require.False(t, r.ch.mayInline([]gpu.Command{r.add})) // whether it has ended when Submit returns is up to its goroutine
		_, result := r.atOnce(r.add)
		require.NoError(t, (<-result).Err)
	}
}

// A launch that is wrong leaves the engine to others, and one that faults ends its context.
func TestShortLaunchesThatFail(t *testing.T) {
	r := newInlineRig(t, Config{})
	bad := *r.add
	bad.Params = nil
	_, result := r.atOnce(&bad)
	require.ErrorIs(t, (<-result).Err, gpu.ErrInvalid)
	_, result = r.atOnce(r.add)
	require.ErrorIs(t, (<-result).Err, gpu.ErrCanceled)
	require.False(t, r.d.compute.held)

	again := newInlineRig(t, Config{})
	fault := *again.add
	fault.Params = binary.LittleEndian.AppendUint64(nil, vramBase+1<<20)
	ended, result := again.atOnce(&fault)
	require.True(t, ended)
	var lost *gpu.LostError
	require.ErrorAs(t, (<-result).Err, &lost)
	require.ErrorAs(t, again.c.Err(), &lost)
	require.False(t, again.d.compute.held)
}

// A context that is stopped begins no short launch either.
func TestShortLaunchesOfAStoppedContext(t *testing.T) {
	r := newInlineRig(t, Config{})
	require.NoError(t, r.c.Preempt(gocontext.Background()))
	ended, result := r.atOnce(r.add)
	require.False(t, ended)
	require.Zero(t, r.word())
	require.NoError(t, r.c.Resume())
	require.NoError(t, (<-result).Err)
	require.EqualValues(t, 1, r.word())
}

// Launches of several goroutines end in the order of Submit, while the context is stopped and goes on
// and other channels want the engine; the end of the channel waits for them.
func TestShortLaunchesOfMany(t *testing.T) {
	r := newInlineRig(t, Config{})
	other, ch := testContext(t, r.d)
	rest := launchOf(t, other, empty, "empty")
	const each = 200
	var all sync.WaitGroup
	var ends atomic.Int64
	for range 3 {
		all.Go(func() {
			for range each {
				if r.ch.Submit([]gpu.Command{r.add}, func(gpu.Result) { ends.Add(1) }) != nil {
					return
				}
			}
		})
	}
	all.Go(func() {
		for range each {
			<-submit(t, ch, rest)
		}
	})
	all.Go(func() {
		for range 20 {
			_ = r.c.Preempt(gocontext.Background())
			_ = r.c.Resume()
		}
	})
	all.Wait()
	r.settled()
	require.EqualValues(t, 3*each, ends.Load())
	require.EqualValues(t, 3*each, r.word())
	all.Go(func() {
		for r.ch.Submit([]gpu.Command{r.add}, func(gpu.Result) {}) == nil {
		}
	})
	require.NoError(t, r.ch.Close())
	all.Wait()
	require.False(t, r.ch.inline)
}
