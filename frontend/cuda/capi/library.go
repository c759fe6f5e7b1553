package capi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/missing"
)

// LogEnv names the environment variable that makes the library say on standard
// error what fails and why, since a CUresult is only a number: "errors", or "calls" for every call.
const LogEnv = "PVDRM_CUDA_LOG"

// MaxArgs is how many arguments an entry point has at most.
const MaxArgs = 40

// Config is what a Library needs from the program it lives in.
type Config struct {
	Open   []cuda.Opener // of each device
	Memory Memory
	// Symbol is the address of the entry point with an index of Symbols().
	Symbol func(i int) uint64
	// Invoke calls a C function of the program with up to three words.
	Invoke func(fn, a, b, c uint64) uint64
	// Pages changes what lies under addresses of the program; nil: nothing does.
	Pages cuda.HostPages
	// Output takes what kernels print; nil: the file of standard output.
	Output io.Writer
	// Logf writes a line for LogEnv; nil: standard error.
	Logf func(format string, args ...any)
}

// Library is the state of a libcuda. Its zero value is of no use; see New.
type Library struct {
	cfg     Config
	logAll  bool
	logErrs bool
	driver  atomic.Pointer[cuda.Driver] // nil before cuInit
	handles handles
	graphs  graphs

	libraries libraries
	constants constants

	texts sync.Map // string → address of a C string

	retaining   sync.Mutex // while the last handle of memory may be made or removed
	registering sync.Mutex // while memory of the program is registered

	hints     hints       // of managed memory
	noTables  sync.Map    // objects that were told that there are no private tables
	noBinary  atomic.Bool // the program was told that a module of it was refused
	missing   *missing.Sender
	explained atomic.Bool // a fault in registered memory

	once    sync.Mutex // held for long, so not for more than these
	primary map[*cuda.Device]*primary

	mu        sync.Mutex
	threads   map[uint64]*thread
	contexts  map[*context]struct{} // that were made and not destroyed
	destroyed map[uint64]bool       // handles of contexts that the program has destroyed
	pools     map[*cuda.Pool]uint64 // handles
}

// New makes a library. Nothing is opened before cuInit.
func New(cfg Config) *Library {
	if cfg.Logf == nil {
		cfg.Logf = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "libcuda: "+format+"\n", args...) }
	}
	how := os.Getenv(LogEnv)
	return &Library{cfg: cfg, logAll: how == "calls", logErrs: how == "errors" || how == "calls",
		missing: missing.FromEnv(), primary: map[*cuda.Device]*primary{}, threads: map[uint64]*thread{}, contexts: map[*context]struct{}{}}
}

// Stack is memory of the program from Low up to High.
type Stack struct{ Low, High uint64 }

// holds reports whether n bytes at an address lie in it.
func (s Stack) holds(addr uint64, n int) bool {
	return addr >= s.Low && addr < s.High && uint64(n) <= s.High-addr
}

// Call runs the entry point with an index of Symbols() for a thread of the
// program, which it names by a number. It returns a CUresult.
//
// Stack is the part of the thread's stack that is there until Call returns; it may be empty.
func (l *Library) Call(symbol int, threadID uint64, args *[MaxArgs]uint64, stack Stack) cuda.Result {
	if symbol < 0 || symbol >= len(symbols) {
		return cuda.ErrInvalidValue
	}
	s := &symbols[symbol]
	r, err := l.run(s, threadID, args, stack)
	explained := r == cuda.ErrIllegalAddress && l.explain(&err)
	if l.logAll || l.logErrs && err != nil && r != cuda.ErrNotReady {
		if err == nil {
			err = r
		}
		l.cfg.Logf("%s(%#x): %s: %v", s.Name, args[:s.entry.args], r.String(), err)
	}
	// Libraries that do not look at errors of launches go on with wrong results, so this is said at once.
	if r == noBinaryForGPU && !l.logAll && !l.logErrs && l.noBinary.CompareAndSwap(false, true) {
		l.cfg.Logf("kernels of the program do not run: %s: %s", s.Name, reason(err))
	}
	if l.missing != nil && (explained || lacking(s.entry, r) && !errors.Is(err, errDoesWithout)) {
		l.missing.Send(s.Name + ": " + r.String() + ": " + reason(err))
	}
	return r
}

