package capi

import (
	"bytes"
	"encoding/binary"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// CUmemPoolPtrExportData, which programs hand on as they like:
//
//	offset  size  field
//	0       8     what it is
//	8       16    id of the pool
//	24      16    key of the memory
//	40      8     where the allocation begins in that memory, bytes
//	48      8     its size, bytes
//	56      8     0
const (
	poolPointerBytes = 64
	poolPointerOwn   = 56 // bytes that are not 0
	poolPointer      = "PVDRMptr"
)

func encodePoolPointer(pool drm.Key, name cuda.SharedMemory) []byte {
	b := append(append(append(make([]byte, 0, poolPointerBytes), poolPointer...), pool[:]...), name.Key[:]...)
	b = binary.LittleEndian.AppendUint64(b, name.At)
	b = binary.LittleEndian.AppendUint64(b, name.Len)
	return b[:poolPointerBytes]
}

// decodePoolPointer takes apart what encodePoolPointer may have made. What it names may not be there.
func decodePoolPointer(b []byte) (pool drm.Key, name cuda.SharedMemory, ok bool) {
	if len(b) != poolPointerBytes || string(b[:8]) != poolPointer || !bytes.Equal(b[poolPointerOwn:], make([]byte, poolPointerBytes-poolPointerOwn)) {
		return pool, name, false
	}
	copy(pool[:], b[8:])
	copy(name.Key[:], b[24:])
	name.At, name.Len = le64(b[40:]), le64(b[48:])
	return pool, name, true
}

// memPoolExport gets (descriptor, pool, kind of handle, flags).
func memPoolExport(c *call) error {
	to, p, err := c.outAndPool()
	if err != nil {
		return err
	}
	if err := c.fileHandle(2, 3); err != nil {
		return err
	}
	return c.exports(to, shareablePool, p.Share)
}

// memPoolImport gets (pool, descriptor, kind of handle, flags).
func memPoolImport(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if err := c.fileHandle(2, 3); err != nil {
		return err
	}
	id, err := readShareable(shareablePool, int(c.i32(1)))
	if err != nil {
		return c.fail(cuda.ErrUnknown, "descriptor %d: %w", c.i32(1), err)
	}
	dev, _, err := c.anywhere()
	if err != nil {
		return err
	}
	p, err := dev.ImportPool(id)
	if err != nil {
		return err
	}
	return to.set(c.lib.poolHandle(p))
}

// memPoolExportPointer gets (data, address).
func memPoolExportPointer(c *call) error {
	to, err := c.out(0, poolPointerBytes)
	if err != nil {
		return err
	}
	x, err := c.ofMemory(c.u64(1))
	if err != nil {
		return err
	}
	pool, name, err := x.SharePoolMemory(c.devicePtr(1))
	if err != nil {
		return err
	}
	return to.write(encodePoolPointer(pool, name))
}

// memPoolImportPointer gets (address, pool, data).
func memPoolImportPointer(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	p, err := c.pool(1)
	if err != nil {
		return err
	}
	b, err := c.read(c.u64(2), poolPointerBytes)
	if err != nil {
		return err
	}
	pool, name, ok := decodePoolPointer(b)
	if !ok {
		return c.fail(cuda.ErrInvalidValue, "the data is none of cuMemPoolExportPointer")
	}
	at, err := x.OpenPoolMemory(p, pool, name)
	if err != nil {
		return err
	}
	return to.set(uint64(at))
}
