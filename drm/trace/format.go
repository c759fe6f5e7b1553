package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"syscall"
	"time"
)

// Version of the format that is written. A reader also takes those before it,
// which have fewer operations.
const Version = 2

// magic begins every trace; the version follows as one byte.
const magic = "PVDRMTRC"

// Bounds of one event.
const (
	maxBytes = 64 << 20 // of one byte string
	maxErrno = 4095     // as in Linux
)

// ErrFormat is what errors of a Reader wrap for a file that is no trace, a
// damaged one or one of another version.
var ErrFormat = errors.New("not a trace that can be read")

// Writer writes a trace. Its methods may be called from several goroutines.
type Writer struct {
	mu    sync.Mutex
	out   *bufio.Writer
	buf   []byte
	start time.Time
	last  time.Duration
	err   error  // the first; nothing is written after it
	ended []bool // the DRM files, by number: whether CLOSE is written
	mem   memory
	// blobs numbers the byte strings that were written whole, so that the same
	// page or source is stored once.
	blobs map[string]uint64
	kept  int // bytes in blobs
}

// Byte strings up to this length are not worth a reference; of longer ones as
// many are remembered as keptBytes allows.
const (
	shortBytes = 32
	keptBytes  = 64 << 20
)

// NewWriter begins a trace. The caller closes what lies below after Flush.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: bufio.NewWriterSize(out, 1<<16), start: time.Now(), blobs: map[string]uint64{}, mem: newMemory()}
	_, w.err = w.out.WriteString(magic + string(rune(Version)))
	return w
}

// now is the time of the trace.
func (w *Writer) now() time.Duration { return time.Since(w.start) }

// newFile numbers a DRM file.
func (w *Writer) newFile() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, false)
	return uint32(len(w.ended) - 1)
}

// Write appends an event. An error stays and is returned by Flush, too.
func (w *Writer) Write(e *Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(e)
}

// record appends an event of a file from newFile, unless CLOSE came before. The
// first error stays, for Flush.
func (w *Writer) record(e *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended[e.File] {
		w.ended[e.File] = e.Op == OpClose
		_ = w.write(e)
	}
}

// write is Write. Caller holds mu.
func (w *Writer) write(e *Event) error {
	if w.err != nil {
		return w.err
	}
	info, ok := e.Op.Info()
	if !ok || len(e.In) != len(info.In) || len(e.Out) != len(info.Out) || len(e.InBytes) != len(info.InBytes) || len(e.OutBytes) != len(info.OutBytes) {
		return fmt.Errorf("%v with %d, %d numbers and %d, %d byte strings: %w", e.Op, len(e.In), len(e.Out), len(e.InBytes), len(e.OutBytes), syscall.EINVAL)
	}
	b := append(w.buf[:0], byte(e.Op))
	b = binary.AppendUvarint(b, uint64(e.File))
	b = binary.AppendUvarint(b, uint64(e.Thread))
	b = binary.AppendVarint(b, int64(e.Start-w.last)) // events are in order of their ends
	b = binary.AppendUvarint(b, uint64(e.Took))
	b = binary.AppendUvarint(b, uint64(e.Errno))
	for _, list := range [][]uint64{e.In, e.Out} {
		for _, v := range list {
			b = binary.AppendUvarint(b, v)
		}
	}
	for _, list := range [][][]byte{e.InBytes, e.OutBytes} {
		for _, s := range list {
			b = w.appendBytes(b, s)
		}
	}
	w.last, w.buf = e.Start, b
	_, w.err = w.out.Write(b)
	return w.err
}

// appendBytes appends a byte string: twice its length and the bytes, or twice the
// number of an earlier one, plus one. Caller holds mu.
func (w *Writer) appendBytes(b, s []byte) []byte {
	if len(s) > shortBytes {
		if n, ok := w.blobs[string(s)]; ok {
			return binary.AppendUvarint(b, n<<1|1)
		}
		if w.kept+len(s) <= keptBytes {
			w.blobs[string(s)] = uint64(len(w.blobs))
			w.kept += len(s)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s))<<1)
	return append(b, s...)
}

