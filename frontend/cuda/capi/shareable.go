package capi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// Memory that programs pass on as file descriptors. A descriptor is a sealed memfd of this library
// with the key of the memory:
//
//	offset  size  field
//	0       8     what it is
//	8       16    key, or the id of a pool
//	24      40    0
const (
	handleNone = 0 // CU_MEM_HANDLE_TYPE_NONE
	handleFile = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

	handleFabric = 8 // CU_MEM_HANDLE_TYPE_FABRIC, for machines that share memory

	shareableBytes  = 64
	shareableOwn    = 24 // bytes that are not 0
	shareableMemory = "PVDRMphy"
	shareablePool   = "PVDRMpol"

	// shareableSeals keep a descriptor as it was made, so that what was checked stays so.
	shareableSeals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
)

// handleKinds checks the kinds of handles that memory is created for, as an H100's driver does. It
// reports whether there are any.
func (c *call) handleKinds(kinds uint32) (bool, error) {
	switch kinds {
	case handleNone:
		return false, nil
	case handleFile:
		return true, nil
	case handleFabric, handleFabric | handleFile:
		return false, c.fail(cuda.ErrNotPermitted, "handles for other machines, of kind %d", kinds)
	}
	return false, c.fail(cuda.ErrInvalidValue, "handles of kind %d", kinds)
}

// encodeShareable makes the content of a descriptor.
func encodeShareable(kind string, key drm.Key) []byte {
	return append(append(make([]byte, 0, shareableBytes), kind...), key[:]...)[:shareableBytes]
}

// shareableFile makes a descriptor that carries a key.
func shareableFile(kind string, key drm.Key) (fd int, err error) {
	b := encodeShareable(kind, key)
	if fd, err = unix.MemfdCreate("pvdrm-shareable", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	n, err := unix.Pwrite(fd, b, 0)
	if err == nil && n != len(b) {
		err = unix.EIO
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, shareableSeals)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("writing a key: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// errShareable is the error for descriptors that shareableFile did not make.
var errShareable = errors.New("the descriptor is none of cuMemExportToShareableHandle or cuMemPoolExportToShareableHandle")

// readShareable reads the key that a descriptor of a program carries. The descriptor may be of
// anything: only of a sealed memfd is anything read, which never waits and takes nothing away.
func readShareable(kind string, fd int) (key drm.Key, err error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals != shareableSeals {
		return key, errShareable
	}
	b := make([]byte, shareableBytes+1)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return key, fmt.Errorf("%w: %w", errShareable, err)
	}
	return decodeShareable(kind, b[:n])
}

// decodeShareable takes the content of a descriptor apart. What it names may not be there.
func decodeShareable(kind string, b []byte) (key drm.Key, err error) {
	if len(b) != shareableBytes || !bytes.HasPrefix(b, []byte(kind)) || !bytes.Equal(b[shareableOwn:], make([]byte, shareableBytes-shareableOwn)) {
		return key, errShareable
	}
	copy(key[:], b[len(kind):])
	return key, nil
}

// fileHandle checks the kind of a handle in one argument, and the flags in another.
func (c *call) fileHandle(kind, flags int) error {
	if c.u32(kind) != handleFile || c.u64(flags) != 0 {
		return c.fail(cuda.ErrInvalidValue, "a handle of kind %d with flags 0x%x; there are file descriptors, 1, without flags", c.u32(kind), c.u64(flags))
	}
	return nil
}

func memExport(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	p, err := c.physical(1)
	if err != nil {
		return err
	}
	if err := c.fileHandle(2, 3); err != nil {
		return err
	}
	return c.exports(to, shareableMemory, p.Share)
}

// exports writes a descriptor that carries the key that share returns.
func (c *call) exports(to out, kind string, share func() (drm.Key, error)) error {
	key, err := share()
	if err != nil {
		return err
	}
	fd, err := shareableFile(kind, key)
	if err != nil {
		return c.fail(cuda.ErrOperatingSystem, "%w", err)
	}
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(fd))
	if err := to.write(b[:]); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	return nil
}

func memImport(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if c.u32(2) != handleFile {
		return c.fail(cuda.ErrInvalidValue, "a handle of kind %d; there are file descriptors, 1", c.u32(2))
	}
	key, err := readShareable(shareableMemory, int(c.i32(1)))
	if err != nil {
		return c.fail(cuda.ErrUnknown, "descriptor %d: %w", c.i32(1), err)
	}
	return c.makesPhysical(to, nil, func(dev *cuda.Device, x *cuda.Context) (*cuda.Physical, error) {
		p, err := dev.MemImport(x, key)
		for _, other := range c.devices() { // of which the key may be, as well as of the current one
			if other != dev && errors.Is(err, cuda.ErrInvalidValue) {
				p, err = other.MemImport(nil, key)
			}
		}
		return p, err
	})
}
