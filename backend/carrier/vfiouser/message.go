package vfiouser

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// command is what a message asks for.
type command uint16

// Commands of the protocol that a device without interrupts and migration needs.
const (
	cmdVersion     command = 1
	cmdMap         command = 2
	cmdUnmap       command = 3
	cmdDevice      command = 4
	cmdRegion      command = 5
	cmdRegionFiles command = 6
	cmdInterrupt   command = 7
	cmdInterrupts  command = 8
	cmdRead        command = 9
	cmdWrite       command = 10
	cmdReset       command = 13
	cmdWrites      command = 15
)

// Sizes and bounds of messages, bytes.
const (
	headBytes  = 16
	maxPayload = 4 << 10 // a request's: the client learns maxTransfer before it sends more
	maxFiles   = 8

	// MaxTransfer is the most that one access reads or writes.
	MaxTransfer = 1 << 10
)

// Bits of a message's flags.
const (
	flagReply   = 1
	flagType    = 15
	flagSilent  = 1 << 4 // no reply
	flagFailure = 1 << 5
)

// ErrProtocol reports a client that does not keep to the protocol.
var ErrProtocol = errors.New("not a message of vfio-user")

// message is a request or a reply, all little-endian:
//
//	0  u16 number, which the reply repeats
//	2  u16 command
//	4  u32 bytes of the message
//	8  u32 flags
//	12 u32 errno of a reply that has flagFailure
type message struct {
	number  uint16
	command command
	flags   uint32
	payload []byte
	files   []int
}

// parse decodes the head of a request, and returns the bytes of its payload.
func parse(head *[headBytes]byte) (m message, payload int, err error) {
	m = message{number: binary.LittleEndian.Uint16(head[0:]), command: command(binary.LittleEndian.Uint16(head[2:])), flags: binary.LittleEndian.Uint32(head[8:])}
	n := binary.LittleEndian.Uint32(head[4:])
	switch {
	case n < headBytes || n > headBytes+maxPayload:
		return m, 0, fmt.Errorf("%w: command %d of %d bytes", ErrProtocol, m.command, n)
	case m.flags&flagType != 0 || m.flags&^uint32(flagSilent) != 0:
		return m, 0, fmt.Errorf("%w: command %d with flags 0x%x", ErrProtocol, m.command, m.flags)
	}
	return m, int(n) - headBytes, nil
}

// receive reads a request. It returns io.EOF when the client has hung up between two. The descriptors are
// the caller's to close.
func receive(c *net.UnixConn) (m message, err error) {
	var head [headBytes]byte
	control := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, controls, flags, _, err := c.ReadMsgUnix(head[:], control)
	if n == 0 && controls == 0 && (err == nil || errors.Is(err, io.EOF)) {
		return m, io.EOF
	}
	files, wrong := unixsock.Descriptors(control[:controls])
	if err == nil {
		err = wrong
	}
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = fmt.Errorf("%w: more than %d descriptors", ErrProtocol, maxFiles)
	}
	size := 0
	if err == nil {
		if _, err = io.ReadFull(c, head[n:]); err == nil {
			m, size, err = parse(&head)
		}
	}
	if err == nil {
		m.payload = make([]byte, size)
		_, err = io.ReadFull(c, m.payload)
	}
	if err != nil {
		unixsock.Close(files)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it ends in the middle", ErrProtocol)
		}
		return message{}, err
	}
	m.files = files
	return m, nil
}

// take takes the first descriptor over; -1 if there is none.
func (m *message) take() int {
	if len(m.files) == 0 {
		return -1
	}
	fd := m.files[0]
	m.files = m.files[1:]
	return fd
}

// reply encodes the reply to a request; with an errno, that and nothing else.
func (m *message) reply(payload []byte, failure unix.Errno) []byte {
	flags := uint32(flagReply)
	if failure != 0 {
		flags |= flagFailure
		payload = nil
	}
	b := binary.LittleEndian.AppendUint16(nil, m.number)
	b = binary.LittleEndian.AppendUint16(b, uint16(m.command))
	b = binary.LittleEndian.AppendUint32(b, uint32(headBytes+len(payload)))
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(failure))
	return append(b, payload...)
}
