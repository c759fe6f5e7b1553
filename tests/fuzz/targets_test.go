package fuzz

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The list of targets has each that there is, with a weight, and so have the accounts.
func TestTargets(t *testing.T) {
	root := filepath.Join("..", "..")
	var want []string
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "out" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			want = append(want, pkg+" "+m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	for file, fields := range map[string]int{"targets.txt": 3, "hours.txt": 6} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == fields && f[0] != "#" {
				got = append(got, f[0]+" "+f[1])
			}
		}
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%s has\n%s\nand the tree has\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "fuzzing.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want {
		if pkg, target, _ := strings.Cut(name, " "); !strings.Contains(string(text), "| "+pkg+" | "+target+" |") {
			t.Errorf("docs/fuzzing.md does not have %s: run make fuzz-hours", name)
		}
	}
}
