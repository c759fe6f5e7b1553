package nvidia

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
	"pvdrm/internal/usernotify"
)

// books count the VRAM that the workers of a keeper have together, and hold it to a limit. Whatever takes
// VRAM in a worker (contexts, machine code, workspaces of libraries, graphs, memory of the guest) asks NVIDIA's
// resource manager for objects of one class, and its keeper sees each of these requests (guard). Until a worker
// is sealed its objects are counted only; later ones are refused when they do not fit.
type books struct {
	limit uint64 // bytes; 0 for none

	mu   sync.Mutex
	used uint64 // bytes
}

// account is what one worker has. Its backend reads how much that is in memory that the keeper writes.
type account struct {
	books *books
	page  []byte

	// Under books.mu.
	objects map[objectName]vramObject
	parents map[objectName]int // objects of a parent
	used    uint64             // bytes
}

// objectName is how NVIDIA's resource manager calls an object.
type objectName struct{ client, handle uint32 }

type vramObject struct {
	parent uint32
	bytes  uint64
}

// mostObjects bounds the objects that are remembered of a worker. An H200 has 72,000 pages of 2 MiB.
const mostObjects = 1 << 18

// Memory of an account: a word with the number of pages that the worker has, and one with how many of 2 MiB
// it has made (madePages).
const (
	accountPage  = 4096 // bytes
	accountBytes = 4096
	accountMade  = 64 // where the second word is
)

// newAccount makes an account, and the file by which the backend reads it.
func (b *books) newAccount() (*account, *os.File, error) {
	fd, err := unix.MemfdCreate("pvdrm-cuda-account", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "account")
	err = os.NewSyscallError("ftruncate", unix.Ftruncate(fd, accountBytes))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		err = os.NewSyscallError("sealing", err)
	}
	var page []byte
	if err == nil {
		page, err = unix.Mmap(fd, 0, accountBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		err = os.NewSyscallError("mmap", err)
	}
	if err != nil {
		_ = file.Close() // err is the error to report
		return nil, nil, fmt.Errorf("making the account of a worker: %w", err)
	}
	return &account{books: b, page: page, objects: map[objectName]vramObject{}, parents: map[objectName]int{}}, file, nil
}

// reserve counts n bytes that the worker asks for. It reports false if it may not have them. What is not new
// to the GPU, and what a worker takes while it starts, it may have whatever the limit.
func (a *account) reserve(n uint64, within bool) bool {
	b := a.books
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > math.MaxInt64-b.used || within && (len(a.objects) >= mostObjects || b.limit != 0 && (b.used > b.limit || n > b.limit-b.used)) {
		return false
	}
	a.change(int64(n))
	return true
}

// change adds bytes to what the worker has. books.mu is held.
func (a *account) change(n int64) {
	a.used, a.books.used = a.used+uint64(n), a.books.used+uint64(n)
	pages := min((a.used+accountPage-1)/accountPage, math.MaxUint32)
	hostmem.SwapUint32(a.page, 0, uint32(pages))
}

// cancel gives back what was reserved for an object that was not made.
func (a *account) cancel(n uint64) {
	a.books.mu.Lock()
	defer a.books.mu.Unlock()
	a.change(-int64(n))
}

// made notes the object for which bytes were reserved.
func (a *account) made(argument []byte, n uint64) {
	name, parent := allocated(argument)
	a.add(name, parent, n)
}

// add notes an object of a parent for which bytes were reserved.
func (a *account) add(name objectName, parent uint32, n uint64) {
	a.books.mu.Lock()
	defer a.books.mu.Unlock()
	a.drop(name) // there was none that the driver knew
	a.objects[name] = vramObject{parent: parent, bytes: n}
	a.parents[objectName{client: name.client, handle: parent}]++
}

// drop forgets an object. books.mu is held.
func (a *account) drop(name objectName) {
	o, ok := a.objects[name]
	if !ok {
		return
	}
	delete(a.objects, name)
	parent := objectName{client: name.client, handle: o.parent}
	if a.parents[parent]--; a.parents[parent] == 0 {
		delete(a.parents, parent)
	}
	a.change(-int64(o.bytes))
}

// freed notes that an object was freed, and with it those of which it was the parent or the client.
func (a *account) freed(name objectName) {
	a.books.mu.Lock()
	defer a.books.mu.Unlock()
	a.drop(name)
	if name.client != name.handle && a.parents[name] == 0 {
		return
	}
	for of, o := range a.objects {
		if of.client == name.client && (o.parent == name.handle || name.client == name.handle) {
			a.drop(of)
		}
	}
}

// close counts a worker that has ended no more.
func (a *account) close() {
	a.books.mu.Lock()
	defer a.books.mu.Unlock()
	a.change(-int64(a.used))
	clear(a.objects)
	clear(a.parents)
	_ = unix.Munmap(a.page) // our own mapping; cannot fail
}

// allocated names the object of an NV_ESC_RM_ALLOC, and its parent.
func allocated(argument []byte) (name objectName, parent uint32) {
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(argument[at:]) }
	return objectName{client: field(allocClient), handle: field(allocObject)}, field(allocParent)
}

