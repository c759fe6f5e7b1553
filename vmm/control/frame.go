// Package control is the protocol between the host and the init process of a guest.
//
// It runs over one reliable byte stream (a virtio-serial port) and carries any number of calls at
// once: programs to run, with their three streams or a terminal, and files to write. The host
// starts calls and numbers them; the guest ends each with one Exit.
//
// # Frames
//
// Every frame is a header of 12 bytes, little-endian, and a payload of at most MaxPayload bytes:
//
//	0  u32  length of the payload in bytes
//	4  u32  call, chosen by the host, 0 where the frame belongs to no call
//	8  u8   type
//	9  u8   stream (Data, Close and Window), else 0
//	10 u16  reserved, 0
//
// # Flow control
//
// Each stream of a call has a window of Window bytes: its sender may have no more than that
// outstanding, and the receiver returns credit with Window frames as the data is consumed. So a
// program that floods its output, or a slow reader on the host, stops that stream alone and never
// holds more than a window in memory.
//
// # Goroutines and locks
//
// A Conn is written by any goroutine (a mutex keeps frames whole) and read by one. The goroutine
// that reads a Conn never writes to it and never waits for a consumer: that keeps both ends free of
// deadlock. Client owns one reading goroutine for its life and up to three copying ones for a call.
// Lock order: Conn.mu (a failed write ends the Client), then Client.mu, then that of an inbox or credit.
package control

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Version of the protocol. The guest sends it in Hello; both sides must have the same one, which
// they do, because the image is built with the program that uses it.
const Version = 2

// PortName is the name of the virtio-serial port that carries the protocol.
const PortName = "pvdrm.control"

// Where the kernel's command line has ProbeParameter, the guest's init says ProbeMarker on the console
// and powers off. It is how the host finds out whether a machine boots at all.
const (
	ProbeParameter = "pvdrm.probe"
	ProbeMarker    = "pvdrm-init: probe ok"
)

// Limits of the protocol, in bytes.
const (
	MaxPayload = 64 << 10  // of any frame
	MaxData    = 16 << 10  // of a Data frame
	Window     = 256 << 10 // outstanding data of one stream

	headerSize = 12
)

// MaxCalls bounds the calls of one connection that run at once.
const MaxCalls = 64

// ErrProtocol marks a message that the other side must not send. The connection is of no use afterwards.
var ErrProtocol = errors.New("control protocol violated")

// Type is the type of a frame.
type Type uint8

// Types of frames.
const (
	TypeHello    Type = 1 + iota // the guest is ready
	TypeStart                    // run a program
	TypePut                      // write a file whose content follows on Stdin
	TypeData                     // bytes of a stream
	TypeClose                    // the end of a stream
	TypeWindow                   // credit for the sender of a stream
	TypeSignal                   // send a signal to the program
	TypeResize                   // the terminal has another size
	TypeExit                     // the call is over
	TypeShutdown                 // power the guest off
	typeEnd
)

// Stream is one of the streams of a call.
type Stream uint8

// Streams. With a terminal, Stdout carries everything that the program writes.
const (
	Stdin Stream = iota
	Stdout
	Stderr
	streamEnd
)

// Side is one end of the connection.
type Side uint8

// The two ends.
const (
	Host Side = iota
	Guest
)

// typeInfo describes the well-formed frames of a type, before their payload is decoded.
type typeInfo struct {
	name     string
	by       [2]bool // the sides that may send it, indexed by Side
	stream   bool    // whether the stream field is used
	min, max int     // payload in bytes
}

