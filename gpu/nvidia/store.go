package nvidia

import (
	"encoding/binary"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// store keeps pages of VRAM in a keeper, so that they outlive the worker that made them.
//
// A worker's keeper makes the pages for it (guard). With NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD it
// hangs a page on a descriptor of its own, which then holds the page, whatever becomes of the worker.
// When another worker takes the place of one, its keeper imports the pages from there, each in place of
// an allocation that libcuda asks for, under the handle that libcuda has chosen: libcuda maps them as
// if they were new, at the addresses that they had. No CUDA context is needed for that in the keeper.
//
// The backend says which pages of a worker are to be kept, under a number for each memory, and which
// another worker gets (keeping). It can only name pages of its own workers, since it has the keeper to
// itself.
type store struct {
	peers []*peerLine // to the keepers of the guest's other GPUs

	mu    sync.Mutex
	pages map[pageName]*keptPage
}

// pageName is the number of a memory and that of a page in it.
type pageName struct {
	memory uint64
	index  int
}

// keptPage is a page that a descriptor holds.
type keptPage struct {
	fd     int
	owner  *keeping // whose worker has it; nil after that worker's end
	params []byte   // what the driver answered when it was made
	shared bool     // several workers have it, until the backend says that none has
}

const (
	// mostKept bounds the pages of a store: a descriptor each, of which the process has a limit.
	mostKept = 32 << 10
	// orphanTime is for how long the pages of a worker stay that ended without the backend's doing.
	orphanTime = 10 * time.Second
)

// openHolder opens a descriptor that can hold an object.
var openHolder = func() (int, error) {
	fd, err := unix.Open(controlDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	return fd, os.NewSyscallError("open "+controlDevice, err)
}

func newStore() *store { return &store{pages: map[pageName]*keptPage{}} }

// add keeps a page. It reports false if there is no room, or the name is taken.
func (s *store) add(name pageName, p *keptPage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pages) >= mostKept || s.pages[name] != nil {
		return false
	}
	s.pages[name] = p
	return true
}

// claim makes another worker the owner of a page, and returns the page; nil if there is none.
func (s *store) claim(name pageName, by *keeping) *keptPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[name]
	if p != nil && !p.shared {
		p.owner = by
	}
	return p
}

// drop lets go of the pages that a condition holds of.
func (s *store) drop(which func(pageName, *keptPage) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.pages {
		if which(name, p) {
			_ = unix.Close(p.fd) // the last reference, perhaps
			delete(s.pages, name)
		}
	}
}

// keeping is what the backend has said of the pages of one worker.
type keeping struct {
	store *store

	mu      sync.Mutex
	made    madePages
	mode    uint32 // one of the orders; stopKept outside of a memory
	memory  uint64
	next    int // page
	failed  bool
	orphans bool // the worker's pages stay when it ends
}

// begin begins a memory: the pages that the worker makes from now on are kept under its number, or it
// gets those that were.
func (k *keeping) begin(order uint32, memory uint64) stopStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode, k.memory, k.next, k.failed = order, memory, 0, false
	k.orphans = k.orphans || order != stopHold
	return 0
}

// end ends a memory, which has so many pages. Where not all of them are kept none is.
func (k *keeping) end(pages uint64) stopStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	mode := k.mode
	k.mode = stopKept
	if !k.failed && uint64(k.next) == pages {
		return 0
	}
	if mode == stopKeep || mode == stopHold {
		k.store.drop(func(name pageName, _ *keptPage) bool { return name.memory == k.memory })
	}
	return stopUnkept
}

// leave lets go of a memory's pages.
func (k *keeping) leave(memory uint64) stopStatus {
	k.store.drop(func(name pageName, p *keptPage) bool { return name.memory == memory && p.owner == k })
	return 0
}

// forget lets go of all of the worker's pages, and keeps none from now on.
func (k *keeping) forget() stopStatus {
	k.mu.Lock()
	k.orphans = false
	k.mu.Unlock()
	k.store.drop(func(_ pageName, p *keptPage) bool { return p.owner == k })
	return 0
}

