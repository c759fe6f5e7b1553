package host

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// firstHandle leaves 0 to 2 out, which programs may take for standard streams.
const firstHandle = 3

// handles are the files and sockets of a program. Their numbers are its own, and no descriptors of
// the process, which a kernel cannot name.
type handles struct {
	most int

	mu    sync.Mutex
	open  []io.Closer // by number from firstHandle on; nil is free
	count int         // those that are open or reserved
	over  bool
}

// reserve makes room for one, before it is opened.
func (h *handles) reserve() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return syscall.ECANCELED
	}
	if h.count >= h.most {
		return syscall.EMFILE
	}
	h.count++
	return nil
}

// add gives a reserved number to x; or gives the room back, if opening it failed.
func (h *handles) add(x io.Closer, err error) (int64, error) {
	h.mu.Lock()
	if err == nil && h.over {
		h.mu.Unlock()
		return 0, errors.Join(syscall.ECANCELED, x.Close())
	}
	defer h.mu.Unlock()
	if err != nil {
		h.count--
		return 0, err
	}
	for i, o := range h.open {
		if o == nil {
			h.open[i] = x
			return int64(i + firstHandle), nil
		}
	}
	h.open = append(h.open, x)
	return int64(len(h.open) - 1 + firstHandle), nil
}

// find finds what has a number, which is to be a T. The caller holds mu.
func find[T io.Closer](h *handles, number uint32) (x T, i int, err error) {
	if i = int(number) - firstHandle; i >= 0 && i < len(h.open) {
		if x, ok := h.open[i].(T); ok {
			return x, i, nil
		}
	}
	return x, i, syscall.EBADF
}

// handle finds what has a number, which is to be a T.
func handle[T io.Closer](h *handles, number uint32) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x, _, err := find[T](h, number)
	return x, err
}

// remove closes a T.
func remove[T io.Closer](h *handles, number uint32) (int64, error) {
	h.mu.Lock()
	x, i, err := find[T](h, number)
	if err != nil {
		h.mu.Unlock()
		return 0, err
	}
	h.open[i] = nil
	h.count--
	h.mu.Unlock()
	return 0, x.Close()
}

// closeAll ends what waits, and lets nothing be opened any more.
func (h *handles) closeAll() error {
	h.mu.Lock()
	open := h.open
	h.open, h.over = nil, true
	h.mu.Unlock()
	var errs []error
	for _, o := range open {
		if o != nil {
			errs = append(errs, o.Close())
		}
	}
	return errors.Join(errs...)
}
