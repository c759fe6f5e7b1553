package codemem

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is mapped holds the code, can be executed, and cannot be written.
func TestMap(t *testing.T) {
	code := bytes.Repeat([]byte{0xc3}, 5000)
	m, err := Map(code)
	require.NoError(t, err)
	require.Equal(t, code, m)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	at := strings.TrimPrefix(fmt.Sprintf("%p-", &m[0]), "0x")
	found := ""
	for line := range strings.Lines(string(maps)) {
		if strings.HasPrefix(line, at) {
			found = strings.Fields(line)[1]
		}
	}
	require.Equal(t, "r-xp", found, "at %s", at)
	require.NoError(t, Unmap(m))

	_, err = Map(nil)
	require.Error(t, err)
}
