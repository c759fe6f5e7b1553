package lower

import (
	"fmt"

	"pvdrm/gpu/ptx"
)

// architecture is the one that the engine answers as, sm_90.
const architecture = 90

// clusterArchitecture is the first that has clusters.
const clusterArchitecture = 90

// Runs returns nil if the engine executes instructions of a row of PTX's table, else why not.
func Runs(f *ptx.Form) error {
	switch {
	case f.Op == ptx.OpRaw:
		return fmt.Errorf("PTX ISA %s", f.Section)
	case f.Arch > architecture && !f.Derived:
		return fmt.Errorf("PTX ISA %s, needs sm_%d", f.Section, f.Arch)
	}
	return nil
}

// Runnable reports the instructions, variables and directives of a verified module that the
// engine does not run. The error is a *gpu.BuildError with at most ptx.MaxDiagnostics complaints.
func Runnable(m *ptx.Module) error {
	c := &compiler{m: m}
	for _, d := range m.Directives {
		switch d := d.(type) {
		case *ptx.Var:
			c.opaque(d)
		case *ptx.Func:
			c.runnable(d)
		}
	}
	return c.err()
}

// runnable reports what a function has that the engine does not run.
func (c *compiler) runnable(f *ptx.Func) {
	for _, p := range f.Params {
		c.opaque(p)
	}
	for _, u := range f.OtherTuning {
		c.fail(f.Pos, "directive %s of function '%s' is not supported", ptx.Clip(u), ptx.Clip(f.Name))
	}
	target := targetOf(c.m)
	if f.Cluster != (ptx.Cluster{}) && target < clusterArchitecture {
		c.fail(f.Pos, "clusters of function '%s' need .target sm_%d or higher", ptx.Clip(f.Name), clusterArchitecture)
	}
	for _, s := range f.Body {
		i, ok := s.(*ptx.Instr)
		if !ok || i.Form == nil {
			continue
		}
		if why := Runs(i.Form); why != nil {
			c.fail(i.Pos, "instruction '%s' is not supported (%v)", ptx.Clip(i.Name()), why)
		} else if own := fmt.Sprintf("sm_%da", i.Form.Arch); i.Form.Only && c.m.Target != own {
			c.fail(i.Pos, "instruction '%s' needs .target %s", ptx.Clip(i.Name()), own)
		} else if i.Form.Arch > target {
			c.fail(i.Pos, "instruction '%s' needs .target sm_%d or higher", ptx.Clip(i.Name()), i.Form.Arch)
		} else if i.Mods.Space == ptx.SpaceSharedCluster && target < clusterArchitecture {
			c.fail(i.Pos, "instruction '%s' needs .target sm_%d or higher", ptx.Clip(i.Name()), clusterArchitecture)
		}
	}
}

// targetOf is the architecture that a module is for, such as 90; one that cannot be read is
// the engine's.
func targetOf(m *ptx.Module) int {
	if n, _ := m.Architecture(); n != 0 {
		return n
	}
	return architecture
}

// opaque refuses samplers, and textures and surfaces as parameters: CUDA has neither.
func (c *compiler) opaque(v *ptx.Var) {
	if v.Type == ptx.SamplerRef || v.Type.Opaque() && (v.Space != ptx.SpaceGlobal || v.Array || v.Init != nil || v.Vec != 0) {
		c.fail(v.Pos, "samplers, and textures and surfaces that are parameters, arrays or initialised, are not supported: '%s' is .%s", ptx.Clip(v.Name), v.Type)
	}
}