func (l *Library) run(s *Symbol, threadID uint64, args *[MaxArgs]uint64, stack Stack) (cuda.Result, error) {
	e := s.entry
	if l.driver.Load() == nil && !e.early {
		return notInitialized, errors.New("cuInit was not called")
	}
	if e.do == nil {
		return cuda.ErrNotSupported, fmt.Errorf("PVDRM has no %s", e.name)
	}
	c := &call{lib: l, entry: e, thread: l.thread(threadID), args: args, stack: stack, perThread: s.perThread}
	if w := l.graphs.watched.Load(); w == watchAll || w == watchEvents && e.events {
		if done, err := c.whileCapturing(); done {
			return resultOf(err), err
		}
	}
	err := e.do(c)
	return resultOf(err), err
}

// resultOf is the CUresult for what a handler returned.
func resultOf(err error) cuda.Result {
	if err == nil {
		return cuda.Success
	}
	var r cuda.Result
	if errors.As(err, &r) {
		return r
	}
	if errors.Is(err, syscall.EFAULT) {
		return cuda.ErrInvalidValue
	}
	return cuda.ErrUnknown
}

// thread is a thread of the program.
type thread struct {
	id    uint64
	stack []*context // of current contexts, the current one last

	captureMode uint32 // CUstreamCaptureMode
}

func (l *Library) thread(id uint64) *thread {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.threads[id]
	if t == nil {
		t = &thread{id: id}
		l.threads[id] = t
	}
	return t
}

// ThreadEnd forgets a thread that has ended, and gives its streams back when their host functions
// have run.
func (l *Library) ThreadEnd(id uint64) {
	l.mu.Lock()
	delete(l.threads, id)
	l.mu.Unlock()
	for _, c := range l.allContexts() {
		if s := c.takeThreadStream(id); s != nil {
			l.dropCaptures(func(captured *cuda.Stream) bool { return captured == s })
			destroy := func() { _ = s.Destroy() } // of a lost or destroyed context; no caller waits for the error
			if len(c.hostFunctions(s)) > 0 {
				c.afterHostFunctions(s, destroy)
			} else {
				destroy()
			}
		}
	}
}

func (l *Library) allContexts() []*context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.contexts))
}

// remember and forget keep the list of contexts that live.
func (l *Library) remember(x *context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contexts[x] = struct{}{}
}

func (l *Library) forget(x *context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.contexts, x)
}

// maxDestroyed bounds the handles of contexts that are remembered as destroyed.
const maxDestroyed = 1 << 12

// noteDestroyed remembers the handle of a context that the program has destroyed: no other gets it.
func (l *Library) noteDestroyed(handle uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.destroyed == nil || len(l.destroyed) >= maxDestroyed {
		l.destroyed = map[uint64]bool{}
	}
	l.destroyed[handle] = true
}

func (l *Library) wasDestroyed(handle uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.destroyed[handle]
}

// handles is the table of what the program holds.
type handles struct {
	mu   sync.RWMutex
	last uint64
	all  map[uint64]any
}

// Handles look like pointers, since some programs take 0, 1 and 2 for streams
// that they did not make, and print handles. None is one.
const (
	handleBase = 0x5056_0000_0000
	handleStep = 16
)

func (h *handles) add(v any) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[uint64]any{}
		h.last = handleBase
	}
	h.last += handleStep
	h.all[h.last] = v
	return h.last
}

// put gives a handle back that was removed, or leaves it.
func (h *handles) put(handle uint64, v any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[handle] = v
}

// replace lets a handle stand for what another stands for, which is none any more.
func (h *handles) replace(handle, other uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[handle] = h.all[other]
	delete(h.all, other)
}

func (h *handles) remove(handle uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, handle)
}

// owned is what belongs to a context and goes with it.
type owned interface{ owner() *context }

func (h *handles) removeOwned(c *context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, v := range h.all {
		if o, ok := v.(owned); ok && o.owner() == c {
			delete(h.all, k)
		}
	}
}

// find returns what a handle stands for, if it is of that kind.
func find[T any](l *Library, handle uint64) (T, bool) {
	l.handles.mu.RLock()
	defer l.handles.mu.RUnlock()
	v, ok := l.handles.all[handle].(T)
	return v, ok
}

// text is the address of a C string that lives for ever.
func (l *Library) text(s string) uint64 {
	if a, ok := l.texts.Load(s); ok {
		return a.(uint64)
	}
	a, _ := l.texts.LoadOrStore(s, l.cfg.Memory.Keep(append([]byte(s), 0)))
	return a.(uint64)
}

// Close destroys all contexts. A C program has no need of it: its end is enough.
func (l *Library) Close() {
	for _, x := range l.allContexts() {
		l.forget(x)
		_ = l.destroy(x) // that their work failed is of no use to anybody any more
	}
	if d := l.driver.Load(); d != nil {
		_ = d.Close() // the same
	}
}
