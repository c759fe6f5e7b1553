package trace

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// Recorder is a drm.Driver that writes down what is done with another one.
type Recorder struct {
	*recording
	thread uint32 // whose calls they are; 0 for those of this process
	wrote  *bool  // set when an event is written; may be nil
}

var (
	_ drm.Driver = (*Recorder)(nil)
	_ drm.Placer = (*Recorder)(nil)
)

// recording is a file that is recorded.
type recording struct {
	inner  drm.File
	driver drm.Driver // inner, if it is one
	w      *Writer
	file   uint32

	// ids is held from before a call that frees a number until its event is
	// written, and while the event of one that makes a number is: it may be given
	// out again at once.
	ids sync.Mutex

	// The Writer's memory.mu guards what follows; the inner file waits without it.
	objects map[uint32]*object
	buffers map[uint32]uint64 // of objects that PRIME shares
	space   space
	flights []flight
	points  map[uint32]drm.Point // that sync objects stand for
}

// Record returns a DRM file that passes calls on to inner and writes them to w.
// Failures of writing show in Writer.Flush. What inner cannot do, not being a
// drm.Driver, is EOPNOTSUPP.
func Record(inner drm.File, w *Writer) *Recorder {
	driver, _ := inner.(drm.Driver)
	r := &Recorder{recording: &recording{inner: inner, driver: driver, w: w, file: w.newFile(),
		objects: map[uint32]*object{}, buffers: map[uint32]uint64{}, points: map[uint32]drm.Point{}}}
	w.mem.add(r.recording)
	r.event(OpOpen, w.now(), nil, Event{})
	return r
}

// As returns a Recorder for calls of a thread of another process.
func (r *Recorder) As(thread int) *Recorder {
	return &Recorder{recording: r.recording, thread: uint32(thread)}
}

// Argument is what an ioctl's argument was before it and after it.
type Argument struct{ In, Out []byte }

// Call has serve serve an ioctl of a thread of another process, on a driver that
// records. If nothing was recorded so, because the ioctl was refused before it
// came to that, or means nothing to a replay, the ioctl itself is, with the
// argument that serve fills in.
func (r *Recorder) Call(thread int, req drm.Request, serve func(drm.Driver, *Argument) error) error {
	wrote := false
	c := &Recorder{recording: r.recording, thread: uint32(thread), wrote: &wrote}
	var arg Argument
	start := r.w.now()
	err := serve(c, &arg)
	if !wrote {
		c.event(OpIoctl, start, err, Event{In: numbers(uint64(req)), InBytes: [][]byte{arg.In}, OutBytes: [][]byte{arg.Out}})
	}
	return err
}

// event writes an event whose call began at start and ended with err.
func (r *Recorder) event(op Op, start time.Duration, err error, e Event) {
	thread := r.thread
	if thread == 0 {
		thread = uint32(unix.Gettid())
	}
	if r.wrote != nil {
		*r.wrote = true
	}
	info, _ := op.Info()
	e.Op, e.File, e.Thread, e.Start, e.Took, e.Errno = op, r.file, thread, start, r.w.now()-start, errnoOf(err)
	// A call that failed may have fewer results.
	for len(e.Out) < len(info.Out) {
		e.Out = append(e.Out, 0)
	}
	for len(e.OutBytes) < len(info.OutBytes) {
		e.OutBytes = append(e.OutBytes, nil)
	}
	r.w.record(&e)
}

