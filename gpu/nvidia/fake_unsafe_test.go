package nvidia

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
	"pvdrm/internal/yield"
)

// fake is a driver for tests without a GPU. Its VRAM is memory of the process,
// mapped where the worker wants it, its streams are goroutines, and its kernels Go
// functions found by name. It promises no more than
// the real one: a fault makes every later call fail.
type fake struct {
	driver
	mu      sync.Mutex
	pages   []fakePage // behind memory handles; handle i+1 is pages[i]
	streams []*fakeStream
	image   []byte
	state   []byte // source being linked
	log     []byte // where the caller wants complaints about it
	sticky  atomic.Int32
	control *fakeControl
	device  int32
}

// fakeDevices is how many GPUs the fake driver has.
const fakeDevices = 2

type fakeStream struct {
	work    chan func() result
	pending atomic.Int32
	capture *fakeGraph // what gets the work instead, or nil; of one thread
}

// fakeKernels get the number of threads. Handles are their numbers plus one.
var fakeKernels = []struct {
	name string
	run  func(params []byte, threads int) result
}{
	{"store", func(p []byte, threads int) result {
		for i := range threads {
			if code := put(word64(p, 0)+4*uint64(i), uint32(word64(p, 8))+uint32(i)); code != resultOK {
				return code
			}
		}
		return resultOK
	}},
	{"stamp", func(p []byte, _ int) result {
		*(*uint64)(address(word64(p, 0))) = uint64(time.Now().UnixNano()) // an address that the backend has checked
		return resultOK
	}},
	{"idle", func([]byte, int) result { return resultOK }},
	{"count", fakeCount},
	{"talks", func(p []byte, threads int) result { return fakeCount(p, threads) }},
	{"stays", func([]byte, int) result { // the command ends, and something goes on
		hostmem.SwapUint32(theControl.mem, fakeWorks, 1)
		return resultOK
	}},
	{"frees", func([]byte, int) result { // the channels of its worker
		hostmem.SwapUint32(theControl.mem, fakeFreed, 1)
		select {}
	}},
	{"spin", func([]byte, int) result { select {} }},
	{"once", func(p []byte, _ int) result { // dies, or hangs if told so, unless it did before
		before := (*uint32)(address(word64(p, 0))) // granted memory, which the test has mapped
		if *before > 0 {
			return resultOK
		}
		*before = 1
		if word64(p, 8) != 0 {
			select {}
		}
		os.Exit(7)
		return resultOK
	}},
	{"mark", func(p []byte, threads int) result { return mark(p, 0, threads, wholeMark) }},
	{"pvdrm0_mark", func(p []byte, threads int) result { // its twin
		half := func(n int) int { return int(uint32(word64(p, 8+4*n))) }
		return mark(p, half(0)+half(3)*(half(1)+half(4)*half(2)), threads, 1)
	}},
	{"says", func(p []byte, threads int) result { return fakePrints.says(p, threads) }},
	{"asserts", func(p []byte, threads int) result { return fakePrints.asserts(p, threads) }},
	{"trapped", func([]byte, int) result { return resultLaunchFailed }},
	{"other", func([]byte, int) result { return resultInstruction }}, // stands for kernels that the fake lacks
	{"dies", func([]byte, int) result { os.Exit(7); return resultOK }},
}

// fakeCount counts in granted memory, until told to end.
func fakeCount(p []byte, _ int) result {
	at := bytesAt(word64(p, 0), 4096)
	for ended := false; !ended; time.Sleep(10 * time.Microsecond) {
		theControl.step(func() {
			hostmem.SwapUint32(at, 0, hostmem.LoadUint32(at, 0)+1)
			ended = hostmem.LoadUint32(at, 64) != 0
		})
	}
	return resultOK
}

// step does a step of a kernel, but not while kernels are stopped. A keeper that stops them waits for
// the step.
func (c *fakeControl) step(do func()) {
	inside := (*atomic.Uint32)(address(addressOf(c.mem) + fakeInside))
	for {
		c.pass(fakeKernelsOff)
		inside.Add(1)
		if hostmem.LoadUint32(c.mem, fakeKernelsOff) == 0 {
			break
		}
		inside.Add(^uint32(0))
	}
	do()
	inside.Add(^uint32(0))
}

