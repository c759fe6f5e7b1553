package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"pvdrm/internal/cudalibs"
)

// Bounds of what a guest has in its worker.
const (
	maxHandles = 1 << 20
	maxKept    = 1 << 20 // numbers that live as long as a handle
	maxWork    = 1 << 30 // bytes for functions to work in
)

// Machine runs the calls of one guest process. See the package comment.
type Machine struct {
	libraries *Libraries
	invoker   *invoker
	objects   map[uint32]*object
	arena     arena // of kept numbers
	kept      int

	record  []byte // private copy of the calls, not memory of Go
	results []byte // where functions write, likewise
	work    []byte // where functions work
	busy    func() error

	spares map[*cudalibs.Library]uint64 // handles that wait for the guest, at most one of each library

	inv    cudalibs.Invocation
	waited bool // the guest waits for the results of the batch
}

// object is what a library returned for a handle.
type object struct {
	kind    *cudalibs.Kind
	real    uint64
	streams bool // a stream was set
	stream  uint64
	applied cudalibs.State // what was set of its state
	kept    []uint64
}

// NewMachine makes a machine. Wait waits until the GPU has done all work of the context.
func NewMachine(l *Libraries, wait func() error) (*Machine, error) {
	v, err := newInvoker()
	if err != nil {
		return nil, err
	}
	return &Machine{libraries: l, invoker: v, objects: map[uint32]*object{}, spares: map[*cudalibs.Library]uint64{}, busy: wait}, nil
}

// Warm has each library make a handle, so that it starts: it opens files, and makes what a confined
// process cannot. The handle is kept for the guest or destroyed. A library that does not start is not there.
func (m *Machine) Warm() error { return m.start("") }

// Recheck is for a process that is confined now. A library that can make no handle any more is not there.
func (m *Machine) Recheck() error {
	return m.start(" in a confined worker: gpu/nvidia/record finds out which requests its filter would have to allow; --sandbox=off goes without the filter")
}

func (m *Machine) start(why string) error {
	var err error
	if m.results, err = grow(m.results, 8); err != nil {
		return err
	}
	for _, lib := range cudalibs.All().Libraries {
		if m.libraries.handles[lib] == 0 || lib.Warm == nil || m.spares[lib] != 0 {
			continue
		}
		if status := m.warm(lib.Warm); status != 0 {
			m.libraries.lose(lib, fmt.Errorf("%s returned %d%s", lib.Warm.Make.Name, status, why))
		}
	}
	return nil
}

func (m *Machine) warm(w *cudalibs.Warm) uint32 {
	begin, refused := m.libraries.symbol(w.Make)
	end, also := m.libraries.symbol(w.Destroy)
	if refused != 0 || also != 0 {
		return w.Make.Library.Code(max(refused, also))
	}
	clear(m.results[:8])
	args := []cudalibs.Argument{{Word: addressOf(m.results)}}
	for _, n := range w.Numbers {
		args = append(args, cudalibs.Argument{Word: n})
	}
	if status := uint32(m.invoker.call(begin, args)); status != 0 {
		return status
	}
	handle := binary.LittleEndian.Uint64(m.results)
	if w.Keep && handle != 0 {
		m.spares[w.Make.Library] = handle
		return 0
	}
	return uint32(m.invoker.call(end, []cudalibs.Argument{{Word: handle}}))
}

// Outcome is what became of a batch.
type Outcome struct {
	Status   uint32 // of the last call
	Refused  cudalibs.Refusal
	Earlier  uint32 // status of the first other call that failed
	Function uint32 // and which that was
	Returned uint64 // by the last function
	Failed   uint32 // the function of Status
}

// Bad reports whether any call failed.
func (o *Outcome) Bad() bool { return o.Status != 0 || o.Earlier != 0 }

// Run copies a batch and runs its calls on a stream. Results is where results go, if the last call has
// any; they are written at once, the head last.
func (m *Machine) Run(batch, results []byte, stream uint64) Outcome {
	o := m.run(batch, results, stream)
	if len(results) < cudalibs.ResultHead {
		return o
	}
	if !m.waited {
		if o.Bad() && binary.LittleEndian.Uint64(results) == 0 { // the guest takes one such error at a time
			if o.Status != 0 {
				o.Earlier, o.Function = o.Status, o.Failed
			}
			m.head(results, &o)
		}
		return o
	}
	copy(results[cudalibs.ResultHead:], m.results[cudalibs.ResultHead:min(uint64(len(results)), max(m.inv.Results, cudalibs.ResultHead))])
	m.head(results, &o)
	return o
}

// head writes the head of results. Who polls for it sees the flags last.
func (m *Machine) head(results []byte, o *Outcome) {
	flags := uint32(cudalibs.ResultDone)
	if o.Refused != 0 {
		flags |= cudalibs.ResultRefused
		o.Returned = uint64(o.Refused)
	}
	binary.LittleEndian.PutUint32(results[8:], o.Earlier)
	binary.LittleEndian.PutUint32(results[12:], o.Function)
	binary.LittleEndian.PutUint64(results[16:], o.Returned)
	publish(results, o.Status, flags)
}

