package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These match the line of a fixture that declares an output with a tolerance: for an approximation,
// or for the bits of NaNs alone.
var (
	approximate = regexp.MustCompile(`(?m)^//!.*~[^ ]*(ulp|abs|rel)=`)
	anyNaN      = regexp.MustCompile(`(?m)^//!.*~nan`)
)

// TestFixtureCounts compares the numbers of recorded PTX fixtures on the pages with tests/ptx.
func TestFixtureCounts(t *testing.T) {
	all, texture, tolerant, nans := 0, 0, 0, 0
	for _, folder := range []string{"op", "texture", "kernels", "cuda"} {
		require.NoError(t, filepath.WalkDir("../tests/ptx/"+folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".ptx" {
				return err
			}
			text, err := os.ReadFile(path)
			all++
			if folder == "texture" {
				texture++
			}
			switch {
			case approximate.Match(text):
				tolerant++
			case anyNaN.Match(text):
				nans++
			}
			return err
		}))
	}
	list, err := os.ReadFile("../tests/ptx/known-failures.txt")
	require.NoError(t, err)
	failing := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); !strings.HasPrefix(line, "#") && len(fields) > 0 {
			failing[fields[len(fields)-1]] = true
		}
	}
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	equal, differ, most := "all "+thousands(all), "", "all "+thousands(all)
	if len(failing) != 0 {
		equal, most = thousands(all-len(failing))+" of "+thousands(all), fmt.Sprintf("all but %d of %s", len(failing), thousands(all))
		differ = fmt.Sprintf("; %d with", len(failing))
	}
	for page, words := range map[string][]string{
		"../README.md":     {equal + " recorded kernels", fmt.Sprintf("approximations of %d kernels", tolerant)},
		"RATIONALE.md":     {thousands(all) + " fixtures"},
		"CHANGELOG.md":     {thousands(texture) + " recorded kernels" + differ},
		"cuda-programs.md": {thousands(texture) + " recorded kernels"},
		"SPECIFICATION.md": {most + " fixtures", fmt.Sprintf("%d of them within", tolerant), fmt.Sprintf("%d others any NaN", nans)},
	} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, w := range words {
			require.Contains(t, strings.Join(strings.Fields(string(text)), " "), w, page)
		}
	}
}
