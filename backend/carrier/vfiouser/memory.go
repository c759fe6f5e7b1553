package vfiouser

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

// Flags of requests about memory.
const (
	mapRead  = 1
	mapWrite = 2
	unmapAll = 2
)

// mapMemory maps a range of the machine's memory. What has no file cannot be reached, and what is not to
// be written is none that a device is given: both are accepted and left out.
func (s *session) mapMemory(m *message) error {
	p := m.payload
	if len(p) < 32 {
		return unix.EINVAL
	}
	flags, off := binary.LittleEndian.Uint32(p[4:]), binary.LittleEndian.Uint64(p[8:])
	addr, size := binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
	if size == 0 || (addr|size|off)%hostmem.PageSize != 0 || addr+size-1 < addr || off+size < off {
		return unix.EINVAL
	}
	fd := m.take()
	if fd < 0 || flags&(mapRead|mapWrite) != mapRead|mapWrite {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return nil
	}
	if len(s.maps) == MaxMaps || s.overlaps(addr, size) {
		_ = unix.Close(fd)
		return unix.EEXIST
	}
	r, err := hostmem.Map(fd, off, size) // it closes the descriptor if it fails
	if err != nil {
		return unix.EACCES
	}
	if err := s.device.Map(addr, r.Bytes()); err != nil {
		r.Release()
		return unix.ENOMEM
	}
	s.maps[addr] = r
	s.order = append(s.order, addr)
	return nil
}

// overlaps reports whether something is mapped in a range.
func (s *session) overlaps(addr, size uint64) bool {
	return slices.ContainsFunc(s.order, func(at uint64) bool {
		return addr < at+uint64(len(s.maps[at].Bytes())) && at < addr+size
	})
}

// unmap takes back what is mapped at an address.
func (s *session) unmap(addr uint64) {
	s.device.Unmap(addr)
	s.maps[addr].Release()
	delete(s.maps, addr)
	s.order = slices.DeleteFunc(s.order, func(at uint64) bool { return at == addr })
}

// unmapMemory takes back all that lies in a range.
func (s *session) unmapMemory(p []byte) ([]byte, error) {
	if len(p) < 24 {
		return nil, unix.EINVAL
	}
	flags, addr, size := binary.LittleEndian.Uint32(p[4:]), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[16:])
	if flags&^uint32(unmapAll) != 0 {
		return nil, unix.ENOTSUP
	}
	for _, at := range slices.Clone(s.order) {
		n := uint64(len(s.maps[at].Bytes()))
		if flags&unmapAll != 0 || at >= addr && at-addr <= size && n <= size-(at-addr) {
			s.unmap(at)
		}
	}
	return p[:24], nil
}
