package virgl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// op is what a request asks of a worker. The words that it takes are in the order
// given here; numbers of 64 bits are two words, the low one first.
type op uint16

const (
	opMemory          op = iota + 1 // region, size (2): map that much of the file that comes along
	opForget                        // region
	opContextCreate                 // context; payload: its name
	opContextDestroy                // context
	opResourceCreate                // resource and the 10 words of virtgpu.Args
	opResourceDestroy               // resource
	opBackingAttach                 // resource; payload: spans
	opBackingDetach                 // resource
	opAttach                        // context, resource
	opDetach                        // context, resource
	opToHost                        // context, resource, level, stride, layer stride, box (6), offset (2)
	opFromHost                      // the same
	opRead                          // resource, x, y, width, height, stride, region, offset (2)
	opSubmit                        // context; payload: the commands
	opFence                         // none: answered when all before it has been rendered
	opEnd                           // their number
)

func (o op) String() string {
	if o < opEnd && operations[o].name != "" {
		return operations[o].name
	}
	return fmt.Sprintf("do operation %d", uint16(o))
}

// maxWords is the number of words of a request.
const maxWords = 14

// request is the fixed part of a request as the worker sees it:
//
//	0   2   operation
//	2   2   zero
//	4   4   bytes of payload that follow
//	8   8   number, which the reply repeats
//	16  56  words
//	72      payload, padded to a multiple of 8 bytes
//
// All numbers are little-endian.
type request struct {
	op      op
	payload uint32 // bytes
	number  uint64
	words   [maxWords]uint32
}

const requestBytes = 16 + 4*maxWords

// padded is how far the next request is: payloads are padded to 8 bytes, so that
// the library finds its commands aligned.
func padded(n int) int { return (n + 7) &^ 7 }

// maxPayload bounds the payload of a request. The longest lists the spans of a
// resource of virtgpu.MaxResourceEntries scattered pages.
const maxPayload = 8 << 20

// append appends the encoding of q to b.
func (q *request) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(q.op))
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, q.payload)
	b = le.AppendUint64(b, q.number)
	for _, w := range q.words {
		b = le.AppendUint32(b, w)
	}
	return b
}

var errFrame = errors.New("the two ends of the renderer do not speak the same protocol")

// decodeRequest decodes the first requestBytes bytes of b.
func decodeRequest(b []byte) (q request, err error) {
	le := binary.LittleEndian
	q = request{op: op(le.Uint16(b)), payload: le.Uint32(b[4:]), number: le.Uint64(b[8:])}
	for i := range q.words {
		q.words[i] = le.Uint32(b[16+4*i:])
	}
	if q.op == 0 || q.op >= opEnd || q.payload > maxPayload {
		return q, fmt.Errorf("%w: operation %d with %d bytes", errFrame, q.op, q.payload)
	}
	return q, nil
}

// reply is the fixed part of a reply:
//
//	0   8   number of the request; 0 for the greeting
//	8   4   errno, 0 when all went well
//	12  4   bytes of payload that follow: the greeting lists the capability sets,
//	        a failed greeting says why
type reply struct {
	number  uint64
	errno   unix.Errno
	payload uint32
}

const replyBytes = 16

func (r *reply) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, r.number)
	b = le.AppendUint32(b, uint32(r.errno))
	return le.AppendUint32(b, r.payload)
}

func decodeReply(b []byte) (r reply, err error) {
	le := binary.LittleEndian
	r = reply{number: le.Uint64(b), errno: unix.Errno(le.Uint32(b[8:])), payload: le.Uint32(b[12:])}
	if r.payload > maxPayload {
		return r, fmt.Errorf("%w: a reply of %d bytes", errFrame, r.payload)
	}
	return r, nil
}

// span is a piece of a region of memory that was mapped by opMemory, as 24 bytes:
// region u32, zero u32, offset u64, length u64.
type span struct {
	region      uint32
	off, length uint64
}

const spanBytes = 24

func (s *span) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(s.region))
	b = le.AppendUint64(b, s.off)
	return le.AppendUint64(b, s.length)
}

func decodeSpan(b []byte) span {
	le := binary.LittleEndian
	return span{le.Uint32(b), le.Uint64(b[8:]), le.Uint64(b[16:])}
}

// Capability sets in the greeting: id u32, version u32, bytes u32, the bytes.
func appendCapset(b []byte, c capset) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, c.ID)
	b = le.AppendUint32(b, c.Version)
	b = le.AppendUint32(b, uint32(len(c.Data)))
	return append(b, c.Data...)
}

func decodeCapsets(b []byte) ([]capset, error) {
	le := binary.LittleEndian
	var list []capset
	for len(b) > 0 {
		if len(b) < 12 || uint64(le.Uint32(b[8:])) > uint64(len(b)-12) {
			return nil, fmt.Errorf("%w: a greeting of %d odd bytes", errFrame, len(b))
		}
		n := le.Uint32(b[8:])
		list = append(list, capset{ID: le.Uint32(b), Version: le.Uint32(b[4:]), Data: b[12:][:n:n]})
		b = b[12+n:]
	}
	return list, nil
}

// low and high are the halves of a number of 64 bits, join puts them together.
func low(v uint64) uint32       { return uint32(v) }
func high(v uint64) uint32      { return uint32(v >> 32) }
func join(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }
