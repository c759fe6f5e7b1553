package vhosttest

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

// Flags of a descriptor.
const (
	DescNext     = 1
	DescWrite    = 2
	DescIndirect = 4
)

// patience is how long a test waits for the device before it gives up.
const patience = 30 * time.Second

// Buf is one buffer of a request.
type Buf struct {
	Addr  uint64 // guest-physical
	Len   uint32
	Write bool // the device writes to it
}

// Queue is the driver's side of a split virtqueue.
type Queue struct {
	F        *Frontend
	Index    uint32
	Size     int
	Desc     uint64 // guest-physical addresses
	Avail    uint64
	Used     uint64
	KickFD   int
	CallFD   int
	EventIdx bool
	Kicks    uint64 // doorbells rung

	call      *os.File
	free      []uint16
	chains    map[uint16][]uint16 // descriptors of a request, by its first
	availIdx  uint16
	kickedIdx uint16
	usedIdx   uint16
}

// NewQueue makes a queue in guest memory. The back end hears of it with Start.
func (f *Frontend) NewQueue(index uint32, size int) *Queue {
	f.TB.Helper()
	q := &Queue{
		F: f, Index: index, Size: size, EventIdx: true,
		Desc:   f.Alloc(uint64(16*size), 4096),
		Avail:  f.Alloc(uint64(6+2*size), 4),
		Used:   f.Alloc(uint64(6+8*size), 4),
		KickFD: Eventfd(f.TB), CallFD: Eventfd(f.TB),
		chains: make(map[uint16][]uint16),
	}
	dup, err := unix.FcntlInt(uintptr(q.CallFD), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(f.TB, err)
	q.call = os.NewFile(uintptr(dup), "call")
	f.TB.Cleanup(func() { require.NoError(f.TB, q.call.Close()) })
	for i := size - 1; i >= 0; i-- {
		q.free = append(q.free, uint16(i))
	}
	return q
}

// Start tells the back end about the queue and starts it at index base.
func (q *Queue) Start(base uint16) {
	q.F.TB.Helper()
	f := q.F
	f.Set(SetVringNum, Words(q.Index, uint32(q.Size)))
	f.Set(SetVringBase, Words(q.Index, uint32(base)))
	f.Set(SetVringAddr, q.AddrPayload())
	f.Set(SetVringKick, Longs(uint64(q.Index)), q.KickFD)
	f.Set(SetVringCall, Longs(uint64(q.Index)), q.CallFD)
	f.Set(SetVringEnable, Words(q.Index, 1))
}

// AddrPayload encodes the payload of SET_VRING_ADDR.
func (q *Queue) AddrPayload() []byte {
	f := q.F
	return append(Words(q.Index, 0), Longs(f.user(q.Desc), f.user(q.Used), f.user(q.Avail), 0)...)
}

// Stop stops the queue and returns the index at which it stopped.
func (q *Queue) Stop() uint16 {
	q.F.TB.Helper()
	q.F.Set(SetVringEnable, Words(q.Index, 0))
	b := q.F.Get(GetVringBase, Words(q.Index, 0))
	require.Equal(q.F.TB, q.Index, binary.LittleEndian.Uint32(b))
	return uint16(binary.LittleEndian.Uint32(b[4:]))
}

// Reset forgets what was sent, as a driver that starts anew does.
func (q *Queue) Reset() {
	clear(q.F.Bytes(q.Avail, uint64(6+2*q.Size)))
	clear(q.F.Bytes(q.Used, uint64(6+8*q.Size)))
	q.availIdx, q.kickedIdx, q.usedIdx = 0, 0, 0
	clear(q.chains)
	q.free = q.free[:0]
	for i := q.Size - 1; i >= 0; i-- {
		q.free = append(q.free, uint16(i))
	}
}

// Seek sets both indices of a queue that is not started, so that they may wrap soon.
func (q *Queue) Seek(idx uint16) {
	q.availIdx, q.kickedIdx, q.usedIdx = idx, idx, idx
	q.SetAvailIdx(idx)
	hostmem.SwapUint32(q.F.Bytes(q.Used, 4), 0, uint32(idx)<<16)
}

// PutDesc writes descriptor i of a table at addr.
func (f *Frontend) PutDesc(table uint64, i uint16, addr uint64, n uint32, flags, next uint16) {
	f.TB.Helper()
	le := binary.LittleEndian
	b := f.Bytes(table+16*uint64(i), 16)
	le.PutUint64(b, addr)
	le.PutUint32(b[8:], n)
	le.PutUint16(b[12:], flags)
	le.PutUint16(b[14:], next)
}

func flagsOf(b Buf, last bool) (flags uint16) {
	if b.Write {
		flags |= DescWrite
	}
	if !last {
		flags |= DescNext
	}
	return flags
}

// Add offers a request of one descriptor for each buffer and returns the first.
func (q *Queue) Add(bufs ...Buf) uint16 {
	q.F.TB.Helper()
	require.LessOrEqual(q.F.TB, len(bufs), len(q.free), "no descriptor is free")
	ids := append([]uint16(nil), q.free[len(q.free)-len(bufs):]...)
	q.free = q.free[:len(q.free)-len(bufs)]
	for i, b := range bufs {
		last := i == len(bufs)-1
		next := uint16(0)
		if !last {
			next = ids[i+1]
		}
		q.F.PutDesc(q.Desc, ids[i], b.Addr, b.Len, flagsOf(b, last), next)
	}
	q.chains[ids[0]] = ids
	q.Publish(ids[0])
	return ids[0]
}

// AddIndirect offers a request by way of an indirect table.
func (q *Queue) AddIndirect(bufs ...Buf) uint16 {
	q.F.TB.Helper()
	table := q.F.Alloc(uint64(16*len(bufs)), 16)
	for i, b := range bufs {
		q.F.PutDesc(table, uint16(i), b.Addr, b.Len, flagsOf(b, i == len(bufs)-1), uint16(i+1))
	}
	return q.AddTable(table, uint32(16*len(bufs)))
}

// AddTable offers a request whose only descriptor is indirect.
func (q *Queue) AddTable(table uint64, n uint32) uint16 {
	q.F.TB.Helper()
	require.NotEmpty(q.F.TB, q.free, "no descriptor is free")
	id := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	q.F.PutDesc(q.Desc, id, table, n, DescIndirect, 0)
	q.chains[id] = []uint16{id}
	q.Publish(id)
	return id
}

// Publish puts a descriptor into the driver's ring.
func (q *Queue) Publish(head uint16) {
	q.F.TB.Helper()
	b := q.F.Bytes(q.Avail, uint64(6+2*q.Size))
	binary.LittleEndian.PutUint16(b[4+2*(int(q.availIdx)%q.Size):], head)
	q.availIdx++
	q.SetAvailIdx(q.availIdx)
}

// SetAvailIdx writes the driver's index.
func (q *Queue) SetAvailIdx(idx uint16) {
	hostmem.SwapUint32(q.F.Bytes(q.Avail, 4), 0, uint32(idx)<<16)
}

// Kick rings the doorbell if the device asked for it, and reports whether it did.
func (q *Queue) Kick() bool {
	q.F.TB.Helper()
	hostmem.Barrier()
	used := q.F.Bytes(q.Used, uint64(6+8*q.Size))
	want := hostmem.LoadUint32(used, 0)&1 == 0
	if q.EventIdx {
		event := hostmem.LoadUint16(used, 4+8*q.Size)
		want = q.availIdx-event-1 < q.availIdx-q.kickedIdx
	}
	q.kickedIdx = q.availIdx
	if want {
		q.ForceKick()
	}
	return want
}

// ForceKick rings the doorbell.
func (q *Queue) ForceKick() {
	q.F.TB.Helper()
	q.Kicks++
	_, err := unix.Write(q.KickFD, Longs(1))
	require.NoError(q.F.TB, err)
}

// Poll takes a request back from the device if there is one: its first
// descriptor, and how many bytes the device wrote.
func (q *Queue) Poll() (head uint16, n uint32, ok bool) {
	q.F.TB.Helper()
	used := q.F.Bytes(q.Used, uint64(6+8*q.Size))
	if uint16(hostmem.LoadUint32(used, 0)>>16) == q.usedIdx {
		return 0, 0, false
	}
	e := used[4+8*(int(q.usedIdx)%q.Size):]
	head, n = uint16(binary.LittleEndian.Uint32(e)), binary.LittleEndian.Uint32(e[4:])
	q.usedIdx++
	// Ask for an interrupt at the next one.
	hostmem.StoreUint16(q.F.Bytes(q.Avail, uint64(6+2*q.Size)), 4+2*q.Size, q.usedIdx)
	hostmem.Barrier()
	q.free = append(q.free, q.chains[head]...)
	delete(q.chains, head)
	return head, n, true
}

// Wait takes a request back, sleeping until the device interrupts.
func (q *Queue) Wait() (head uint16, n uint32) {
	q.F.TB.Helper()
	require.NoError(q.F.TB, q.call.SetReadDeadline(time.Now().Add(patience)))
	for {
		if head, n, ok := q.Poll(); ok {
			return head, n
		}
		var b [8]byte
		_, err := io.ReadFull(q.call, b[:])
		require.NoError(q.F.TB, err, "the device does not interrupt")
	}
}

// Do sends a request made of cmd, with room for an answer of n bytes, and returns
// the answer as far as the device wrote it. No other request may be in flight.
// The memory that it takes is free again afterwards.
func (q *Queue) Do(cmd []byte, n uint32) []byte {
	q.F.TB.Helper()
	mark := q.F.next
	defer func() { q.F.next = mark }()
	head, answer := q.Send(cmd, n)
	got, written := q.Wait()
	require.Equal(q.F.TB, head, got)
	return bytes.Clone(answer[:written])
}

// Send sends a request made of cmd, with room for an answer of n bytes. The
// answer is there when Wait has returned the head.
func (q *Queue) Send(cmd []byte, n uint32) (head uint16, answer []byte) {
	q.F.TB.Helper()
	in := q.F.Alloc(uint64(len(cmd)), 8)
	copy(q.F.Bytes(in, uint64(len(cmd))), cmd)
	bufs := []Buf{{Addr: in, Len: uint32(len(cmd))}}
	if n > 0 {
		out := q.F.Alloc(uint64(n), 8)
		answer = q.F.Bytes(out, uint64(n))
		bufs = append(bufs, Buf{Addr: out, Len: n, Write: true})
	}
	head = q.Add(bufs...)
	q.Kick()
	return head, answer
}