func (m *Machine) run(batch, results []byte, stream uint64) (o Outcome) {
	m.inv.Results, m.waited = 0, true
	if err := m.take(batch, len(results)); err != nil || len(batch) < cudalibs.BatchHead {
		return Outcome{Status: 1, Refused: cudalibs.RefusedForm}
	}
	rest := m.record[cudalibs.BatchHead:len(batch)]
	if binary.LittleEndian.Uint64(m.record) != cudalibs.All().Sum {
		return Outcome{Status: 1, Refused: cudalibs.RefusedTable}
	}
	for {
		f, record, more, err := cudalibs.Split(rest)
		if err != nil {
			return Outcome{Status: 1, Refused: cudalibs.RefusedForm, Earlier: o.Earlier, Function: o.Function}
		}
		rest = more
		last := len(rest) == 0
		m.inv.Waits = false
		status, returned, refused := m.call(f, record, uint64(len(results)), stream)
		if refused != 0 {
			status = f.Library.Code(refused)
		}
		if last {
			o.Status, o.Refused, o.Returned, o.Failed = status, refused, returned, f.Index
			m.waited = m.inv.Waits || f.Mode != cudalibs.Async && f.Mode != cudalibs.Late && !cudalibs.WaitsNot(record)
			return o
		}
		if status != 0 && o.Earlier == 0 {
			o.Earlier, o.Function = status, f.Index
		}
	}
}

// take copies a batch to where it does not change, and makes room for results.
func (m *Machine) take(batch []byte, results int) (err error) {
	if m.record, err = grow(m.record, len(batch)); err != nil {
		return err
	}
	if m.results, err = grow(m.results, results); err != nil {
		return err
	}
	copy(m.record, batch)
	return nil
}