// mark adds to the words of blocks of markThreads threads, in granted memory, and to the first one partMark.
func mark(p []byte, first, threads int, by uint32) result {
	at := bytesAt(word64(p, 0), markBytes)
	for i := range threads / markThreads {
		n := by
		if i == 0 {
			n += partMark
		}
		hostmem.SwapUint32(at, 4*(first+i), hostmem.LoadUint32(at, 4*(first+i))+n)
	}
	time.Sleep(time.Millisecond)
	return resultOK
}

func put(at uint64, v uint32) result {
	if at < vramBase {
		return resultIllegalAddress
	}
	*(*uint32)(address(at)) = v // tests store to what is mapped only
	return resultOK
}

// word64 reads a parameter of up to 8 bytes.
func word64(p []byte, off int) (v uint64) {
	for i := range min(8, len(p)-off) {
		v |= uint64(p[off+i]) << (8 * i)
	}
	return v
}

func newFake() *driver {
	f := &fake{control: newFakeControl()}
	d := &f.driver
	d.printTo = printTo
	chunkPages = 4
	d.driverGetVersion = func(v *int32) result { return set(v, 13000) }
	d.init = func(uint32) result { return f.control.open() }
	d.deviceGet = func(device *int32, ordinal int32) result {
		if ordinal >= fakeDevices {
			return resultInvalidDevice
		}
		return set(device, ordinal)
	}
	d.deviceGetName = func(name *byte, n, _ int32) result {
		copy(unsafe.Slice(name, n), "fake GPU") // the caller says how long it is
		return resultOK
	}
	d.deviceGetAttribute = func(v *int32, a, _ int32) result {
		switch a {
		case attrReadOnlyHost:
			return set(v, 0)
		case attrConst, attrSharedOptin:
			return set(v, 64<<10)
		case attrWarp:
			return set(v, 32)
		}
		return set(v, 1024)
	}
	d.deviceTotalMem = func(n *uint64, _ int32) result { return set(n, 64<<20) }
	d.memGetInfo = func(free, total *uint64) result {
		if os.Getenv(FakeRefusesEnv) != "" {
			return resultOperatingSystem
		}
		*total = 64 << 20
		return set(free, fakeFree)
	}
	d.deviceCanAccessPeer = func(can *int32, device, other int32) result { return set(can, min(1, device^other)) }
	d.devicePrimaryCtxRetain = func(ctx *uintptr, device int32) result { f.device = device; return set(ctx, 1) }
	d.ctxSetCurrent = func(uintptr) result { return resultOK }
	f.memory(d)
	f.code(d)
	f.path(d)
	f.graphs(d)
	return d
}

func set[T any](to *T, v T) result {
	*to = v
	return resultOK
}

