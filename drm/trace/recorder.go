package trace

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// recorder is a drm.File that writes down what is done with another one.
type recorder struct {
	inner drm.File
	w     *Writer
	file  uint32

	mu      sync.Mutex // guards what follows; the inner file is called without it
	objects map[uint32]*object
	space   space
	flights []flight
}

// Record returns a DRM file that passes calls on to inner and writes them to w.
// Failures of writing show in Writer.Flush.
func Record(inner drm.File, w *Writer) drm.File {
	r := &recorder{inner: inner, w: w, file: w.newFile(), objects: map[uint32]*object{}}
	r.event(OpOpen, w.now(), nil, Event{})
	return r
}

// event writes an event whose call began at start and ended with err.
func (r *recorder) event(op Op, start time.Duration, err error, e Event) {
	info, _ := op.Info()
	e.Op, e.File, e.Thread, e.Start, e.Took, e.Errno = op, r.file, uint32(unix.Gettid()), start, r.w.now()-start, errnoOf(err)
	// A call that failed may have fewer results.
	for len(e.Out) < len(info.Out) {
		e.Out = append(e.Out, 0)
	}
	for len(e.OutBytes) < len(info.OutBytes) {
		e.OutBytes = append(e.OutBytes, nil)
	}
	_ = r.w.Write(&e) // the first failure stays, for Flush
}

// errnoOf is the errno that an error wraps: EIO if it has none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return errno
	}
	return syscall.EIO
}

func numbers(v ...uint64) []uint64 { return v }

func (r *recorder) Version() (drm.Info, error) {
	start := r.w.now()
	v, err := r.inner.Version()
	r.event(OpVersion, start, err, Event{Out: numbers(uint64(v.Major), uint64(v.Minor), uint64(v.Patch)), OutBytes: [][]byte{[]byte(v.Name), []byte(v.Desc)}})
	return v, err
}

func (r *recorder) GetParam(p drm.Param) (uint64, error) {
	start := r.w.now()
	v, err := r.inner.GetParam(p)
	r.event(OpGetParam, start, err, Event{In: numbers(uint64(p)), Out: numbers(v)})
	return v, err
}

func (r *recorder) GemNew(size uint64, d drm.Domain, flags drm.GemFlags) (uint32, error) {
	start := r.w.now()
	h, err := r.inner.GemNew(size, d, flags)
	r.event(OpGemNew, start, err, Event{In: numbers(size, uint64(d), uint64(flags)), Out: numbers(uint64(h))})
	return h, err
}

func (r *recorder) GemMap(h uint32) ([]byte, error) {
	start := r.w.now()
	mem, err := r.inner.GemMap(h)
	if err == nil {
		r.mu.Lock()
		if r.objects[h] == nil {
			r.objects[h] = newObject(h, mem)
		}
		r.mu.Unlock()
	}
	r.event(OpMmap, start, err, Event{In: numbers(uint64(h)), Out: numbers(uint64(len(mem)))})
	return mem, err
}

func (r *recorder) GemSize(h uint32) (uint64, error) {
	start := r.w.now()
	n, err := r.inner.GemSize(h)
	r.event(OpGemInfo, start, err, Event{In: numbers(uint64(h)), Out: numbers(n)})
	return n, err
}

func (r *recorder) GemClose(h uint32) error {
	start := r.w.now()
	r.mu.Lock() // its memory goes with it
	delete(r.objects, h)
	r.space.drop(h)
	r.mu.Unlock()
	err := r.inner.GemClose(h)
	r.event(OpGemClose, start, err, Event{In: numbers(uint64(h))})
	return err
}

func (r *recorder) VMBind(ops []drm.BindOp, async bool) error {
	start := r.w.now()
	err := r.inner.VMBind(ops, async)
	if err == nil {
		r.mu.Lock()
		r.space.bind(ops)
		r.mu.Unlock()
	}
	flag := uint64(0)
	if async {
		flag = drm.VMBindAsync
	}
	list, bad := binary.Append(nil, binary.LittleEndian, ops)
	r.event(OpVMBind, start, errors.Join(err, bad), Event{In: numbers(flag), InBytes: [][]byte{list}})
	return err
}

