package frontend

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend/carrier"
	"pvdrm/gem"
	"pvdrm/hypercall"
)

// SocketEnv names the environment variable with the path of a local backend's socket. Those of further
// devices are in variables with a number behind that name; see SocketEnvOf.
const SocketEnv = "PVDRM_SOCKET"

// SocketEnvOf names the environment variable with the path of the socket of a device, which are numbered
// from 0 on: PVDRM_SOCKET, PVDRM_SOCKET_1, PVDRM_SOCKET_2 and so on. The first that is not set, or empty,
// ends the list.
func SocketEnvOf(device int) string {
	if device == 0 {
		return SocketEnv
	}
	return SocketEnv + "_" + strconv.Itoa(device)
}

// MaxDevices bounds the devices of a process.
const MaxDevices = 16

const (
	pageBytes = 4096
	maxBatch  = hypercall.MaxBinds
)

// File is an open DRM file of PVDRM's driver.
type File struct {
	link  *link
	name  string // of the device
	param []uint64

	life   sync.RWMutex // see the package's comment
	closed atomic.Bool

	mu       sync.Mutex
	objects  *gem.Objects[carrier.Pages]
	modules  *gem.Table[*module]
	funcs    *gem.Table[struct{}]
	channels *gem.Table[*channel]
	events   *gem.Table[struct{}]
	syncobjs *gem.Syncobjs
	expiry   *time.Timer // drops what is too old in the pool; nil while that is empty

	loadMu sync.Mutex // one module load at a time: it owns the bulk area
}

var (
	_ drm.Driver = (*File)(nil)
	_ drm.Placer = (*File)(nil)
)

// channel is a channel of the backend.
type channel struct {
	mu        sync.Mutex // orders Exec, so that sequence numbers arrive in order
	submitted uint64
	scratch   []byte // the message of one Exec
}

// New opens a file over a carrier, which it owns from then on.
func New(c carrier.Carrier) (*File, error) {
	cfg, err := ConfigFromEnv()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return NewConfig(c, cfg)
}

// NewSeparate is New for programs in other processes, whose calls are made by
// goroutines that are bound to threads. Waits, which must not block, is called
// before one of them waits for long; see Config.
func NewSeparate(c carrier.Carrier, waits func()) (*File, error) {
	cfg, err := ConfigFromEnv()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	cfg.Separate, cfg.Bound, cfg.Waits = true, true, waits
	return NewConfig(c, cfg)
}

// NewConfig is New with switches that do not come from the environment.
func NewConfig(c carrier.Carrier, cfg Config) (*File, error) {
	layout := hypercall.DefaultLayout
	f := &File{
		objects:  gem.NewObjects[carrier.Pages](),
		modules:  gem.NewTable[*module]("module", drm.MaxModules),
		funcs:    gem.NewTable[struct{}]("function", drm.MaxFunctions),
		channels: gem.NewTable[*channel]("channel", drm.MaxChannels),
		events:   gem.NewTable[struct{}]("event", drm.MaxEvents),
		syncobjs: gem.NewSyncobjs(drm.MaxSyncobjs),
	}
	var err error
	f.link, err = newLink(c, layout, cfg)
	if err == nil {
		err = f.objects.UseSlab(f.link.pages, slabStart(layout), slabBytes)
	}
	if err == nil {
		err = f.readProperties(cfg)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", c.Name(), err)
		_ = c.Close() // err is what to report
		return nil, err
	}
	return f, nil
}

func (f *File) readProperties(cfg Config) error {
	owner := hypercall.Owner{Process: uint32(os.Getpid())}
	if cfg.Unlisted {
		owner.Process = 0
	}
	b, err := f.link.doWithin(hypercall.OpProperties, owner.Append(nil), greeting)
	if err != nil {
		return err
	}
	p, err := hypercall.DecodeProperties(b)
	if err != nil {
		return fmt.Errorf("properties: %w", err)
	}
	if len(p.Values) < drm.NumParams {
		return fmt.Errorf("the backend answers %d properties, want %d: %w", len(p.Values), drm.NumParams, syscall.EPROTO)
	}
	f.name, f.param = p.Name, p.Values
	return nil
}

// errClosed is the error of calls on a closed file.
var errClosed = fmt.Errorf("the file is closed: %w", syscall.EBADF)

// enter begins a call that uses the link or granted memory; leave ends it. Calls
// do not nest.
func (f *File) enter() error {
	f.life.RLock()
	if f.closed.Load() {
		f.life.RUnlock()
		return errClosed
	}
	return nil
}

func (f *File) leave() { f.life.RUnlock() }

