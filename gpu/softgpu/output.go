package softgpu

import "sync"

// outputBytes is how much printf output a context keeps for its program, as
// CUDA does by default (cudaLimitPrintfFifoSize). When it is full, the oldest is lost.
const outputBytes = 1 << 20

// output is the printf output of a context. Workers of a kernel write at once.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) print(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, text...)
	if len(o.text) > 2*outputBytes {
		o.trim()
	}
}

// trim drops the oldest of what is more than is kept. print does so only once as much
// again has gathered, so that a line does not cost a move of all the others.
func (o *output) trim() {
	if over := len(o.text) - outputBytes; over > 0 {
		o.text = append(o.text[:0], o.text[over:]...)
	}
}

// ReadOutput implements gpu.Printer.
func (c *context) ReadOutput(p []byte) int {
	o := &c.output
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trim()
	n := copy(p, o.text)
	o.text = o.text[n:]
	if len(o.text) == 0 {
		o.text = nil // gives the memory back
	}
	return n
}
