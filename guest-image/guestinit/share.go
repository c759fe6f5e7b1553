package guestinit

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Parameters of the kernel command line that name directories of the host, by the tags of their
// devices. A path has %XX for what a command line cannot hold, as url.PathEscape writes it.
const (
	// RootParameter is followed by the tag of the root file system, or by RootDisk.
	RootParameter = "pvdrm.root="
	// RootDisk in place of a tag says that the machine's disk is the root file system.
	RootDisk = "disk"
	// ShareParameter is followed by the tag, a colon, and where to mount it; it may stand several times.
	// ShareWritable in place of it allows the guest to write.
	ShareParameter = "pvdrm.share="
	ShareWritable  = "pvdrm.share.rw="
)

// ShareWord is the word of the command line for a directory that the guest mounts at a path.
func ShareWord(tag, path string, writable bool) string {
	name := ShareParameter
	if writable {
		name = ShareWritable
	}
	return name + tag + ":" + url.PathEscape(path)
}

// Where files of the image are once a directory of the host is the root.
const (
	imageDir      = "/run/pvdrm"
	imagePrograms = imageDir + "/bin"
	imageLibs     = imageDir + "/lib"
)

// OwnDirectories are file systems of the guest's own, whatever is its root.
var OwnDirectories = []string{"/proc", "/sys", "/dev", "/tmp", "/run"}

// Options of mounts of 9p. The root is not written to by anybody while the machine runs, or the
// guest sees old content: so it may keep what it has read.
const (
	shareOptions = "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"
	rootOptions  = "trans=virtio,version=9p2000.L,msize=512000,cache=loose"
)

// mountTag mounts a directory of the host.
func mountTag(tag, target, options string, writable bool) error {
	flags := uintptr(unix.MS_NODEV | unix.MS_NOSUID)
	if !writable {
		flags |= unix.MS_RDONLY
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("a directory of the host: %w", err)
	}
	err := unix.Mount(tag, target, "9p", flags, options)
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("mounting a directory of the host at %s: this guest's kernel has no 9p: %w", target, err)
	case err != nil:
		return fmt.Errorf("mounting a directory of the host at %s: %w", target, err)
	}
	return nil
}

// mountShares mounts what the command line names.
func (c commandLine) mountShares() (err error) {
	for _, w := range c {
		rest, writable := strings.CutPrefix(w, ShareWritable)
		if !writable {
			var ok bool
			if rest, ok = strings.CutPrefix(w, ShareParameter); !ok {
				continue
			}
		}
		tag, escaped, _ := strings.Cut(rest, ":")
		path, bad := url.PathUnescape(escaped)
		if bad != nil || tag == "" || !filepath.IsAbs(path) {
			err = errors.Join(err, fmt.Errorf("%s names no tag and absolute path", w))
			continue
		}
		err = errors.Join(err, mountTag(tag, path, shareOptions, writable))
	}
	return err
}

// value is what follows a parameter; empty where there is none.
func (c commandLine) value(parameter string) string {
	for _, w := range c {
		if v, ok := strings.CutPrefix(w, parameter); ok {
			return v
		}
	}
	return ""
}

// ProgramEnv adds to the environment of a program of an image with an own root file system what it
// needs of PVDRM: variables are as in os.Environ, and those that the guest has anyway may be missing.
func ProgramEnv(env []string) []string {
	env = slices.Clone(env)
	for i, e := range env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			env[i] = "PATH=" + path + ":" + imagePrograms
		}
		if path, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			env[i] = "LD_LIBRARY_PATH=" + imageLibs + ":" + path
		}
	}
	return env
}

// mountLower mounts the root file system that a tag or RootDisk names, for reading.
func mountLower(tag, target string) error {
	if tag != RootDisk {
		return mountTag(tag, target, rootOptions, false)
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return mountDiskAt(target)
}

// enterRoot makes a directory of the host, or the disk, the root file system: as it is, below a layer
// in memory that takes what the guest writes. The image's own programs and libraries, and the file
// systems of the kernel, are in it then.
func enterRoot(tag string) error {
	const lower, layer, root = "/mnt/host", "/mnt/layer", "/mnt/root"
	if err := mountLower(tag, lower); err != nil {
		return err
	}
	if err := os.MkdirAll(layer, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", layer, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("memory for what is written: %w", err)
	}
	for _, dir := range []string{layer + "/upper", layer + "/work", root, imagePrograms, imageLibs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	options := "lowerdir=" + lower + ",upperdir=" + layer + "/upper,workdir=" + layer + "/work"
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return fmt.Errorf("a writable layer over the root file system: %w", err)
	}
	for from, to := range map[string]string{"/bin": imagePrograms, "/lib": imageLibs} {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", from, to, err)
		}
	}
	for _, dir := range OwnDirectories { // and all below them
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(dir, root+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := errors.Join(unix.Chdir(root), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	defaultEnv = withAuditor([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + imagePrograms, "LD_LIBRARY_PATH=" + imageLibs,
		"TRITON_LIBCUDA_PATH=" + imageLibs,          // it looks in the loader's cache otherwise
		"NCCL_CUMEM_ENABLE=0", "NCCL_P2P_LEVEL=SYS", // as rt.WithNCCL has them
		"HOME=/root", "USER=root", "TERM=linux", "LANG=C.UTF-8",
	}, filepath.Join(imageLibs, filepath.Base(auditor)))
	return nil
}
