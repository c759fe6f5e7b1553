package cudalibs

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Host is what a decoder asks of the worker's side.
type Host interface {
	// Real returns what a library returned for the handle with a number.
	Real(k *Kind, id uint32) (uint64, bool)
	// Work returns memory of the process for a function to work in.
	Work(n uint64) (uint64, error)
	// Keep returns the address of a copy of a number that lives as long as a handle.
	Keep(id uint32, number [ScalarBytes]byte) (uint64, error)
}

// Argument is a word that the C function gets.
type Argument struct {
	Word  uint64
	Float bool // in a register for floats
}

// Invocation is a decoded call.
type Invocation struct {
	Function *Function
	Args     [MaxParams]Argument
	State    State
	Made     []NewHandle // at most one in today's table
	Ends     uint32      // handle that the call destroys; 0 for none
	Uses     uint32      // first handle of the call; 0 for none
	Copies   []Copy      // to make before the call
	Results  uint64      // bytes after the call
	Waits    bool        // it has results
}

// NewHandle is a handle that a call makes: the function writes it to an offset of the record.
type NewHandle struct {
	Kind *Kind
	ID   uint32
	At   int
}

// Copy copies bytes of the record to the results.
type Copy struct {
	From      int
	To, Bytes uint64
}

// State is the state of the handle with which a function is called.
type State struct {
	ID   uint32 // 0 for none
	Set  uint64
	Slot [maxSlots][slotWords]uint64
}

// ErrForm is the error of a record that no encoder makes.
var ErrForm = errors.New("malformed call")

// WaitsNot reports whether a record of a function that is waited for is one whose status is for a later call.
func WaitsNot(record []byte) bool { return binary.LittleEndian.Uint32(record)&lateBit != 0 }

// Split takes the first record off a batch without its head.
func Split(batch []byte) (f *Function, record, rest []byte, err error) {
	if len(batch) < RecordHead {
		return nil, nil, nil, fmt.Errorf("%w: %d bytes are no record", ErrForm, len(batch))
	}
	f = All().Function(binary.LittleEndian.Uint32(batch) &^ lateBit)
	if f != nil && WaitsNot(batch) && f.LateFor == 0 {
		f = nil
	}
	n := uint64(binary.LittleEndian.Uint32(batch[4:]))
	if f == nil || n < RecordHead || n%8 != 0 || n > uint64(len(batch)) {
		return nil, nil, nil, fmt.Errorf("%w: a record of function %d and %d bytes", ErrForm, binary.LittleEndian.Uint32(batch), n)
	}
	return f, batch[:n:n], batch[n:], nil
}

// Decode decodes a record, which lies at an address of the process and stays there: arguments point
// into it, and it is changed. Results from offset at on lie at the address results, and have room for
// most bytes.
func (f *Function) Decode(inv *Invocation, record []byte, address, results, at, most uint64, h Host) error {
	*inv = Invocation{Function: f, Results: at}
	d := decoder{Invocation: inv, reader: reader{b: record, at: RecordHead}, address: address, results: results, most: most, host: h, primary: f.Primary()}
	for i, p := range f.Params {
		if err := d.param(i, p); err != nil {
			return err
		}
		if d.err != nil {
			return fmt.Errorf("%w: %s: argument %d: %w", ErrForm, f.Name, i+1, d.err)
		}
	}
	if d.at != len(record) {
		return fmt.Errorf("%w: %s: %d bytes behind the arguments", ErrForm, f.Name, len(record)-d.at)
	}
	if f.Mode == Text && !d.room(MaxText) {
		return fmt.Errorf("%w: %s: no room for results", ErrForm, f.Name)
	}
	return d.checkSizes()
}

type decoder struct {
	*Invocation
	reader
	address, results, most uint64
	host                   Host
	primary                int
	lengths                [MaxParams]uint64 // of memory, plus 1
}

// set sets an argument.
func (d *decoder) set(i int, v uint64) { d.Args[i].Word = v }

// room takes n bytes of results.
func (d *decoder) room(n uint64) bool {
	if n > d.most || d.Results > d.most-n || pad(n) > d.most-d.Results {
		return false
	}
	d.Results += pad(n)
	return true
}

// result takes room for n bytes of results, and returns their address.
func (d *decoder) result(n uint64) uint64 {
	at := d.Results
	if !d.room(n) {
		d.err = errors.New("no room for results")
		return 0
	}
	d.Waits = true
	return d.results + at
}

func (d *decoder) param(i int, p Param) error {
	switch p.Class {
	case Int32, Int64, Device:
		d.set(i, d.word())
	case Float, Double:
		d.Args[i] = Argument{Word: d.word(), Float: true}
	case Scalar:
		d.set(i, d.number(0))
	case Result:
		switch tag := d.word(); tag {
		case tagDevice:
			d.set(i, d.word())
		case tagHost:
			n := d.word()
			d.lengths[i] = n + 1
			d.set(i, d.result(n))
		}
	case In, InOut, String, Out, Work:
		return d.buffer(i, p)
	case Use, Destroy:
		return d.use(i, p)
	case Create:
		d.Made = append(d.Made, NewHandle{Kind: p.Kind, ID: uint32(d.word()), At: d.at - 8})
		d.set(i, d.address+uint64(d.at)-8)
	case Typed, Found:
		return d.typed(i, p)
	}
	return nil
}