// allocate makes the call by which a worker asks for VRAM, if it may have more. A call of which the page was
// kept takes none, and one of another GPU is not counted here.
func (g *guard) allocate(fd int, argument, params []byte) unix.Errno {
	keeps := g.stopper.keeps
	gives, foreign := keeps.gives()
	allocate := func() unix.Errno { return keeps.allocate(fd, argument, params, g.call) }
	if foreign {
		return allocate()
	}
	return g.count(memoryBytes(params), !gives, argument, allocate)
}

// count makes the call by which a worker asks for an object that takes n bytes, if it may have them.
func (g *guard) count(n uint64, within bool, argument []byte, allocate func() unix.Errno) unix.Errno {
	if !g.account.reserve(n, within) {
		binary.LittleEndian.PutUint32(argument[allocStatus:], statusNoMemory)
		return 0
	}
	errno := allocate()
	if errno != 0 || binary.LittleEndian.Uint32(argument[allocStatus:]) != 0 {
		g.account.cancel(n)
		return errno
	}
	g.account.made(argument, n)
	return 0
}

// memoryBytes returns how much VRAM a request for memory takes, which is in whole pages of the size that it asks for.
// Where it leaves that to the driver these are large ones, if they fit.
func memoryBytes(params []byte) uint64 {
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(params[at:]) }
	return inPages(binary.LittleEndian.Uint64(params[memorySize:]), field(memoryAttr), field(memoryAttr2))
}

// inPages rounds bytes up to the pages that attributes ask for.
func inPages(n uint64, attr, attr2 uint32) uint64 {
	const small, big = 4 << 10, 64 << 10
	page := uint64(big)
	switch attr >> pageSizeShift & pageSizeMask {
	case pageSize4K:
		page = small
	case pageSizeBig:
	case pageSizeHuge:
		page = vramPage
		if attr2>>hugeSizeShift&hugeSizeMask == hugeSize512M {
			page = 512 << 20
		}
	default:
		if n >= vramPage {
			page = vramPage
		}
	}
	if n > math.MaxInt64 {
		return n // reserve refuses it
	}
	return (n + page - 1) / page * page
}

// noteMemory counts VRAM that a worker is about to get while it starts. The driver may still refuse it.
func (g *guard) noteMemory(argument []byte) {
	at, params := int64(binary.LittleEndian.Uint64(argument[paramsAddress:])), make([]byte, memoryParams)
	if binary.LittleEndian.Uint32(argument[allocClass:]) != classMemory || at < 0 {
		return
	}
	if _, err := g.memory.ReadAt(params, at); err != nil {
		return // the driver refuses it
	}
	if n := memoryBytes(params); g.account.reserve(n, false) {
		g.account.made(argument, n)
	}
}

// free makes the call by which a worker frees an object.
func (g *guard) free(fd int, at int64) unix.Errno {
	argument := make([]byte, freeBytes)
	if at < 0 {
		return unix.EPERM
	}
	if _, err := g.memory.ReadAt(argument, at); err != nil {
		return unix.EFAULT
	}
	if !g.owns(argument) {
		return unix.EPERM
	}
	if errno := g.call(fd, requestFree, argument, nil); errno != 0 {
		return errno
	}
	if binary.LittleEndian.Uint32(argument[freeStatus:]) == 0 {
		g.freed(argument)
	}
	if _, err := g.memory.WriteAt(argument, at); err != nil {
		return unix.EFAULT
	}
	return 0
}

// noteFree counts what a worker frees while it starts.
func (g *guard) noteFree(at int64) {
	argument := make([]byte, freeBytes)
	if at < 0 {
		return
	}
	if _, err := g.memory.ReadAt(argument, at); err == nil {
		g.freed(argument)
	}
}

func (g *guard) freed(argument []byte) {
	g.account.freed(released(argument))
	if g.stopper != nil {
		g.stopper.keeps.freed(released(argument))
	}
}

// onlyCounts reports whether a sealed worker makes a call itself: what it frees, where there is no limit. A worker that
// was taken over can then make its count wrong, by changing the argument in time; nothing is bound by that count.
func (g *guard) onlyCounts(c *usernotify.Call) bool {
	return uint32(c.Args[1]) == requestFree && g.account != nil && g.account.books.limit == 0
}

// released names the object of an NV_ESC_RM_FREE.
func released(argument []byte) objectName {
	return objectName{client: binary.LittleEndian.Uint32(argument[freeClient:]), handle: binary.LittleEndian.Uint32(argument[freeObject:])}
}

// ledger is a backend's view of the accounts of its workers.
type ledger struct {
	mu    sync.Mutex
	pages map[*process][]byte
}

// open begins to read the account of a process.
func (l *ledger) open(p *process, fd int) error {
	page, err := unix.Mmap(fd, 0, accountBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the account of a worker: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages[p] = page
	return nil
}

// close forgets a process that has ended.
func (l *ledger) close(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if page := l.pages[p]; page != nil {
		_ = unix.Munmap(page) // our own mapping; cannot fail
		delete(l.pages, p)
	}
}

// of returns the bytes of VRAM that a process has, as far as its keeper sees that; 0 after its end.
func (l *ledger) of(p *process) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return accountOf(l.pages[p])
}

// total returns the bytes that all processes have.
func (l *ledger) total() (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, page := range l.pages {
		n += accountOf(page)
	}
	return n
}

func accountOf(page []byte) uint64 {
	if page == nil {
		return 0
	}
	return uint64(hostmem.LoadUint32(page, 0)) * accountPage
}
