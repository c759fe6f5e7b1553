package softgpu

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// obedient is a kernel that adds 1 to a word, waits until the one behind it is not zero, and stores that
// to the third one. Deaf never looks, but for its fifth word.
const obedient = `.version 6.3
.target sm_70
.address_size 64
.visible .entry obedient(.param .u64 p) {
	.reg .pred %q; .reg .b32 %r<3>; .reg .b64 %rd1;
	ld.param.u64 %rd1, [p];
	ld.volatile.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%rd1], %r1;
L:	ld.volatile.global.u32 %r2, [%rd1+4];
	setp.eq.u32 %q, %r2, 0;
	@%q bra L;
	st.volatile.global.u32 [%rd1+8], %r2;
	ret;
}
.visible .entry deaf(.param .u64 p) {
	.reg .pred %q; .reg .b32 %r<3>; .reg .b64 %rd1;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, 1; st.volatile.global.u32 [%rd1], %r1;
L:	ld.volatile.global.u32 %r2, [%rd1+16];
	setp.eq.u32 %q, %r2, 0;
	@%q bra L;
	ret;
}
`

// signaled is a context with a kernel and its words in granted memory.
type signaled struct {
	*testing.T
	ctx    *context
	ch     *channel
	launch *gpu.Launch
	host   []byte
}

func newSignaled(t *testing.T, d *device, kernel string) *signaled {
	s := &signaled{T: t, host: hostPages(t, 4096)}
	s.ctx, s.ch = testContext(t, d)
	m, err := s.ctx.NewSystem([][]byte{s.host})
	require.NoError(t, err)
	require.NoError(t, s.ctx.Map(systemBase, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
	s.launch = launchOf(t, s.ctx, obedient, kernel)
	s.launch.Params = binary.LittleEndian.AppendUint64(nil, systemBase)
	s.launch.Signal = systemBase + 4
	return s
}

func (s *signaled) word(i int) *atomic.Uint32 { return wordAt(s.host, 4*i) }

// start launches the kernel and returns when it runs.
func (s *signaled) start() chan gpu.Result {
	s.Helper()
	before, done := s.word(0).Load(), make(chan gpu.Result, 1)
	require.NoError(s, s.ch.Submit([]gpu.Command{s.launch}, func(r gpu.Result) { done <- r }))
	require.Eventually(s, func() bool { return s.word(0).Load() != before }, 5*time.Minute, time.Millisecond)
	return done
}

func TestSignalWhenRevoked(t *testing.T) {
	g := newTestGate()
	s := newSignaled(t, testDevice(t, Config{VRAMBytes: 16 << 20, Gate: g}), "obedient")
	done := s.start()
	require.Zero(t, s.word(1).Load(), "the guest has the engine")
	g.revoked.Store(true)
	require.NoError(t, (<-done).Err)
	require.Equal(t, []uint32{1, 1}, []uint32{s.word(1).Load(), s.word(2).Load()})
	s.word(1).Store(0)
	time.Sleep(2 * gpu.SignalPeriod)
	require.Zero(t, s.word(1).Load(), "the launch has ended")
}

// The launch limit counts for each launch, so that a program which is alone and obeys runs on.
func TestSignalBeforeTheLimit(t *testing.T) {
	const limit = 2 * time.Second
	for name, waiting := range map[string]bool{"all": false, "waiting": true} {
		t.Run(name, func(t *testing.T) {
			config := Config{VRAMBytes: 16 << 20, LaunchLimit: limit, LimitWaiting: waiting}
			if waiting {
				config.Gate = sharedGate{newTestGate()}
			}
			s := newSignaled(t, testDevice(t, config), "obedient")
			for n := uint32(1); n <= 3; n++ {
				require.NoError(t, (<-s.start()).Err)
				require.Equal(t, []uint32{n, 1, 1}, []uint32{s.word(0).Load(), s.word(1).Load(), s.word(2).Load()})
				s.word(1).Store(0)
			}
			s.launch = launchOf(t, s.ctx, obedient, "deaf")
			s.launch.Params, s.launch.Signal = binary.LittleEndian.AppendUint64(nil, systemBase), systemBase+4
			s.word(0).Store(0)
			var lost *gpu.LostError
			require.ErrorAs(t, (<-s.start()).Err, &lost)
			require.Equal(t, gpu.LostTimeout, lost.Cause)
			require.Equal(t, uint32(1), s.word(1).Load())
		})
	}
}

// A kernel that does not look is preempted.
func TestSignalIgnored(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 16 << 20})
	s, other := newSignaled(t, d, "deaf"), newSignaled(t, d, "obedient")
	done := s.start()
	other.launch.Signal = 0
	other.word(1).Store(7)
	require.NoError(t, (<-other.start()).Err, "it gets the engine")
	require.Equal(t, uint32(7), other.word(2).Load())
	require.Equal(t, uint32(1), s.word(1).Load())
	require.Positive(t, d.Stats().Preemptions)
	s.word(4).Store(1)
	require.NoError(t, (<-done).Err)
}

