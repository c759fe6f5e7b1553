package points

import (
	"errors"
	"strings"
	"sync"

	"pvdrm/gpu"
)

// names knows the kernels behind twins, for faults: programs know nothing of twins.
type names struct {
	mu   sync.Mutex
	of   map[string]string // kernels by twins
	lost *gpu.LostError    // the fault of the context, with the kernel's name; nil before, or if it needs none
}

// add adds the twins of a module.
func (n *names) add(m *module) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string]string{}
	}
	for name, k := range m.kernels {
		n.of[k.is.Twin] = name
	}
}

// named returns an error as a program is to see it.
func (n *names) named(err error) error {
	lost, ok := errors.AsType[*gpu.LostError](err)
	if !ok {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	name, is := n.of[lost.Kernel]
	if !is {
		return err
	}
	if n.lost == nil {
		own := *lost
		own.Kernel = name
		n.lost = &own
	}
	if err == error(lost) {
		return n.lost
	}
	return &renamed{text: strings.ReplaceAll(err.Error(), lost.Kernel, name), lost: n.lost}
}

// renamed is an error about a fault with the kernel's name in place of its twin's.
type renamed struct {
	text string
	lost *gpu.LostError
}

func (r *renamed) Error() string { return r.text }
func (r *renamed) Unwrap() error { return r.lost }

// told has a done function get errors as a program is to see them.
func (n *names) told(done func(gpu.Result)) func(gpu.Result) {
	return func(r gpu.Result) {
		r.Err = n.named(r.Err)
		done(r)
	}
}

// Err implements gpu.Context.
func (c *context) Err() error { return c.names.named(c.Context.Err()) }

// NewVRAM implements gpu.Context.
func (c *context) NewVRAM(size uint64) (gpu.Memory, error) {
	m, err := c.Context.NewVRAM(size)
	return m, c.names.named(err)
}

// NewSystem implements gpu.Context.
func (c *context) NewSystem(runs [][]byte) (gpu.Memory, error) {
	m, err := c.Context.NewSystem(runs)
	return m, c.names.named(err)
}
