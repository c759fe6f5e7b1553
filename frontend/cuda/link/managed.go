package link

import (
	"bytes"

	"pvdrm/drm"
	"pvdrm/gpu/ptx"
)

// Managed is a variable with .attribute(.managed) (PTX ISA, 5.4.8), which the program reaches, too.
type Managed struct {
	Name        string
	Size, Align uint64 // bytes
}

// ManagedPragma is a line for the end of a module that gives a managed variable an address
// (ptx.ManagedPragma).
const ManagedPragma = "\n.pragma \"" + ptx.ManagedPragma + " %d %s\";\n"

// ManagedOf lists the managed variables that a module defines. A module that cannot be read has none:
// what compiles it says why.
func ManagedOf(source []byte) []Managed {
	if !bytes.Contains(source, []byte(".managed")) || len(source) > drm.MaxSource {
		return nil
	}
	m, err := ptx.LoadDeclarations(nil, "", bytes.TrimRight(source, "\x00"))
	if err != nil {
		return nil
	}
	var all []Managed
	for _, d := range m.Directives {
		if v, ok := d.(*ptx.Var); ok && v.Managed && v.Space == ptx.SpaceGlobal && v.Linkage != ptx.LinkExtern && v.Size() > 0 {
			all = append(all, Managed{Name: v.Name, Size: v.Size(), Align: v.Alignment()})
		}
	}
	return all
}
