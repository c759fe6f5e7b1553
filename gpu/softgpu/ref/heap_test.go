package ref

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/internal/heap"
)

const heapDecls = ".extern .func (.param .b64 r) malloc (.param .b64 n); .extern .func free (.param .b64 p);"

func TestMalloc(t *testing.T) {
	const heapBase = 0x2000_0000
	h := heap.New(heapBase, 4096)
	launch := func(body string) error {
		m := &memory{pages: map[uint64][]byte{bufA / pageSize: make([]byte, pageSize), heapBase / pageSize: make([]byte, pageSize)}}
		p, err := compile(t, source(heapDecls, body), m)
		require.NoError(t, err)
		k, _ := p.Kernel("k")
		return Run(k, exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{20, 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, bufA), Heap: h}, m, plenty)
	}
	require.NoError(t, launch(`
	call (%rd3), malloc, (24); st.u32 [%rd3+20], %r1;
	{ .param .b64 q; .param .b64 s; st.param.b64 [s], 3000; call (q), malloc, (s); ld.param.b64 %rd4, [q]; }
	bar.sync 0; ld.u32 %r2, [%rd3+20]; setp.ne.u32 %p1, %r2, %r1; @%p1 trap;
	call free, (%rd3); call free, (%rd4); call free, (0);`))
	require.Zero(t, h.Live())
	var lost *gpu.LostError
	require.ErrorAs(t, launch("call (%rd3), malloc, (24); add.u64 %rd3, %rd3, 8; call free, (%rd3);"), &lost)
	require.Equal(t, gpu.LostAddress, lost.Cause)
	require.EqualValues(t, heapBase+8, lost.Addr)
	h = nil
	require.NoError(t, launch("call (%rd3), malloc, (24); setp.ne.u64 %p1, %rd3, 0; @%p1 trap;"))
}
