package ptx

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchSource is a module of about 2 MB: the kernels of the corpus again and
// again under new names.
func benchSource(b *testing.B) []byte {
	b.Helper()
	var text strings.Builder
	text.WriteString(".version 8.5\n.target sm_90\n.address_size 64\n")
	kernels := []string{"testdata/clang/hotspot.ptx", "testdata/clang/sort.ptx", "testdata/clang/integers.ptx",
		"testdata/clang/fmmul.ptx", "testdata/clang/control.ptx"}
	for n := 0; text.Len() < 2<<20; n++ {
		for _, file := range kernels {
			src, err := os.ReadFile(file)
			require.NoError(b, err)
			_, body, ok := strings.Cut(string(src), ".address_size 64")
			require.True(b, ok)
			suffix := "_" + itoa(n)
			for _, name := range []string{"hotspot", "bitonic", "scan", "integers", "fmmul", "control"} {
				body = strings.ReplaceAll(body, name, name+suffix)
			}
			text.WriteString(body)
		}
	}
	return []byte(text.String())
}

func BenchmarkParse(b *testing.B) {
	src := benchSource(b)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := Parse("bench.ptx", src)
		require.NoError(b, err)
	}
}

func BenchmarkVerify(b *testing.B) {
	src := benchSource(b)
	m, err := Parse("bench.ptx", src)
	require.NoError(b, err)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, Verify(m))
	}
}

func BenchmarkLoad(b *testing.B) {
	src := benchSource(b)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := Load("bench.ptx", src)
		require.NoError(b, err)
	}
}

func BenchmarkPrint(b *testing.B) {
	src := benchSource(b)
	m, err := Load("bench.ptx", src)
	require.NoError(b, err)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		require.NoError(b, Print(io.Discard, m))
	}
}
