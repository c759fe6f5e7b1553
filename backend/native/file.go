// Package native is PVDRM's DRM file directly on a device: calls of package file, with no ring,
// no backend process and no guest in between. Programs that run on it show what the device itself
// costs, which is what everything else is measured against; it means the same as package frontend
// over package backend/session, errors included.
//
// A File has one goroutine while batches wait for points of other channels, and none otherwise.
//
// # Locks
//
// File.mu makes its holder the owner of the file.File, and is held while the device is called, but
// not while it compiles or closes a channel. File.turn guards what waiters look at, is held for a
// few instructions only, and comes after File.mu. File.loads comes before both.
package native

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"time"

	"pvdrm/backend/file"
	"pvdrm/backend/translate"
	"pvdrm/drm"
	"pvdrm/gem"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// File is an open DRM file on a context of a device.
type File struct {
	device gpu.Device
	params []uint64
	living context.Context // canceled by Close
	end    context.CancelFunc
	guest  file.Guest

	loads sync.Mutex // one module load at a time

	mu      sync.Mutex
	file    *file.File
	objects map[uint32]*object
	feeding bool // a goroutine calls Advance
	closed  bool
	aside   sync.WaitGroup // calls that close a channel or compile, and the feeder; Add under mu

	turn     sync.Mutex
	moved    sync.Cond // signalled when a channel has come further, or a sync object changed
	ends     uint64    // batches that have ended
	channels map[uint32]*channel
	syncobjs *gem.Syncobjs
	async    error // first failure of a queued operation, until it is returned
	over     bool  // closed
}

var _ drm.Driver = (*File)(nil)

// limits leaves to the program what the device has, but for the sources of modules.
var limits = func() (l quota.Limits) {
	for r := range l {
		l[r] = math.MaxUint64
	}
	l[quota.ModuleText] = drm.MaxSource
	return l
}()

// Open opens a file on a context of its own. The label names it in errors.
func Open(device gpu.Device, label string) (*File, error) {
	f := &File{
		device: device, objects: map[uint32]*object{},
		channels: map[uint32]*channel{}, syncobjs: gem.NewSyncobjs(drm.MaxSyncobjs),
	}
	f.moved.L = &f.turn
	f.guest.SetLimits(limits)
	f.guest.SetCompileTime(24 * time.Hour)
	var err error
	if f.file, err = file.Open(device, &f.guest, label, progress{f}); err != nil {
		return nil, fmt.Errorf("GPU context: %w", errnoOf(err))
	}
	f.params = f.file.Params()
	f.living, f.end = context.WithCancel(context.Background())
	return f, nil
}

// errnoOf makes err wrap the errno that the user API has for it.
func errnoOf(err error) error {
	no := translate.Errno(err)
	if err == nil || errors.Is(err, no) {
		return err
	}
	return fmt.Errorf("%w: %w", no, err)
}

// errClosed is the error of calls on a closed file.
var errClosed = fmt.Errorf("the file is closed: %w", syscall.EBADF)

// lock takes mu for a call on an open file.
func (f *File) lock() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return errClosed
	}
	return nil
}

// wait takes turn for a call on an open file.
func (f *File) wait() error {
	f.turn.Lock()
	if f.over {
		f.turn.Unlock()
		return errClosed
	}
	return nil
}

// Close implements drm.File. It aborts what runs.
func (f *File) Close() error {
	if f.lock() != nil {
		return fmt.Errorf("close: %w", syscall.EBADF)
	}
	f.closed = true
	f.turn.Lock()
	f.over = true
	f.moved.Broadcast()
	f.turn.Unlock()
	f.mu.Unlock()
	f.end()
	errs := []error{errnoOf(f.file.Abort())} // completes all that was submitted
	f.aside.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.file.Close() // what Abort returned, again
	for _, o := range f.objects {
		errs = append(errs, o.unmapped)
	}
	return errors.Join(errs...)
}

// Version implements drm.File.
func (f *File) Version() (drm.Info, error) {
	return drm.Info{Name: drm.DriverName, Desc: f.device.Properties().Name, Major: drm.DriverMajor, Minor: drm.DriverMinor}, nil
}

// GetParam implements drm.File.
func (f *File) GetParam(p drm.Param) (uint64, error) {
	switch {
	case p == drm.ParamVRAMUsed:
		return f.file.Used(), nil
	case p >= 1 && uint64(p) <= uint64(len(f.params)):
		return f.params[p-1], nil
	}
	return 0, fmt.Errorf("parameter %d: %w", p, syscall.EINVAL)
}

// LostStatus implements drm.File.
func (f *File) LostStatus() (cause uint32, text string, err error) {
	lost, text := f.file.Status()
	return uint32(lost), text, nil
}

// Ask implements drm.Asker.
func (f *File) Ask(q drm.Question, function uint32, values []uint64) ([]uint64, error) {
	if err := f.lock(); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	answer, err := f.file.Ask(q, function, values)
	return answer, errnoOf(err)
}

// ReadOutput implements drm.OutputReader.
func (f *File) ReadOutput() ([]byte, error) { return f.file.Output(), nil }
