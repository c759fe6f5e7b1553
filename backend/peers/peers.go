// Package peers connects the backends of a guest that has several devices, each served by a process of its own, so
// that a file on one device can have memory that a file on another shares (backend/file.Lender).
//
// The parent makes a socket for each two of them (SOCK_SEQPACKET), before they start. Only backends of one guest
// have such sockets, so a key that comes on one was given out to that guest, by whichever device it is
// asked for. What goes over a socket is names: the descriptors that hold the memory go between the keepers of the two GPUs
// (gpu/nvidia). A backend that a guest has taken over can ask for what its own guest shares, and for nothing else.
//
// Each message has 40 bytes, little-endian:
//
//	offset  size  field
//	0       4     what it is: 1 asks for a key, 2 is the answer, 3 gives back what was got by a key
//	4       4     number of the question
//	8       16    key
//	24      8     of an answer: name of the memory at the device
//	32      8     of an answer: its size, bytes; 0: the guest shares nothing there by this key
//
// # Goroutines and locks
//
// A goroutine for each socket reads it until it ends, answers, and counts what was lent. When it ends, all that was lent on
// it comes back. Line.turn is held during a question, and line.mu under it to
// send.
package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"pvdrm/backend/file"
	"pvdrm/drm"
)

// Owner lends what its files share. A file.Guest is one.
type Owner interface {
	Lend(key drm.Key) (file.Loan, error)
	Recall(key drm.Key)
}

// Messages.
const (
	asks         = 1
	answers      = 2
	returns      = 3
	messageBytes = 40
)

// answerLimit is how long another backend may take to answer.
const answerLimit = 10 * time.Second

// maxLoans bounds the loans of one socket.
const maxLoans = 1 << 20

// errProtocol ends a socket whose other end breaks the protocol.
var errProtocol = errors.New("another backend of the guest breaks the protocol")

// Lines are the sockets of one backend. It implements file.Lender.
type Lines struct{ lines []*line }

var _ file.Lender = (*Lines)(nil)

// line is one socket.
type line struct {
	conn  *net.UnixConn
	place int // of the device at the other end
	owner Owner

	turn    sync.Mutex // held during a question
	last    uint32     // question
	answers chan message
	over    chan struct{} // closed when the other end is gone

	mu sync.Mutex // held to send

	// Of the goroutine.
	lent map[drm.Key]int
	sum  int // of lent
}

// message is what goes over a socket.
type message struct {
	what, number uint32
	key          drm.Key
	name, size   uint64
}

func (m *message) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, m.what)
	b = binary.LittleEndian.AppendUint32(b, m.number)
	b = append(b, m.key[:]...)
	b = binary.LittleEndian.AppendUint64(b, m.name)
	return binary.LittleEndian.AppendUint64(b, m.size)
}

// decode takes a packet apart.
func decode(b []byte) (m message, err error) {
	if len(b) != messageBytes {
		return m, fmt.Errorf("%w: a message of %d bytes", errProtocol, len(b))
	}
	m.what, m.number = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	copy(m.key[:], b[8:])
	m.name, m.size = binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])
	if m.what < asks || m.what > returns {
		return m, fmt.Errorf("%w: a message of kind %d", errProtocol, m.what)
	}
	return m, nil
}

// New takes sockets over, by the places of the devices at their other ends, and lends on them what owner has.
func New(sockets map[int]*os.File, owner Owner) (*Lines, error) {
	all := &Lines{}
	for place, f := range sockets {
		c, err := net.FileConn(f) // which duplicates it
		err = errors.Join(err, f.Close())
		conn, ok := c.(*net.UnixConn)
		if err != nil || !ok {
			all.Close()
			return nil, errors.Join(fmt.Errorf("the socket to the backend of device %d", place), err)
		}
		l := &line{conn: conn, place: place, owner: owner, answers: make(chan message, 1), over: make(chan struct{}), lent: map[drm.Key]int{}}
		all.lines = append(all.lines, l)
		go l.serve()
	}
	return all, nil
}

// Close ends the sockets, and waits until what was lent on them has come back.
func (s *Lines) Close() {
	for _, l := range s.lines {
		_ = l.conn.Close() // nothing is to be written any more
		<-l.over
	}
}

// Borrow implements file.Lender.
func (s *Lines) Borrow(key drm.Key) (file.Loan, error) {
	for _, l := range s.lines {
		if m := l.ask(key); m.size > 0 {
			return file.Loan{Key: key, Place: l.place, Name: m.name, Size: m.size}, nil
		}
	}
	return file.Loan{}, fmt.Errorf("the guest shares nothing by this key: %w", syscall.ENOENT)
}

// Return implements file.Lender.
func (s *Lines) Return(loan file.Loan) {
	for _, l := range s.lines {
		if l.place == loan.Place {
			_ = l.send(message{what: returns, key: loan.Key}) // fails only where the other end is gone
		}
	}
}

// ask asks for a key, and returns the answer; one without a size where none comes.
func (l *line) ask(key drm.Key) message {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.last++
	select {
	case m := <-l.answers:
		l.refuse(m)
	default:
	}
	if l.send(message{what: asks, number: l.last, key: key}) != nil {
		return message{}
	}
	late := time.NewTimer(answerLimit)
	defer late.Stop()
	for {
		select {
		case m := <-l.answers:
			if m.number == l.last && m.key == key {
				return m
			}
			l.refuse(m)
		case <-l.over:
			return message{}
		case <-late.C:
			return message{}
		}
	}
}

// refuse gives back what an answer brings that comes too late.
func (l *line) refuse(m message) {
	if m.size > 0 {
		_ = l.send(message{what: returns, key: m.key}) // fails only where the other end is gone
	}
}

func (l *line) send(m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.conn.Write(m.append(make([]byte, 0, messageBytes)))
	return err
}

// serve reads until the other end is gone or breaks the protocol.
func (l *line) serve() {
	defer close(l.over)
	defer l.recall()
	b := make([]byte, messageBytes+1)
	for {
		n, err := l.conn.Read(b)
		if err != nil {
			return
		}
		m, err := decode(b[:n])
		if err == nil {
			err = l.take(m)
		}
		if err != nil {
			_ = l.conn.Close() // err is why
			return
		}
	}
}

// take takes a message.
func (l *line) take(m message) error {
	switch m.what {
	case asks:
		return l.send(l.lend(m))
	case answers:
		select {
		case l.answers <- m:
			return nil
		default:
			return fmt.Errorf("%w: more answers than questions", errProtocol)
		}
	}
	return l.back(m.key)
}

// lend answers a question.
func (l *line) lend(m message) message {
	m.what, m.name, m.size = answers, 0, 0
	if l.sum == maxLoans {
		return m
	}
	loan, err := l.owner.Lend(m.key)
	if err != nil {
		return m
	}
	l.lent[m.key]++
	l.sum++
	m.name, m.size = loan.Name, loan.Size
	return m
}

// back takes what was lent.
func (l *line) back(key drm.Key) error {
	if l.lent[key] == 0 {
		return fmt.Errorf("%w: it gives back what it has not got", errProtocol)
	}
	l.sum--
	if l.lent[key]--; l.lent[key] == 0 {
		delete(l.lent, key)
	}
	l.owner.Recall(key)
	return nil
}

// recall takes back all that was lent.
func (l *line) recall() {
	for key, n := range l.lent {
		for range n {
			l.owner.Recall(key)
		}
	}
	clear(l.lent)
}