var types = [typeEnd]typeInfo{
	TypeHello:    {name: "hello", by: [2]bool{Guest: true}, min: 4, max: MaxPayload},
	TypeStart:    {name: "start", by: [2]bool{Host: true}, min: 4, max: MaxPayload},
	TypePut:      {name: "put", by: [2]bool{Host: true}, min: 4, max: MaxPayload},
	TypeData:     {name: "data", by: [2]bool{Host: true, Guest: true}, stream: true, min: 1, max: MaxData},
	TypeClose:    {name: "close", by: [2]bool{Host: true, Guest: true}, stream: true},
	TypeWindow:   {name: "window", by: [2]bool{Host: true, Guest: true}, stream: true, min: 4, max: 4},
	TypeSignal:   {name: "signal", by: [2]bool{Host: true}, min: 4, max: 4},
	TypeResize:   {name: "resize", by: [2]bool{Host: true}, min: 4, max: 4},
	TypeExit:     {name: "exit", by: [2]bool{Guest: true}, min: 4, max: MaxPayload},
	TypeShutdown: {name: "shutdown", by: [2]bool{Host: true}},
}

func (t Type) String() string {
	if t > 0 && t < typeEnd {
		return types[t].name
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Frame is one frame. A received Payload belongs to the receiver.
type Frame struct {
	Type    Type
	Stream  Stream
	Call    uint32
	Payload []byte
}

// check returns an error if sender may not send f.
func (f Frame) check(sender Side) error {
	if f.Type == 0 || f.Type >= typeEnd {
		return fmt.Errorf("%w: unknown frame %v", ErrProtocol, f.Type)
	}
	info := &types[f.Type]
	switch {
	case !info.by[sender]:
		return fmt.Errorf("%w: %v frame from the wrong side", ErrProtocol, f.Type)
	case len(f.Payload) < info.min || len(f.Payload) > info.max:
		return fmt.Errorf("%w: %v frame with %d bytes, want %d to %d", ErrProtocol, f.Type, len(f.Payload), info.min, info.max)
	case info.stream && f.Stream >= streamEnd, !info.stream && f.Stream != 0:
		return fmt.Errorf("%w: %v frame with stream %d", ErrProtocol, f.Type, f.Stream)
	}
	return nil
}

// Conn sends and receives frames over a byte stream.
type Conn struct {
	side Side
	r    *bufio.Reader
	hdr  [headerSize]byte // of the frame being read

	mu  sync.Mutex
	w   io.Writer
	buf []byte // of the frame being written
	err error  // sticky: a frame written in part ends the connection
}

// NewConn returns a Conn for one side of rw.
func NewConn(rw io.ReadWriter, side Side) *Conn {
	return &Conn{side: side, r: bufio.NewReaderSize(rw, MaxData+headerSize), w: rw}
}

// Send writes one frame with one Write. It is safe for concurrent use.
func (c *Conn) Send(f Frame) error {
	if err := f.check(c.side); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	b := append(c.buf[:0], make([]byte, headerSize)...)
	binary.LittleEndian.PutUint32(b[0:], uint32(len(f.Payload)))
	binary.LittleEndian.PutUint32(b[4:], f.Call)
	b[8], b[9] = byte(f.Type), byte(f.Stream)
	c.buf = append(b, f.Payload...)
	if _, err := c.w.Write(c.buf); err != nil {
		c.err = fmt.Errorf("send %v frame: %w", f.Type, err)
	}
	return c.err
}

// Receive reads the next frame. It returns io.EOF where the stream ended between two frames, and an
// error that wraps ErrProtocol where the other side sent what it must not.
func (c *Conn) Receive() (Frame, error) {
	if _, err := io.ReadFull(c.r, c.hdr[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: Type(c.hdr[8]), Stream: Stream(c.hdr[9]), Call: binary.LittleEndian.Uint32(c.hdr[4:])}
	n := binary.LittleEndian.Uint32(c.hdr[0:])
	if n > MaxPayload {
		return Frame{}, fmt.Errorf("%w: %v frame with %d bytes", ErrProtocol, f.Type, n)
	}
	if c.hdr[10]|c.hdr[11] != 0 {
		return Frame{}, fmt.Errorf("%w: reserved bytes of a %v frame are not zero", ErrProtocol, f.Type)
	}
	f.Payload = make([]byte, n)
	if _, err := io.ReadFull(c.r, f.Payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, fmt.Errorf("receive %v frame: %w", f.Type, err)
	}
	return f, f.check(1 - c.side)
}
