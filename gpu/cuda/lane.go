package cuda

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

// lane is the memory through which a backend hands commands to its worker: one
// queue of fixed-size entries, and for each channel a fence, the number of the
// last command that has ended, which the GPU itself writes.
//
//	64     tail     entries taken by the worker
//	128    sleeping the worker waits at its eventfd
//	192    lost     CUresult that ended the CUDA context, 0 while it lives
//	4096   fences   64 bytes for each channel: u32 of the command
//	8192+  failures 64 bytes for each channel: u32 CUresult, u32 of the command
//	16384  entries
//
// Numbers of commands wrap around; they are compared by their difference.
// One goroutine at a time writes entries (context.laneMu), one thread takes them.
type lane struct{ mem []byte }

const (
	maxChannels   = 64 // of one context, and of the device
	offTail       = 64
	offSleeping   = 128
	offLost       = 192
	offFences     = 4096
	offFailures   = 8192
	offEntries    = 16384
	fenceStride   = 64
	entryCount    = 64
	entryHeader   = 64
	maxParamBytes = 4096
	entryBytes    = entryHeader + maxParamBytes
	laneBytes     = (offEntries + entryCount*entryBytes + 4095) &^ 4095
)

// Kinds of entries.
const (
	entryLaunch = iota + 1
	entryCopy
	entryFill
	entryTimestamp
)

// Flags in the first word of an entry.
const (
	flagLast  = 1 << 8
	flagQuiet = 1 << 9
	flagPhase = 1 << 24 // see phase
)

// entry is one entry of the queue. What its words mean depends on the kind.
type entry struct {
	kind    uint8
	last    bool // of its command: the fence follows
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

// reached reports whether number a is b or a later one.
func reached(a, b uint32) bool { return int32(a-b) >= 0 }

// publish writes entry n; it was preceded by all those before. It reports whether the
// worker sleeps. Preconditions: there is room (process.room), params are not longer
// than maxParamBytes.
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
	// The phase shows the entry: all of it is there. A full barrier: the flag is read after this.
	hostmem.SwapUint32(b, 0, uint32(e.kind)|flags|uint32(e.channel)<<16)
	return l.load(offSleeping) != 0
}

// phase is a flag of entry n, which the entry that was in its place does not have, or
// the other way round: who looks for an entry looks at that alone, as in NVMe's
// completion queues. A counter would be a second cache line on the way.
func phase(n uint32) uint32 {
	if n/entryCount%2 == 0 {
		return flagPhase
	}
	return 0
}

// ready reports whether entry n was published. It is asked about the next one only.
func (l lane) ready(n uint32) bool {
	return hostmem.LoadUint32(l.slot(n), 0)&flagPhase == phase(n)
}

// slot is the place of an entry.
func (l lane) slot(n uint32) []byte {
	return l.mem[offEntries+int(n%entryCount)*entryBytes:][:entryBytes]
}

// take reads the entry that was published as number n. The parameters stay in place.
func (l lane) take(n uint32) (e entry, params []byte) {
	b := l.slot(n)
	w := binary.LittleEndian.Uint64(b)
	e = entry{kind: uint8(w), last: w&flagLast != 0, quiet: w&flagQuiet != 0, channel: uint8(w>>16) % maxChannels, number: uint32(w >> 32)}
	for i := range e.words {
		e.words[i] = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	return e, b[entryHeader:]
}

// quiet reports whether the entry that was published as number n is a quiet one of a
// channel.
func (l lane) quiet(n uint32, channel uint8) bool {
	w := binary.LittleEndian.Uint64(l.slot(n))
	return w&flagQuiet != 0 && uint8(w>>16) == channel
}

// mapLane maps the memory behind a descriptor.
func mapLane(fd int) (lane, error) {
	mem, err := unix.Mmap(fd, 0, laneBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return lane{}, fmt.Errorf("mapping the command queue: %w", err)
	}
	return lane{mem}, nil
}
