package cuda

import (
	"bytes"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"pvdrm/drm"
)

// output takes what kernels print to Driver.Output and Driver.Errors, as CUDA does when the program
// waits for them.
type output struct {
	due atomic.Bool // a stream has work that may print, of which the text was not taken

	mu     sync.Mutex // keeps pieces in order; nothing else is taken under it
	held   []byte     // of the last piece: what may begin a mark
	marked bool       // the last piece ended within a line that is marked
}

// printer is the function that kernels call which print. Those that assert print too, when the context is lost.
const printer = "vprintf"

// mayPrint notes that the work of a stream up to a point has a kernel that may print. c.mu is held.
func (c *Context) mayPrint(p point) {
	p.s.printing = max(p.s.printing, p.seq)
	c.output.due.Store(true)
}

// takeText writes out what kernels printed before points that were waited for. Text of others may come with it. To ask for
// it costs 40 us on an NVIDIA GPU, so it is asked only where a kernel may have printed.
func (c *Context) takeText(points ...point) {
	if !c.output.due.Load() {
		return
	}
	c.output.flush(c.file, c.dev.driver)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range points {
		if p.s.printing <= p.seq {
			p.s.printing = 0
		}
	}
	for _, s := range c.streams {
		if s.printing > 0 {
			return
		}
	}
	c.output.due.Store(false)
}

// flush writes out what is there. That the program's files do not take it, or that the backend is gone, is no
// failure of the call that waited.
func (o *output) flush(f drm.File, d *Driver) {
	r, ok := f.(drm.OutputReader)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	stdout, stderr := d.Output, d.Errors
	if stdout == nil {
		stdout = os.Stdout
	}
	if stderr == nil {
		stderr = os.Stderr
	}
	const most = 1 << 12 // pieces at a time: a kernel that prints for ever must not hold us
	for range most {
		text, err := r.ReadOutput()
		if err != nil || len(text) == 0 {
			break
		}
		o.write(text, stdout, stderr)
	}
	if len(o.held) > 0 { // it was no mark
		_, _ = stdout.Write(o.held)
	}
	o.held = nil
}

// write writes a piece of output: lines behind a mark to stderr, all else to stdout. It holds back
// the end of the piece where that may be a part of a mark.
func (o *output) write(text []byte, stdout, stderr io.Writer) {
	text = append(o.held, text...)
	o.held = nil
	for len(text) > 0 {
		if o.marked {
			line, rest, ended := bytes.Cut(text, []byte("\n"))
			if ended {
				line = text[:len(line)+1]
			}
			_, _ = stderr.Write(line)
			text, o.marked = rest, !ended
			continue
		}
		before, rest, marked := bytes.Cut(text, []byte(drm.StderrMark))
		if !marked {
			n := partOfMark(before)
			before, o.held = before[:len(before)-n], bytes.Clone(before[len(before)-n:])
		}
		if len(before) > 0 {
			_, _ = stdout.Write(before)
		}
		text, o.marked = rest, marked
	}
}

// partOfMark returns how many bytes at the end of a text may begin a mark.
func partOfMark(text []byte) int {
	for n := min(len(text), len(drm.StderrMark)-1); n > 0; n-- {
		if bytes.HasSuffix(text, []byte(drm.StderrMark[:n])) {
			return n
		}
	}
	return 0
}