// close is called when the worker has ended. Its pages wait for a while for the worker that takes its
// place, unless the backend has said that there is none.
func (k *keeping) close() {
	k.mu.Lock()
	orphans := k.orphans
	k.mu.Unlock()
	if !orphans {
		k.forget()
		return
	}
	time.AfterFunc(orphanTime, func() { k.forget() })
}

// gives reports whether the worker gets pages that were kept, and whether they are another GPU's.
func (k *keeping) gives() (gives, foreign bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mode == stopGive, k.mode == stopGive && k.memory>>foreignBits != 0
}

// allocate makes the call by which a worker asks for an object. Within a memory it is a page, which is
// kept, or was.
func (k *keeping) allocate(fd int, argument, params []byte, call rmCall) unix.Errno {
	k.mu.Lock()
	defer k.mu.Unlock()
	isPage := binary.LittleEndian.Uint64(params[memorySize:]) == vramPage
	switch {
	case k.mode == stopGive && isPage:
		return k.give(fd, argument, params, call)
	case !isPage:
		return call(fd, requestAlloc, argument, params)
	}
	if errno := call(fd, requestAlloc, argument, params); errno != 0 || binary.LittleEndian.Uint32(argument[allocStatus:]) != 0 {
		return errno
	}
	k.made.add(fd, argument, params)
	if k.mode == stopKeep && !k.failed && !k.keep(fd, argument, params, call) {
		k.failed = true
	}
	return 0
}

// keep hangs a page on a descriptor. k.mu is held.
func (k *keeping) keep(fd int, argument, params []byte, call rmCall) bool {
	holder, err := openHolder()
	if err != nil {
		return false
	}
	object := make([]byte, exportBytes)
	putObject(object[exportObject:], argument)
	binary.LittleEndian.PutUint32(object[exportFD:], uint32(holder))
	p := &keptPage{fd: holder, owner: k, params: append([]byte(nil), params...), shared: k.mode == stopHold}
	if p.shared {
		p.owner = nil
	}
	if !control(fd, argument, exportToFD, object, call) || !k.store.add(pageName{memory: k.memory, index: k.next}, p) {
		_ = unix.Close(holder)
		return false
	}
	k.next++
	return true
}

// give answers an allocation with a page that was kept. k.mu is held.
func (k *keeping) give(fd int, argument, params []byte, call rmCall) unix.Errno {
	p, foreign := k.find()
	if p != nil && foreign {
		defer unixsock.Close([]int{p.fd})
	}
	if p == nil || len(p.params) != len(params) {
		k.failed = true
		return unix.EIO
	}
	object := make([]byte, importBytes)
	binary.LittleEndian.PutUint32(object[importFD:], uint32(p.fd))
	putObject(object[importObject:], argument)
	if !control(fd, argument, importFromFD, object, call) {
		k.failed = true
		return unix.EIO
	}
	copy(params, p.params)
	binary.LittleEndian.PutUint32(argument[allocStatus:], 0)
	k.next++
	return 0
}

// putObject names the object of an allocation, as an NV0000_CTRL_OS_UNIX_EXPORT_OBJECT.
func putObject(b, argument []byte) {
	const typeRM = 1
	parent := binary.LittleEndian.Uint32(argument[allocParent:])
	binary.LittleEndian.PutUint32(b, typeRM)
	binary.LittleEndian.PutUint32(b[4:], parent) // the device
	binary.LittleEndian.PutUint32(b[8:], parent)
	binary.LittleEndian.PutUint32(b[12:], binary.LittleEndian.Uint32(argument[allocObject:]))
}

// control makes a control of the client that an allocation is for.
func control(fd int, allocation []byte, command uint32, params []byte, call rmCall) bool {
	client := binary.LittleEndian.Uint32(allocation[allocClient:])
	argument := make([]byte, controlBytes)
	binary.LittleEndian.PutUint32(argument[controlClient:], client)
	binary.LittleEndian.PutUint32(argument[controlObject:], client)
	binary.LittleEndian.PutUint32(argument[controlCommand:], command)
	binary.LittleEndian.PutUint32(argument[controlSize:], uint32(len(params)))
	return call(fd, requestControl, argument, params) == 0 && binary.LittleEndian.Uint32(argument[controlStatus:]) == 0
}
