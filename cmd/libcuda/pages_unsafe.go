//go:build cgo

package main

// #include "pages.h"
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/progmem"
)

// pages implements cuda.HostPages.
type pages struct{}

// wrong makes an error of an errno, which may be 0.
func wrong(what string, no C.int) error {
	if no == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", what, syscall.Errno(no))
}

// Available implements cuda.HostPages.
func (pages) Available() error {
	return wrong("userfaultfd, which has to hold off writes (Linux 5.19, and a seccomp filter that permits it)", C.pvdrm_can_swap())
}

// Mappings implements cuda.HostPages.
func (pages) Mappings() ([]cuda.HostMapping, error) {
	list, err := progmem.Mappings()
	if err != nil {
		return nil, err
	}
	all := make([]cuda.HostMapping, len(list))
	for i, m := range list {
		all[i] = cuda.HostMapping{HostRange: cuda.HostRange{Start: m.Start, End: m.End}, Offset: m.Offset, Name: m.Name,
			Readable: m.Perms[0] == 'r', Writable: m.Perms[1] == 'w', Shared: m.Perms[3] == 's'}
		if m.Inode != 0 {
			all[i].File = cuda.HostFile{Major: uint64(m.Major), Minor: uint64(m.Minor), Inode: m.Inode}
		}
		switch {
		case m.Inode != 0:
			all[i].Odd = "memory of the file " + m.Name
		case m.Perms[:3] != "rw-":
			all[i].Odd = "memory with the rights " + m.Perms[:3]
		case m.Name == "[stack]":
			all[i].Odd = "the stack"
		}
	}
	return all, nil
}

// Open implements cuda.HostPages.
func (pages) Open(m cuda.HostMapping) (int, error) {
	return progmem.Mapping{Start: m.Start, End: m.End, Major: uint32(m.File.Major), Minor: uint32(m.File.Minor), Inode: m.File.Inode, Name: m.Name}.Open()
}

// Place implements cuda.HostPages.
func (pages) Place(addr uint64, fd int, off uint64, mem []byte) error {
	// C fills the bytes of mem, granted memory that Go does not move, before it returns.
	to := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	return wrong("replacing pages", swap(addr, uint64(len(mem)), fd, off, to))
}

// Restore implements cuda.HostPages.
func (pages) Restore(addr, n uint64) error {
	fresh, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("%d bytes in the place of shared pages: %w", n, err)
	}
	if no := swap(addr, n, -1, 0, uint64(uintptr(fresh))); no != 0 {
		_ = unix.MunmapPtr(fresh, uintptr(n)) // it did not move
		return wrong("replacing pages", no)
	}
	return nil
}

// swap calls C on a thread of Go's: the stack of the thread that called CUDA may lie in pages that
// writers wait for meanwhile, and so would it.
func swap(addr, n uint64, fd int, off, to uint64) (no C.int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = progmem.Swap(func() error {
			no = C.pvdrm_swap(C.uint64_t(addr), C.uint64_t(n), C.int(fd), C.uint64_t(off), C.uint64_t(to))
			return nil
		})
	}()
	<-done
	return no
}

// Children implements cuda.HostPages.
func (pages) Children(files []cuda.HostFile, own []cuda.HostRange) error {
	list := make([]C.struct_pvdrm_range, 0, len(files)+len(own)+1) // one more, so that there is an address
	for _, f := range files {
		list = append(list, C.struct_pvdrm_range{a: C.uint64_t(f.Major<<32 | f.Minor), b: C.uint64_t(f.Inode)})
	}
	for _, o := range own {
		list = append(list, C.struct_pvdrm_range{a: C.uint64_t(o.Start), b: C.uint64_t(o.End)})
	}
	// C copies both lists, which are parts of one live slice.
	all := unsafe.SliceData(list)
	return wrong("copies for children", C.pvdrm_children(all, C.size_t(len(files)),
		(*C.struct_pvdrm_range)(unsafe.Add(unsafe.Pointer(all), uintptr(len(files))*unsafe.Sizeof(C.struct_pvdrm_range{}))), C.size_t(len(own))))
}
