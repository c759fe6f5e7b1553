package cuda

import (
	"bytes"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"pvdrm/drm"
)

// output takes what kernels print to Driver.Output, as CUDA does when the program
// waits for them.
type output struct {
	used atomic.Bool // a module that was loaded prints

	mu sync.Mutex // keeps pieces in order; nothing else is taken under it
}

// watch notes whether a module prints.
func (o *output) watch(ptx []byte) {
	if bytes.Contains(ptx, []byte("vprintf")) {
		o.used.Store(true)
	}
}

// flush writes out what is there. That the program's standard output does not
// take it, or that the backend is gone, is no failure of the call that waited.
func (o *output) flush(f drm.File, to io.Writer) {
	r, ok := f.(drm.OutputReader)
	if !ok || !o.used.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if to == nil {
		to = os.Stdout
	}
	const most = 1 << 12 // pieces at a time: a kernel that prints for ever must not hold us
	for range most {
		text, err := r.ReadOutput()
		if err != nil || len(text) == 0 {
			return
		}
		_, _ = to.Write(text)
	}
}
