package nvidia

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/internal/cudalibs/host"
)

// Descriptors with which a worker starts, after the three standard ones.
const (
	fdSocket = 3 + iota
	fdGuard
	fdLane
	fdWake
	fdOutput // what kernels print
	fdErrors // and the text of their assertions
)

// worker is the other process: it owns a CUDA context and serves its backend.
//
// It has two threads that call the driver. The control thread serves requests;
// the path thread, which ServeWorker is called on, takes commands from the lane.
// They share streams only: a slot is opened before its first command is published
// and closed after its last one has completed.
type worker struct {
	drv    *driver
	link   *link
	lane   lane
	wake   int   // eventfd
	number int32 // ordinal of its GPU
	device int32 // the driver's handle for the GPU
	ctx    uintptr

	system gpu.Window // reserved when the worker started

	// Of the control thread.
	control  uintptr // stream
	readOnly bool    // host memory can be registered for reading only
	optin    int     // limit on the bytes of .shared of a block
	clusters bool    // launches may have clusters
	memories map[uint64]*vram
	at       map[uint64]*vram // by the start of each mapping
	scratch  uint64           // address of room for two chunks, behind which each peer has a page
	modules  map[uint64]uintptr

	peerNumbers []int32
	peers       []int32 // the driver's handles for the guest's other GPUs; -1 where this one does not reach it

	path path
}

// ServeWorker runs a worker until its backend is gone. A keeper starts the process
// with the descriptors in place; see ServeKeeper. The caller must be a goroutine that
// is bound to its thread. ServeWorker calls confine after the driver has opened its files
// and before it serves a guest, with the ioctl requests that serving needs; confine may be
// nil. Libraries says where the host's CUDA libraries are (host.Directories), which it opens before
// that too.
func ServeWorker(confine Confine, libraries string) error {
	drv, err := openDriver()
	if err == nil && confine != nil {
		openCompiler()
	}
	return serveWorker(drv, err, confine, libraries)
}

// serveWorker reports a missing driver to the backend before it ends.
func serveWorker(drv *driver, missing error, confine Confine, libraries string) error {
	debug.SetGCPercent(-1) // the worker allocates for control requests only, and never pauses to collect
	debug.SetMemoryLimit(256 << 20)
	w := &worker{drv: drv, link: newLink(fdSocket, 2*maxFiles), wake: fdWake, memories: map[uint64]*vram{}, at: map[uint64]*vram{}, modules: map[uint64]uintptr{}}
	var err error
	if w.lane, err = mapLane(fdLane); err != nil {
		return fmt.Errorf("cuda worker: %w (pvdrm starts it; it is no command for users)", err)
	}
	var hello request
	if err := hello.receive(w.link); err != nil {
		return fmt.Errorf("cuda worker: %w", err)
	}
	w.number, w.peerNumbers = hello.Number, hello.Peers
	var r reply
	name, requests := "cuda-worker", servingRequests
	compiles := hello.Op == opHelloCompiler
	if compiles {
		name, requests = "cuda-compiler", compilingRequests
	}
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // for people, and for gpu/nvidia/record
	if missing == nil {
		missing = drv.check("the C library's output", drv.printTo(fdOutput, fdErrors))
	}
	guarded := newLink(fdGuard, 0)
	start := w.start
	if compiles {
		start, libraries = w.startCompiler, host.None
	}
	opened := openLibraries(libraries)
	alone := start
	var l *host.Libraries
	start = func() (gpu.Properties, error) {
		p, err := alone()
		if l = <-opened; err == nil {
			err = w.takeLibraries(l, &p)
		}
		return p, err
	}
	switch {
	case missing != nil:
		err = missing
	case confine != nil:
		r.Props, err = startGuarded(start, guarded, !compiles)
	default:
		r.Props, err = start()
	}
	guarded.close() // a worker is handed over once
	if err == nil && confine != nil {
		err = confine(requests)
		if w.path.machine != nil && err == nil {
			err = w.checkLibraries(l, &r.Props, w.path.machine.Recheck)
		}
	}
	r.Err, r.Graphs = asDriverError("starting", err), w.path.graphs
	if sent := r.send(w.link); sent != nil {
		return fmt.Errorf("cuda worker: %w", sent)
	}
	w.link.answered(&hello)
	if err != nil {
		return nil // the backend knows, and reports it
	}
	if compiles {
		return w.serveCompiler()
	}
	go w.serve()
	return w.path.loop()
}

