package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Root is what of the host's files a process is to see. Of what a Root names, that
// is left out which the host has not.
type Root struct {
	// Visible are files and directories with all below them, paths or patterns
	// of package filepath. Of a symbolic link it sees what that leads to, too.
	Visible []string
	// ThreadNames says that it can write to /proc, as NVIDIA's driver does to name its
	// threads, and ends where it cannot. What there is of the whole host stays read-only.
	ThreadNames bool
}

// system is what programs with libraries need: the loader, libraries, their settings
// and data. The last two directories are where NixOS and Guix have them.
var system = []string{
	"/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/opt", "/nix/store", "/gnu/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
}

// GPUFiles is what Mesa's and NVIDIA's drivers look at beside their libraries and
// devices.
var GPUFiles = []string{"/sys", "/etc/drirc", "/etc/glvnd", "/etc/vulkan", "/etc/nvidia", "/etc/OpenCL"}

// Enter gives this process a root of its own, of the system's libraries, its own
// program, what r names and a /proc with the processes of its namespace only. All is
// read-only but for devices. It needs a mount and a process id
// namespace of its own, as Start makes them, and must come before Shed.
//
// Where the host refuses that, as many containers refuse another /proc, the process
// sees the host's files, all read-only, and the error says why.
func (r Root) Enter() error {
	if _, err := begin(); err != nil { // files have no owner until ids are mapped
		return err
	}
	// Nothing that is mounted here is to be seen elsewhere.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", os.NewSyscallError("mount", err))
	}
	err := r.change()
	if err != nil {
		err = fmt.Errorf("a root of its own: %w", err)
	}
	var open []string
	if r.ThreadNames {
		if err != nil {
			err = errors.Join(err, split("/proc")) // the host's
		}
		open = append(open, "/proc")
	}
	return errors.Join(err, lock(open))
}

// lock makes all file systems read-only, but for those that are mounted at open.
func lock(open []string) error {
	locked := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(-1, "/", unix.AT_RECURSIVE, &locked); err != nil {
		return fmt.Errorf("making all read-only: %w", os.NewSyscallError("mount_setattr", err))
	}
	for _, path := range open {
		if err := unix.MountSetattr(-1, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("making %s writable: %w", path, os.NewSyscallError("mount_setattr", err))
		}
	}
	return nil
}

// piece is a part of the host's tree that is to be part of the new one.
type piece struct {
	path string
	dir  bool
	link string // where it points to, if it is a symbolic link
	tree int    // a copy of its mounts, attached nowhere; -1 of a link
}

// scratch is where the new root is put together: every host has it, and it is not
// needed any more when all pieces have been taken.
const scratch = "/tmp"

// change makes the new root and enters it. If that fails all is as before.
func (r Root) change() (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	paths := slices.Concat(system, []string{self})
	for _, pattern := range r.Visible {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("%s: %w", pattern, err)
		}
		for _, path := range found {
			paths = append(paths, path)
			if target, err := filepath.EvalSymlinks(path); err == nil {
				paths = append(paths, target)
			}
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		if filepath.IsAbs(dir) {
			paths = append(paths, dir)
		}
	}
	pieces, err := take(paths)
	defer func() {
		for _, p := range pieces {
			if p.tree >= 0 {
				err = errors.Join(err, unix.Close(p.tree))
			}
		}
	}()
	if err != nil {
		return err
	}
	if err := unix.Mount("pvdrm", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := assemble(pieces); err != nil {
		return errors.Join(err, os.NewSyscallError("umount", unix.Unmount(scratch, unix.MNT_DETACH)))
	}
	// Both are the same, so the old root comes to lie on top, and is taken off.
	if err := errors.Join(unix.Chdir(scratch), os.NewSyscallError("pivot_root", unix.PivotRoot(".", "."))); err != nil {
		return errors.Join(err, os.NewSyscallError("umount", unix.Unmount(scratch, unix.MNT_DETACH)), unix.Chdir("/"))
	}
	return errors.Join(os.NewSyscallError("umount", unix.Unmount(".", unix.MNT_DETACH)), os.Chdir("/"))
}

// take copies the mounts of what there is of paths, in an order in which what is
// below another comes later.
func take(paths []string) (all []piece, err error) {
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return all, err
		}
		p := piece{path: path, dir: info.IsDir(), tree: -1}
		if info.Mode()&fs.ModeSymlink != 0 {
			if p.link, err = os.Readlink(path); err != nil {
				return all, err
			}
		} else if p.tree, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE); err != nil {
			return all, fmt.Errorf("%s: %w", path, os.NewSyscallError("open_tree", err))
		}
		all = append(all, p)
	}
	return all, nil
}

// assemble puts the pieces together in scratch, with a new /proc.
func assemble(pieces []piece) error {
	for _, p := range pieces {
		at := filepath.Join(scratch, p.path)
		// What is below another piece is there already, and cannot be made.
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		_, err := os.Lstat(at)
		there := err == nil
		switch {
		case p.link != "" && !there:
			err = os.Symlink(p.link, at)
		case p.link != "":
			err = nil
		case p.dir && !there:
			err = os.Mkdir(at, 0o755)
		case !there:
			err = os.WriteFile(at, nil, 0o444)
		}
		if err == nil && p.tree >= 0 {
			err = os.NewSyscallError("move_mount", unix.MoveMount(p.tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}
	proc := filepath.Join(scratch, "proc")
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc: %w", os.NewSyscallError("mount", err))
	}
	return split(proc)
}

// split makes mounts of their own of what there is in a /proc of the whole host, which
// stay read-only whatever /proc is.
func split(proc string) error {
	for _, name := range ofTheHost {
		path := filepath.Join(proc, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("%s: %w", path, os.NewSyscallError("mount", err))
		}
	}
	return nil
}

// ofTheHost is what can be written in /proc that is not about processes.
var ofTheHost = []string{"acpi", "bus", "driver", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger", "sysvipc"}
