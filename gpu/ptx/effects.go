package ptx

import (
	"errors"
	"fmt"
	"slices"
)

// Effects says what a kernel does to memory, as far as its text tells. It is what decides whether a
// launch that was stopped half-way may begin again from its start.
//
// An address is followed to what it was computed from: to 8 bytes of a parameter, or to a variable
// of the module. Which of them are pointers, and into which objects, shows at a launch only, so a
// caller resolves them then (Restart). As in C, an address computed from a pointer is taken to stay
// in the object of that pointer. Where an address comes from memory, or from a called function, its
// object is not known. Shared and local memory do not count: a kernel that begins again has them new.
type Effects struct {
	// Pointers are what global addresses are computed from; Access.Of indexes it.
	Pointers []Pointer
	// Accesses lists accesses to global memory, each combination once.
	Accesses []Access

	Calls    bool // calls a function whose text the module has, and which touches more than its own memory
	External bool // calls through a register, or a function that the module does not have
	Prints   bool // calls vprintf
	Heap     bool // calls malloc or free
	GridSync bool // waits for all blocks of its grid, by what the driver hands over
	System   bool // volatile accesses to global memory, or such that the host may watch
	Timed    bool // reads a clock, a performance counter or the number of its processor
	Races    bool // uses what an atomic operation returns, which depends on the order of threads
}

// Pointer is what an address is computed from.
type Pointer struct {
	Var    *Var   // a .global variable of the module; nil for a parameter
	Param  int    // index in Func.Params
	Offset uint64 // in the parameter, of 8 bytes (4 in a module with 32-bit addresses)
}

// Access says that a kernel accesses an object that one of some bases points into.
type Access struct {
	Of                    []int // indexes in Effects.Pointers, ascending; none where the object is not known
	Read, Written, Atomic bool
}

// ErrNoRestart is wrapped by the errors of Restart.
var ErrNoRestart = errors.New("the kernel cannot begin again")

// Restart returns what has to be as it was before a launch for the launch to begin again after it
// was stopped anywhere: the objects whose contents are to be saved and put back. Without any, the
// launch may begin again as it is. All else that it wrote it writes again.
//
// Resolve returns the object that a base points into at this launch, by a number of the caller's.
// It is false for a base that is no pointer.
//
// An error wraps ErrNoRestart and says why the launch cannot begin again, whatever is saved.
func (e *Effects) Restart(resolve func(Pointer) (object uint64, ok bool)) (save []uint64, err error) {
	if why := e.outside(); why != "" {
		return nil, fmt.Errorf("%w: it %s", ErrNoRestart, why)
	}
	at := make([]uint64, len(e.Pointers))
	known := make([]bool, len(e.Pointers))
	for i, b := range e.Pointers {
		at[i], known[i] = resolve(b)
	}
	read, written := map[uint64]bool{}, map[uint64]bool{}
	anywhere := false
	for _, a := range e.Accesses {
		found := false
		for _, b := range a.Of {
			if !known[b] {
				continue
			}
			found = true
			read[at[b]] = read[at[b]] || a.Read
			written[at[b]] = written[at[b]] || a.Written
		}
		switch {
		case found:
		case a.Written:
			return nil, fmt.Errorf("%w: it writes where its text does not tell", ErrNoRestart)
		default:
			anywhere = true
		}
	}
	// What depends on more than its input may write elsewhere the second time.
	all := anywhere || e.Timed || e.Races
	for object := range written {
		if written[object] && (all || read[object]) {
			save = append(save, object)
		}
	}
	slices.Sort(save)
	return save, nil
}

// outside returns what a kernel does outside of its memory that cannot be taken back; "" if nothing.
func (e *Effects) outside() string {
	switch {
	case e.Prints:
		return "prints"
	case e.Heap:
		return "allocates memory"
	case e.External:
		return "calls a function that its text does not tell"
	case e.GridSync:
		return "waits for all blocks of its grid"
	case e.System:
		return "has volatile or system-wide accesses to global memory, with which it may talk to the host"
	}
	return ""
}

// Access of a base by what it does there, for tests and tools.
func (e *Effects) of(b Pointer) (a Access) {
	i := slices.Index(e.Pointers, b)
	for _, x := range e.Accesses {
		if slices.Contains(x.Of, i) {
			a.Read, a.Written, a.Atomic = a.Read || x.Read, a.Written || x.Written, a.Atomic || x.Atomic
		}
	}
	return a
}

// Param returns what a kernel does where a parameter of 8 bytes points to, if it is a pointer.
func (e *Effects) Param(n int) Access { return e.of(Pointer{Param: n}) }
