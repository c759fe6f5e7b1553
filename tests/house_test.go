package tests

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/maphash"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	maxFunction = 80  // lines of a function
	maxFile     = 500 // lines of a file that is written by hand
	minRepeat   = 6   // lines that no two places of product code share

	// maxRepeats is how many pairs of places may share lines all the same. Seven do: methods of
	// contexts and modules that gpu/nvidia and gpu/softgpu begin alike, whose rest differs (4);
	// the lane functions of loads and stores, and Min64 and Max64, which run for each lane, so
	// that a call would cost; and how the connections of vmm/control and vmm/qmp fail.
	maxRepeats = 9
)

// faults lists the places that break a rule, by rule.
type faults map[string][]string

func (fs faults) add(rule, format string, args ...any) {
	fs[rule] = append(fs[rule], fmt.Sprintf(format, args...))
}

func isTest(file string) bool {
	return strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "tests/") || strings.HasPrefix(file, "docs/") || strings.Contains(file, "/testdata/")
}

// file is a source file that is written by hand.
type file struct {
	path string
	text []byte
	fset *token.FileSet
	tree *ast.File // nil unless the file is Go
}

// TestHouse checks the rules of style that a program can check.
func TestHouse(t *testing.T) {
	files := handWritten(t)
	structs := structTypes(files)
	found := faults{}
	for _, f := range files {
		if n := bytes.Count(f.text, []byte("\n")); n > maxFile {
			found.add("long files", "%s: %d lines", f.path, n)
		}
		if f.tree != nil {
			f.functions(found)
			f.positional(found, structs)
			f.shadows(found)
		}
	}
	repeats(files, found)
	t.Logf("repeats:\n%s", strings.Join(found["repeats"], "\n"))
	if len(found["repeats"]) <= maxRepeats {
		delete(found, "repeats")
	}
	for rule, places := range found {
		assert.Fail(t, rule, "%s", strings.Join(places, "\n"))
	}
}

// handWritten reads the sources of the tree, but for generated ones.
func handWritten(t *testing.T) []*file {
	t.Helper()
	out, err := exec.Command("git", "-C", root(t), "ls-files", "-c", "-o", "--exclude-standard", "*.go", "*.c", "*.h", "*.sh").Output()
	require.NoError(t, err)
	var files []*file
	for name := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		if bytes.Contains(text, []byte("Code generated ")) && bytes.Contains(text, []byte(" DO NOT EDIT.")) && !strings.Contains(name, "generate/") {
			continue
		}
		f := &file{path: name, text: text, fset: token.NewFileSet()}
		if path.Ext(name) == ".go" {
			f.tree, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
		}
		files = append(files, f)
	}
	require.Greater(t, len(files), 100)
	return files
}

// functions finds long functions.
func (f *file) functions(found faults) {
	for _, d := range f.tree.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := f.fset.Position(d.End()).Line - f.fset.Position(d.Pos()).Line + 1; n > maxFunction {
			found.add("long functions", "%s: %s has %d lines", f.path, d.Name.Name, n)
		}
	}
}

// structTypes lists the struct types of each package, as folder.name.
func structTypes(files []*file) map[string]bool {
	all := map[string]bool{}
	for _, f := range files {
		if f.tree == nil {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.StructType); ok {
					all[path.Dir(f.path)+"."+spec.Name.Name] = true
				}
			}
			return true
		})
	}
	return all
}

// positional finds rows of tables (arrays, slices and maps of structs) that give
// three fields or more without their names.
func (f *file) positional(found faults, structs map[string]bool) {
	isStruct := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.StructType:
			return true
		case *ast.Ident:
			return structs[path.Dir(f.path)+"."+e.Name]
		}
		return false
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch typ := table.Type.(type) {
		case *ast.ArrayType:
			ok = isStruct(typ.Elt)
		case *ast.MapType:
			ok = isStruct(typ.Value)
		default:
			ok = false
		}
		for _, row := range table.Elts {
			if kv, pair := row.(*ast.KeyValueExpr); pair {
				row = kv.Value
			}
			row, lit := row.(*ast.CompositeLit)
			if !ok || !lit || row.Type != nil || len(row.Elts) < 3 {
				continue
			}
			if _, named := row.Elts[0].(*ast.KeyValueExpr); !named {
				found.add("rows without the names of their fields", "%v", f.fset.Position(row.Pos()))
			}
		}
		return true
	})
}

