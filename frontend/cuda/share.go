package cuda

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"pvdrm/drm"
)

// Memory and events of other processes of the guest: CUDA's IPC. What a process hands to another
// is a key, with which the other one opens the same memory at addresses of its own.

// SharedMemory names an allocation for other processes.
type SharedMemory struct {
	Key     drm.Key // of the object in which it lies
	At, Len uint64  // where in the object, bytes
}

// keys are those that contexts of this process have given out. The process cannot open them.
type keys struct {
	mu  sync.Mutex
	own map[drm.Key]struct{}
}

func (k *keys) add(key drm.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own == nil {
		k.own = map[drm.Key]struct{}{}
	}
	k.own[key] = struct{}{}
}

func (k *keys) remove(key drm.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.own, key)
}

// Owns reports whether a key was made by a context of this process.
func (d *Driver) Owns(key drm.Key) bool {
	d.keys.mu.Lock()
	defer d.keys.mu.Unlock()
	_, ok := d.keys.own[key]
	return ok
}

// Shares is 1 if other processes may open all memory and events of the device's contexts, else 0.
func (dev *Device) Shares() int {
	if dev.param(drm.ParamShares) == drm.SharesAll {
		return 1
	}
	return 0
}

// SharesMapped is 1 if they may open memory of MemAlloc, and events, else 0.
func (dev *Device) SharesMapped() int { return min(dev.param(drm.ParamShares), 1) }

// Driver returns the driver that the device is of.
func (dev *Device) Driver() *Driver { return dev.driver }

// sharer is how the file of the context shares, if it does.
func (c *Context) sharer(call string) (drm.Sharer, error) {
	s, ok := c.file.(drm.Sharer)
	if !ok || c.dev.SharesMapped() == 0 {
		return nil, errorf(call, ErrNotSupported, "the device shares nothing between processes, or its calls are being recorded")
	}
	return s, nil
}

// imported is memory of another process, opened in a context.
type imported struct {
	name   SharedMemory
	handle uint32
	base   uint64 // of the mapping: whole pages
	opens  int
	pool   *Pool // nil: it is of cuMemAlloc
}

// exports reports whether other processes may open an allocation: that of cuMemAlloc only.
func (a allocation) exports() bool { return a.vram != nil }

// Exports reports whether ShareMemory takes an address.
func (c *Context) Exports(p DevicePtr) bool {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, ok := c.memory.byAddr.find(uint64(p), 1)
	return ok && e.value.exports() && c.dev.SharesMapped() != 0
}

