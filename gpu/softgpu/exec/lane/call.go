package lane

import "pvdrm/gpu/softgpu/exec/ir"

// Return copies the results of the function of frame f to where its call wants them, for some lanes.
func Return(w *ir.Warp, mask uint32, f *ir.Frame) {
	for i := range f.Fn.Results {
		if r := &f.Fn.Results[i]; i < len(f.Site.Results) {
			Move(w, mask, f.Parent, f.Site.Results[i], f, r.Place(), r.Size)
		}
	}
}

// Move copies size bytes from one frame to another for some lanes.
func Move(w *ir.Warp, mask uint32, df *ir.Frame, d ir.Actual, sf *ir.Frame, s ir.Actual, size int) {
	for n := 0; n < size; n += 4 {
		var row *[32]uint32
		switch s.Kind {
		case ir.InMemory:
			row = &w.Local[sf.Base+(s.Offset+n)/4]
		case ir.In32:
			row = &w.Store32[sf.Base32+int(s.Reg)]
		case ir.In64:
			row = &w.Old32
			for i, x := range &w.Store64[sf.Base64+int(s.Reg)] {
				row[i] = uint32(x >> (8 * n))
			}
		}
		switch d.Kind {
		case ir.InMemory:
			CopyLanes(&w.Local[df.Base+(d.Offset+n)/4], row, mask, w.Live)
		case ir.In32:
			CopyLanes(&w.Store32[df.Base32+int(d.Reg)], row, mask, w.Live)
		case ir.In64:
			r := &w.Store64[df.Base64+int(d.Reg)]
			for m := mask; m != 0; m &= m - 1 {
				i := ir.FirstOf(m)
				r[i] = r[i]&^(1<<32-1<<(8*n)) | uint64(row[i])<<(8*n)
			}
		}
	}
}
