package virgl

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// parseRights returns the descriptors that came with a message.
func parseRights(control []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("descriptors: %w", err)
		}
		all = append(all, fds...)
	}
	return all, nil
}

// socketPair makes two connected sockets.
func socketPair(kind int) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "renderer"), os.NewFile(uintptr(fds[1]), "backend"), nil
}

// unixConn takes over a socket.
func unixConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f) // which duplicates it
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a Unix socket"), c.Close())
	}
	return u, nil
}
