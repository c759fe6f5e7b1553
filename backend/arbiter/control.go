package arbiter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// ControlSuffix is added to the path of an arbiter's socket for the path of the
// one on which it is asked for its counts and told to change.
const ControlSuffix = ".control"

// Command is what an arbiter is asked on its control socket: one JSON object for
// each connection, answered by one Answer. The zero value asks for the counts.
type Command struct {
	GPU    *int         `json:"gpu,omitempty"`    // to change; nil stands for all, of a guest those at which it is
	Policy string       `json:"policy,omitempty"` // the policy to change to, if any
	Guest  string       `json:"guest,omitempty"`  // whose share is to change, if any
	Share  *ShareChange `json:"share,omitempty"`
}

// ShareChange is what of a guest's share is to change; nil leaves it as it is.
type ShareChange struct {
	Weight   *uint32        `json:"weight,omitempty"`
	Cap      *float64       `json:"cap,omitempty"`     // part of the engine's time, 0 to 1; 0 is none
	Reserve  *float64       `json:"reserve,omitempty"` // part of the engine's time, 0 to 1
	Class    *sched.Class   `json:"class,omitempty"`
	Priority *uint32        `json:"priority,omitempty"`
	SLA      *time.Duration `json:"sla_ns,omitempty"` // 0 is the default of the class
}

func (c *ShareChange) apply(s sched.Share) sched.Share {
	if c.Weight != nil {
		s.Weight = *c.Weight
	}
	if c.Cap != nil {
		s.Cap = *c.Cap
	}
	if c.Reserve != nil {
		s.Reserve = *c.Reserve
	}
	if c.Class != nil {
		s.Class = *c.Class
		if s.Class != sched.Latency {
			s.SLA = 0
		}
	}
	if c.Priority != nil {
		s.Priority = *c.Priority
	}
	if c.SLA != nil {
		s.SLA = *c.SLA
	}
	return s
}

// Answer is what an arbiter says to a Command: its counts after it, or an error.
type Answer struct {
	Error string     `json:"error,omitempty"`
	PID   int        `json:"pid"`
	GPUs  []GPUStats `json:"gpus,omitempty"`
}

// Bounds of a control connection.
const (
	maxCommand     = 4096 // bytes
	maxAnswer      = 16 << 20
	controlLimit   = 5 * time.Second
	maxControllers = 16 // connections at once; more wait to be accepted
)

// ServeControl answers Commands of the user who runs the arbiter, and of root,
// until ctx ends; then it closes l.
func (s *Server) ServeControl(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer stop()
	room := make(chan struct{}, maxControllers)
	defer func() {
		for range maxControllers { // wait for those that are being answered
			room <- struct{}{}
		}
	}()
	for {
		room <- struct{}{}
		conn, err := AcceptPatiently(ctx, l, s.cfg.Log)
		if err != nil {
			<-room
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accepting on the control socket: %w", err)
		}
		go func() {
			defer func() { <-room }()
			defer func() { _ = conn.Close() }() // the answer is written
			s.control(conn)
		}()
	}
}

// AcceptPatiently is AcceptUnix that outlasts what passes: too few descriptors,
// too little memory, a peer that is gone already. It returns an error when ctx
// has ended or the listener is unusable.
func AcceptPatiently(ctx context.Context, l *net.UnixListener, log *zap.Logger) (*net.UnixConn, error) {
	const pause = 100 * time.Millisecond
	for {
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // too late
			}
			return nil, ctx.Err()
		}
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) && !errors.Is(err, unix.ENOMEM) &&
			!errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.ECONNABORTED) {
			return nil, err
		}
		log.Warn("a connection cannot be accepted", zap.Stringer("socket", l.Addr()), zap.Error(err))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// control serves one connection.
func (s *Server) control(conn *net.UnixConn) {
	_ = conn.SetDeadline(time.Now().Add(controlLimit)) // whoever dawdles keeps others waiting
	answer := Answer{PID: os.Getpid()}
	if err := s.obey(conn); err != nil {
		answer.Error = err.Error()
	} else {
		answer.GPUs = s.Stats()
	}
	_ = json.NewEncoder(conn).Encode(answer) // if it is gone it does not want to know
}

func (s *Server) obey(conn *net.UnixConn) error {
	sock, err := newSocket(conn, false)
	if err != nil {
		return err
	}
	peer, err := sock.peer()
	if err != nil {
		return err
	}
	if !ownUser(peer.UID) {
		s.cfg.Log.Warn("control refused", zap.Int32("pid", peer.PID), zap.Uint32("uid", peer.UID))
		return fmt.Errorf("process %d is of user %d: %w", peer.PID, peer.UID, unix.EACCES)
	}
	var c Command
	if err := json.NewDecoder(io.LimitReader(conn, maxCommand)).Decode(&c); err != nil {
		return fmt.Errorf("reading the command: %w", err)
	}
	arenas := s.arenas
	if c.GPU != nil {
		a, err := s.arena(*c.GPU)
		if err != nil {
			return err
		}
		arenas = []*arena{a}
	}
	log := s.cfg.Log.With(zap.Int32("pid", peer.PID))
	if c.Share != nil {
		share, err := setShares(arenas, c.Guest, c.Share.apply)
		if err != nil {
			return err
		}
		log.Info("share changed", zap.String("guest", c.Guest), zap.Any("share", share))
	}
	if c.Policy != "" {
		for _, a := range arenas {
			if err := a.change(c.Policy, a.settings); err != nil {
				return err
			}
		}
		log.Info("policy changed", zap.String("policy", c.Policy))
	}
	return nil
}

// setShares changes the share of a guest at all GPUs at which it is, and returns the new one.
func setShares(arenas []*arena, guest string, change func(sched.Share) sched.Share) (share sched.Share, err error) {
	found := false
	for _, a := range arenas {
		if !a.has(guest) && (found || a != arenas[len(arenas)-1]) {
			continue // the last one says so if there is none
		}
		if share, err = a.setShare(guest, change); err != nil {
			return share, err
		}
		found = true
	}
	return share, nil
}

// ListenControl makes the control socket at path, for its owner only. A socket
// that was left behind is replaced.
func ListenControl(path string) (*net.UnixListener, error) { return listen("unix", path, 0o600) }

// Ask sends a command to the arbiter whose control socket is at path.
func Ask(ctx context.Context, path string, c Command) (answer Answer, err error) {
	d := net.Dialer{Timeout: controlLimit}
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return answer, fmt.Errorf("asking the arbiter: %w (does it run? pvdrm arbiter)", err)
	}
	defer func() { _ = conn.Close() }() // all is said
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(controlLimit)); err != nil {
		return answer, fmt.Errorf("asking the arbiter: %w", err)
	}
	said := json.NewEncoder(conn).Encode(c) // one that refuses the caller answers without listening
	if err := json.NewDecoder(io.LimitReader(conn, maxAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("the arbiter's answer: %w", errors.Join(said, err))
	}
	if answer.Error != "" {
		return answer, errors.New("the arbiter refuses: " + answer.Error)
	}
	return answer, nil
}
