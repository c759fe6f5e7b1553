package lower

import (
	"slices"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// maxShared bounds the static .shared memory of a kernel, bytes.
const maxShared = 1 << 24

// maxSharedWork bounds the work of layoutShared, in visits of variables and
// functions.
const maxSharedWork = 1 << 22

// reach is what the body of a function refers to.
type reach struct {
	shared []*ptx.Var
	calls  []*ptx.Func
	any    bool // it makes indirect calls
}

// layoutShared gives every .shared variable one offset, which must serve all
// kernels, because functions that they share name it. Variables that no kernel
// uses together may overlap, so a kernel takes no more than what it reaches.
func (c *compiler) layoutShared() {
	reaches := map[*ptx.Func]*reach{}
	var taken []*ptx.Func // functions whose address is taken anywhere
	for _, f := range c.order {
		c.effort.Memory(reachBytes)
		reaches[f] = c.reachOf(f, &taken)
	}
	for _, d := range c.m.Directives {
		if v, ok := d.(*ptx.Var); ok {
			v.EachInit(func(_ uint64, n *ptx.Init) {
				if n.Kind == ptx.InitAddr {
					if f, ok := n.Ext.Ref.(*ptx.Func); ok {
						c.effort.Memory(ir.ListFactor * 8)
						taken = append(taken, f)
					}
				}
			})
		}
	}
	users := map[*ptx.Var][]int{} // kernels, by number in order
	var vars []*ptx.Var
	work := 0
	for i, f := range c.order {
		if !f.Entry {
			continue
		}
		found := sharedOf(f, reaches, taken, &work)
		c.effort.Memory(ir.ListFactor * 8 * len(found))
		if work > maxSharedWork {
			c.fail(f.Pos, "the module is too complex: too many kernels, functions and shared variables")
			return
		}
		for _, v := range found {
			if users[v] == nil {
				vars = append(vars, v)
			}
			users[v] = append(users[v], i)
		}
	}
	c.assignShared(vars, users)
}

// reachOf scans a body.
func (c *compiler) reachOf(f *ptx.Func, taken *[]*ptx.Func) *reach {
	r := &reach{}
	seen := map[ptx.Decl]bool{}
	add := func(d ptx.Decl, called bool) {
		if d == nil || seen[d] && !called {
			return
		}
		c.effort.Memory(ir.MapFactor*24 + ir.ListFactor*16)
		switch d := d.(type) {
		case *ptx.Var:
			if d.Space == ptx.SpaceShared && !seen[d] {
				r.shared = append(r.shared, d)
			}
		case *ptx.Func:
			if called && !seen[d] {
				r.calls = append(r.calls, d)
			}
			if !called {
				*taken = append(*taken, d)
				return
			}
		}
		seen[d] = true
	}
	for _, s := range f.Body {
		c.effort.Step()
		i, ok := s.(*ptx.Instr)
		if !ok {
			continue
		}
		for k := range i.Args {
			add(i.Args[k].Ref, false)
		}
		if i.Call != nil {
			if i.Call.Callee.Kind == ptx.OperandSymbol {
				add(i.Call.Callee.Ref, true)
			} else {
				r.any = true
			}
		}
	}
	return r
}

// sharedOf lists the .shared variables that a kernel reaches, in order of discovery.
// It adds what it visits to visited and stops beyond maxSharedWork.
func sharedOf(kernel *ptx.Func, reaches map[*ptx.Func]*reach, taken []*ptx.Func, visited *int) (vars []*ptx.Var) {
	seen := map[*ptx.Func]bool{}
	found := map[*ptx.Var]bool{}
	work, takenToo := []*ptx.Func{kernel}, false
	for len(work) > 0 && *visited <= maxSharedWork {
		f := work[len(work)-1]
		*visited++
		work = work[:len(work)-1]
		f = definition(f)
		r := reaches[f]
		if seen[f] || r == nil {
			continue
		}
		seen[f] = true
		*visited += len(r.shared) + len(r.calls)
		for _, v := range r.shared {
			if !found[v] {
				found[v] = true
				vars = append(vars, v)
			}
		}
		work = append(work, r.calls...)
		if r.any && !takenToo {
			takenToo = true
			work = append(work, taken...)
		}
	}
	return vars
}

// sharedPlace is a variable that has its offset.
type sharedPlace struct {
	start, end uint64
	users      []int
}

// assignShared places one variable after the other, each at the lowest offset
// where none lies that a kernel uses together with it.
func (c *compiler) assignShared(vars []*ptx.Var, users map[*ptx.Var][]int) {
	c.shared = map[*ptx.Var]uint64{}
	var placed []sharedPlace
	ends := map[int]uint64{}
	work := 0
	for _, v := range vars {
		if v.Linkage == ptx.LinkExtern {
			continue // dynamic
		}
		c.effort.Memory(ir.ListFactor*48 + ir.MapFactor*16)
		c.effort.Steps(1 + len(placed)/4)
		if work += len(placed) * (1 + len(users[v])); work > maxSharedWork {
			c.fail(v.Pos, "the module is too complex: too many shared variables")
			return
		}
		align, size, at := max(v.Alignment(), 4), v.Size(), uint64(0)
		for _, p := range placed { // in order of their start
			if p.start < at+size && at < p.end && intersects(p.users, users[v]) {
				at = (p.end + align - 1) / align * align
			}
		}
		if size > maxShared || at > maxShared {
			c.fail(v.Pos, "shared variable '%s': more than %d bytes", v.Name, maxShared)
			return
		}
		c.shared[v] = at
		p := sharedPlace{start: at, end: at + size, users: users[v]}
		i, _ := slices.BinarySearchFunc(placed, p, func(a, b sharedPlace) int { return int(a.start) - int(b.start) })
		placed = slices.Insert(placed, i, p)
		for _, k := range users[v] {
			ends[k] = max(ends[k], p.end)
		}
	}
	for k, end := range ends {
		fn := c.prog.Funcs[k]
		fn.Shared = uint32(end)
		fn.DynShared = uint32(end)
	}
	for _, v := range vars {
		if v.Linkage == ptx.LinkExtern {
			for _, k := range users[v] {
				fn := c.prog.Funcs[k]
				fn.DynShared = uint32(alignUp(int(fn.DynShared), int(max(v.Alignment(), 16))))
			}
		}
	}
}

// intersects reports whether two ascending lists share a number.
func intersects(a, b []int) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}
