package vhostuser

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// receive reads one message. It returns io.EOF when the front end hung up
// between messages. The caller must close the message's descriptors.
func receive(c *net.UnixConn) (*message, error) {
	var head [headerSize]byte
	oob := make([]byte, unix.CmsgSpace(4*maxRegions))
	// Descriptors come with the first byte of a message. Go receives them
	// close-on-exec.
	n, oobn, flags, _, err := c.ReadMsgUnix(head[:], oob)
	fds, ferr := unixsock.Descriptors(oob[:oobn])
	m := message{fds: fds}
	switch {
	case err != nil:
	case n == 0 && oobn == 0:
		err = io.EOF
	case ferr != nil:
		err = violation("control message: %w", ferr)
	case flags&unix.MSG_CTRUNC != 0:
		err = violation("more than %d descriptors with one message", maxRegions)
	default:
		if _, err = io.ReadFull(c, head[n:]); err == nil {
			var size int
			m, size, err = parseHeader(&head)
			m.fds = fds
			if err == nil {
				m.payload = make([]byte, size)
				_, err = io.ReadFull(c, m.payload)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("connection lost inside a message: %w", io.ErrUnexpectedEOF)
		}
	}
	if err != nil {
		m.closeFDs()
		return nil, err
	}
	return &m, nil
}
