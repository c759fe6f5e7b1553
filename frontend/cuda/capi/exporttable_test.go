package capi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What asks for private tables is told what to do, a library of NVIDIA's that it cannot work here, and
// compilers nothing: they do without.
func TestPrivateHint(t *testing.T) {
	require.Contains(t, privateHint("/a/libmine.so"), "the library /a/libmine.so has NVIDIA's own CUDA runtime in it")
	require.Contains(t, privateHint(""), "the program or a library of it has")
	for _, name := range []string{"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13", "/a/libcublas.so.13", "/a/libcublasLt.so.12", "libcufft.so.12", "libcurand.so.10", "libcusolver.so.12", "libcusparse.so.12"} {
		require.Equal(t, "the library "+name+" is NVIDIA's and works with NVIDIA's driver only: what it is asked for fails here", privateHint(name))
		require.False(t, compiles(name))
	}
	for _, name := range []string{"/a/libnvrtc.so.13", "/a/libnvrtc-1a2b.so.12", "libnvJitLink.so.13"} {
		require.True(t, compiles(name))
		require.False(t, NeedsDriver(name))
	}
}
