// Package unixsock has the steps that all users of connected Unix sockets share: making a pair,
// and taking descriptors out of control messages.
package unixsock

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// MaxDescriptors is how many descriptors one message may bring (SCM_MAX_FD).
const MaxDescriptors = 253

// Pair makes two connected sockets of a kind such as unix.SOCK_STREAM: the descriptor of the end
// that this process keeps, and the end that another process is started with.
func Pair(kind int) (ours int, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, os.NewSyscallError("socketpair", err)
	}
	return fds[0], os.NewFile(uintptr(fds[1]), "socket"), nil
}

// Conn makes a connection of a socket, and closes the descriptor in any case.
func Conn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	c, err := net.FileConn(f) // which duplicates it
	err = errors.Join(err, f.Close())
	u, ok := c.(*net.UnixConn)
	switch {
	case err == nil && ok:
		return u, nil
	case c != nil:
		err = errors.Join(err, c.Close())
	}
	return nil, errors.Join(errors.New("the descriptor is no Unix socket"), err)
}

// Descriptors returns the descriptors that came with a message. If the control messages are
// malformed or bring anything else, it closes them and fails.
func Descriptors(control []byte) ([]int, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			Close(all)
			return nil, fmt.Errorf("descriptors: %w", err)
		}
		all = append(all, fds...)
	}
	return all, nil
}

// Close closes descriptors that came with a message and are not used.
func Close(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // holds nothing that could be lost
	}
}
