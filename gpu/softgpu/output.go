package softgpu

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// outputBytes is how much printf output a context keeps for its program, as
// CUDA does by default (cudaLimitPrintfFifoSize). When it is full, the oldest is lost.
// When the contexts of a device keep more than allOutputBytes together, each keeps
// fewOutputBytes of what comes.
const (
	outputBytes    = 1 << 20
	fewOutputBytes = 4 << 10
	allOutputBytes = 2 << 20
)

// output is the printf output of a context. Workers of a kernel write at once.
type output struct {
	all *atomic.Int64 // bytes of all contexts of the device

	mu   sync.Mutex
	text []byte
}

func (o *output) print(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := outputBytes
	if o.all.Load() > allOutputBytes {
		keep = fewOutputBytes
	}
	text = text[max(0, len(text)-keep):]
	o.set(append(o.text, text...))
	if len(o.text) > 2*keep {
		o.trim(keep)
	}
}

// set replaces the text. Preconditions: mu is held.
func (o *output) set(text []byte) {
	o.all.Add(int64(cap(text) - cap(o.text)))
	o.text = text
}

// trim drops the oldest of what is more than is kept. print does so only once as much
// again has gathered, so that a line does not cost a move of all the others.
func (o *output) trim(keep int) {
	over := len(o.text) - keep
	switch {
	case over <= 0:
	case keep < outputBytes: // memory is scarce
		o.set(append(make([]byte, 0, 2*keep), o.text[over:]...))
	default:
		o.text = append(o.text[:0], o.text[over:]...)
	}
}

// copy returns what a program has not read yet.
func (o *output) copy() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.text[max(0, len(o.text)-outputBytes):])
}

// close gives the memory back.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set(nil)
}

// ReadOutput implements gpu.Printer.
func (c *context) ReadOutput(p []byte) int {
	o := &c.output
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trim(outputBytes)
	n := copy(p, o.text)
	o.set(o.text[n:])
	if len(o.text) == 0 {
		o.set(nil) // gives the memory back
	}
	return n
}
