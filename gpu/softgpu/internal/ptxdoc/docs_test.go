package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocsAreCurrent(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, write(&b))
	file, err := os.ReadFile("../../../../docs/ptx.md")
	require.NoError(t, err)
	require.Equal(t, b.String(), string(file), `docs/ptx.md is old: run "go generate ./gpu/softgpu"`)
}
