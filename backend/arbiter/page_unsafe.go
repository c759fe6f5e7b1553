package arbiter

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bits of the word of a token; see the package comment.
const (
	bitHeld uint32 = 1 << iota
	bitBusy
	bitBegun
	bitShared
	bitOnce
	bitRevoked
	bitBeside
	bitPreempt
	bitTurns
	bitFill
)

// Layout of the page, bytes.
const (
	pageBytes   = 4096
	blockBytes  = 128 // of an engine; the first block is not used
	wordOff     = 0
	partOff     = 4
	grantOff    = 8
	usedOff     = 64
	commandsOff = 72

	channelsOff = 0 // in the first block: what the guest is promised of the GPU
	contextsOff = 4
	vramOff     = 8
	guestsOff   = 16 // how many guests are at the GPU
)

// pageSeals keep either side from taking pages away from the other.
const pageSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// page is the memory that a backend shares with the arbiter, or one that a Gate
// has for itself. Its methods may be called from any goroutine.
type page struct {
	mem   []byte
	slots [Engines]slot
	turns bool // see GateConfig.Turns
}

// slot is the block of an engine.
type slot struct {
	word     *atomic.Uint32
	part     *atomic.Uint32 // processors that the token is for; 0: their number does not matter
	grant    *atomic.Uint64
	used     *atomic.Uint64 // nanoseconds
	commands *atomic.Uint64
}

func newPage(mem []byte) *page {
	p := &page{mem: mem}
	for e := range p.slots {
		b := mem[blockBytes*(e+1):][:blockBytes]
		// b has the length of a block, so that all offsets are inside of it, and
		// starts at a multiple of 8 because mem does: these are aligned words.
		// They point into mem, which the page keeps alive (or mapped).
		p.slots[e] = slot{
			word:     (*atomic.Uint32)(unsafe.Pointer(&b[wordOff])),     // aligned, in b: see above
			part:     (*atomic.Uint32)(unsafe.Pointer(&b[partOff])),     // aligned, in b: see above
			grant:    (*atomic.Uint64)(unsafe.Pointer(&b[grantOff])),    // aligned, in b: see above
			used:     (*atomic.Uint64)(unsafe.Pointer(&b[usedOff])),     // aligned, in b: see above
			commands: (*atomic.Uint64)(unsafe.Pointer(&b[commandsOff])), // aligned, in b: see above
		}
	}
	return p
}

// privatePage is a page without another side.
func privatePage() *page {
	words := make([]uint64, pageBytes/8) // for the alignment
	// The slice of bytes covers exactly the words, and keeps them alive.
	return newPage(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), pageBytes))
}

// createPage makes a page that can be sent to another process. The descriptor is
// the caller's to close.
func createPage() (p *page, fd int, err error) {
	fd, err = unix.MemfdCreate("pvdrm-arbiter", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, fmt.Errorf("shared page: %w", os.NewSyscallError("memfd_create", err))
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd) // err is what to report
		}
	}()
	if err := unix.Ftruncate(fd, pageBytes); err != nil {
		return nil, -1, fmt.Errorf("shared page: %w", os.NewSyscallError("ftruncate", err))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, pageSeals); err != nil {
		return nil, -1, fmt.Errorf("sealing the shared page: %w", os.NewSyscallError("fcntl", err))
	}
	p, err = mapPage(fd)
	return p, fd, err
}

// mapPage maps a page, which must have its size for good. It does not keep fd.
func mapPage(fd int) (*page, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("shared page: not a memfd: %w", os.NewSyscallError("fcntl", err))
	}
	if seals&pageSeals != pageSeals {
		return nil, fmt.Errorf("shared page: not sealed against changes of its size: %w", ErrWire)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("shared page: %w", os.NewSyscallError("fstat", err))
	}
	if st.Size != pageBytes {
		return nil, fmt.Errorf("shared page of %d bytes instead of %d: %w", st.Size, pageBytes, ErrWire)
	}
	mem, err := unix.Mmap(fd, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shared page: %w", os.NewSyscallError("mmap", err))
	}
	p := newPage(mem)
	// A goroutine in Enter or Leave may still have the page when the connection is
	// gone, so it is unmapped when nobody can reach it any more. Nothing but the
	// page refers to the mapping; its methods keep it alive until they are done.
	runtime.AddCleanup(p, func(mem []byte) {
		_ = unix.Munmap(mem) // our own mapping; cannot fail
	}, mem)
	return p, nil
}

// promise writes what the guest is promised, before another process has the page.
func (p *page) promise(a Amounts) {
	binary.NativeEndian.PutUint32(p.mem[channelsOff:], a.Channels)
	binary.NativeEndian.PutUint32(p.mem[contextsOff:], a.Contexts)
	binary.NativeEndian.PutUint64(p.mem[vramOff:], a.VRAM)
	runtime.KeepAlive(p)
}

