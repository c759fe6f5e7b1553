package guestimage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/erofs"
)

// readDisk returns the files of a file system by path, with a reader that is not
// ours; "→ TARGET" for a link.
func readDisk(t *testing.T, image string) map[string]string {
	t.Helper()
	f, err := os.Open(image)
	require.NoError(t, err)
	img, err := erofs.OpenImage(f) // takes the file over
	require.NoError(t, err)
	defer img.Close()
	files := map[string]string{}
	var walk func(nid uint64, path string)
	walk = func(nid uint64, path string) {
		n, err := img.Inode(nid)
		require.NoError(t, err)
		require.Zero(t, n.UID())
		require.Zero(t, n.GID())
		require.Zero(t, n.Mtime())
		switch {
		case n.IsDir():
			require.NoError(t, n.IterDirents(func(name string, _ uint8, nid uint64) error {
				found, err := n.Lookup(name)
				require.NoError(t, err)
				require.Equal(t, nid, found, "the entries of %s are not sorted", path)
				if name != "." && name != ".." {
					walk(nid, filepath.Join(path, name))
				}
				return nil
			}))
		case n.IsSymlink():
			to, err := n.Readlink()
			require.NoError(t, err)
			files[path] = "→ " + to
		default:
			parts, err := n.DataRanges()
			require.NoError(t, err)
			files[path] = string(parts[0].Bytes) + string(parts[1].Bytes)
		}
	}
	walk(img.RootNid(), "")
	return files
}

func TestEROFS(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{
		"a/empty":     "",
		"a/page":      strings.Repeat("p", block),
		"a/page+1":    strings.Repeat("q", block+1),
		"a/b/c/deep":  "deep",
		"a-b":         "sorts before a/",
		"link":        "→ a/page",
		"Upper":       "upper",
		"\u00fcml":    "not ASCII",
		"many/longer": "x",
	}
	for i := range 500 { // several blocks of entries
		want[fmt.Sprintf("many/%s%d", strings.Repeat("n", i%60), i)] = fmt.Sprint(i)
	}
	for name, text := range want {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if to, ok := strings.CutPrefix(text, "→ "); ok {
			require.NoError(t, os.Symlink(to, path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	require.NoError(t, writeDisk(first, dir))
	require.NoError(t, writeDisk(second, dir))
	a, err := os.ReadFile(first)
	require.NoError(t, err)
	b, err := os.ReadFile(second)
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b), "equal trees, and other bytes")
	require.Zero(t, len(a)%block)
	require.Equal(t, want, readDisk(t, first))
}

// block is the size of a file system's blocks.
const block = 4096

func writeDisk(name, dir string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(writeEROFS(f, dir), f.Close())
}

func TestEROFSOfWhatItCannotHold(t *testing.T) {
	require.ErrorIs(t, writeDisk(filepath.Join(t.TempDir(), "disk"), filepath.Join(t.TempDir(), "gone")), os.ErrNotExist)
	require.ErrorContains(t, writeDisk(filepath.Join(t.TempDir(), "disk"), "/dev/null"), "neither a file nor a directory nor a link")
}
