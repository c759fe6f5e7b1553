package capi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
	"pvdrm/internal/cudalibs"
)

// libraryEntry is the entry point through which the stubs of NVIDIA's libraries come (cudalibs.Stubs). It
// gets the index of a function and its arguments, and leaves in their place what the function
// returns, and in the last word that it did.
const libraryEntry = "cuPvdrmLibraryCall"

// answered is where an argument says that the first one is what the function returns.
const answered = MaxArgs - 1

// libraryCall calls a function of a library.
func libraryCall(c *call) error {
	f := cudalibs.All().Function(c.u32(0))
	if f == nil {
		return c.fail(cuda.ErrNotFound, "no function %d of a library; libraries and driver are of different versions of PVDRM", c.u32(0))
	}
	args := c.args[1 : 1+len(f.Params)]
	m := &libraryMaker{c: c, f: f, args: args}
	call := m.call
	switch {
	case f.Constant && f.Unhandled(args):
		call = m.constant
	case f.Mode != cudalibs.None && c.lib.driver.Load() == nil:
		return c.fail(notInitialized, "cuInit was not called") // the stub calls it
	}
	returned, err := call()
	switch {
	case f.Mode == cudalibs.Text && (err != nil || returned == 0):
		returned = c.lib.text("no text: the host's library was not asked")
	case f.Mode == cudalibs.Number && err != nil:
		returned = 0
	case errors.Is(err, invalidContext):
		return err // the stub makes a context current, and calls again
	case errors.Is(err, cudalibs.ErrHandle):
		returned = uint64(f.Library.Codes.Handle)
	case err != nil && returned == 0:
		returned = uint64(codeOf(f.Library, err))
	}
	c.args[0], c.args[answered] = returned, 1
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

// codeOf is the status of a library for an error of a call that did not reach it.
func codeOf(l *cudalibs.Library, err error) uint32 {
	var r cuda.Result
	if !errors.As(err, &r) {
		return l.Codes.Invalid
	}
	switch r {
	case cuda.ErrNotSupported:
		return l.Codes.Unsupported
	case cuda.ErrOutOfMemory:
		return l.Codes.Memory
	case cuda.ErrInvalidValue:
		return l.Codes.Invalid
	}
	return l.Codes.Failed
}

// libraryMaker makes one call.
type libraryMaker struct {
	c    *call
	f    *cudalibs.Function
	args []uint64
	x    *context

	key   cudalibs.Content // of a call that only answers
	known []byte           // what the library answered the last time
}

func (m *libraryMaker) call() (uint64, error) {
	f, l := m.f, &m.c.lib.libraries
	if f.Mode == cudalibs.None {
		return 0, m.c.fail(cuda.ErrNotSupported, "PVDRM does not support it: %s", f.Why)
	}
	l.mu.Lock()
	var answer *cuda.LibraryAnswer
	var made *cudalibs.Call
	err := m.findContext()
	switch {
	case err != nil:
	case f.Mode == cudalibs.Set || f.Mode == cudalibs.Get:
		err = m.state(l)
	default:
		made, answer, err = m.queue(l)
	}
	l.mu.Unlock()
	if err != nil || made == nil {
		return 0, err
	}
	if m.known != nil {
		return 0, made.Deliver(m.known, m.c.lib.cfg.Memory.Write)
	}
	returned := uint64(0)
	if answer != nil {
		if returned, err = m.results(made, answer); err != nil || returned != 0 && f.Mode != cudalibs.Number && f.Mode != cudalibs.Text {
			m.unmake(l, made)
			return returned, err
		}
	}
	if err := m.handOver(made); err != nil {
		return 0, err
	}
	return m.late(returned)
}

// findContext finds the context of a call: that of its first handle, or the current one.
func (m *libraryMaker) findContext() (err error) {
	for i, p := range m.f.Params {
		if p.Class != cudalibs.Use && p.Class != cudalibs.Destroy || m.f.Constant && m.args[i] == 0 {
			continue
		}
		h := m.c.lib.libraries.find(p.Kind, m.args[i])
		if h == nil {
			return cudalibs.ErrHandle
		}
		m.x = h.ctx
		return nil
	}
	m.x, err = m.c.current()
	return err
}

// state sets or answers a part of the state of a handle.
func (m *libraryMaker) state(l *libraries) error {
	f := m.f
	h := l.find(f.Params[0].Kind, m.args[0])
	if f.Mode == cudalibs.Set {
		if f.Slot >= 0 {
			words := m.args[1:]
			if f.Params[1].Class == cudalibs.Device {
				g := &libraryGuest{c: m.c, l: l, x: m.x}
				words = append([]uint64{}, words...)
				words[0], _, _ = g.Pointer(words[0])
			}
			h.SetSlot(f.Slot, words)
			return nil
		}
		if _, err := m.c.streamWith(m.x, m.args[1]); err != nil {
			return err
		}
		h.stream = m.args[1]
		h.ResetByStream()
		return nil
	}
	value := h.stream
	if f.Slot >= 0 {
		if value = 0; h.Set&(1<<f.Slot) != 0 {
			value = h.Slot[f.Slot][0]
		}
	}
	n, err := f.Bytes(1, m.args)
	if err != nil || m.args[1] == 0 {
		return m.c.fail(cuda.ErrInvalidValue, "a null pointer")
	}
	return m.c.lib.cfg.Memory.Write(m.args[1], binary.LittleEndian.AppendUint64(nil, value)[:n])
}

// queue encodes a call and queues it, unless it is one that waits for another.
//
// Preconditions: l.mu is held.
func (m *libraryMaker) queue(l *libraries) (made *cudalibs.Call, answer *cuda.LibraryAnswer, err error) {
	f := m.f
	if mask := m.x.Device().Libraries(); mask&(1<<f.Library.Number) == 0 && !(f.Constant && mask != 0) {
		return nil, nil, m.lacks(mask)
	}
	if made, err = f.Encode(m.args, &libraryGuest{c: m.c, l: l, x: m.x}); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			m.drop(l, made)
		}
	}()
	if f.Pure {
		m.key = made.Key()
		if m.known = l.answers[answerKey{m.x, m.key}]; m.known != nil {
			return made, nil, nil
		}
	}
	if h := made.Destroyed; h != nil && l.of(h).graphs {
		delete(l.handles, l.of(h).key) // for the program; the graph still has it
		return made, nil, nil
	}
	switch {
	case made.Late:
		made.Tell()
		return made, nil, m.wait(l, made)
	case f.Mode == cudalibs.Control && !f.Pure && m.changes():
		l.changes++
		made.Unlike(l.changes)
	}
	var s *cuda.Stream
	if f.Mode == cudalibs.Async || f.Mode == cudalibs.Sync {
		if s, err = m.c.streamWith(m.x, m.streamOf(l, made)); err != nil {
			return nil, nil, err
		}
		if done, err := m.capture(l, made, s); done || err != nil {
			return made, nil, err
		}
	}
	answer, err = m.send(l, made, s)
	return made, answer, err
}

