package capi

import (
	"maps"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// userObject is a CUuserObject: something of the program that it wants to hear the end of. Graphs
// hold references to it; their clones, children and executable copies hold one of their own each.
type userObject struct {
	destroy, value uint64 // a function of the program, and what it gets
	handle         uint64
	refs           uint64 // guarded by graphs.mu
}

// Flags of user objects.
const (
	userObjectNoDestructorSync = 1 // the only kind that there is
	graphUserObjectMove        = 1 // the reference is the caller's
)

// userObjectCreate gets (object, value, destructor, references, flags).
func userObjectCreate(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if c.u64(2) == 0 || c.u32(3) == 0 || c.u32(4) != userObjectNoDestructorSync {
		return c.fail(cuda.ErrInvalidValue, "a user object with destructor 0x%x, %d references and flags 0x%x", c.u64(2), c.u32(3), c.u32(4))
	}
	o := &userObject{destroy: c.u64(2), value: c.u64(1), refs: uint64(c.u32(3))}
	o.handle = c.lib.handles.add(o)
	return to.set(o.handle)
}

// userObjectAndRefs is a user object in an argument, and a number of references in the next.
func (c *call) userObjectAndRefs(i int) (*userObject, uint64, error) {
	o, ok := find[*userObject](c.lib, c.u64(i))
	if !ok {
		return nil, 0, c.fail(cuda.ErrInvalidValue, "0x%x is no user object", c.u64(i))
	}
	n := c.u32(i + 1)
	if n == 0 {
		return nil, 0, c.fail(cuda.ErrInvalidValue, "%d references", n)
	}
	return o, uint64(n), nil
}

// userObjectRetain gets (object, count).
func userObjectRetain(c *call) error {
	return c.withGraphs(func(*graphs) error {
		o, n, err := c.userObjectAndRefs(0)
		if err != nil {
			return err
		}
		o.refs += n
		return nil
	})
}

// userObjectRelease gets (object, count).
func userObjectRelease(c *call) error {
	return c.withUserObjects(func(g *graphs) error {
		o, n, err := c.userObjectAndRefs(0)
		if err != nil {
			return err
		}
		if n > o.refs {
			return c.fail(cuda.ErrInvalidValue, "%d references of %d are released", n, o.refs)
		}
		g.unrefer(o, n)
		return nil
	})
}

// graphRetainUserObject gets (graph, object, count, flags).
func graphRetainUserObject(c *call) error {
	return c.withGraphs(func(gs *graphs) error {
		g, o, n, err := c.graphAndUserObject()
		if err != nil {
			return err
		}
		if c.u32(3)&^graphUserObjectMove != 0 {
			return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(3))
		}
		if c.u32(3)&graphUserObjectMove == 0 {
			o.refs += n
		} else if n > o.refs {
			return c.fail(cuda.ErrInvalidValue, "%d references of %d are moved", n, o.refs)
		}
		gs.keep(g, map[*userObject]uint64{o: n})
		return nil
	})
}

// graphReleaseUserObject gets (graph, object, count).
func graphReleaseUserObject(c *call) error {
	return c.withUserObjects(func(gs *graphs) error {
		g, o, n, err := c.graphAndUserObject()
		if err != nil {
			return err
		}
		kept := gs.objects[g]
		if n > kept[o] {
			return c.fail(cuda.ErrInvalidValue, "the graph has %d references and not %d", kept[o], n)
		}
		if kept[o] -= n; kept[o] == 0 {
			delete(kept, o)
		}
		gs.unrefer(o, n)
		return nil
	})
}

func (c *call) graphAndUserObject() (*graph.Graph, *userObject, uint64, error) {
	g, err := c.graph(0)
	if err != nil {
		return nil, nil, 0, err
	}
	o, n, err := c.userObjectAndRefs(1)
	return g, o, n, err
}

// keep adds references that a graph holds, which are counted already.
//
// Preconditions: g.mu is held.
func (g *graphs) keep(of *graph.Graph, all map[*userObject]uint64) {
	if len(all) == 0 {
		return
	}
	if g.objects == nil {
		g.objects = map[*graph.Graph]map[*userObject]uint64{}
	}
	if g.objects[of] == nil {
		g.objects[of] = map[*userObject]uint64{}
	}
	for o, n := range all {
		g.objects[of][o] += n
	}
}

// share lets a graph that has a copy of another hold a reference to each of its user objects.
//
// Preconditions: g.mu is held.
func (g *graphs) share(to, from *graph.Graph) {
	all := maps.Clone(g.objects[from])
	for o := range all {
		all[o] = 1
		o.refs++
	}
	g.keep(to, all)
}

// exchange lets a graph that is updated with another hold references to that one's user objects, and
// moves those that it held before to a third graph.
//
// Preconditions: g.mu is held.
func (g *graphs) exchange(of, with, before *graph.Graph) {
	held := g.objects[of]
	delete(g.objects, of)
	g.share(of, with)
	g.keep(before, held)
}

// forgo gives up the references of a graph that ends.
//
// Preconditions: g.mu is held.
func (g *graphs) forgo(of *graph.Graph) {
	for o, n := range g.objects[of] {
		g.unrefer(o, n)
	}
	delete(g.objects, of)
}

func (g *graphs) unrefer(o *userObject, n uint64) {
	if o.refs -= n; o.refs == 0 {
		g.dead = append(g.dead, o)
	}
}

// withUserObjects is withGraphs for what may drop references. The destructors of objects that have
// none any more run when do is over, as functions of the program may take long.
func (c *call) withUserObjects(do func(g *graphs) error) error {
	err := c.withGraphs(do)
	c.lib.endUserObjects()
	return err
}

// endUserObjects runs the destructors of user objects that have no references any more.
func (l *Library) endUserObjects() {
	l.graphs.mu.Lock()
	dead := l.graphs.dead
	l.graphs.dead = nil
	l.graphs.mu.Unlock()
	for _, o := range dead {
		l.handles.remove(o.handle)
		l.cfg.Invoke(o.destroy, o.value, 0, 0)
	}
}
