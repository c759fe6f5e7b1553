package virgl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/internal/unixsock"
)

// worker is the process that renders for one guest. All of it runs on one thread,
// as the library demands.
type worker struct {
	lib     *library
	socket  int
	memory  memory
	in      []byte // received and not yet run
	fds     []int  // received and not yet taken
	out     []byte // replies to send
	fences  []fence
	fence   uint32 // number of the last one
	pollFD  int32
	control []byte // room for control messages
	looks   looks
}

// fence is a fence that is out, and the request that waits for it.
type fence struct {
	id     uint32
	number uint64
}

// serve greets the backend and does what it asks until it hangs up.
func (w *worker) serve() error {
	w.control = make([]byte, unix.CmsgSpace(4*unixsock.MaxDescriptors))
	for {
		fds := []unix.PollFd{{Fd: int32(w.socket), Events: unix.POLLIN}, {Fd: w.pollFD, Events: unix.POLLIN}}
		if err := w.wait(fds); err != nil {
			return err
		}
		if fds[0].Revents != 0 {
			w.looks.active()
			if err := w.receive(); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			if err := w.run(); err != nil {
				return err
			}
		}
		if len(w.fences) > 0 || fds[1].Revents != 0 {
			w.signal()
		}
		if err := w.send(); err != nil {
			return err
		}
	}
}

// receive reads what has come.
func (w *worker) receive() error {
	const chunk = 256 << 10
	if cap(w.in)-len(w.in) < chunk {
		w.in = append(make([]byte, 0, 2*len(w.in)+2*chunk), w.in...)
	}
	n, oobn, _, _, err := unix.Recvmsg(w.socket, w.in[len(w.in):][:chunk], w.control, unix.MSG_CMSG_CLOEXEC)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil
	case errors.Is(err, unix.ECONNRESET):
		return io.EOF // the backend is gone and did not read everything
	case err != nil:
		return os.NewSyscallError("recvmsg", err)
	}
	if oobn > 0 {
		fds, err := unixsock.Descriptors(w.control[:oobn])
		if err != nil {
			return err
		}
		w.fds = append(w.fds, fds...)
	}
	if n == 0 {
		return io.EOF
	}
	w.in = w.in[:len(w.in)+n]
	return nil
}

// run runs all requests that are complete.
func (w *worker) run() error {
	b := w.in
	last := time.Now()
	for len(b) >= requestBytes {
		q, err := decodeRequest(b)
		if err != nil {
			return err
		}
		size := requestBytes + padded(int(q.payload))
		if len(b) < size {
			break
		}
		if err := w.do(&q, b[requestBytes:][:q.payload:q.payload]); err != nil {
			return err
		}
		b = b[size:]
		if len(w.out) > 0 && time.Since(last) > pollInterval { // somebody waits for it
			w.signal()
			if err := w.send(); err != nil {
				return err
			}
			last = time.Now()
		}
	}
	// A payload that was run is not used any more, so the rest can take its place.
	w.in = w.in[:copy(w.in, b)]
	return nil
}

// do runs one request and answers it, a fence excepted. An error is about the
// protocol and ends the worker.
func (w *worker) do(q *request, payload []byte) error {
	if q.op == opFence {
		return w.createFence(q.number)
	}
	code, err := operations[q.op].run(w, q, payload)
	if err != nil {
		return fmt.Errorf("asked to %v: %w", q.op, err)
	}
	r := reply{number: q.number, errno: unix.Errno(max(code, -code))}
	w.out = r.append(w.out)
	if len(w.out) > 64<<10 {
		return w.send()
	}
	return nil
}

// createFence makes a fence for what was submitted so far.
func (w *worker) createFence(number uint64) error {
	w.fence++
	if code := w.lib.createFence(int32(w.fence), 0); code != 0 {
		// A caller that waits must not be told that all is rendered.
		r := reply{number: number, errno: unix.Errno(max(code, -code))}
		w.out = r.append(w.out)
		return nil
	}
	w.fences = append(w.fences, fence{w.fence, number})
	return nil
}

// signal answers the fences that have retired. The library tells of the last one only.
func (w *worker) signal() {
	w.lib.poll()
	n := 0
	for n < len(w.fences) && int32(w.lib.retired-w.fences[n].id) >= 0 {
		r := reply{number: w.fences[n].number}
		w.out = r.append(w.out)
		n++
	}
	w.fences = w.fences[n:]
	if n > 0 {
		w.looks.active()
	}
}

// send sends all replies.
func (w *worker) send() error {
	for len(w.out) > 0 {
		n, err := unix.Write(w.socket, w.out)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
			w.out = nil // the backend is gone; receive returns that next
		case err != nil:
			return os.NewSyscallError("write", err)
		default:
			w.out = w.out[n:]
		}
	}
	w.out = w.out[:0:cap(w.out)]
	return nil
}

// operation is what a request can ask for. The code that run returns is an errno
// for the guest's command.
type operation struct {
	name string
	run  func(w *worker, q *request, payload []byte) (code int32, err error)
}

