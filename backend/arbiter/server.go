package arbiter

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// Config of a Server. The zero value arbitrates one GPU by BAND for backends of
// the same user.
type Config struct {
	// GPUs are what to arbitrate; backends name them by their index. None
	// stands for one with the defaults.
	GPUs []GPU
	// Admit decides on who connects: what it is entitled to, or an error. It
	// may be called from several goroutines. nil stands for SameUser.
	Admit func(Peer, Hello) (sched.Share, error)
	// AnswerLimit is how long a command may go on while others wait before its
	// backend is disconnected; it is meant to be longer than the limit for
	// launches that backends enforce themselves. 0 stands for DefaultAnswerLimit.
	AnswerLimit time.Duration
	// UseLimit is how long a backend may take to begin a command when it was
	// given the token, while others wait. 0 stands for DefaultUseLimit.
	UseLimit time.Duration
	// MaxBackends bounds the connections. 0 stands for DefaultMaxBackends.
	MaxBackends int
	// MaxPerProcess bounds the connections of one process. 0 stands for
	// DefaultMaxPerProcess.
	MaxPerProcess int
	// MaxMessages bounds the messages of a backend for each second; one that
	// sends more is made to wait. 0 stands for DefaultMaxMessages.
	MaxMessages int
	// Observe is told of each use of an engine when it is charged, if it is set. It
	// is called by one goroutine at a time for each GPU, keeps that GPU waiting,
	// and must not call the Server.
	Observe func(Use)
	Log     *zap.Logger
}

// GPU is how to arbitrate one GPU.
type GPU struct {
	Policy   string // "" stands for DefaultPolicy
	Settings sched.Settings
}

// Use is some time for which a guest used an engine; of a time in which several used it side by
// side, its part. What of it lies where between
// the last charge and At is not known; if it was one command, it ended just before At.
type Use struct {
	GPU      int
	Guest    string
	Engine   Engine
	At       time.Time // when it was charged
	Used     time.Duration
	Commands uint64
}

// Defaults of Config.
const (
	DefaultPolicy        = "band"
	DefaultAnswerLimit   = 15 * time.Second
	DefaultUseLimit      = 20 * time.Millisecond
	DefaultMaxBackends   = 256
	DefaultMaxPerProcess = 16
	DefaultMaxMessages   = 100_000
)

// helloLimit is how long a backend may take to say who it is.
const helloLimit = 5 * time.Second

// SameUser admits processes of the user who runs the arbiter, and of root, with
// what they wish for: it is for hosts on which these trust each other.
func SameUser(p Peer, h Hello) (sched.Share, error) {
	if p.UID != 0 && p.UID != uint32(os.Getuid()) {
		return sched.Share{}, fmt.Errorf("process %d is of user %d; the arbiter serves user %d: %w", p.PID, p.UID, os.Getuid(), unix.EACCES)
	}
	return h.Share, nil
}

// Entry is what a Roster knows of a guest.
type Entry struct {
	Share sched.Share
	Key   Key
	UIDs  []uint32 // users whose processes may serve it; none stands for any
}

// Roster admits the guests that are listed by name, if they know their keys,
// and entitles them to what is listed.
func Roster(guests map[string]Entry) func(Peer, Hello) (sched.Share, error) {
	return func(p Peer, h Hello) (sched.Share, error) {
		e, ok := guests[h.Name]
		if subtle.ConstantTimeCompare(e.Key[:], h.Key[:]) != 1 || !ok {
			return sched.Share{}, fmt.Errorf("guest %s is not listed, or its key is another: %w", h.Name, unix.EACCES)
		}
		for _, uid := range e.UIDs {
			ok = uid == p.UID
			if ok {
				break
			}
		}
		if !ok {
			return sched.Share{}, fmt.Errorf("guest %s is not served by user %d: %w", h.Name, p.UID, unix.EACCES)
		}
		return e.Share, nil
	}
}

// Server is an arbiter.
type Server struct {
	cfg    Config
	arenas []*arena

	mu    sync.Mutex
	total int
	byPID map[int32]int // connections
}

