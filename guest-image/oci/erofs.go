package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/erofs/go-erofs"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Bounds on an image: files, directories and links; bytes of all files; bytes of a path.
const (
	maxEntries = 1 << 20
	maxSize    = 64 << 30
	maxPath    = 4096
)

var errTooLarge = fmt.Errorf("the image's files have more than %d GiB", maxSize>>30)

// WriteEROFS writes the image's files, as its layers leave them, with their owners and permissions.
// A hard link becomes a symbolic one. Devices are left out: the guest's kernel makes its own.
func (i *Image) WriteEROFS(ctx context.Context, w *os.File) error {
	files := mutate.Extract(i.img)
	defer files.Close()
	stop := context.AfterFunc(ctx, func() { files.Close() })
	defer stop()
	err := writeEROFS(w, files)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the image's files: %w", err)
	}
	return nil
}

// tree is an EROFS that is being written.
type tree struct {
	img    *erofs.Writer
	kinds  map[string]byte   // of what was added, by absolute path: the Typeflag of tar
	hard   map[string]string // hard links and what they name
	left   int64             // bytes that files may still have
	number int
}

func writeEROFS(w *os.File, files io.Reader) error {
	t := tree{
		img:   erofs.Create(w, erofs.WithBuildTime(0, 0), erofs.WithTempDir(filepath.Dir(w.Name()))),
		kinds: map[string]byte{"/": tar.TypeDir}, hard: map[string]string{}, left: maxSize,
	}
	// Close also removes the writer's own file, so it comes after an error, too.
	return errors.Join(t.addAll(files), t.img.Close())
}

// addAll adds what an archive has.
func (t *tree) addAll(files io.Reader) error {
	r := tar.NewReader(files)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if t.number++; t.number > maxEntries {
			return fmt.Errorf("more than %d files, directories and links", maxEntries)
		}
		name := path.Join("/", h.Name)
		if len(name) > maxPath || strings.IndexByte(name, 0) >= 0 {
			return fmt.Errorf("a path of %d bytes, %.60q…: no guest has such a file", len(name), name)
		}
		if err := t.add(name, h, r); err != nil {
			return fmt.Errorf("%.200q: %w", name, err)
		}
	}
	for name, target := range t.hard {
		if kind, ok := t.kinds[target]; !ok || kind == tar.TypeDir {
			return fmt.Errorf("%.200q is a hard link to %.200q, which the image does not have or a later layer removes", name, target)
		}
	}
	return nil
}

// add adds what one header of an archive describes.
func (t *tree) add(name string, h *tar.Header, r io.Reader) error {
	if kind, ok := t.kinds[name]; ok && (kind != tar.TypeDir || h.Typeflag != tar.TypeDir) {
		return errors.New("the image has it twice")
	}
	// A few bytes of an archive would be gigabytes on the disk.
	if _, sparse := h.PAXRecords["GNU.sparse.realsize"]; sparse || h.PAXRecords["GNU.sparse.size"] != "" || h.Typeflag == tar.TypeGNUSparse {
		return errors.New("a file with holes: container images have none")
	}
	if err := t.parents(name); err != nil {
		return err
	}
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		if _, there := t.kinds[name]; !there || name == "/" {
			err = t.img.Mkdir(name, 0o755)
		}
	case tar.TypeReg:
		err = t.file(name, h.Size, r)
	case tar.TypeSymlink:
		if len(h.Linkname) > maxPath || h.Linkname == "" {
			return fmt.Errorf("a symbolic link to a path of %d bytes", len(h.Linkname))
		}
		err = t.img.Symlink(h.Linkname, name)
	case tar.TypeLink:
		target := path.Join("/", h.Linkname)
		relative, rerr := filepath.Rel(path.Dir(name), target)
		if rerr != nil {
			return rerr
		}
		if t.hard[name] = target; target == name {
			return errors.New("a hard link to itself")
		}
		err = t.img.Symlink(relative, name)
	default: // devices, pipes and sockets
		return nil
	}
	if err != nil {
		return err
	}
	t.kinds[name] = h.Typeflag
	if h.Typeflag != tar.TypeLink && h.Typeflag != tar.TypeSymlink {
		err = t.img.Chmod(name, fs.FileMode(h.Mode).Perm())
	}
	return errors.Join(err, t.img.Chown(name, h.Uid, h.Gid), t.img.Chtimes(name, h.ModTime, h.ModTime))
}

// parents adds the directories above a path that no header has described yet. None may be something
// else than a directory.
func (t *tree) parents(name string) error {
	dir := path.Dir(name)
	if kind, ok := t.kinds[dir]; ok {
		if kind != tar.TypeDir {
			return errors.New("what is above it in the image is no directory")
		}
		return nil
	}
	if err := t.parents(dir); err != nil {
		return err
	}
	if t.number++; t.number > maxEntries {
		return fmt.Errorf("more than %d files, directories and links", maxEntries)
	}
	t.kinds[dir] = tar.TypeDir
	return t.img.Mkdir(dir, 0o755)
}

// file adds a regular file.
func (t *tree) file(name string, size int64, r io.Reader) error {
	if t.left -= size; t.left < 0 || size < 0 {
		return errTooLarge
	}
	f, err := t.img.Create(name)
	if err != nil {
		return err
	}
	copied, err := io.Copy(f, r)
	if err == nil && copied != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Close())
}
