package escape

import (
	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
)

// mapping is a way to get memory.
type mapping struct {
	what  string
	flags uintptr
	how   way
}

// way is how memory is made at addresses.
type way int

const (
	atOnce  way = iota
	protect     // the addresses are reserved first, and mprotect makes memory there
	replace     // the same, by mmap in their place
)

const private = unix.MAP_PRIVATE | unix.MAP_ANON

// mappings are the ways to get memory that is the process's own. The kernel counts
// them against different limits: what grows down is a stack to it, and no data.
var mappings = []mapping{
	{what: "private memory", flags: private},
	{what: "private memory without reserve", flags: private | unix.MAP_NORESERVE},
	{what: "memory that was reserved first", flags: private | unix.MAP_NORESERVE, how: protect},
	{what: "memory in place of other", flags: private | unix.MAP_NORESERVE, how: replace},
	{what: "a stack", flags: private | unix.MAP_GROWSDOWN | unix.MAP_NORESERVE},
	{what: "a stack that was reserved first", flags: private | unix.MAP_GROWSDOWN | unix.MAP_NORESERVE, how: protect},
}

// fillMemory maps memory until there is no more: at once, in parts, and by one way
// after the other, since the limit must hold for all together.
func fillMemory(a *attacker) {
	const huge, part = 64 << 30, 64 << 20
	type area struct{ at, size uintptr }
	var made []area
	var total uint64
	for _, m := range mappings {
		if m.how == replace && a.role != sandbox.Backend {
			continue // drivers need it; see docs/security.md
		}
		for _, size := range []uintptr{huge, part} {
			for total <= a.host.Memory {
				at, errno := a.mapping(m, size)
				if at != 0 {
					made = append(made, area{at: at, size: size})
				}
				if errno != 0 {
					break
				}
				total += uint64(size)
				if total > a.host.Memory {
					a.escaped("%d MiB of memory; the last part of it is %s", total>>20, m.what)
				}
			}
		}
	}
	for _, m := range made {
		a.call(unix.SYS_MUNMAP, m.at, m.size)
	}
}

// mapping makes memory in one way. It returns the address of what is to be unmapped, or 0.
func (a *attacker) mapping(m mapping, size uintptr) (at uintptr, errno unix.Errno) {
	const readWrite = unix.PROT_READ | unix.PROT_WRITE
	if m.how == atOnce {
		return a.call(unix.SYS_MMAP, 0, size, readWrite, m.flags, none, 0)
	}
	if at, errno = a.call(unix.SYS_MMAP, 0, size, unix.PROT_NONE, m.flags, none, 0); errno != 0 {
		return 0, errno
	}
	if m.how == protect {
		_, errno = a.call(unix.SYS_MPROTECT, at, size, readWrite)
	} else {
		_, errno = a.call(unix.SYS_MMAP, at, size, readWrite, m.flags|unix.MAP_FIXED, none, 0)
	}
	return at, errno
}

// shareMemory makes memory that two mappings can have, so that one can be written
// while the other is executed, and that no limit of the process counts.
func shareMemory(a *attacker) {
	at, errno := a.call(unix.SYS_MMAP, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON, none, 0)
	if errno != unix.EPERM {
		a.escaped("shared anonymous memory at 0x%x: %v", at, errno)
	}
	a.refused("memfd_create()", unix.SYS_MEMFD_CREATE, a.text("escape"), 0)
	a.refused("shmget()", unix.SYS_SHMGET, 0, 1<<20, unix.IPC_CREAT|0o600)
	a.refused("remap_file_pages()", unix.SYS_REMAP_FILE_PAGES, none, 0, 0, 0, 0)
	a.refused("pkey_mprotect()", unix.SYS_PKEY_MPROTECT, none, 0, unix.PROT_EXEC, 0)
}
