package file

import (
	"crypto/rand"
	"fmt"
	"sync"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// shares are what the files of a guest share: memory and events, by keys that a process hands to
// another by any way it likes. A key is random, so to know it is to have been given it; and each
// guest has shares of its own, so that a key of another guest names nothing.
type shares struct {
	mu     sync.Mutex
	memory map[drm.Key]*share
	events map[drm.Key]*event
}

// share is VRAM that objects of several files are made of. It lives while one of them does. All
// fields are guarded by shares.mu.
type share struct {
	key     drm.Key
	mem     gpu.Shared
	objects int
	// orphan is set when the file has closed its object that was charged for the VRAM: what it
	// paid stays taken of the guest's quota.
	orphan bool
}

// newKey makes a key that no guest can guess.
func newKey() (k drm.Key) {
	_, _ = rand.Read(k[:]) // it never fails: the program ends instead
	return k
}

// errUnknownKey is the error for keys that name nothing of this guest.
var errUnknownKey = fmt.Errorf("the guest shares nothing by this key: %w", syscall.ENOENT)

// ShareObject returns the key by which other files of the guest open an object in VRAM, the same
// each time.
func (f *File) ShareObject(handle uint32) (key drm.Key, err error) {
	o, err := f.objects.Get(handle)
	if err != nil {
		return key, err
	}
	from, ok := f.ctx.(gpu.Sharer)
	if !ok || !o.inVRAM() || o.loan != nil {
		return key, fmt.Errorf("object %d is not in VRAM, or the device shares none: %w", handle, syscall.EOPNOTSUPP)
	}
	if o.share != nil {
		return o.share.key, nil
	}
	g := f.guest
	if err := g.Take(quota.Objects, 1); err != nil {
		return key, err
	}
	mem, err := from.Share(o.mem)
	if err != nil {
		g.Give(quota.Objects, 1)
		return key, err
	}
	s := &share{key: newKey(), mem: mem, objects: 1}
	o.share = s
	g.shares.mu.Lock()
	defer g.shares.mu.Unlock()
	if g.shares.memory == nil {
		g.shares.memory = map[drm.Key]*share{}
	}
	g.shares.memory[s.key] = s
	return s.key, nil
}

// OpenObject makes an object of what a file of the guest shares, and returns its size in bytes. It
// costs no VRAM: that stays charged as it is.
func (f *File) OpenObject(handle uint32, key drm.Key) (size uint64, err error) {
	to, ok := f.ctx.(gpu.Sharer)
	if !ok {
		return 0, fmt.Errorf("the device shares no memory: %w", syscall.EOPNOTSUPP)
	}
	s := f.guest.shares.enter(key)
	if s == nil {
		return f.borrow(handle, key)
	}
	o := &object{share: s, opened: true}
	size = s.mem.Size()
	if err := f.enter(handle, o, size, func() (gpu.Memory, error) { return to.Adopt(s.mem) }); err != nil {
		f.guest.leave(s, false)
		return 0, err
	}
	return size, nil
}

// enter finds a share and counts one object more of it.
func (s *shares) enter(key drm.Key) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.memory[key]
	if found != nil {
		found.objects++
	}
	return found
}

// leave ends an object of a share, the one whose file pays for the VRAM or another one. It reports
// whether the guest's quota goes on paying for what that file took.
func (g *Guest) leave(s *share, pays bool) (orphan bool) {
	g.shares.mu.Lock()
	s.objects--
	last := s.objects == 0
	if pays && !last {
		s.orphan, orphan = true, true
	}
	if last {
		delete(g.shares.memory, s.key)
	}
	g.shares.mu.Unlock()
	if !last {
		return orphan
	}
	size := s.mem.Size()
	s.mem.Close() // outside of the lock: it clears the memory
	g.Give(quota.Objects, 1)
	if s.orphan {
		g.Give(quota.VRAM, size)
	}
	return false
}

// unshare ends the part that an object has in a share, if it has one. The VRAM stays charged to the
// guest while other files have it. Preconditions: the device's memory is closed, and what the
// object costs is not discharged yet.
func (f *File) unshare(o *object, size uint64) {
	if o.loan != nil {
		f.guest.lender.Return(*o.loan)
		o.loan = nil
	}
	s := o.share
	if s == nil {
		return
	}
	o.share = nil
	if f.guest.leave(s, !o.opened) {
		f.account.Leave(quota.VRAM, size)
		o.opened = true // it costs no VRAM any more
	}
}

// sharing reports whether the file has memory or events that other files may have, too.
func (f *File) sharing() bool {
	for _, o := range f.objects.All {
		if o.share != nil || o.loan != nil {
			return true
		}
	}
	return f.events.Len() > 0
}
