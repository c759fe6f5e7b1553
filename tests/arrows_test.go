package tests

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport says which of our own packages those below a folder may import, by
// prefix. It is the table in docs/architecture.md.
var mayImport = map[string][]string{
	"hypercall":   {},
	"drm":         {},
	"drm/trace":   {"drm"},
	"gem":         {"drm"},
	"gpu/ptx":     {"gpu"},
	"gpu/softgpu": {"gpu", "gpu/ptx", "gpu/softgpu", "internal/crew"},
	"gpu/cuda":    {"gpu", "gpu/ptx", "internal"},
	"gpu/gputest": {"gpu", "internal/hostmem"},
	"gpu":         {"gpu"},
	"frontend":    {"hypercall", "drm", "gem", "frontend", "internal/crew", "internal/yield"},
	"backend":     {"hypercall", "drm", "gem", "gpu", "backend", "internal"},
	"internal":    {"internal"},
	"vmm":         {"vmm"},
	"guest-image": {"guest-image", "vmm"},
	"cmd":         {""},
	"docs":        {""},
	"tests":       {""},
}

func under(pkg, folder string) bool {
	return folder == "" || pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// root is the top of the source tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	return filepath.Dir(dir)
}

func TestArrowsBetweenPackages(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	count := 0
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		words := strings.Fields(s.Text())
		pkg := strings.TrimPrefix(words[0], "pvdrm/")
		folder := ""
		for f := range mayImport {
			if under(pkg, f) && len(f) > len(folder) {
				folder = f
			}
		}
		require.NotEmpty(t, folder, "%s is in no folder of docs/architecture.md", pkg)
		count++
		for _, imp := range words[1:] {
			imp, ours := strings.CutPrefix(imp, "pvdrm/")
			if !ours {
				continue
			}
			allowed := false
			for _, f := range mayImport[folder] {
				allowed = allowed || under(imp, f)
			}
			require.True(t, allowed, "%s may not import %s", pkg, imp)
		}
	}
	require.Greater(t, count, 10)
}

// Unsafe code is where its name says so, and cgo in one folder only.
func TestUnsafeOnlyInItsFiles(t *testing.T) {
	out, err := exec.Command("git", "-C", root(t), "ls-files", "-c", "-o", "--exclude-standard", "*.go").Output()
	require.NoError(t, err)
	for _, file := range strings.Fields(string(out)) {
		src, err := os.ReadFile(filepath.Join(root(t), file))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		if bytes.Contains(src, []byte("\n\t\"unsafe\"\n")) || bytes.Contains(src, []byte("import \"unsafe\"")) {
			require.True(t, strings.HasSuffix(file, "_unsafe.go") || strings.HasSuffix(file, "_unsafe_test.go"), "%s imports unsafe", file)
		}
		if bytes.Contains(src, []byte("\nimport \"C\"\n")) {
			require.True(t, strings.HasPrefix(file, "cmd/libcuda/"), "%s uses cgo", file)
		}
	}
}
