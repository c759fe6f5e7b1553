package cprintf

import "fmt"

// Assert is a call of __assertfail: the addresses of the texts, of which 0 stands for none, and
// where the thread is.
type Assert struct {
	Message, File, Function uint64
	Line                    uint32
	Block, Thread           [3]uint32
}

// Text returns the line that CUDA prints (CUDA C++ Programming Guide, "Assertion").
func (a *Assert) Text(read Reader) string {
	text := func(addr uint64) string {
		if addr == 0 {
			return ""
		}
		return read.text(addr, maxText)
	}
	b, t := a.Block, a.Thread
	return fmt.Sprintf("%s:%d: %s: block: [%d,%d,%d], thread: [%d,%d,%d] Assertion `%s` failed.\n",
		text(a.File), a.Line, text(a.Function), b[0], b[1], b[2], t[0], t[1], t[2], text(a.Message))
}
