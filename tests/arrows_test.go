package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// room is a row of a table in docs/architecture.md: a folder, and those of our
// packages that it may import. "gpu" names one package, "gpu/..." also those below it.
type room struct {
	folder  string
	imports []string
}

// rooms reads the table below a heading of docs/architecture.md. Its first column
// names folders, its last one what these may import.
func rooms(t *testing.T, heading string) []room {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "\n## "+heading+"\n")
	require.True(t, ok, "docs/architecture.md has no section %q", heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	_, table, ok := strings.Cut(rest, "\n|---")
	require.True(t, ok, "docs/architecture.md, %q: no table", heading)
	var all []room
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) < 2 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		r := room{folder: strings.Trim(cells[0], "`")}
		for imp := range strings.SplitSeq(cells[len(cells)-1], ",") {
			switch imp = strings.Trim(imp, "` "); imp {
			case "–":
			case "all":
				r.imports = append(r.imports, "...")
			default:
				r.imports = append(r.imports, imp)
			}
		}
		all = append(all, r)
	}
	require.NotEmpty(t, all, "docs/architecture.md, %q: no rows", heading)
	return all
}

// holds reports whether a package lies in the room's folder.
func (r room) holds(pkg string) bool {
	return pkg == r.folder || strings.HasPrefix(pkg, r.folder+"/")
}

// roomOf returns the row with the longest folder that holds a package.
func roomOf(t *testing.T, all []room, pkg string) room {
	t.Helper()
	var best room
	for _, r := range all {
		if r.holds(pkg) && len(r.folder) > len(best.folder) {
			best = r
		}
	}
	require.NotEmpty(t, best.folder, "%s is in no folder of docs/architecture.md", pkg)
	return best
}

// allows reports whether a room names a package among its imports.
func (r room) allows(pkg string) bool {
	for _, imp := range r.imports {
		below, tree := strings.CutSuffix(imp, "...")
		below = strings.TrimSuffix(below, "/")
		if pkg == below || tree && (below == "" || strings.HasPrefix(pkg, below+"/")) {
			return true
		}
	}
	return false
}

// importsOf lists the packages of the tree and what each imports of ours, in its
// product code and in its tests.
func importsOf(t *testing.T) (product, test map[string][]string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}|{{join .Imports " "}}|{{join .TestImports " "}} {{join .XTestImports " "}}`, "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	ours := func(list string) (imports []string) {
		for imp := range strings.FieldsSeq(list) {
			if imp, ok := strings.CutPrefix(imp, "pvdrm/"); ok {
				imports = append(imports, imp)
			}
		}
		return imports
	}
	product, test = map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		cells := strings.Split(line, "|")
		pkg := strings.TrimPrefix(cells[0], "pvdrm/")
		product[pkg], test[pkg] = ours(cells[1]), ours(cells[2])
	}
	require.Greater(t, len(product), 10)
	return product, test
}

// TestArrowsBetweenPackages compares imports with the tables in docs/architecture.md:
// product code keeps to the first one, and a test may also import what the second names.
func TestArrowsBetweenPackages(t *testing.T) {
	all := rooms(t, "The packages, and which way the arrows go")
	exceptions := rooms(t, "What only tests import")
	product, test := importsOf(t)
	needed := map[string]bool{}
	for pkg, imports := range product {
		r := roomOf(t, all, pkg)
		allowed := func(imp string) bool { return roomOf(t, all, imp).folder == r.folder || r.allows(imp) }
		for _, imp := range imports {
			assert.True(t, allowed(imp), "%s may not import %s", pkg, imp)
		}
		for _, imp := range test[pkg] {
			if allowed(imp) {
				continue
			}
			excepted := false
			for _, e := range exceptions {
				if e.holds(pkg) && e.allows(imp) {
					excepted, needed[e.folder] = true, true
				}
			}
			assert.True(t, excepted, "the tests of %s may not import %s", pkg, imp)
		}
	}
	for _, e := range exceptions {
		assert.True(t, needed[e.folder], "the tests of %s need no exception any more: delete the row in docs/architecture.md", e.folder)
	}
	for _, r := range all {
		_, err := os.Stat(filepath.Join(root(t), r.folder))
		require.NoError(t, err, "docs/architecture.md has a row for a folder that is not there")
	}
}

// TestArrowsMakeNoCircle looks for circles among the rooms, with the imports of
// tests. Go refuses circles among packages only, and without external tests.
func TestArrowsMakeNoCircle(t *testing.T) {
	all := rooms(t, "The packages, and which way the arrows go")
	product, test := importsOf(t)
	arrows := map[string]map[string]string{}
	for pkg := range product {
		from := roomOf(t, all, pkg).folder
		for _, imp := range append(product[pkg], test[pkg]...) {
			if to := roomOf(t, all, imp).folder; to != from {
				if arrows[from] == nil {
					arrows[from] = map[string]string{}
				}
				arrows[from][to] = pkg + " → " + imp
			}
		}
	}
	const open, done = 1, 2
	state := map[string]int{}
	var visit func(folder string, path []string)
	visit = func(folder string, path []string) {
		require.NotEqual(t, open, state[folder], "a circle ends here:\n%s", strings.Join(path, "\n"))
		if state[folder] == done {
			return
		}
		state[folder] = open
		for to, arrow := range arrows[folder] {
			visit(to, append(path, arrow))
		}
		state[folder] = done
	}
	for folder := range arrows {
		visit(folder, nil)
	}
}

// root is the top of the source tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	return filepath.Dir(dir)
}

// Unsafe code is in files that are named for it, and cgo in two folders only.
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
			require.True(t, strings.HasPrefix(file, "cmd/libcuda/") || strings.HasPrefix(file, "cmd/libnvml/"), "%s uses cgo", file)
		}
	}
}
