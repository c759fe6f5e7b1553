package exec

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// Code without loops and calls gives way between two of the operations that read much of the
// guest's memory for each lane: a module has room for hundreds of thousands of them.
func TestPrintsGiveWay(t *testing.T) {
	const prints = 100
	extra := ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	body := "{ .param .b64 f; .param .b64 a; .param .b32 x; st.param.b64 [f], %rd1; st.param.b64 [a], %rd2;\n" +
		strings.Repeat("call (x), vprintf, (f, a);\n", prints) + "}"
	for name, native := range map[string]Native{"interpreted": NativeNever, "native": NativeAtOnce} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", source(extra, body), m), "k")
			m.Map(exectest.BufA, 8192)
			writeAll(m, exectest.BufA, []byte(strings.Repeat("x", 4095)))
			printed := 0
			l := Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(0)), Native: native,
				Print: func(string) { printed++ }}
			var stopped *Preempted
			require.ErrorAs(t, Run(k, l, m, &Control{Yield: func() bool { return printed > 0 }}, 1), &stopped)
			require.Less(t, printed, prints, "it was asked")
			before, c := printed, new(Control)
			count := l.Print
			l.From, l.Print = stopped.State, func(text string) { c.Preempt(); count(text) }
			require.ErrorAs(t, Run(k, l, m, c, 1), &stopped)
			require.Equal(t, before+1, printed, "it was told")
			l.From, l.Print = stopped.State, count
			require.NoError(t, Run(k, l, m, new(Control), 1))
			require.Equal(t, prints, printed)
		})
	}
}

// The launches of a kernel do, too.
func TestLaunchesGiveWay(t *testing.T) {
	extra := ".extern .func (.param .b32 r) __pvdrm_launch(.param .b64 header, .param .b64 stream);\n.visible .entry child(.param .b8 p[1024]) { ret; }\n"
	body := "{ .param .b64 h; .param .b64 s; .param .b32 x; mov.u64 %rd5, child; st.u64 [%rd1], %rd5; st.param.b64 [h], %rd1; st.param.b64 [s], %rd2;\n" +
		strings.Repeat("call (x), __pvdrm_launch, (h, s);\n", 3) + "}"
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source(extra, body), m), "k")
	m.Map(exectest.BufA, 8192)
	header := make([]byte, 64)
	for at := 8; at < 32; at += 4 {
		binary.LittleEndian.PutUint32(header[at:], 1)
	}
	writeAll(m, exectest.BufA, header)
	c := new(Control)
	l := Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0)), Tree: NewTree(nil)}
	var stopped *Preempted
	require.ErrorAs(t, Run(k, l, pausing{Memory: m, control: c}, c, 1), &stopped)
	tree := stopped.State.Tree()
	require.NotNil(t, tree.Next())
	require.Nil(t, tree.Next(), "it stopped behind the first")
	l.From = stopped.State
	require.NoError(t, Run(k, l, m, new(Control), 1))
	for range 3 {
		p := l.Tree.Next()
		require.NotNil(t, p)
		require.Len(t, p.Params, 1024)
	}
	require.Nil(t, l.Tree.Next())
}
