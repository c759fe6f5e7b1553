package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/session"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/internal/hostmem"
)

// Config of a Server.
type Config struct {
	Device gpu.Device
	Log    *zap.Logger
	// MaxMemory bounds the granted memory of all clients together, bytes; 0 means DefaultMaxMemory.
	MaxMemory uint64
	// MaxClients bounds the connections; 0 means DefaultMaxClients.
	MaxClients int
	// Limits bound what all clients together may have.
	Limits session.Limits
}

// Defaults of Config.
const (
	DefaultMaxMemory  = 8 << 30
	DefaultMaxClients = 1024
)

// Server serves local clients on one device.
type Server struct {
	cfg Config

	doorbells, interrupts atomic.Uint64
	granted               atomic.Uint64 // bytes
	group                 session.Group
	populator             populator

	mu      sync.Mutex
	clients int
	memory  map[inode]*memory // what clients may import: everything that is allocated
}

// inode names a memfd, whoever holds a descriptor of it.
type inode struct{ dev, ino uint64 }

// NewServer makes a server. Serve starts it.
func NewServer(cfg Config) *Server {
	if cfg.MaxMemory == 0 {
		cfg.MaxMemory = DefaultMaxMemory
	}
	if cfg.MaxClients == 0 {
		cfg.MaxClients = DefaultMaxClients
	}
	s := &Server{cfg: cfg, memory: map[inode]*memory{}}
	s.group.SetLimits(cfg.Limits)
	return s
}

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
			s.cfg.Log.Warn("cannot take a client now", zap.Error(err))
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
			s.cfg.Log.Warn("client refused: too many are connected", zap.Int("limit", s.cfg.MaxClients))
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

func (s *Server) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= s.cfg.MaxClients {
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

// memory is granted memory: a sealed memfd.
type memory struct {
	region *hostmem.Region
	server *Server
	key    inode
	users  int // clients that have it; guarded by Server.mu
}

// Size is part of session.Grant.
func (m *memory) Size() uint64 { return uint64(len(m.region.Bytes())) }

// Acquire is part of session.Grant.
func (m *memory) Acquire() ([][]byte, func(), error) {
	m.region.Acquire()
	return [][]byte{m.region.Bytes()}, m.region.Release, nil
}

// MapContiguous is part of session.Grant: the memory is contiguous as it is.
func (m *memory) MapContiguous() ([]byte, func(), error) {
	m.region.Acquire()
	return m.region.Bytes(), m.region.Release, nil
}

// allocate makes zeroed memory and a descriptor for the client.
func (s *Server) allocate(size uint64) (m *memory, fd int, err error) {
	if size == 0 || size%hostmem.PageSize != 0 || size > s.cfg.MaxMemory {
		return nil, -1, fmt.Errorf("%d bytes of granted memory: %w", size, unix.EINVAL)
	}
	if s.granted.Add(size) > s.cfg.MaxMemory {
		s.granted.Add(-size)
		return nil, -1, fmt.Errorf("clients have %d bytes of granted memory: %w", s.granted.Load(), unix.ENOSPC)
	}
	defer func() {
		if err != nil {
			s.granted.Add(-size)
		}
	}()
	fd, err = unix.MemfdCreate("pvdrm-grant", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, fmt.Errorf("granted memory: %w", os.NewSyscallError("memfd_create", err))
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd) // err is what to report
		}
	}()
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, -1, fmt.Errorf("granted memory: %w", os.NewSyscallError("ftruncate", err))
	}
	// The client gets a descriptor too: seal the size, so that it cannot make our pages vanish.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, -1, fmt.Errorf("sealing granted memory: %w", err)
	}
	key, err := inodeOf(fd)
	if err != nil {
		return nil, -1, err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("granted memory: %w", err)
	}
	region, err := hostmem.Map(own, 0, size)
	if err != nil {
		return nil, -1, err
	}
	m = &memory{region: region, server: s, key: key, users: 1}
	s.mu.Lock()
	s.memory[key] = m
	s.mu.Unlock()
	s.populator.add(m)
	return m, fd, nil
}

func inodeOf(fd int) (inode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return inode{}, fmt.Errorf("granted memory: %w", os.NewSyscallError("fstat", err))
	}
	return inode{uint64(st.Dev), st.Ino}, nil
}

// find returns the memory that fd is a descriptor of, for one more client.
// Having a descriptor is the right to use it.
func (s *Server) find(fd int) (*memory, error) {
	key, err := inodeOf(fd)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.memory[key]
	if m == nil {
		return nil, fmt.Errorf("not granted memory of this backend: %w", unix.EINVAL)
	}
	m.users++
	return m, nil
}

// inUse reports whether a client has the memory.
func (m *memory) inUse() bool {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	return m.users > 0
}

// drop ends one client's use of memory.
func (m *memory) drop() {
	s := m.server
	s.mu.Lock()
	m.users--
	last := m.users == 0
	if last {
		delete(s.memory, m.key)
	}
	s.mu.Unlock()
	if last {
		s.granted.Add(-m.Size())
		m.region.Release() // sessions that still use it have references of their own
	}
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
		GrantedBytes: s.granted.Load(), Clients: s.clients}
}

// Capset is what the backends of this tree announce.
func capset() hypercall.Capset {
	return hypercall.Capset{Major: hypercall.VersionMajor, Minor: hypercall.VersionMinor,
		MaxRing: hypercall.MaxRingBytes, MaxChannels: hypercall.MaxChannels}
}
