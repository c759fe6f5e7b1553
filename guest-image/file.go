package guestimage

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeFile writes a file so that it is there as a whole or not at all.
func writeFile(path string, r io.Reader, mode os.FileMode) error {
	return replaceFile(path, mode, func(f *os.File) error {
		_, err := io.Copy(f, r)
		return err
	})
}

// writeSparse writes b with holes for its zero pages: a third of an unpacked kernel is zeros.
func writeSparse(path string, b []byte) error {
	const page = 4096
	zero := make([]byte, page)
	return replaceFile(path, 0o644, func(f *os.File) error {
		for off := 0; off < len(b); off += page {
			chunk := b[off:min(off+page, len(b))]
			if bytes.Equal(chunk, zero[:len(chunk)]) {
				continue
			}
			if _, err := f.WriteAt(chunk, int64(off)); err != nil {
				return err
			}
		}
		return f.Truncate(int64(len(b)))
	})
}

func replaceFile(path string, mode os.FileMode, fill func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails where all went well
	err = fill(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// replaceDir makes a directory that appears with all its content or not at all. Where another
// process was faster, its directory stays.
func replaceDir(path string, fill func(dir string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(path), newDirPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // nothing is there where all went well
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// newDirPrefix begins the names of directories that are being filled.
const newDirPrefix = ".new-"
