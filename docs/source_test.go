package docs

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source is a package's constants, types and their comments, as written.
type source struct {
	t      *testing.T
	types  map[string]*ast.TypeSpec
	docs   map[string]string // of types, and of the package under ""
	groups map[string]*ast.GenDecl
	values map[string]constant.Value
}

func readSource(t *testing.T, dir string) *source {
	s := &source{t: t, types: map[string]*ast.TypeSpec{}, docs: map[string]string{}, groups: map[string]*ast.GenDecl{}, values: map[string]constant.Value{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := parser.ParseFile(fset, path, b, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
		if f.Doc != nil {
			s.docs[""] += f.Doc.Text()
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.declaration(g)
			}
		}
	}
	require.NotEmpty(t, files, dir)

	// Constants have their values without the imports, so errors are of no interest.
	info := types.Info{Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = conf.Check(dir, fset, files, &info)
	for _, o := range info.Defs {
		if c, ok := o.(*types.Const); ok && c.Val().Kind() != constant.Unknown {
			s.values[c.Name()] = c.Val()
		}
	}
	return s
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not needed", path)
}

func (s *source) declaration(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.types[spec.Name.Name] = spec
			s.docs[spec.Name.Name] = spec.Doc.Text() + g.Doc.Text()
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				s.groups[n.Name] = g
			}
		}
	}
}

// value is a constant's number.
func (s *source) value(name string) uint64 {
	v, ok := s.values[name]
	require.True(s.t, ok, "no constant %s", name)
	n, ok := constant.Uint64Val(v)
	require.True(s.t, ok, "%s is %v", name, v)
	return n
}

// constants are the names and comments of the group that has a constant of this
// name, or of that constant and those after it where most is not 0.
func (s *source) constants(first string, most int) (rows [][2]string) {
	g := s.groups[first]
	require.NotNil(s.t, g, "no constant %s", first)
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		if len(rows) == 0 && most != 0 && v.Names[0].Name != first {
			continue
		}
		for _, n := range v.Names {
			if n.Name != "_" {
				rows = append(rows, [2]string{n.Name, oneLine(v.Doc.Text() + v.Comment.Text())})
			}
		}
		if most != 0 && len(rows) == most {
			break
		}
	}
	return rows
}

// fieldComments are the comments of a struct's fields, by name.
func (s *source) fieldComments(name string) map[string]string {
	spec := s.types[name]
	require.NotNil(s.t, spec, "no type %s", name)
	st, ok := spec.Type.(*ast.StructType)
	require.True(s.t, ok, "%s is no struct", name)
	comments := map[string]string{}
	if fields := st.Fields.List; len(fields) == 1 && spec.Comment != nil { // a struct on one line
		return map[string]string{fields[0].Names[0].Name: oneLine(spec.Comment.Text())}
	}
	for _, f := range st.Fields.List {
		for _, n := range f.Names {
			comments[n.Name] = oneLine(f.Doc.Text() + f.Comment.Text())
		}
	}
	return comments
}

// table is the indented table in a comment: its columns are two spaces apart.
func (s *source) table(name string) (rows [][]string) {
	doc, ok := s.docs[name]
	require.True(s.t, ok, "no comment of %q", name)
	return s.tableIn(doc, 0)
}

var twoSpaces = regexp.MustCompile(` {2,}`)

// tableIn takes the table number n out of a text.
func (s *source) tableIn(doc string, n int) (rows [][]string) {
	for line := range strings.Lines(doc) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t")
		if !ok {
			if len(rows) > 0 {
				if n == 0 {
					return rows
				}
				rows, n = nil, n-1
			}
			continue
		}
		rows = append(rows, twoSpaces.Split(line, -1))
	}
	require.NotEmpty(s.t, rows, "no table in %q", doc)
	return rows
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// prose is a type's comment without its table, on one line.
func (s *source) prose(name string) string {
	doc, ok := s.docs[name]
	require.True(s.t, ok, "no comment of %s", name)
	var keep []string
	for line := range strings.Lines(doc) {
		if !strings.HasPrefix(line, "\t") {
			keep = append(keep, line)
		}
	}
	return oneLine(strings.Join(keep, ""))
}

// markdown renders a table; the first row is the head.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, r := range rows {
		cells := make([]string, len(rows[0]))
		for k := range cells {
			if k < len(r) {
				cells[k] = strings.ReplaceAll(r[k], "|", `\|`)
			}
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(rows[0])) + "\n")
		}
	}
	return b.String()
}
