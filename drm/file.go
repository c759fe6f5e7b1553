package drm

import "time"

// Info is what VERSION tells.
type Info struct {
	Name                string
	Desc                string // the device's name
	Major, Minor, Patch int
}

// File is an open DRM file of PVDRM's driver: one GPU address space with its
// objects, modules and channels. Each method is one ioctl, by its name.
//
// Errors wrap a syscall.Errno: ENOENT for an id that is not there, EINVAL for
// wrong arguments, ENOMEM and ENOSPC where memory or room ran out, EBUSY for a
// channel or wait that cannot be had now, ETIME for a wait that ran out, EIO
// once the GPU context was lost (LostStatus says why), ENODEV once the backend
// is gone. Methods may be called from several goroutines.
type File interface {
	Version() (Info, error)
	GetParam(Param) (uint64, error)

	// GemNew makes an object of at least size bytes. It reads as zero, unless
	// flags has GemDirty.
	GemNew(size uint64, d Domain, flags GemFlags) (handle uint32, err error)
	// GemMap returns the memory of an object in DomainSystem, valid until GemClose.
	GemMap(handle uint32) ([]byte, error)
	GemSize(handle uint32) (uint64, error)
	// GemClose frees an object. Its mappings in the address space go with it.
	// It is queued; work that uses the object must have been waited for.
	GemClose(handle uint32) error

	// VMBind changes mappings; see the VMBind struct. Async queues it.
	VMBind(ops []BindOp, async bool) error

	ChannelAlloc() (channel uint32, err error)
	ChannelFree(channel uint32) error

	// Exec queues a command stream (see CommandWriter) on a channel, after the
	// points in waits, and returns its sequence number, which grows by one.
	// The stream may be reused when Exec returns. At most MaxExecBytes long.
	Exec(channel uint32, stream []byte, waits []Point) (seqno uint64, err error)
	// Wait returns when the point is reached. Timeout 0 asks without waiting,
	// a negative one waits without limit; ETIME when it ran out.
	Wait(p Point, timeout time.Duration) error

	// ModuleLoad loads PTX, or machine code where ParamImages is 1. Name is used in messages. A source that is refused
	// gives a *ModuleError.
	ModuleLoad(name string, source []byte) (module uint32, err error)
	ModuleUnload(module uint32) error
	ModuleFunction(module uint32, name string) (function uint32, attr FunctionAttributes, err error)
	ModuleGlobal(module uint32, name string) (addr, size uint64, err error)

	// LostStatus is STATUS: the cause (gpu.LostCause) and text of a lost context, 0 while it lives.
	LostStatus() (cause uint32, text string, err error)

	Close() error
}

// Driver is a File with all that programs reach by ioctls of their own: sync
// objects, PRIME and what the library of PVDRM has no use of. Sync objects are
// of the file; handles that are not there are ENOENT.
type Driver interface {
	File
	OutputReader

	// GemInfo tells of an object what GEM_NEW and GEM_INFO do.
	GemInfo(handle uint32) (GemInfo, error)
	// CPUPrep waits until all that was submitted so far is done.
	CPUPrep(handle uint32, timeout time.Duration) error

	SyncobjCreate(signaled bool) (handle uint32, err error)
	SyncobjDestroy(handle uint32) error
	SyncobjReset(handles []uint32) error
	SyncobjSignal(handles []uint32) error
	// SyncobjWait waits for all of the sync objects or for one, whose index it
	// returns. One without a fence is EINVAL, unless forSubmit. The timeout is as
	// in Wait.
	SyncobjWait(handles []uint32, all, forSubmit bool, timeout time.Duration) (first int, err error)
	// ExecSync is Exec after what the sync objects in waits stand for; those in
	// signals stand for its point from then on.
	ExecSync(channel uint32, stream []byte, waits, signals []uint32) (seqno uint64, err error)

	// PrimeExport makes a descriptor of an object in DomainSystem, which the
	// caller closes; EOPNOTSUPP in VRAM and with GemNoShare.
	PrimeExport(handle uint32) (fd int, err error)
	// PrimeImport makes an object of such a descriptor, of this file or another.
	// The descriptor stays the caller's.
	PrimeImport(fd int) (handle uint32, err error)
}

