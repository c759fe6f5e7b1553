package virtgpu

import "sync"

// timeline orders the answers to fenced commands. Linux has all fences of a guest
// on one timeline: an answer also signals the fences of the commands before it.
// Fences that are hints (Component.Hints) may signal early. Those that stand for
// rendered pictures must not: later answers wait for them.
type timeline struct {
	mu      sync.Mutex // held while chains are completed, so that their order is this one
	moments []*moment  // in the order of arrival; the guest's queues bound their number
}

// moment is a fenced command that has not been answered.
type moment struct {
	strict bool
	answer func() // nil until it has ended
}

// add appends a moment.
func (t *timeline) add() *moment {
	m := &moment{}
	t.mu.Lock()
	t.moments = append(t.moments, m)
	t.mu.Unlock()
	return m
}

// bind makes the answers to all later commands wait for that to m.
func (t *timeline) bind(m *moment) {
	t.mu.Lock()
	m.strict = true
	t.mu.Unlock()
}

// end answers the command of m, as soon as those before it allow that.
func (t *timeline) end(m *moment, answer func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.answer != nil {
		return // only the first answer counts
	}
	m.answer = answer
	left := t.moments[:0]
	blocked := false
	for _, m := range t.moments {
		if m.answer != nil && !blocked {
			m.answer()
			continue
		}
		blocked = blocked || m.strict
		left = append(left, m)
	}
	clear(t.moments[len(left):])
	t.moments = left
}

// reset forgets all moments: their commands were given up.
func (t *timeline) reset() {
	t.mu.Lock()
	t.moments = nil
	t.mu.Unlock()
}