func (r *recorder) ChannelAlloc() (uint32, error) {
	start := r.w.now()
	c, err := r.inner.ChannelAlloc()
	r.event(OpChannelAlloc, start, err, Event{Out: numbers(uint64(c))})
	return c, err
}

func (r *recorder) ChannelFree(c uint32) error {
	start := r.w.now()
	err := r.inner.ChannelFree(c)
	r.mu.Lock()
	r.land(drm.Point{Channel: c, Seqno: ^uint64(0)})
	r.mu.Unlock()
	r.event(OpChannelFree, start, err, Event{In: numbers(uint64(c))})
	return err
}

// waitBytes is the size of a point in the waits of an EXEC: u32 channel, u64 seqno.
const waitBytes = 12

func (r *recorder) Exec(channel uint32, stream []byte, waits []drm.Point) (uint64, error) {
	stream = slices.Clone(stream) // it is the caller's again once it was executed
	r.mu.Lock()
	r.look(OpWritten, nil)
	spans := r.space.written(stream)
	// Before the GPU can be at work: its writes must not be taken for the program's.
	r.flights = append(r.flights, flight{drm.Point{Channel: channel, Seqno: ^uint64(0)}, spans})
	at := len(r.flights) - 1
	mine := &r.flights[at]
	start := r.w.now()
	seqno, err := r.inner.Exec(channel, stream, waits)
	if err == nil {
		mine.point.Seqno = seqno
	} else {
		r.flights = slices.Delete(r.flights, at, at+1)
	}
	var points []byte
	for _, p := range waits {
		points = binary.LittleEndian.AppendUint32(points, p.Channel)
		points = binary.LittleEndian.AppendUint64(points, p.Seqno)
	}
	r.event(OpExec, start, err, Event{In: numbers(uint64(channel)), InBytes: [][]byte{stream, points}, Out: numbers(seqno)})
	r.mu.Unlock()
	return seqno, err
}

func (r *recorder) Wait(p drm.Point, timeout time.Duration) error {
	start := r.w.now()
	err := r.inner.Wait(p, timeout)
	r.event(OpWait, start, err, Event{In: numbers(uint64(p.Channel), p.Seqno, uint64(timeout))})
	if err == nil {
		r.mu.Lock()
		r.look(OpSeen, r.land(p))
		r.mu.Unlock()
	}
	_ = r.w.Flush() // now and then, for programs that are killed; a failure stays
	return err
}

// land takes what has ended out of the flights and returns what it may have
// written. Caller holds mu.
func (r *recorder) land(p drm.Point) (spans []span) {
	r.flights = slices.DeleteFunc(r.flights, func(f flight) bool {
		done := f.point.Channel == p.Channel && f.point.Seqno <= p.Seqno
		if done {
			spans = append(spans, f.spans...)
		}
		return done
	})
	return spans
}

// touches reports whether a page lies in one of the spans.
func touches(spans []span, handle uint32, page int) bool {
	from := uint64(page) * PageBytes
	return slices.ContainsFunc(spans, func(s span) bool { return s.handle == handle && s.from < from+PageBytes && s.to > from })
}

