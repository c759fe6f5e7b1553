package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/tests/ptx/internal/fixture"
)

// TestFilesAreCurrent compares tests/ptx/op and tests/ptx/matrix with the tables.
func TestFilesAreCurrent(t *testing.T) {
	for folder, files := range folders() {
		current(t, folder, files)
	}
}

func current(t *testing.T, folder string, want map[string]string) {
	t.Helper()
	dir := filepath.Join("..", folder)
	files, err := filepath.Glob(filepath.Join(dir, "*.ptx"))
	require.NoError(t, err)
	require.Len(t, files, len(want), "run: go run ./tests/ptx/gen")
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name+".ptx"))
		require.NoError(t, err, "run: go run ./tests/ptx/gen")
		require.Equal(t, text, string(got), "%s is not current, run: go run ./tests/ptx/gen", name)
	}
}

func TestWriteRemovesOldFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"gone.ptx", "gone.out", "add.s32.out"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, write(dir, sources()))
	require.NoFileExists(t, filepath.Join(dir, "gone.ptx"))
	require.NoFileExists(t, filepath.Join(dir, "gone.out"))
	require.FileExists(t, filepath.Join(dir, "add.s32.out"))
	require.FileExists(t, filepath.Join(dir, "add.s32.ptx"))
}

func TestSourcesParse(t *testing.T) {
	for name, text := range sources() {
		f, err := fixture.Parse(name, []byte(text))
		require.NoError(t, err)
		require.Len(t, f.Buffers, 2)
	}
	for name, text := range matrixSources() {
		_, err := fixture.Parse(name, []byte(text))
		require.NoError(t, err)
	}
}
