package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/file"
	"pvdrm/backend/session"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// Config of a Server.
type Config struct {
	Device gpu.Device // nil with Attach
	// Attach serves clients in place of sessions on Device; may be nil.
	Attach   session.Attacher
	Features uint64      // of the capset; 0: those of a backend with sessions
	Log      *zap.Logger // may be nil
	// MaxMemory bounds the granted memory of all clients together, bytes; 0 means DefaultMaxMemory.
	MaxMemory uint64
	// MaxClients bounds the connections; 0 means DefaultMaxClients. There may be fewer where
	// the process may not have the descriptors.
	MaxClients int
	// Limits bound what all clients together may have.
	Limits quota.Limits
}

// Defaults of Config.
const (
	DefaultMaxMemory  = 8 << 30
	DefaultMaxClients = 1024
)

const (
	// maxMemories bounds the granted memories, of one client and of all together, where
	// descriptors are plenty: each takes one, and a mapping of this process (vm.max_map_count is
	// 65530 by default).
	maxMemories = 1 << 14
	// filesOfClient is the most descriptors that a client takes, granted memory apart: socket,
	// pipes and what its session and its device wait with.
	filesOfClient = 8
)

// Server serves local clients on one device.
type Server struct {
	cfg Config

	doorbells, interrupts atomic.Uint64
	group                 session.Group
	log                   *zap.Logger // sampled: clients come and go as they like
	populator             populator
	maxClients            int
	maxMemories           int // of all clients

	mu      sync.Mutex
	clients int
	memory  map[inode]*memory // everything that clients have granted
	granted uint64            // bytes of it
}

// NewServer makes a server. Serve starts it.
func NewServer(cfg Config) *Server {
	if cfg.MaxMemory == 0 {
		cfg.MaxMemory = DefaultMaxMemory
	}
	if cfg.MaxClients == 0 {
		cfg.MaxClients = DefaultMaxClients
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg, maxClients: cfg.MaxClients, maxMemories: maxMemories, memory: map[inode]*memory{}}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Cur < math.MaxInt {
		// Half of the descriptors are for granted memory, a quarter for clients, and the rest for
		// what this process has and for what it receives.
		s.maxMemories = min(s.maxMemories, int(files.Cur/2))
		s.maxClients = min(s.maxClients, max(int(files.Cur/4/filesOfClient), 1))
	}
	s.group.SetLimits(cfg.Limits)
	s.log = s.group.Logger(cfg.Log)
	return s
}

// Guest returns what the clients have in common.
func (s *Server) Guest() *file.Guest { return &s.group.Guest }

// Listen opens the socket at path. A stale socket of a server that is gone is
// replaced; one that answers is an error.
func Listen(path string) (*net.UnixListener, error) {
	return ListenUnix("unixpacket", path)
}

// ListenUnix is Listen for a socket of any type ("unix", "unixpacket").
func ListenUnix(network, path string) (*net.UnixListener, error) {
	const longest = 107 // bytes of sun_path, with room for the zero
	if len(path) > longest {
		return nil, fmt.Errorf("the socket's path %s has %d bytes, at most %d are possible: choose a shorter one", path, len(path), longest)
	}
	addr := &net.UnixAddr{Name: path, Net: network}
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is there and is no socket: choose another path", path)
		}
		c, err := net.DialUnix(network, nil, addr)
		if err == nil {
			_ = c.Close() // it was a question only
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			return nil, fmt.Errorf("%s is in use by another process: choose another path or end that one", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the stale socket: %w", err)
		}
	}
	l, err := net.ListenUnix(network, addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close() // the chmod is what to report
		return nil, fmt.Errorf("protecting the socket: %w", err)
	}
	return l, nil
}

// Serve accepts clients until ctx ends, then ends all of them.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer s.populator.work.Wait()                    // nothing is in use any more
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && passing(err) {
			s.log.Warn("cannot take a client now", zap.Error(err))
			select {
			case <-ctx.Done():
			case <-time.After(acceptRetry):
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("accepting local clients: %w", err)
		}
		if !s.admit() {
			s.log.Warn("client refused: too many are connected", zap.Int("limit", s.maxClients))
			_ = c.Close() // the client sees the end of the connection
			continue
		}
		all.Go(func() {
			defer s.leave()
			s.serve(ctx, c)
		})
	}
}

// acceptRetry is the pause after an Accept that failed for want of something.
const acceptRetry = 100 * time.Millisecond

// passing reports whether an error of Accept may be over soon: descriptors or
// memory ran out, or the client has gone.
func passing(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// attach serves a client that has attached.
func (s *Server) attach(c *conn, d hypercall.Doorbell) (session.Attached, error) {
	if s.cfg.Attach != nil {
		return s.cfg.Attach(c, d, c.label)
	}
	attached, err := session.Attach(s.cfg.Device, c, &s.group, d, c.label, s.log)
	if err != nil {
		return nil, err // not a nil *session.Session in an interface
	}
	return attached, nil
}

// capset is what the server announces.
func (s *Server) capset() hypercall.Capset {
	number := 0
	if s.cfg.Device != nil {
		number = s.cfg.Device.Properties().Number
	}
	c := hypercall.NewCapset(number)
	if s.cfg.Features != 0 {
		c.Features = s.cfg.Features
	}
	return c
}

func (s *Server) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= s.maxClients {
		return false
	}
	s.clients++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	s.clients--
	s.mu.Unlock()
}

// Stats are counts since the server was made.
type Stats struct {
	Doorbells, Interrupts uint64
	GrantedBytes          uint64 // now
	Clients               int    // now
}

// Sessions are the counters of the clients' sessions.
func (s *Server) Sessions() session.GuestStats {
	st := s.group.Stats()
	st.Total.Doorbells, st.Total.Interrupts = s.doorbells.Load(), s.interrupts.Load()
	return st
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Doorbells: s.doorbells.Load(), Interrupts: s.interrupts.Load(),
		GrantedBytes: s.granted, Clients: s.clients}
}
