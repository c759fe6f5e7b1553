package guestimage

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"
)

// maxFile bounds a file that is taken from a package, in bytes.
const maxFile = 1 << 30

// rootPath is where a file of a package lies in the guest. Its /usr/lib is a link
// to /lib, so paths below either are the same.
func rootPath(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if rest, ok := strings.CutPrefix(name, "usr/"); ok && strings.HasPrefix(rest, "lib") {
		return rest
	}
	return name
}

// extractTree copies the files and symbolic links of a package that keep names
// into a folder.
func extractTree(deb, dir string, keep func(string) bool) error {
	f, err := os.Open(deb)
	if err != nil {
		return err
	}
	defer f.Close()
	tr, err := debData(f)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(deb), err)
	}
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(deb), err)
		}
		name := rootPath(h.Name)
		if !keep(name) {
			continue
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		switch mode := h.FileInfo().Mode(); {
		case mode.IsRegular() && h.Size <= maxFile:
			err = writeFile(to, tr, mode.Perm())
		case mode&fs.ModeSymlink != 0:
			err = os.Symlink(h.Linkname, to)
		default:
			err = fmt.Errorf("%s in %s is neither a file nor a link", h.Name, filepath.Base(deb))
		}
		if err != nil {
			return err
		}
	}
}

// rootfs returns the folders with the files of the packages of the image's kind.
func (b *builder) rootfs(ctx context.Context, packages []debPackage) (dirs []string, err error) {
	for _, p := range packages {
		dir, err := b.fromDeb(ctx, p, "_"+b.kind.name, func(deb, dir string) error {
			return extractTree(deb, dir, b.kind.keep)
		})
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// treeRecords lists the files of a folder as they lie in the image.
func treeRecords(dir string) ([]cpio.Record, error) {
	var r []cpio.Record
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(file)
			r = append(r, cpio.Symlink(name, to))
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		r = append(r, cpio.StaticFile(name, string(text), uint64(info.Mode().Perm())))
		return err
	})
	return r, err
}

// readLibraries reads the libraries of our own, and their hashes for the key.
func (b *builder) readLibraries() (contents map[string][]byte, sums map[string]string, err error) {
	for _, file := range b.libraries {
		if !b.kind.dynamic {
			return nil, nil, fmt.Errorf("library %s: programs of the image %q are static", file, b.kind.name)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		if _, err := checkELF(file, text, elf.ET_DYN); err != nil {
			return nil, nil, err
		}
		if contents == nil {
			contents, sums = map[string][]byte{}, map[string]string{}
		}
		sum := sha256.Sum256(text)
		contents[filepath.Base(file)], sums[filepath.Base(file)] = text, hex.EncodeToString(sum[:])
	}
	return contents, sums, nil
}
