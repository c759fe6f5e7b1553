// Package fifo has a queue that takes no memory while it is often empty, as the
// queues on the way of a command are: a slice that is appended to and cut at its
// front allocates for each element.
package fifo

import (
	"iter"
	"slices"
)

// Queue is first in, first out. The zero Queue is empty. It is not safe for
// concurrent use.
type Queue[T any] struct {
	items []T // from first on
	first int
}

// Len is the number of elements.
func (q *Queue[T]) Len() int { return len(q.items) - q.first }

// Push adds an element at the end.
func (q *Queue[T]) Push(v T) {
	if len(q.items) == cap(q.items) && q.first > len(q.items)/2 { // else it grows
		q.items = slices.Delete(q.items, 0, q.first)
		q.first = 0
	}
	q.items = append(q.items, v)
}

// First is the oldest element. The queue must not be empty.
func (q *Queue[T]) First() T { return q.items[q.first] }

// Pop removes the oldest element and returns it. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	v := q.items[q.first]
	var none T
	q.items[q.first] = none
	if q.first++; q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
	return v
}

// All yields the elements, the oldest first.
func (q *Queue[T]) All() iter.Seq[T] { return slices.Values(q.items[q.first:]) }
