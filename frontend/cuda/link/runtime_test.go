package link

import (
	"strings"
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
	require.Len(t, runtimeParts, 45)
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
	for _, other := range []string{"", "cuda", "foo", "GetLastError", "__cudaCDP2GetLastErrors"} {
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

// Functions of cooperative groups come without those that need a heap.
func TestRuntimeOfGroups(t *testing.T) {
	const unit = head + ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);\n.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 f);\n" +
		".entry k() { .param .b64 h; .param .b32 v; call (h), cudaCGGetIntrinsicHandle, (v); call (v), cudaCGSynchronize, (h, v); ret; }"
	l := New()
	l.UseRuntime()
	require.NoError(t, l.Add("a", []byte(unit)))
	text, err := l.Complete()
	require.NoError(t, err)
	_, err = ptx.Load("linked", text)
	require.NoError(t, err)
	require.NotContains(t, string(text), "malloc")
}

// A source that sets conditions gets the function for it once, whether or not it may use the device
// runtime. Others stay as they are.
func TestWithConditional(t *testing.T) {
	const unit = head + ".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n" +
		".entry k() { .param .b64 h; .param .b32 v; call cudaGraphSetConditional, (h, v); ret; }"
	text, err := WithConditional("a", []byte(unit))
	require.NoError(t, err)
	again, err := WithConditional("a", text)
	require.NoError(t, err)
	require.Equal(t, text, again)
	m, err := ptx.Load("a", text)
	require.NoError(t, err)
	var names []string
	for _, d := range m.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Defined {
			names = append(names, f.Name)
		}
	}
	require.ElementsMatch(t, []string{"k", SetConditional}, names)
	for _, other := range []string{"no PTX", head + ".entry k() { ret; } // cudaGraphSetConditional"} {
		text, err := WithConditional("a", []byte(other))
		require.NoError(t, err)
		require.Equal(t, other, string(text))
	}
	_, err = WithConditional("a", []byte(head+".extern .func cudaGraphSetConditional;\n.entry k() { call cudaGraphSetConditional; ret; }"))
	require.ErrorContains(t, err, "Prototype doesn't match for 'cudaGraphSetConditional'")
}

// A source that asks for the graph that runs reads it where launches are asked for; lines keep their numbers.
func TestCurrentGraph(t *testing.T) {
	const unit = head + ".extern .func (.param .b32 r) cudaGraphLaunch(.param .b64 g, .param .b64 s);\n.entry k() {\n.reg .b64 %rd<2>;\n" +
		"mov.u64 %rd1, %current_graph_exec;\nmov.b64 \t%rd0 , %current_graph_exec ;\n.param .b64 g; .param .b64 s; .param .b32 r;\n" +
		"st.param.b64 [g], %rd1; st.param.b64 [s], %rd0; call (r), cudaGraphLaunch, (g, s); ret; }"
	l := New()
	require.NoError(t, l.Add("a", []byte(unit)))
	text, err := l.Complete()
	require.NoError(t, err)
	require.NotContains(t, string(text), "current_graph_exec")
	_, err = ptx.Load("linked", text)
	require.NoError(t, err)
	require.Equal(t, strings.Count(unit, "\n"), strings.Count(string(withCurrentGraph([]byte(unit))), "\n"))
	require.Equal(t, head+callsFoo, string(withCurrentGraph([]byte(head+callsFoo))))
}
