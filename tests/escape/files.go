package escape

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// scratchFile is a file that does not exist.
const scratchFile = "/tmp/pvdrm-escape"

// openFiles opens what no guest should read, and makes new files.
func openFiles(a *attacker) {
	for _, path := range a.host.Files {
		at, how := a.text(path), a.put(make([]byte, 24)) // a struct open_how of zeros: read only
		a.refused("open() of "+path, unix.SYS_OPEN, at, unix.O_RDONLY, 0)
		a.refused("openat() of "+path, unix.SYS_OPENAT, here, at, unix.O_RDONLY, 0)
		a.refused("openat2() of "+path, unix.SYS_OPENAT2, here, at, how, 24)
		a.refused("name_to_handle_at() of "+path, unix.SYS_NAME_TO_HANDLE_AT, here, at, how, how, 0)
		a.refused("readlink() of "+path, unix.SYS_READLINK, at, how, 8)
	}
	at := a.text(scratchFile)
	a.refused("creat()", unix.SYS_CREAT, at, 0o600)
	a.refused("memfd_secret()", unix.SYS_MEMFD_SECRET, 0)
	a.refused("open_by_handle_at()", unix.SYS_OPEN_BY_HANDLE_AT, 0, at, 0)
	a.refused("getdents64()", unix.SYS_GETDENTS64, 0, at, 0)
	a.refused("chdir()", unix.SYS_CHDIR, at)
}

// openFilesToWrite opens files to change them. A keeper opens the libraries of its
// workers, so only what it may write counts.
func openFilesToWrite(a *attacker) {
	for _, path := range append([]string{scratchFile, "/escape"}, a.host.Files...) {
		for _, flags := range []uintptr{unix.O_RDWR | unix.O_CREAT, unix.O_RDWR} {
			fd, errno := a.call(unix.SYS_OPENAT, here, a.text(path), flags, 0o600)
			if errno == 0 {
				a.escaped("%s opened to write", path)
				a.call(unix.SYS_CLOSE, fd)
			}
		}
	}
}

// changeFilesByName changes the file system without opening a file.
func changeFilesByName(a *attacker) {
	at := a.text(scratchFile)
	a.refused("mknod()", unix.SYS_MKNOD, at, unix.S_IFREG|0o600, 0)
	a.refused("mkdir()", unix.SYS_MKDIR, at, 0o700)
	a.refused("truncate()", unix.SYS_TRUNCATE, at, 1<<30)
	a.refused("link()", unix.SYS_LINK, at, at)
	a.refused("symlink()", unix.SYS_SYMLINK, at, at)
	a.refused("rename()", unix.SYS_RENAME, at, at)
	a.refused("unlink()", unix.SYS_UNLINK, at)
	a.refused("chmod()", unix.SYS_CHMOD, at, 0o777)
	a.refused("chown()", unix.SYS_CHOWN, at, 0, 0)
	a.refused("setxattr()", unix.SYS_SETXATTR, at, at, at, 1, 0)
}

// growDescriptors makes each file longer, or shorter, that the process has open.
func growDescriptors(a *attacker) {
	for fd := range uintptr(mostDescriptors) {
		a.refused(fmt.Sprint("fallocate() of descriptor ", fd), unix.SYS_FALLOCATE, fd, 0, 0, 1<<28)
		a.refused(fmt.Sprint("ftruncate() of descriptor ", fd), unix.SYS_FTRUNCATE, fd, 1<<28)
		a.refused(fmt.Sprint("pwrite() to descriptor ", fd), unix.SYS_PWRITE64, fd, none, 0, 1<<28)
	}
}

// fillDescriptors duplicates a descriptor until there is no room.
func fillDescriptors(a *attacker) {
	var made []uintptr
	for uint64(len(made)) <= a.host.Descriptors {
		fd, errno := a.call(unix.SYS_DUP, 2)
		if errno != 0 {
			break
		}
		made = append(made, fd)
	}
	if uint64(len(made)) > a.host.Descriptors {
		a.escaped("%d descriptors, and still no end", len(made))
	}
	for _, fd := range made {
		a.call(unix.SYS_CLOSE, fd)
	}
}
