package vhostuser_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/vhostuser"
	"pvdrm/backend/virtio/vhostuser/vhosttest"
)

// echo is a device that answers a request with its own bytes turned around, or
// holds it until the test completes it.
type echo struct {
	mu       sync.Mutex
	hold     bool
	held     chan heldChain
	resets   int
	displays []*net.UnixConn
}

func newEcho() *echo { return &echo{held: make(chan heldChain, 64)} }

func (e *echo) Queues() int      { return 2 }
func (e *echo) Features() uint64 { return 3 }
func (e *echo) Config() []byte   { return []byte{1, 2, 3, 4, 5, 6, 7, 8} }

func (e *echo) Handle(_ int, c *vhostuser.Chain) {
	// The size of the reads differs from that of any segment.
	var b []byte
	var part [7]byte
	for {
		n, err := c.Read(part[:])
		b = append(b, part[:n]...)
		if err != nil {
			break
		}
	}
	h := heldChain{c, reversed(b)}
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold {
		e.held <- h
	} else {
		h.complete()
	}
}

// heldChain is a request whose answer is ready.
type heldChain struct {
	*vhostuser.Chain
	answer []byte
}

func (h heldChain) complete() { h.Complete(h.answer) }

func reversed(b []byte) []byte {
	r := make([]byte, len(b))
	for i := range b {
		r[len(b)-1-i] = b[i]
	}
	return r
}

func (e *echo) SetDisplay(c *net.UnixConn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.displays = append(e.displays, c)
}

func (e *echo) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resets++
}

func (e *echo) setHold(h bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = h
}

func (e *echo) resetCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.resets
}

// serve starts a server for dev and returns the other end. The end of the test
// waits for the server.
func serve(t testing.TB, dev vhostuser.Device) (*vhosttest.Frontend, *vhostuser.Server, <-chan error) {
	t.Helper()
	front, back := vhosttest.Pair(t)
	s := vhostuser.NewServer(dev, nil)
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- s.ServeConn(context.Background(), back)
	}()
	t.Cleanup(func() {
		_ = front.Close() // may be closed already
		<-ended
	})
	return vhosttest.New(t, front), s, done
}

// running starts a server with a guest and one running queue.
func running(t testing.TB, dev vhostuser.Device) (*vhosttest.Frontend, *vhosttest.Queue, *vhostuser.Server) {
	t.Helper()
	f, s, _ := serve(t, dev)
	f.Hello(vhosttest.Features)
	f.ShareMemory()
	q := f.NewQueue(0, 16)
	q.Start(0)
	return f, q, s
}

func TestHandshake(t *testing.T) {
	f, _, done := serve(t, newEcho())
	require.Equal(t, vhosttest.Longs(3|vhosttest.Features), f.Get(vhosttest.GetFeatures, nil))
	require.Equal(t, vhosttest.Longs(1<<3|1<<9|1<<13), f.Get(vhosttest.GetProtocolFeatures, nil))
	require.Equal(t, vhosttest.Longs(2), f.Get(vhosttest.GetQueueNum, nil))

	// Bytes 6 to 9 of the configuration space: it has eight.
	b := f.Get(vhosttest.GetConfig, append(vhosttest.Words(6, 4, 0), 0xff, 0xff, 0xff, 0xff))
	require.Equal(t, append(vhosttest.Words(6, 4, 0), 7, 8, 0, 0), b)

	require.NoError(t, f.Conn.Close())
	require.NoError(t, <-done, "hanging up is no error")
}

func TestEcho(t *testing.T) {
	for _, c := range []struct {
		name     string
		features uint64
	}{
		{"event index", vhosttest.Features},
		{"flags only", vhosttest.Features &^ vhosttest.FeatureEventIdx},
		{"without protocol features", vhosttest.Features &^ vhosttest.FeatureProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, s, _ := serve(t, newEcho())
			f.Hello(c.features)
			f.ShareMemory()
			q := f.NewQueue(0, 16)
			q.EventIdx = c.features&vhosttest.FeatureEventIdx != 0
			q.Seek(65530) // the indices wrap
			q.Start(65530)
			for i := range 40 {
				msg := []byte("request number " + string(rune('A'+i)))
				require.Equal(t, reversed(msg), q.Do(msg, 64))
			}
			require.Equal(t, uint64(40), s.Stats().Requests)
			require.LessOrEqual(t, s.Stats().Interrupts, uint64(40))
		})
	}
}

