package docs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link      = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unanchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
)

// TestLinks follows the relative links of every page: the file is there, and so is the
// heading that a fragment names.
func TestLinks(t *testing.T) {
	pages := pages(t)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, fragment, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); !assert.NoError(t, err, "%s: %s", page, m[1]) || fragment == "" {
				continue
			}
			assert.Contains(t, anchors(t, target), fragment, "%s: %s", page, m[1])
		}
	}
}

// TestEveryPageIsLinked finds pages of docs that README does not lead to.
func TestEveryPageIsLinked(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, page := range pages(t) {
		if dir, name := filepath.Split(page); dir == "" {
			assert.Contains(t, string(readme), "](docs/"+name+")", "README.md has no link to it")
		}
	}
	assert.Less(t, strings.Count(string(readme), "\n"), 200, "README.md has 200 lines at most; details belong into docs")
}

// TestNoConflictIsLeft finds what a merge has left in a file of any kind.
func TestNoConflictIsLeft(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "grep", "-lE", "^(<<<<<<<|>>>>>>>) ").Output()
	var none *exec.ExitError
	if !errors.As(err, &none) || none.ExitCode() != 1 { // git grep's exit code where it finds nothing
		require.NoError(t, err)
	}
	assert.Empty(t, string(out), "files with the marks of a conflict")
}

// pages lists the hand-kept documents, relative to docs.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "../*.md", "../packaging/*/*.md", "../tests/*/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		all = append(all, found...)
	}
	require.Greater(t, len(all), 10)
	return all
}

// anchors lists the fragments of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
		all[strings.ReplaceAll(unanchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}
