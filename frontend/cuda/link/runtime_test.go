package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
)

// All functions of the device runtime fit together, with each of their names.
func TestDeviceRuntime(t *testing.T) {
	var names []string
	for base := range runtimeParts {
		names = append(names, "cuda"+base, "__cudaCDP2"+base, "__cudaCDP2"+base+perThread)
	}
	require.Len(t, runtimeParts, 17)
	source, ok := runtimeUnit(names)
	require.True(t, ok)
	m, err := ptx.Load("runtime.ptx", []byte(source))
	require.NoError(t, err)
	defined := map[string]bool{}
	for _, d := range m.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Defined {
			defined[f.Name] = true
		}
	}
	for _, name := range names {
		require.True(t, defined[name], name)
	}
	for _, other := range []string{"", "cuda", "foo", "cudaDeviceSynchronize", "GetLastError", "__cudaCDP2GetLastErrors"} {
		_, ok := runtimeUnit([]string{other})
		require.False(t, ok, other)
	}
}

// What sources leave open of the device runtime is added where they may use it.
func TestUseRuntime(t *testing.T) {
	const unit = head + ".extern .func (.param .b32 r) cudaGetLastError;\n.entry k() { .param .b32 r; call (r), cudaGetLastError; ret; }"
	const wrong = head + ".extern .func cudaGetLastError;\n.entry k() { call cudaGetLastError; ret; }"
	l := New()
	require.NoError(t, l.Add("a", []byte(unit)))
	_, err := l.Complete()
	require.Equal(t, []string{"cudaGetLastError"}, Missing(err))
	l.UseRuntime()
	for range 2 {
		text, err := l.Complete()
		require.NoError(t, err)
		_, err = ptx.Load("linked", text)
		require.NoError(t, err)
	}
	l = New()
	l.UseRuntime()
	require.NoError(t, l.Add("a", []byte(wrong)))
	_, err = l.Complete()
	require.ErrorContains(t, err, "Prototype doesn't match for 'cudaGetLastError'")
	l = New()
	l.UseRuntime()
	require.NoError(t, l.Add("a", []byte(head+callsFoo)))
	_, err = l.Complete()
	require.Equal(t, []string{"foo"}, Missing(err))
}