// startGuarded starts under the eyes of the keeper, which answers what the worker asks for from then
// on. The channels of a worker that runs nothing stay stopped.
func startGuarded(start func() (gpu.Properties, error), keeper *link, runs bool) (p gpu.Properties, err error) {
	if err := yieldRequests(keeper, trapped); err != nil {
		return p, err
	}
	if p, err = start(); err != nil {
		return p, err
	}
	return p, seal(keeper, runs, isControlDevice)
}

// asDriverError makes an error that can be sent.
func asDriverError(call string, err error) *driverError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*driverError](err); ok {
		return e
	}
	return &driverError{Call: call, Code: resultUnknown, Name: err.Error()}
}

// Windows of the address space. They lie where neither Linux nor the driver places
// mappings, far below those of mmap. Go's heap begins at a random address: if it overlaps
// a window, the keeper tries another process.
const (
	vramBase     = 0x1000_0000_0000
	vramPage     = 2 << 20
	systemWindow = 256 << 30
	systemPage   = 4096
)

// start makes the CUDA context and returns the properties of the GPU.
func (w *worker) start() (p gpu.Properties, err error) {
	w.system = gpu.Window{Base: systemBase, Size: systemWindow, Page: systemPage}
	// Before the driver starts, so that the driver avoids this range.
	if err := reserve(w.system.Base, w.system.Size); err != nil {
		return p, err
	}
	d := w.drv
	if err := w.retain(); err != nil {
		return p, err
	}
	if p, err = w.properties(); err != nil {
		return p, err
	}
	at := uint64(0)
	size := p.VRAM.Size + scratchBytes() + uint64(len(w.peerNumbers))*vramPage
	w.scratch = p.VRAM.Base + p.VRAM.Size
	if err := d.check("cuMemAddressReserve", d.memAddressReserve(&at, size, vramPage, p.VRAM.Base, 0)); err != nil {
		return p, err
	}
	if at != p.VRAM.Base {
		return p, taken(fmt.Errorf("%d bytes of addresses came at %#x instead of %#x", size, at, p.VRAM.Base))
	}
	if err := d.check("cuStreamCreateWithPriority", d.streamCreateWithPriority(&w.control, streamNonBlocking, 0)); err != nil {
		return p, err
	}
	if err := w.path.init(w); err != nil {
		return p, err
	}
	if err := w.path.warmUp(); err != nil {
		return p, err
	}
	p.Peers, err = w.reachPeers()
	return p, err
}

// retain starts the driver and makes the CUDA context of the worker's GPU current.
func (w *worker) retain() error {
	d := w.drv
	if err := d.check("cuInit", d.init(0)); err != nil {
		return err
	}
	if err := d.check("cuDeviceGet", d.deviceGet(&w.device, w.number)); err != nil {
		return err
	}
	if err := d.check("cuDevicePrimaryCtxRetain", d.devicePrimaryCtxRetain(&w.ctx, w.device)); err != nil {
		return err
	}
	return d.check("cuCtxSetCurrent", d.ctxSetCurrent(w.ctx))
}

// properties asks the driver for the properties of the GPU.
func (w *worker) properties() (p gpu.Properties, err error) {
	d := w.drv
	attr := func(a int32) int {
		var v int32
		if code := d.deviceGetAttribute(&v, a, w.device); code != resultOK {
			err = errors.Join(err, d.check(fmt.Sprintf("cuDeviceGetAttribute(%d)", a), code))
		}
		return int(v)
	}
	dims := func(a int32) [3]int { return [3]int{attr(a), attr(a + 1), attr(a + 2)} }
	name := make([]byte, 128)
	if err := d.check("cuDeviceGetName", d.deviceGetName(&name[0], int32(len(name)), w.device)); err != nil {
		return p, err
	}
	var vram uint64
	if err := d.check("cuDeviceTotalMem", d.deviceTotalMem(&vram, w.device)); err != nil {
		return p, err
	}
	vram &^= vramPage - 1
	w.readOnly, w.optin = attr(attrReadOnlyHost) != 0, attr(attrSharedOptin)
	if attr(attrVMM) == 0 && err == nil {
		return p, &driverError{Call: "cuDeviceGetAttribute", Code: resultUnknown, Name: "the GPU cannot map memory at chosen addresses"}
	}
	w.clusters = w.maxCluster(attr(attrMajor)) > 0
	const addresses = 4 // bytes of addresses for each byte of VRAM: space for gaps
	return gpu.Properties{
		Name: unix.ByteSliceToString(name), Driver: "cuda",
		ComputeMajor: attr(attrMajor), ComputeMinor: attr(attrMinor),
		Multiprocs: attr(attrMultiprocs), WarpSize: attr(attrWarp), MaxThreads: attr(attrMaxThreads),
		MaxBlockDim: dims(attrMaxBlockX), MaxGridDim: dims(attrMaxGridX),
		SharedPerBlock: w.optin, RegsPerBlock: attr(attrRegsPerBlock), MaxThreadsSM: attr(attrThreadsPerSM),
		MaxBlocksSM: attr(attrBlocksPerSM),
		ConstBytes:  attr(attrConst), ClockKHz: attr(attrClock), MemClockKHz: attr(attrMemClock),
		MemBusBits: attr(attrBusWidth), L2Bytes: attr(attrL2),
		VRAMBytes: vram, MaxChannels: maxChannels, MaxParamBytes: w.paramBytes(attr(attrMajor)), FilePages: true, Images: true,
		Cooperative: attr(attrCooperative) != 0, Words: w.hasWords(), MaxCluster: w.maxCluster(attr(attrMajor)),
		VRAM:   gpu.Window{Base: vramBase, Size: addresses * vram, Page: vramPage},
		System: w.system,
	}, err
}

