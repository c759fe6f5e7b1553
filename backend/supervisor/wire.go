package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// op is an operation of the link between a parent and its child.
type op uint8

// Operations, from the child and to it. The table in operations has the sender of each.
const (
	opReady   op = 1 + iota // the child serves; the text lists the confinement that the host refused
	opFailed                // the child ends for the reason in the text, with the exit code in the code
	opSeat                  // the child asks for a seat at the arbiter: that of the number in the code
	opSeated                // here it is: the descriptors of the connection and of the page
	opRefused               // the arbiter refuses it: an errno and a text
	opAbsent                // no arbiter answers; the text says why
)

// operations is the table of the protocol.
var operations = map[op]struct {
	name      string
	fromChild bool
	text      bool // it may have one
	code      bool // it may have one
	fds       int  // it has as many
}{
	opReady:   {name: "ready", fromChild: true, text: true},
	opFailed:  {name: "failed", fromChild: true, text: true, code: true},
	opSeat:    {name: "seat", fromChild: true, code: true},
	opSeated:  {name: "seated", fds: 2},
	opRefused: {name: "refused", text: true, code: true},
	opAbsent:  {name: "absent", text: true},
}

// String implements fmt.Stringer.
func (o op) String() string {
	if e, ok := operations[o]; ok {
		return e.name
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Sizes of a message, bytes: a head of operation, three zeros and the code (little-endian), then the
// text.
const (
	headBytes  = 8
	maxText    = 1024
	maxMessage = headBytes + maxText
)

// message is what one packet of the link says.
type message struct {
	op   op
	code uint32
	text string
}

// errWire reports that the other side does not keep to the protocol of the link.
var errWire = errors.New("not a message of the link")

// append encodes the message. A text that is too long is cut.
func (m message) append(b []byte) []byte {
	b = append(b, byte(m.op), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, m.code)
	return append(b, shorten(m.text, maxText)...)
}

// decode decodes a packet of the child, or of the parent.
func decode(b []byte, fromChild bool) (message, error) {
	if len(b) < headBytes || len(b) > maxMessage {
		return message{}, fmt.Errorf("%w: %d bytes", errWire, len(b))
	}
	m := message{op: op(b[0]), code: binary.LittleEndian.Uint32(b[4:]), text: string(b[headBytes:])}
	e, known := operations[m.op]
	switch {
	case !known || e.fromChild != fromChild:
		return message{}, fmt.Errorf("%w: %v", errWire, m.op)
	case b[1]|b[2]|b[3] != 0 || m.code != 0 && !e.code || m.text != "" && !e.text:
		return message{}, fmt.Errorf("%w: %v with what it does not have", errWire, m.op)
	}
	return m, nil
}
