package rt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithStatic(t *testing.T) {
	path := filepath.Join(t.TempDir(), StaticLibrary)
	require.Equal(t, []string{"A=b"}, WithStatic([]string{"A=b"}, path), "there is no such file")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.Equal(t, []string{"A=b", "LD_AUDIT=" + path}, WithStatic([]string{"A=b"}, path))
	require.Equal(t, []string{"LD_AUDIT=" + path}, WithStatic([]string{"LD_AUDIT="}, path))
	// The last one counts, and it is kept.
	env := []string{"LD_AUDIT=/first.so", "A=b", "LD_AUDIT=/of/the/user.so:/too.so"}
	once := WithStatic(env, path)
	require.Equal(t, []string{"A=b", "LD_AUDIT=/of/the/user.so:/too.so:" + path}, once)
	require.Equal(t, once, WithStatic(once, path))
	require.Len(t, env, 3)
	require.Equal(t, "LD_AUDIT=/first.so", env[0], "the caller's stays as it was")
}
