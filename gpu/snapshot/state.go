// Package snapshot holds the state of a gpu.Context as a device writes it down
// (gpu.Snapshotter) and builds it again (gpu.Restorer), and its encoding.
//
// A State refers to nothing of the device: objects name each other by their
// indices. Read trusts nothing: every count has a bound, every index is checked,
// and what it allocates is proportional to what it has read. Whether a device can
// have such a context, its Restore decides.
package snapshot

import "pvdrm/gpu"

// State is a context that is stopped.
type State struct {
	Driver   string // gpu.Properties.Driver of the device that wrote it
	Memories []Memory
	Mappings []Mapping // in order of their addresses
	Heap     *Heap     // nil if there is none
	Modules  []Module
	Channels []Channel
	Output   []byte // of kernels, not yet read
}

// Memory is VRAM or system memory. The state contains the contents of VRAM only.
type Memory struct {
	System bool
	Size   uint64
	Data   []Extent
}

// Extent is a part of a memory that is not zero. A list of them is in order, and they do
// not overlap.
type Extent struct {
	Off   uint64
	Bytes []byte // at most MaxExtent
}

// Mapping shows Size bytes of a memory, from Off on, at VA.
type Mapping struct {
	VA, Size uint64
	Memory   int
	Off      uint64
	Write    bool
}

// Heap is the memory from which kernels allocate: Size bytes at VA. State says what of it is
// allocated, in the encoding of the device.
type Heap struct {
	VA, Size uint64
	Data     []Extent
	State    []byte
}

// Module is a loaded module. Its variables take Size bytes at VA; 0 if it has none.
type Module struct {
	File     string
	Source   []byte
	VA, Size uint64
	Data     []Extent
}

// Channel is a channel with the batches that have not ended.
type Channel struct {
	Completed uint64 // batches that have ended
	Failed    string // the error that cancels all later batches; "" if there is none
	Batches   []Batch
}

// Batch is what remains of a batch: Begun commands have run already. The Func of a launch
// is a Kernel. If the first command is a launch that was preempted, Launch is what is left of
// it, in the encoding of the device.
type Batch struct {
	Begun    uint64
	Launch   []byte
	Commands []gpu.Command
}

// Kernel names a kernel of a module. It implements gpu.Function, for which it has no more
// than the name.
type Kernel struct {
	Module int // index in State.Modules, or None
	Name   string
}

// None is the module of a kernel whose module is closed.
const None = -1

// Attributes implements gpu.Function.
func (k Kernel) Attributes() gpu.FunctionAttributes { return gpu.FunctionAttributes{Name: k.Name} }

// Bounds of a state that Read accepts.
const (
	MaxExtent   = 1 << 20 // bytes
	MaxMemories = 1 << 17
	MaxMappings = 1 << 17
	MaxModules  = 1 << 16
	MaxChannels = 1 << 12
	MaxBatches  = 1 << 20 // of a channel
	MaxCommands = 1 << 20 // of a batch
	MaxParams   = 1 << 16 // bytes of a launch
	MaxLaunch   = 1 << 30 // bytes of a launch that was preempted
	MaxSource   = 64 << 20
	MaxHeap     = 128 << 20 // bytes of Heap.State
	MaxOutput   = 16 << 20
	MaxText     = 1 << 16 // bytes of a name or message
)

// pageBytes is the granularity at which extents leave out zeros.
const pageBytes = 4096

// Extents returns the parts of b that are not zero, as parts of b. It leaves out whole
// pages only. Off is where b begins in its memory.
func Extents(off uint64, b []byte) (list []Extent) {
	start := -1 // of the extent that is open
	for at := 0; at < len(b); at += pageBytes {
		page := b[at:min(at+pageBytes, len(b))]
		switch {
		case zero(page):
			if start >= 0 {
				list = append(list, Extent{Off: off + uint64(start), Bytes: b[start:at]})
				start = -1
			}
		case start < 0:
			start = at
		case at-start >= MaxExtent:
			list = append(list, Extent{Off: off + uint64(start), Bytes: b[start:at]})
			start = at
		}
	}
	if start >= 0 {
		list = append(list, Extent{Off: off + uint64(start), Bytes: b[start:]})
	}
	return list
}

// zero reports whether all bytes are zero.
func zero(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
