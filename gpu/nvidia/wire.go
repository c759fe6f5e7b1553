package nvidia

import (
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// Everything but commands goes over a stream socket, one request and one reply at
// a time, in gob. Descriptors travel beside the first byte of their request. Both
// ends are the same program, so the messages have no version.

// request asks a worker for something. Op says what, and which fields count.
type request struct {
	Op     op
	Number int32   // of opHello and opHelloCompiler: ordinal of the GPU
	Peers  []int32 // of opHello: ordinals of GPUs whose memory it is to reach
	Peer   int     // of opAllocate: the memory is of that one of them, from 1 on; 0: of its own GPU
	ID     uint64  // of a memory or module
	VA     uint64
	Off    uint64
	Size   uint64 // with More: bytes of the whole Image
	Write  bool
	Slot   int    // of a channel
	Runs   []run  // of opSystem
	Image  []byte // of opLoad: what was compiled; of opCompile: PTX
	Lazy   bool   // of opLoad: Names and Vars are asked for later
	More   bool   // Image goes on in the next message
	Most   int    // of opCompile: bytes that the answer's Image may have
	Names  []string
	Vars   []string
	// Cleared says of an opAllocate which pages a worker before this one has cleared; nil for none.
	Cleared []bool
	Single  bool     // of opAllocate: the keeper keeps each page by itself
	FDs     int      // that travel with it
	Values  []uint64 // of opAsk

	mapped bool // Image is memory that forget gives back
}

type op uint8

const (
	opHello         op = iota // be a worker of a context
	opHelloCompiler           // be one that compiles
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
	opFind    // kernels and variables of a module
	opAsk     // a gpu.Question, which is Slot, about kernel ID
	opCompile // of a compiler
	opDivide  // makes each page of a memory an allocation of its own, which the keeper can hold
	opFlush   // prints what kernels have printed
)

// maxRequest bounds a request, in bytes; what a guest can have in one is bounded elsewhere.
const maxRequest = 256 << 20

// answerBytes bounds each message of the answer to a request, which comes from a worker that
// a guest may have taken over.
func (q *request) answerBytes() int {
	const perName, paramText = 256, 12 // gob's numbers have up to 5 bytes here
	n := maxMessage + perName*(len(q.Names)+len(q.Vars)) + paramText*maxFuncParams*len(q.Names)
	if q.Most > 0 {
		n += partBytes
	}
	return n
}

// large reports whether what was needed to send a request, or its answer, is not to be kept.
func (q *request) large() bool {
	const most = 4096 // bytes, about
	n := len(q.Runs)*16 + len(q.Cleared)
	for _, list := range [][]string{q.Names, q.Vars} {
		for _, name := range list {
			n += len(name) + 64
		}
	}
	return n > most || q.Most > 0
}

// receive is the worker's side of process.do: it takes a request of one or several messages.
func (q *request) receive(l *link) error {
	var image []byte
	var mapped bool
	for {
		*q = request{}
		if err := l.decode(q, maxRequest); err != nil {
			return err
		}
		if q.More && image == nil && q.Size > partBytes { // memory that goes back at once: the worker collects no garbage
			room, err := unix.Mmap(-1, 0, int(q.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return os.NewSyscallError("mmap", err)
			}
			image, mapped = room[:0], true
		}
		image = append(image, q.Image...)
		if !q.More {
			q.Image, q.mapped = image, mapped
			return nil
		}
	}
}

// forget gives the memory of an image back.
func (q *request) forget() {
	if q.mapped {
		_ = unix.Munmap(q.Image[:cap(q.Image)]) // our own mapping; cannot fail
		q.Image, q.mapped = nil, false
	}
}

// send sends an answer of one or several messages.
func (r *reply) send(l *link) (err error) {
	last := *r
	if last.Image, err = l.sendImage(r.Image); err != nil {
		return err
	}
	return l.send(&last, nil)
}

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
	Graphs    bool           // of opHello: the worker makes graphs of the driver
	Image     []byte         // of opCompile: what was compiled
	More      bool           // Image goes on in the next message
	Functions []functionInfo // of opLoad and opFind, in the order of Names
	Vars      []varInfo      // of opLoad and opFind, in the order of Vars
	Values    []uint64       // of opAsk
}

// functionInfo is what the driver says of a kernel.
type functionInfo struct {
	Handle                                 uint64
	MaxThreads, Shared, Const, Local, Regs int

	PTXVersion, Binary int
	Cluster            [3]int
	NeedsCluster       bool

	Params []gpu.Param
	Laid   bool // the driver told Params
}

// varInfo is where a variable lies; Size is 0 where the driver left it out.
type varInfo struct{ Addr, Size uint64 }
