package local

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gem/quota"
	"pvdrm/hypercall"
)

// A doorbell of either side wakes the other; what a client writes means nothing.
func TestDoorbells(t *testing.T) {
	s := newServer(t, quota.Limits{})
	p := s.join(t)
	pipes := p.hello()
	mem := p.attach()
	ring, err := hypercall.New(mem, hypercall.DefaultLayout)
	require.NoError(t, err)
	requests, answers := ring.Requests(), ring.Completions()
	buf := make([]byte, hypercall.MaxMessage)
	for i := range uint32(10) {
		ok, err := requests.Put(hypercall.Header{Op: hypercall.OpNop, ID: i + 1, Flags: hypercall.FlagAnswer}, nil)
		require.NoError(t, err)
		require.True(t, ok)
		requests.Publish()
		asleep := answers.Sleep()
		_, err = pipes[0].Write(make([]byte, 1+1000*int(i)))
		require.NoError(t, err)
		if asleep {
			require.NoError(t, pipes[1].SetReadDeadline(time.Now().Add(time.Minute)))
			_, err = pipes[1].Read(make([]byte, 4096))
			require.NoError(t, err)
		}
		answers.Awake()
		var h hypercall.Header
		require.Eventually(t, func() bool {
			var got bool
			h, _, got, err = answers.Get(buf)
			return err == nil && got
		}, time.Minute, time.Microsecond)
		require.Equal(t, i+1, h.ID)
		require.Zero(t, h.Errno)
	}
}

// The client sees a hang-up when its backend ends, and the backend ends the session.
func TestServerEnds(t *testing.T) {
	s := newServer(t, quota.Limits{})
	dir, err := os.MkdirTemp("", "pvdrm-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := Listen(filepath.Join(dir, "gpu"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(dir, "gpu"), Net: "unixpacket"})
	require.NoError(t, err)
	p := &peer{t: t, sock: sock}
	p.hello()
	p.attach()
	cancel()
	require.NoError(t, <-ended)
	_, _, err = p.hear()
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, sock.Close())
}

// Rings that a hostile client describes make no session, and the connection goes on.
func TestHostileAttach(t *testing.T) {
	s := newServer(t, quota.Limits{})
	p := s.join(t)
	p.hello()
	granted := p.ask(hypercall.LocalMessage{Op: hypercall.LocalGrant}, nil, memfd(t, 4096, wantSeals))
	require.Zero(t, granted.Errno)
	attach := func(tail []byte) {
		t.Helper()
		require.NotZero(t, p.ask(hypercall.LocalMessage{Op: hypercall.LocalAttach}, tail).Errno)
	}
	good := hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: granted.ID, Layout: hypercall.DefaultLayout}
	kick, other := good, good
	kick.Op, other.Resource = hypercall.DoorbellKick, granted.ID+1
	attach(nil)
	attach([]byte("garbage"))
	attach(kick.Encode())
	attach(other.Encode())
	attach(good.Encode()) // the memory is too small for the ring
	attach(append(good.Encode(), make([]byte, 100)...))
	require.Zero(t, p.ask(hypercall.LocalMessage{Op: hypercall.LocalFree, ID: granted.ID}, nil).Errno)
	p.attach()
	big := p.ask(hypercall.LocalMessage{Op: hypercall.LocalGrant}, nil, memfd(t, int64(hypercall.DefaultLayout.Bytes()+4095)&^4095, wantSeals))
	again := good
	again.Resource = big.ID
	require.NoError(t, p.say(append(hypercall.LocalMessage{Op: hypercall.LocalAttach}.Encode(), again.Encode()...)))
	if m, _, err := p.hear(); err == nil {
		require.NotZero(t, m.Errno, "one ring for each connection")
	}
	require.NoError(t, p.say([]byte{1}))
	p.requireGone()
}