// Flush writes out what is buffered.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// Reader reads a trace.
type Reader struct {
	in    *bufio.Reader
	ops   Op // the last that its version has
	last  time.Duration
	count int
	blobs [][]byte
	kept  int
}

// NewReader reads the head of a trace. Errors wrap ErrFormat or what reading failed with.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 1<<16)}
	head := make([]byte, len(magic)+1)
	if _, err := io.ReadFull(r.in, head); err != nil {
		return nil, fmt.Errorf("%w: its head is missing: %w", ErrFormat, err)
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrFormat, magic)
	}
	v := head[len(magic)]
	if r.ops = lastOps[v]; r.ops == 0 {
		return nil, fmt.Errorf("%w: its version is %d, this program reads versions up to %d", ErrFormat, v, Version)
	}
	return r, nil
}

// Read returns the next event, or io.EOF at the end. Byte strings of different
// events may share memory and must not be changed.
func (r *Reader) Read() (*Event, error) {
	op, err := r.in.ReadByte()
	if err != nil {
		return nil, err // io.EOF between two events is the end
	}
	e := &Event{Op: Op(op)}
	info, ok := e.Op.Info()
	if !ok || e.Op > r.ops {
		return nil, r.bad("unknown operation %d", op)
	}
	if err := r.event(e, info); err != nil {
		return nil, err
	}
	r.count++
	return e, nil
}

func (r *Reader) bad(format string, args ...any) error {
	return fmt.Errorf("%w: event %d: %s", ErrFormat, r.count, fmt.Sprintf(format, args...))
}

func (r *Reader) event(e *Event, info Info) error {
	var head [2]uint64
	for i := range head {
		v, err := r.number()
		if err != nil {
			return err
		}
		if v > math.MaxUint32 {
			return r.bad("file or thread %d", v)
		}
		head[i] = v
	}
	e.File, e.Thread = uint32(head[0]), uint32(head[1])
	since, err := binary.ReadVarint(r.in)
	if err != nil {
		return r.cut(err)
	}
	r.last += time.Duration(since)
	e.Start = r.last
	took, err := r.number()
	if err != nil {
		return err
	}
	e.Took = time.Duration(took)
	errno, err := r.number()
	if err != nil {
		return err
	}
	if errno > maxErrno {
		return r.bad("errno %d", errno)
	}
	e.Errno = syscall.Errno(errno)
	if e.In, err = r.numbers(len(info.In)); err == nil {
		e.Out, err = r.numbers(len(info.Out))
	}
	if err == nil {
		e.InBytes, err = r.strings(len(info.InBytes))
	}
	if err == nil {
		e.OutBytes, err = r.strings(len(info.OutBytes))
	}
	return err
}

// cut is the error of a file that ends inside of an event.
func (r *Reader) cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.bad("the file ends in the middle of it")
	}
	return r.bad("%v", err)
}

func (r *Reader) number() (uint64, error) {
	v, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, r.cut(err)
	}
	return v, nil
}

func (r *Reader) numbers(n int) ([]uint64, error) {
	var list []uint64
	for range n {
		v, err := r.number()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (r *Reader) strings(n int) ([][]byte, error) {
	var list [][]byte
	for range n {
		s, err := r.bytes()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// bytes is the opposite of Writer.appendBytes.
func (r *Reader) bytes() ([]byte, error) {
	v, err := r.number()
	if err != nil {
		return nil, err
	}
	n := v >> 1
	if v&1 != 0 {
		if n >= uint64(len(r.blobs)) {
			return nil, r.bad("reference to byte string %d of %d", n, len(r.blobs))
		}
		return r.blobs[n], nil
	}
	if n > maxBytes {
		return nil, r.bad("a byte string of %d bytes, at most %d are allowed", n, maxBytes)
	}
	// It grows with what is there, whatever the length says.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r.in, int64(n)); err != nil {
		return nil, r.cut(err)
	}
	s := b.Bytes()
	if len(s) > shortBytes && r.kept+len(s) <= keptBytes {
		r.blobs = append(r.blobs, s)
		r.kept += len(s)
	}
	return s, nil
}
