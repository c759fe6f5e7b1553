package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

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
	// patience is how long a wait may take that ended in the trace.
	patience = 5 * time.Minute
)

// Replay makes the calls of a trace on files from open, in the order in which
// they ended, and compares results and memory. The error is one of the trace
// (ErrFormat) or of open; what the calls return is compared. Files that the
// trace leaves open are closed.
func Replay(r *Reader, open func() (drm.File, error)) (report Report, err error) {
	p := &replayer{open: open, files: map[uint32]*replayed{}, report: &report}
	defer func() {
		for _, f := range p.files {
			err = errors.Join(err, f.inner.Close())
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
	open   func() (drm.File, error)
	files  map[uint32]*replayed
	report *Report
}

// window is where the addresses of one kind begin in the trace and now.
type window struct{ was, size, now uint64 }

// global is where a variable of a module was and is.
type global struct{ was, size, now uint64 }

// replayed is one file of the trace.
type replayed struct {
	inner   drm.File
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
		p.files[e.File] = &replayed{inner: inner, symbols: map[Kind]map[uint64]uint64{}, seqnos: map[drm.Point]uint64{},
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
	if e.Op == OpWait && e.Errno == syscall.ETIME {
		return nil // how often a program had to ask says nothing about the device
	}
	if len(f.space.maps) > maxMappings {
		return fmt.Errorf("%w: more than %d mappings", ErrFormat, maxMappings)
	}
	start := time.Now()
	out, outBytes, err := f.call(e)
	p.report.Took += time.Since(start)
	p.report.Calls++
	if e.Op == OpClose {
		delete(p.files, e.File)
	}
	p.compare(f, e, out, outBytes, err)
	return nil
}

func (p *replayer) differs(e *Event, format string, args ...any) {
	if len(p.report.Differences) < MostDifferences {
		p.report.Differences = append(p.report.Differences, Difference{p.report.Events, e, fmt.Sprintf(format, args...)})
	}
}

// compare compares results, and remembers the numbers that stand for symbols.
func (p *replayer) compare(f *replayed, e *Event, out []uint64, outBytes [][]byte, err error) {
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

// define says what a symbol of the trace is now.
func (f *replayed) define(k Kind, was, now uint64) {
	if f.symbols[k] == nil {
		f.symbols[k] = map[uint64]uint64{}
	}
	f.symbols[k][was] = now
}

// symbol is the replay's number for one of the trace. What the trace does not
// define, a program made up: it stays what it is.
func (f *replayed) symbol(k Kind, was uint64) uint64 {
	if now, ok := f.symbols[k][was]; ok {
		return now
	}
	return was
}

func (f *replayed) id(k Kind, was uint64) uint32 { return uint32(f.symbol(k, was)) }

func (f *replayed) point(channel, seqno uint64) drm.Point {
	now, ok := f.seqnos[drm.Point{Channel: uint32(channel), Seqno: seqno}]
	if !ok {
		now = seqno
	}
	return drm.Point{Channel: f.id(KindChannel, channel), Seqno: now}
}

// param remembers the windows of addresses.
func (f *replayed) param(p drm.Param, was, now uint64) {
	base := p
	if p == drm.ParamVRAMSize {
		base = drm.ParamVRAMBase
	}
	if p == drm.ParamSystemSize {
		base = drm.ParamSystemBase
	}
	if base != drm.ParamVRAMBase && base != drm.ParamSystemBase {
		return
	}
	w := f.windows[base]
	if w == nil {
		w = &window{size: ^uint64(0)}
		f.windows[base] = w
	}
	if p == base {
		w.was, w.now = was, now
	} else {
		w.size = was
	}
}

// address translates a GPU address.
func (f *replayed) address(a uint64) uint64 {
	for _, g := range f.globals {
		if a-g.was < g.size {
			return a - g.was + g.now
		}
	}
	for _, m := range f.space.maps {
		if a-m.addr < m.size {
			return f.inWindow(a)
		}
	}
	return a
}

// inWindow translates an address by the window that it lies in.
func (f *replayed) inWindow(a uint64) uint64 {
	for _, w := range f.windows {
		if w.was != 0 && a-w.was < w.size {
			return a - w.was + w.now
		}
	}
	return a
}

// call makes the call of an event.
func (f *replayed) call(e *Event) (out []uint64, outBytes [][]byte, err error) {
	in := func(i int) uint64 { return e.In[i] }
	text := func(i int) string { return string(e.InBytes[i]) }
	switch e.Op {
	case OpClose:
		err = f.inner.Close()
	case OpVersion:
		var v drm.Info
		v, err = f.inner.Version()
		out = numbers(uint64(v.Major), uint64(v.Minor), uint64(v.Patch))
	case OpGetParam:
		out = numbers(0)
		out[0], err = f.inner.GetParam(drm.Param(in(0)))
	case OpGemNew:
		var h uint32
		h, err = f.inner.GemNew(in(0), drm.Domain(in(1)), drm.GemFlags(in(2)))
		out = numbers(uint64(h))
	case OpMmap:
		var mem []byte
		if mem, err = f.inner.GemMap(f.id(KindHandle, in(0))); err == nil {
			f.objects[uint32(in(0))] = mem
		}
		out = numbers(uint64(len(mem)))
	case OpGemInfo:
		out = numbers(0)
		out[0], err = f.inner.GemSize(f.id(KindHandle, in(0)))
	case OpGemClose:
		delete(f.objects, uint32(in(0)))
		f.space.drop(uint32(in(0)))
		err = f.inner.GemClose(f.id(KindHandle, in(0)))
	case OpVMBind:
		err = f.vmBind(e)
	case OpChannelAlloc:
		var c uint32
		c, err = f.inner.ChannelAlloc()
		out = numbers(uint64(c))
	case OpChannelFree:
		err = f.inner.ChannelFree(f.id(KindChannel, in(0)))
	case OpExec:
		out = numbers(0)
		out[0], err = f.exec(e)
	case OpWait:
		timeout := time.Duration(in(2))
		if e.Errno == 0 {
			timeout = patience
		}
		err = f.inner.Wait(f.point(in(0), in(1)), timeout)
	case OpModuleLoad:
		var m uint32
		m, err = f.inner.ModuleLoad(text(0), e.InBytes[1])
		out = numbers(uint64(m))
	case OpModuleUnload:
		err = f.inner.ModuleUnload(f.id(KindModule, in(0)))
	case OpModuleFunction:
		var fn uint32
		var a drm.FunctionAttributes
		fn, a, err = f.inner.ModuleFunction(f.id(KindModule, in(0)), text(0))
		out = numbers(uint64(fn), uint64(a.ParamBytes), uint64(a.SharedBytes), uint64(a.LocalBytes), uint64(a.ConstBytes), uint64(a.Regs), uint64(a.MaxThreads))
		params, _ := binary.Append(nil, binary.LittleEndian, a.Params) // of fixed size
		outBytes = [][]byte{params}
	case OpModuleGlobal:
		out = numbers(0, 0)
		out[0], out[1], err = f.inner.ModuleGlobal(f.id(KindModule, in(0)), text(0))
	case OpStatus:
		var cause uint32
		cause, _, err = f.inner.LostStatus()
		out = numbers(uint64(cause))
	}
	return out, outBytes, err
}

func (f *replayed) vmBind(e *Event) error {
	ops, err := bindOps(e.InBytes[0])
	if err != nil {
		return err
	}
	now := append([]drm.BindOp(nil), ops...)
	for i := range now {
		now[i].Handle = f.id(KindHandle, uint64(now[i].Handle))
		now[i].Addr = f.inWindow(now[i].Addr)
	}
	err = f.inner.VMBind(now, e.In[0]&drm.VMBindAsync != 0)
	if err == nil {
		f.space.bind(ops)
	}
	return err
}

// bindOps decodes the operations of a VM_BIND.
func bindOps(b []byte) ([]drm.BindOp, error) {
	ops := make([]drm.BindOp, len(b)/drm.BindOpSize)
	if _, err := binary.Decode(b, binary.LittleEndian, ops); err != nil || len(b)%drm.BindOpSize != 0 {
		return nil, fmt.Errorf("%d bytes of operations: %w", len(b), syscall.EINVAL)
	}
	return ops, nil
}

// points decodes the waits of an EXEC.
func points(b []byte) (list []drm.Point) {
	for ; len(b) >= waitBytes; b = b[waitBytes:] {
		list = append(list, drm.Point{Channel: binary.LittleEndian.Uint32(b), Seqno: binary.LittleEndian.Uint64(b[4:])})
	}
	return list
}

func (f *replayed) exec(e *Event) (uint64, error) {
	waits := points(e.InBytes[1])
	for i, w := range waits {
		waits[i] = f.point(uint64(w.Channel), w.Seqno)
	}
	t := translation{f: f}
	if _, err := drm.WalkCommands(e.InBytes[0], &t); err != nil {
		t.stream = e.InBytes[0] // what was malformed stays so
	}
	return f.inner.Exec(f.id(KindChannel, e.In[0]), t.stream, waits)
}

// translation is a drm.CommandSink that writes a stream for the replay.
type translation struct {
	f      *replayed
	stream []byte
}

func (t *translation) Copy(c drm.CopyCmd) error {
	c.Dst, c.Src = t.f.address(c.Dst), t.f.address(c.Src)
	t.stream = c.Append(t.stream)
	return nil
}

func (t *translation) Fill(c drm.FillCmd) error {
	c.Dst = t.f.address(c.Dst)
	t.stream = c.Append(t.stream)
	return nil
}

func (t *translation) Task() error {
	t.stream = drm.TaskCmd{}.Append(t.stream)
	return nil
}

func (t *translation) Timestamp(c drm.TimestampCmd) error {
	c.Addr = t.f.address(c.Addr)
	t.stream = c.Append(t.stream)
	return nil
}

// Launch translates arguments that are addresses: 8 bytes, aligned, and within
// what is mapped.
func (t *translation) Launch(c drm.LaunchCmd) error {
	c.Function = t.f.id(KindFunction, uint64(c.Function))
	c.Params = bytes.Clone(c.Params)
	for at := 0; at+8 <= len(c.Params); at += 8 {
		word := c.Params[at:]
		binary.LittleEndian.PutUint64(word, t.f.address(binary.LittleEndian.Uint64(word)))
	}
	t.stream = c.Append(t.stream)
	return nil
}
