package virtgpu

import (
	"encoding/binary"
	"fmt"
)

// Virtqueues (virtio 1.2, section 5.7.2).
const (
	controlQueue = 0
	cursorQueue  = 1
	queueCount   = 2
)

// Feature bits (section 5.7.3).
const (
	featureVirgl uint64 = 1 << 0
	featureEDID  uint64 = 1 << 1
)

// configSize is the size of struct virtio_gpu_config (section 5.7.4): events_read,
// events_clear, num_scanouts and num_capsets, 32 bits each. QEMU fills in the
// first three.
const configSize = 16

// Types of commands and answers (sections 5.7.6.7 and 5.7.6.8).
const (
	cmdGetDisplayInfo            = 0x0100
	cmdResourceCreate2D          = 0x0101
	cmdResourceUnref             = 0x0102
	cmdSetScanout                = 0x0103
	cmdResourceFlush             = 0x0104
	cmdTransferToHost2D          = 0x0105
	cmdAttachBacking             = 0x0106
	cmdDetachBacking             = 0x0107
	cmdGetCapsetInfo             = 0x0108
	cmdGetCapset                 = 0x0109
	cmdGetEDID                   = 0x010a
	cmdCtxCreate                 = 0x0200
	cmdCtxDestroy                = 0x0201
	cmdCtxAttachResource         = 0x0202
	cmdCtxDetachResource         = 0x0203
	cmdResourceCreate3D          = 0x0204
	cmdTransferToHost3D          = 0x0205
	cmdTransferFromHost3D        = 0x0206
	cmdSubmit3D                  = 0x0207
	cmdUpdateCursor              = 0x0300
	cmdMoveCursor                = 0x0301
	respOK                       = 0x1100
	respDisplayInfo              = 0x1101
	respCapsetInfo               = 0x1102
	respCapset                   = 0x1103
	respEDID                     = 0x1104
	respErrUnspec                = 0x1200
	respErrNoMemory              = 0x1201
	respErrScanout               = 0x1202
	respErrResource              = 0x1203
	respErrContext               = 0x1204
	respErrParameter             = 0x1205
	flagFence             uint32 = 1 << 0
)

// header is struct virtio_gpu_ctrl_hdr (section 5.7.6.7): type u32, flags u32,
// fence_id u64, ctx_id u32, ring_idx u8, padding u8[3].
type header struct {
	typ, flags uint32
	fence      uint64
	ctx        uint32
}

const headerSize = 24

func decodeHeader(b *[headerSize]byte) header {
	le := binary.LittleEndian
	return header{le.Uint32(b[0:]), le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint32(b[16:])}
}

// answer encodes the answer of type typ to a command with header h. A fenced
// command is answered with its fence.
func (h header) answer(typ uint32, payload []byte) []byte {
	le := binary.LittleEndian
	b := make([]byte, headerSize, headerSize+len(payload))
	le.PutUint32(b[0:], typ)
	if h.flags&flagFence != 0 {
		le.PutUint32(b[4:], flagFence)
		le.PutUint64(b[8:], h.fence)
		le.PutUint32(b[16:], h.ctx)
	}
	return append(b, payload...)
}

// rect is struct virtio_gpu_rect, in pixels.
type rect struct{ x, y, w, h uint32 }

const rectSize = 16

func decodeRect(b []byte) rect {
	le := binary.LittleEndian
	return rect{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
}

// inside reports whether r lies in an area of w by h pixels.
func (r rect) inside(w, h uint32) bool {
	return r.w <= w && r.x <= w-r.w && r.h <= h && r.y <= h-r.h
}

// intersect returns what r and o have in common; it is empty if w or h is 0.
// Precondition: neither wraps around.
func (r rect) intersect(o rect) rect {
	x, y := max(r.x, o.x), max(r.y, o.y)
	right, bottom := min(r.x+r.w, o.x+o.w), min(r.y+r.h, o.y+o.h)
	if right <= x || bottom <= y {
		return rect{}
	}
	return rect{x, y, right - x, bottom - y}
}

func (r rect) empty() bool { return r.w == 0 || r.h == 0 }

// commandError is an error that becomes the type of the answer.
type commandError struct {
	code uint32
	err  error
}

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

func refuse(code uint32, format string, args ...any) error {
	return &commandError{code, fmt.Errorf(format, args...)}
}
