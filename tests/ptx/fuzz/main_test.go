package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/tests/ptx/internal/random"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er")
	require.NoError(t, write(dir, 7, 3))
	text, err := os.ReadFile(filepath.Join(dir, "random9.ptx"))
	require.NoError(t, err)
	require.Equal(t, random.Kernel(9), string(text))
}
