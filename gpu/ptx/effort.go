package ptx

import (
	"context"
	"fmt"

	"pvdrm/gpu"
)

// Effort is what may be spent to make something of a source: memory, as much as was
// promised before anybody looked at it, and time, until a context ends. What reads and
// compiles a source counts on it what it allocates in proportion to the source, before it
// does, and how far it has come. A nil Effort knows no bounds and counts nothing.
//
// When an effort is exhausted, what counts on it panics, since the recursive descents that
// do have no other short way out; Catch, deferred where an effort begins, makes an error of
// that. An Effort is used by one goroutine.
type Effort struct {
	ctx   context.Context
	limit int
	used  int
	peak  int
	steps int
}

// NewEffort bounds an effort by so many bytes and by ctx.
func NewEffort(ctx context.Context, bytes uint64) *Effort {
	return &Effort{ctx: ctx, limit: int(min(bytes, 1<<62))}
}

// exhausted is what an effort panics with.
type exhausted struct{ err error }

// stepsPerLook is how many steps pass between two looks at the context. A step takes less
// than a microsecond.
const stepsPerLook = 2048

// Step notes that work goes on.
func (e *Effort) Step() { e.Steps(1) }

// Steps notes n steps at once.
func (e *Effort) Steps(n int) {
	if e == nil {
		return
	}
	if e.steps += n; e.steps >= stepsPerLook {
		e.steps = 0
		if e.ctx.Err() != nil {
			panic(exhausted{context.Cause(e.ctx)})
		}
	}
}

// Memory counts bytes that are about to be allocated, and a step.
func (e *Effort) Memory(bytes int) {
	if e == nil {
		return
	}
	if bytes > e.limit-e.used {
		panic(exhausted{fmt.Errorf("%w: it needs more than the %d bytes of memory that a source of its size may take; make several modules of it",
			gpu.ErrTooLarge, e.limit)})
	}
	e.used += bytes
	e.peak = max(e.peak, e.used)
	e.Steps(1)
}

// Free counts bytes that are no longer used.
func (e *Effort) Free(bytes int) {
	if e != nil {
		e.used -= bytes
	}
}

// Fits reports whether so many bytes are left, for what can be done without.
func (e *Effort) Fits(bytes int) bool { return e == nil || bytes <= e.limit-e.used }

// Used returns the current count.
func (e *Effort) Used() int {
	if e == nil {
		return 0
	}
	return e.used
}

// Peak is the most that was counted at a time.
func (e *Effort) Peak() int {
	if e == nil {
		return 0
	}
	return e.peak
}

// Catch turns the panic of an exhausted effort into an error. It must be deferred.
func (e *Effort) Catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case exhausted:
		*err = p.err
	default:
		panic(p)
	}
}

// Append appends to a list whose elements weigh size bytes, and counts its growth before it
// grows: until the elements are moved, there are both lists.
func Append[T any](e *Effort, list []T, size int, element T) []T {
	if e != nil && len(list) == cap(list) {
		list = enlarge(e, list, size, len(list)+1)
	}
	return append(list, element)
}

// Enlarge makes room in a list for n elements in all.
func Enlarge[T any](e *Effort, list []T, size, n int) []T {
	if n > cap(list) {
		list = enlarge(e, list, size, n)
	}
	return list
}

func enlarge[T any](e *Effort, list []T, size, n int) []T {
	n = max(n, len(list)+len(list)/4+8)
	e.Memory(n * size)
	larger := append(make([]T, 0, n), list...)
	e.Free(cap(list) * size)
	return larger
}