// paramBytes returns how many bytes of parameters a kernel may have: since CUDA 12.1 as many as PTX allows.
func (w *worker) paramBytes(major int) int {
	const volta, since = 7, 12010
	var version int32
	if w.drv.driverGetVersion(&version) != resultOK || version < since || major < volta {
		return 4096
	}
	return maxParamBytes
}

// hasWords reports whether streams write words and wait for them, in all ways.
func (w *worker) hasWords() bool {
	has := w.drv.streamWaitValue != nil
	for _, attribute := range []int32{attrWords64, attrWaitNor} {
		var v int32
		has = has && w.drv.deviceGetAttribute(&v, attribute, w.device) == resultOK && v != 0 // old drivers do not know it
	}
	return has
}

// maxCluster returns how many blocks a cluster may have, portable or not; 0 where there are none. The driver tells it of
// kernels only.
func (w *worker) maxCluster(major int) int {
	const consumers = 12 // compute capability 12.x
	var has int32
	switch {
	case w.drv.deviceGetAttribute(&has, attrClusters, w.device) != resultOK || has == 0: // old drivers do not know it
		return 0
	case major >= consumers:
		return 8
	}
	return 16
}

// serve is the control thread. The process ends with the backend, even while the GPU
// runs a kernel.
func (w *worker) serve() {
	lockThread()
	err := w.drv.check("cuCtxSetCurrent", w.drv.ctxSetCurrent(w.ctx))
	for err == nil {
		var q request
		if err = q.receive(w.link); err != nil {
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
		if err = r.send(w.link); err == nil {
			w.link.answered(&q)
		}
	}
	if errors.Is(err, io.EOF) {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "pvdrm: cuda worker:", err)
	os.Exit(1)
}

// answer executes a request.
func (w *worker) answer(q *request, r *reply, fds []int) error {
	switch q.Op {
	case opAllocate:
		return w.allocate(q)
	case opRelease:
		return w.release(q.ID)
	case opMap:
		return w.mapVRAM(q)
	case opUnmap:
		return w.unmapVRAM(q.VA, q.Size)
	case opMapSystem:
		return w.mapSystem(q, fds)
	case opUnmapSystem:
		return w.unmapSystem(q.VA, q.Size)
	case opLoad:
		return w.load(q, r)
	case opFind:
		return w.find(q, r)
	case opAsk:
		return w.ask(q, r)
	case opUnload:
		m := w.modules[q.ID]
		delete(w.modules, q.ID)
		return w.drv.check("cuModuleUnload", w.drv.moduleUnload(m))
	case opOpen:
		return w.openStream(q.Slot)
	case opClose:
		return w.closeStream(q.Slot)
	case opDivide:
		if m := w.memories[q.ID]; m != nil {
			return w.remake(m)
		}
		return fmt.Errorf("no memory %d", q.ID)
	case opFlush:
		// The driver prints for who waits, for whatever it is: nothing is queued there.
		return w.drv.check("cuStreamSynchronize", w.drv.streamSynchronize(w.control))
	}
	return fmt.Errorf("unknown request %d", q.Op)
}
