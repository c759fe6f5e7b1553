package capi

import (
	"encoding/binary"
	"fmt"
	"sync"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/internal/cudalibs"
	"pvdrm/internal/progmem"
)

// libraries is what a Library knows of NVIDIA's libraries, which the host calls for the program.
type libraries struct {
	mu      sync.Mutex // all below, and the order in which records and calls are queued
	handles map[libraryKey]*libraryHandle
	last    uint32
	changes uint64 // of descriptors, in ways that are not known
	waiting map[*context]*waitingCalls
	answers map[answerKey][]byte // of functions that only answer: their results
}

// answerKey is a question to a library in a context.
type answerKey struct {
	x   *context
	key cudalibs.Content
}

// libraryKey is what the program has for a handle: a number that looks like a pointer, or for plans a small
// one.
type libraryKey struct {
	value uint64
	plans *cudalibs.Kind // nil: not a plan
}

// libraryHandle is a handle of a library.
type libraryHandle struct {
	cudalibs.Handle
	ctx    *context
	key    libraryKey
	stream uint64 // as the program gave it

	changed cuda.Point                  // the last call that changed it
	used    map[*cuda.Stream]cuda.Point // the last calls that used it, by stream
	graphs  bool                        // a graph uses it, for as long as the context lives
}

// waitingCalls are records that go with the next call of a context.
type waitingCalls struct {
	records []byte
	touched []*libraryHandle // by them
	after   []cuda.Point
}

// Bounds of a process's part.
const (
	maxLibraryHandles = 1 << 20
	maxWaiting        = 2048 // bytes of records
	maxAnswers        = 4096

	libraryHandleBase = 0x5057_0000_0000
)

// libraryGuest implements cudalibs.Guest for a call.
type libraryGuest struct {
	c *call
	l *libraries
	x *context
}

// Read implements cudalibs.Guest.
func (g *libraryGuest) Read(p []byte, addr uint64) error { return g.c.lib.cfg.Memory.Read(p, addr) }

// Text implements cudalibs.Guest.
func (g *libraryGuest) Text(addr uint64) ([]byte, error) {
	return progmem.ReadString(g.c.lib.cfg.Memory, addr, maxText)
}

// Pointer implements cudalibs.Guest.
func (g *libraryGuest) Pointer(addr uint64) (va uint64, device, pinned bool) {
	if addr == 0 {
		return 0, false, false
	}
	if h, off := g.x.HostMemAt(addr, 1); h != nil {
		return uint64(h.DevicePtr()) + off, true, true
	}
	return addr, g.x.OnDevice(addr), false
}

// Use implements cudalibs.Guest.
func (g *libraryGuest) Use(k *cudalibs.Kind, value uint64) *cudalibs.Handle {
	if h := g.l.find(k, value); h != nil && h.ctx == g.x {
		return &h.Handle
	}
	return nil
}

// find finds a handle of a kind.
func (l *libraries) find(k *cudalibs.Kind, value uint64) *libraryHandle {
	key := libraryKey{value: value}
	if k.Int {
		key = libraryKey{value: uint64(uint32(value)), plans: k}
	}
	if h := l.handles[key]; h != nil && k.Takes(h.Kind) {
		return h
	}
	return nil
}

// of is the handle that a record has.
func (l *libraries) of(h *cudalibs.Handle) *libraryHandle {
	return l.handles[l.keyOf(h.Kind, h.ID)]
}

func (l *libraries) keyOf(k *cudalibs.Kind, id uint32) libraryKey {
	if k.Int {
		return libraryKey{value: uint64(id), plans: k}
	}
	return libraryKey{value: libraryHandleBase + uint64(id)*handleStep}
}

// Make implements cudalibs.Guest. The handle is one when the call has been made.
func (g *libraryGuest) Make(k *cudalibs.Kind) (*cudalibs.Handle, error) {
	l := g.l
	if len(l.handles) >= maxLibraryHandles || l.last == 1<<31-1 {
		return nil, fmt.Errorf("more than %d handles of libraries", maxLibraryHandles)
	}
	l.last++
	h := &libraryHandle{Handle: cudalibs.Handle{Kind: k, ID: l.last}, ctx: g.x}
	h.key = l.keyOf(k, h.ID)
	if l.handles == nil {
		l.handles = map[libraryKey]*libraryHandle{}
	}
	l.handles[h.key] = h
	return &h.Handle, nil
}

// bytes is the value for the program.
func (h *libraryHandle) bytes() []byte {
	b := binary.LittleEndian.AppendUint64(nil, h.key.value)
	if h.Kind.Int {
		return b[:4]
	}
	return b
}

// follows lists what a call must follow that uses a handle on a stream, or changes it.
func (h *libraryHandle) follows(s *cuda.Stream, changes bool) (after []cuda.Point) {
	if !h.changed.Zero() && !h.changed.On(s) {
		after = append(after, h.changed)
	}
	if changes {
		for _, p := range h.used {
			if !p.On(s) {
				after = append(after, p)
			}
		}
	}
	return after
}

// touch notes a call.
func (h *libraryHandle) touch(s *cuda.Stream, at cuda.Point, changes bool) {
	if changes {
		h.changed = at
		clear(h.used)
		return
	}
	if h.used == nil {
		h.used = map[*cuda.Stream]cuda.Point{}
	}
	h.used[s] = at
}

// learn keeps the answer to a question. Programs ask the same few, so when there is no room for more, all go.
func (l *libraries) learn(k answerKey, results []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers == nil || len(l.answers) >= maxAnswers {
		l.answers = map[answerKey][]byte{}
	}
	l.answers[k] = results
}

// dropLibraries forgets what belongs to a context that has ended.
func (l *Library) dropLibraries(x *context) {
	l.libraries.mu.Lock()
	defer l.libraries.mu.Unlock()
	for key, h := range l.libraries.handles {
		if h.ctx == x {
			delete(l.libraries.handles, key)
		}
	}
	delete(l.libraries.waiting, x)
	for k := range l.libraries.answers {
		if k.x == x {
			delete(l.libraries.answers, k)
		}
	}
}

// libraryWork is a call of a library in a graph.
type libraryWork struct {
	x     *context
	call  cuda.LibraryCall
	bytes int
}

func (w *libraryWork) add(b *cuda.Batch) error {
	return b.Add(func(s *cuda.Stream) error {
		l := w.call
		l.Stream = s
		_, err := w.x.QueueLibrary(l)
		return err
	})
}

// batchOf is a batch of records.
func batchOf(records ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, drm.MaxInlineCall), cudalibs.All().Sum)
	for _, r := range records {
		b = append(b, r...)
	}
	return b
}