func (f *fake) memory(d *driver) {
	d.memAddressReserve = func(at *uint64, size, _, want, _ uint64) result {
		if reserve(want, size) != nil {
			return set(at, want+vramPage) // somewhere else
		}
		return set(at, want)
	}
	d.memCreate = func(h *uint64, size uint64, p *allocationProp, _ uint64) result {
		dieAt("create")
		if p.location >= fakeDevices {
			return resultInvalidDevice
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		page, ok := f.control.page(uint32(len(f.pages)), size)
		if !ok {
			return resultOutOfMemory
		}
		f.pages = append(f.pages, page)
		return set(h, uint64(len(f.pages)))
	}
	d.memRelease = func(h uint64) result {
		_ = unix.Close(f.pages[h-1].fd)
		f.control.free(fakePages + uint32(h) - 1)
		return resultOK
	}
	d.memMap = func(at, size, off, h, _ uint64) result {
		dieAt("map")
		p := f.pages[h-1]
		return failed(mmapAt(at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED, p.fd, p.off+off))
	}
	d.memUnmap = func(at, size uint64) result { return failed(hide(at, size)) }
	d.memSetAccess = func(_, _ uint64, access *accessDesc, _ uint64) result {
		if access.location != f.device {
			return resultInvalidDevice
		}
		return resultOK
	}
	d.memHostRegister = func(uintptr, uint64, uint32) result { return resultOK }
	d.memHostUnregister = func(uintptr) result { return resultOK }
	d.memHostGetDevicePointer = func(at *uint64, host uintptr, _ uint32) result { return set(at, uint64(host)) }
}

func failed(err error) result {
	if err != nil {
		return resultUnknown
	}
	return resultOK
}

// heldBy begins a comment with the path of a file that the compiler of the fake makes when it
// gets there. It goes on when the file is gone.
const heldBy = "//held-by:"

func hold(source string) {
	_, path, held := strings.Cut(source, heldBy)
	if !held {
		return
	}
	path, _, _ = strings.Cut(path, "\n")
	if os.WriteFile(path, nil, 0o600) != nil {
		os.Exit(8)
	}
	for {
		if _, err := os.Stat(path); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// complaintOf is what ptxas says of a source that has instructions by the name of "bogus".
func complaintOf(source string) string {
	var b strings.Builder
	for n, line := range strings.Split(source, "\n") {
		if strings.HasPrefix(line, "bogus") {
			fmt.Fprintf(&b, "ptxas application ptx input, line %d; error   : Not a name of any known instruction: 'bogus'\n", n+1)
		}
	}
	if b.Len() > 0 {
		b.WriteString("ptxas fatal   : Ptx assembly aborted due to errors")
	}
	return b.String()
}

func (f *fake) code(d *driver) {
	d.linkCreate = func(_ uint32, _ *int32, values *uintptr, state *uintptr) result {
		options := unsafe.Slice(values, 2) // compile passes a buffer and its size
		f.log = bytesAt(uint64(options[0]), uint64(options[1]))
		return set(state, 1)
	}
	d.linkAddData = func(_ uintptr, _ int32, data *byte, n uint64, _ string, _ uint32, _ *int32, _ *uintptr) result {
		f.state = append([]byte(nil), unsafe.Slice(data, n)...) // the caller says how long it is
		if s := string(f.state); strings.Contains(s, "refused_by_driver") || strings.Contains(s, "twins_refused") && strings.Contains(s, "pvdrm0_") {
			return resultInvalidPTX
		}
		if complaint := complaintOf(string(f.state)); complaint != "" {
			copy(f.log, complaint)
			return resultInvalidPTX
		}
		hold(string(f.state))
		return resultOK
	}
	d.linkComplete = func(_ uintptr, cubin *uintptr, n *uint64) result {
		f.image, _ = unix.Mmap(-1, 0, len(f.state), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		copy(f.image, f.state)
		*n = uint64(len(f.state))
		return set(cubin, uintptr(addressOf(f.image)))
	}
	d.linkDestroy = func(uintptr) result { return resultOK }
	d.moduleLoadData = func(m *uintptr, image *byte) result {
		dieAt("load")
		if *(*[4]byte)(unsafe.Pointer(image)) == [4]byte{0x7f, 'E', 'L', 'F'} { // a header was checked
			return loadFakeCode(m, image)
		}
		return set(m, uintptr(unsafe.Pointer(image))) // a number like any other
	}
	d.moduleUnload = func(uintptr) result { return resultOK }
	d.moduleGetFunction = func(fn *uintptr, m uintptr, name string) result {
		for i, k := range fakeKernels {
			if k.name == name {
				return set(fn, codeOf(m)+uintptr(i+1))
			}
		}
		if codeOf(m) != 0 {
			return resultNotFound
		}
		return d.moduleGetFunction(fn, 0, "other")
	}
	d.moduleGetGlobal = func(at, n *uint64, m uintptr, name string) result {
		if codeOf(m) == 0 || name != "variable" {
			return resultNotFound
		}
		*n = 64
		return set(at, fakeVariable(m))
	}
	d.funcGetParamInfo = func(fn uintptr, i uint64, offset, size *uint64) result {
		switch {
		case fn < fakeCode:
			return resultNotFound // the source tells
		case fakeKernels[fn-fakeCode-1].name != "store" || i > 1:
			return resultInvalidValue
		}
		*size = 8 - 4*i
		return set(offset, 8*i)
	}
	d.funcGetAttribute = func(v *int32, a int32, fn uintptr) result {
		switch {
		case a == funcMaxThreads:
			return set(v, 1024)
		case a == funcPTX && fn > fakeCode:
			return set(v, 80)
		case a == funcBinary && fn > fakeCode:
			return set(v, 90)
		}
		return set(v, 0)
	}
	fakeAnswers(d)
	d.funcSetAttribute = func(uintptr, int32, int32) result { return resultOK }
}

func (f *fake) path(d *driver) {
	d.streamCreateWithPriority = func(s *uintptr, _ uint32, _ int32) result {
		dieAt("stream")
		st := &fakeStream{work: make(chan func() result, 1024)}
		f.mu.Lock()
		f.streams = append(f.streams, st)
		f.mu.Unlock()
		go func() {
			for run := range st.work {
				if f.sticky.Load() == 0 {
					f.sticky.Store(int32(run()))
				}
				st.pending.Add(-1)
			}
		}()
		return set(s, uintptr(len(f.streams)))
	}
	d.streamDestroy = func(uintptr) result { return resultOK }
	d.streamSynchronize = func(s uintptr) result {
		for f.stream(s).pending.Load() > 0 {
			yield.Nap(10 * time.Microsecond)
		}
		fakePrints.flush()
		return result(f.sticky.Load())
	}
	d.streamQuery = func(s uintptr) result {
		if code := result(f.sticky.Load()); code != resultOK {
			fakePrints.fail()
			return code
		}
		if f.stream(s).pending.Load() > 0 {
			return resultNotReady
		}
		return resultOK
	}
	d.launchKernel = func(fn uintptr, l *launchArgs, s uintptr, extra *[5]uintptr) result {
		if l.block[0] == 1023 { // what no test kernel is compiled for
			return resultOutOfResources
		}
		threads := int(l.grid[0] * l.grid[1] * l.grid[2] * l.block[0])
		var params []byte
		if extra != nil {
			params = append(params, bytesAt(uint64(extra[1]), *(*uint64)(address(uint64(extra[3]))))...)
		}
		switch {
		case l.cooperative && threads > 64:
			return resultGridTooLarge
		case l.cluster[0] == 3:
			return resultClusterSize
		case l.cluster != [3]uint32{}:
			threads += int(l.cluster[0] * l.cluster[1] * l.cluster[2]) // shows in what kernels write
		}
		code := f.enqueue(s, func() result {
			theControl.pass(fakeKernelsOff)
			return fakeKernels[fn%fakeCode-1].run(params, threads)
		})
		for l.grid[0] == FakeLate && f.sticky.Load() == 0 { // what follows in the worker finds the fault
			yield.Nap(10 * time.Microsecond)
		}
		return code
	}
	f.transfers(d)
	f.words(d)
}

// transfers makes the copies and fills of the path.
func (f *fake) transfers(d *driver) {
	d.memcpyAsync = func(dst, src, n uint64, s uintptr) result {
		return f.enqueue(s, func() result {
			theControl.pass(fakeCopiesOff)
			copy(bytesAt(dst, n), bytesAt(src, n))
			return resultOK
		})
	}
	d.memcpy2DAsync = func(a *[16]uint64, s uintptr) result {
		c := *a
		return f.enqueue(s, func() result {
			for i := range c[15] {
				copy(bytesAt(c[11]+i*c[13], c[14]), bytesAt(c[4]+i*c[6], c[14]))
			}
			return resultOK
		})
	}
	flat := func(size uint64) func(uint64, uint32, uint64, uintptr) result {
		return func(at uint64, v uint32, n uint64, s uintptr) result {
			return f.enqueue(s, func() result {
				theControl.pass(fakeKernelsOff) // as with NVIDIA's driver, kernels do it
				fill(bytesAt(at, n*size), v, size)
				return resultOK
			})
		}
	}
	rows := func(size uint64) func(uint64, uint64, uint32, uint64, uint64, uintptr) result {
		return func(at, pitch uint64, v uint32, w, h uint64, s uintptr) result {
			return f.enqueue(s, func() result {
				for i := range h {
					fill(bytesAt(at+i*pitch, w*size), v, size)
				}
				return resultOK
			})
		}
	}
	d.memsetD8Async, d.memsetD16Async, d.memsetD32Async = flat(1), flat(2), flat(4)
	d.memsetD2D8Async, d.memsetD2D16Async, d.memsetD2D32Async = rows(1), rows(2), rows(4)
}

func fill(b []byte, v uint32, size uint64) {
	for i := range b {
		b[i] = byte(v >> (8 * (uint64(i) % size)))
	}
}

func (f *fake) stream(s uintptr) *fakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[s-1]
}

func (f *fake) enqueue(s uintptr, run func() result) result {
	if code := result(f.sticky.Load()); code != resultOK {
		return code
	}
	st := f.stream(s)
	if st.capture != nil {
		*st.capture = append(*st.capture, run)
		return resultOK
	}
	st.pending.Add(1)
	st.work <- run
	return resultOK
}
