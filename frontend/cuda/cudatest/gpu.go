// Package cudatest is a GPU for tests of the CUDA driver API: the layer below it, drm.File,
// in memory and without a backend. It counts calls, makes them fail where a test asks for it and
// holds work back, so that errors and orders that a device shows seldom can be tested.
package cudatest

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
)

// GPU is a device behind drm.File, for tests. It has no goroutines: work runs inside the
// calls, either as soon as it may (the default) or, with Lazy set, only when a caller waits for it
// without a limit. The latter shows work that was not waited for, and memory that was used again
// too early. What callers do wrong is a violation, for which the end of the test fails.
type GPU struct {
	mu             sync.Mutex
	Params         map[drm.Param]uint64
	Library        func(c drm.CallCmd, results []byte) // runs calls of libraries, whose arguments are in the stream; nil: there are none
	Name           string                              // of the driver
	Kernels        map[string]*Kernel
	Image          []byte // the machine code that was loaded last
	Refusal        string // of machine code
	Lazy           bool
	Open           int                          // files
	Channels       int                          // free ones
	VRAMFree, Left uint64                       // Left: bytes that nobody has of the GPU that it stands for
	Taken          func(addr, size uint64) bool // reports whether something lies in the program there; may be nil
	Calls          map[string]int
	Failed         string // the call that was made to fail
	Opened         []*File
	Violations     []string

	Peers []*GPU // of which files have shared memory, too; tests make no calls at both at once

	shared   map[drm.Key]*object
	keys     uint64 // that were made
	clock    uint64
	failIn   int   // the failIn-th call from now on fails with failWith, if above 0
	failWith error // wraps an errno
	failOnly string
}

// Kernel is a function of modules. Run gets the parameters of a launch, and returns how the
// context was lost, if it was.
type Kernel struct {
	Attributes drm.FunctionAttributes
	Run        func(f *File, params []byte) *Fault
}

// NewGPU makes a device. The end of the test checks that everything was given back.
func NewGPU(t *testing.T) *GPU {
	g := Bare()
	t.Cleanup(func() {
		require.Empty(t, g.Violations)
		require.Zero(t, g.Open, "files left open")
		require.EqualValues(t, 64<<20, g.VRAMFree, "device memory left")
	})
	return g
}

// Bare makes a device that nothing checks: for examples.
func Bare() *GPU {
	g := &GPU{Name: drm.DriverName, Kernels: map[string]*Kernel{}, Channels: 6,
		VRAMFree: 64 << 20, Calls: map[string]int{}}
	g.Params = map[drm.Param]uint64{
		drm.ParamComputeMajor: 7, drm.ParamComputeMinor: 5, drm.ParamMultiprocs: 4, drm.ParamWarpSize: 32,
		drm.ParamMaxThreads: 1024, drm.ParamMaxBlockX: 1024, drm.ParamMaxBlockY: 1024, drm.ParamMaxBlockZ: 64,
		drm.ParamMaxGridX: 1<<31 - 1, drm.ParamMaxGridY: 65535, drm.ParamMaxGridZ: 65535,
		drm.ParamSharedPerBlock: 48 << 10, drm.ParamRegsPerBlock: 65536, drm.ParamMaxThreadsSM: 2048, drm.ParamMaxBlocksSM: 32, drm.ParamDevice: 0, drm.ParamTextures: 1, drm.ParamCooperative: 1, drm.ParamWords: 1, drm.ParamShares: 0, drm.ParamMaxCluster: 16, drm.ParamLibraries: 0, drm.ParamImages: 0, drm.ParamPeers: 0,
		drm.ParamConstBytes: 64 << 10, drm.ParamClockKHz: 1e6, drm.ParamMemClockKHz: 2e6, drm.ParamMemBusBits: 256,
		drm.ParamL2Bytes: 1 << 20, drm.ParamVRAMBytes: 64 << 20, drm.ParamMaxChannels: 6, drm.ParamMaxParamBytes: 4096,
		drm.ParamVRAMBase: 1 << 40, drm.ParamVRAMSize: 1 << 36, drm.ParamVRAMPage: 2 << 20,
		drm.ParamSystemBase: 1 << 41, drm.ParamSystemSize: 1 << 34, drm.ParamSystemPage: 4096,
	}
	return g
}