// lacks is the error of a library that the host does not have.
func (m *libraryMaker) lacks(mask uint64) error {
	name := m.f.Library.Names[0]
	if mask == 0 {
		return m.c.fail(cuda.ErrNotSupported, "%s is NVIDIA's, and the device calls none of its libraries: that needs --device cuda and the libraries on the host (--cuda-libs)", name)
	}
	return m.c.fail(cuda.ErrNotSupported, "the host has no %s that guests can call; install it there, or name its directory with --cuda-libs; of one that does not work the backend says why", name)
}

// streamOf is the stream of a call as the program names it.
func (m *libraryMaker) streamOf(l *libraries, made *cudalibs.Call) uint64 {
	if m.f.StreamParam() >= 0 {
		return made.Stream
	}
	if len(made.Used) > 0 {
		return l.of(made.Used[0]).stream
	}
	return 0
}

// changes reports whether a call changes the handles that it uses: what is not known to only read
// them does.
func (m *libraryMaker) changes() bool {
	return m.f.Mode == cudalibs.Late || m.f.Mode == cudalibs.Control && !m.f.Pure && m.f.Primary() != 0
}

// wait keeps a record for the next call.
func (m *libraryMaker) wait(l *libraries, made *cudalibs.Call) error {
	if l.waiting == nil {
		l.waiting = map[*context]*waitingCalls{}
	}
	w := l.waiting[m.x]
	if w == nil {
		w = &waitingCalls{}
		l.waiting[m.x] = w
	}
	w.records = append(w.records, made.Record...)
	for _, h := range m.touched(l, made) {
		w.touched = append(w.touched, h)
		w.after = append(w.after, h.follows(nil, true)...)
	}
	if h := made.Destroyed; h != nil {
		delete(l.handles, l.of(h).key)
	}
	if len(w.records) < maxWaiting {
		return nil
	}
	return m.flush(l)
}

