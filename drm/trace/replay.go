package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// Difference is something that a replay did otherwise than the trace says.
type Difference struct {
	Index int // of the event, from 0
	Event *Event
	What  string
}

func (d Difference) String() string {
	return fmt.Sprintf("event %d, %s: %s", d.Index, d.Event.text(raw{}), d.What)
}

// Report is how a replay went.
type Report struct {
	Events      int
	Calls       int           // of them ioctls
	Pages       int           // of memory that were compared
	Took        time.Duration // in the calls that were made
	Differences []Difference  // the first ones, at most MostDifferences
}

// Bounds of a replay.
const (
	MostDifferences = 20
	maxFiles        = 1024
	maxMappings     = 1 << 16
	maxBuffers      = 256
	// patience is how long a wait may take that ended in the trace.
	patience = 5 * time.Minute
)

// Replay makes the calls of a trace on files from open, in the order in which
// they ended, and compares results and memory. The error is one of the trace
// (ErrFormat) or of open; what the calls return is compared. Files that the
// trace leaves open are closed.
func Replay(r *Reader, open func() (drm.File, error)) (report Report, err error) {
	p := &replayer{open: open, files: map[uint32]*replayed{}, buffers: map[uint64]int{}, report: &report}
	defer func() {
		for _, f := range p.files {
			err = errors.Join(err, f.inner.Close())
		}
		for _, fd := range p.buffers {
			_ = unix.Close(fd) // it has nothing to flush
		}
	}()
	for {
		e, err := r.Read()
		if errors.Is(err, io.EOF) {
			return report, nil
		}
		if err != nil {
			return report, err
		}
		if err := p.event(e); err != nil {
			return report, err
		}
		report.Events++
	}
}

// replayer makes calls.
type replayer struct {
	open    func() (drm.File, error)
	files   map[uint32]*replayed
	buffers map[uint64]int // descriptors of what PRIME shares
	report  *Report
}

// window is where the addresses of one kind begin in the trace and now.
type window struct{ was, size, now uint64 }

// global is where a variable of a module was and is.
type global struct{ was, size, now uint64 }

// replayed is one file of the trace.
type replayed struct {
	inner   drm.File
	driver  drm.Driver // inner, if it is one
	buffers map[uint64]int
	symbols map[Kind]map[uint64]uint64 // numbers of the trace to those of the replay
	seqnos  map[drm.Point]uint64
	objects map[uint32][]byte // mapped memory, by the trace's handle
	space   space             // in the trace's addresses
	windows map[drm.Param]*window
	globals []global
}

func (p *replayer) event(e *Event) error {
	f := p.files[e.File]
	if e.Op == OpOpen {
		if f != nil || len(p.files) >= maxFiles {
			return fmt.Errorf("%w: event %d opens file %d again, or too many are open", ErrFormat, p.report.Events, e.File)
		}
		inner, err := p.open()
		if err != nil {
			return err
		}
		driver, _ := inner.(drm.Driver)
		p.files[e.File] = &replayed{inner: inner, driver: driver, buffers: p.buffers, symbols: map[Kind]map[uint64]uint64{}, seqnos: map[drm.Point]uint64{},
			objects: map[uint32][]byte{}, windows: map[drm.Param]*window{}}
		return nil
	}
	if f == nil {
		return fmt.Errorf("%w: event %d is of file %d, which is not open", ErrFormat, p.report.Events, e.File)
	}
	switch e.Op {
	case OpWritten:
		p.written(f, e)
		return nil
	case OpSeen:
		p.seen(f, e)
		return nil
	}
	if e.Op == OpIoctl || e.skips() {
		return nil
	}
	if len(f.space.maps) > maxMappings {
		return fmt.Errorf("%w: more than %d mappings", ErrFormat, maxMappings)
	}
	start := time.Now()
	got := f.call(e)
	p.report.Took += time.Since(start)
	p.report.Calls++
	if e.Op == OpClose {
		delete(p.files, e.File)
	}
	p.compare(f, e, got)
	return nil
}

func (p *replayer) differs(e *Event, format string, args ...any) {
	if len(p.report.Differences) < MostDifferences {
		p.report.Differences = append(p.report.Differences, Difference{p.report.Events, e, fmt.Sprintf(format, args...)})
	}
}

// compare compares results, and remembers the numbers that stand for symbols.
func (p *replayer) compare(f *replayed, e *Event, now result) {
	out, outBytes, err := now.out, now.outBytes, now.err
	if got := errnoOf(err); got != e.Errno {
		p.differs(e, "%s, where the trace has %s", errnoText(got, err), errnoText(e.Errno, nil))
		return
	}
	if err != nil {
		return
	}
	info, _ := e.Op.Info()
	for i, field := range info.Out {
		switch {
		case i >= len(out):
		case field.Kind == KindSeqno:
			f.seqnos[drm.Point{Channel: uint32(e.In[0]), Seqno: e.Out[i]}] = out[i]
		case field.Kind == KindBuffer: // f.call keeps it
		case field.Kind < KindAddress:
			f.define(field.Kind, e.Out[i], out[i])
		case field.Kind == KindAddress || field.Varies:
		case out[i] != e.Out[i]:
			p.differs(e, "%s is %d, where the trace has %d", field.Name, out[i], e.Out[i])
		}
	}
	switch e.Op {
	case OpModuleGlobal:
		f.globals = append(f.globals, global{e.Out[0], e.Out[1], out[0]})
	case OpModuleFunction:
		if !bytes.Equal(outBytes[0], e.OutBytes[0]) {
			p.differs(e, "the parameters are % x, where the trace has % x", outBytes[0], e.OutBytes[0])
		}
	case OpGetParam:
		f.param(drm.Param(e.In[0]), e.Out[0], out[0])
	}
}

func errnoText(errno syscall.Errno, err error) string {
	switch {
	case errno == 0:
		return "success"
	case err != nil:
		return fmt.Sprintf("%s (%v)", errnoName(errno), err)
	}
	return errnoName(errno)
}

// written does what the program did to its memory.
func (p *replayer) written(f *replayed, e *Event) {
	mem, off, content := f.objects[uint32(e.In[0])], e.In[1], e.InBytes[0]
	if off > uint64(len(mem)) || uint64(len(content)) > uint64(len(mem))-off {
		p.differs(e, "the object is not mapped, or shorter")
		return
	}
	copy(mem[off:], content)
}

// seen compares what the GPU left in memory.
func (p *replayer) seen(f *replayed, e *Event) {
	mem, off, sums := f.objects[uint32(e.In[0])], e.In[1], e.OutBytes[0]
	for ; len(sums) >= 8; sums, off = sums[8:], off+PageBytes {
		if off%PageBytes != 0 || off >= uint64(len(mem)) || uint64(len(mem))-off < PageBytes {
			p.differs(e, "the object is not mapped, or shorter")
			return
		}
		p.report.Pages++
		if pageHash(mem[off:off+PageBytes]) != binary.LittleEndian.Uint64(sums) {
			p.differs(e, "the page at offset 0x%x has another content", off)
		}
	}
}