// NewServer makes an arbiter. Serve starts it; it can be started once.
func NewServer(cfg Config) (*Server, error) {
	if len(cfg.GPUs) == 0 {
		cfg.GPUs = []GPU{{}}
	}
	if cfg.Admit == nil {
		cfg.Admit = SameUser
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	for _, n := range []struct {
		name     string
		value    *int
		standard int
	}{{"backends", &cfg.MaxBackends, DefaultMaxBackends}, {"connections of a process", &cfg.MaxPerProcess, DefaultMaxPerProcess},
		{"messages", &cfg.MaxMessages, DefaultMaxMessages}} {
		if *n.value == 0 {
			*n.value = n.standard
		}
		if *n.value < 0 {
			return nil, fmt.Errorf("limit of %d %s; choose a positive number", *n.value, n.name)
		}
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{{"answers", &cfg.AnswerLimit, DefaultAnswerLimit}, {"use", &cfg.UseLimit, DefaultUseLimit}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 {
			return nil, fmt.Errorf("limit of %v for %s; choose a positive time", *d.value, d.name)
		}
	}
	s := &Server{cfg: cfg, byPID: map[int32]int{}}
	for i, g := range cfg.GPUs {
		if g.Policy == "" {
			g.Policy = DefaultPolicy
		}
		a, err := newArena(i, g, limits{answer: cfg.AnswerLimit, use: cfg.UseLimit}, cfg.Observe, cfg.Log.With(zap.Int("gpu", i)))
		if err != nil {
			return nil, err
		}
		s.arenas = append(s.arenas, a)
	}
	return s, nil
}

// Serve accepts backends until ctx ends, then disconnects all and closes l.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	var all sync.WaitGroup
	defer func() {
		cancel()
		unhook()
		_ = l.Close() // again, at worst
		for _, a := range s.arenas {
			a.close()
		}
		all.Wait()
	}()
	for {
		conn, err := AcceptPatiently(ctx, l, s.cfg.Log)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting backends: %w", err)
		}
		all.Go(func() { s.serve(ctx, conn) })
	}
}

// serve serves one connection to its end.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends what it waits for
	defer unhook()
	sock, err := newSocket(conn, false)
	if err != nil {
		_ = conn.Close() // err is what to report
		s.cfg.Log.Warn("a backend cannot be served", zap.Error(err))
		return
	}
	defer sock.close()
	peer, err := sock.peer()
	if err != nil {
		s.cfg.Log.Warn("a backend cannot be served", zap.Error(err))
		return
	}
	exit := sync.OnceFunc(func() { s.exit(peer) })
	defer exit()
	if err := s.enter(peer, 2); err != nil { // somebody floods us
		s.cfg.Log.Debug("connection closed", zap.Int32("pid", peer.PID), zap.Error(err))
		return
	}
	a, m, err := s.admit(sock, peer)
	if err != nil {
		exit() // first: who reads of the refusal may try again at once
		s.refuse(sock, peer, err)
		return
	}
	log := s.cfg.Log.With(zap.Int("gpu", a.number), zap.String("guest", m.name), zap.Int32("pid", peer.PID))
	log.Info("backend connected")
	err = s.read(ctx, a, m)
	a.leave(m)
	if ctx.Err() == nil {
		log.Info("backend gone", zap.Error(err))
	}
}

// enter counts a connection, and fails when there are more than a multiple of
// the limits.
func (s *Server) enter(p Peer, multiple int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	s.byPID[p.PID]++
	return s.crowded(p, multiple)
}

// crowded says whether there are more connections than a multiple of the limits.
// s.mu is held.
func (s *Server) crowded(p Peer, multiple int) error {
	if s.total > multiple*s.cfg.MaxBackends {
		return fmt.Errorf("%d backends are connected: %w", s.cfg.MaxBackends, unix.ENOSPC)
	}
	if s.byPID[p.PID] > multiple*s.cfg.MaxPerProcess {
		return fmt.Errorf("process %d has %d connections: %w", p.PID, s.cfg.MaxPerProcess, unix.ENOSPC)
	}
	return nil
}

