package cuda

import "pvdrm/gpu"

// Everything but commands goes over a stream socket, one request and one reply at
// a time, in gob. Descriptors travel beside the first byte of their request. Both
// ends are the same program, so the messages have no version.

// request asks a worker for something. Op says what, and which fields count.
type request struct {
	Op    op
	ID    uint64 // of a memory or module
	VA    uint64
	Off   uint64
	Size  uint64
	Write bool
	Slot  int    // of a channel
	Runs  []run  // of opSystem
	Image []byte // of opLoad: PTX, or what was compiled from it
	Built bool   // Image is compiled
	Names []string
	Vars  []string
	FDs   int // that travel with it
}

type op uint8

const (
	opHello op = iota
	opAllocate
	opRelease
	opMap
	opUnmap
	opMapSystem
	opUnmapSystem
	opLoad
	opUnload
	opOpen
	opClose
)

// undoes reports whether a request is to take away what a new worker never had.
func (q *request) undoes() bool {
	switch q.Op {
	case opUnmap, opUnmapSystem, opUnload, opClose:
		return true
	}
	return false
}

// run is a piece of a file.
type run struct {
	File int // which of the descriptors
	Off  uint64
	Len  uint64
}

// reply answers a request.
type reply struct {
	Err       *driverError
	Props     gpu.Properties // of opHello
	Image     []byte         // of opLoad: what was compiled
	Functions []functionInfo // of opLoad, in the order of Names
	Vars      []varInfo      // of opLoad, in the order of Vars
}

// functionInfo is what the driver says of a kernel.
type functionInfo struct {
	Handle                                 uint64
	MaxThreads, Shared, Const, Local, Regs int
}

// varInfo is where a variable lies; Size is 0 where the driver left it out.
type varInfo struct{ Addr, Size uint64 }