// promised reads what promise wrote.
func (p *page) promised() Amounts {
	a := Amounts{Channels: binary.NativeEndian.Uint32(p.mem[channelsOff:]), Contexts: binary.NativeEndian.Uint32(p.mem[contextsOff:]),
		VRAM: binary.NativeEndian.Uint64(p.mem[vramOff:])}
	runtime.KeepAlive(p)
	return a
}

// guests is where it stands how many guests are at the GPU.
func (p *page) guests() *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&p.mem[guestsOff])) // aligned, since mem is, and in mem, which the caller keeps
}

// tell writes how many guests are at the GPU.
func (p *page) tell(guests int) {
	p.guests().Store(uint32(guests))
	runtime.KeepAlive(p)
}

// told reads what tell wrote; 0 where no arbiter did.
func (p *page) told() int {
	n := p.guests().Load()
	runtime.KeepAlive(p)
	return int(n)
}

// load is the word of an engine.
func (p *page) load(e Engine) uint32 {
	w := p.slots[e].word.Load()
	runtime.KeepAlive(p) // the word is not Go's memory
	return w
}

// store writes the word.
func (p *page) store(e Engine, w uint32) {
	p.slots[e].word.Store(w)
	runtime.KeepAlive(p)
}

// or sets bits and returns the word from before.
func (p *page) or(e Engine, bits uint32) uint32 {
	w := p.slots[e].word.Or(bits)
	runtime.KeepAlive(p)
	return w
}

// work is what an Enter is for. The zero value is work that runs alone.
type work struct {
	beside bool // it may run concurrently with such work of others
	part   int  // or with work that uses some of the processors, of which it uses so many at most; 0: it may not
	least  int  // with part: it can run on so few
}

// begin takes the word from Held to Busy. It fails if the token is not held or
// not to be used, or in use, or for work beside that of others, which this is not: bitTurns is
// for those whose work the GPU serves in turn.
func (p *page) begin(e Engine, k work) bool {
	word := p.slots[e].word
	for {
		w := word.Load()
		if w&(bitHeld|bitBusy|bitRevoked) != bitHeld || w&bitBeside != 0 && !p.admits(e, w, k) {
			return false
		}
		// Only the arbiter changes the word meanwhile, and only once or twice.
		if word.CompareAndSwap(w, w|bitBusy|bitBegun) {
			runtime.KeepAlive(p)
			return true
		}
	}
}

// admits reports whether a token for some work only is for this.
func (p *page) admits(e Engine, word uint32, k work) bool {
	if part := int(p.slots[e].part.Load()); part != 0 {
		return k.part > 0 && (k.part <= part || word&bitFill != 0 && k.least <= part)
	}
	return k.beside || p.turns && word&bitTurns != 0
}

// granted is for how many processors the token is; 0 if their number does not matter.
func (p *page) granted(e Engine) int {
	n := 0
	if p.load(e)&bitBeside != 0 {
		n = int(p.slots[e].part.Load())
	}
	runtime.KeepAlive(p)
	return n
}

// setPart writes for how many processors the token is; the word is to be stored after it.
func (p *page) setPart(e Engine, n int) {
	p.slots[e].part.Store(uint32(n))
	runtime.KeepAlive(p)
}

// drop takes the word from Held to 0 where only work beside that of others may
// begin. It fails if it is in another state.
func (p *page) drop(e Engine) bool {
	word := p.slots[e].word
	for {
		w := word.Load()
		if w&(bitHeld|bitBusy|bitBeside|bitRevoked) != bitHeld|bitBeside {
			return false
		}
		if word.CompareAndSwap(w, 0) { // as in begin
			runtime.KeepAlive(p)
			return true
		}
	}
}

// end takes the word from Busy to Held. It fails if the token has to be given
// back; more says that the next command is ready.
func (p *page) end(e Engine, more bool) bool {
	word := p.slots[e].word
	for {
		w := word.Load()
		if w&bitHeld == 0 || w&(bitOnce|bitRevoked) != 0 || w&bitShared != 0 && !more {
			return false
		}
		if word.CompareAndSwap(w, w&^bitBusy) { // as in begin
			runtime.KeepAlive(p)
			return true
		}
	}
}

// addUsed adds a use of the engine by commands. One goroutine at a time calls it.
func (p *page) addUsed(e Engine, d time.Duration, commands uint64) {
	s := &p.slots[e]
	s.used.Store(s.used.Load() + uint64(max(d, 0)))
	s.commands.Store(s.commands.Load() + commands)
	runtime.KeepAlive(p)
}

// usage is what addUsed has noted in all: as the other side says.
func (p *page) usage(e Engine) (used, commands uint64) {
	s := &p.slots[e]
	used, commands = s.used.Load(), s.commands.Load()
	runtime.KeepAlive(p)
	return used, commands
}

// setGrant writes the number of the grant; the word is to be stored after it.
func (p *page) setGrant(e Engine, n uint64) {
	p.slots[e].grant.Store(n)
	runtime.KeepAlive(p)
}

// grant is the number of the grant.
func (p *page) grant(e Engine) uint64 {
	n := p.slots[e].grant.Load()
	runtime.KeepAlive(p)
	return n
}
