package nvidia

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// vram is device memory in a worker: an allocation for each page, because the
// driver maps and unmaps whole allocations only, and our callers parts of them.
type vram struct {
	pages  []uint64 // handles
	zeroed []bool
}

// deviceAccess says that the worker's GPU may access memory, and how.
func (w *worker) deviceAccess(access int32) *accessDesc {
	return &accessDesc{locationKind: locationDevice, location: w.device, access: access}
}

// allocate makes a memory. Pages that are cleared already have contents, which stay.
func (w *worker) allocate(id, size uint64, cleared []bool) error {
	prop := &allocationProp{kind: allocationPinned, locationKind: locationDevice, location: w.device}
	m := &vram{}
	for range size / vramPage {
		var h uint64
		if err := w.drv.check("cuMemCreate", w.drv.memCreate(&h, vramPage, prop, 0)); err != nil {
			w.free(m)
			return err
		}
		m.pages = append(m.pages, h)
	}
	m.zeroed = make([]bool, len(m.pages))
	copy(m.zeroed, cleared)
	w.memories[id] = m
	return nil
}

// free gives handles back; memory that is mapped goes with its last mapping.
func (w *worker) free(m *vram) {
	for _, h := range m.pages {
		w.drv.memRelease(h) // of our own handle
	}
}

func (w *worker) release(id uint64) error {
	if m := w.memories[id]; m != nil {
		w.free(m)
		delete(w.memories, id)
	}
	return nil
}

// mapVRAM maps pages, and clears those that are mapped for the first time: the
// driver promises nothing about what is in them.
func (w *worker) mapVRAM(q *request) error {
	m := w.memories[q.ID]
	if m == nil {
		return fmt.Errorf("no memory %d", q.ID)
	}
	first, n := int(q.Off/vramPage), int(q.Size/vramPage)
	for i := range n {
		if err := w.drv.check("cuMemMap", w.drv.memMap(q.VA+uint64(i)*vramPage, vramPage, 0, m.pages[first+i], 0)); err != nil {
			return w.undo(q.VA, i, err)
		}
	}
	if err := w.mapped(q, m.zeroed[first:first+n]); err != nil {
		return w.undo(q.VA, n, err)
	}
	return nil
}

// mapped gives access to pages that are mapped.
func (w *worker) mapped(q *request, zeroed []bool) error {
	access := int32(accessRead)
	if q.Write {
		access = accessReadWrite
	}
	dirty := false
	for _, z := range zeroed {
		dirty = dirty || !z
	}
	if dirty {
		if err := w.access(q.VA, q.Size, accessReadWrite); err != nil {
			return err
		}
		if err := w.clear(q.VA, zeroed); err != nil {
			return err
		}
		if q.Write {
			return nil
		}
	}
	return w.access(q.VA, q.Size, access)
}

func (w *worker) access(va, size uint64, access int32) error {
	return w.drv.check("cuMemSetAccess", w.drv.memSetAccess(va, size, w.deviceAccess(access), 1))
}

// clear zeroes the pages that were not yet.
func (w *worker) clear(va uint64, zeroed []bool) error {
	for i := 0; i < len(zeroed); i++ {
		first := i
		for i < len(zeroed) && !zeroed[i] {
			i++
		}
		if n := uint64(i - first); n > 0 {
			at := va + uint64(first)*vramPage
			if err := w.drv.check("cuMemsetD32Async", w.drv.memsetD32Async(at, 0, n*vramPage/4, w.control)); err != nil {
				return err
			}
		}
	}
	if err := w.drv.check("cuStreamSynchronize", w.drv.streamSynchronize(w.control)); err != nil {
		return err
	}
	for i := range zeroed {
		zeroed[i] = true
	}
	return nil
}

// undo unmaps n pages after a failure.
func (w *worker) undo(va uint64, n int, err error) error {
	if n > 0 {
		w.drv.memUnmap(va, uint64(n)*vramPage) // the first error is the one to tell
	}
	return err
}

// reserve takes a range of addresses in which nothing may be accessed.
func reserve(va, size uint64) error {
	const mapFixedNoreplace = 0x100000 // MAP_FIXED_NOREPLACE of linux/mman.h
	err := mmapAt(va, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|mapFixedNoreplace, -1, 0)
	if errors.Is(err, unix.EEXIST) {
		return taken(err)
	}
	return err
}

// taken is the error of a window that something else lies in, by chance.
func taken(err error) error {
	return &driverError{Call: "windows", Code: resultTaken, Name: err.Error()}
}

// mmapAt maps at an address of our choice.
func mmapAt(va, size uint64, prot, flags, fd int, off uint64) error {
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(va), uintptr(size), uintptr(prot), uintptr(flags), uintptr(fd), uintptr(off))
	if errno != 0 {
		return fmt.Errorf("mapping %d bytes at %#x: %w", size, va, os.NewSyscallError("mmap", errno))
	}
	if uint64(at) != va {
		return fmt.Errorf("mapping %d bytes at %#x: they came at %#x", size, va, at)
	}
	return nil
}

// hide makes a part of the system window inaccessible again.
func hide(va, size uint64) error {
	return mmapAt(va, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED, -1, 0)
}

// mapSystem maps pieces of files side by side and registers them: the address of
// registered memory is the same for the GPU and for the process.
func (w *worker) mapSystem(q *request, fds []int) error {
	prot, flags := unix.PROT_READ|unix.PROT_WRITE, uint32(registerDeviceMap)
	if !q.Write && w.readOnly {
		prot, flags = unix.PROT_READ, registerDeviceMap|registerReadOnly
	}
	at := q.VA
	for _, r := range q.Runs {
		if r.File < 0 || r.File >= len(fds) {
			return fmt.Errorf("no descriptor %d", r.File)
		}
		if err := mmapAt(at, r.Len, prot, unix.MAP_SHARED|unix.MAP_FIXED, fds[r.File], r.Off); err != nil {
			_ = hide(q.VA, q.Size) // the first error is the one to tell
			return err
		}
		at += r.Len
	}
	if err := w.drv.check("cuMemHostRegister", w.drv.memHostRegister(uintptr(q.VA), q.Size, flags)); err != nil {
		_ = hide(q.VA, q.Size)
		return err
	}
	var device uint64
	err := w.drv.check("cuMemHostGetDevicePointer", w.drv.memHostGetDevicePointer(&device, uintptr(q.VA), 0))
	if err == nil && device != q.VA {
		err = &driverError{Call: "cuMemHostGetDevicePointer", Code: resultUnknown, Name: fmt.Sprintf("memory at %#x is at %#x for the GPU", q.VA, device)}
	}
	if err != nil {
		_ = w.unmapSystem(q.VA, q.Size)
	}
	return err
}

func (w *worker) unmapSystem(va, size uint64) error {
	if err := w.drv.check("cuMemHostUnregister", w.drv.memHostUnregister(uintptr(va))); err != nil {
		return err
	}
	return hide(va, size)
}
