package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/cudatest"
)

const callsMalloc = ".extern .func (.param .b64 r) malloc\n(.param .b64 n);\nkernel k"

func TestHeapLimit(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.AddKernel("k", func(*cudatest.File, []byte) *cudatest.Fault { return nil })
	c := newContext(t, g)
	isResult(t, ErrOutOfMemory, c.SetHeapLimit(c.dev.TotalMem()+1))
	require.NoError(t, c.SetHeapLimit(1<<20))
	require.NoError(t, c.SetHeapLimit(2<<20), "again")
	require.Equal(t, callsMalloc+"\n.pragma \"pvdrm_malloc_heap 2097152\";\n", string(c.heap.tell([]byte(callsMalloc))))
	require.Equal(t, "kernel k", string(c.heap.tell([]byte("kernel k"))))
	c.heap.fix([]byte("kernel my_malloc"))
	require.NoError(t, c.SetHeapLimit(3<<20))
	c.heap.fix([]byte(callsMalloc))
	isResult(t, ErrInvalidValue, c.SetHeapLimit(1<<20))
	require.NoError(t, c.SetHeapLimit(3<<20), "it is so")
	require.Equal(t, callsMalloc, string(c.heap.tell([]byte(callsMalloc))), "the heap exists")

	other := newContext(t, g)
	other.heap.fix([]byte(callsMalloc))
	require.NoError(t, other.SetHeapLimit(defaultHeap))
	isResult(t, ErrInvalidValue, other.SetHeapLimit(0))
}

func TestNames(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "malloc": true, ") malloc\n(": true, "call (r), malloc, (n);": true, "malloc_param_0": false,
		"_malloc": false, "xmalloc malloc2 $malloc": false, "xmalloc malloc": true, "MALLOC": false, "mallocmalloc": false,
	} {
		require.Equal(t, want, names([]byte(text), "malloc"), text)
	}
}