func (s *Server) exit(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.byPID[p.PID]--; s.byPID[p.PID] == 0 {
		delete(s.byPID, p.PID)
	}
}

// admit reads who it is, and lets it in.
func (s *Server) admit(sock *socket, peer Peer) (*arena, *member, error) {
	// Deadlines fail only on closed connections, and then the next call says so.
	_ = sock.conn.SetReadDeadline(time.Now().Add(helloLimit))
	n, err := sock.conn.Read(sock.in[:])
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for hello: %w", err)
	}
	// Only now, because a refusal is lost if the hello was not read.
	s.mu.Lock()
	err = s.crowded(peer, 1)
	s.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	h, err := decodeHello(sock.in[:n])
	if err != nil {
		return nil, nil, err
	}
	if uint64(h.GPU) >= uint64(len(s.arenas)) {
		return nil, nil, fmt.Errorf("GPU %d; the arbiter has %d, counted from 0: %w", h.GPU, len(s.arenas), unix.ENODEV)
	}
	share, err := s.cfg.Admit(peer, h)
	if err != nil {
		return nil, nil, err
	}
	p, fd, err := createPage()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = unix.Close(fd) }() // a mapping does not need it
	a := s.arenas[h.GPU]
	m, err := a.join(h.Name, peer, share, p, sock)
	if err != nil {
		return nil, nil, err
	}
	if err := sock.sendWith(message{op: opWelcome, value: VersionMinor}, []int{fd}); err != nil {
		a.leave(m)
		return nil, nil, err
	}
	_ = sock.conn.SetReadDeadline(time.Time{}) // as above
	return a, m, nil
}

// refuse says why, and ends the connection.
func (s *Server) refuse(sock *socket, peer Peer, err error) {
	s.cfg.Log.Warn("backend refused", zap.Int32("pid", peer.PID), zap.Uint32("uid", peer.UID), zap.Error(err))
	no := unix.EINVAL
	switch {
	case errors.As(err, &no):
	case errors.Is(err, errVersion):
		no = unix.EPROTO
	case errors.Is(err, errName):
		no = unix.EBUSY
	case errors.Is(err, sched.ErrShare):
		no = unix.ENOSPC
	}
	_ = sock.send(message{op: opRefuse, value: uint32(no), text: err.Error()}) // if it does not read, it sees the end
}

// read serves a member until it leaves or breaks the protocol.
func (s *Server) read(ctx context.Context, a *arena, m *member) error {
	left, since := s.cfg.MaxMessages, time.Now()
	for {
		msg, err := m.link.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		if err := a.handle(m, msg); err != nil {
			return err
		}
		if left--; left > 0 {
			continue
		}
		// Nobody but the sender pays for a flood.
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second - time.Since(since)):
		}
		left, since = s.cfg.MaxMessages, time.Now()
	}
}

// Switch changes the policy of a GPU while it is in use. Credit and usage stay.
func (s *Server) Switch(number int, policy string, settings sched.Settings) error {
	a, err := s.arena(number)
	if err != nil {
		return err
	}
	return a.change(policy, settings)
}

// SetShare changes what a connected guest is entitled to, until it connects anew.
func (s *Server) SetShare(number int, guest string, share sched.Share) error {
	a, err := s.arena(number)
	if err != nil {
		return err
	}
	_, err = a.setShare(guest, func(sched.Share) sched.Share { return share })
	return err
}

func (s *Server) arena(number int) (*arena, error) {
	if number < 0 || number >= len(s.arenas) {
		return nil, fmt.Errorf("GPU %d; the arbiter has %d, counted from 0", number, len(s.arenas))
	}
	return s.arenas[number], nil
}

// Stats are the counts of all GPUs.
func (s *Server) Stats() []GPUStats {
	out := make([]GPUStats, len(s.arenas))
	for i, a := range s.arenas {
		out[i] = a.stats()
	}
	return out
}