// touched are the handles of a call.
func (m *libraryMaker) touched(l *libraries, made *cudalibs.Call) (all []*libraryHandle) {
	for _, h := range made.Used {
		if of := l.of(h); of != nil {
			all = append(all, of)
		}
	}
	for _, n := range made.Made {
		all = append(all, l.of(n.Handle))
	}
	return all
}

// flush queues the records that wait.
func (m *libraryMaker) flush(l *libraries) error {
	w := l.waiting[m.x]
	if w == nil || len(w.records) == 0 {
		return nil
	}
	at, err := m.x.QueueLibrary(cuda.LibraryCall{Name: m.f.Name, Function: m.f.Index, Args: batchOf(w.records), After: w.after})
	if err != nil {
		return err
	}
	w.sent(nil, at)
	return nil
}

// sent notes that what waits was queued on a stream.
func (w *waitingCalls) sent(s *cuda.Stream, at cuda.Point) {
	for _, h := range w.touched {
		h.touch(s, at, true)
	}
	w.records, w.touched, w.after = w.records[:0], w.touched[:0], w.after[:0]
}

// send queues a call, with those that wait, on a stream, or on none.
func (m *libraryMaker) send(l *libraries, made *cudalibs.Call, s *cuda.Stream) (answer *cuda.LibraryAnswer, err error) {
	if w := l.waiting[m.x]; w != nil && len(w.records)+len(made.Record)+cudalibs.BatchHead > drm.MaxInlineCall {
		if err := m.flush(l); err != nil {
			return nil, err
		}
	}
	w := l.waiting[m.x]
	if w == nil {
		w = &waitingCalls{}
	}
	after := w.after
	handles := m.touched(l, made)
	for _, h := range handles {
		after = append(after, h.follows(s, m.changes())...)
	}
	lc := cuda.LibraryCall{Name: m.f.Name, Function: m.f.Index, Args: batchOf(w.records, made.Record), Stream: s, After: after}
	var at cuda.Point
	send := func() error {
		if !made.Waits {
			at, err = m.x.QueueLibrary(lc)
			return err
		}
		if answer, err = m.x.AskLibrary(lc, made.Results); err == nil {
			at = answer.Point()
		}
		return err
	}
	if s == nil {
		err = send()
	} else {
		err = m.c.settle(m.x, s, send)
	}
	if err != nil {
		return nil, err
	}
	w.sent(s, at)
	for _, h := range handles {
		h.touch(s, at, m.changes())
	}
	return answer, nil
}

