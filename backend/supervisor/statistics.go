package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Bounds of an answer of a child's.
const (
	maxStatistics   = 4 << 20 // bytes
	statisticsLimit = 5 * time.Second
)

// asker asks a child for its statistics.
type asker struct {
	mu   sync.Mutex
	conn *net.UnixConn // closed after an error: a late answer would be taken for another
}

// ask returns the child's answer, which may be anything.
func (a *asker) ask() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := exchange(a.conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("asking the backend for its statistics: %w", err), a.close())
	}
	return b, nil
}

func exchange(conn *net.UnixConn) ([]byte, error) {
	_ = conn.SetDeadline(time.Now().Add(statisticsLimit)) // fails if it is closed, and then so does the next call
	if _, err := conn.Write([]byte{1}); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxStatistics {
		return nil, fmt.Errorf("an answer of %d bytes; at most %d are read", n, maxStatistics)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(conn, b)
	return b, err
}

// close ends the connection. It may be closed already.
func (a *asker) close() error {
	if err := a.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// tell answers a parent that asks for statistics, until it hangs up.
func tell(conn *net.UnixConn, statistics func() ([]byte, error)) {
	defer func() { _ = conn.Close() }() // the parent is gone
	for {
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return
		}
		b, err := statistics()
		if err != nil {
			return // the parent sees the end
		}
		if _, err := conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
			return
		}
	}
}