func TestSegments(t *testing.T) {
	f, q, _ := running(t, newEcho())
	in := f.Alloc(64, 8)
	out := f.Alloc(64, 8)
	copy(f.Bytes(in, 64), "scattered over three, answered in two")
	parts := []vhosttest.Buf{
		{Addr: in, Len: 5}, {Addr: in + 5, Len: 0}, {Addr: in + 5, Len: 32},
		{Addr: out, Len: 30, Write: true}, {Addr: out + 30, Len: 34, Write: true},
	}
	for _, add := range []func(...vhosttest.Buf) uint16{q.Add, q.AddIndirect} {
		clear(f.Bytes(out, 64))
		head := add(parts...)
		q.Kick()
		got, n := q.Wait()
		require.Equal(t, head, got)
		require.Equal(t, uint32(37), n)
		require.Equal(t, "owt ni derewsna ,eerht revo derettacs", string(f.Bytes(out, 37)))
	}
	// An answer that does not fit is cut.
	require.Equal(t, []byte("ol"), q.Do([]byte("hello, lo"), 2))
	// No room for an answer at all.
	require.Empty(t, q.Do([]byte("x"), 0))
}

func TestOutOfOrder(t *testing.T) {
	e := newEcho()
	e.hold = true
	_, q, _ := running(t, e)
	var heads []uint16
	var answers [][]byte
	for _, s := range []string{"one", "two", "six"} {
		head, a := q.Send([]byte(s), 8)
		heads, answers = append(heads, head), append(answers, a)
	}
	chains := []heldChain{<-e.held, <-e.held, <-e.held}
	for _, i := range []int{2, 0, 1} {
		chains[i].complete()
		chains[i].Complete([]byte("only the first counts"))
		head, n := q.Wait()
		require.Equal(t, heads[i], head)
		require.Equal(t, uint32(3), n)
	}
	require.Equal(t, "eno", string(answers[0][:3]))
	require.Equal(t, "owt", string(answers[1][:3]))
	require.Equal(t, "xis", string(answers[2][:3]))
}

func TestBadChains(t *testing.T) {
	const bad = 1 << 40 // no guest memory
	for _, c := range []struct {
		name string
		make func(f *vhosttest.Frontend, q *vhosttest.Queue, in uint64)
	}{
		{"address outside of memory", func(_ *vhosttest.Frontend, q *vhosttest.Queue, _ uint64) {
			q.Add(vhosttest.Buf{Addr: bad, Len: 8})
		}},
		{"end outside of memory", func(_ *vhosttest.Frontend, q *vhosttest.Queue, _ uint64) {
			q.Add(vhosttest.Buf{Addr: vhosttest.HighBase + vhosttest.RegionSize - 4, Len: 8})
		}},
		{"wraps around", func(_ *vhosttest.Frontend, q *vhosttest.Queue, _ uint64) {
			q.Add(vhosttest.Buf{Addr: ^uint64(0) - 3, Len: 8})
		}},
		{"readable after writable", func(_ *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			q.Add(vhosttest.Buf{Addr: in, Len: 8, Write: true}, vhosttest.Buf{Addr: in, Len: 8})
		}},
		{"loop", func(f *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			head := q.Add(vhosttest.Buf{Addr: in, Len: 8})
			f.PutDesc(q.Desc, head, in, 8, vhosttest.DescNext, head)
		}},
		{"next outside of the table", func(f *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			head := q.Add(vhosttest.Buf{Addr: in, Len: 8})
			f.PutDesc(q.Desc, head, in, 8, vhosttest.DescNext, 16)
		}},
		{"indirect table outside of memory", func(_ *vhosttest.Frontend, q *vhosttest.Queue, _ uint64) {
			q.AddTable(bad, 16)
		}},
		{"indirect table of no descriptors", func(_ *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			q.AddTable(in, 0)
		}},
		{"indirect table of half a descriptor", func(_ *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			q.AddTable(in, 24)
		}},
		{"indirect table too long", func(_ *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			q.AddTable(in, 16*1025)
		}},
		{"indirect in indirect", func(f *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			f.PutDesc(in, 0, in, 16, vhosttest.DescIndirect, 0)
			q.AddTable(in, 16)
		}},
		{"loop in indirect", func(f *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			f.PutDesc(in, 0, in, 16, vhosttest.DescNext, 0)
			q.AddTable(in, 32)
		}},
		{"next outside of the indirect table", func(f *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			f.PutDesc(in, 0, in, 16, vhosttest.DescNext, 2)
			q.AddTable(in, 32)
		}},
		{"indirect with next", func(f *vhosttest.Frontend, q *vhosttest.Queue, in uint64) {
			head := q.AddTable(in, 16)
			f.PutDesc(q.Desc, head, in, 16, vhosttest.DescIndirect|vhosttest.DescNext, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _, _ := serve(t, newEcho())
			f.Hello(vhosttest.Features)
			f.ShareMemory()
			q := f.NewQueue(0, 16)
			in := f.Alloc(4096, 4096)
			c.make(f, q, in)
			q.Start(0)
			_, n := q.Wait()
			require.Zero(t, n, "the request comes back unanswered")
			require.Equal(t, []byte("evila llits"), q.Do([]byte("still alive"), 64))
		})
	}
}

// A guest that breaks its ring loses it until it resets the device.
func TestBrokenRing(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(q *vhosttest.Queue)
	}{
		{"head outside of the table", func(q *vhosttest.Queue) { q.Publish(16) }},
		{"index too far ahead", func(q *vhosttest.Queue) { q.SetAvailIdx(17) }},
		{"head twice", func(q *vhosttest.Queue) { q.Publish(q.Add(vhosttest.Buf{Addr: vhosttest.HighBase, Len: 8})) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEcho()
			e.hold = true
			f, q, _ := running(t, e)
			fault := vhosttest.Eventfd(t)
			f.Set(vhosttest.SetVringErr, vhosttest.Longs(0), fault)
			c.make(q)
			q.ForceKick()
			vhosttest.WaitEvent(t, fault)

			e.setHold(false)
			q.Stop()
			f.Set(vhosttest.ResetDevice, nil)
			q.Reset()
			q.Start(0)
			require.Equal(t, []byte("cba"), q.Do([]byte("abc"), 64))
		})
	}
}

