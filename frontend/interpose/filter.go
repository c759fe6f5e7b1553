package interpose

import (
	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// Offsets in struct seccomp_data, and of arguments in it.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
	argBytes = 8
	highWord = 4 // of an argument, little endian
)

// ioctlType are the bits of a request that hold its type; those of DRM's are 'd'.
const (
	ioctlType    = 0xff00
	ioctlTypeDRM = 'd' << 8
)

// A program opens a DRM node for reading and writing and does not make it. The
// filter sees flags but no paths: these bits keep it from most other opens.
const (
	openFlags = unix.O_ACCMODE | unix.O_CREAT | unix.O_DIRECTORY | unix.O_TRUNC | unix.O_APPEND
	openNode  = unix.O_RDWR
)

// filter is the program that says which system calls are trapped: ioctl of type
// 'd', mmap at an offset of ours and, where opens says so, open and openat with
// the flags of a DRM node. Everything else is allowed; Linux remembers that by
// number, so that other calls do not even run it.
func filter(opens bool) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	arg := func(n uint32) uint32 { return dataArgs + n*argBytes }
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, K: k, Jt: yes, Jf: no}
	}
	and := func(k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k}
	}
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	allow, trap := ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_USER_NOTIF)
	// Each part is left by allow or trap, or passed by when the number is another.
	f := []unix.SockFilter{
		load(dataArch), jump(unix.BPF_JEQ, unix.AUDIT_ARCH_X86_64, 1, 0), allow,
		load(dataNr),
		jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 5),
		load(arg(1)), and(ioctlType), jump(unix.BPF_JEQ, ioctlTypeDRM, 0, 1), trap, allow,
		jump(unix.BPF_JEQ, unix.SYS_MMAP, 0, 4),
		load(arg(5) + highWord), jump(unix.BPF_JGE, drm.MapBase>>32, 0, 1), trap, allow,
	}
	if opens {
		for _, c := range []struct{ nr, flags uint32 }{{unix.SYS_OPENAT, 2}, {unix.SYS_OPEN, 1}} {
			f = append(f, jump(unix.BPF_JEQ, c.nr, 0, 5),
				load(arg(c.flags)), and(openFlags), jump(unix.BPF_JEQ, openNode, 0, 1), trap, allow)
		}
	}
	return append(f, allow)
}
