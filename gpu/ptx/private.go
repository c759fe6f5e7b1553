package ptx

import "slices"

// Before PTX 3.0 .reg and .local variables could stand at module scope. Each thread has
// one, and all functions that it calls share it. Here the variables of a module belong to
// the one function that uses any of them, as if it declared them itself; where several
// functions do, the module is refused.

// maxPrivates bounds the variables of a thread at module scope, because each function
// that is checked looks at all of them.
const maxPrivates = 256

// privateVar checks a .reg or .local variable at module scope.
func (v *verifier) privateVar(d *Var) {
	if len(v.privates) == maxPrivates {
		v.fail(d.Pos, "more than %d variables of a thread outside functions", maxPrivates)
		return
	}
	if v.shape(d) && v.plainVar(d) {
		v.effort.Memory(listFactor * 8)
		v.privates = append(v.privates, d)
	}
}

// privateScope declares the variables of a thread for the function that is checked next.
func (v *verifier) privateScope() *scope {
	v.effort.Memory(scopeBytes)
	v.effort.Steps(len(v.privates))
	s := &scope{}
	v.cur = s
	for _, d := range v.privates {
		v.declare(d)
	}
	return s
}

// takePrivate gives the variables of a thread to the function that uses one.
func (v *verifier) takePrivate(l local) {
	if v.owner == nil {
		v.owner = v.f
	}
	if v.owner != v.f {
		v.fail(v.f.Pos, "'%s' and '%s' both use .reg or .local variables that are declared outside functions, which is not supported", Clip(v.owner.Name), Clip(v.f.Name))
		return
	}
	if l.v != nil && !slices.Contains(v.f.Locals, l.v) {
		v.effort.Memory(listFactor * 8)
		v.f.Locals = append(v.f.Locals, l.v)
	}
}