// number reads a tagged address or number. The number stays in the record, or with a handle.
func (d *decoder) number(keep uint32) uint64 {
	switch d.word() {
	case tagDevice:
		return d.word()
	case tagHost:
		at := d.bytes(ScalarBytes)
		if d.err != nil || keep == 0 {
			return d.address + uint64(at)
		}
		kept, err := d.host.Keep(keep, [ScalarBytes]byte(d.b[at:]))
		if err != nil {
			d.err = err
		}
		return kept
	}
	return 0
}

func (d *decoder) buffer(i int, p Param) error {
	length := d.word()
	d.lengths[i] = length
	if length == 0 || d.err != nil {
		return nil
	}
	n := length - 1
	if n > MaxBuffer {
		d.err = fmt.Errorf("%d bytes", n)
		return nil
	}
	switch p.Class {
	case In, String:
		d.set(i, d.address+uint64(d.bytes(n)))
		if end := d.at - 1; p.Class == String && d.err == nil && (n == 0 || d.b[end] != 0) {
			d.err = errors.New("a string without an end")
		}
	case InOut: // it is copied to the results before the call
		at := d.bytes(n)
		if to := d.result(n); d.err == nil {
			d.set(i, to)
			d.inputs(i, at)
		}
	case Out:
		d.set(i, d.result(n))
	case Work:
		at, err := d.host.Work(n)
		if err != nil {
			return err
		}
		d.set(i, at)
	}
	return nil
}

// inputs notes that an argument of the results begins with bytes of the record.
func (d *decoder) inputs(i, at int) {
	d.Copies = append(d.Copies, Copy{From: at, To: d.Args[i].Word - d.results, Bytes: d.lengths[i] - 1})
}

func (d *decoder) use(i int, p Param) error {
	id := uint32(d.word())
	if d.err != nil {
		return nil
	}
	if id != 0 {
		actual, ok := d.host.Real(p.Kind, id)
		if !ok {
			return ErrHandle
		}
		d.set(i, actual)
	}
	if d.Uses == 0 {
		d.Uses = id
	}
	if p.Class == Destroy {
		d.Ends = id
	}
	if i != d.primary {
		return nil
	}
	d.State.ID, d.State.Set = id, d.word()
	if d.State.Set>>len(p.Kind.Slots) != 0 {
		d.err = errors.New("slots that there are not")
	}
	for k, s := range p.Kind.Slots {
		if d.State.Set&(1<<k) != 0 {
			for w := range s.Words {
				d.State.Slot[k][w] = d.word()
			}
		}
	}
	return nil
}

// typed reads an array of elements. Its own words become what the function gets.
func (d *decoder) typed(i int, p Param) error {
	named := d.word()
	if named == 0 || d.err != nil {
		return nil
	}
	kind, n := Element(named-1), d.word()
	at, number := typedArgs(p.Class, i)
	if uint64(uint32(d.Args[at].Word)) != uint64(kind) || d.Args[number].Word != n || n > maxElements || kind.Bytes() == 0 {
		d.err = errors.New("an array of another type or length than its arguments say")
		return nil
	}
	first := d.at
	switch {
	case p.Class == Found && !kind.Handles():
		d.set(i, d.result(n*kind.Bytes()))
		return nil
	case kind.Handles():
		k := d.Function.Params[0].Kind
		if kind == ElementHandle {
			k = d.Function.Library.Kinds[0]
		}
		for range n {
			id := uint32(d.word())
			if id == 0 || d.err != nil {
				continue
			}
			actual, ok := d.host.Real(k, id)
			if !ok {
				return ErrHandle
			}
			binary.LittleEndian.PutUint64(d.b[d.at-8:], actual)
		}
	case kind == ElementPointer:
		for k := range n {
			v := d.number(d.Uses)
			if d.err != nil {
				return nil
			}
			binary.LittleEndian.PutUint64(d.b[first+8*int(k):], v) // what was read there is done with
		}
	default:
		d.bytes(n * kind.Bytes())
	}
	d.set(i, d.address+uint64(first))
	return nil
}

// checkSizes compares lengths with what the other arguments say, so that the function does not read
// beyond what came.
func (d *decoder) checkSizes() error {
	var all [MaxParams]uint64
	for i := range d.Function.Params {
		all[i] = d.Args[i].Word
	}
	values := all[:]
	for i, p := range d.Function.Params {
		if d.lengths[i] == 0 || p.Class == String {
			continue
		}
		n, err := p.Size.eval(d.Function, values)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrForm, err)
		}
		if n != d.lengths[i]-1 {
			return fmt.Errorf("%w: %s: argument %d has %d bytes, not %d", ErrForm, d.Function.Name, i+1, d.lengths[i]-1, n)
		}
	}
	return nil
}