// grow returns memory of at least n bytes that Go does not have. What was in it is lost.
func grow(b []byte, n int) ([]byte, error) {
	const least = 64 << 10
	if n <= len(b) {
		return b, nil
	}
	size := max(least, n)
	fresh, err := unix.Mmap(-1, 0, (size+least-1)&^(least-1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return b, fmt.Errorf("%d bytes for calls: %w", n, err)
	}
	if b != nil {
		_ = unix.Munmap(b) // our own
	}
	return fresh, nil
}

// call makes one call.
func (m *Machine) call(f *cudalibs.Function, record []byte, room, stream uint64) (status uint32, returned uint64, refused cudalibs.Refusal) {
	if f.Mode == cudalibs.None || f.Mode == cudalibs.Set || f.Mode == cudalibs.Get {
		return 0, 0, cudalibs.RefusedMode
	}
	fn, refused := m.libraries.symbol(f)
	if refused != 0 {
		return 0, 0, refused
	}
	inv := &m.inv
	if err := f.Decode(inv, record, addressOf(record), addressOf(m.results), cudalibs.ResultHead, room, m); err != nil {
		return 0, 0, refusal(err)
	}
	if inv.Ends != 0 && !slices.ContainsFunc(f.Params, func(p cudalibs.Param) bool {
		return p.Class == cudalibs.Destroy && p.Kind == m.objects[inv.Ends].kind
	}) {
		return 0, 0, cudalibs.RefusedHandle
	}
	for _, made := range inv.Made {
		if m.objects[made.ID] != nil || made.ID == 0 {
			return 0, 0, cudalibs.RefusedHandle
		}
		if len(m.objects) >= maxHandles {
			return 0, 0, cudalibs.RefusedFull
		}
		binary.LittleEndian.PutUint64(record[made.At:], 0)
	}
	if status := m.apply(f, inv, stream); status != 0 {
		return status, 0, 0
	}
	for i, p := range f.Params {
		if p.Class == cudalibs.Stream {
			inv.Args[i].Word = stream
		}
	}
	for _, c := range inv.Copies {
		copy(m.results[c.To:][:c.Bytes], record[c.From:])
	}
	if m.spare(f, inv, record) {
		return 0, 0, 0
	}
	returned = m.invoker.call(fn, inv.Args[:len(f.Params)])
	switch f.Mode {
	case cudalibs.Number:
		return 0, returned, 0
	case cudalibs.Text:
		text := textAt(returned, cudalibs.MaxText-1)
		at := inv.Results - cudalibs.MaxText
		clear(m.results[at:][:cudalibs.MaxText])
		copy(m.results[at:], text)
		return 0, 0, 0
	}
	status = uint32(returned)
	m.settle(inv, record, status)
	return status, returned, 0
}

// spare makes a call that makes or destroys a handle of which one is kept, without the library. It
// returns false where the library has to.
func (m *Machine) spare(f *cudalibs.Function, inv *cudalibs.Invocation, record []byte) bool {
	lib := f.Library
	switch w := lib.Warm; {
	case w == nil || !w.Keep:
		return false
	case f == w.Make && m.spares[lib] != 0:
		binary.LittleEndian.PutUint64(record[inv.Made[0].At:], m.spares[lib])
		delete(m.spares, lib)
	case f == w.Destroy && m.spares[lib] == 0 && m.reset(m.objects[inv.Ends]):
		m.spares[lib] = m.objects[inv.Ends].real
	default:
		return false
	}
	m.settle(inv, record, 0)
	return true
}

// reset gives a handle the state of a new one.
func (m *Machine) reset(o *object) bool {
	stream := o.streams
	for i, s := range o.kind.Slots {
		switch applied := o.applied.Set&(1<<i) != 0; {
		case applied && s.Reset:
			stream = true // it goes with the stream
		case applied && m.set(s.Setter, o, s.Default...) != 0:
			return false
		}
	}
	set := o.kind.Library.SetStream(o.kind)
	return set == nil || !stream || m.set(set, o, 0) == 0
}

// settle notes handles that a call has made or destroyed.
func (m *Machine) settle(inv *cudalibs.Invocation, record []byte, status uint32) {
	if status != 0 {
		return
	}
	for _, made := range inv.Made {
		actual := binary.LittleEndian.Uint64(record[made.At:])
		if made.Kind.Int {
			actual = uint64(uint32(actual))
		}
		m.objects[made.ID] = &object{kind: made.Kind, real: actual}
	}
	if inv.Ends != 0 {
		m.forget(inv.Ends)
	}
}

func (m *Machine) forget(id uint32) {
	o := m.objects[id]
	delete(m.objects, id)
	m.kept -= len(o.kept)
	m.arena.free = append(m.arena.free, o.kept...)
}

// apply sets what differs of the state of the handle of a call.
func (m *Machine) apply(f *cudalibs.Function, inv *cudalibs.Invocation, stream uint64) uint32 {
	o := m.objects[inv.State.ID]
	if o == nil {
		return 0
	}
	st, slots := &inv.State, o.kind.Slots
	if o.kind.Streams && (f.Mode == cudalibs.Async || f.Mode == cudalibs.Sync) {
		lost := false // the program has set the stream again, and with it the default
		for i, s := range slots {
			lost = lost || s.Reset && o.applied.Set&^st.Set&(1<<i) != 0
		}
		if !o.streams || o.stream != stream || lost {
			if status := m.set(f.Library.SetStream(o.kind), o, stream); status != 0 {
				return status
			}
			o.streams, o.stream = true, stream
			for i, s := range slots {
				if s.Reset {
					o.applied.Set &^= 1 << i
				}
			}
		}
	}
	for i, s := range slots {
		bit := uint64(1) << i
		if st.Set&bit == 0 || o.applied.Set&bit != 0 && o.applied.Slot[i] == st.Slot[i] {
			continue
		}
		if status := m.set(s.Setter, o, st.Slot[i][:s.Words]...); status != 0 {
			return status
		}
		o.applied.Set |= bit
		o.applied.Slot[i] = st.Slot[i]
	}
	return 0
}

// set calls a setter of a handle.
func (m *Machine) set(f *cudalibs.Function, o *object, words ...uint64) uint32 {
	fn, refused := m.libraries.symbol(f)
	if refused != 0 {
		return f.Library.Code(refused)
	}
	args := make([]cudalibs.Argument, 0, 4)
	args = append(args, cudalibs.Argument{Word: o.real})
	for _, w := range words {
		args = append(args, cudalibs.Argument{Word: w})
	}
	return uint32(m.invoker.call(fn, args))
}

// refusal is why a record was not decoded.
func refusal(err error) cudalibs.Refusal {
	switch {
	case errors.Is(err, cudalibs.ErrHandle):
		return cudalibs.RefusedHandle
	case errors.Is(err, cudalibs.ErrForm):
		return cudalibs.RefusedForm
	}
	return cudalibs.RefusedFull
}

// Real implements cudalibs.Host.
func (m *Machine) Real(k *cudalibs.Kind, id uint32) (uint64, bool) {
	o := m.objects[id]
	if o == nil || !k.Takes(o.kind) {
		return 0, false
	}
	return o.real, true
}

var errFull = errors.New("too much memory for calls")

// Work implements cudalibs.Host. The functions that need it may go on after the call, so it is used
// again when the GPU is idle.
func (m *Machine) Work(n uint64) (uint64, error) {
	if n > maxWork {
		return 0, errFull
	}
	if err := m.busy(); err != nil {
		return 0, err
	}
	var err error
	m.work, err = grow(m.work, int(n))
	if err != nil || len(m.work) == 0 {
		return 0, err
	}
	return addressOf(m.work), nil
}

// Keep implements cudalibs.Host.
func (m *Machine) Keep(id uint32, number [cudalibs.ScalarBytes]byte) (uint64, error) {
	o := m.objects[id]
	if o == nil || m.kept >= maxKept {
		return 0, errFull
	}
	at, err := m.arena.keep(number)
	if err == nil {
		m.kept++
		o.kept = append(o.kept, at)
	}
	return at, err
}

// arena is memory for numbers that functions read later. It only grows.
type arena struct {
	page []byte
	free []uint64 // addresses
}
