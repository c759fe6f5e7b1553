package guestimage

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a network and with an index of no use, what was found last makes an image.
func TestHostThatLosesItsPackageIndex(t *testing.T) {
	a := newArchive(t)
	first, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	memory := filepath.Join(a.cache, "resolved.json")
	was, err := os.ReadFile(memory)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(memory, regexp.MustCompile(`"Stamp": "[0-9a-f]*"`).ReplaceAll(was, []byte(`"Stamp": "another"`)), 0o644))
	shows, err := filepath.Glob(filepath.Join(a.dir, "*.show"))
	require.NoError(t, err)
	for _, s := range shows {
		require.NoError(t, os.Remove(s))
	}
	a.asked(t)
	a.program(t, initProgram, "another init")
	var said []string
	cfg := a.config()
	cfg.Progress = func(text string) { said = append(said, text) }
	again, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, first.Kernel, again.Kernel)
	require.NotEqual(t, first.Key, again.Key)
	require.Contains(t, a.asked(t), " update\n", "it tried")
	require.Contains(t, strings.Join(said, "\n"), "Taking the packages that were found last")

	require.NoError(t, os.Remove(memory))
	_, err = Build(t.Context(), a.config())
	require.ErrorContains(t, err, "find the guest's kernel")
}
