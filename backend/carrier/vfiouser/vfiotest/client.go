// Package vfiotest is a client of vfio-user for tests, written from the protocol's specification and not
// from the server: what QEMU does for a machine, it does for a test.
package vfiotest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// Commands.
const (
	Version     = 1
	DMAMap      = 2
	DMAUnmap    = 3
	DeviceInfo  = 4
	RegionInfo  = 5
	IRQInfo     = 7
	SetIRQs     = 8
	RegionRead  = 9
	RegionWrite = 10
	Reset       = 13
)

// Client is a connection.
type Client struct {
	conn   *net.UnixConn
	number uint16
}

// New makes a client of a connection that is the test's to close.
func New(conn *net.UnixConn) *Client { return &Client{conn: conn} }

// Send sends a request as it is, and returns its number.
func (c *Client) Send(command uint16, flags uint32, payload []byte, files ...int) (uint16, error) {
	c.number++
	b := binary.LittleEndian.AppendUint16(nil, c.number)
	b = binary.LittleEndian.AppendUint16(b, command)
	b = binary.LittleEndian.AppendUint32(b, uint32(16+len(payload)))
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint32(b, 0)
	var control []byte
	if len(files) > 0 {
		control = unix.UnixRights(files...)
	}
	_, _, err := c.conn.WriteMsgUnix(append(b, payload...), control, nil)
	return c.number, err
}

// Do sends a request and returns the payload of its reply, with descriptors that came with it. An errno of
// the server is the error.
func (c *Client) Do(command uint16, payload []byte, files ...int) (reply []byte, got []int, err error) {
	number, err := c.Send(command, 0, payload, files...)
	if err != nil {
		return nil, nil, err
	}
	var head [16]byte
	control := make([]byte, unix.CmsgSpace(4*8))
	n, controls, _, _, err := c.conn.ReadMsgUnix(head[:], control)
	if err == nil {
		_, err = io.ReadFull(c.conn, head[n:])
	}
	if err != nil {
		return nil, nil, err
	}
	got, err = unixsock.Descriptors(control[:controls])
	if err != nil {
		return nil, nil, err
	}
	size := binary.LittleEndian.Uint32(head[4:])
	if size < 16 || size > 1<<20 {
		return nil, got, fmt.Errorf("a reply of %d bytes", size)
	}
	reply = make([]byte, size-16)
	if _, err := io.ReadFull(c.conn, reply); err != nil {
		return nil, got, err
	}
	flags := binary.LittleEndian.Uint32(head[8:])
	switch {
	case binary.LittleEndian.Uint16(head[0:]) != number || binary.LittleEndian.Uint16(head[2:]) != command:
		return nil, got, errors.New("the reply is not to the request")
	case flags&15 != 1:
		return nil, got, errors.New("the reply is not one")
	case flags&0x20 != 0:
		return nil, got, unix.Errno(binary.LittleEndian.Uint32(head[12:]))
	}
	return reply, got, nil
}

// Negotiate agrees on the version.
func (c *Client) Negotiate() error {
	_, _, err := c.Do(Version, append([]byte{0, 0, 0, 0}, []byte(`{"capabilities":{"max_msg_fds":8}}`+"\x00")...))
	return err
}

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// Read reads bytes of a region.
func (c *Client) Read(region int, off uint64, p []byte) error {
	reply, _, err := c.Do(RegionRead, words(off, uint64(region)|uint64(len(p))<<32))
	if err != nil {
		return err
	}
	if len(reply) != 16+len(p) {
		return fmt.Errorf("%d bytes in the reply to a read of %d", len(reply), len(p))
	}
	copy(p, reply[16:])
	return nil
}

// Write writes bytes of a region.
func (c *Client) Write(region int, off uint64, p []byte) error {
	_, _, err := c.Do(RegionWrite, append(words(off, uint64(region)|uint64(len(p))<<32), p...))
	return err
}

// Map maps bytes of a file at a device address.
func (c *Client) Map(addr, size, off uint64, file int) error {
	_, _, err := c.Do(DMAMap, words(32|3<<32, off, addr, size), file)
	return err
}

// Unmap takes them back.
func (c *Client) Unmap(addr, size uint64) error {
	_, _, err := c.Do(DMAUnmap, words(24, addr, size))
	return err
}

// Region is what a client learns of a region.
type Region struct {
	Flags uint32
	Size  uint64
	File  int // -1 for none
	Areas [][2]uint64
}

// Region asks for a region, as QEMU does: first without room for areas.
func (c *Client) Region(index int) (r Region, err error) {
	ask := func(room uint32) ([]byte, []int, error) {
		return c.Do(RegionInfo, words(uint64(room), uint64(index), 0, 0))
	}
	reply, files, err := ask(32)
	if err != nil {
		return r, err
	}
	if need := binary.LittleEndian.Uint32(reply); need > 32 {
		unixsock.Close(files)
		if reply, files, err = ask(need); err != nil {
			return r, err
		}
		if uint32(len(reply)) != need {
			return r, fmt.Errorf("a region takes %d bytes, and the reply has %d", need, len(reply))
		}
	}
	r = Region{Flags: binary.LittleEndian.Uint32(reply[4:]), Size: binary.LittleEndian.Uint64(reply[16:]), File: -1}
	if len(files) > 0 {
		r.File = files[0]
	}
	if more := reply[32:]; len(more) >= 16 {
		for i := range binary.LittleEndian.Uint32(more[8:]) {
			at := more[16+16*i:]
			r.Areas = append(r.Areas, [2]uint64{binary.LittleEndian.Uint64(at), binary.LittleEndian.Uint64(at[8:])})
		}
	}
	return r, nil
}