var builtins = strings.Fields("any append cap clear close complex copy delete error imag len make max min new panic print println real recover")

// shadows finds variables, parameters and functions that have a builtin's name.
func (f *file) shadows(found faults) {
	check := func(names ...*ast.Ident) {
		for _, n := range names {
			if slices.Contains(builtins, n.Name) {
				found.add("names of builtins", "%v: %s", f.fset.Position(n.Pos()), n.Name)
			}
		}
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				check(n.Name)
			}
		case *ast.FuncType:
			for _, list := range []*ast.FieldList{n.TypeParams, n.Params, n.Results} {
				if list != nil {
					for _, field := range list.List {
						check(field.Names...)
					}
				}
			}
		case *ast.ValueSpec:
			check(n.Names...)
		case *ast.TypeSpec:
			check(n.Name)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					check(id)
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					check(id)
				}
			}
		}
		return true
	})
}

// repeats finds pairs of places in product code that share minRepeat lines or more.
// Imports, tables, comments, blank lines and lines without a letter do not count.
func repeats(files []*file, found faults) {
	type place struct{ file, at int }
	var (
		seed    = maphash.MakeSeed()
		kept    = make([][]statement, len(files))
		windows = map[uint64][]place{}
	)
	for i, f := range files {
		if f.tree == nil || isTest(f.path) {
			continue
		}
		kept[i] = f.statements()
		for at := range len(kept[i]) - minRepeat + 1 {
			var h maphash.Hash
			h.SetSeed(seed)
			for _, s := range kept[i][at : at+minRepeat] {
				_, _ = h.WriteString(s.text + "\n")
			}
			windows[h.Sum64()] = append(windows[h.Sum64()], place{i, at})
		}
	}
	for _, places := range windows {
		for n, p := range places {
			for _, q := range places[n+1:] {
				longer := p.at > 0 && q.at > 0 && kept[p.file][p.at-1].text == kept[q.file][q.at-1].text
				if longer || p.file == q.file && q.at < p.at+minRepeat {
					continue // part of a repeat that began above, or of itself
				}
				found.add("repeats", "%s:%d and %s:%d", files[p.file].path, kept[p.file][p.at].line, files[q.file].path, kept[q.file][q.at].line)
			}
		}
	}
}

// statement is a line of a function, without its indentation.
type statement struct {
	text string
	line int
}

// statements returns the lines of a file's functions, but for tables, comments and
// lines without a letter. A line of its own ends each function.
func (f *file) statements() (kept []statement) {
	lines := strings.Split(string(f.text), "\n")
	skip := make([]bool, len(lines))
	cut := func(n ast.Node) {
		for l := f.fset.Position(n.Pos()).Line; l <= f.fset.Position(n.End()).Line; l++ {
			skip[l-1] = true
		}
	}
	for _, c := range f.tree.Comments {
		if p := f.fset.Position(c.Pos()); strings.TrimSpace(lines[p.Line-1][:p.Column-1]) == "" {
			cut(c)
		}
	}
	for i, d := range f.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && len(lit.Elts) > 2 {
				cut(lit)
			}
			return true
		})
		end := f.fset.Position(fn.End()).Line
		for l := f.fset.Position(fn.Pos()).Line; l < end; l++ {
			text := strings.TrimSpace(lines[l-1])
			if !skip[l-1] && strings.ContainsFunc(text, unicode.IsLetter) {
				kept = append(kept, statement{text, l})
			}
		}
		kept = append(kept, statement{fmt.Sprintf("end of %s %d", f.path, i), end})
	}
	return kept
}