// capture makes a call a node of the graph that captures its stream, if one does.
func (m *libraryMaker) capture(l *libraries, made *cudalibs.Call, s *cuda.Stream) (done bool, err error) {
	g := &m.c.lib.graphs
	if g.watched.Load() != watchAll {
		return false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	done, err = m.c.of(m.streamOf(l, made)).forCaptured(g, captureRule{stream: 0, take: func(c *call, g *graphs, _ *context, s *cuda.Stream) error {
		if made.Waits {
			g.captures.Of(s).Invalidate()
			return m.c.fail(captureUnsupported, "%s returns results, and its stream is captured", m.f.Name)
		}
		if err := m.flush(l); err != nil { // what waits is not of the graph
			return err
		}
		for _, h := range m.touched(l, made) {
			h.graphs = true
		}
		lc := cuda.LibraryCall{Name: m.f.Name, Function: m.f.Index, Args: batchOf(made.Record)}
		return put(g, s, graph.Empty, &libraryWork{x: m.x, call: lc, bytes: len(lc.Args)})
	}})
	return done, m.c.graphError(err)
}

// results takes the results of a call: what the function returned, and its memory.
func (m *libraryMaker) results(made *cudalibs.Call, answer *cuda.LibraryAnswer) (uint64, error) {
	b, err := answer.Await()
	if err != nil {
		return 0, err
	}
	head := cudalibs.ReadHead(b)
	if head.Refused() {
		return uint64(head.Status), m.c.fail(cuda.ErrNotSupported, "%w", head.Reason())
	}
	if head.Earlier != 0 {
		m.c.lib.tellLate(head)
	}
	if m.f.Mode == cudalibs.Text {
		if text, ok := textOf(b); ok {
			return m.c.lib.text(text), nil
		}
		return 0, nil
	}
	if err := made.Deliver(b, m.c.lib.cfg.Memory.Write); err != nil {
		return 0, err
	}
	if m.f.Pure && head.Status == 0 && head.Earlier == 0 {
		m.c.lib.libraries.learn(answerKey{m.x, m.key}, b)
	}
	switch {
	case m.f.Mode == cudalibs.Number:
		return head.Returned, nil
	case head.Status == 0 && head.Earlier != 0 && cudalibs.All().Function(head.Function).Library == m.f.Library:
		return uint64(head.Earlier), nil // of a call that this one depends on, as likely as not
	}
	return uint64(head.Status), nil
}

// textOf is the text in the results of a function that returns one.
func textOf(results []byte) (string, bool) {
	text, _, ok := bytes.Cut(results[len(results)-cudalibs.MaxText:], []byte{0})
	return string(text), ok
}

// handOver gives the program the handles that a call has made.
func (m *libraryMaker) handOver(made *cudalibs.Call) error {
	for _, n := range made.Made {
		if err := m.c.lib.cfg.Memory.Write(n.Addr, m.c.lib.libraries.handleBytes(n.Handle)); err != nil {
			return err
		}
	}
	return nil
}

func (l *libraries) handleBytes(h *cudalibs.Handle) []byte {
	return (&libraryHandle{Handle: *h, key: l.keyOf(h.Kind, h.ID)}).bytes()
}

// unmake forgets handles that were not made.
func (m *libraryMaker) unmake(l *libraries, made *cudalibs.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.drop(l, made)
}

func (m *libraryMaker) drop(l *libraries, made *cudalibs.Call) {
	for _, n := range made.Made {
		delete(l.handles, l.keyOf(n.Handle.Kind, n.Handle.ID))
	}
}

// late returns the error of an earlier call of the same library that was not waited for.
func (m *libraryMaker) late(returned uint64) (uint64, error) {
	b := m.x.LateLibraryError()
	if b == nil {
		return returned, nil
	}
	head := cudalibs.ReadHead(b)
	m.c.lib.tellLate(head)
	f := cudalibs.All().Function(head.Function)
	if f == nil || f.Library != m.f.Library || returned != 0 || m.f.Mode == cudalibs.Number || m.f.Mode == cudalibs.Text {
		return returned, nil
	}
	return uint64(head.Earlier), nil
}

// tellLate logs a call that failed after the program had gone on.
func (l *Library) tellLate(head cudalibs.Head) {
	if f := cudalibs.All().Function(head.Function); f != nil && (l.logErrs || l.logAll) {
		l.cfg.Logf("%s returned %d after the program had gone on", f.Name, head.Earlier)
	}
}
