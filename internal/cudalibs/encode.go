package cudalibs

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Guest is what an encoder asks of the program's side.
type Guest interface {
	// Read copies memory of the program.
	Read(p []byte, addr uint64) error
	// Text reads a C string.
	Text(addr uint64) ([]byte, error)
	// Pointer turns an address of the program into one for the GPU. Device is false where only the
	// program's processors reach it.
	Pointer(addr uint64) (va uint64, device, pinned bool)
	// Use finds the handle that a value of the program means. It is nil where there is none.
	Use(k *Kind, value uint64) *Handle
	// Make makes a handle that a call is to create.
	Make(k *Kind) (*Handle, error)
}

// Handle is a handle of the program. The guest's side owns it.
type Handle struct {
	Kind *Kind
	ID   uint32 // not 0
	Set  uint64 // a bit for each slot that was set
	Slot [maxSlots][slotWords]uint64

	Number  uint32 // the first integer of the call that makes it, such as the type of a descriptor
	Content Content
}

// SetSlot sets a part of the state.
func (h *Handle) SetSlot(i int, words []uint64) {
	copy(h.Slot[i][:], words)
	h.Set |= 1 << i
}

// ResetByStream unsets what goes with the stream.
func (h *Handle) ResetByStream() {
	for i, s := range h.Kind.Slots {
		if s.Reset {
			h.Set &^= 1 << i
		}
	}
}

// Output is memory of the program that a call writes.
type Output struct {
	Addr  uint64 // 0: the program does not want it
	Bytes uint64
	At    uint64 // in the results
	Each  uint64 // bytes of an element, where the output before this one is how many the function wrote; else 0
}

// Made is a handle that a call creates, and where the program wants it.
type Made struct {
	Handle *Handle
	Addr   uint64
}

// Call is an encoded call.
type Call struct {
	Function  *Function
	Record    []byte
	Outputs   []Output
	Results   uint64 // bytes of results, ResultHead included
	Made      []Made
	Used      []*Handle // all of them; that of Function.Primary first
	Destroyed *Handle
	Stream    uint64 // the value of the stream argument, if StreamParam is one
	Waits     bool   // the program waits for results
	Late      bool   // it goes with the next call

	placed []placed
}

// Deliver has write take each output of a call from its results to the program. A function that finds fewer
// elements than the program has asked for writes only those: the program may have room for no more.
func (c *Call) Deliver(results []byte, write func(addr uint64, p []byte) error) error {
	for i, out := range c.Outputs {
		n := out.Bytes
		if out.Each != 0 {
			n = min(n/out.Each, binary.LittleEndian.Uint64(results[c.Outputs[i-1].At:])) * out.Each
		}
		if out.Addr == 0 || n == 0 {
			continue
		}
		if err := write(out.Addr, results[out.At:][:n]); err != nil {
			return err
		}
	}
	return nil
}

// ErrHandle is the error of a handle that is none.
var ErrHandle = errors.New("not a handle of this library")

// Encode encodes a call with the arguments in the order of the parameters: integers and addresses as
// they are, floats as their bits.
func (f *Function) Encode(args []uint64, g Guest) (*Call, error) {
	if len(args) < len(f.Params) {
		return nil, fmt.Errorf("%s: %d arguments for %d parameters", f.Name, len(args), len(f.Params))
	}
	c := &Call{Function: f, Results: ResultHead, Late: f.Mode == Late}
	c.Record = binary.LittleEndian.AppendUint32(make([]byte, 0, 16*len(args)+64), f.Index)
	c.Record = binary.LittleEndian.AppendUint32(c.Record, 0)
	e := encoder{Call: c, guest: g, args: args, primary: f.Primary()}
	for i, p := range f.Params {
		if err := e.param(i, p); err != nil {
			return nil, fmt.Errorf("%s: argument %d: %w", f.Name, i+1, err)
		}
	}
	if f.Mode == Text {
		c.Results += MaxText
	}
	c.Waits = c.Waits || f.Mode != Async && !c.Late
	if c.Late && f.Mode != Late {
		binary.LittleEndian.PutUint32(c.Record, f.Index|lateBit)
	}
	binary.LittleEndian.PutUint32(c.Record[4:], uint32(len(c.Record)))
	return c, nil
}

