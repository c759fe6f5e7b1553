package vnc

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// diary is an Input that writes down what it is told.
type diary struct {
	mu    sync.Mutex
	lines []string
	err   error
}

func (d *diary) add(format string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
	return d.err
}

func (d *diary) Key(_ context.Context, k Key, down bool) error {
	return d.add("key %#x %#x %t", k.Symbol, k.Code, down)
}

func (d *diary) Pointer(_ context.Context, x, y int, pressed, changed Buttons) error {
	return d.add("pointer %d %d %b %b", x, y, pressed, changed)
}

// has waits until that was told, and forgets it.
func (d *diary) has(t *testing.T, lines ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Equal(c, lines, d.lines)
	}, 5*time.Minute, time.Millisecond)
	d.mu.Lock()
	d.lines = nil
	d.mu.Unlock()
}

func TestInput(t *testing.T) {
	d := &diary{}
	w := &wall{p: plain(101, 51, 1, 2, 3), input: d}
	c := dial(t, serve(t, w))
	c.greet()
	c.say(keyEvent, 1, 0, 0, 0, 0, 0, 'a')
	c.say(keyEvent, 0, 0, 0, 0, 0, 0, 'a')
	c.say(keyEvent, 0, 0, 0, 0, 0, 0, 'b') // it was never pressed
	d.has(t, "key 0x61 0x0 true", "key 0x61 0x0 false")
	c.say(pointerEvent, 0, 0, 0, 0, 0)
	c.say(pointerEvent, 1, 0, 100, 0, 50)
	c.say(pointerEvent, 5, 0, 50, 0, 25)
	c.say(pointerEvent, 4, 255, 255, 255, 255)
	d.has(t, "pointer 0 0 0 0", "pointer 32767 32767 1 1", "pointer 16383 16383 101 100", "pointer 32767 32767 100 1")

	// It may tell where keys lie once it has asked for that.
	c.say(setEncodings, 0, 0, 2, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfe)
	require.Equal(t, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfe}, c.read(16))
	c.say(qemuMessage, 0, 0, 1, 0, 0, 0xff, 0x53, 0, 0, 0, 0xcd)
	c.say(qemuMessage, 0, 0, 1, 0, 0, 0, 'x', 0, 0, 1, 0) // no code of a PC's keyboard
	d.has(t, "key 0xff53 0xcd true", "key 0x78 0x0 true")

	// What it held is let go of when it goes away.
	require.NoError(t, c.Close())
	d.has(t, "key 0xff53 0xcd false", "key 0x78 0x0 false", "pointer 32767 32767 0 100")
}

// The screen that a viewer points at is the one that it has seen.
func TestPointerAfterResize(t *testing.T) {
	d := &diary{}
	w := &wall{p: plain(11, 11, 1, 2, 3), input: d}
	c := dial(t, serve(t, w))
	c.greet()
	c.say(setEncodings, 0, 0, 1, 0xff, 0xff, 0xff, 0x21)
	c.request(0)
	c.update(4)
	w.show(plain(21, 5, 1, 2, 3))
	c.say(pointerEvent, 0, 0, 10, 0, 10)
	d.has(t, "pointer 32767 32767 0 0")
	c.request(1)
	c.read(4 + 2*12 + 4*21*5)
	c.say(pointerEvent, 0, 0, 10, 0, 2)
	d.has(t, "pointer 16383 16383 0 0")
	w.show(plain(1, 1, 1, 2, 3))
	c.request(1)
	c.read(4 + 2*12 + 4)
	c.say(pointerEvent, 0, 0, 0, 0, 0)
	d.has(t, "pointer 0 0 0 0")
}

// A viewer ends that does what no viewer may.
func TestWrongHands(t *testing.T) {
	for name, say := range map[string][]byte{
		"another message of QEMU's": {qemuMessage, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"too many keys": func() (b []byte) {
			for k := range byte(maxPressed + 1) {
				b = append(b, keyEvent, 1, 0, 0, 0, 0, 0, k)
			}
			return b
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, serve(t, &wall{p: plain(4, 3, 1, 2, 3), input: &diary{}}))
			c.greet()
			c.say(say...)
			c.gone()
		})
	}
	t.Run("the machine is gone", func(t *testing.T) {
		c := dial(t, serve(t, &wall{p: plain(4, 3, 1, 2, 3), input: &diary{err: context.Canceled}}))
		c.greet()
		c.say(pointerEvent, 0, 0, 0, 0, 0)
		c.gone()
	})
}

// Those who only look do nothing.
func TestLookingOnly(t *testing.T) {
	c := dial(t, serve(t, &wall{p: plain(4, 3, 1, 2, 3)}))
	c.greet()
	c.say(keyEvent, 1, 0, 0, 0, 0, 0, 'a')
	c.say(pointerEvent, 1, 0, 0, 0, 0)
	c.say(setEncodings, 0, 0, 1, 0xff, 0xff, 0xfe, 0xfe)
	c.request(0)
	c.update(4)
}
