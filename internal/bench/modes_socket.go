package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"pvdrm/backend/gpuvm"
)

// What a trap is.
const (
	TrapCall   = "call"   // of the Aggregator, by the guest's driver
	TrapSocket = "socket" // a message over a socket to a thread of the Aggregator, which answers
)

var trapNotes = map[string]string{
	TrapCall:   "calls within a thread",
	TrapSocket: "messages over a socket to another thread and back",
}

// trapSocket carries accesses that trap, and hypercalls, over a socket to the goroutine that serves a
// VM: what a trap costs where guest and Aggregator are scheduled apart. Both ends are in one process,
// so that what does not trap is an access of memory, and neither end has to mistrust messages.
type trapSocket struct {
	vm     *gpuvm.VM
	guest  int // the ends of the socket
	server int
	ended  sync.WaitGroup

	out [trapBytes]byte // of the guest
	in  [trapBytes]byte

	mu     sync.Mutex
	ops    []byte // of the hypercall that is under way
	failed error  // of it
}

// A message is the kind and the BAR, 4 bytes each, an offset and a value; so is the answer, in which
// the value counts.
const (
	trapBytes = 24
	trapRead  = 0
	trapWrite = 1
	trapCall  = 2
)

func newTrapSocket(vm *gpuvm.VM) (*trapSocket, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket for traps: %w", err)
	}
	s := &trapSocket{vm: vm, guest: fds[0], server: fds[1]}
	s.ended.Go(s.serve)
	return s, nil
}

// serve answers traps until the guest has closed its end.
func (s *trapSocket) serve() {
	var m [trapBytes]byte
	for {
		n, err := unix.Read(s.server, m[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != trapBytes {
			return
		}
		bar, off := int(binary.LittleEndian.Uint32(m[4:])), binary.LittleEndian.Uint64(m[8:])
		switch v := uint32(binary.LittleEndian.Uint64(m[16:])); binary.LittleEndian.Uint32(m[:]) {
		case trapRead:
			binary.LittleEndian.PutUint64(m[16:], uint64(s.vm.Read(bar, off)))
		case trapWrite:
			s.vm.Write(bar, off, v)
		case trapCall:
			s.mu.Lock()
			s.failed = s.vm.Hypercall(s.ops)
			s.mu.Unlock()
		}
		if _, err := unix.Write(s.server, m[:]); err != nil {
			return
		}
	}
}

// trap sends a message and waits for the answer.
func (s *trapSocket) trap(kind, bar int, off uint64, v uint32) uint32 {
	binary.LittleEndian.PutUint32(s.out[:], uint32(kind))
	binary.LittleEndian.PutUint32(s.out[4:], uint32(bar))
	binary.LittleEndian.PutUint64(s.out[8:], off)
	binary.LittleEndian.PutUint64(s.out[16:], uint64(v))
	if _, err := unix.Write(s.guest, s.out[:]); err != nil {
		return ^uint32(0)
	}
	for {
		n, err := unix.Read(s.guest, s.in[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n != trapBytes:
			return ^uint32(0)
		default:
			return uint32(binary.LittleEndian.Uint64(s.in[16:]))
		}
	}
}

// Read implements lowlevel.Bus.
func (s *trapSocket) Read(bar int, off uint64) uint32 {
	if !s.vm.Traps(bar, off) {
		return s.vm.Read(bar, off)
	}
	return s.trap(trapRead, bar, off, 0)
}

// Write implements lowlevel.Bus.
func (s *trapSocket) Write(bar int, off uint64, v uint32) {
	if !s.vm.Traps(bar, off) {
		s.vm.Write(bar, off, v)
		return
	}
	s.trap(trapWrite, bar, off, v)
}

// Size implements lowlevel.Bus.
func (s *trapSocket) Size(bar int) uint64 { return s.vm.Size(bar) }

// Hypercall implements lowlevel.Calls.
func (s *trapSocket) Hypercall(ops []byte) error {
	s.mu.Lock()
	s.ops, s.failed = ops, errors.New("the Aggregator does not answer")
	s.mu.Unlock()
	s.trap(trapCall, 0, 0, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// close ends the goroutine.
func (s *trapSocket) close() error {
	err := unix.Close(s.guest)
	s.ended.Wait()
	return errors.Join(err, unix.Close(s.server))
}
