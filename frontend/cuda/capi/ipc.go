package capi

import (
	"bytes"
	"encoding/binary"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// Handles for other processes. A program hands the 64 bytes on by whatever way it likes; what they
// name only the backend knows, by 16 of them that are random.
//
//	offset  size  field
//	0       8     what it is
//	8       16    key
//	24      8     memory: where the allocation begins in its object, bytes
//	32      8     memory: its size, bytes
//	40      24    0
const (
	ipcBytes = 64
	ipcOwn   = 40 // bytes that are not 0

	ipcMemory = "PVDRMmem"
	ipcEvent  = "PVDRMevt"
)

// ipcWords is where the words of a handle that comes by value are among the arguments: behind the
// six words that come in registers.
const ipcWords = 6

// encodeIPC makes a handle.
func encodeIPC(kind string, key drm.Key, at, size uint64) []byte {
	b := append(append(make([]byte, 0, ipcBytes), kind...), key[:]...)
	b = binary.LittleEndian.AppendUint64(b, at)
	b = binary.LittleEndian.AppendUint64(b, size)
	return b[:ipcBytes]
}

// decodeIPC takes a handle apart that encodeIPC may have made. What it names may not be there.
func decodeIPC(kind string, b []byte) (name cuda.SharedMemory, ok bool) {
	if len(b) != ipcBytes || string(b[:8]) != kind || !bytes.Equal(b[ipcOwn:], make([]byte, ipcBytes-ipcOwn)) {
		return name, false
	}
	copy(name.Key[:], b[8:])
	name.At, name.Len = le64(b[24:]), le64(b[32:])
	return name, true
}

// ipcHandle is the handle that a call got by value.
func (c *call) ipcHandle() []byte {
	var b []byte
	for _, w := range c.args[ipcWords : ipcWords+ipcBytes/8] {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func ipcGetMemory(c *call) error {
	to, _, err := c.outInContext(0, ipcBytes)
	if err != nil {
		return err
	}
	x, err := c.ofMemory(c.u64(1))
	if err != nil {
		return err
	}
	name, err := x.ShareMemory(c.devicePtr(1))
	if err != nil {
		return err
	}
	return to.write(encodeIPC(ipcMemory, name.Key, name.At, name.Len))
}

// ipcLazyPeer is CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag and always set. NVIDIA's library
// does not look at the others.
const ipcLazyPeer = 1

func ipcOpenMemory(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if c.u32(1)&ipcLazyPeer == 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x without CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS", c.u32(1))
	}
	name, ok := decodeIPC(ipcMemory, c.ipcHandle())
	switch {
	case !ok:
		return c.fail(cuda.ErrInvalidValue, "it is no handle of memory")
	case x.Device().Driver().Owns(name.Key):
		return c.fail(invalidContext, "the memory is this process's own, which cannot open it")
	}
	p, err := x.OpenMemory(name)
	if err != nil {
		return err
	}
	return to.set(uint64(p))
}

func ipcCloseMemory(c *call) error {
	x, err := c.ofMemory(c.u64(0))
	if err != nil {
		return err
	}
	return c.settle(x, x.DefaultStream(), func() error { return x.CloseMemory(c.devicePtr(0)) })
}

func ipcGetEvent(c *call) error {
	to, err := c.out(0, ipcBytes)
	if err != nil {
		return err
	}
	if c.u64(1) == 0 {
		return c.fail(cuda.ErrInvalidValue, "the event is a null pointer")
	}
	e, err := c.event(1)
	if err != nil {
		return err
	}
	key, err := e.Key()
	if err != nil {
		return err
	}
	return to.write(encodeIPC(ipcEvent, key, 0, 0))
}

func ipcOpenEvent(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	name, ok := decodeIPC(ipcEvent, c.ipcHandle())
	switch {
	case !ok || name.At != 0 || name.Len != 0:
		return c.fail(cuda.ErrMapFailed, "it is no handle of an event")
	case x.Device().Driver().Owns(name.Key):
		return c.fail(invalidContext, "the event is this process's own, which cannot open it")
	}
	e, err := x.OpenEvent(name.Key)
	if err != nil {
		return err
	}
	return to.set(c.lib.handles.add(&event{e, x, false}))
}