// Opener opens a file of the device; it is a cuda.Opener.
func (g *GPU) Opener() (drm.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.call("open"); err != nil {
		return nil, err
	}
	g.Open++
	f := &File{g: g, objects: map[uint32]*object{}, channels: map[uint32]*channel{},
		modules: map[uint32]*module{}, functions: map[uint32]*Kernel{}, nextGlobal: 1 << 42}
	g.Opened = append(g.Opened, f)
	return f, nil
}

// call counts a call and fails it when that was asked for.
func (g *GPU) call(name string) error {
	g.Calls[name]++
	if g.failIn > 0 && (g.failOnly == "" || g.failOnly == name) {
		if g.failIn--; g.failIn == 0 {
			g.Failed = name
			return fmt.Errorf("%s: %w", name, g.failWith)
		}
	}
	return nil
}

// FailNext makes the n-th call of a method ("" for any) from now on fail.
func (g *GPU) FailNext(n int, method string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failIn, g.failOnly, g.failWith = n, method, err
}

// SetLazy changes Lazy while calls may be made.
func (g *GPU) SetLazy(lazy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Lazy = lazy
}

func (g *GPU) violation(format string, args ...any) {
	g.Violations = append(g.Violations, fmt.Sprintf(format, args...))
}

// File is an open file: a context. GPU.mu guards everything.
type File struct {
	g          *GPU
	closed     bool
	nextID     uint32
	nextGlobal uint64
	objects    map[uint32]*object
	maps       []mapping
	channels   map[uint32]*channel
	modules    map[uint32]*module
	functions  map[uint32]*Kernel
	AsyncErr   error // of the next Wait
	Lost       *Fault
	Gone       bool // every call is ENODEV from now on
}

type object struct {
	data   []byte
	domain drm.Domain
	placed bool // GemMapAt
	others int  // handles of it, here and in other files, but for one
	key    drm.Key
	of     *GPU // that has it
}

type mapping struct {
	addr uint64
	data []byte
	obj  uint32 // 0 for a variable of a module
	mod  uint32

	readOnly bool
}

type channel struct {
	submitted, done uint64
	queue           []job
}

type job struct {
	stream []byte
	waits  []drm.Point
}

type module struct{ names map[string]mapping }

// Waits returns the points that each batch in a channel's queue waits for.
func (f *File) Waits(channel uint32) (all [][]drm.Point) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	for _, j := range f.channels[channel].queue {
		all = append(all, j.waits)
	}
	return all
}

func (f *File) enter(name string) error {
	if f.closed {
		f.g.violation("%s on a closed file", name)
		return syscall.EBADF
	}
	if err := f.g.call(name); err != nil {
		return err
	}
	if f.Gone {
		return fmt.Errorf("%s: %w", name, syscall.ENODEV)
	}
	return nil
}

// live is nil unless the context is lost.
func (f *File) live() error {
	if f.Lost != nil {
		return fmt.Errorf("the context is lost: %w", syscall.EIO)
	}
	return nil
}

func (f *File) id() uint32 { f.nextID++; return f.nextID }

func (f *File) Version() (drm.Info, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	return drm.Info{Name: f.g.Name, Desc: "Fake GPU", Major: drm.DriverMajor}, f.enter("Version")
}

func (f *File) GetParam(p drm.Param) (uint64, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("GetParam"); err != nil {
		return 0, err
	}
	if p == drm.ParamVRAMUsed {
		return f.g.Params[drm.ParamVRAMBytes] - f.g.VRAMFree, nil
	}
	v, ok := f.g.Params[p]
	if !ok {
		return 0, syscall.EINVAL
	}
	return v, nil
}

func (f *File) GemNew(size uint64, d drm.Domain, _ drm.GemFlags) (uint32, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("GemNew"), f.live()); err != nil {
		return 0, err
	}
	if d == drm.DomainVRAM {
		if size > f.g.VRAMFree {
			return 0, fmt.Errorf("no device memory left: %w", syscall.ENOMEM)
		}
		f.g.VRAMFree -= size
	}
	h := f.id()
	f.objects[h] = &object{of: f.g, data: make([]byte, size), domain: d}
	return h, nil
}