// made is event for a call that has made a number.
func (r *Recorder) made(op Op, start time.Duration, err error, e Event) {
	r.ids.Lock()
	defer r.ids.Unlock()
	r.event(op, start, err, e)
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

func (r *Recorder) Version() (drm.Info, error) {
	start := r.w.now()
	v, err := r.inner.Version()
	r.event(OpVersion, start, err, Event{Out: numbers(uint64(v.Major), uint64(v.Minor), uint64(v.Patch)), OutBytes: [][]byte{[]byte(v.Name), []byte(v.Desc)}})
	return v, err
}

func (r *Recorder) GetParam(p drm.Param) (uint64, error) {
	start := r.w.now()
	v, err := r.inner.GetParam(p)
	r.event(OpGetParam, start, err, Event{In: numbers(uint64(p)), Out: numbers(v)})
	return v, err
}

func (r *Recorder) GemNew(size uint64, d drm.Domain, flags drm.GemFlags) (uint32, error) {
	start := r.w.now()
	h, err := r.inner.GemNew(size, d, flags)
	r.made(OpGemNew, start, err, Event{In: numbers(size, uint64(d), uint64(flags)), Out: numbers(uint64(h))})
	return h, err
}

func (r *Recorder) GemMap(h uint32) ([]byte, error) {
	start := r.w.now()
	mem, err := r.inner.GemMap(h)
	if err == nil {
		r.w.mem.mapped(r.recording, h, mem)
	}
	r.event(OpMmap, start, err, Event{In: numbers(uint64(h)), Out: numbers(uint64(len(mem)))})
	return mem, err
}

func (r *Recorder) GemSize(h uint32) (uint64, error) {
	start := r.w.now()
	n, err := r.inner.GemSize(h)
	r.event(OpGemInfo, start, err, Event{In: numbers(uint64(h)), Out: numbers(n)})
	return n, err
}

func (r *Recorder) GemClose(h uint32) error {
	r.ids.Lock()
	defer r.ids.Unlock()
	start := r.w.now()
	r.w.mem.closed(r.recording, h) // its memory goes with it
	err := r.inner.GemClose(h)
	r.event(OpGemClose, start, err, Event{In: numbers(uint64(h))})
	return err
}

func (r *Recorder) VMBind(ops []drm.BindOp, async bool) error {
	start := r.w.now()
	err := r.inner.VMBind(ops, async)
	if err == nil {
		r.w.mem.mu.Lock()
		r.space.bind(ops)
		r.w.mem.mu.Unlock()
	}
	flag := uint64(0)
	if async {
		flag = drm.VMBindAsync
	}
	list, bad := binary.Append(nil, binary.LittleEndian, ops)
	r.event(OpVMBind, start, errors.Join(err, bad), Event{In: numbers(flag), InBytes: [][]byte{list}})
	return err
}

func (r *Recorder) ChannelAlloc() (uint32, error) {
	start := r.w.now()
	c, err := r.inner.ChannelAlloc()
	r.made(OpChannelAlloc, start, err, Event{Out: numbers(uint64(c))})
	return c, err
}

func (r *Recorder) ChannelFree(c uint32) error {
	r.ids.Lock()
	defer r.ids.Unlock()
	start := r.w.now()
	err := r.inner.ChannelFree(c)
	r.w.mem.mu.Lock()
	r.land(drm.Point{Channel: c, Seqno: ^uint64(0)})
	r.w.mem.mu.Unlock()
	r.event(OpChannelFree, start, err, Event{In: numbers(uint64(c))})
	return err
}

// waitBytes is the size of a point in the waits of an EXEC: u32 channel, u64 seqno.
const waitBytes = 12

func (r *Recorder) Exec(channel uint32, stream []byte, waits []drm.Point) (uint64, error) {
	var points []byte
	for _, p := range waits {
		points = binary.LittleEndian.AppendUint32(points, p.Channel)
		points = binary.LittleEndian.AppendUint64(points, p.Seqno)
	}
	return r.exec(OpExec, channel, stream, [][]byte{points}, nil, func() (uint64, error) { return r.inner.Exec(channel, stream, waits) })
}

// exec records a batch that do queues; signals are the sync objects that stand for
// it then.
func (r *Recorder) exec(op Op, channel uint32, stream []byte, rest [][]byte, signals []uint32, do func() (uint64, error)) (uint64, error) {
	stream = slices.Clone(stream) // it is the caller's again once it was executed
	r.w.mem.mu.Lock()
	defer r.w.mem.mu.Unlock()
	r.lookWritten()
	// Before the GPU can be at work: its writes must not be taken for the program's.
	r.flights = append(r.flights, flight{drm.Point{Channel: channel, Seqno: ^uint64(0)}, r.space.written(stream)})
	at := len(r.flights) - 1
	start := r.w.now()
	seqno, err := do()
	if err == nil {
		r.flights[at].point.Seqno = seqno
		for _, s := range signals {
			r.points[s] = r.flights[at].point
		}
	} else {
		r.flights = slices.Delete(r.flights, at, at+1)
	}
	r.event(op, start, err, Event{In: numbers(uint64(channel)), InBytes: append([][]byte{stream}, rest...), Out: numbers(seqno)})
	return seqno, err
}

func (r *Recorder) Wait(p drm.Point, timeout time.Duration) error {
	start := r.w.now()
	err := r.inner.Wait(p, timeout)
	r.event(OpWait, start, err, Event{In: numbers(uint64(p.Channel), p.Seqno, uint64(timeout))})
	r.waited(err, p)
	return err
}

// waited notes that points were reached, unless err says otherwise.
func (r *Recorder) waited(err error, points ...drm.Point) {
	if err == nil {
		r.w.mem.mu.Lock()
		var spans []span
		for _, p := range points {
			spans = append(spans, r.land(p)...)
		}
		r.lookSeen(spans)
		r.w.mem.mu.Unlock()
	}
	_ = r.w.Flush() // now and then, for programs that are killed; a failure stays
}

func (r *Recorder) ModuleLoad(name string, source []byte) (uint32, error) {
	start := r.w.now()
	m, err := r.inner.ModuleLoad(name, source)
	var refused *drm.ModuleError
	var log []byte
	if errors.As(err, &refused) {
		log = []byte(refused.Log)
	}
	r.made(OpModuleLoad, start, err, Event{InBytes: [][]byte{[]byte(name), source}, Out: numbers(uint64(m)), OutBytes: [][]byte{log}})
	return m, err
}

func (r *Recorder) ModuleUnload(m uint32) error {
	r.ids.Lock()
	defer r.ids.Unlock()
	start := r.w.now()
	err := r.inner.ModuleUnload(m)
	r.event(OpModuleUnload, start, err, Event{In: numbers(uint64(m))})
	return err
}

func (r *Recorder) ModuleFunction(m uint32, name string) (uint32, drm.FunctionAttributes, error) {
	start := r.w.now()
	f, a, err := r.inner.ModuleFunction(m, name)
	params, bad := binary.Append(nil, binary.LittleEndian, a.Params)
	r.made(OpModuleFunction, start, errors.Join(err, bad), Event{In: numbers(uint64(m)), InBytes: [][]byte{[]byte(name)},
		Out: attributes(f, &a), OutBytes: [][]byte{params}})
	return f, a, err
}

func (r *Recorder) ModuleGlobal(m uint32, name string) (addr, size uint64, err error) {
	start := r.w.now()
	addr, size, err = r.inner.ModuleGlobal(m, name)
	r.event(OpModuleGlobal, start, err, Event{In: numbers(uint64(m)), InBytes: [][]byte{[]byte(name)}, Out: numbers(addr, size)})
	return addr, size, err
}

func (r *Recorder) LostStatus() (uint32, string, error) {
	start := r.w.now()
	cause, text, err := r.inner.LostStatus()
	r.event(OpStatus, start, err, Event{Out: numbers(uint64(cause)), OutBytes: [][]byte{[]byte(text)}})
	return cause, text, err
}

// ReadOutput is not recorded: what kernels print changes nothing.
func (r *Recorder) ReadOutput() ([]byte, error) {
	if p, ok := r.inner.(drm.OutputReader); ok {
		return p.ReadOutput()
	}
	return nil, nil
}

// GemMapAt is not recorded: the memory is that of GemMap.
func (r *Recorder) GemMapAt(h uint32, addr, size uint64) ([]byte, error) {
	p, ok := r.inner.(drm.Placer)
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	return p.GemMapAt(h, addr, size)
}

func (r *Recorder) GemUnmapAt(mem []byte) error {
	p, ok := r.inner.(drm.Placer)
	if !ok {
		return syscall.EOPNOTSUPP
	}
	return p.GemUnmapAt(mem)
}

func (r *Recorder) Close() error {
	start := r.w.now()
	r.w.mem.remove(r.recording)
	err := r.inner.Close()
	r.event(OpClose, start, err, Event{})
	return errors.Join(err, r.w.Flush())
}

// End writes that the file was closed, if it was not, and nothing after it: the
// program has ended, and what it held goes with this process.
func (r *Recorder) End() {
	r.w.mem.remove(r.recording)
	r.event(OpClose, r.w.now(), nil, Event{})
}
