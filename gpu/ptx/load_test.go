package ptx

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpus returns the sources under testdata that must be accepted.
func corpus(t testing.TB) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	for _, pattern := range []string{"testdata/clang/*.ptx", "testdata/hand/*.ptx", "testdata/nvcc/*.ptx"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			m[f] = b
		}
	}
	require.NotEmpty(t, m)
	return m
}

// diff returns where two values differ, apart from positions, or "".
func diff(path string, a, b reflect.Value) string {
	if a.Type() == reflect.TypeFor[Pos]() || a.Type() == reflect.TypeFor[*Form]() {
		return ""
	}
	if a.Type() == reflect.TypeFor[Decl]() || a.Type() == reflect.TypeFor[*Func]() && strings.HasSuffix(path, ".Def") {
		// References lead back into the module: compare what they name.
		if a.IsNil() != b.IsNil() {
			return path
		}
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return path
			}
			return ""
		}
		if a.Elem().Type() != b.Elem().Type() {
			return path
		}
		return diff(path, a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return path + " (length)"
		}
		for i := range a.Len() {
			if d := diff(path+"["+strings.Repeat("+", 0)+itoa(i)+"]", a.Index(i), b.Index(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Struct:
		for i := range a.NumField() {
			if d := diff(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i)); d != "" {
				return d
			}
		}
		return ""
	}
	if !a.Equal(b) {
		return path
	}
	return ""
}

func itoa(i int) string { return string(appendInt(nil, i)) }

func appendInt(b []byte, i int) []byte {
	if i >= 10 {
		b = appendInt(b, i/10)
	}
	return append(b, byte('0'+i%10))
}

func equal(a, b *Module) string {
	return diff("Module", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func printed(t testing.TB, m *Module) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Print(&b, m))
	return b.String()
}

func TestCorpusLoadsAndPrints(t *testing.T) {
	for file, src := range corpus(t) {
		t.Run(file, func(t *testing.T) {
			m, err := Parse(file, src)
			require.NoError(t, err)
			text := printed(t, m)
			again, err := Parse(file, []byte(text))
			require.NoError(t, err, text)
			require.Empty(t, equal(m, again))
			require.NoError(t, Verify(m))
			require.NoError(t, Verify(again))
			require.Empty(t, equal(m, again))
			require.Equal(t, text, printed(t, m), "verification changes what is printed")
			require.NoError(t, Verify(m), "a module can be verified again")
			require.Empty(t, equal(m, again))
		})
	}
}
