package nvidia

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/internal/cudalibs/host"
	"pvdrm/internal/yield"
)

// path takes commands from the lane and starts them on the streams of their
// channels. It waits for nothing but more commands: that a command has ended, the
// GPU writes into the fence of the channel, where the backend sees it.
type path struct {
	w      *worker
	extra  *[5]uintptr // launch options
	size   []byte      // u64: what extra points to
	stamp  uintptr     // kernel that stores the time
	fences uint64      // address of the fences for the GPU

	machine *host.Machine // calls the host's libraries; nil without any

	graphs    bool                   // the driver makes graphs
	kept      [graphSlots]*keptGraph // what is or was to become graphs
	scratch   []byte                 // parameters of an entry that was kept
	capturing bool                   // what is started becomes a graph

	mu      sync.Mutex // held while a stream is opened or closed, and by the path for each entry
	streams [maxChannels]stream
}

// stream is that of one channel.
type stream struct {
	handle uintptr
	last   uint32 // command that was started last
	silent int    // commands up to that one that have no fence
	failed bool   // a command was refused; later ones are not started

	keeping *keptGraph // gets the next entries; nil if none does
}

// maxSilent is how many commands in a row may have no fence.
const maxSilent = 8

// spinTime is how long the path looks for commands without a pause, from the last one or
// its end on. Where processors are ample, that is longer than most commands take that
// somebody waits for before the next one.
var spinTime = spinOn(yield.Ample)

func spinOn(ample bool) time.Duration {
	if ample {
		return 2 * time.Millisecond
	}
	return 200 * time.Microsecond
}

// restTime is how long the path then naps before it sleeps: to be woken takes longer
// than is left of a nap, and a processor that slept deeply is slow for a while.
var restTime = restOn(yield.Ample)

func restOn(ample bool) time.Duration {
	if ample {
		return 250 * time.Millisecond
	}
	return 0
}

// How long a nap of the path is, and how often it asks the driver about faults while
// something runs.
const (
	napTime = 50 * time.Microsecond
	askTime = 200 * time.Microsecond
)

// stampSource is the kernel of gpu.Timestamp: %globaltimer counts nanoseconds.
const stampSource = `.version 6.0
.target sm_50
.address_size 64
.visible .entry stamp(.param .u64 p)
{
	.reg .u64 %a<2>;
	ld.param.u64 %a0, [p];
	mov.u64 %a1, %globaltimer;
	st.global.u64 [%a0], %a1;
	ret;
}
`

// lockThread binds the goroutine to its thread, to which CUDA binds its context.
func lockThread() { runtime.LockOSThread() }

// init prepares the path. The thread has the CUDA context.
func (p *path) init(w *worker) error {
	p.w = w
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("memory for launches: %w", err)
	}
	p.extra, p.size = extraIn(mem), mem[64:72]
	if p.scratch, err = unix.Mmap(-1, 0, maxParamBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return fmt.Errorf("memory for parameters: %w", err)
	}
	fences := w.lane.mem[offFences:offFailures]
	at := addressOf(fences)
	d := w.drv
	if err := d.check("cuMemHostRegister", d.memHostRegister(uintptr(at), uint64(len(fences)), registerDeviceMap)); err != nil {
		return err
	}
	if err := d.check("cuMemHostGetDevicePointer", d.memHostGetDevicePointer(&p.fences, uintptr(at), 0)); err != nil {
		return err
	}
	image := append([]byte(stampSource), 0)
	var m uintptr
	if err := d.check("cuModuleLoadData", d.moduleLoadData(&m, &image[0])); err != nil {
		return err
	}
	return d.check("cuModuleGetFunction", d.moduleGetFunction(&p.stamp, m, "stamp"))
}

// warmUp uses everything once, so that the context has it when the first command
// comes: the driver makes its queues to the GPU's engines when they are needed,
// which takes a millisecond.
func (p *path) warmUp() error {
	w := p.w
	const id, at = 0, vramBase // of memory that is gone again before there is other
	if err := w.allocate(&request{ID: id, Size: vramPage}); err != nil {
		return err
	}
	if err := w.mapVRAM(&request{ID: id, VA: at, Size: vramPage, Write: true}); err != nil {
		return err
	}
	e := entry{kind: entryTimestamp, words: [7]uint64{p.fences}} // a slot that is cleared below
	for _, code := range []result{
		p.copy(at, p.fences, fenceStride, 1, 0, 0, w.control),
		p.copy(p.fences, at, fenceStride, 1, 0, 0, w.control),
		p.enqueue(&e, w.lane.slot(0)[entryHeader:], w.control),
		w.drv.streamWriteValue32(w.control, p.fences, 0),
		w.drv.streamSynchronize(w.control),
	} {
		if code != resultOK {
			return w.drv.check("warming up", code)
		}
	}
	p.warmGraphs(w.control, []entry{
		e,
		{kind: entryCopy, words: [7]uint64{at, p.fences, fenceStride, 1}},
		{kind: entryCopy, words: [7]uint64{p.fences, at, fenceStride, 1}},
		{kind: entryFill, words: [7]uint64{at, 4 << 32, fenceStride, 1}},
		{kind: entryFill, words: [7]uint64{p.fences, 4 << 32, fenceStride, 1}},
	})
	w.lane.store(offFences, 0)
	if err := w.unmapVRAM(at, vramPage); err != nil {
		return err
	}
	return w.release(id)
}

