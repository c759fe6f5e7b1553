package hypercall

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// ErrMessage means that a message's payload does not have the form of its operation.
var ErrMessage = fmt.Errorf("malformed message: %w", syscall.EINVAL)

// reader takes fields off a payload. The first that is not there makes bad
// true; everything after reads as zero, so that a decoder checks once, at the end.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	t := r.b[:n]
	r.b = r.b[n:]
	return t
}

func (r *reader) u32() uint32 {
	if t := r.take(4); t != nil {
		return binary.LittleEndian.Uint32(t)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if t := r.take(8); t != nil {
		return binary.LittleEndian.Uint64(t)
	}
	return 0
}

// text takes a string with its length in front.
func (r *reader) text(most uint32) string {
	n := r.u32()
	if n > most {
		r.bad = true
		return ""
	}
	return string(r.take(int(n)))
}

// count takes a number of elements of size bytes each, and checks that they are there.
func (r *reader) count(size int) int {
	n := r.u32()
	if r.bad || int64(n)*int64(size) > int64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

// end reports an error if a field was missing or something is left over.
func (r *reader) end() error {
	if r.bad || len(r.b) != 0 {
		return ErrMessage
	}
	return nil
}

func put32(b []byte, v ...uint32) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

func put64(b []byte, v ...uint64) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}

func putText(b []byte, s string) []byte { return append(put32(b, uint32(len(s))), s...) }
