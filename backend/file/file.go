package file

import (
	"errors"
	"time"

	"pvdrm/backend/translate"
	"pvdrm/drm"
	"pvdrm/gem"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// Observer learns how far the channels of a file have come. Its methods are called from any
// goroutine, for one channel in order. They must neither block nor call the file or the device.
type Observer interface {
	// Reached publishes that all batches of a channel up to seqno are done. Failed is the
	// channel's first failure if this batch is it, else nil.
	Reached(channel uint32, seqno uint64, failed *Failure)
	// Ended reports that the file holds nothing of a batch any more, and its error. It comes
	// after Reached.
	Ended(channel uint32, seqno uint64, err error)
	// Stirred reports that a point of another file is reached for which a batch of this one waits:
	// the owner is to call Advance.
	Stirred()
}

// File is one DRM file on a context of a device.
type File struct {
	device   gpu.Device
	ctx      gpu.Context
	guest    *Guest
	account  *quota.Account
	observer Observer

	objects   *gem.Table[*object]
	modules   *gem.Table[*module]
	functions *gem.Table[gpu.Function]
	events    *gem.Table[*event]
	function  func(id uint32) (gpu.Function, error) // of functions
	channels  *gem.Table[*Channel]
	loading   *Load  // being sent
	compiling *Load  // being compiled
	kept      uint64 // VRAM that the account holds for the context itself: its heap
	flight    flight
}

// Open makes a file with a context of its own, if the guest may have one more. The label names
// the owner in errors and logs.
func Open(device gpu.Device, guest *Guest, label string, observer Observer) (*File, error) {
	f := newFile(device, guest, observer)
	if err := f.account.Charge(quota.Contexts, 1); err != nil {
		return nil, err
	}
	var err error
	if f.ctx, err = device.NewContext(label); err != nil {
		f.account.Close()
		return nil, err
	}
	return f, nil
}

// OpenWatcher is Open for a file that has no context: it tells what the device is and what of it is in use.
func OpenWatcher(device gpu.Device, guest *Guest, _ string, observer Observer) (*File, error) {
	f := newFile(device, guest, observer)
	if err := f.account.Charge(quota.Contexts, 1); err != nil { // so that a guest has no end of files
		return nil, err
	}
	f.ctx = new(noContext)
	return f, nil
}

// newFile makes a file that has no context yet.
func newFile(device gpu.Device, guest *Guest, observer Observer) *File {
	f := &File{
		device: device, guest: guest, account: quota.NewAccount(&guest.Set), observer: observer,
		objects:   gem.NewTable[*object]("GEM object", drm.MaxObjects),
		modules:   gem.NewTable[*module]("module", drm.MaxModules),
		functions: gem.NewTable[gpu.Function]("function", drm.MaxFunctions),
		events:    gem.NewTable[*event]("event", drm.MaxEvents),
		channels:  gem.NewTable[*Channel]("channel", drm.MaxChannels),
	}
	f.function = f.functions.Get
	return f
}

// Abort aborts what runs and makes all later calls of the device fail. It may be called from any
// goroutine and more than once; each call returns when nothing runs any more.
func (f *File) Abort() error { return f.ctx.Close() }

// Close aborts what runs and frees everything. No Freeing or Load of the file may be waited for
// or compiled when it is called, nor anything of the file be used afterwards.
func (f *File) Close() error {
	err := f.Abort()
	for _, o := range f.objects.All {
		if o.pages.Payer != nil {
			o.pages.Payer.Refund(o.mem.Size())
		}
		f.unshare(o, o.mem.Size())
		o.release()
	}
	for _, ch := range f.channels.All {
		ch.drop(f)
		ch.end(f.guest)
	}
	for _, e := range f.events.All {
		f.guest.leaveEvent(e)
	}
	if f.loading != nil {
		f.loading.forget() // the account gives back what it took
	}
	if l := f.compiling; l != nil {
		f.adopt(l) // it was closed with the context
	}
	f.account.Close()
	return err
}

// Params returns the values of GETPARAM that do not change, in the order of drm.Param.
func (f *File) Params() []uint64 { return translate.Params(f.device.Properties()) }

// Used returns the device's VRAM in use, in bytes: drm.ParamVRAMUsed.
func (f *File) Used() uint64 {
	st := f.device.Stats()
	return st.VRAM()
}

// Held returns the bytes of VRAM that the file has: what is charged to it, or if that is more all that its
// context has on the device. It may be called from any goroutine.
func (f *File) Held() uint64 {
	held := f.account.VRAM()
	if o, ok := f.ctx.(gpu.Occupier); ok {
		held = max(held, o.Occupied())
	}
	return held
}

// Room returns how many bytes of VRAM the guest has, and how many of them it can still allocate:
// the less of what its quota and its device give. It may be called from any goroutine.
func (f *File) Room() (most, free uint64) {
	device := f.device.Properties().VRAMBytes
	most = min(device, f.guest.Limit(quota.VRAM))
	free = min(device-min(device, f.Used()), f.guest.Left(quota.VRAM), most)
	return most, free
}

// Busy returns for how long the device's engines have worked for the file, if the device knows. It
// may be called from any goroutine.
func (f *File) Busy() (compute, copies time.Duration, known bool) {
	m, known := f.ctx.(gpu.Meter)
	if known {
		compute, copies = m.Busy()
	}
	return compute, copies, known
}

// Status returns why the context was lost: LostNone and no text while it lives. It may be called
// from any goroutine.
func (f *File) Status() (cause gpu.LostCause, text string) {
	err := f.ctx.Err()
	if lost, is := errors.AsType[*gpu.LostError](err); is {
		return lost.Cause, lost.Error()
	} else if err != nil {
		return gpu.LostDevice, err.Error()
	}
	return gpu.LostNone, ""
}

// Output takes the oldest part of what kernels printed, at most drm.MaxText bytes. It may be
// called from any goroutine.
func (f *File) Output() []byte {
	p, ok := f.ctx.(gpu.Printer)
	if !ok {
		return nil
	}
	text := make([]byte, drm.MaxText)
	return text[:p.ReadOutput(text)]
}
