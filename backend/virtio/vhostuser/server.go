package vhostuser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"pvdrm/internal/sample"
)

// Device is a virtio device. The package calls it as each method says; methods
// must not block for long, for the machine waits.
type Device interface {
	// Queues returns the number of virtqueues.
	Queues() int
	// Features returns the device's own feature bits (0 to 23 and from 50).
	Features() uint64
	// Config returns the configuration space, as the guest reads it.
	Config() []byte
	// Handle takes a request of a queue. Each queue has a goroutine that calls
	// it, for one request after the other. What the guest sent must be read before
	// Handle returns; Chain.Complete may be called later.
	Handle(queue int, c *Chain)
	// SetDisplay hands over the socket on which QEMU takes pictures
	// (VHOST_USER_GPU_SET_SOCKET). The device must close it. Handle may be running.
	SetDisplay(conn *net.UnixConn)
	// Reset forgets all that the guest did: the driver was reset, or the machine
	// is gone. Requests that the device still holds were given up; completing
	// them does nothing. No Handle is running.
	Reset()
}

// Server serves a Device.
type Server struct {
	dev      Device
	sampler  sample.Sampler
	log      *zap.Logger // sampled: a guest causes entries as fast as it likes
	counters counters
}

type counters struct {
	sessions, kicks, interrupts, chains atomic.Uint64
}

// Stats are counters since the server was made.
type Stats struct {
	Sessions   uint64 // connections of a front end
	Kicks      uint64 // doorbells: each is an exit of the guest
	Interrupts uint64 // interrupts sent to the guest
	Requests   uint64 // descriptor chains handed to the device
}

// NewServer makes a server for dev. Log may be nil.
func NewServer(dev Device, log *zap.Logger) *Server {
	if log == nil {
		log = zap.NewNop()
	}
	s := &Server{dev: dev}
	s.log = s.sampler.Wrap(log)
	return s
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	return Stats{
		Sessions:   s.counters.sessions.Load(),
		Kicks:      s.counters.kicks.Load(),
		Interrupts: s.counters.interrupts.Load(),
		Requests:   s.counters.chains.Load(),
	}
}

// Serve accepts front ends on l, one at a time, until ctx ends, and then returns
// nil. A front end that misbehaves is logged and disconnected. It does not close l.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() {
		_ = l.SetDeadline(time.Unix(0, 1)) // fails only when l is closed, which ends Accept too
	})
	defer stop()
	for {
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // nothing was said yet
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("waiting for QEMU on %v: %w", l.Addr(), err)
		}
		if err := s.ServeConn(ctx, conn); err != nil && ctx.Err() == nil {
			s.log.Warn("disconnected the front end", zap.Error(err))
		}
	}
}

// ServeConn serves the front end at the other end of conn until that hangs up
// (nil), breaks the protocol, or ctx ends. It closes conn.
func (s *Server) ServeConn(ctx context.Context, conn *net.UnixConn) error {
	s.counters.sessions.Add(1)
	ss := &session{dev: s.dev, log: s.log, conn: conn}
	for i := range s.dev.Queues() {
		ss.queues = append(ss.queues, newQueue(i, s.dev, s.log, &s.counters))
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(0, 1)) // fails only when conn is closed already
	})
	defer stop()
	s.log.Info("front end connected")
	err := ss.serve()
	_ = conn.Close() // what could be lost was lost with the error
	ss.close()
	if err == nil {
		s.log.Info("front end hung up")
	}
	return errors.Join(err, ctx.Err())
}
