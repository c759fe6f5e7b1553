package ptx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse feeds Parse anything. What it accepts must print and parse back to
// an equal module, before and after Verify, and have equal declarations without its bodies. Finding new inputs needs
// -fuzzminimizetime=5x: the default spends a minute on shortening each.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/clang/*.ptx")
	require.NoError(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(b)
	}
	for _, line := range lines(f, "testdata/verdicts.txt") {
		part := strings.SplitN(line, "|", 3)
		f.Add(fmt.Appendf(nil, snippetBody, part[1], part[2]))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		declared, refusal := LoadDeclarations(nil, "fuzz.ptx", src)
		if refusal != nil {
			requireDiagnostics(t, refusal)
		}
		m, err := Parse("fuzz.ptx", src)
		if err != nil {
			requireDiagnostics(t, err)
			return
		}
		text := printed(t, m)
		again, err := Parse("fuzz.ptx", []byte(text))
		require.NoError(t, err, text)
		require.Empty(t, equal(m, again), text)
		if err := Verify(m); err != nil {
			requireDiagnostics(t, err)
			require.Error(t, Verify(again), text)
			return
		}
		require.NoError(t, Verify(again), text)
		require.Empty(t, equal(m, again), text)
		require.Equal(t, text, printed(t, m))
		require.NoError(t, refusal)
		requireSameDeclarations(t, m, declared)
	})
}

// requireSameDeclarations compares a module with one whose bodies were passed over.
func requireSameDeclarations(t *testing.T, whole, declared *Module) {
	for _, m := range []*Module{whole, declared} {
		for _, d := range m.Directives {
			if f, ok := d.(*Func); ok {
				f.Body, f.Regs, f.Locals = nil, nil, nil
			}
		}
	}
	require.Empty(t, equal(whole, declared))
}
