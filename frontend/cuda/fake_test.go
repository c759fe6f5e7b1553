package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu"
)

// fakeGPU is a device behind drm.File, for tests. It has no goroutines: work
// runs inside the calls, either as soon as it may (the default) or, with lazy
// set, only when somebody waits for it for ever. The latter shows work that was
// not waited for, and memory that was used again too early.
type fakeGPU struct {
	mu       sync.Mutex
	params   map[drm.Param]uint64
	name     string // of the driver
	kernels  map[string]*fakeKernel
	lazy     bool
	open     int // files
	channels int // free ones
	vramFree uint64
	taken    func(addr, size uint64) bool // whether something lies in the program there; may be nil
	clock    uint64
	calls    map[string]int

	failIn     int   // the failIn-th call from now on fails with failWith, if above 0
	failWith   error // wraps an errno
	failOnly   string
	failed     string // the call that was made to fail
	opened     []*fakeFile
	violations []string
}

type fakeKernel struct {
	attr drm.FunctionAttributes
	run  func(f *fakeFile, params []byte) *gpu.LostError
}

func newFakeGPU(t *testing.T) *fakeGPU {
	g := &fakeGPU{name: drm.DriverName, kernels: map[string]*fakeKernel{}, channels: 6,
		vramFree: 64 << 20, calls: map[string]int{}}
	g.params = map[drm.Param]uint64{
		drm.ParamComputeMajor: 7, drm.ParamComputeMinor: 5, drm.ParamMultiprocs: 4, drm.ParamWarpSize: 32,
		drm.ParamMaxThreads: 1024, drm.ParamMaxBlockX: 1024, drm.ParamMaxBlockY: 1024, drm.ParamMaxBlockZ: 64,
		drm.ParamMaxGridX: 1<<31 - 1, drm.ParamMaxGridY: 65535, drm.ParamMaxGridZ: 65535,
		drm.ParamSharedPerBlock: 48 << 10, drm.ParamRegsPerBlock: 65536, drm.ParamMaxThreadsSM: 2048,
		drm.ParamConstBytes: 64 << 10, drm.ParamClockKHz: 1e6, drm.ParamMemClockKHz: 2e6, drm.ParamMemBusBits: 256,
		drm.ParamL2Bytes: 1 << 20, drm.ParamVRAMBytes: 64 << 20, drm.ParamMaxChannels: 6, drm.ParamMaxParamBytes: 4096,
		drm.ParamVRAMBase: 1 << 40, drm.ParamVRAMSize: 1 << 36, drm.ParamVRAMPage: 2 << 20,
		drm.ParamSystemBase: 1 << 41, drm.ParamSystemSize: 1 << 34, drm.ParamSystemPage: 4096,
	}
	t.Cleanup(func() {
		require.Empty(t, g.violations)
		require.Zero(t, g.open, "files left open")
		require.EqualValues(t, 64<<20, g.vramFree, "device memory left")
	})
	return g
}

func (g *fakeGPU) opener() (drm.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.call("open"); err != nil {
		return nil, err
	}
	g.open++
	f := &fakeFile{g: g, objects: map[uint32]*fakeObject{}, channels: map[uint32]*fakeChannel{},
		modules: map[uint32]*fakeModule{}, functions: map[uint32]*fakeKernel{}, nextGlobal: 1 << 42}
	g.opened = append(g.opened, f)
	return f, nil
}

// call counts a call and fails it when that was asked for.
func (g *fakeGPU) call(name string) error {
	g.calls[name]++
	if g.failIn > 0 && (g.failOnly == "" || g.failOnly == name) {
		if g.failIn--; g.failIn == 0 {
			g.failed = name
			return fmt.Errorf("%s: %w", name, g.failWith)
		}
	}
	return nil
}

// failNext makes the n-th call of a method ("" for any) from now on fail.
func (g *fakeGPU) failNext(n int, method string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failIn, g.failOnly, g.failWith = n, method, err
}

func (g *fakeGPU) setLazy(lazy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lazy = lazy
}

func (g *fakeGPU) violation(format string, args ...any) {
	g.violations = append(g.violations, fmt.Sprintf(format, args...))
}

// fakeFile is one open file. Everything is guarded by fakeGPU.mu.
type fakeFile struct {
	g          *fakeGPU
	closed     bool
	nextID     uint32
	nextGlobal uint64
	objects    map[uint32]*fakeObject
	maps       []fakeMapping
	channels   map[uint32]*fakeChannel
	modules    map[uint32]*fakeModule
	functions  map[uint32]*fakeKernel
	asyncErr   error
	lost       *gpu.LostError
	gone       bool
}

