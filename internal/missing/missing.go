// Package missing carries what PVDRM lacked for a program from the CUDA libraries within the
// program to what started it, which prints it where the program fails.
//
// The libraries send one datagram for each call that was not supported to the Unix socket that Env
// names: an address in the file system, or with a leading @ an abstract one. Sending never waits,
// and what does not arrive is lost. The program may send anything, so the Collector keeps little
// of it; what prints a Report makes its texts printable first.
//
// frontend/cuda/rt/c/missing.h sends the same from C.
package missing

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Env names the environment variable with the address of the Collector.
const Env = "PVDRM_MISSING"

// Bounds of what a program can make others keep.
const (
	MaxText = 400 // bytes of a text; the rest is cut off
	MaxKept = 5   // texts of a Report: the first ones and the last

	maxSent     = 64   // texts that a Sender sends
	maxReceived = 4096 // datagrams that a Collector reads
)

// Sender sends texts to the Collector that the environment names. A nil one sends nothing. It may
// be used by several goroutines.
type Sender struct {
	address string

	mu   sync.Mutex
	sent map[string]bool
}

// FromEnv returns the Sender for the environment of this process, nil if that names no Collector.
func FromEnv() *Sender {
	address := os.Getenv(Env)
	if address == "" {
		return nil
	}
	return &Sender{address: address, sent: map[string]bool{}}
}

// Send sends a text unless it has sent the same before. Line ends become spaces.
func (s *Sender) Send(text string) {
	if s == nil {
		return
	}
	text = strings.Join(strings.Fields(text), " ")
	text = text[:min(len(text), MaxText)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" || s.sent[text] || len(s.sent) >= maxSent {
		return
	}
	s.sent[text] = true
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return // the program goes on without
	}
	defer func() { _ = unix.Close(fd) }()
	_ = unix.Sendto(fd, []byte(text), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: s.address})
}

// Report is what a program lacked, as the program says.
type Report struct {
	Lines []string // at most MaxKept, of at most MaxText bytes each
	More  int      // how many texts between the last line and those before it were dropped
}

// Add adds a text. One that is there already does not count again.
func (r *Report) Add(text string) {
	text = text[:min(len(text), MaxText)]
	switch {
	case text == "" || slices.Contains(r.Lines, text):
	case len(r.Lines) < MaxKept:
		r.Lines = append(r.Lines, text)
	default:
		r.Lines[MaxKept-1] = text
		r.More++
	}
}

// Collector receives what programs send. The zero value is of no use; see Listen.
type Collector struct {
	conn   *net.UnixConn
	done   chan struct{} // closed when receive has ended
	report Report        // receive's until then
	left   int           // datagrams that may still be read; receive's until then
}

// Listen makes the socket and receives until Close. An empty address stands for an abstract one
// that the kernel chooses.
func Listen(address string) (*Collector, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("a socket for what programs lack: %w", err)
	}
	c := &Collector{conn: conn, done: make(chan struct{}), left: maxReceived}
	go c.receive()
	return c, nil
}

// Address is the value for Env.
func (c *Collector) Address() string { return c.conn.LocalAddr().String() }

func (c *Collector) receive() {
	defer close(c.done)
	buf := make([]byte, MaxText)
	for ; c.left > 0; c.left-- {
		n, err := c.conn.Read(buf)
		if err != nil {
			return
		}
		c.report.Add(string(buf[:n]))
	}
}

// Close returns what was sent before, and ends the Collector. Its socket stays in the file system.
// Close of a nil Collector returns an empty Report.
func (c *Collector) Close() Report {
	if c == nil {
		return Report{}
	}
	_ = c.conn.SetReadDeadline(time.Now()) // fails only once it is closed
	<-c.done
	if raw, err := c.conn.SyscallConn(); err == nil {
		_ = raw.Control(c.drain) // fails only once it is closed
	}
	_ = c.conn.Close() // nothing is to be written
	return c.report
}

// drain reads what the program sent before it ended, and receive did not get to.
func (c *Collector) drain(fd uintptr) {
	buf := make([]byte, MaxText)
	for ; c.left > 0; c.left-- {
		n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		c.report.Add(string(buf[:n]))
	}
}
