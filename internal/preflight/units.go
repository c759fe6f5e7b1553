package preflight

import (
	"debug/elf"
	"encoding/binary"

	"pvdrm/frontend/cuda/capi"
)

// What nvcc -rdc=true makes: the fatbins of the units, which have the PTX, and wrappers of version 2
// for the machine code that nvcc links of them.
const (
	unitSection    = "__nv_relfatbin"
	wrapperSection = ".nvFatBinSegment"

	wrapperMagic  = 0x466243b1
	wrapperLinked = 2
	wrapperBytes  = 24
)

// units links the units of a program, as the driver library does when the program loads them, and
// looks at the result. An object file may lack what other files have, so there only what the linker
// refuses otherwise is reported.
func (in *inspector) units(o *object, s *section) {
	var all capi.Units
	arch, failed := uint32(0), false
	in.each(o.data(s), func(name string, images []capi.Image) {
		for i := range images {
			if images[i].Size() > in.budget {
				in.contents(name, &images[i]) // which reports it
				failed = true
				return
			}
			in.budget -= images[i].Size()
		}
		capability := uint32(in.options.Capability)
		if all.Runtime(images) {
			return
		}
		best := in.choose(images)
		if best == nil {
			in.coded++
			failed = true
			return
		}
		arch = max(arch, best.Arch)
		if err := all.Add(images, max(capability, best.Arch)); err != nil {
			in.add(Finding{Kind: KindPTX, What: name, Why: err.Error()})
			failed = true
		}
	})
	in.coded -= min(in.coded, linkedWrappers(o.data(o.named(wrapperSection))))
	if failed || arch == 0 || in.ctx.Err() != nil {
		return
	}
	ptx, missing, err := all.Link()
	switch {
	case err == nil:
		in.source(ptx, arch)
	case len(missing) == 0 || o.kind != elf.ET_REL:
		in.add(Finding{Kind: KindPTX, What: "the units of nvcc -rdc=true", Why: err.Error()})
	}
}

// linkedWrappers counts the wrappers of linked units.
func linkedWrappers(b []byte) int {
	n := 0
	for ; len(b) >= wrapperBytes; b = b[wrapperBytes:] {
		if binary.LittleEndian.Uint32(b) == wrapperMagic && binary.LittleEndian.Uint32(b[4:]) == wrapperLinked {
			n++
		}
	}
	return n
}