type fakeObject struct {
	data   []byte
	domain drm.Domain
	placed bool // GemMapAt
}

type fakeMapping struct {
	addr uint64
	data []byte
	obj  uint32 // 0 for a variable of a module
	mod  uint32

	readOnly bool
}

type fakeChannel struct {
	submitted, done uint64
	queue           []fakeJob
}

type fakeJob struct {
	stream []byte
	waits  []drm.Point
}

type fakeModule struct{ names map[string]fakeMapping }

func (f *fakeFile) enter(name string) error {
	if f.closed {
		f.g.violation("%s on a closed file", name)
		return syscall.EBADF
	}
	if err := f.g.call(name); err != nil {
		return err
	}
	if f.gone {
		return fmt.Errorf("%s: %w", name, syscall.ENODEV)
	}
	return nil
}

// live is nil unless the context is lost.
func (f *fakeFile) live() error {
	if f.lost != nil {
		return fmt.Errorf("the context is lost: %w", syscall.EIO)
	}
	return nil
}

func (f *fakeFile) id() uint32 { f.nextID++; return f.nextID }

func (f *fakeFile) Version() (drm.Info, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	return drm.Info{Name: f.g.name, Desc: "Fake GPU", Major: drm.DriverMajor}, f.enter("Version")
}

func (f *fakeFile) GetParam(p drm.Param) (uint64, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("GetParam"); err != nil {
		return 0, err
	}
	if p == drm.ParamVRAMUsed {
		return f.g.params[drm.ParamVRAMBytes] - f.g.vramFree, nil
	}
	v, ok := f.g.params[p]
	if !ok {
		return 0, syscall.EINVAL
	}
	return v, nil
}

func (f *fakeFile) GemNew(size uint64, d drm.Domain, _ drm.GemFlags) (uint32, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("GemNew"), f.live()); err != nil {
		return 0, err
	}
	if d == drm.DomainVRAM {
		if size > f.g.vramFree {
			return 0, fmt.Errorf("no device memory left: %w", syscall.ENOMEM)
		}
		f.g.vramFree -= size
	}
	h := f.id()
	f.objects[h] = &fakeObject{data: make([]byte, size), domain: d}
	return h, nil
}

func (f *fakeFile) GemMap(h uint32) ([]byte, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("GemMap"); err != nil {
		return nil, err
	}
	o := f.objects[h]
	if o == nil || o.domain != drm.DomainSystem {
		f.g.violation("GemMap of handle %d", h)
		return nil, syscall.EINVAL
	}
	return o.data, nil
}

func (f *fakeFile) GemMapAt(h uint32, addr, size uint64) ([]byte, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("GemMapAt"); err != nil {
		return nil, err
	}
	o := f.objects[h]
	if o == nil || o.domain != drm.DomainSystem || o.placed || size == 0 || size > uint64(len(o.data)) {
		f.g.violation("GemMapAt of handle %d", h)
		return nil, syscall.EINVAL
	}
	if f.g.taken != nil && f.g.taken(addr, size) {
		return nil, syscall.EEXIST
	}
	o.placed = true
	return o.data[:size], nil
}

func (f *fakeFile) GemUnmapAt(mem []byte) error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	for _, o := range f.objects {
		if o.placed && &o.data[0] == &mem[0] {
			o.placed = false
			return f.enter("GemUnmapAt")
		}
	}
	f.g.violation("GemUnmapAt of what is not mapped")
	return syscall.EINVAL
}

func (f *fakeFile) GemSize(h uint32) (uint64, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	o := f.objects[h]
	if o == nil {
		return 0, syscall.ENOENT
	}
	return uint64(len(o.data)), nil
}

func (f *fakeFile) GemClose(h uint32) error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("GemClose"); err != nil {
		return err
	}
	o := f.objects[h]
	if o == nil {
		f.g.violation("GemClose of handle %d, which is not open", h)
		return syscall.ENOENT
	}
	if o.placed {
		f.g.violation("GemClose of handle %d before GemUnmapAt", h)
	}
	f.dropObject(h, o)
	return f.live()
}

func (f *fakeFile) dropObject(h uint32, o *fakeObject) {
	kept := f.maps[:0]
	for _, m := range f.maps {
		if m.obj != h {
			kept = append(kept, m)
			continue
		}
		f.used(m, "is closed")
	}
	f.maps = kept
	if o.domain == drm.DomainVRAM {
		f.g.vramFree += uint64(len(o.data))
	}
	// Whoever still looks finds no data of the past.
	for i := range o.data {
		o.data[i] = 0xdd
	}
	delete(f.objects, h)
}

