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
//	0      head     entries published by the backend
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
	offHead       = 0
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
	flagLast = 1 << (8 + iota)
	flagQuiet
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

// publish writes an entry. It reports whether the worker sleeps. Preconditions:
// there is room (process.room), params are not longer than maxParamBytes.
func (l lane) publish(e *entry, params []byte) (asleep bool) {
	head := l.load(offHead)
	b := l.slot(head)
	var flags uint64
	if e.last {
		flags = flagLast
	}
	if e.quiet {
		flags |= flagQuiet
	}
	binary.LittleEndian.PutUint64(b, uint64(e.kind)|flags|uint64(e.channel)<<16|uint64(e.number)<<32)
	for i, w := range e.words {
		binary.LittleEndian.PutUint64(b[8+8*i:], w)
	}
	copy(b[entryHeader:], params)
	l.store(offHead, head+1) // a full barrier: the flag is read after this
	return l.load(offSleeping) != 0
}

// slot is the place of an entry.
func (l lane) slot(n uint32) []byte {
	return l.mem[offEntries+int(n%entryCount)*entryBytes:][:entryBytes]
}

// ready reports whether the worker has more to take than tail entries. It asks for the
// cache line of the next one all the same, so that it comes together with that of the
// head and not after it.
func (l lane) ready(tail uint32) bool {
	hostmem.LoadUint32(l.mem, offEntries+int(tail%entryCount)*entryBytes)
	return l.load(offHead) != tail
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
