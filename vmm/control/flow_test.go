package control

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWindow models a sender with its credit and a receiver with its inbox, joined by wires with any
// delay: all bytes arrive in order, no side ever violates the window, and it never gets stuck.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent, received []byte
		var flight [][]byte // data on its way
		var grants []uint32 // credit on its way back
		credit := NewCredit()
		in := NewInbox(func(n uint32) { grants = append(grants, n) })
		left := Window // of the sender's credit, as it knows it
		next := byte(0)
		send := func(n int) {
			if left == 0 {
				return // Take would wait
			}
			n, err := credit.Take(n)
			require.NoError(t, err)
			left -= n
			b := make([]byte, n)
			for i := range b {
				b[i] = next
				next++
			}
			sent = append(sent, b...)
			flight = append(flight, b)
		}
		deliver := func() {
			if len(flight) > 0 {
				require.NoError(t, in.Put(flight[0]))
				flight = flight[1:]
			}
		}
		read := func(n int) {
			if len(received) < len(sent)-inFlight(flight) {
				b := make([]byte, n)
				n, err := in.Read(b)
				require.NoError(t, err)
				received = append(received, b[:n]...)
			}
		}
		grant := func() {
			if len(grants) > 0 {
				require.NoError(t, credit.Add(grants[0]))
				left += int(grants[0])
				grants = grants[1:]
			}
		}
		size := rapid.IntRange(1, Window)
		t.Repeat(map[string]func(*rapid.T){
			"send":    func(t *rapid.T) { send(size.Draw(t, "bytes")) },
			"deliver": func(*rapid.T) { deliver() },
			"read":    func(t *rapid.T) { read(size.Draw(t, "bytes")) },
			"grant":   func(*rapid.T) { grant() },
		})
		for len(flight) > 0 || len(received) < len(sent) || len(grants) > 0 {
			deliver()
			read(Window)
			grant()
		}
		require.True(t, bytes.Equal(sent, received))
		require.Positive(t, left, "everything is consumed, but the sender has no credit")
	})
}

func inFlight(flight [][]byte) (n int) {
	for _, b := range flight {
		n += len(b)
	}
	return n
}

func TestWindowViolations(t *testing.T) {
	in := NewInbox(func(uint32) {})
	require.NoError(t, in.Put(make([]byte, Window)))
	require.ErrorIs(t, in.Put([]byte{1}), ErrProtocol)

	credit := NewCredit()
	require.ErrorIs(t, credit.Add(1), ErrProtocol)
	n, err := credit.Take(10)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.ErrorIs(t, credit.Add(11), ErrProtocol)
	require.ErrorIs(t, credit.Add(1<<32-1), ErrProtocol)
	require.NoError(t, credit.Add(10))
}

func TestInboxDeliversWhatCameBeforeItsEnd(t *testing.T) {
	in := NewInbox(func(uint32) {})
	require.NoError(t, in.Put([]byte("last words")))
	in.Close(io.EOF)
	in.Close(errors.New("later"))
	require.NoError(t, in.Put([]byte("dropped")))
	b, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "last words", string(b))
}

func TestWaitersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		in, credit := NewInbox(func(uint32) {}), NewCredit()
		_, err := credit.Take(Window)
		require.NoError(t, err)
		results := make(chan error, 2)
		go func() { _, err := in.Read(make([]byte, 1)); results <- err }()
		go func() { _, err := credit.Take(1); results <- err }()
		synctest.Wait()
		require.Empty(t, results)
		in.Close(gone)
		credit.Close(gone)
		require.ErrorIs(t, <-results, gone)
		require.ErrorIs(t, <-results, gone)
	})
}