// ShareMemory is cuIpcGetMemHandle, for the allocation of MemAlloc in which p lies.
func (c *Context) ShareMemory(p DevicePtr) (SharedMemory, error) {
	const call = "cuIpcGetMemHandle"
	if err := c.enter(call); err != nil {
		return SharedMemory{}, err
	}
	defer c.life.RUnlock()
	by, err := c.sharer(call)
	if err != nil {
		return SharedMemory{}, err
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byAddr.find(uint64(p), 1)
	if !ok || !e.value.exports() {
		return SharedMemory{}, errorf(call, ErrInvalidValue, "0x%x lies in no memory of cuMemAlloc", uint64(p))
	}
	o := e.value.vram.obj
	if o.key == (drm.Key{}) {
		if o.key, err = by.GemShare(o.handle); err != nil {
			return SharedMemory{}, c.fail(call, err)
		}
		c.dev.driver.keys.add(o.key)
	}
	return SharedMemory{Key: o.key, At: e.start - o.addr, Len: e.n}, nil
}

// OpenMemory is cuIpcOpenMemHandle: memory of another process, as long as it is not closed as often
// as it was opened, whatever that process does. Each time it has the same address.
func (c *Context) OpenMemory(name SharedMemory) (DevicePtr, error) {
	return c.openMemory("cuIpcOpenMemHandle", name, nil)
}

// openMemory opens memory of a pool of another process, or of no pool.
func (c *Context) openMemory(call string, name SharedMemory, of *Pool) (DevicePtr, error) {
	if err := c.enter(call); err != nil {
		return 0, err
	}
	defer c.life.RUnlock()
	by, err := c.sharer(call)
	if err != nil {
		return 0, err
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.imports[name]
	if x == nil {
		if x, err = m.open(by, name, of); errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EINVAL) {
			return 0, &Error{call, ErrInvalidValue, fmt.Errorf("the handle names no memory, or memory that no process has any more: %w", err)}
		} else if err != nil {
			return 0, c.fail(call, err)
		}
	}
	if x.pool != of {
		return 0, errorf(call, ErrInvalidValue, "the memory is open already, by another pool or none")
	}
	x.opens++
	return DevicePtr(x.address(m.vram.window.page)), nil
}

// address returns where the first byte lies.
func (x *imported) address(page uint64) uint64 { return x.base + x.name.At%page }

// open maps the pages in which an allocation of another process lies. M.mu is held.
func (m *memory) open(by drm.Sharer, name SharedMemory, of *Pool) (*imported, error) {
	handle, size, err := by.GemOpen(name.Key)
	if err != nil {
		return nil, err
	}
	x := &imported{name: name, handle: handle, pool: of}
	if err := m.mapImport(x, size); err != nil {
		return nil, errors.Join(err, m.vram.file.GemClose(handle))
	}
	if m.imports == nil {
		m.imports = map[SharedMemory]*imported{}
	}
	m.imports[name] = x
	m.note(x.address(m.vram.window.page), name.Len, allocation{imported: x})
	if of != nil {
		of.use(name.Len)
	}
	return x, nil
}

// mapImport maps memory of an object of so many bytes. M.mu is held.
func (m *memory) mapImport(x *imported, size uint64) (err error) {
	page := m.vram.window.page
	at, n := x.name.At, x.name.Len
	if n == 0 || at > size || n > size-at || size%page != 0 {
		return fmt.Errorf("%d bytes at %d of an object of %d: %w", n, at, size, syscall.EINVAL)
	}
	first := at &^ (page - 1)
	pages := (at - first + n + page - 1) &^ (page - 1)
	if x.base, err = m.vram.space.Alloc(pages, page); err != nil {
		return fmt.Errorf("%d bytes of GPU addresses: %w", pages, err)
	}
	op := drm.BindOp{Op: drm.BindMap, Handle: x.handle, Addr: x.base, BOOffset: first, Range: pages}
	if err := m.vram.file.VMBind([]drm.BindOp{op}, true); err != nil {
		_, ferr := m.vram.space.Free(x.base)
		return errors.Join(err, ferr)
	}
	return nil
}

// CloseMemory is cuIpcCloseMemHandle of what OpenMemory returned. It waits for the work of the
// context first.
func (c *Context) CloseMemory(p DevicePtr) error {
	const call = "cuIpcCloseMemHandle"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if err := c.waitIdle(call); err != nil {
		return err
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byAddr.find(uint64(p), 1)
	if !ok || e.start != uint64(p) || e.value.imported == nil || e.value.imported.pool != nil {
		return errorf(call, ErrInvalidValue, "no memory of another process was opened at 0x%x, or it is closed already", uint64(p))
	}
	return c.closeImport(call, e.value.imported)
}

// closeImport closes what was opened once. Memory.mu is held, and work that uses it is done.
func (c *Context) closeImport(call string, x *imported) error {
	if !c.memory.closes(x) {
		return nil
	}
	if err := c.memory.drop(x); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// closes forgets memory that was opened, if it is now closed as often as it was. M.mu is held.
func (m *memory) closes(x *imported) bool {
	if x.opens--; x.opens > 0 {
		return false
	}
	m.byAddr.remove(x.address(m.vram.window.page))
	delete(m.imports, x.name)
	if x.pool != nil {
		x.pool.unuse(x.name.Len)
	}
	return true
}

// drop gives back memory of another process that no work uses any more. M.mu is held.
func (m *memory) drop(x *imported) error {
	if err := m.vram.file.GemClose(x.handle); err != nil {
		return err // its mapping may still be there, so its address is not used again
	}
	_, err := m.vram.space.Free(x.base)
	return err
}

// Imported reports whether an address lies in memory of another process.
func (c *Context) Imported(p DevicePtr) bool {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, _ := c.memory.byAddr.find(uint64(p), 1)
	return e.value.imported != nil
}

// sharing is the part of an event that other processes have, too.
type sharing struct {
	by  drm.Sharer
	id  uint32
	key drm.Key // zero: another process's
}

// NewSharedEvent is cuEventCreate with CU_EVENT_INTERPROCESS.
func (c *Context) NewSharedEvent() (*Event, error) {
	return c.sharedEvent("cuEventCreate", func(s *sharing) (err error) {
		if s.id, s.key, err = s.by.EventNew(); err == nil {
			c.dev.driver.keys.add(s.key)
		}
		return err
	})
}

// OpenEvent is cuIpcOpenEventHandle.
func (c *Context) OpenEvent(key drm.Key) (*Event, error) {
	return c.sharedEvent("cuIpcOpenEventHandle", func(s *sharing) (err error) {
		s.id, err = s.by.EventOpen(key)
		return err
	})
}

func (c *Context) sharedEvent(call string, enter func(*sharing) error) (*Event, error) {
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	by, err := c.sharer(call)
	if err != nil {
		return nil, err
	}
	s := &sharing{by: by}
	if err := enter(s); errors.Is(err, syscall.ENOENT) {
		return nil, &Error{call, ErrMapFailed, fmt.Errorf("the handle names no event, or one that no process has any more: %w", err)}
	} else if err != nil {
		return nil, c.fail(call, err)
	}
	slot, err := c.newSlot(call)
	if err != nil {
		return nil, errors.Join(err, by.EventClose(s.id))
	}
	return &Event{c: c, slot: slot, shared: s}, nil
}

// Key is cuIpcGetEventHandle: by it other processes open the event.
func (e *Event) Key() (drm.Key, error) {
	if e.shared == nil || e.shared.key == (drm.Key{}) {
		return drm.Key{}, errorf("cuIpcGetEventHandle", ErrInvalidHandle, "the event is not made for other processes, or is another process's")
	}
	return e.shared.key, nil
}

// closeShared gives up the part that others have too. E.mu is held.
func (e *Event) closeShared() error {
	if e.shared == nil {
		return nil
	}
	e.c.dev.driver.keys.remove(e.shared.key)
	return e.shared.by.EventClose(e.shared.id)
}

// followedBy makes what is queued on a stream from now on wait for what the event stands for now, in
// whichever process it was recorded. C.mu is held.
func (e *Event) followedBy(call string, s *Stream) error {
	if s.task != nil {
		return errorf(call, ErrNotPermitted, "the stream collects a task, which waits for no other process")
	}
	seq, err := e.shared.by.EventWait(e.shared.id, s.channel)
	if err != nil {
		return s.c.fail(call, err)
	}
	s.last = seq
	return nil
}

// Waiting for other processes asks again after a while, twice as long each time.
const (
	firstAsk   = 20 * time.Microsecond
	longestAsk = time.Millisecond
)

// awaitShared is await for an event that another process may have recorded. P is what this one
// recorded last.
func (e *Event) awaitShared(call string, p point, timeout time.Duration) error {
	for pause := firstAsk; ; pause = min(2*pause, longestAsk) {
		done, err := e.shared.by.EventReached(e.shared.id)
		switch {
		case err != nil:
			return e.c.fail(call, err)
		case done:
			if p.s == nil {
				return nil
			}
			// Should the work of this process have failed, that is told. It need not be done:
			// another process may have recorded the event since.
			if err := e.c.wait(call, p, 0); err != nil && !errors.Is(err, ErrNotReady) {
				return err
			}
			return e.c.settled(call)
		case timeout == 0:
			return &Error{Call: call, Result: ErrNotReady}
		}
		time.Sleep(pause)
	}
}
