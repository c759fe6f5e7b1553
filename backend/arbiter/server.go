package arbiter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// Config of a Server. The zero value arbitrates one GPU by BAND for backends of
// the same user.
type Config struct {
	// GPUs are the GPUs to arbitrate; backends name them by their index. Empty
	// stands for one with the defaults.
	GPUs []GPU
	// Admit decides whether a guest is admitted, and with which name and share. It
	// may be called concurrently. nil stands for SameUser.
	Admit func(Peer, Hello) (Admission, error)
	// AnswerLimit bounds the time for which a command may run while others wait. Beyond
	// it the backend is disconnected. It should be longer than the launch limit, which
	// backends enforce themselves. 0 stands for DefaultAnswerLimit.
	AnswerLimit time.Duration
	// UseLimit bounds the time in which a backend has to begin a command after it got
	// the token, while others wait. 0 stands for DefaultUseLimit.
	UseLimit time.Duration
	// MaxBackends bounds the guests. 0 stands for DefaultMaxBackends.
	MaxBackends int
	// MaxPerUser bounds the guests whose seats one user of the host has taken. 0
	// stands for DefaultMaxPerUser. A guest has one seat at each GPU.
	MaxPerUser int
	// MaxMessages bounds the messages of a backend per second; the server delays a
	// backend that sends more. 0 stands for DefaultMaxMessages.
	MaxMessages int
	// Observe, if set, is called with each use of an engine when it is charged: by one
	// goroutine at a time for each GPU. The GPU waits for it. It must not call the Server.
	Observe func(Use)
	Log     *zap.Logger
}

// GPU configures the arbitration of one GPU.
type GPU struct {
	Policy   string // "" stands for DefaultPolicy
	Settings sched.Settings
	Limits   Limits
	// Processors is how many processors the GPU's kernels run on, if it is a software one. Kernels that use some of them
	// run concurrently as long as there are enough. 0 stands for those that this process may use, less than 0 for none:
	// kernels run one after the other.
	Processors int
}

// processors is Processors with the default filled in.
func (g GPU) processors() int {
	if g.Processors == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return g.Processors
}

// Use is a time for which a guest used an engine; of a time in which several used it concurrently,
// its part. It lies somewhere between the last charge and At; a single command ended just before At.
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
	DefaultPolicy      = "band"
	DefaultAnswerLimit = 15 * time.Second
	DefaultUseLimit    = 20 * time.Millisecond
	DefaultMaxBackends = 256
	DefaultMaxPerUser  = 64
	DefaultMaxMessages = 100_000
)

// helloLimit bounds the time in which a backend has to send its hello.
const helloLimit = 5 * time.Second

// Server is an arbiter.
type Server struct {
	cfg    Config
	arenas []*arena
	joint  *joint
	door   door
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
	}{
		{name: "backends", value: &cfg.MaxBackends, standard: DefaultMaxBackends},
		{name: "guests of a user", value: &cfg.MaxPerUser, standard: DefaultMaxPerUser},
		{name: "messages", value: &cfg.MaxMessages, standard: DefaultMaxMessages},
	} {
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
	}{
		{name: "answers", value: &cfg.AnswerLimit, standard: DefaultAnswerLimit},
		{name: "use", value: &cfg.UseLimit, standard: DefaultUseLimit},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 {
			return nil, fmt.Errorf("limit of %v for %s; choose a positive time", *d.value, d.name)
		}
	}
	s := &Server{cfg: cfg, door: door{most: cfg.MaxBackends, mostPerUser: cfg.MaxPerUser, users: map[uint32]*crowd{}}, joint: newJoint()}
	for i, g := range cfg.GPUs {
		if g.Policy == "" {
			g.Policy = DefaultPolicy
		}
		a, err := newArena(i, g, limits{answer: cfg.AnswerLimit, use: cfg.UseLimit}, s.joint, cfg.Observe, cfg.Log.With(zap.Int("gpu", i)))
		if err != nil {
			return nil, err
		}
		s.arenas = append(s.arenas, a)
	}
	s.joint.begin(s.arenas, cfg.GPUs[0].Settings.Round)
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
		s.close()
		all.Wait()
	}()
	for _, a := range s.arenas {
		for _, wait := range a.serve() {
			all.Go(wait)
		}
	}
	if wait := s.joint.serve(); wait != nil {
		all.Go(wait)
	}
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

// close ends all connections and alarms.
func (s *Server) close() {
	for _, a := range s.arenas {
		a.close()
	}
	s.joint.close()
}

// serve serves one connection to its end.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends its waits
	defer unhook()
	sock, err := newSocket(conn, false)
	if err != nil {
		_ = conn.Close() // err is the error to report
		s.cfg.Log.Warn("a backend cannot be served", zap.Error(err))
		return
	}
	defer sock.close()
	peer, err := sock.peer()
	if err != nil {
		s.cfg.Log.Warn("a backend cannot be served", zap.Error(err))
		return
	}
	v, err := s.door.enter(peer.UID)
	if err != nil { // too many connections
		s.cfg.Log.Debug("connection closed", zap.Int32("pid", peer.PID), zap.Uint32("uid", peer.UID), zap.Error(err))
		return
	}
	defer v.exit()
	a, m, err := s.admit(sock, peer, v)
	if err != nil {
		v.exit() // first: a client that reads the refusal may try again at once
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

// admit reads the hello of a connection, and admits its guest.
func (s *Server) admit(sock *socket, peer Peer, v *visit) (*arena, *member, error) {
	// Deadlines fail only on closed connections, and then the next call fails too.
	_ = sock.conn.SetReadDeadline(time.Now().Add(helloLimit))
	n, err := sock.conn.Read(sock.in[:])
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for hello: %w", err)
	}
	h, err := decodeHello(sock.in[:n])
	if err != nil {
		return nil, nil, err
	}
	if uint64(h.GPU) >= uint64(len(s.arenas)) {
		return nil, nil, fmt.Errorf("GPU %d; the arbiter has %d, counted from 0: %w", h.GPU, len(s.arenas), unix.ENODEV)
	}
	as, err := s.cfg.Admit(peer, h)
	if err != nil {
		return nil, nil, err
	}
	if err := v.sit(); err != nil {
		return nil, nil, err
	}
	p, fd, err := createPage()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = unix.Close(fd) }() // a mapping does not need it
	a := s.arenas[h.GPU]
	m, err := a.join(h.Name, peer, as, p, sock)
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

// refuse sends the reason of a refusal, and ends the connection.
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
		// Only the sender pays for a flood.
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

// SetShare changes the share of a connected guest, until it connects again.
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

// Stats returns the counts of all GPUs.
func (s *Server) Stats() []GPUStats {
	out := make([]GPUStats, len(s.arenas))
	for i, a := range s.arenas {
		out[i] = a.stats()
	}
	return out
}
