package cudalibs

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A batch of calls is
//
//	u64  Table.Sum of who encoded it
//	then records, each
//	  u32  function; with lateBit nothing waits for its status, as of one whose mode is Late
//	  u32  bytes of the record, a multiple of 8
//	  the arguments in order, each some words of 8 bytes
//
// where an argument is, by its class,
//
//	Int32 Int64 Float Double   a word
//	Device                     a word: the address
//	Scalar                     tagNull; or tagDevice, the address; or tagHost, 16 bytes
//	Result                     tagNull; or tagDevice, the address; or tagHost, the length
//	In, InOut, String          the length plus 1, the bytes; or 0 for a null pointer
//	Out, Work                  the length plus 1; or 0 for a null pointer
//	Stream, Null               nothing
//	Use Create Destroy         a word: the number of the handle, 0 for a null one; behind that of
//	                           Function.Primary its state: a word with a bit for each slot that is
//	                           set, and the words of these
//	Typed                      an Element plus 1, the number of elements, the elements: words for
//	                           handles, as of Scalar for addresses; or 0 for a null pointer
//	Found                      the same, where only handles are sent
//
// Bytes are padded with zeros to a multiple of 8. All is little endian.
//
// The results of a batch are
//
//	u32 status of the last record, u32 flags (ResultDone, ResultRefused)
//	u32 status of the first other record that failed, u32 its function
//	u64 what the last function returned, or the Refusal
//	then what it wrote: of each Out, InOut, host Result and Found its bytes, padded to 8, in order;
//	of a Text its bytes with a zero byte
const (
	tagNull = iota
	tagDevice
	tagHost
)

// Layout of the head of results.
const (
	ResultHead    = 24 // bytes
	ResultDone    = 1  // flag: all is there
	ResultRefused = 2  // flag: the worker did not call the function; the status says why (Refusal)

	ScalarBytes = 16
	MaxText     = 512 // bytes of a Text's string
	BatchHead   = 8   // bytes
	lateBit     = 1 << 31
	RecordHead  = 8 // bytes
)

// Refusal is why a worker called no function.
type Refusal uint32

// Reasons.
const (
	RefusedTable   Refusal = iota + 1 // the guest has another table
	RefusedLibrary                    // the host lacks the library
	RefusedSymbol                     // the host's library lacks the function
	RefusedHandle                     // a handle is none, or of another kind
	RefusedForm                       // the record is malformed
	RefusedFull                       // there are too many handles
	RefusedMode                       // the function is not called so
)

func (r Refusal) String() string {
	names := [...]string{RefusedTable: "the host's PVDRM has another table of functions; use one version for guest and host",
		RefusedLibrary: "the host has no such library; install it there, or name its directory with --cuda-libs",
		RefusedSymbol:  "the host's library has no such function; install a newer one there",
		RefusedHandle:  "a handle is none, or of another kind", RefusedForm: "malformed arguments",
		RefusedFull: "too many handles", RefusedMode: "the function is not called in this way"}
	if r == 0 || int(r) >= len(names) {
		return fmt.Sprintf("refused (%d)", uint32(r))
	}
	return names[r]
}

// Code is the library's own status for a refusal.
func (l *Library) Code(r Refusal) uint32 {
	switch r {
	case RefusedHandle:
		return l.Codes.Handle
	case RefusedForm:
		return l.Codes.Invalid
	case RefusedFull:
		return l.Codes.Memory
	case RefusedTable, RefusedLibrary, RefusedSymbol, RefusedMode:
		return l.Codes.Unsupported
	}
	return l.Codes.Internal
}

var errShort = errors.New("the record ends before its arguments")

// reader reads words of a record, which end it when there are none left.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) word() uint64 {
	if r.err != nil || len(r.b)-r.at < 8 {
		if r.err == nil {
			r.err = errShort
		}
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b[r.at:])
	r.at += 8
	return v
}

// bytes skips n bytes and what pads them, and returns where they begin.
func (r *reader) bytes(n uint64) (at int) {
	if r.err != nil {
		return 0
	}
	if n > uint64(len(r.b)-r.at) || pad(n) > uint64(len(r.b)-r.at) {
		r.err = errShort
		return 0
	}
	at = r.at
	r.at += int(pad(n))
	return at
}

// pad rounds up to a multiple of 8.
func pad(n uint64) uint64 { return (n + 7) &^ 7 }

func appendWord(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

func appendPadded(b, data []byte) []byte {
	b = append(b, data...)
	return append(b, make([]byte, pad(uint64(len(data)))-uint64(len(data)))...)
}

// Element is the type of the elements of a typed array: cudnnBackendAttributeType_t.
type Element uint64

// Elements that are handles, or addresses.
const (
	ElementHandle     Element = 0
	ElementPointer    Element = 6
	ElementDescriptor Element = 15
)

// Handles says whether elements are handles.
func (e Element) Handles() bool { return e == ElementHandle || e == ElementDescriptor }

// Bytes is the size of an element, 0 for a type that is not known.
func (e Element) Bytes() uint64 {
	switch e {
	case ElementHandle, ElementPointer, ElementDescriptor, 3, 5: // and INT64, DOUBLE
		return 8
	case 2, 24: // BOOLEAN, CHAR
		return 1
	case 26: // FRACTION
		return 16
	}
	const last = 30
	if e > last {
		return 0
	}
	return 4 // enumerations, FLOAT, INT32
}

// maxElements bounds a typed array.
const maxElements = 1 << 16

// Head is the head of results.
type Head struct {
	Status, Flags     uint32
	Earlier, Function uint32
	Returned          uint64
}

// ReadHead reads the first ResultHead bytes of results.
func ReadHead(b []byte) Head {
	return Head{Status: binary.LittleEndian.Uint32(b), Flags: binary.LittleEndian.Uint32(b[4:]), Earlier: binary.LittleEndian.Uint32(b[8:]),
		Function: binary.LittleEndian.Uint32(b[12:]), Returned: binary.LittleEndian.Uint64(b[16:])}
}

// Refused reports whether the worker did not call the last function.
func (h Head) Refused() bool { return h.Flags&ResultRefused != 0 }

// Reason is why it did not. Returned has the number of the Refusal then.
func (h Head) Reason() error { return errors.New(Refusal(h.Returned).String()) }

// Bytes is the size of the memory that an argument points to.
func (f *Function) Bytes(i int, args []uint64) (uint64, error) { return f.Params[i].Size.eval(f, args) }
