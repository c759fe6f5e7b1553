package interpose

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// However often who serves a call waits, one goroutine takes its place, and it learns
// of that once it is done.
func TestWhoWaitsIsRelievedOnce(t *testing.T) {
	s := &supervisor{relief: make(chan struct{}, maxStandby)}
	s.standby.Store(maxStandby)
	s.turns.Store(1) // somebody receives
	s.relieve()
	require.Empty(t, s.relief, "nobody serves a call")

	first := s.turns.Add(1) // has received one
	s.relieve()
	s.relieve()
	require.Len(t, s.relief, 1)
	second := s.turns.Add(1) // who relieved the first has received the next
	require.False(t, s.turns.CompareAndSwap(first, first+1), "the first took the second's turn")
	require.True(t, s.turns.CompareAndSwap(second, second+1), "nobody relieved the second")
	s.relieve()
	require.Len(t, s.relief, 1)
	require.EqualValues(t, maxStandby-1, s.standby.Load())
}

// Of those who were relieved, some are kept.
func TestFewStandBy(t *testing.T) {
	s := &supervisor{relief: make(chan struct{}, maxStandby)}
	s.standby.Store(maxStandby)
	require.False(t, s.standBy())
	require.EqualValues(t, maxStandby, s.standby.Load())
	s.standby.Add(-1)
	s.relief <- struct{}{}
	require.True(t, s.standBy())
}