// openStream begins the stream of a channel. The fence goes on from where another channel left it: what
// waited for that one, and has not seen it yet, goes on, too.
func (w *worker) openStream(slot int) error {
	p := &w.path
	var s uintptr
	if err := w.drv.check("cuStreamCreate", w.drv.streamCreateWithPriority(&s, streamNonBlocking, 0)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.lane.store(offFailures+slot*fenceStride, 0)
	p.streams[slot] = stream{handle: s, last: w.lane.fence(slot)}
	return nil
}

// closeStream ends the stream of a channel, all of whose commands have ended or were refused.
func (w *worker) closeStream(slot int) error {
	p := &w.path
	p.mu.Lock()
	s := p.streams[slot].handle
	w.lane.store(offFences+slot*fenceStride, p.streams[slot].last)
	p.streams[slot] = stream{}
	p.mu.Unlock()
	return w.drv.check("cuStreamDestroy", w.drv.streamDestroy(s))
}

// loop is the path thread.
func (p *path) loop() error {
	l := p.w.lane
	tail := l.load(offTail)
	idle, asked := time.Now(), time.Now() // idle: since the last command, or since the last one ended
	ran := false
	for n := 1; ; n++ {
		if l.ready(tail) {
			e, params := l.take(tail)
			tail++
			p.mu.Lock()
			p.start(&e, params, tail)
			p.mu.Unlock()
			l.store(offTail, tail)
			idle = time.Now()
			continue
		}
		if n%looks != 0 {
			continue
		}
		now := time.Now()
		busy := p.busy()
		if busy && now.Sub(asked) > askTime {
			asked = now
			p.ask()
		}
		if ran && !busy {
			idle = now
		}
		ran = busy
		switch {
		case now.Sub(idle) < spinTime:
			yield.Thread()
		case busy || now.Sub(idle) < restTime:
			yield.Nap(napTime)
			n = looks - 1 // look at everything each time
		default:
			if err := p.sleep(tail); err != nil {
				return err
			}
			idle = time.Now()
		}
	}
}

// busy reports whether a command has not ended.
func (p *path) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.streams {
		if s := &p.streams[i]; s.handle != 0 && !s.failed && !reached(p.w.lane.fence(i), s.last) {
			return true
		}
	}
	return false
}

// ask looks for a fault, which the driver tells to who asks only.
func (p *path) ask() {
	for i := range p.streams {
		p.mu.Lock()
		s := p.streams[i]
		code := resultOK
		if s.handle != 0 && s.last != 0 {
			code = p.w.drv.streamQuery(s.handle)
		}
		p.mu.Unlock()
		if code.sticky() {
			p.w.lane.store(offLost, uint32(code))
			return
		}
	}
}

// lose says that the context is lost, which a call other than ask's found out. The driver is asked once more
// before that: it prints the text of an assertion to who asks, and the backend may end the worker next.
func (p *path) lose(code result, stream uintptr) {
	_ = p.w.drv.streamQuery(stream)
	p.w.lane.store(offLost, uint32(code))
}