// Close closes the file. The backend frees what it had. Calls of other goroutines
// that wait for the backend end with EBADF first. Memory of GemMap is gone then.
func (f *File) Close() error {
	if !f.closed.CompareAndSwap(false, true) {
		return fmt.Errorf("close: %w", syscall.EBADF)
	}
	f.link.shut()
	f.life.Lock() // those who were inside have left
	defer f.life.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.expiry != nil {
		f.expiry.Stop()
	}
	var pages []*carrier.Pages
	for _, o := range f.objects.All {
		if o.Pages != nil && !o.InSlab {
			pages = append(pages, o.Pages)
		}
	}
	c := f.link.carrier
	// The end of the carrier ends the session and everything of it; only our own
	// mappings need undoing.
	var errs []error
	for _, p := range append(pages, f.link.pages) {
		errs = append(errs, unmap(p.Mem))
	}
	return errors.Join(append(errs, c.Close())...)
}

// Ioctl serves one ioctl, see drm.Ioctl.
func (f *File) Ioctl(req drm.Request, arg []byte, mem drm.UserMemory) error {
	return drm.Ioctl(f, req, arg, mem)
}

// Version is DRM_IOCTL_VERSION.
func (f *File) Version() (drm.Info, error) {
	return drm.Info{Name: drm.DriverName, Desc: f.name, Major: drm.DriverMajor, Minor: drm.DriverMinor}, nil
}

// GetParam is PVDRM_GETPARAM.
func (f *File) GetParam(p drm.Param) (uint64, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	if p == drm.ParamVRAMUsed {
		var r room
		b, err := f.link.doInto(hypercall.OpMemoryInfo, nil, &r)
		f.life.RUnlock() // leave, but neither deferred nor a call: this is the null ioctl
		if err != nil {
			return 0, err
		}
		m, err := hypercall.DecodeMemoryInfo(b)
		return m.Used, err
	}
	defer f.leave()
	if p >= 1 && uint64(p) <= uint64(len(f.param)) {
		return f.param[p-1], nil
	}
	return 0, fmt.Errorf("parameter %d: %w", p, syscall.EINVAL)
}

// ChannelAlloc is PVDRM_CHANNEL_ALLOC.
func (f *File) ChannelAlloc() (uint32, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	id, err := add(f, f.channels, &channel{})
	if err != nil {
		return 0, err
	}
	_, err = f.link.do(hypercall.OpChannelAlloc, hypercall.ID{ID: id}.Append(nil))
	if err != nil {
		_, _ = take(f, f.channels, id) // it is ours; err is what to report
		return 0, err
	}
	return id, nil
}

// ChannelFree is PVDRM_CHANNEL_FREE. What is queued is dropped, what runs is waited for.
func (f *File) ChannelFree(id uint32) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	if _, err := get(f, f.channels, id); err != nil {
		return err
	}
	_, err := f.link.do(hypercall.OpChannelFree, hypercall.ID{ID: id}.Append(nil))
	f.mu.Lock()
	f.syncobjs.ChannelFreed(id)
	f.mu.Unlock()
	_, gone := take(f, f.channels, id) // only now: the id may not be used again before
	return errors.Join(err, gone)
}

// Exec is PVDRM_EXEC.
func (f *File) Exec(id uint32, stream []byte, waits []drm.Point) (uint64, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	if len(stream) > drm.MaxExecBytes || len(waits) > drm.MaxWaits {
		return 0, fmt.Errorf("exec of %d bytes with %d waits: %w", len(stream), len(waits), syscall.E2BIG)
	}
	ch, err := get(f, f.channels, id)
	if err != nil {
		return 0, err
	}
	m := hypercall.Exec{Channel: id, Waits: waits, Stream: stream}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	m.Seqno = ch.submitted + 1
	ch.scratch = m.Append(ch.scratch[:0])
	if err := f.link.post(hypercall.OpExec, ch.scratch); err != nil {
		return 0, err
	}
	ch.submitted = m.Seqno
	return m.Seqno, nil
}

