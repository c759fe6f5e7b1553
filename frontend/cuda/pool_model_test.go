package cuda

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// poolUser is a program that keeps a value in each block that it has, and copies it out before it
// frees the block. A block that another stream gets too early has another value by then, since the
// device runs a stream only when it must.
type poolUser struct {
	t       *testing.T
	r       *rand.Rand
	c       *Context
	streams []*Stream
	events  []*Event
	live    [][]poolBlock // by stream
	results DevicePtr
	want    []byte
}

type poolBlock struct {
	at    DevicePtr
	n     uint64
	value byte
}

const (
	poolRounds = 600
	poolBytes  = 16 // that a block's value fills, at its start and at its end
)

func newPoolUser(t *testing.T, c *Context, seed uint64) *poolUser {
	u := &poolUser{t: t, r: rand.New(rand.NewPCG(seed, 1)), c: c, streams: []*Stream{nil, mustStream(t, c)}}
	for range 3 {
		s, err := c.NewStreamNonBlocking()
		require.NoError(t, err)
		u.streams = append(u.streams, s)
	}
	for range u.streams {
		u.events = append(u.events, mustEvent(t, c))
	}
	u.live = make([][]poolBlock, len(u.streams))
	u.results = mustAlloc(t, c, 2*poolRounds*poolBytes)
	for _, a := range []PoolAttribute{1, 2, 3} {
		require.NoError(t, c.dev.Pool().SetAttribute(a, uint64(u.r.IntN(2))))
	}
	return u
}

func (u *poolUser) step() {
	i := u.r.IntN(len(u.streams))
	switch u.r.IntN(8) {
	case 0, 1, 2:
		u.allocate(i)
	case 3, 4, 5:
		u.free(i)
	case 6:
		u.handOver(i, u.r.IntN(len(u.streams)))
	case 7:
		if u.r.IntN(4) == 0 {
			require.NoError(u.t, u.stream(i).Synchronize())
		}
	}
}

func (u *poolUser) stream(i int) *Stream {
	if u.streams[i] == nil {
		return u.c.def
	}
	return u.streams[i]
}

func (u *poolUser) allocate(i int) {
	b := poolBlock{n: uint64(poolBytes + u.r.IntN(1<<(10+u.r.IntN(11)))), value: byte(1 + u.r.IntN(255))}
	var err error
	b.at, err = u.c.MemAllocAsync(b.n, u.streams[i])
	if err != nil {
		isResult(u.t, ErrOutOfMemory, err)
		return
	}
	for _, blocks := range u.live {
		for _, o := range blocks {
			require.False(u.t, b.at < o.at+DevicePtr(o.n) && o.at < b.at+DevicePtr(b.n), "two allocations overlap")
		}
	}
	for _, at := range b.ends() {
		require.NoError(u.t, u.c.MemsetD8Async(at, b.value, poolBytes, u.streams[i]))
	}
	u.live[i] = append(u.live[i], b)
}

func (b poolBlock) ends() [2]DevicePtr { return [2]DevicePtr{b.at, b.at + DevicePtr(b.n-poolBytes)} }

func (u *poolUser) free(i int) {
	if len(u.live[i]) == 0 {
		return
	}
	k := u.r.IntN(len(u.live[i]))
	b := u.live[i][k]
	u.live[i] = append(u.live[i][:k], u.live[i][k+1:]...)
	for _, at := range b.ends() {
		require.NoError(u.t, u.c.MemcpyDtoDAsync(u.results+DevicePtr(len(u.want)*poolBytes), at, poolBytes, u.streams[i]))
		u.want = append(u.want, b.value)
	}
	require.NoError(u.t, u.c.MemFreeAsync(b.at, u.streams[i]))
}

// handOver orders stream j after i and gives it a block of i's.
func (u *poolUser) handOver(i, j int) {
	require.NoError(u.t, u.events[i].Record(u.streams[i]))
	require.NoError(u.t, u.stream(j).WaitEvent(u.events[i]))
	if n := len(u.live[i]); n > 0 && i != j {
		u.live[j] = append(u.live[j], u.live[i][n-1])
		u.live[i] = u.live[i][:n-1]
	}
}

// Whatever streams do, no block has the value of another.
func TestPoolModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g, c, _, _ := newAdder(t)
			u := newPoolUser(t, c, seed)
			for range poolRounds {
				u.step()
				if u.r.IntN(50) == 0 {
					g.SetLazy(u.r.IntN(2) == 0)
				}
			}
			for _, i := range u.r.Perm(len(u.streams)) {
				for len(u.live[i]) > 0 {
					u.free(i)
				}
			}
			for _, i := range u.r.Perm(len(u.streams)) {
				require.NoError(t, u.stream(i).Synchronize())
			}
			got := readBack(t, c, u.results, len(u.want)*poolBytes)
			for k, want := range u.want {
				for _, v := range got[k*poolBytes:][:poolBytes] {
					require.Equal(t, want, v, "result %d", k)
				}
			}
			require.NoError(t, c.Synchronize())
			require.Zero(t, amount(t, c.dev.Pool(), PoolUsedCurrent))
			require.Zero(t, amount(t, c.dev.Pool(), PoolReservedCurrent))
		})
	}
}