func (f *fakeFile) ChannelAlloc() (uint32, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("ChannelAlloc"), f.live()); err != nil {
		return 0, err
	}
	if f.g.channels == 0 {
		return 0, fmt.Errorf("no channel left: %w", syscall.EBUSY)
	}
	f.g.channels--
	// Ids are used again at once, and sequence numbers begin anew.
	var id uint32
	for f.channels[id] != nil {
		id++
	}
	f.channels[id] = &fakeChannel{}
	return id, nil
}

func (f *fakeFile) ChannelFree(id uint32) error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("ChannelFree"); err != nil {
		return err
	}
	ch := f.channels[id]
	if ch == nil {
		f.g.violation("ChannelFree of %d, which is not allocated", id)
		return syscall.ENOENT
	}
	if len(ch.queue) > 0 && f.lost == nil && f.g.failed == "" {
		f.g.violation("channel %d is freed with work queued", id)
	}
	delete(f.channels, id)
	f.g.channels++
	return f.live()
}

func (f *fakeFile) Exec(id uint32, stream []byte, waits []drm.Point) (uint64, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("Exec"), f.live()); err != nil {
		return 0, err
	}
	ch := f.channels[id]
	if ch == nil || len(stream) == 0 || len(stream) > drm.MaxExecBytes || len(waits) > drm.MaxWaits {
		f.g.violation("Exec on channel %d, %d bytes, %d waits", id, len(stream), len(waits))
		return 0, syscall.EINVAL
	}
	for _, w := range waits {
		if o := f.channels[w.Channel]; o == nil || w.Seqno > o.submitted || w.Channel == id {
			f.g.violation("Exec waits for %+v", w)
			return 0, syscall.EINVAL
		}
	}
	ch.queue = append(ch.queue, fakeJob{bytes.Clone(stream), append([]drm.Point(nil), waits...)})
	ch.submitted++
	if !f.g.lazy {
		f.runUntil(ch, ch.submitted)
	}
	return ch.submitted, nil
}

// runUntil runs what must run for ch to come to seq, and nothing else.
func (f *fakeFile) runUntil(ch *fakeChannel, seq uint64) {
	for ch.done < seq {
		j := ch.queue[0]
		for _, w := range j.waits {
			// A channel that is gone had nothing left to run.
			if o := f.channels[w.Channel]; o != nil {
				f.runUntil(o, min(w.Seqno, o.submitted))
			}
		}
		ch.queue = ch.queue[1:]
		ch.done++
		if f.lost == nil {
			if _, err := drm.WalkCommands(j.stream, fakeEngine{f}); err != nil && f.lost == nil {
				f.g.violation("command: %v", err)
			}
		}
	}
}

func (f *fakeFile) Wait(p drm.Point, timeout time.Duration) error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("Wait"); err != nil {
		return err
	}
	if err := f.asyncErr; err != nil {
		f.asyncErr = nil
		return err
	}
	ch := f.channels[p.Channel]
	if ch == nil || p.Seqno > ch.submitted {
		f.g.violation("Wait for %+v, which was never submitted", p)
		return syscall.ENOENT
	}
	if timeout < 0 {
		f.runUntil(ch, p.Seqno)
	}
	if err := f.live(); err != nil {
		return err
	}
	if ch.done < p.Seqno {
		return syscall.ETIME
	}
	return nil
}

func (f *fakeFile) LostStatus() (uint32, string, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("LostStatus"); err != nil || f.lost == nil {
		return 0, "", err
	}
	return uint32(f.lost.Cause), f.lost.Error(), nil
}

func (f *fakeFile) Close() error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if f.closed {
		f.g.violation("file closed twice")
		return syscall.EBADF
	}
	err := f.g.call("Close")
	// What a call that frees left behind when it failed is freed here, as in
	// Linux. All else the program must have freed itself.
	freeing := f.gone
	for _, m := range []string{"GemClose", "ChannelFree", "ModuleUnload"} {
		freeing = freeing || f.g.failed == m
	}
	if !freeing && (len(f.objects) > 0 || len(f.channels) > 0 || len(f.modules) > 0) {
		f.g.violation("closed with %d objects, %d channels, %d modules", len(f.objects), len(f.channels), len(f.modules))
	}
	f.lost = &gpu.LostError{}
	for h, o := range f.objects {
		f.dropObject(h, o)
	}
	f.g.channels += len(f.channels)
	f.closed = true
	f.g.open--
	return err
}