type encoder struct {
	*Call
	guest   Guest
	args    []uint64
	primary int
}

func (e *encoder) word(v uint64) { e.Record = appendWord(e.Record, v) }

func (e *encoder) param(i int, p Param) error {
	v := e.args[i]
	switch p.Class {
	case Int32:
		e.word(uint64(uint32(v)))
	case Int64, Float, Double:
		e.word(v)
	case Device:
		va, _, _ := e.guest.Pointer(v)
		e.word(va)
	case Scalar:
		return e.scalar(v)
	case Result, In, Out, InOut, Work:
		return e.buffer(i, p, v)
	case Stream:
		e.Stream = v
	case Use, Destroy:
		return e.use(i, p, v)
	case Create:
		return e.create(p, v)
	case String:
		return e.text(v)
	case Null:
		if v != 0 {
			return errors.New("only a null pointer is supported")
		}
	case Typed, Found:
		return e.typed(i, p, v)
	}
	return nil
}

// scalar encodes a number. What lies in the program's memory is read now, up to the end of its page.
func (e *encoder) scalar(v uint64) error {
	va, device, pinned := e.guest.Pointer(v)
	switch {
	case v == 0:
		e.word(tagNull)
		return nil
	case device && (!pinned || e.deviceMode()):
		e.word(tagDevice)
		e.word(va)
		return nil
	}
	b, err := e.peek(v)
	if err != nil {
		return err
	}
	e.word(tagHost)
	e.Record = append(e.Record, b[:]...)
	return nil
}

// peek reads ScalarBytes, as far as they lie in one page.
func (e *encoder) peek(addr uint64) (b [ScalarBytes]byte, err error) {
	const page = 4096
	n := min(ScalarBytes, page-addr%page)
	return b, e.guest.Read(b[:n], addr)
}

// deviceMode reports whether numbers are in memory of the GPU.
func (e *encoder) deviceMode() bool {
	if e.primary < 0 || len(e.Used) == 0 {
		return false
	}
	for i, s := range e.Used[0].Kind.Slots {
		if s.Name == "pointer" {
			return e.Used[0].Set&(1<<i) != 0 && e.Used[0].Slot[i][0] == 1
		}
	}
	return false
}

// buffer encodes memory that is read or written.
func (e *encoder) buffer(i int, p Param, v uint64) error {
	n, err := p.Size.eval(e.Function, e.args)
	if err != nil {
		return err
	}
	if p.Class == Result {
		va, device, pinned := e.guest.Pointer(v)
		switch {
		case v == 0:
			e.word(tagNull)
		case device && (!pinned || e.deviceMode()):
			e.word(tagDevice)
			e.word(va)
		default:
			e.word(tagHost)
			e.word(n)
			e.output(v, n)
			e.Waits = true
		}
		return nil
	}
	if v == 0 && !e.counts(i) {
		e.word(0)
		return nil
	}
	e.word(n + 1)
	if p.Class == In || p.Class == InOut {
		b := make([]byte, pad(n))
		if err := e.guest.Read(b[:n], v); err != nil {
			return err
		}
		e.Record = append(e.Record, b...)
	}
	if p.Class == Out || p.Class == InOut {
		e.output(v, n)
	}
	return nil
}

// counts reports whether an argument is where the number of elements goes that the function writes to
// the next one: the guest needs it even where the program does not.
func (e *encoder) counts(i int) bool {
	return i+1 < len(e.Function.Params) && e.Function.Params[i+1].Class == Found && e.args[i+1] != 0
}

func (e *encoder) output(addr, n uint64) {
	e.Outputs = append(e.Outputs, Output{Addr: addr, Bytes: n, At: e.Results})
	e.Results += pad(n)
}

