package progmem

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Errors of Mapping.Open.
var (
	errNoTmpfs = errors.New("it is no file in memory (tmpfs, such as /dev/shm)")
	errNoFile  = errors.New("its file has no name any more, and the program has no descriptor of it")
)

// Open opens the file of a mapping, if that is one of tmpfs, for reading and writing: by its name, or by a
// descriptor that the process has of it. (By the mapping itself Linux opens it for the privileged only.)
func (m Mapping) Open() (fd int, err error) {
	if m.Inode == 0 {
		return -1, errNoFile
	}
	if fd, err = m.openPath(m.Name); err == nil {
		return fd, nil
	}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return -1, err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close() // it was only read
	if err != nil {
		return -1, err
	}
	for _, name := range names {
		if fd, err = m.openDescriptor(name); err == nil || errors.Is(err, errNoTmpfs) {
			return fd, err
		}
	}
	return -1, errNoFile
}

// openPath opens a path if it leads to the file. Nothing else is opened: that might have effects.
func (m Mapping) openPath(path string) (int, error) {
	var st unix.Stat_t
	if path == "" || path[0] != '/' {
		return -1, errNoFile
	}
	if err := unix.Stat(path, &st); err != nil {
		return -1, err
	}
	if !m.is(&st) {
		return -1, errNoFile
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	return m.checked(fd)
}

// openDescriptor opens what a descriptor of the process is of, if that is the file.
func (m Mapping) openDescriptor(name string) (int, error) {
	n, err := strconv.Atoi(name)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(n, &st); err != nil {
		return -1, err
	}
	if !m.is(&st) {
		return -1, errNoFile
	}
	if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return m.openPath("/proc/self/fd/" + name)
	}
	fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return m.checked(fd)
}

// is reports whether a regular file is that of the mapping.
func (m Mapping) is(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Ino == m.Inode && unix.Major(st.Dev) == m.Major && unix.Minor(st.Dev) == m.Minor
}

// checked closes what is not the file, or not in tmpfs.
func (m Mapping) checked(fd int) (int, error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs))
	switch {
	case err != nil:
	case !m.is(&st):
		err = errNoFile
	case fs.Type != unix.TMPFS_MAGIC:
		err = errNoTmpfs
	default:
		return fd, nil
	}
	_ = unix.Close(fd) // nothing was written
	return -1, err
}
