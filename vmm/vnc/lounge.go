package vnc

import (
	"sync"
	"time"
)

// lounge has the viewers that are served, at most maxViewers. When it is full a newcomer takes
// the place of the viewer that least deserves it: of those that have not greeted the one that came
// first, otherwise the one that has sent nothing for the longest time. So connections that are
// left open, by mistake or to keep others out, keep no other out; a viewer that is used asks for
// pictures all the time.
type lounge struct {
	mu      sync.Mutex
	viewers []*viewer
	leaving int // that were sent away and are still being served
}

// maxLeaving bounds the viewers that were sent away and have not ended yet.
const maxLeaving = maxViewers

// enter takes in a viewer, and sends another one away if it must. The returned function must be
// called when the viewer is served no more. It is nil if the viewer cannot be taken now.
func (l *lounge) enter(v *viewer) (left func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.viewers) == maxViewers {
		if l.leaving == maxLeaving {
			return nil
		}
		i := l.least()
		_ = l.viewers[i].conn.Close() // ends what serves it
		l.viewers[i] = l.viewers[len(l.viewers)-1]
		l.viewers = l.viewers[:len(l.viewers)-1]
		l.leaving++
	}
	l.viewers = append(l.viewers, v)
	return func() { l.leave(v) }
}

func (l *lounge) leave(v *viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.viewers {
		if other == v {
			l.viewers[i] = l.viewers[len(l.viewers)-1]
			l.viewers = l.viewers[:len(l.viewers)-1]
			return
		}
	}
	l.leaving--
}

// least finds the viewer that a newcomer replaces. Precondition: l.mu is held, and there is one.
func (l *lounge) least() int {
	least := 0
	for i, v := range l.viewers {
		if v.lessThan(l.viewers[least]) {
			least = i
		}
	}
	return least
}

// lessThan reports whether v deserves its place less than another viewer.
func (v *viewer) lessThan(other *viewer) bool {
	mine, theirs := v.heard.Load(), other.heard.Load()
	if (mine == 0) != (theirs == 0) {
		return mine == 0
	}
	return v.came.Add(time.Duration(mine)).Before(other.came.Add(time.Duration(theirs)))
}

// hear notes that the viewer, which has greeted, sends something.
func (v *viewer) hear() { v.heard.Store(max(int64(time.Since(v.came)), 1)) }
