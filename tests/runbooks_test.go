package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRunbooks does what docs/runbooks.md says, on a copy of the files that it changes:
// the blocks of code below a heading become new files, or parts of files, which the go
// command sees in place of the tree's (-overlay) when it makes the section's checks.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/runbooks.md"))
	require.NoError(t, err)
	done := 0
	for _, text := range strings.Split(string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(text, "\n")
		checks := checkLine.FindAllStringSubmatch(body, -1)
		if len(checks) == 0 {
			continue // docs TestRunbooksNameFiles looks for its files
		}
		done++
		t.Run(title, func(t *testing.T) {
			overlay, files := overlayOf(t, body)
			require.LessOrEqual(t, files, 4, "hand-written files that the runbook touches")
			for _, c := range checks {
				check(t, overlay, c[1], c[2])
			}
		})
	}
	require.GreaterOrEqual(t, done, 5, "an operation, an ioctl, a policy, a device, a component")
}

// check runs the tests of a package that match a pattern, or builds it where there is none.
func check(t *testing.T, overlay, pkg, pattern string) {
	t.Helper()
	run := func(dir string, words ...string) {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", cmd, out)
	}
	if pattern == "" {
		run(root(t), "go", "build", "-overlay", overlay, "-o", os.DevNull, "./"+pkg)
		return
	}
	binary := filepath.Join(t.TempDir(), "test")
	run(root(t), "go", "test", "-overlay", overlay, "-vet=off", "-c", "-o", binary, "./"+pkg)
	dir := filepath.Join(root(t), pkg)
	if _, err := os.Stat(dir); err != nil {
		dir = t.TempDir() // the package is the runbook's
	}
	run(dir, binary, "-test.run", pattern)
}

var (
	checkLine = regexp.MustCompile("(?m)^Check: `([a-z0-9/-]+)`(?:, tests `([^`]+)`)?$")
	// A block is a new file, whose first line names it, or an insertion into one.
	newFile   = regexp.MustCompile("(?ms)^```go\n// (\\S+\\.go)\n(.*?)^```$")
	insertion = regexp.MustCompile("(?ms)^```diff\n--- (\\S+)\n(.*?)^```$")
)

// overlayOf writes the files and insertions of a runbook. It returns the file that names
// them for the go command, and their number.
func overlayOf(t *testing.T, body string) (overlay string, files int) {
	t.Helper()
	dir, contents := t.TempDir(), map[string]string{}
	for _, m := range newFile.FindAllStringSubmatch(body, -1) {
		require.NoFileExists(t, filepath.Join(root(t), m[1]), "the runbook makes a new file")
		contents[m[1]] = m[2]
	}
	for _, m := range insertion.FindAllStringSubmatch(body, -1) {
		text, err := os.ReadFile(filepath.Join(root(t), m[1]))
		require.NoError(t, err, "the runbook changes a file that has gone")
		contents[m[1]] = insert(t, m[1], string(text), m[2])
	}
	replace := map[string]string{}
	for name, text := range contents {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(root(t), name)] = file
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, b, 0o600))
	return overlay, len(contents)
}

// insert puts the lines that begin with + behind the lines before them. The first of these
// must be in the text once, and each other one follow it.
func insert(t *testing.T, name, text, hunks string) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	at, after := -1, false // the last line that was found or added; whether it was added
	for line := range strings.Lines(hunks) {
		line = strings.TrimSuffix(line, "\n")
		if added, ok := strings.CutPrefix(line, "+"); ok {
			at++
			lines, after = slices.Insert(lines, at, added), true
			continue
		}
		want := strings.TrimSpace(line)
		if at >= 0 && !after && strings.TrimSpace(lines[at+1]) == want {
			at++
			continue
		}
		at, after = -1, false
		for i, l := range lines {
			if strings.TrimSpace(l) == want {
				require.Equal(t, -1, at, "%s has this line twice: %s", name, want)
				at = i
			}
		}
		require.NotEqual(t, -1, at, "%s has no such line: %s", name, want)
	}
	return strings.Join(lines, "\n")
}
