package host

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"pvdrm/frontend/gloop/abi"
)

// call is a request that is served.
type call struct {
	*program
	abi.Request
	at abi.Ref
}

// server serves requests of one kind.
type server struct {
	serve func(*call) (int64, error)
	peer  bool // it may wait for a peer, and so takes no place among the threads for files
}

// servers has a row for each operation.
var servers = map[abi.Op]server{
	abi.OpOpen:       {serve: (*call).open},
	abi.OpClose:      {serve: (*call).closeFile},
	abi.OpStat:       {serve: (*call).stat},
	abi.OpTruncate:   {serve: (*call).truncate},
	abi.OpRead:       {serve: (*call).read},
	abi.OpWrite:      {serve: (*call).write},
	abi.OpConnect:    {serve: (*call).connect, peer: true},
	abi.OpBind:       {serve: (*call).bind},
	abi.OpUnbind:     {serve: (*call).unbind},
	abi.OpAccept:     {serve: (*call).accept, peer: true},
	abi.OpDisconnect: {serve: (*call).disconnect},
	abi.OpReceive:    {serve: (*call).receive, peer: true},
	abi.OpSend:       {serve: (*call).send, peer: true},
}

// start serves a request in a goroutine of its own. What is wrong with it ends it at once.
func (p *program) start(at abi.Ref, r abi.Request) {
	if no := r.Check(); no != 0 {
		p.complete(at, -int64(no))
		return
	}
	if r.Op == abi.OpOpen && r.Text >= uint32(p.cfg.PathMax) {
		p.complete(at, -int64(syscall.ENAMETOOLONG))
		return
	}
	s := servers[r.Op]
	p.served.Go(func() {
		if !s.peer {
			p.threads <- struct{}{}
			defer func() { <-p.threads }()
		}
		value, err := s.serve(&call{program: p, Request: r, at: at})
		if err != nil {
			value = -int64(errnoOf(err))
		}
		p.complete(at, value)
	})
}

// errnoOf is what a callback gets for an error.
func errnoOf(err error) syscall.Errno {
	var no syscall.Errno
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &no) && no != 0:
		return no
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrClosed):
		return syscall.EBADF
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return syscall.ETIMEDOUT
	case errors.Is(err, context.Canceled):
		return syscall.ECANCELED
	case errors.As(err, &timeout) && timeout.Timeout():
		return syscall.ETIMEDOUT
	}
	return syscall.EIO
}

// within is the program's context with the call's timeout, or the program's.
func (c *call) within() (context.Context, context.CancelFunc) {
	if d := or(time.Duration(c.Timeout), c.cfg.Timeout); d != 0 {
		return context.WithTimeoutCause(c.living, d, syscall.ETIMEDOUT)
	}
	return context.WithCancel(c.living)
}
