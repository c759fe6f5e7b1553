package cudalibs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the rows say fits what they are for.
func TestTable(t *testing.T) {
	all := All()
	require.Greater(t, len(all.Functions), 1700)
	for i, f := range all.Functions {
		require.EqualValues(t, i, f.Index)
		require.Same(t, f, all.Named(f.Name))
		require.Same(t, f, all.Function(uint32(i)))
	}
	require.Nil(t, all.Function(uint32(len(all.Functions))))
	for _, l := range all.Libraries {
		for _, k := range l.Kinds {
			require.Equal(t, k.Streams, l.SetStream(k) != nil, k.Name)
			for _, s := range k.Slots {
				require.NotNil(t, s.Setter, "%s: slot %s", k.Name, s.Name)
			}
		}
	}
	// What PyTorch, JAX and CuPy cannot do without.
	for name, mode := range map[string]Mode{"cublasCreate_v2": Control, "cublasSetStream_v2": Set, "cublasGemmEx": Async, "cublasSgemm_v2_64": Async,
		"cublasLtMatmul": Async, "cublasLtMatmulAlgoGetHeuristic": Control, "cudnnBackendExecute": Async, "cudnnBackendFinalize": Control,
		"cudnnBackendSetAttribute": Late, "cufftXtExec": Async, "cusolverDnXsyevd": Sync, "cusparseSpMM": Async, "curandGenerateUniform": Async} {
		f := all.Named(name)
		require.NotNil(t, f, name)
		require.Equal(t, mode, f.Mode, name)
	}
}

func TestExpand(t *testing.T) {
	rows, err := expand([]string{"f{S|D}x[|_64]", "async", "n", "R{4|8}"})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"fSx", "async", "n", "R4"}, {"fDx", "async", "n", "R8"}, {"fSx_64", "async", "n", "R4"}, {"fDx_64", "async", "n", "R8"}}, rows)
	for _, bad := range [][]string{{"f{S|D}", "R{4|8|9}"}, {"f{S"}, {"f[S"}} {
		_, err := expand(bad)
		require.Error(t, err, "%v", bad)
	}
}

// Lines that are wrong are refused with a reason.
func TestWrongLines(t *testing.T) {
	const head = "library x\nnames libx.so.1\ncodes invalid=1 handle=2 memory=3 unsupported=4 failed=5 internal=6\nkind k stream slot\n"
	table := func(line string) error {
		return (&Table{names: map[string]*Function{}, kinds: map[string]*Kind{}}).add(head + line + "\n")
	}
	require.NoError(t, table("f async @k i <4*$1"))
	require.NoError(t, table("f control:constant i >4"))
	for line, want := range map[string]string{
		"f":                                   "no mode",
		"f quick i":                           `mode "quick"`,
		"f none":                              "no reason",
		"f async @other":                      "no such kind",
		"f async z":                           "no such class",
		"f async @k <4*$9":                    "depends on 9",
		"f async @k D <4*$1":                  "depends on 1",
		"f async @k <4*x":                     "invalid syntax",
		"f late @k >4":                        "nobody waits for",
		"f text @k":                           "a constant with such parameters",
		"f number:constant i i":               "a constant with such parameters",
		"f control:variable >4":               `"variable" behind the mode`,
		"f async:constant i":                  `"constant" behind the mode`,
		"f late @k T":                         "without type and count",
		"f set:color @k i":                    `no slot "color"`,
		"f set:slot i i":                      "of no handle",
		"f set:slot @k i l l":                 "too many words",
		"f control +k\nf control +k":          "a second row",
		"kind k":                              "a second one",
		"codes invalid=0":                     `code "invalid=0"`,
		"codes invalid=1":                     "are missing",
		"warm f g":                            "warm",
		"f async d d d d d d d d d":           "9 of them floats",
		"f{a|b} async R{4|8|16}":              "braces",
		"f control +k i\ng late -k\nwarm f g": "warm",
	} {
		require.ErrorContains(t, table(line), want, line)
	}
	require.ErrorContains(t, (&Table{names: map[string]*Function{}, kinds: map[string]*Kind{}}).add("library x\n"), "no names")
}

func TestSizes(t *testing.T) {
	f := &Function{Name: "f", Params: []Param{{Class: Int32}, {Class: Int64}, {Class: Int32}}}
	size := func(s string, args ...uint64) uint64 {
		e, err := parseExpr(s)
		require.NoError(t, err)
		n, err := e.eval(f, args)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 24, size("8*$0", 3, 0, 0))
	require.EqualValues(t, 20, size("4*$0+8", 3, 0, 0))
	require.EqualValues(t, 0, size("4*$0", 1<<32-1, 0, 0), "it is negative")
	require.EqualValues(t, 8, size("t$2", 0, 0, 4), "CUDA_C_32F")
	require.EqualValues(t, 0, size("t$2", 0, 0, 1000))
	require.EqualValues(t, 0, size("$1*$1*$1*$0", 0, 1<<62, 0))
	for _, args := range [][]uint64{{0, 1 << 62, 0}, {0, MaxBuffer, 0}, {0, 1 << 63 >> 1, 0}} {
		e, err := parseExpr("4*$1*$1")
		require.NoError(t, err)
		_, err = e.eval(f, args)
		require.ErrorContains(t, err, "bytes")
	}
}
