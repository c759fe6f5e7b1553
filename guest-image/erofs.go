package guestimage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/erofs/go-erofs"
)

// writeEROFS writes a file system with the files, directories and symbolic links below dir, of a
// kind that Debian's kernels have. It is not compressed, since a guest with an emulated processor
// reads faster than it unpacks. All belong to root and have no times: equal trees give equal bytes.
func writeEROFS(w *os.File, dir string) error {
	img := erofs.Create(w, erofs.WithBuildTime(0, 0), erofs.WithTempDir(filepath.Dir(w.Name())))
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := addEROFS(img, path, filepath.Join("/", name), entry); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return img.Close()
}

// addEROFS adds the file, directory or link at a path.
func addEROFS(img *erofs.Writer, path, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return img.Mkdir(name, mode.Perm())
	case mode&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return img.Symlink(to, name)
	case !mode.IsRegular():
		return errors.New("neither a file nor a directory nor a link")
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := img.Create(name)
	if err != nil {
		return err
	}
	if err := to.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	copied, err := io.Copy(to, from)
	if err == nil && copied != info.Size() {
		err = errors.New("the file changed while it was read")
	}
	if err != nil {
		return err
	}
	return to.Close()
}
