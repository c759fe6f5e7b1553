package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named matches a file or folder of the tree in a runbook.
var named = regexp.MustCompile("`((?:[a-z0-9-]+/)+[a-z0-9_.-]*[a-z0-9_]|drm|gpu|gem|hypercall|frontend|vmm)`")

// declared matches a file in a runbook with the identifiers that it declares, in parentheses.
var declared = regexp.MustCompile("`([a-z0-9/_-]+\\.go)`\\s+\\(((?:`\\w+`(?:,\\s+)?)+)\\)")

// identifier matches one of these.
var identifier = regexp.MustCompile("`(\\w+)`")

// requireDeclared looks for the identifiers that a runbook places in a file.
func requireDeclared(t *testing.T, title, prose string) (found int) {
	t.Helper()
	for _, m := range declared.FindAllStringSubmatch(prose, -1) {
		source, err := os.ReadFile(filepath.Join("..", m[1]))
		require.NoError(t, err, "%s", title)
		for _, name := range identifier.FindAllStringSubmatch(m[2], -1) {
			found++
			assert.Regexp(t, `(?m)^(var|func|type|const)( \([^)]*\))? `+name[1]+`\b`, string(source), "%s: %s", title, m[1])
		}
	}
	return found
}

// TestRunbooksNameFiles looks for the files, folders, identifiers and tests that runbooks.md
// names, except those that a runbook makes itself.
func TestRunbooksNameFiles(t *testing.T) {
	page, err := os.ReadFile("runbooks.md")
	require.NoError(t, err)
	runbooks := strings.Split(string(page), "\n## ")[1:]
	require.Len(t, runbooks, 6, "an operation, an ioctl, a policy, a device, a component, an instruction")
	for _, text := range runbooks {
		title, body, _ := strings.Cut(text, "\n")
		prose := codeBlock.ReplaceAllString(body, "")
		files := 0
		for _, m := range named.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(body, "```go\n// "+m[1]) {
				continue
			}
			files++
			_, err := os.Stat(filepath.Join("..", m[1]))
			assert.NoError(t, err, "%s", title)
		}
		assert.Greater(t, files, 2, "%s", title)
		if n := requireDeclared(t, title, prose); !strings.Contains(body, "\n```") {
			assert.Greater(t, n, 9, "%s: a runbook without code names the identifiers that change", title)
		}
		for _, n := range promiseTests.FindAllStringSubmatch(prose, -1) {
			requireTests(t, n[0])
		}
	}
}