// A paused machine finds what was completed meanwhile when it goes on.
func TestPause(t *testing.T) {
	e := newEcho()
	e.hold = true
	f, q, _ := running(t, e)
	one, a1 := q.Send([]byte("one"), 8)
	two, a2 := q.Send([]byte("two"), 8)
	c1, c2 := <-e.held, <-e.held
	require.Equal(t, uint16(2), q.Stop())
	c2.complete()
	_, _, ok := q.Poll()
	require.False(t, ok, "nothing moves while the machine is paused")
	require.Zero(t, a2[0])

	f.ShareMemory() // as QEMU does before it starts the queues
	q.Start(2)
	head, _ := q.Wait()
	require.Equal(t, two, head)
	require.Equal(t, "owt", string(a2[:3]))
	c1.complete()
	head, _ = q.Wait()
	require.Equal(t, one, head)
	require.Equal(t, "eno", string(a1[:3]))
	require.Zero(t, e.resetCount())
}

// After a reset the device may still hold requests of the driver before.
func TestReset(t *testing.T) {
	for _, c := range []struct {
		name string
		tell bool // RESET_DEVICE is sent
	}{{"told", true}, {"found out", false}} {
		t.Run(c.name, func(t *testing.T) {
			e := newEcho()
			e.hold = true
			f, q, _ := running(t, e)
			_, old := q.Send([]byte("one"), 8)
			chain := <-e.held
			q.Stop()
			if c.tell {
				f.Set(vhosttest.ResetDevice, nil)
			}
			q.Reset()
			q.Start(0)
			require.Equal(t, 1, e.resetCount())
			e.setHold(false)
			chain.complete()
			require.Equal(t, []byte("owt"), q.Do([]byte("two"), 8))
			require.Zero(t, old[0])
		})
	}
}

// Requests in flight keep the memory that they came from.
func TestNewMemoryTable(t *testing.T) {
	e := newEcho()
	e.hold = true
	f, q, _ := running(t, e)
	head, a := q.Send([]byte("one"), 8)
	chain := <-e.held
	f.ShareMemory()
	f.ShareMemory()
	chain.complete()
	got, _ := q.Wait()
	require.Equal(t, head, got)
	require.Equal(t, "eno", string(a[:3]))
	e.setHold(false)
	require.Equal(t, []byte("owt"), q.Do([]byte("two"), 8))
}

// Every doorbell counts, also those that come while the device is busy.
func TestCountsKicks(t *testing.T) {
	_, q, s := running(t, newEcho())
	for range 100 {
		q.Do([]byte("x"), 8)
		q.ForceKick()
	}
	require.Eventually(t, func() bool { return s.Stats().Kicks == q.Kicks }, 5*time.Minute, time.Millisecond)
}

func TestReconnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	e := newEcho()
	s := vhostuser.NewServer(e, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()

	for i := range 3 {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		require.NoError(t, err)
		f := vhosttest.New(t, conn)
		f.Hello(vhosttest.Features)
		f.ShareMemory()
		q := f.NewQueue(1, 16)
		q.Start(0)
		require.Equal(t, []byte("cba"), q.Do([]byte("abc"), 8))
		if i == 1 { // a front end that misbehaves does not keep the next one out
			require.NoError(t, f.Post(999, 1, nil))
			f.HungUp()
		}
		require.NoError(t, conn.Close())
	}
	// A front end that is still there when the server ends.
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	f := vhosttest.New(t, conn)
	f.Hello(vhosttest.Features)
	require.Equal(t, 3, e.resetCount())
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, conn.Close())
	require.Equal(t, 4, e.resetCount())
	require.Equal(t, uint64(4), s.Stats().Sessions)
}
