package virgl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/workers"
)

// helper is a worker as its backend sees it.
type helper struct {
	process *workers.Process
	conn    *net.UnixConn
	limit   time.Duration // for a message to be taken
	number  uint64        // of the last request
	buf     []byte
	capsets []capset
	ready   chan struct{} // holds a token when there may be answers
	due     atomic.Int64  // replies that have not come

	mu      sync.Mutex
	answers []answer // not taken yet; the requests that are out bound their number
}

// answer is a reply with what came with it.
type answer struct {
	reply
	err error // why there is no other reply; the last one has it
}

// startHelper starts a worker, and waits until it greets.
func startHelper(k *workers.Keeper, c Config) (*helper, error) {
	p, conn, err := startWorker(k)
	if err != nil {
		return nil, err
	}
	h := &helper{process: p, conn: conn, limit: c.Limit, ready: make(chan struct{}, 1)}
	from, err := h.reader(c.Look)
	if err != nil {
		return nil, errors.Join(err, h.end())
	}
	in := bufio.NewReader(from)
	err = conn.SetReadDeadline(time.Now().Add(startLimit))
	if err == nil {
		err = h.greeting(in)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, h.end())
	}
	go h.read(in, c.Look > 0)
	return h, nil
}

// end ends the worker. If it returns nil, the process is gone.
func (h *helper) end() error {
	_ = h.conn.Close() // nothing more to say to it; it may be closed already
	return endWorker(h.process)
}

// startLimit is how long a worker may take to start: to load a driver for the GPU
// and make a context.
const startLimit = 30 * time.Second

func (h *helper) greeting(in io.Reader) error {
	r, payload, err := readReply(in)
	switch {
	case err != nil:
		return fmt.Errorf("waiting for the renderer to start: %w", err)
	case r.number != 0:
		return errFrame
	case r.errno != 0:
		return errors.New(string(payload))
	}
	h.capsets, err = decodeCapsets(payload)
	return err
}

func readReply(in io.Reader) (reply, []byte, error) {
	var head [replyBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return reply{}, nil, err
	}
	r, err := decodeReply(head[:])
	if err != nil || r.payload == 0 {
		return r, nil, err
	}
	payload := make([]byte, r.payload)
	_, err = io.ReadFull(in, payload)
	return r, payload, err
}

// read passes replies on until the worker is gone. It never waits for those who
// take them, for they may be waiting for the worker.
func (h *helper) read(in io.Reader, looks bool) {
	for {
		r, _, err := readReply(in)
		h.due.Add(-1)
		h.mu.Lock()
		h.answers = append(h.answers, answer{r, err})
		h.mu.Unlock()
		select {
		case h.ready <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
		if looks {
			runtime.Gosched() // the pump goes on at once, and not on a processor that has to wake first
		}
	}
}

// take takes the answers that are there.
func (h *helper) take() []answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.answers
	h.answers = nil
	return all
}

// send sends a request with a payload and, unless it is -1, a descriptor. It
// returns the request's number.
func (h *helper) send(q *request, payload []byte, fd int) (uint64, error) {
	h.number++
	q.number, q.payload = h.number, uint32(len(payload))
	h.buf = append(q.append(h.buf[:0]), payload...)
	for len(h.buf)%8 != 0 {
		h.buf = append(h.buf, 0)
	}
	h.due.Add(1)
	if err := h.conn.SetWriteDeadline(time.Now().Add(h.limit)); err != nil {
		return 0, err
	}
	b := h.buf
	if fd >= 0 {
		n, _, err := h.conn.WriteMsgUnix(b, unix.UnixRights(fd), nil)
		if err != nil {
			return 0, err
		}
		b = b[n:]
	}
	if len(b) > 0 {
		if _, err := h.conn.Write(b); err != nil {
			return 0, err
		}
	}
	if cap(h.buf) > maxKept {
		h.buf = nil
	}
	return h.number, nil
}

// maxKept is how large a buffer is kept for the next request.
const maxKept = 1 << 20
