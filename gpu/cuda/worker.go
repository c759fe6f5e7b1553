package cuda

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// Descriptors that a worker is started with, after the three standard ones.
const (
	fdSocket = 3 + iota
	fdLane
	fdWake
)

// worker is the other process: it owns a CUDA context and does what it is told.
//
// It has two threads that call the driver. The control thread serves requests;
// the path thread, which ServeWorker is called on, takes commands from the lane.
// They share streams only: a slot is opened before its first command is published
// and closed after its last one has ended.
type worker struct {
	drv  *driver
	link *link
	lane lane
	wake int // eventfd
	ctx  uintptr

	system gpu.Window // reserved when the worker started

	// Of the control thread.
	control  uintptr // stream
	readOnly bool    // host memory can be registered for reading only
	optin    int     // bytes of .shared that a block may have
	memories map[uint64]*vram
	modules  map[uint64]uintptr

	path path
}

// ServeWorker runs a worker until its backend is gone. A keeper starts the process
// with the descriptors in place; see ServeKeeper. It must be called on a goroutine
// that is bound to its thread. Confine is called when the driver has opened all it
// needs and no guest has been served yet; nil for nothing.
func ServeWorker(confine func() error) error {
	drv, err := openDriver()
	if err == nil && confine != nil {
		openCompiler()
	}
	return serveWorker(drv, err, confine)
}

// serveWorker tells the backend when there is no driver, instead of just ending.
func serveWorker(drv *driver, missing error, confine func() error) error {
	debug.SetGCPercent(-1) // it allocates for control requests only, and never pauses for that
	debug.SetMemoryLimit(256 << 20)
	w := &worker{drv: drv, link: newLink(fdSocket), wake: fdWake, memories: map[uint64]*vram{}, modules: map[uint64]uintptr{}}
	var err error
	if w.lane, err = mapLane(fdLane); err != nil {
		return fmt.Errorf("cuda worker: %w (pvdrm starts it; it is no command for users)", err)
	}
	var hello request
	if err := w.link.dec.Decode(&hello); err != nil {
		return fmt.Errorf("cuda worker: %w", err)
	}
	var r reply
	if err = missing; err == nil {
		r.Props, err = w.start()
	}
	if err == nil && confine != nil {
		err = confine()
	}
	r.Err = asDriverError("starting", err)
	if sent := w.link.send(&r, nil); sent != nil {
		return fmt.Errorf("cuda worker: %w", sent)
	}
	if err != nil {
		return nil // the backend knows, and tells
	}
	go w.serve()
	return w.path.loop()
}

// asDriverError makes an error that can travel.
func asDriverError(call string, err error) *driverError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*driverError](err); ok {
		return e
	}
	return &driverError{Call: call, Code: resultUnknown, Name: err.Error()}
}

// Windows of the address space. They lie where neither Linux nor the driver puts
// anything by itself, far below the mappings that mmap places. Go's heap begins
// at a random address: where it is in the way, another process is tried.
const (
	vramBase     = 0x1000_0000_0000
	vramPage     = 2 << 20
	systemBase   = 0x2000_0000_0000
	systemWindow = 256 << 30
	systemPage   = 4096
)

// start makes the CUDA context and says what the GPU is.
func (w *worker) start() (p gpu.Properties, err error) {
	w.system = gpu.Window{Base: systemBase, Size: systemWindow, Page: systemPage}
	// Before the driver is started, which then keeps away from it.
	if err := reserve(w.system.Base, w.system.Size); err != nil {
		return p, err
	}
	d := w.drv
	var device int32
	if err := d.check("cuInit", d.init(0)); err != nil {
		return p, err
	}
	if err := d.check("cuDeviceGet", d.deviceGet(&device, 0)); err != nil {
		return p, err
	}
	if err := d.check("cuDevicePrimaryCtxRetain", d.devicePrimaryCtxRetain(&w.ctx, device)); err != nil {
		return p, err
	}
	if err := d.check("cuCtxSetCurrent", d.ctxSetCurrent(w.ctx)); err != nil {
		return p, err
	}
	if p, err = w.properties(device); err != nil {
		return p, err
	}
	at := uint64(0)
	if err := d.check("cuMemAddressReserve", d.memAddressReserve(&at, p.VRAM.Size, vramPage, p.VRAM.Base, 0)); err != nil {
		return p, err
	}
	if at != p.VRAM.Base {
		return p, taken(fmt.Errorf("%d bytes of addresses came at %#x instead of %#x", p.VRAM.Size, at, p.VRAM.Base))
	}
	if err := d.check("cuStreamCreateWithPriority", d.streamCreateWithPriority(&w.control, streamNonBlocking, 0)); err != nil {
		return p, err
	}
	if err := w.path.init(w); err != nil {
		return p, err
	}
	return p, w.path.warmUp()
}