// sleep waits until the backend publishes more than tail entries.
func (p *path) sleep(tail uint32) error {
	l := p.w.lane
	l.store(offSleeping, 1)
	defer l.store(offSleeping, 0)
	if l.ready(tail) {
		return nil
	}
	var b [8]byte
	rung := []unix.PollFd{{Fd: int32(p.w.wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Read(p.w.wake, b[:])
		if err == unix.EAGAIN {
			_, err = unix.Poll(rung, -1)
		} else if err == nil {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("cuda worker: waiting for commands: %w", err)
		}
	}
}

// start starts a command, or a part of one; next is the number of the entry behind it. A
// fence costs a third of a launch: a quiet command leaves it to a quiet one of its channel
// that is to be started next. Start looks for that one when the command was started, since
// it was often published meanwhile. P.mu is held.
func (p *path) start(e *entry, params []byte, next uint32) {
	s := &p.streams[e.channel]
	if s.handle == 0 || s.failed {
		return
	}
	before := s.last
	s.last = e.number
	code := p.begin(e, params, s)
	switch {
	case code != resultOK && !code.sticky() && s.silent > 0:
		if late := p.fence(s, e.channel, before); late.sticky() {
			code = late
		}
	case code == resultOK && e.last && e.quiet && s.silent < maxSilent && p.w.lane.ready(next) && p.w.lane.quiet(next, e.channel):
		s.silent++
	case code == resultOK && e.last:
		code = p.fence(s, e.channel, e.number)
	}
	switch {
	case code == resultOK:
	case code.sticky():
		p.lose(code, s.handle)
	default:
		s.failed = true
		at := offFailures + int(e.channel)*fenceStride
		p.w.lane.store(at+4, e.number)
		p.w.lane.store(at, uint32(code))
	}
}

// fence has the GPU say that a channel has come as far as a command.
func (p *path) fence(s *stream, channel uint8, number uint32) result {
	s.silent = 0
	return p.w.drv.streamWriteValue32(s.handle, p.fences+uint64(channel)*fenceStride, number)
}

func (p *path) enqueue(e *entry, params []byte, stream uintptr) result {
	d, a := p.w.drv, &e.words
	switch e.kind {
	case entryLaunch:
		half := func(w uint64) [2]uint32 { return [2]uint32{uint32(w), uint32(w >> 32)} }
		x, y, z, s := half(a[1]), half(a[2]), half(a[3]), half(a[4])
		c, k := half(a[5]), half(a[6])
		l := launchArgs{grid: [3]uint32{x[0], x[1], y[0]}, block: [3]uint32{y[1], z[0], z[1]}, shared: s[0],
			cluster: [3]uint32{c[0], c[1], k[0]}, cooperative: k[1] != 0}
		return p.launch(uintptr(a[0]), &l, params[:min(int(s[1]), maxParamBytes)], stream)
	case entryTimestamp:
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], a[0])
		copy(params, b[:])
		one := launchArgs{grid: [3]uint32{1, 1, 1}, block: [3]uint32{1, 1, 1}}
		return p.launch(p.stamp, &one, params[:8], stream)
	case entryCopy:
		return p.copy(a[0], a[1], a[2], a[3], a[4], a[5], stream)
	case entryFill:
		return p.fill(a, stream)
	case entryCall:
		return p.call(a, params, stream)
	case entryGraph:
		return p.launchGraph(a[0], stream)
	case entryWord:
		return p.word(a, stream)
	case entryBehind:
		return p.behind(a[0], uint32(a[1]), stream)
	}
	return d.streamQuery(stream) // an empty command
}

// word writes a word, or has the stream wait for one.
func (p *path) word(a *[7]uint64, stream uintptr) result {
	va, value, size, op := a[0], a[1], uint32(a[2]), gpu.WordOp(a[2]>>32)
	switch {
	case op != gpu.WordWrite:
		return p.w.drv.streamWaitValue(stream, va, value, size, uint32(op-gpu.WaitGreaterEqual))
	case size == 4:
		return p.w.drv.streamWriteValue32(stream, va, uint32(value))
	}
	return p.w.drv.streamWriteValue64(stream, va, value)
}

// launch starts a kernel with its parameter block in one piece, as it came.
func (p *path) launch(f uintptr, l *launchArgs, params []byte, stream uintptr) result {
	if len(params) == 0 {
		return p.w.drv.launchKernel(f, l, stream, nil)
	}
	binary.LittleEndian.PutUint64(p.size, uint64(len(params)))
	*p.extra = [5]uintptr{extraBuffer, uintptr(addressOf(params)), extraSize, uintptr(addressOf(p.size)), 0}
	return p.w.drv.launchKernel(f, l, stream, p.extra)
}

// maxPitch is the largest that the driver's copies and fills of rows take.
const maxPitch = math.MaxInt32

func (p *path) copy(dst, src, width, height, dstPitch, srcPitch uint64, stream uintptr) result {
	d := p.w.drv
	if height > 1 && dstPitch <= maxPitch && srcPitch <= maxPitch {
		return d.memcpy2DAsync(&[16]uint64{2: memoryUnified, 4: src, 6: srcPitch, 9: memoryUnified, 11: dst, 13: dstPitch, 14: width, 15: height}, stream)
	}
	for i := range height {
		if code := d.memcpyAsync(dst+i*dstPitch, src+i*srcPitch, width, stream); code != resultOK {
			return code
		}
	}
	return resultOK
}

func (p *path) fill(a *[7]uint64, stream uintptr) result {
	d := p.w.drv
	dst, v, size, width, height, pitch := a[0], uint32(a[1]), a[1]>>32, a[2], a[3], a[4]
	flat, rows := d.memsetD8Async, d.memsetD2D8Async
	switch size {
	case 2:
		flat, rows = d.memsetD16Async, d.memsetD2D16Async
	case 4:
		flat, rows = d.memsetD32Async, d.memsetD2D32Async
	}
	if size == 0 {
		return resultInvalidValue
	}
	width /= size
	if height > 1 && pitch <= maxPitch {
		return rows(dst, pitch, v, width, height, stream)
	}
	for i := range height {
		if code := flat(dst+i*pitch, v, width, stream); code != resultOK {
			return code
		}
	}
	return resultOK
}
