package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/backend/arbiter"
)

// How often a child may ask for a seat: as often as a gate's first attempts come, and then a little
// more often than its later ones. A child that asks more often waits.
const (
	seatBurst = 8
	seatRate  = 1 // a second
)

// stage is the state of a child as its parent knows it.
type stage int

const (
	starting stage = iota
	serving
	ending
)

// conversation is the parent's side of the link's protocol, pure: it says what is to be done for each
// message.
type conversation struct{ stage stage }

// take takes a message of the child. It returns an error if the child breaks the protocol.
func (c *conversation) take(m message) error {
	switch {
	case m.op == opReady && c.stage == starting:
		c.stage = serving
	case m.op == opFailed && c.stage != ending:
		c.stage = ending
	case m.op == opSeat && c.stage != ending:
	default:
		return fmt.Errorf("%w: %v at the wrong time", errWire, m.op)
	}
	return nil
}

// answer translates the result of an attempt to take a seat to a message.
func answer(seat *arbiter.Seat, err error) (message, []int) {
	var refused *arbiter.RefusedError
	switch {
	case errors.As(err, &refused):
		return message{op: opRefused, code: uint32(refused.Errno), text: refused.Text}, nil
	case err != nil:
		return message{op: opAbsent, text: err.Error()}, nil
	}
	return message{op: opSeated}, []int{int(seat.Conn.Fd()), int(seat.Page.Fd())}
}

// errNoArbiter reports that a child asked for a seat although its guest has no arbiter.
var errNoArbiter = errors.New("this guest has no arbiter")

// errSeat reports that a child asked for a seat of a number that it has not.
var errSeat = errors.New("this guest has no such seat at the arbiter")

// seat takes a seat for the child, when it is time to.
func (b *Backend) seat(ctx context.Context, number int) (*arbiter.Seat, error) {
	if wait := b.seats.wait(time.Now(), 1); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.cfg.Seat == nil {
		return nil, errNoArbiter
	}
	if number >= max(b.cfg.Seats, 1) {
		return nil, errSeat
	}
	return b.cfg.Seat(ctx, number)
}

// grant answers a request for a seat.
func (b *Backend) grant(ctx context.Context, number uint32) error {
	seat, err := b.seat(ctx, int(number))
	m, fds := answer(seat, err)
	err = b.link.send(m, fds...)
	if seat != nil {
		err = errors.Join(err, seat.Close()) // the child has it
	}
	return err
}

// seatOf turns the parent's answer back into what Take returned.
func seatOf(a reply) (*arbiter.Seat, error) {
	switch a.message.op {
	case opSeated:
		return &arbiter.Seat{Conn: a.files[0], Page: a.files[1]}, nil
	case opRefused:
		return nil, &arbiter.RefusedError{Errno: unix.Errno(a.message.code), Text: a.message.text}
	default:
		return nil, errors.New(a.message.text)
	}
}