// properties asks what the GPU is.
func (w *worker) properties(device int32) (p gpu.Properties, err error) {
	d := w.drv
	attr := func(a int32) int {
		var v int32
		if code := d.deviceGetAttribute(&v, a, device); code != resultOK {
			err = errors.Join(err, d.check(fmt.Sprintf("cuDeviceGetAttribute(%d)", a), code))
		}
		return int(v)
	}
	dims := func(a int32) [3]int { return [3]int{attr(a), attr(a + 1), attr(a + 2)} }
	name := make([]byte, 128)
	if err := d.check("cuDeviceGetName", d.deviceGetName(&name[0], int32(len(name)), device)); err != nil {
		return p, err
	}
	var vram uint64
	if err := d.check("cuDeviceTotalMem", d.deviceTotalMem(&vram, device)); err != nil {
		return p, err
	}
	vram &^= vramPage - 1
	w.readOnly, w.optin = attr(attrReadOnlyHost) != 0, attr(attrSharedOptin)
	if attr(attrVMM) == 0 && err == nil {
		return p, &driverError{Call: "cuDeviceGetAttribute", Code: resultUnknown, Name: "the GPU cannot map memory at chosen addresses"}
	}
	const addresses = 4 // bytes of them for each byte of VRAM: space for gaps
	return gpu.Properties{
		Name: unix.ByteSliceToString(name), Driver: "cuda",
		ComputeMajor: attr(attrMajor), ComputeMinor: attr(attrMinor),
		Multiprocs: attr(attrMultiprocs), WarpSize: attr(attrWarp), MaxThreads: attr(attrMaxThreads),
		MaxBlockDim: dims(attrMaxBlockX), MaxGridDim: dims(attrMaxGridX),
		SharedPerBlock: w.optin, RegsPerBlock: attr(attrRegsPerBlock), MaxThreadsSM: attr(attrThreadsPerSM),
		ConstBytes: attr(attrConst), ClockKHz: attr(attrClock), MemClockKHz: attr(attrMemClock),
		MemBusBits: attr(attrBusWidth), L2Bytes: attr(attrL2),
		VRAMBytes: vram, MaxChannels: maxChannels, MaxParamBytes: maxParamBytes, FilePages: true,
		VRAM:   gpu.Window{Base: vramBase, Size: addresses * vram, Page: vramPage},
		System: w.system,
	}, err
}

// serve is the control thread. The process ends with the backend, whatever the
// GPU does at that time.
func (w *worker) serve() {
	lockThread()
	err := w.drv.check("cuCtxSetCurrent", w.drv.ctxSetCurrent(w.ctx))
	for err == nil {
		var q request
		if err = w.link.dec.Decode(&q); err != nil {
			break
		}
		var fds []int
		if fds, err = w.link.takeFDs(q.FDs); err != nil {
			break
		}
		var r reply
		r.Err = asDriverError("request", w.answer(&q, &r, fds))
		for _, fd := range fds {
			_ = unix.Close(fd) // mappings keep the file
		}
		err = w.link.send(&r, nil)
	}
	if errors.Is(err, io.EOF) {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "pvdrm: cuda worker:", err)
	os.Exit(1)
}

// answer does what a request asks.
func (w *worker) answer(q *request, r *reply, fds []int) error {
	switch q.Op {
	case opAllocate:
		return w.allocate(q.ID, q.Size)
	case opRelease:
		return w.release(q.ID)
	case opMap:
		return w.mapVRAM(q)
	case opUnmap:
		return w.drv.check("cuMemUnmap", w.drv.memUnmap(q.VA, q.Size))
	case opMapSystem:
		return w.mapSystem(q, fds)
	case opUnmapSystem:
		return w.unmapSystem(q.VA, q.Size)
	case opLoad:
		return w.load(q, r)
	case opUnload:
		m := w.modules[q.ID]
		delete(w.modules, q.ID)
		return w.drv.check("cuModuleUnload", w.drv.moduleUnload(m))
	case opOpen:
		return w.openStream(q.Slot)
	case opClose:
		return w.closeStream(q.Slot)
	}
	return fmt.Errorf("unknown request %d", q.Op)
}