func (f *File) GemMap(h uint32) ([]byte, error) {
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

func (f *File) GemMapAt(h uint32, addr, size uint64) ([]byte, error) {
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
	if f.g.Taken != nil && f.g.Taken(addr, size) {
		return nil, syscall.EEXIST
	}
	o.placed = true
	return o.data[:size], nil
}

func (f *File) GemUnmapAt(mem []byte) error {
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

func (f *File) GemSize(h uint32) (uint64, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	o := f.objects[h]
	if o == nil {
		return 0, syscall.ENOENT
	}
	return uint64(len(o.data)), nil
}

func (f *File) GemClose(h uint32) error {
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

func (f *File) dropObject(h uint32, o *object) {
	kept := f.maps[:0]
	for _, m := range f.maps {
		if m.obj != h {
			kept = append(kept, m)
			continue
		}
		f.used(m, "is closed")
	}
	f.maps = kept
	delete(f.objects, h)
	if o.others--; o.others >= 0 {
		return
	}
	delete(o.of.shared, o.key)
	if o.domain == drm.DomainVRAM {
		o.of.VRAMFree += uint64(len(o.data))
	}
	// A test that still looks finds no data of the past.
	for i := range o.data {
		o.data[i] = 0xdd
	}
}

func (f *File) ChannelAlloc() (uint32, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := errors.Join(f.enter("ChannelAlloc"), f.live()); err != nil {
		return 0, err
	}
	if f.g.Channels == 0 {
		return 0, fmt.Errorf("no channel left: %w", syscall.EBUSY)
	}
	f.g.Channels--
	// Ids are used again at once, and sequence numbers start over.
	var id uint32
	for f.channels[id] != nil {
		id++
	}
	f.channels[id] = &channel{}
	return id, nil
}

func (f *File) ChannelFree(id uint32) error {
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
	if len(ch.queue) > 0 && f.Lost == nil && f.g.Failed == "" {
		f.g.violation("channel %d is freed with work queued", id)
	}
	delete(f.channels, id)
	f.g.Channels++
	return f.live()
}

func (f *File) Exec(id uint32, stream []byte, waits []drm.Point) (uint64, error) {
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
	ch.queue = append(ch.queue, job{bytes.Clone(stream), append([]drm.Point(nil), waits...)})
	ch.submitted++
	if !f.g.Lazy {
		f.runUntil(ch, ch.submitted)
	}
	return ch.submitted, nil
}

// runUntil runs what must run for ch to come to seq, and nothing else.
func (f *File) runUntil(ch *channel, seq uint64) {
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
		if f.Lost == nil {
			if _, err := drm.WalkCommands(j.stream, engine{f}); err != nil && f.Lost == nil {
				f.g.violation("command: %v", err)
			}
		}
	}
}

func (f *File) Wait(p drm.Point, timeout time.Duration) error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("Wait"); err != nil {
		return err
	}
	if err := f.AsyncErr; err != nil {
		f.AsyncErr = nil
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

func (f *File) LostStatus() (uint32, string, error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.enter("LostStatus"); err != nil || f.Lost == nil {
		return 0, "", err
	}
	return uint32(f.Lost.Cause), f.Lost.Error(), nil
}

func (f *File) Close() error {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if f.closed {
		f.g.violation("file closed twice")
		return syscall.EBADF
	}
	err := f.g.call("Close")
	// What a call that frees left behind when it failed is freed here, as in
	// Linux. All else the program must have freed itself.
	freeing := f.Gone
	for _, m := range []string{"GemClose", "ChannelFree", "ModuleUnload"} {
		freeing = freeing || f.g.Failed == m
	}
	if !freeing && (len(f.objects) > 0 || len(f.channels) > 0 || len(f.modules) > 0) {
		f.g.violation("closed with %d objects, %d channels, %d modules", len(f.objects), len(f.channels), len(f.modules))
	}
	f.Lost = &Fault{}
	for h, o := range f.objects {
		f.dropObject(h, o)
	}
	f.g.Channels += len(f.channels)
	f.closed = true
	f.g.Open--
	return err
}
