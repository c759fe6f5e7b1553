// Package native is PVDRM's DRM file directly on a device: no ring, no backend
// process, no guest. Programs that run on it show what the device itself costs,
// which is what everything else is measured against; it means the same as
// package frontend over package backend/session, errors included.
//
// A File has one goroutine for each channel whose next batch waits for points
// of other channels, and none otherwise.
//
// File.mu guards the tables, how far channels have come and how they failed.
// channel.order makes Exec and Submit of one channel happen in one order, and
// comes before File.mu, which is held for a few instructions only. Channel.order
// is held while the device takes a batch or closes the channel.
package native

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"pvdrm/backend/translate"
	"pvdrm/drm"
	"pvdrm/gem"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// Bounds of one file, those of a session.
const (
	maxObjects   = 1 << 14
	maxModules   = 1024
	maxFunctions = 1 << 14
	maxSyncobjs  = 1 << 16
)

// File is an open DRM file on a context of a device.
type File struct {
	device gpu.Device
	ctx    gpu.Context
	params []uint64

	feeders sync.WaitGroup // of all channels

	mu        sync.Mutex
	moved     sync.Cond // signalled when a channel has come further, or a sync object changed
	objects   *gem.Table[*object]
	modules   *gem.Table[*module]
	functions *gem.Table[gpu.Function]
	channels  *gem.Table[*channel]
	syncobjs  *gem.Syncobjs
	sources   uint64 // bytes of the sources of all modules
	async     error  // first failure of a queued operation, until someone is told
	closed    bool
}

var _ drm.Driver = (*File)(nil)

// Open opens a file on a context of its own. The label names it in errors.
func Open(device gpu.Device, label string) (*File, error) {
	ctx, err := device.NewContext(label)
	if err != nil {
		return nil, fmt.Errorf("GPU context: %w", errnoOf(err))
	}
	f := &File{
		device: device, ctx: ctx, params: translate.Params(device.Properties()),
		objects:   gem.NewTable[*object]("GEM object", maxObjects),
		modules:   gem.NewTable[*module]("module", maxModules),
		functions: gem.NewTable[gpu.Function]("function", maxFunctions),
		channels:  gem.NewTable[*channel]("channel", hypercall.MaxChannels-1),
		syncobjs:  gem.NewSyncobjs(maxSyncobjs),
	}
	f.moved.L = &f.mu
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

// Close implements drm.File. It aborts what runs.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return fmt.Errorf("close: %w", syscall.EBADF)
	}
	f.closed = true
	f.moved.Broadcast()
	f.mu.Unlock()
	errs := []error{errnoOf(f.ctx.Close())} // completes all that was submitted, so that no feeder waits for ever
	f.feeders.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.objects.All {
		errs = append(errs, o.unmap())
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
		return f.device.Stats().VRAMUsed, nil
	case p >= 1 && uint64(p) <= uint64(len(f.params)):
		return f.params[p-1], nil
	}
	return 0, fmt.Errorf("parameter %d: %w", p, syscall.EINVAL)
}

// LostStatus implements drm.File.
func (f *File) LostStatus() (cause uint32, text string, err error) {
	var lost *gpu.LostError
	if err := f.ctx.Err(); errors.As(err, &lost) {
		return uint32(lost.Cause), lost.Error(), nil
	} else if err != nil {
		return uint32(gpu.LostDevice), err.Error(), nil
	}
	return uint32(gpu.LostNone), "", nil
}

// ReadOutput is PVDRM_READ_OUTPUT.
func (f *File) ReadOutput() ([]byte, error) {
	p, ok := f.ctx.(gpu.Printer)
	if !ok {
		return nil, nil
	}
	text := make([]byte, hypercall.MaxText)
	return text[:p.ReadOutput(text)], nil
}

// errClosed is the error of calls on a closed file.
var errClosed = fmt.Errorf("the file is closed: %w", syscall.EBADF)

// find looks up an id of an open file.
func find[T any](f *File, t *gem.Table[T], id uint32) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		var none T
		return none, errClosed
	}
	return t.Get(id)
}

// take looks up an id of an open file and removes it.
func take[T any](f *File, t *gem.Table[T], id uint32) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		var none T
		return none, errClosed
	}
	return t.Take(id)
}

// add enters v into a table of an open file.
func add[T any](f *File, t *gem.Table[T], v T) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, errClosed
	}
	return t.Add(v)
}
