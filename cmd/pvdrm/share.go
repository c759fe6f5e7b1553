package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	guestimage "pvdrm/guest-image"
	"pvdrm/guest-image/guestinit"
	"pvdrm/vmm"
)

// shareFlags are the directories of the host that machines of `pvdrm up` see.
type shareFlags struct {
	root      string
	shares    []string
	container bool // the root file system is a container image
}

// writableShare ends a --share that the guest may write to.
const writableShare = ":rw"

// rootTag is the tag of the root file system.
const rootTag = "root"

// apply checks the flags, and adds what they name to a machine and to its kernel's command line.
func (f *shareFlags) apply(cfg *vmm.Config) error {
	if f.root != "" {
		st, err := os.Stat(f.root)
		if err == nil && !st.IsDir() {
			err = errors.New("it is no directory")
		}
		if err != nil {
			return fmt.Errorf("--root %s: %w", f.root, err)
		}
		cfg.Shares = append(cfg.Shares, vmm.Share{Dir: f.root, Tag: rootTag})
		cfg.Append += " " + guestinit.RootParameter + rootTag
	}
	if f.container {
		cfg.Append += " " + guestinit.RootParameter + guestinit.RootDisk
	}
	for i, text := range f.shares {
		s, at, err := parseShare(text)
		if err != nil {
			return fmt.Errorf("--share %s: %w", text, err)
		}
		s.Tag = "share" + strconv.Itoa(i)
		cfg.Shares = append(cfg.Shares, s)
		cfg.Append += " " + guestinit.ShareWord(s.Tag, at, s.Writable)
	}
	return nil
}

// parseShare reads DIR, DIR:PATH or either with :rw. Without PATH the guest sees the directory where
// the host has it.
func parseShare(text string) (s vmm.Share, at string, err error) {
	text, s.Writable = strings.CutSuffix(text, writableShare)
	dir, at, given := strings.Cut(text, ":")
	if s.Dir, err = filepath.Abs(dir); err != nil || dir == "" {
		return s, "", errors.Join(errors.New("it names no directory (want DIR, DIR:PATH, and :rw after either to let the guest write)"), err)
	}
	st, err := os.Stat(s.Dir)
	if err == nil && !st.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return s, "", err
	}
	if !given {
		at = s.Dir
	}
	if !filepath.IsAbs(at) || filepath.Clean(at) == "/" {
		return s, "", fmt.Errorf("%q is no place in the guest: it wants an absolute path, and not / (see --root)", at)
	}
	return s, filepath.Clean(at), nil
}

// image returns the kind of image that is needed.
func (f *shareFlags) image(kind string) (string, error) {
	switch {
	case f.root == "" && strings.HasPrefix(kind, guestimage.OCI):
		f.container = true
		return kind, nil
	case f.root == "":
		return kind, nil
	case kind != guestimage.Base:
		return "", errors.New("--root and --image exclude each other: the guest has the programs of the directory")
	}
	return guestimage.Root, nil
}

// program returns the path that a program has in a guest with --root: the given one, if the guest has
// that, or the path of a file of the host there. ok is false where the guest has neither. A container
// image has its programs by their absolute paths.
func (f *shareFlags) program(file string) (path string, ok bool) {
	if f.container {
		return file, filepath.IsAbs(file)
	}
	if f.root != "" && filepath.IsAbs(file) {
		if _, err := os.Stat(filepath.Join(f.root, file)); err == nil && !ownDirectory(file) {
			return file, true
		}
	}
	return f.inRoot(file)
}

// ownDirectory says whether the guest has a file system of its own at a path.
func ownDirectory(path string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(filepath.Clean(path), "/"), "/")
	return slices.Contains(guestinit.OwnDirectories, "/"+top)
}

// inRoot returns the path that a file of the host has in a guest with --root; ok is false where the
// directory does not have it, or the guest has a file system of its own there.
func (f *shareFlags) inRoot(file string) (path string, ok bool) {
	if f.root == "" {
		return "", false
	}
	root, err := filepath.Abs(f.root)
	if err != nil {
		return "", false
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", false
	}
	rel, err := filepath.Rel(root, file)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	if path = filepath.Join("/", rel); ownDirectory(path) {
		return "", false
	}
	return path, true
}