// StderrMark stands before each line of OutputReader's that belongs on standard error. It may be cut
// between two calls.
const StderrMark = "\x00pvdrm-stderr\x00"

// OutputReader is a File that has what kernels printed; it is READ_OUTPUT.
type OutputReader interface {
	// ReadOutput takes the oldest part of what kernels of this file printed that
	// have ended. It is empty when there is none, or where the device keeps none.
	ReadOutput() ([]byte, error)
}

// Placer is a File whose objects can lie in the program at an address of choice.
type Placer interface {
	// GemMapAt maps the first size bytes of an object in DomainSystem, which was
	// made without GemNoShare, into the program once more: at addr, both multiples
	// of the page. EEXIST if something lies there. GemUnmapAt ends it, and must
	// come before GemClose.
	GemMapAt(handle uint32, addr, size uint64) ([]byte, error)
	GemUnmapAt(mem []byte) error
}

// Key names memory or an event that files of one guest share: random bits, so that no
// file can guess one that it was not given.
type Key [16]byte

// Sharer is a File whose memory and events other files of the guest can use, if ParamShares is set.
// A key that names nothing is ENOENT.
type Sharer interface {
	// GemShare returns the key of an object in VRAM, the same each time. It is ENOENT again when
	// no file has the object any more.
	GemShare(handle uint32) (Key, error)
	// GemOpen makes an object of the same memory, which lives as long as one of them.
	GemOpen(Key) (handle uint32, size uint64, err error)

	// EventNew makes an event, EventOpen an id for the same event.
	EventNew() (event uint32, key Key, err error)
	EventOpen(Key) (event uint32, err error)
	EventClose(event uint32) error
	// EventRecord makes an event stand for a point of a channel of this file.
	EventRecord(event uint32, p Point) error
	// EventWait queues a batch on a channel that ends when what the event stands for now is
	// reached, and returns its sequence number. That is so at once if nothing was recorded, and
	// when the file whose point it is has ended.
	EventWait(event, channel uint32) (seqno uint64, err error)
	// EventReached reports whether what the event stands for now is reached.
	EventReached(event uint32) (bool, error)
}

// Point is a point in a channel's order of work.
type Point struct {
	Channel uint32
	Seqno   uint64 // every batch up to this one
}

// ModuleError is returned by ModuleLoad with the log of the compiler.
type ModuleError struct {
	Log string
	Err error
}

func (e *ModuleError) Error() string { return e.Err.Error() + ":\n" + e.Log }
func (e *ModuleError) Unwrap() error { return e.Err }

// Bounds of the arguments of ioctls, which the ring carries as they are.
const (
	MaxExecBytes = 36 << 10 // bytes of a command stream: the largest launch, and more
	MaxLaunch    = 32764    // bytes of parameters that LAUNCH carries, as many as a kernel of PTX has
	MaxWaits     = 64       // points of one EXEC
	MaxName      = 12 << 10 // bytes of a symbol or file name: those of C++ templates are long
	MaxText      = 12 << 10 // bytes of a log or of printed output; longer ones are cut
	MaxSource    = 64 << 20 // bytes of a module's PTX
	MaxImage     = 1 << 30  // bytes of a module's machine code
	MaxParams    = 512      // parameters of a kernel
)

// Bounds of one file.
const (
	MaxObjects   = 1 << 14
	MaxModules   = 1024
	MaxFunctions = 1 << 14 // kernels that MODULE_FUNCTION found, of all modules
	MaxChannels  = 63      // ids of channels are from 1 to it
	MaxSyncobjs  = 1 << 16
	MaxEvents    = 1 << 14 // that other files of the guest can open
)
