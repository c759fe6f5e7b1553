package cudalibs

import (
	"fmt"
	"hash/fnv"
	"sync"
)

// Mode says how a function is called.
type Mode uint8

// Modes of functions.
const (
	None    Mode = iota // not supported; Function.Why says why
	Async               // queued on the stream of its handle; nothing comes back but late errors
	Sync                // queued like that, and waited for
	Control             // waited for, outside of all streams
	Late                // prepares something: it waits in the guest for the next other call
	Set                 // sets a part of the state of its handle, in the guest
	Get                 // answers a part of that state, in the guest
	Text                // as Control; returns a string
	Number              // as Control; returns a number of 64 bits in place of a status
)

var modeNames = map[string]Mode{"none": None, "async": Async, "sync": Sync, "control": Control, "late": Late,
	"set": Set, "get": Get, "text": Text, "number": Number}

// Class says what an argument is.
type Class uint8

// Classes of arguments.
const (
	Int32   Class = iota // an integer or enumeration of 32 bits
	Int64                // an integer of 64 bits
	Float                // a float by value
	Double               // a double by value
	Device               // an address for the GPU, which may be null
	Scalar               // a number in host or device memory, as the pointer mode of the handle says
	Result               // a result of Size bytes, likewise
	In                   // Size bytes of host memory that the function reads
	Out                  // Size bytes of host memory that it writes
	InOut                // both
	Work                 // Size bytes of host memory that the function works in, which the worker has
	Stream               // a stream
	Use                  // a handle
	Create               // where a new handle goes
	Destroy              // a handle that ends
	String               // a C string
	Null                 // a pointer that must be null
	Typed                // an array whose element type and count are the arguments before it, as in cuDNN's descriptors
	Found                // the same, which the function fills
)

// Param is one parameter of a function.
type Param struct {
	Class Class
	Kind  *Kind // of handles
	Size  expr  // of host memory, in bytes
}

// Function is a function of a library.
type Function struct {
	Name    string
	Index   uint32 // among all functions of all libraries
	Library *Library
	Mode    Mode
	Slot    int // of Set and Get: which part of the state
	Params  []Param
	Why     string // of None
	LateFor uint32 // of Control: it is late where its handle was made with this number; 0 for none
	Pure    bool   // of Control: it only answers, and alike for equal arguments and descriptors

	Constant bool // it needs no context, and answers the same arguments with the same always; see Unhandled
}

// Kind is a kind of handles.
type Kind struct {
	Name    string
	Library *Library
	Int     bool   // the program has it as an int
	Slots   []Slot // its state, but for the stream
	Streams bool   // it has a stream
	Also    *Kind  // handles of this kind are some of this one too, but not to be destroyed; nil for none
}

// Takes reports whether a handle of another kind does as one of this kind.
func (k *Kind) Takes(other *Kind) bool { return other != nil && (k == other || k.Also == other) }

// Slot is a part of the state of a handle.
type Slot struct {
	Name    string
	Setter  *Function
	Words   int      // arguments of the setter behind the handle
	Default []uint64 // before it is set
	Reset   bool     // setting the stream makes it unset again
}

// Bounds of the state of a kind.
const (
	maxSlots  = 16
	slotWords = 2 // of a slot
)

// Codes are the statuses of a library.
type Codes struct{ Invalid, Handle, Memory, Unsupported, Failed, Internal uint32 }

// Library is one of NVIDIA's libraries.
type Library struct {
	Name      string
	Number    int
	Names     []string // of files, the newest first; each is also the version of its symbols
	Unversed  bool     // its symbols have no versions
	Header    string   // where its functions are declared
	Codes     Codes
	Kinds     []*Kind
	Functions []*Function

	Warm *Warm // nil: nothing is known to make it start

	setStream map[*Kind]*Function
	warm      []string
}

// Warm is what makes a library start: a handle is made, with numbers behind it, and destroyed.
type Warm struct {
	Make, Destroy *Function
	Numbers       []uint64
	Keep          bool // one handle waits for the guest
}

// SetStream is the function that sets the stream of handles of a kind, or nil.
func (l *Library) SetStream(k *Kind) *Function { return l.setStream[k] }

// Table is all libraries.
type Table struct {
	Libraries []*Library
	Functions []*Function // by index
	Sum       uint64      // tells one table from another

	names map[string]*Function
	kinds map[string]*Kind
}

// All is the table. It is parsed when it is first needed.
var All = sync.OnceValue(func() *Table {
	t, err := parseAll()
	if err != nil {
		panic(err) // a test parses it
	}
	return t
})

// Function finds a function by its index, or nil.
func (t *Table) Function(index uint32) *Function {
	if uint64(index) >= uint64(len(t.Functions)) {
		return nil
	}
	return t.Functions[index]
}

// Named finds a function by its name, or nil.
func (t *Table) Named(name string) *Function { return t.names[name] }

func (t *Table) sum() uint64 {
	h := fnv.New64a()
	for _, f := range t.Functions {
		fmt.Fprintf(h, "%s/%d/%d", f.Name, f.Mode, f.Slot) // writing to a hash never fails
		for _, p := range f.Params {
			fmt.Fprintf(h, ",%d", p.Class)
			if p.Kind != nil {
				fmt.Fprintf(h, "%s", p.Kind.Name)
			}
		}
	}
	return h.Sum64()
}

// Primary is the parameter with the handle whose state and stream a call has, or -1.
func (f *Function) Primary() int {
	for i, p := range f.Params {
		if p.Class == Use && (p.Kind.Streams || len(p.Kind.Slots) > 0) {
			return i
		}
	}
	return -1
}

// Unhandled reports whether a call has null for every handle. JAX asks cublasGetVersion_v2 like that, before it has one.
func (f *Function) Unhandled(args []uint64) bool {
	for i, p := range f.Params {
		if p.Class == Use && args[i] != 0 {
			return false
		}
	}
	return true
}

// StreamParam is the parameter that is a stream, or -1.
func (f *Function) StreamParam() int {
	for i, p := range f.Params {
		if p.Class == Stream {
			return i
		}
	}
	return -1
}
