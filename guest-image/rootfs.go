package guestimage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"pvdrm/guest-image/guestinit"
)

// maxFile bounds a file that is taken from a package, in bytes.
const maxFile = 1 << 30

// rootPath is where a file of a package lies on the disk. The guest's /usr/bin and
// /usr/lib are links to /bin and /lib, so paths below either are the same.
func rootPath(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if rest, ok := strings.CutPrefix(name, "usr/"); ok && (strings.HasPrefix(rest, "lib") || strings.HasPrefix(rest, "bin/")) {
		return rest
	}
	return name
}

// extractTree copies the files and links of a package that keep names into a
// folder. A hard link becomes a symbolic one, to a name that keep must have too.
func extractTree(deb, dir string, keep func(string) bool) error {
	return debFiles(deb, func(h *tar.Header, r io.Reader) (bool, error) {
		name := rootPath(h.Name)
		if h.FileInfo().IsDir() || !keep(name) {
			return false, nil
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return false, err
		}
		switch mode := h.FileInfo().Mode(); {
		case h.Typeflag == tar.TypeLink && keep(rootPath(h.Linkname)):
			target, err := filepath.Rel(path.Dir(name), rootPath(h.Linkname))
			if err != nil {
				return false, err
			}
			return false, os.Symlink(target, to)
		case h.Typeflag == tar.TypeReg && h.Size <= maxFile:
			return false, writeFile(to, r, mode.Perm())
		case mode&fs.ModeSymlink != 0:
			return false, os.Symlink(h.Linkname, to)
		}
		return false, fmt.Errorf("%s is neither a file nor a link to one", h.Name)
	})
}

// Names in the folder of a disk.
const (
	diskImage = "disk.img" // an EROFS with the files
	diskLinks = "links"    // paths of the guest that are links to the disk, one a line
)

// disk returns the folder with the disk of the packages of the image's kind,
// filling it where it is missing; empty where the kind has none.
func (b *builder) disk(ctx context.Context, packages []debPackage) (string, error) {
	if len(packages) == 0 {
		return "", nil
	}
	h := sha256.New()
	fmt.Fprintln(h, format)
	for _, p := range packages {
		fmt.Fprintln(h, p.id())
	}
	name := b.kind.name + "_" + hex.EncodeToString(h.Sum(nil)[:6])
	return b.fromDebs(ctx, packages, name, func(debs []string, tmp, d string) error {
		b.progress("Unpacking %d packages of the image %s", len(packages), b.kind.name)
		root := filepath.Join(tmp, "root")
		for _, deb := range debs {
			if err := extractTree(deb, root, b.kind.keep); err != nil {
				return err
			}
		}
		err := replaceFile(filepath.Join(d, diskImage), 0o644, func(f *os.File) error { return writeEROFS(f, root) })
		if err != nil {
			return err
		}
		links, err := linksTo(root)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(d, diskLinks), []byte(strings.Join(links, "\n")+"\n"), 0o644)
	})
}

// linksTo lists the paths below root that are links in the guest's own root: its
// programs, and directories that nothing else writes to.
func linksTo(root string) (links []string, err error) {
	for _, pattern := range []string{"bin/*", libDir, "lib64", "usr/share"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			name, err := filepath.Rel(root, f)
			if err != nil {
				return nil, err
			}
			links = append(links, name)
		}
	}
	return links, nil
}

// readLibraries reads the libraries of our own by their paths below the guest's /lib, and their hashes for the key.
func (b *builder) readLibraries() (contents map[string][]byte, sums map[string]string, err error) {
	for i, file := range slices.Concat(b.libraries, b.stubs) {
		if !b.kind.dynamic() {
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
		name := filepath.Base(file)
		if i >= len(b.libraries) {
			name = path.Join(guestinit.StubsDir, name)
		}
		sum := sha256.Sum256(text)
		contents[name], sums[name] = text, hex.EncodeToString(sum[:])
	}
	return contents, sums, nil
}