// A kernel that obeys makes room for other channels of its own context, which it would keep waiting else.
func TestSignalForAnotherChannel(t *testing.T) {
	s := newSignaled(t, testDevice(t, Config{VRAMBytes: 16 << 20}), "obedient")
	done := s.start()
	ch, err := s.ctx.NewChannel()
	require.NoError(t, err)
	next := make(chan gpu.Result, 1)
	l := *s.launch
	l.Signal = 0
	require.NoError(t, ch.Submit([]gpu.Command{&l}, func(r gpu.Result) { next <- r }))
	require.NoError(t, (<-done).Err)
	require.NoError(t, (<-next).Err)
}

// Channels tell of the signal's mapping while it is taken away.
func TestSignalUnmapped(t *testing.T) {
	g := newTestGate()
	s := newSignaled(t, testDevice(t, Config{VRAMBytes: 16 << 20, Gate: g}), "obedient")
	away := hostPages(t, 4096)
	m, err := s.ctx.NewSystem([][]byte{away})
	require.NoError(t, err)
	const at = systemBase + 1<<20
	for range 20 {
		require.NoError(t, s.ctx.Map(at, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
		s.launch.Signal = at
		done := s.start()
		g.revoked.Store(true)
		require.NoError(t, s.ctx.Unmap(at, 4096))
		wordAt(away, 0).Store(0)
		time.Sleep(2 * gpu.SignalPeriod)
		require.Zero(t, wordAt(away, 0).Load(), "it is not mapped")
		s.word(1).Store(1)
		require.NoError(t, (<-done).Err)
		g.revoked.Store(false)
		s.word(1).Store(0)
	}
	require.NoError(t, m.Close())
}

// Time in which all threads sleep is told apart from that in which they compute.
func TestComputeAsleep(t *testing.T) {
	const sleeper = `.version 6.3
.target sm_70
.address_size 64
.visible .entry sleeper(.param .u64 p) {
	.reg .pred %q; .reg .b32 %r1;
	mov.u32 %r1, 0;
L:	nanosleep.u32 500000; add.u32 %r1, %r1, 1; setp.lt.u32 %q, %r1, 20; @%q bra L;
	ret;
}
`
	d := testDevice(t, Config{VRAMBytes: 16 << 20, SMs: 1})
	c, ch := testContext(t, d)
	l := launchOf(t, c, sleeper, "sleeper")
	l.Params = make([]byte, 8)
	done := make(chan gpu.Result, 1)
	require.NoError(t, ch.Submit([]gpu.Command{l}, func(r gpu.Result) { done <- r }))
	require.NoError(t, (<-done).Err)
	st := d.Stats()
	require.GreaterOrEqual(t, st.ComputeAsleep, 10*time.Millisecond/2, "20 sleeps of half a millisecond, each of which may be shorter")
	require.LessOrEqual(t, st.ComputeAsleep, st.ComputeBusy)
}
