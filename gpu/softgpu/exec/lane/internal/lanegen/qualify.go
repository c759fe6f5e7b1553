package main

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// qualify formats a generated file, in which the functions and constants of the package
// beside package table are written without its name, and with a small first letter.
func qualify(src []byte, helpers string) ([]byte, error) {
	names, err := exported(filepath.Join("..", helpers))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, 0)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	at := 0
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Ident:
			if name, ok := names[n.Name]; ok {
				offset := fset.Position(n.Pos()).Offset
				out.Write(src[at:offset])
				out.WriteString(helpers + "." + name)
				at = offset + len(n.Name)
			}
		}
		return true
	})
	out.Write(src[at:])
	return format.Source(out.Bytes())
}

// exported lists the functions and constants that a package exports, by their names with a
// small first letter.
func exported(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names[strings.ToLower(id.Name[:1])+id.Name[1:]] = id.Name
		}
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.CONST {
						for _, id := range v.Names {
							add(id)
						}
					}
				}
			}
		}
	}
	return names, nil
}