// operations has all requests but the fence, which is not answered at once.
var operations = [opEnd]operation{
	opMemory: {"map memory", func(w *worker, q *request, _ []byte) (int32, error) {
		if len(w.fds) == 0 {
			return 0, fmt.Errorf("%w: memory without a descriptor", errFrame)
		}
		fd := w.fds[0]
		w.fds = w.fds[1:]
		return 0, w.memory.mapRegion(q.words[0], join(q.words[1], q.words[2]), fd)
	}},
	opForget: {"unmap memory", func(w *worker, q *request, _ []byte) (int32, error) {
		return 0, w.memory.forget(q.words[0])
	}},
	opContextCreate: {"make a context", func(w *worker, q *request, name []byte) (int32, error) {
		if len(name) == 0 {
			name = []byte("?")
		}
		return w.lib.contextCreate(q.words[0], uint32(len(name)), &name[0]), nil
	}},
	opContextDestroy: {"end a context", func(w *worker, q *request, _ []byte) (int32, error) {
		w.lib.contextDestroy(q.words[0])
		return 0, nil
	}},
	opResourceCreate: {"make a resource", func(w *worker, q *request, _ []byte) (int32, error) {
		return w.lib.resourceCreate(&resourceArgs{handle: q.words[0], Args: argsOf(q.words[1:])}, 0, 0), nil
	}},
	opResourceDestroy: {"end a resource", func(w *worker, q *request, _ []byte) (int32, error) {
		w.detachBacking(q.words[0])
		w.lib.resourceUnref(q.words[0])
		return 0, nil
	}},
	opBackingAttach: {"attach pages", (*worker).attachBacking},
	opBackingDetach: {"detach pages", func(w *worker, q *request, _ []byte) (int32, error) {
		w.detachBacking(q.words[0])
		return 0, nil
	}},
	opAttach: {"attach a resource", func(w *worker, q *request, _ []byte) (int32, error) {
		w.lib.ctxAttach(q.words[0], q.words[1])
		return 0, nil
	}},
	opDetach: {"detach a resource", func(w *worker, q *request, _ []byte) (int32, error) {
		w.lib.ctxDetach(q.words[0], q.words[1])
		return 0, nil
	}},
	opToHost: {"transfer to the host", func(w *worker, q *request, _ []byte) (int32, error) {
		u := q.words
		return w.lib.transferWrite(u[1], u[0], int32(u[2]), u[3], u[4], boxOf(u[5:]), join(u[11], u[12]), 0, 0), nil
	}},
	opFromHost: {"transfer from the host", func(w *worker, q *request, _ []byte) (int32, error) {
		u := q.words
		return w.lib.transferRead(u[1], u[0], u[2], u[3], u[4], boxOf(u[5:]), join(u[11], u[12]), 0, 0), nil
	}},
	opRead: {"read pixels", (*worker).read},
	opSubmit: {"render", func(w *worker, q *request, cmd []byte) (int32, error) {
		if len(cmd) < 4 {
			return 0, nil
		}
		return w.lib.submit(&cmd[0], int32(q.words[0]), int32(len(cmd)/4)), nil
	}},
	opFence: {name: "wait for what is rendered"},
}

func argsOf(u []uint32) (a virtgpu.Args) {
	return virtgpu.Args{Target: u[0], Format: u[1], Bind: u[2], Width: u[3], Height: u[4], Depth: u[5],
		ArraySize: u[6], LastLevel: u[7], Samples: u[8], CreateFlag: u[9]}
}

func boxOf(u []uint32) *box { return &box{x: u[0], y: u[1], z: u[2], w: u[3], h: u[4], d: u[5]} }

// attachBacking gives a resource the guest's pages.
func (w *worker) attachBacking(q *request, payload []byte) (int32, error) {
	id := q.words[0]
	if len(payload) == 0 || len(payload)%spanBytes != 0 {
		return 0, fmt.Errorf("%w: %d bytes of spans", errFrame, len(payload))
	}
	if _, ok := w.memory.backings[id]; ok {
		return int32(unix.EBUSY), nil
	}
	spans := make([]span, 0, len(payload)/spanBytes)
	for ; len(payload) > 0; payload = payload[spanBytes:] {
		spans = append(spans, decodeSpan(payload))
	}
	list, err := w.memory.list(spans)
	if err != nil {
		return 0, err
	}
	if code := w.lib.resourceAttachIOV(id, list.address(), int32(list.n)); code != 0 {
		list.free()
		return code, nil
	}
	w.memory.backings[id] = list
	return 0, nil
}

// detachBacking takes the guest's pages from a resource that has some.
func (w *worker) detachBacking(id uint32) {
	if list, ok := w.memory.backings[id]; ok {
		w.lib.resourceDetachIOV(id)
		delete(w.memory.backings, id)
		list.free()
	}
}

// read copies pixels of a resource into memory of the backend.
func (w *worker) read(q *request, _ []byte) (int32, error) {
	u := q.words
	height, stride := uint64(u[4]), uint64(u[5])
	list, err := w.memory.list([]span{{region: u[6], off: join(u[7], u[8]), length: height * stride}})
	if err != nil {
		return 0, err
	}
	defer list.free()
	b := &box{x: u[1], y: u[2], w: u[3], h: u[4], d: 1}
	return w.lib.transferRead(u[0], 0, 0, u[5], 0, b, 0, list.address(), int32(list.n)), nil
}