func (e *encoder) use(i int, p Param, v uint64) error {
	if p.Kind.Int {
		v = uint64(uint32(v))
	} else if v == 0 {
		e.word(0)
		if i == e.primary {
			e.word(0)
		}
		return nil
	}
	h := e.guest.Use(p.Kind, v)
	if h == nil {
		return ErrHandle
	}
	if p.Class == Destroy {
		if h.Kind != p.Kind {
			return ErrHandle
		}
		e.Destroyed = h
	}
	e.handle(h)
	e.Late = e.Late || e.Function.LateFor != 0 && h.Number == e.Function.LateFor
	if i != e.primary {
		e.Used = append(e.Used, h)
		return nil
	}
	e.Used = append([]*Handle{h}, e.Used...)
	e.word(h.Set)
	for k, s := range h.Kind.Slots {
		if h.Set&(1<<k) != 0 {
			for _, w := range h.Slot[k][:s.Words] {
				e.word(w)
			}
		}
	}
	return nil
}

func (e *encoder) create(p Param, v uint64) error {
	if v == 0 {
		return errors.New("a null pointer")
	}
	h, err := e.guest.Make(p.Kind)
	if err != nil {
		return err
	}
	for i, other := range e.Function.Params {
		if other.Class == Int32 {
			h.Number = uint32(e.args[i])
			break
		}
	}
	e.Made = append(e.Made, Made{Handle: h, Addr: v})
	e.handle(h)
	return nil
}

// handle encodes the number of a handle.
func (e *encoder) handle(h *Handle) {
	e.placed = append(e.placed, placed{handle: h, at: len(e.Record)})
	e.word(uint64(h.ID))
}

func (e *encoder) text(v uint64) error {
	if v == 0 {
		e.word(0)
		return nil
	}
	b, err := e.guest.Text(v)
	if err != nil {
		return err
	}
	e.word(uint64(len(b)) + 2) // with its zero byte
	e.Record = appendPadded(e.Record, append(b, 0))
	return nil
}

// typed encodes an array whose type the program names.
func (e *encoder) typed(i int, p Param, v uint64) error {
	at, n := typedArgs(p.Class, i)
	kind, number := Element(uint32(e.args[at])), count(Int64, e.args[n])
	size := kind.Bytes()
	switch {
	case size == 0:
		return fmt.Errorf("elements of type %d", kind)
	case number > maxElements:
		return fmt.Errorf("%d elements; at most %d are possible", number, maxElements)
	case v == 0 || number == 0:
		e.word(0)
		return nil
	}
	e.word(uint64(kind) + 1)
	e.word(number)
	if p.Class == Found && !kind.Handles() {
		e.output(v, number*size)
		e.Outputs[len(e.Outputs)-1].Each = size
		return nil
	}
	b := make([]byte, number*size)
	if err := e.guest.Read(b, v); err != nil {
		return err
	}
	switch {
	case kind.Handles():
		return e.handles(kind, b)
	case kind == ElementPointer:
		return e.pointers(b)
	}
	e.Record = appendPadded(e.Record, b)
	return nil
}

// handles encodes an array of handles. Those of the library itself are of the kind of its first.
func (e *encoder) handles(kind Element, b []byte) error {
	k := e.Function.Params[0].Kind
	if kind == ElementHandle {
		k = e.Function.Library.Kinds[0]
	}
	for ; len(b) > 0; b = b[8:] {
		v := binary.LittleEndian.Uint64(b)
		if v == 0 {
			e.word(0)
			continue
		}
		h := e.guest.Use(k, v)
		if h == nil {
			return ErrHandle
		}
		e.Used = append(e.Used, h)
		e.handle(h)
	}
	return nil
}

// pointers encodes addresses. One of the program's memory is that of a number, which is sent.
func (e *encoder) pointers(b []byte) error {
	for ; len(b) > 0; b = b[8:] {
		v := binary.LittleEndian.Uint64(b)
		va, device, _ := e.guest.Pointer(v)
		if v == 0 || device {
			e.word(tagDevice)
			e.word(va)
			continue
		}
		number, err := e.peek(v)
		if err != nil {
			return err
		}
		e.word(tagHost)
		e.Record = append(e.Record, number[:]...)
	}
	return nil
}
