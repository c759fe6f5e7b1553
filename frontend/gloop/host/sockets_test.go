package host_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
	"pvdrm/frontend/gloop/host"
)

// noise is n bytes that look random.
func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

// memory makes n bytes of device memory or of granted memory, which it adds to the configuration.
func memory(t testing.TB, cfg *host.Config, granted bool, n uint64) cuda.DevicePtr {
	if !granted {
		p, err := cfg.Context.MemAlloc(n)
		require.NoError(t, err)
		return p
	}
	h, err := cfg.Context.MemAllocHost(n)
	require.NoError(t, err)
	cfg.Memory = append(cfg.Memory, h)
	return h.DevicePtr()
}

// A server on the GPU echoes what several clients send at once, suspended after each callback or not.
func TestEchoServer(t *testing.T) {
	const clients = 4
	for name, kind := range kinds {
		for _, granted := range []bool{false, true} {
			for _, every := range []uint32{0, 1} {
				c := newContext(t, 1)
				cfg := config(t, c, "server"+kind, "echoServer")
				cfg.Every, cfg.Block[0] = every, 32
				bound := make(chan string, 1)
				cfg.Bound = func(address string) { bound <- address }
				buffers := memory(t, &cfg, granted, clients*4096)
				var served sync.WaitGroup
				served.Go(func() {
					stats, err := host.Run(minute(t), cfg, buffers, uint32(clients))
					if err != nil || granted != (stats.Bounced == 0) || granted != (stats.Direct > 0) {
						t.Errorf("%s: %v, %+v", name, err, stats)
					}
				})
				address := <-bound
				var talks sync.WaitGroup
				for i := range clients {
					talks.Go(func() {
						conn, err := net.Dial("tcp4", address)
						if err != nil {
							t.Error(err)
							return
						}
						defer conn.Close()
						for round := range 5 {
							want := noise(1+3000*round, byte(i))
							got := make([]byte, len(want))
							_, err := conn.Write(want)
							if err == nil {
								_, err = io.ReadFull(conn, got)
							}
							if err != nil || !bytes.Equal(want, got) {
								t.Errorf("client %d, round %d: %v", i, round, err)
							}
						}
					})
				}
				talks.Wait()
				served.Wait()
			}
		}
	}
}

// listen starts a server on the host that answers a connection.
func listen(t *testing.T, answer func(net.Conn)) (port uint32) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// A buffer of a fixed size: what a peer does not read soon fills the sender's socket for good.
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10) })
		return errors.Join(err, failed)
	}}
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		served.Wait()
	})
	return uint32(netip.MustParseAddrPort(l.Addr().String()).Port())
}

// A client on the GPU sends and receives more than a bounce buffer holds.
func TestClient(t *testing.T) {
	const size = 1_500_000
	port := listen(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	for _, granted := range []bool{false, true} {
		c := newContext(t, 1)
		cfg := config(t, c, "server", "client")
		buffer := memory(t, &cfg, granted, 2*size)
		want, got, results := noise(size, 9), make([]byte, size), make([]int64, 4)
		require.NoError(t, c.MemcpyHtoD(buffer, want))
		out := put(t, c, results)
		_, err := host.Run(minute(t), cfg, port, buffer, uint64(size), out)
		require.NoError(t, err)
		get(t, c, out, results)
		require.Equal(t, []int64{3, size, size, 0}, results)
		require.NoError(t, c.MemcpyDtoH(got, buffer+size))
		require.True(t, bytes.Equal(want, got))
	}
}

// Peers that stall end calls by their timeouts; a stream that ends early gives what came.
func TestPeers(t *testing.T) {
	stall := make(chan struct{})
	port := listen(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte("abc"))
		<-stall
	})
	defer close(stall)
	c := newContext(t, 1)
	cfg := config(t, c, "io", "ask")
	buffer, err := c.MemAlloc(32 << 20)
	require.NoError(t, err)
	const brief = uint64(20 * time.Millisecond)
	here := abi.Request{IP: 0x7f000001, Port: port}
	request := func(op abi.Op, handle uint32, size, timeout uint64) abi.Request {
		r := here
		r.Op, r.Handle, r.Address, r.Size, r.Timeout = op, handle, uint64(buffer), size, timeout
		return r
	}
	all := request(abi.OpReceive, 3, 100, brief)
	all.Flags = abi.FlagAll
	asked := []abi.Request{
		request(abi.OpConnect, 0, 0, 0),
		request(abi.OpReceive, 3, 0, 0),       // nothing is asked for
		request(abi.OpReceive, 3, 2, 0),       // as much as there is, at most
		all,                                   // what came in time
		request(abi.OpReceive, 3, 100, brief), // and then nothing
	}
	first := len(asked)
	for range 16 { // the peer takes some, at once or not, and at last no more
		asked = append(asked, request(abi.OpSend, 3, 32<<20, brief))
	}
	after := len(asked)
	got := ask(t, c, cfg, "", append(asked,
		abi.Request{Op: abi.OpBind, IP: 0x7f000001}, // a server without clients
		request(abi.OpAccept, 4, 0, brief),
		request(abi.OpUnbind, 4, 0, 0),
		request(abi.OpAccept, 4, 0, brief),
		request(abi.OpDisconnect, 3, 0, 0))...)
	timeout, gone := -int64(syscall.ETIMEDOUT), -int64(syscall.EBADF)
	require.Equal(t, []int64{3, 0, 2, 1, timeout}, got[:first])
	require.Positive(t, slices.Max(got[first:after]))
	require.Equal(t, timeout, got[after-1])
	require.Equal(t, []int64{4, timeout, 0, gone, 0}, got[after:])

	cfg.Timeout = time.Duration(brief)
	require.Equal(t, []int64{3, 3, timeout}, ask(t, c, cfg, "",
		request(abi.OpConnect, 0, 0, 0), request(abi.OpReceive, 3, 3, 0), request(abi.OpReceive, 3, 1, 0)), "the program's timeout")
}

// A server without clients keeps the GPU free, and ends when its context does.
func TestWaitingServerIsCancelled(t *testing.T) {
	c := newContext(t, 1)
	cfg := config(t, c, "server", "echoServer")
	bound := make(chan string, 1)
	cfg.Bound = func(address string) { bound <- address }
	buffers := memory(t, &cfg, true, 4096)
	ctx, stop := context.WithCancel(minute(t))
	result := make(chan host.Stats, 1)
	go func() {
		stats, err := host.Run(ctx, cfg, buffers, uint32(1))
		if err != context.Canceled {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
		result <- stats
	}()
	<-bound
	require.Eventually(t, func() bool { return c.Synchronize() == nil }, time.Minute, time.Millisecond, "the kernel leaves")
	stop()
	stats := <-result
	require.Positive(t, stats.Waiting)
	require.LessOrEqual(t, stats.Launches, 3)
}

// A block that has left to wait gets its event though another one keeps the kernel running.
func TestEventOfBlockThatLeft(t *testing.T) {
	c := newContext(t, 2)
	cfg := config(t, c, "server", "uneven")
	cfg.Grid[0], cfg.Slice = 2, 200*time.Microsecond
	bound := make(chan string, 1)
	cfg.Bound = func(address string) { bound <- address }
	out, read := words(t, c, 1)
	result := make(chan error, 1)
	go func() {
		_, err := host.Run(minute(t), cfg, out)
		result <- err
	}()
	conn, err := net.Dial("tcp4", <-bound)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, <-result)
	require.Equal(t, []uint32{4}, read())
}
