package nvidia

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

// lane is the memory through which a backend passes commands to its worker: one
// queue of fixed-size entries and, for each channel, a fence, to which the GPU
// itself writes the number of the last command that has completed.
//
//	64     tail     entries taken by the worker
//	128    sleeping the worker waits at its eventfd
//	192    lost     CUresult that ended the CUDA context, 0 while it lives
//	256    graphs   graphs that the driver has launched
//	320    apart    graphs whose commands were started one by one, since it refused them
//	4096   fences   64 bytes for each channel: u32 of the command
//	8192+  failures 64 bytes for each channel: u32 CUresult, u32 of the command
//	16384  entries
//
// Numbers of commands wrap around, so they are compared by their difference.
// One goroutine at a time writes entries (context.laneMu); one thread takes them.
type lane struct{ mem []byte }

const (
	maxChannels    = 64 // of one context, and of the device
	offTail        = 64
	offSleeping    = 128
	offLost        = 192
	offGraphs      = 256
	offGraphsApart = 320
	offFences      = 4096
	offFailures    = 8192
	offEntries     = 16384
	fenceStride    = 64
	entryCount     = 64
	entryHeader    = 64
	maxParamBytes  = 32764 // of PTX
	entryBytes     = (entryHeader + maxParamBytes + 63) &^ 63
	laneBytes      = (offEntries + entryCount*entryBytes + 4095) &^ 4095
)

// Kinds of entries.
const (
	entryLaunch = iota + 1
	entryCopy
	entryFill
	entryTimestamp
	entryCall
	entryKeep   // the next entries of the channel, of which it has the number, are to become the graph of a slot
	entryGraph  // launches the graph of a slot
	entryWord   // writes a word, or waits for one
	entryBehind // has the channel wait for a command of another one
)

// Flags in the first word of an entry.
const (
	flagLast  = 1 << 8
	flagQuiet = 1 << 9
	flagPhase = 1 << 24 // see phase
)

// entry is one entry of the queue. Its kind determines the meaning of its words.
type entry struct {
	kind    uint8
	last    bool // of its command: a fence follows
	quiet   bool // it may wait for a quiet command behind this one
	channel uint8
	number  uint32 // of the command
	words   [7]uint64
}

func (l lane) load(off int) uint32     { return hostmem.LoadUint32(l.mem, off) }
func (l lane) store(off int, v uint32) { hostmem.SwapUint32(l.mem, off, v) }

func (l lane) fence(channel int) uint32 { return l.load(offFences + channel*fenceStride) }

// failure is the command of a channel that the driver refused, if code is not 0.
func (l lane) failure(channel int) (code result, number uint32) {
	at := offFailures + channel*fenceStride
	return result(l.load(at)), l.load(at + 4)
}

// reached reports whether number a equals b or is later.
func reached(a, b uint32) bool { return int32(a-b) >= 0 }

// publish writes entry n, after all earlier ones. It reports whether the worker sleeps.
// Preconditions: the lane has room (process.room), and params has at most maxParamBytes.
func (l lane) publish(n uint32, e *entry, params []byte) (asleep bool) {
	b := l.slot(n)
	flags := phase(n)
	if e.last {
		flags |= flagLast
	}
	if e.quiet {
		flags |= flagQuiet
	}
	for i, w := range e.words {
		binary.LittleEndian.PutUint64(b[8+8*i:], w)
	}
	copy(b[entryHeader:], params)
	binary.LittleEndian.PutUint32(b[4:], e.number)
	// The phase marks the entry as complete. The store is a full barrier: the flag is read after it.
	hostmem.SwapUint32(b, 0, uint32(e.kind)|flags|uint32(e.channel)<<16)
	return l.load(offSleeping) != 0
}

// phase returns the flag of entry n, which differs from that of the entry before it in the
// same slot. The consumer polls this flag alone, as in NVMe's completion queues. A counter
// would cost a second cache line.
func phase(n uint32) uint32 {
	if n/entryCount%2 == 0 {
		return flagPhase
	}
	return 0
}

// ready reports whether entry n, the next one to take, was published.
func (l lane) ready(n uint32) bool {
	return hostmem.LoadUint32(l.slot(n), 0)&flagPhase == phase(n)
}

// slot returns the memory of an entry.
func (l lane) slot(n uint32) []byte {
	return l.mem[offEntries+int(n%entryCount)*entryBytes:][:entryBytes]
}

// take reads entry n, which was published. The parameters stay in place.
func (l lane) take(n uint32) (e entry, params []byte) {
	b := l.slot(n)
	w := binary.LittleEndian.Uint64(b)
	e = entry{kind: uint8(w), last: w&flagLast != 0, quiet: w&flagQuiet != 0, channel: uint8(w>>16) % maxChannels, number: uint32(w >> 32)}
	for i := range e.words {
		e.words[i] = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	return e, b[entryHeader:][:maxParamBytes]
}

// quiet reports whether entry n, which was published, is a quiet one of a channel.
func (l lane) quiet(n uint32, channel uint8) bool {
	w := binary.LittleEndian.Uint64(l.slot(n))
	return w&flagQuiet != 0 && uint8(w>>16) == channel
}

// newLane makes the memory of a lane. Its size is sealed: otherwise another process could
// truncate it, and an access beyond its end would kill the process that maps it.
func newLane() (int, error) {
	fd, err := unix.MemfdCreate("pvdrm-cuda-lane", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	err = os.NewSyscallError("ftruncate", unix.Ftruncate(fd, laneBytes))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		err = os.NewSyscallError("sealing", err)
	}
	if err != nil {
		_ = unix.Close(fd) // err is the error to report
		return -1, fmt.Errorf("making the command queue: %w", err)
	}
	return fd, nil
}

// newWake makes the eventfd that wakes a worker. Writes to it do not block, since a worker
// that was taken over may have filled it.
func newWake() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return fd, os.NewSyscallError("eventfd2", err)
}

// mapLane maps the memory behind a descriptor.
func mapLane(fd int) (lane, error) {
	mem, err := unix.Mmap(fd, 0, laneBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return lane{}, fmt.Errorf("mapping the command queue: %w", err)
	}
	return lane{mem}, nil
}
