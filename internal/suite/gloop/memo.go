package gloop

import "sync"

// memo keeps the last input of a program, or what is to come out of it: a bench runs each program many times
// on the same one.
type memo[V any] struct {
	mu    sync.Mutex
	key   int
	value *V
}

// get returns what compute makes for a key. It is shared: nothing of it may be changed.
func (m *memo[V]) get(key int, compute func() V) *V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.value == nil || m.key != key {
		v := compute()
		m.key, m.value = key, &v
	}
	return m.value
}