// Wait is PVDRM_WAIT.
func (f *File) Wait(p drm.Point, timeout time.Duration) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	ch, err := get(f, f.channels, p.Channel)
	if err != nil {
		return err
	}
	ch.mu.Lock()
	submitted := ch.submitted
	ch.mu.Unlock()
	if p.Seqno > submitted {
		return fmt.Errorf("point %d of channel %d, which has %d: %w", p.Seqno, p.Channel, submitted, syscall.EINVAL)
	}
	if err := f.link.flush(); err != nil {
		return err
	}
	err = f.link.waitFor(func() bool { return f.link.ring.Done(p.Channel) >= p.Seqno }, p, timeout)
	if err != nil {
		return fmt.Errorf("wait for point %d of channel %d: %w", p.Seqno, p.Channel, err)
	}
	if err := f.link.takeAsync(); err != nil {
		return err
	}
	r := f.link.ring.Channel(p.Channel)
	if r.Failed == 0 || r.Failed > p.Seqno {
		return nil
	}
	if r.Failed < p.Seqno && syscall.Errno(r.Errno) != syscall.EIO {
		return fmt.Errorf("batch %d of channel %d was canceled: batch %d failed with %w", p.Seqno, p.Channel, r.Failed, syscall.Errno(r.Errno))
	}
	return fmt.Errorf("batch %d of channel %d failed at command %d: %w", r.Failed, p.Channel, r.Index, syscall.Errno(r.Errno))
}

// CPUPrep is PVDRM_GEM_CPU_PREP: it waits until all work that was submitted so
// far is done, since any of it may use the object.
func (f *File) CPUPrep(handle uint32, timeout time.Duration) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	if _, err := f.GemSize(handle); err != nil {
		return err
	}
	f.mu.Lock()
	var points []drm.Point
	for id, ch := range f.channels.All {
		ch.mu.Lock()
		points = append(points, drm.Point{Channel: id, Seqno: ch.submitted})
		ch.mu.Unlock()
	}
	f.mu.Unlock()
	if err := f.link.flush(); err != nil {
		return err
	}
	return f.link.wait(func() bool {
		for _, p := range points {
			if f.link.ring.Done(p.Channel) < p.Seqno {
				return false
			}
		}
		return true
	}, timeout)
}

// LostStatus is PVDRM_STATUS.
func (f *File) LostStatus() (uint32, string, error) {
	if err := f.enter(); err != nil {
		return 0, "", err
	}
	defer f.leave()
	b, err := f.link.do(hypercall.OpStatus, nil)
	if err != nil {
		return 0, "", err
	}
	st, err := hypercall.DecodeStatus(b)
	return st.Cause, st.Text, err
}

// ReadOutput is PVDRM_READ_OUTPUT.
func (f *File) ReadOutput() ([]byte, error) {
	if err := f.enter(); err != nil {
		return nil, err
	}
	defer f.leave()
	return f.link.do(hypercall.OpReadOutput, nil)
}

// WaitCounters tell how a file's callers waited for the backend.
type WaitCounters struct {
	PollingNS  uint64 `json:"polling_ns"`  // time spent looking, with and without pauses, after the first looks
	Sleeps     uint64 `json:"sleeps"`      // waits that took the carrier's interrupt
	SleepingNS uint64 `json:"sleeping_ns"` // time in those
}

// Waits returns how this file's callers waited so far.
func (f *File) Waits() WaitCounters {
	return WaitCounters{uint64(f.link.polling.Load()), f.link.sleeps.Load(), uint64(f.link.sleeping.Load())}
}

// Doorbells is the number of calls on this file so far that leave the guest.
func (f *File) Doorbells() uint64 { return f.link.carrier.Doorbells() }

// ask makes a request without a payload.
func (f *File) ask(op hypercall.Op) ([]byte, error) {
	if err := f.enter(); err != nil {
		return nil, err
	}
	defer f.leave()
	return f.link.do(op, nil)
}

// Ask implements drm.Asker.
func (f *File) Ask(q drm.Question, function uint32, values []uint64) ([]uint64, error) {
	if err := f.enter(); err != nil {
		return nil, err
	}
	defer f.leave()
	b, err := f.link.do(hypercall.OpAsk, hypercall.Ask{Question: uint32(q), Function: function, Values: values}.Append(nil))
	if err != nil {
		return nil, err
	}
	m, err := hypercall.DecodeAnswers(b)
	return m.Values, err
}

// Usage asks the backend what this guest and its processes use of the device.
func (f *File) Usage() (hypercall.Usage, error) {
	b, err := f.ask(hypercall.OpUsage)
	if err != nil {
		return hypercall.Usage{}, err
	}
	return hypercall.DecodeUsage(b)
}

// Counters asks the backend what it counted for this guest and this file.
func (f *File) Counters() (hypercall.Counters, error) {
	b, err := f.ask(hypercall.OpCounters)
	if err != nil {
		return hypercall.Counters{}, err
	}
	return hypercall.DecodeCounters(b)
}

func add[T any](f *File, t *gem.Table[T], v T) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.Add(v)
}

func get[T any](f *File, t *gem.Table[T], id uint32) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.Get(id)
}

func take[T any](f *File, t *gem.Table[T], id uint32) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.Take(id)
}
