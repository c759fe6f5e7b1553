package cudatest

import (
	"encoding/binary"
	"fmt"

	"pvdrm/drm"
)

// AddKernel adds a kernel to the device. Sizes are those of its parameters, each
// at a multiple of its size.
func (g *GPU) AddKernel(name string, run func(f *File, params []byte) *Fault, sizes ...uint32) *Kernel {
	k := &Kernel{Run: run}
	for _, n := range sizes {
		align := min(n, 8)
		at := (k.Attributes.ParamBytes + align - 1) / align * align
		k.Attributes.Params = append(k.Attributes.Params, drm.FunctionParam{Offset: at, Size: n})
		k.Attributes.ParamBytes = at + n
	}
	g.Kernels[name] = k
	return k
}

// KernelAdd adds a kernel "add(ptr, n, v)": v is added to n int32 at ptr.
func (g *GPU) KernelAdd() {
	g.AddKernel("add", func(f *File, p []byte) *Fault {
		n := uint64(binary.LittleEndian.Uint32(p[8:]))
		b, err := f.At(binary.LittleEndian.Uint64(p), n*4, true)
		if err != nil {
			return f.Lost
		}
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], binary.LittleEndian.Uint32(b[i:])+binary.LittleEndian.Uint32(p[12:]))
		}
		return nil
	}, 8, 4, 4)
}

// KernelFault adds a kernel "fault" without parameters that loses the context.
func (g *GPU) KernelFault(cause uint32) {
	g.AddKernel("fault", func(*File, []byte) *Fault {
		return &Fault{Cause: cause, Kernel: "fault"}
	})
}

// Fault ends a context.
type Fault struct {
	Cause  uint32 // as STATUS returns it
	Addr   uint64
	Write  bool
	Kernel string
}

func (e *Fault) Error() string {
	return fmt.Sprintf("kernel %s: fault %d at 0x%x", e.Kernel, e.Cause, e.Addr)
}
