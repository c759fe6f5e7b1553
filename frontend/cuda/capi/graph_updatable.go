package capi

import (
	"encoding/binary"
	"errors"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// Kernel nodes that kernels may change.
//
// What the next launch of such a node takes lies in pinned memory of its context: its parameters, its grid, and
// whether it is enabled. Kernels write there (frontend/cuda/link/runtime_node.ptx), and the program's library
// reads it when the nodes before it are done. Whatever the program changes of the executable graph writes all
// of it again, as an H100 does.

// Layout of that memory; frontend/cuda/link/runtime_node.ptx has it, too.
const (
	updatableSelf    = 0
	updatableBytes   = 8
	updatableEnabled = 12
	updatableGrid    = 16
	updatableParams  = 32

	updatableRoom = 4 << 10 // of parameters, if the kernel has no more
)

// updatable is what kernels change of a node.
type updatable struct {
	mem  *cuda.HostMem
	room uint32 // bytes of parameters
}

// becomeUpdatable is the attribute of a node that is set: work that kernels may change.
func (w *kernelWork) becomeUpdatable() (*kernelWork, error) {
	room := max(uint32(len(w.params)+3)&^3, updatableRoom)
	mem, err := w.f.mod.ctx.MemAllocHost(uint64(updatableParams + room))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(mem.SetWord(updatableSelf, 0), mem.SetWord(updatableSelf+4, 0)); err != nil {
		return nil, errors.Join(err, mem.Free())
	}
	made := *w
	made.updatable = &updatable{mem: mem, room: room}
	return &made, nil
}

// node is what kernels know a node by; 0 if they may not change it.
func (u *updatable) node() uint64 {
	if u == nil {
		return 0
	}
	return uint64(u.mem.DevicePtr())
}

// value is the attribute of a node.
func (u *updatable) value() []byte {
	v := make([]byte, attributeValueBytes)
	if u != nil {
		v[0] = 1
		binary.LittleEndian.PutUint64(v[8:], u.node())
	}
	return v
}

// setUpdatable gets (node, attribute, value): whether kernels may change the node, which stays so.
func (c *call) setUpdatable(value []byte) error {
	return c.withGraphs(func(*graphs) error {
		n, err := c.nodeOf(0, graph.Kernel)
		if err != nil {
			return err
		}
		if err := c.noBody(n.Graph(), "kernels cannot change its nodes"); err != nil {
			return err
		}
		w := n.Work.(*kernelWork)
		switch is := le32(value); {
		case is > 1:
			return c.fail(cuda.ErrInvalidValue, "%d is neither 0 nor 1", is)
		case is == 0 && w.updatable != nil:
			return c.fail(cuda.ErrNotSupported, "a node that kernels may change stays so")
		case is == 0:
			return nil
		}
		if w.updatable == nil {
			if w, err = w.becomeUpdatable(); err != nil {
				return err
			}
			n.Work = w
		}
		return out{c: c, addr: c.u64(2) + 8, n: 8}.set(w.updatable.node())
	})
}

// workOf is the work of a node, nil if there is no node.
func workOf(n *graph.Node) any {
	if n == nil {
		return nil
	}
	return n.Work
}

// updatables are the kernel nodes that kernels may change.
func updatables(g *graph.Graph) (all []*graph.Node) {
	for _, n := range g.Nodes() {
		if w, ok := n.Work.(*kernelWork); ok && w.updatable != nil {
			all = append(all, n)
		}
	}
	return all
}

// lay writes what the next launch of a node takes.
func (u *updatable) lay(c *call, w *kernelWork, enabled bool) error {
	if uint32(len(w.params)) > u.room {
		return c.fail(cuda.ErrNotSupported, "a kernel with %d bytes of parameters in a node that kernels may change, with room for %d", len(w.params), u.room)
	}
	on := uint32(0)
	if enabled {
		on = 1
	}
	err := errors.Join(u.mem.SetWord(updatableBytes, uint32(len(w.params))), u.mem.SetWord(updatableEnabled, on))
	for i, n := range w.cfg.Grid {
		err = errors.Join(err, u.mem.SetWord(updatableGrid+4*uint64(i), n))
	}
	params := append(append([]byte{}, w.params...), 0, 0, 0)
	for at := 0; at+4 <= len(params); at += 4 {
		err = errors.Join(err, u.mem.SetWord(updatableParams+uint64(at), le32(params[at:])))
	}
	return err
}

// now is the work of a node as kernels have left it; nil if they have disabled it.
func (w *kernelWork) now() (*kernelWork, error) {
	u := w.updatable
	on, err := u.mem.Word(updatableEnabled)
	if err != nil || on == 0 {
		return nil, err
	}
	made := *w
	made.params = make([]byte, 0, len(w.params)+3)
	for i := range made.cfg.Grid {
		v, gerr := u.mem.Word(updatableGrid + 4*uint64(i))
		made.cfg.Grid[i], err = v, errors.Join(err, gerr)
	}
	for len(made.params) < len(w.params) {
		v, perr := u.mem.Word(updatableParams + uint64(len(made.params)))
		if err = errors.Join(err, perr); err != nil {
			return nil, err
		}
		made.params = binary.LittleEndian.AppendUint32(made.params, v)
	}
	made.params = made.params[:len(w.params)]
	return &made, err
}

// changeable adds a node that kernels may change.
func (p *preparation) changeable(w *kernelWork, enabled bool) error {
	if err := w.updatable.lay(p.c, w, enabled); err != nil {
		return err
	}
	own := w.f.mod.ctx
	p.steps = append(p.steps, graphStep{program: func(_ *call, x *context, s *cuda.Stream) error {
		if err := s.Synchronize(); err != nil {
			return err
		}
		as, err := w.now()
		if err != nil || as == nil {
			return err
		}
		b := own.NewBatch()
		if err := as.add(b); err != nil {
			return err
		}
		if own != x {
			return own.beside(s, b.Queue)
		}
		return b.Queue(s)
	}})
	return nil
}

// allow lets kernels change nodes from now on.
func (e *graphExec) allow() (err error) {
	for _, n := range updatables(e.graph) {
		u := n.Work.(*kernelWork).updatable
		at := u.node()
		err = errors.Join(err, u.mem.SetWord(updatableSelf+4, uint32(at>>32)), u.mem.SetWord(updatableSelf, uint32(at)))
	}
	return err
}
