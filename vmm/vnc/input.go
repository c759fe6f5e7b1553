package vnc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Input takes what viewers do with their keyboards and pointers. Its methods are called by
// several goroutines, those of one viewer one after the other; an error ends that viewer.
type Input interface {
	// Key reports that a key went down or up.
	Key(ctx context.Context, k Key, down bool) error
	// Pointer is where the pointer is now and which buttons are pressed (ButtonLeft …).
	// x and y go from 0 to MaxAxis, from the left and from the top. changed has the buttons
	// that were not like that before.
	Pointer(ctx context.Context, x, y int, pressed, changed Buttons) error
}

// Key is a key. Viewers that do not tell where it lies have Code 0.
type Key struct {
	Symbol uint32 // X's keysym: its meaning on the viewer's keyboard
	Code   uint32 // its place: a code of set 1 of the PC's keyboards, with 0x80 if it follows 0xe0
}

// Buttons is a set of a pointer's buttons (RFC 6143, section 7.5.5, and what QEMU and
// others have made of the rest).
type Buttons uint8

// The buttons.
const (
	ButtonLeft Buttons = 1 << iota
	ButtonMiddle
	ButtonRight
	WheelUp
	WheelDown
	WheelLeft
	WheelRight
)

// MaxAxis is the largest value of a pointer's axis.
const MaxAxis = 0x7fff

// maxPressed bounds the keys that a viewer holds down.
const maxPressed = 64

// errPressed reports that a viewer holds too many keys.
var errPressed = errors.New("too many keys are held down")

// hands is the state of a viewer's keyboard and pointer. It belongs to the goroutine
// that reads; nil where viewers only look.
type hands struct {
	input   Input
	pressed []Key
	buttons Buttons
	x, y    int
}

// key passes on that a key goes down or up.
func (h *hands) key(ctx context.Context, k Key, down bool) error {
	i := slices.Index(h.pressed, k)
	switch {
	case !down && i < 0:
		return nil // it was let go of before the viewer came
	case !down:
		h.pressed = slices.Delete(h.pressed, i, i+1)
	case i < 0 && len(h.pressed) == maxPressed:
		return errPressed
	case i < 0:
		h.pressed = append(h.pressed, k)
	}
	return h.input.Key(ctx, k, down)
}

// point passes on where the pointer is, on a screen of w by h pixels.
func (h *hands) point(ctx context.Context, buttons Buttons, x, y, width, height int) error {
	changed := buttons ^ h.buttons
	h.buttons, h.x, h.y = buttons, axis(x, width), axis(y, height)
	return h.input.Pointer(ctx, h.x, h.y, buttons, changed)
}

// axis makes a value of 0 to MaxAxis of a pixel of a row.
func axis(at, size int) int { return min(at, max(size-1, 0)) * MaxAxis / max(size-1, 1) }

// letGo releases the keys and buttons of a viewer that has disconnected.
func (h *hands) letGo(ctx context.Context) {
	for _, k := range slices.Clone(h.pressed) {
		if h.key(ctx, k, false) != nil {
			return // the machine is gone
		}
	}
	if h.buttons != 0 {
		_ = h.input.Pointer(ctx, h.x, h.y, 0, h.buttons) // as above
	}
}

// extendedKey reads the rest of a message of QEMU's (rfbproto, "QEMU Extended Key Event
// Message"): u8 0, down u16, keysym u32, code u32.
func (v *viewer) extendedKey() (k Key, down bool, err error) {
	var b [11]byte
	if _, err := io.ReadFull(v.in, b[:]); err != nil {
		return k, false, err
	}
	if b[0] != 0 {
		return k, false, fmt.Errorf("the viewer sent message %d.%d", qemuMessage, b[0])
	}
	be := binary.BigEndian
	k = Key{Symbol: be.Uint32(b[3:]), Code: be.Uint32(b[7:])}
	if k.Code > 0xff {
		k.Code = 0 // there is no such key on a PC's keyboard
	}
	return k, be.Uint16(b[1:]) != 0, nil
}

// act passes on a message of keyboard or pointer, if it is one.
func (v *viewer) act(ctx context.Context, kind byte, b []byte) error {
	be := binary.BigEndian
	k, down := Key{}, false
	switch kind {
	case keyEvent:
		k, down = Key{Symbol: be.Uint32(b[3:])}, b[0] != 0
	case qemuMessage:
		var err error
		if k, down, err = v.extendedKey(); err != nil {
			return err
		}
	case pointerEvent:
		if v.hands == nil {
			return nil
		}
		v.mu.Lock()
		w, h := v.width, v.height
		v.mu.Unlock()
		return v.hands.point(ctx, Buttons(b[0]), int(be.Uint16(b[1:])), int(be.Uint16(b[3:])), w, h)
	default:
		return nil
	}
	if v.hands == nil {
		return nil
	}
	return v.hands.key(ctx, k, down)
}
