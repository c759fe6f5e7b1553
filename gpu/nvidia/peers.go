package nvidia

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// A guest with several GPUs has a backend and a keeper for each. So that a worker on one GPU has VRAM of another,
// its keeper gets the descriptors that hold the pages from the keeper of that GPU, on a socket that their
// parent made for the two. Neither a backend nor a worker ever has such a descriptor. A keeper gives what its
// backend has shared (keeping.hold) and nothing else, and has such sockets to keepers of the same guest only.

// peerLine is a keeper's end of the socket to another keeper. Both ask and answer on it.
type peerLine struct {
	fd    int
	store *store

	turn    sync.Mutex // held while a question is under way
	answers chan peerAnswer
	over    chan struct{} // closed when the other keeper has ended
}

// peerAnswer is the page that was asked for; nil if there is none.
type peerAnswer struct {
	name pageName
	page *keptPage
}

func (a *peerAnswer) drop() {
	if a.page != nil {
		unixsock.Close([]int{a.page.fd})
	}
}

// Messages between keepers: what it is, the number of a page in its memory, and that of the memory. An answer that
// gives a page goes on with what the driver answered when it was made, and has one descriptor.
const (
	peerAsks    = 1
	peerAnswers = 2

	peerHeader  = 16
	peerMost    = peerHeader + 8<<10 // bytes of a message
	peerLimit   = 10 * time.Second   // of an answer
	foreignBits = 56                 // of a memory's number; above it: which peer has the memory, from 1 on
)

var errPeer = errors.New("the keeper of another GPU breaks the protocol")

// newPeerLine takes a descriptor over and answers on it from now on.
func newPeerLine(fd int, of *store) *peerLine {
	l := &peerLine{fd: fd, store: of, answers: make(chan peerAnswer, 1), over: make(chan struct{})}
	go l.serve()
	return l
}

// serve reads until the other keeper has ended.
func (l *peerLine) serve() {
	defer close(l.over)
	b, oob := make([]byte, peerMost), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(l.fd, b, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || l.take(b[:n], oob[:oobn], flags) != nil {
			return
		}
	}
}

// take takes a message.
func (l *peerLine) take(b, oob []byte, flags int) error {
	var fds []int
	if len(oob) > 0 {
		var err error
		if fds, err = unixsock.Descriptors(oob); err != nil {
			return err
		}
	}
	if len(b) < peerHeader || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(fds) > 1 {
		unixsock.Close(fds)
		return errPeer
	}
	name := pageName{memory: binary.LittleEndian.Uint64(b[8:]), index: int(binary.LittleEndian.Uint32(b[4:]))}
	switch binary.LittleEndian.Uint32(b) {
	case peerAsks:
		unixsock.Close(fds)
		return l.answer(name)
	case peerAnswers:
		a := peerAnswer{name: name}
		if len(fds) == 1 {
			a.page = &keptPage{fd: fds[0], params: append([]byte(nil), b[peerHeader:]...)}
		}
		select {
		case l.answers <- a:
			return nil
		default: // more answers than questions
			unixsock.Close(fds)
		}
	}
	return errPeer
}

// answer gives a page, if it is shared.
func (l *peerLine) answer(name pageName) error {
	b := peerMessage(peerAnswers, name)
	var oob []byte
	fd, params := l.store.shown(name)
	if fd >= 0 {
		b, oob = append(b, params...), unix.UnixRights(fd)
		defer unixsock.Close([]int{fd})
	}
	return l.send(b, oob)
}

func (l *peerLine) send(b, oob []byte) error {
	for {
		if err := unix.Sendmsg(l.fd, b, oob, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

func peerMessage(what uint32, name pageName) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, peerHeader), what)
	b = binary.LittleEndian.AppendUint32(b, uint32(name.index))
	return binary.LittleEndian.AppendUint64(b, name.memory)
}

// fetch asks the other keeper for a page. It returns nil if there is none. The caller closes its descriptor.
func (l *peerLine) fetch(name pageName) *keptPage {
	l.turn.Lock()
	defer l.turn.Unlock()
	select {
	case a := <-l.answers:
		a.drop() // to a question that was given up
	default:
	}
	if l.send(peerMessage(peerAsks, name), nil) != nil {
		return nil
	}
	late := time.NewTimer(peerLimit)
	defer late.Stop()
	for {
		select {
		case a := <-l.answers:
			if a.name == name {
				return a.page
			}
			a.drop() // likewise
		case <-l.over:
			return nil
		case <-late.C:
			return nil
		}
	}
}

// shown returns a descriptor that holds a page which the backend shares, and what belongs to it; -1 if there is none.
func (s *store) shown(name pageName) (fd int, params []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[name]
	if p == nil || !p.shared {
		return -1, nil
	}
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, nil
	}
	return fd, p.params
}

// find returns the page that a worker is to get, and whether its descriptor is to be closed when the worker has it:
// it is then one of another GPU. It returns nil if there is none.
func (k *keeping) find() (p *keptPage, foreign bool) {
	name := pageName{memory: k.memory, index: k.next}
	peer := k.memory >> foreignBits
	if peer == 0 {
		return k.store.claim(name, k), false
	}
	if peer > uint64(len(k.store.peers)) {
		return nil, true
	}
	name.memory &= 1<<foreignBits - 1
	return k.store.peers[peer-1].fetch(name), true
}
