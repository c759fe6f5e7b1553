package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sandbox"
	"pvdrm/gpu/nvidia"
)

const securityPage = "security.md"

// The generated sections of security.md are what the code says.
func TestSecurity(t *testing.T) {
	renew(t, securityPage, map[string]string{"system-calls": systemCalls(), "cuda-requests": cudaRequests(t), "gl-requests": glRequests()})
}

// systemCalls lists the calls that a role may make, and names the others.
func systemCalls() string {
	roles := []sandbox.Role{sandbox.Backend, sandbox.Renderer, sandbox.Keeper, sandbox.CUDAKeeper, sandbox.NVIDIARenderer}
	rows := [][]string{{"number", "call"}}
	for _, r := range roles {
		rows[0] = append(rows[0], r.String())
	}
	rows[0] = append(rows[0], "for")
	var refused []string
	for _, c := range sandbox.Table() {
		row, why := []string{fmt.Sprint(c.Number), "`" + c.Name + "`"}, ""
		for _, r := range roles {
			access := c.Access[r]
			cell := "–"
			switch {
			case access.Allowed && access.Only == "":
				cell = "yes"
			case access.Allowed:
				cell = access.Only
			}
			row = append(row, cell)
			if why == "" {
				why = access.Why
			}
		}
		if why == "" {
			refused = append(refused, c.Name)
			continue
		}
		rows = append(rows, append(row, why))
	}
	return markdown(rows) + "\nRefused to all: " + strings.Join(refused, ", ") + ".\n"
}

// cudaRequest is a line of gpu/nvidia/ioctls.go, which is generated from what was recorded.
var cudaRequest = regexp.MustCompile(`\{Mask: (0x[0-9a-f]+), Value: (0x[0-9a-f]+)\}, +// (\w+)`)

// cudaRequests lists what a CUDA worker that serves may ask NVIDIA's driver for.
func cudaRequests(t *testing.T) string {
	src, err := os.ReadFile("../gpu/nvidia/ioctls.go")
	require.NoError(t, err)
	_, serving, ok := strings.Cut(string(src), "var servingRequests = ")
	require.True(t, ok)
	serving, _, _ = strings.Cut(serving, "\n}\n")
	rows := [][]string{{"mask", "value", "request"}}
	for _, m := range cudaRequest.FindAllStringSubmatch(serving, -1) {
		rows = append(rows, m[1:])
	}
	require.Greater(t, len(rows), 1)
	return markdown(rows)
}

// glRequests lists what a renderer may ask NVIDIA's driver for.
func glRequests() string {
	rows := [][]string{{"kind", "number", "name", "why"}}
	for _, r := range nvidia.GLTable() {
		rows = append(rows, []string{r.Kind, fmt.Sprintf("%#x", r.Number), r.Name, r.Why})
	}
	return markdown(rows)
}

// What TestPromises finds in a row of promises, and in test files.
var (
	promiseTests = regexp.MustCompile("`([a-z0-9/_.-]+)` ((?:(?:Test|Fuzz|Benchmark)\\w+(?:, )?)+)")
	declaration  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// Each promise of these pages names tests, and each test that it names exists.
func TestPromises(t *testing.T) {
	for _, name := range []string{securityPage, "gloop.md"} {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(page), "\n## Promises\n")
		require.True(t, ok)
		table, _, ok := strings.Cut(rest, "\n## ")
		require.True(t, ok)
		promises := 0
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| promise |") {
				continue
			}
			promises++
			cells := strings.Split(line, " | ")
			require.Len(t, cells, 2, line)
			requireTests(t, cells[1])
		}
		require.Greater(t, promises, 1)
	}
}

// requireTests checks that a text names tests, as `package` TestOne, TestTwo, and that these exist.
func requireTests(t *testing.T, text string) {
	t.Helper()
	named := promiseTests.FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, named, "no test: %s", text)
	for _, n := range named {
		have := testsIn(t, filepath.Join("..", n[1]))
		for name := range strings.SplitSeq(n[2], ", ") {
			require.Contains(t, have, name, "%s has no such test", n[1])
		}
	}
}

// testsIn are the tests of a package, and those that need another system too.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	all := map[string]bool{}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range declaration.FindAllStringSubmatch(string(src), -1) {
			all[m[1]] = true
		}
	}
	return all
}
