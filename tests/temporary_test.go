package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// removedByOthers are the functions that make a temporary file or directory which another function removes.
var removedByOthers = map[string]bool{
	"internal/suite/gloop/grepinput.go makeGrepInput": true, // by remove, which the program's close calls
	"internal/suite/gloop/img.go store":               true, // by the program's close
}

// TestTemporaryFilesAreRemoved finds functions and variables, of tests too, that make a temporary file or directory and
// remove none. Each run would leave one behind.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	var left []string
	made := 0
	for _, f := range handWritten(t) {
		if f.tree == nil {
			continue
		}
		for _, d := range f.tree.Decls {
			makes, removes := temporary(d)
			if makes {
				made++
			}
			if name := f.path + " " + declared(d); makes && !removes && !removedByOthers[name] {
				left = append(left, name)
			}
		}
	}
	require.Empty(t, left, "these make temporary files and remove none")
	require.Greater(t, made, 30)
}

func TestTemporaryFilesAreFound(t *testing.T) {
	for _, test := range []struct {
		source         string
		makes, removes bool
	}{
		{source: `var dir = once(func() string { dir, _ := os.MkdirTemp("", "x"); return dir })`, makes: true},
		{source: `func f() { f, _ := os.CreateTemp("", "x"); defer func() { _ = os.Remove(f.Name()) }() }`, makes: true, removes: true},
		{source: `func f() { dir, _ := os.MkdirTemp("", "x"); g(os.RemoveAll, dir) }`, makes: true, removes: true},
		{source: `func f(t *testing.T) { _, _ = os.CreateTemp(t.TempDir(), "x") }`},
		{source: `func f(parent string) { _, _ = os.CreateTemp(filepath.Dir(parent), "x") }`, makes: true},
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+test.source, 0)
		require.NoError(t, err)
		makes, removes := temporary(tree.Decls[0])
		require.Equal(t, test.makes, makes, test.source)
		require.Equal(t, test.removes, removes, test.source)
	}
}

// temporary reports whether a declaration makes temporary files or directories outside a test's own, and whether it
// removes any.
func temporary(d ast.Decl) (makes, removes bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && (selects(call.Fun, "MkdirTemp") || selects(call.Fun, "CreateTemp")) {
			in, ok := call.Args[0].(*ast.CallExpr)
			makes = makes || !ok || !selects(in.Fun, "TempDir")
		}
		if e, ok := n.(ast.Expr); ok {
			removes = removes || selects(e, "Remove") || selects(e, "RemoveAll")
		}
		return true
	})
	return makes, removes
}

// selects reports whether an expression is a selector of that name, such as os.Remove.
func selects(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == name
}

// declared is the name of a function or of the first variable that a declaration has.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
			return v.Names[0].Name
		}
	}
	return ""
}