// look writes down the pages that changed. With OpWritten they are the program's;
// with OpSeen those in spans are the GPU's, which has just ended that work, and
// the program's are left for the next look. What the GPU may be writing now is
// left alone. Caller holds mu.
func (r *recorder) look(op Op, spans []span) {
	var flying []span
	for _, f := range r.flights {
		flying = append(flying, f.spans...)
	}
	for _, h := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[h]
		if op == OpSeen && !slices.ContainsFunc(spans, func(s span) bool { return s.handle == h }) {
			continue
		}
		for i := range o.pages {
			if touches(flying, h, i) || op == OpSeen && !touches(spans, h, i) {
				continue
			}
			sum := pageHash(o.page(i))
			if sum == o.pages[i] && op == OpWritten {
				continue
			}
			same := sum == o.pages[i]
			o.pages[i] = sum
			e := Event{In: numbers(uint64(h), uint64(i)*PageBytes)}
			if op == OpWritten {
				e.InBytes = [][]byte{o.page(i)}
			} else if same {
				continue
			} else {
				e.OutBytes = [][]byte{binary.LittleEndian.AppendUint64(nil, sum)}
			}
			r.event(op, r.w.now(), nil, e)
		}
	}
}

func (r *recorder) ModuleLoad(name string, source []byte) (uint32, error) {
	start := r.w.now()
	m, err := r.inner.ModuleLoad(name, source)
	var refused *drm.ModuleError
	var log []byte
	if errors.As(err, &refused) {
		log = []byte(refused.Log)
	}
	r.event(OpModuleLoad, start, err, Event{InBytes: [][]byte{[]byte(name), source}, Out: numbers(uint64(m)), OutBytes: [][]byte{log}})
	return m, err
}

func (r *recorder) ModuleUnload(m uint32) error {
	start := r.w.now()
	err := r.inner.ModuleUnload(m)
	r.event(OpModuleUnload, start, err, Event{In: numbers(uint64(m))})
	return err
}

func (r *recorder) ModuleFunction(m uint32, name string) (uint32, drm.FunctionAttributes, error) {
	start := r.w.now()
	f, a, err := r.inner.ModuleFunction(m, name)
	params, bad := binary.Append(nil, binary.LittleEndian, a.Params)
	r.event(OpModuleFunction, start, errors.Join(err, bad), Event{In: numbers(uint64(m)), InBytes: [][]byte{[]byte(name)},
		Out: numbers(uint64(f), uint64(a.ParamBytes), uint64(a.SharedBytes), uint64(a.LocalBytes), uint64(a.ConstBytes), uint64(a.Regs), uint64(a.MaxThreads)), OutBytes: [][]byte{params}})
	return f, a, err
}

func (r *recorder) ModuleGlobal(m uint32, name string) (addr, size uint64, err error) {
	start := r.w.now()
	addr, size, err = r.inner.ModuleGlobal(m, name)
	r.event(OpModuleGlobal, start, err, Event{In: numbers(uint64(m)), InBytes: [][]byte{[]byte(name)}, Out: numbers(addr, size)})
	return addr, size, err
}

func (r *recorder) LostStatus() (uint32, string, error) {
	start := r.w.now()
	cause, text, err := r.inner.LostStatus()
	r.event(OpStatus, start, err, Event{Out: numbers(uint64(cause)), OutBytes: [][]byte{[]byte(text)}})
	return cause, text, err
}

// ReadOutput is not recorded: what kernels print changes nothing.
func (r *recorder) ReadOutput() ([]byte, error) {
	if p, ok := r.inner.(drm.OutputReader); ok {
		return p.ReadOutput()
	}
	return nil, nil
}

// GemMapAt is not recorded: the memory is that of GemMap.
func (r *recorder) GemMapAt(h uint32, addr, size uint64) ([]byte, error) {
	p, ok := r.inner.(drm.Placer)
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	return p.GemMapAt(h, addr, size)
}

func (r *recorder) GemUnmapAt(mem []byte) error {
	p, ok := r.inner.(drm.Placer)
	if !ok {
		return syscall.EOPNOTSUPP
	}
	return p.GemUnmapAt(mem)
}

func (r *recorder) Close() error {
	start := r.w.now()
	r.mu.Lock()
	r.objects, r.flights, r.space = map[uint32]*object{}, nil, space{}
	r.mu.Unlock()
	err := r.inner.Close()
	r.event(OpClose, start, err, Event{})
	return errors.Join(err, r.w.Flush())
}
