// Package vhosttest plays the other side of the vhost-user protocol in tests: the
// monitor (QEMU) and the virtio driver of its guest, without a machine. It goes
// through the same sockets, memfds, eventfds and rings as the real ones, and can
// lie in every place where they could.
//
// Everything fails the test when it goes wrong, unless its comment says
// otherwise. A Frontend and its queues belong to one goroutine.
package vhosttest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Requests of the protocol that tests send by hand.
const (
	GetFeatures         = 1
	SetFeatures         = 2
	SetOwner            = 3
	SetMemTable         = 5
	SetVringNum         = 8
	SetVringAddr        = 9
	SetVringBase        = 10
	GetVringBase        = 11
	SetVringKick        = 12
	SetVringCall        = 13
	SetVringErr         = 14
	GetProtocolFeatures = 15
	SetProtocolFeatures = 16
	GetQueueNum         = 17
	SetVringEnable      = 18
	GetConfig           = 24
	SetConfig           = 25
	GPUSetSocket        = 33
	ResetDevice         = 34
)

// Feature bits.
const (
	FeatureIndirect uint64 = 1 << 28
	FeatureEventIdx uint64 = 1 << 29
	FeatureProtocol uint64 = 1 << 30
	FeatureVersion1 uint64 = 1 << 32

	// Features is what a modern driver takes.
	Features = FeatureIndirect | FeatureEventIdx | FeatureProtocol | FeatureVersion1
)

// The guest's memory: two regions, each a memfd of its own, with a gap between
// them in guest-physical addresses.
const (
	RegionSize = 8 << 20 // bytes
	LowBase    = 0       // guest-physical
	HighBase   = 1 << 32
	userLow    = 0x7f0000000000 // where the monitor says that it has them
	userHigh   = 0x7e0000000000
)

// Region is one memfd of the guest.
type Region struct {
	FD    int
	Guest uint64
	User  uint64
	Mem   []byte
}

// Frontend is a monitor with its guest.
type Frontend struct {
	TB      testing.TB
	Conn    *net.UnixConn
	Regions []Region
	next    uint64 // guest-physical address of the next allocation
}

// Pair returns two ends of a Unix socket. They are closed when the test ends.
func Pair(tb testing.TB) (a, b *net.UnixConn) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(tb, err)
	return FileConn(tb, fds[0]), FileConn(tb, fds[1])
}

// New makes a monitor that talks over conn, with a guest whose memory is sealed.
func New(tb testing.TB, conn *net.UnixConn) *Frontend {
	tb.Helper()
	f := &Frontend{TB: tb, Conn: conn, next: LowBase + 4096}
	f.Regions = []Region{
		{FD: Memfd(tb, RegionSize, unix.F_SEAL_SHRINK), Guest: LowBase, User: userLow},
		{FD: Memfd(tb, RegionSize, unix.F_SEAL_SHRINK), Guest: HighBase, User: userHigh},
	}
	for i := range f.Regions {
		mem, err := unix.Mmap(f.Regions[i].FD, 0, RegionSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, unix.Munmap(mem)) })
		f.Regions[i].Mem = mem
	}
	return f
}

// Memfd makes a memfd of size bytes with seals. It is closed when the test ends.
func Memfd(tb testing.TB, size int64, seals int) int {
	tb.Helper()
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, unix.Close(fd)) })
	require.NoError(tb, unix.Ftruncate(fd, size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(tb, err)
	return fd
}

// Eventfd makes an eventfd. It is closed when the test ends.
func Eventfd(tb testing.TB) int {
	tb.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, unix.Close(fd)) })
	return fd
}

// Words encodes 32-bit numbers.
func Words(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// Longs encodes 64-bit numbers.
func Longs(v ...uint64) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// Post sends a message. It returns an error if the back end hung up.
func (f *Frontend) Post(req, flags uint32, payload []byte, fds ...int) error {
	msg := append(Words(req, flags, uint32(len(payload))), payload...)
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := f.Conn.WriteMsgUnix(msg, oob, nil)
	return err
}

// Answer reads the answer to a message. It returns an error if the back end hung up.
func (f *Frontend) Answer(req uint32) ([]byte, error) {
	head := make([]byte, 12)
	if _, err := io.ReadFull(f.Conn, head); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if got := le.Uint32(head); got != req {
		return nil, fmt.Errorf("answer to request %d, want %d", got, req)
	}
	if flags := le.Uint32(head[4:]); flags != 5 {
		return nil, fmt.Errorf("answer has flags %#x", flags)
	}
	payload := make([]byte, le.Uint32(head[8:]))
	_, err := io.ReadFull(f.Conn, payload)
	return payload, err
}

// Get sends a message and returns the answer.
func (f *Frontend) Get(req uint32, payload []byte) []byte {
	f.TB.Helper()
	require.NoError(f.TB, f.Post(req, 1, payload))
	b, err := f.Answer(req)
	require.NoError(f.TB, err)
	return b
}

// ErrRefused is an acknowledgement that says no.
var ErrRefused = errors.New("the back end refused the message")

// Try sends a message and waits until it is acknowledged. It returns ErrRefused,
// or another error if the back end hung up.
func (f *Frontend) Try(req uint32, payload []byte, fds ...int) error {
	if err := f.Post(req, 1|8, payload, fds...); err != nil {
		return err
	}
	b, err := f.Answer(req)
	if err == nil && binary.LittleEndian.Uint64(b) != 0 {
		err = ErrRefused
	}
	return err
}

// Set sends a message that must be acknowledged.
func (f *Frontend) Set(req uint32, payload []byte, fds ...int) {
	f.TB.Helper()
	require.NoError(f.TB, f.Try(req, payload, fds...))
}

// Hello negotiates the features of the protocol and takes features of the device
// and the ring.
func (f *Frontend) Hello(features uint64) {
	f.TB.Helper()
	f.Get(GetFeatures, nil)
	proto := f.Get(GetProtocolFeatures, nil)
	require.NoError(f.TB, f.Post(SetProtocolFeatures, 1, proto))
	f.Set(SetOwner, nil)
	f.Set(SetFeatures, Longs(features))
}

// MemTable encodes the payload of SET_MEM_TABLE.
func MemTable(regions ...Region) []byte {
	b := Words(uint32(len(regions)), 0)
	for _, r := range regions {
		b = append(b, Longs(r.Guest, uint64(len(r.Mem)), r.User, 0)...)
	}
	return b
}

// ShareMemory sends the memory table.
func (f *Frontend) ShareMemory() {
	f.TB.Helper()
	var fds []int
	for _, r := range f.Regions {
		fds = append(fds, r.FD)
	}
	f.Set(SetMemTable, MemTable(f.Regions...), fds...)
}

// HungUp waits until the back end closes the connection.
func (f *Frontend) HungUp() {
	f.TB.Helper()
	_, err := io.Copy(io.Discard, f.Conn)
	if err != nil {
		require.ErrorIs(f.TB, err, unix.ECONNRESET)
	}
}

// Alloc returns the guest-physical address of n bytes that nobody else uses, a
// multiple of align. The memory is zero.
func (f *Frontend) Alloc(n, align uint64) uint64 {
	f.TB.Helper()
	addr := (f.next + align - 1) &^ (align - 1)
	if addr < HighBase && addr+n > RegionSize {
		addr = HighBase
	}
	f.next = addr + n
	require.LessOrEqual(f.TB, f.next, uint64(HighBase+RegionSize), "the guest's memory is used up")
	clear(f.Bytes(addr, n))
	return addr
}

// Bytes returns guest memory.
func (f *Frontend) Bytes(addr, n uint64) []byte {
	f.TB.Helper()
	for _, r := range f.Regions {
		if addr >= r.Guest && addr+n <= r.Guest+uint64(len(r.Mem)) {
			return r.Mem[addr-r.Guest:][:n:n]
		}
	}
	require.Failf(f.TB, "not guest memory", "%#x + %#x", addr, n)
	return nil
}

// user turns a guest-physical address into one of the monitor.
func (f *Frontend) user(addr uint64) uint64 {
	for _, r := range f.Regions {
		if addr >= r.Guest && addr < r.Guest+uint64(len(r.Mem)) {
			return r.User + addr - r.Guest
		}
	}
	return 0
}

// WaitEvent waits until an eventfd was written.
func WaitEvent(tb testing.TB, fd int) {
	tb.Helper()
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		require.NoError(tb, err)
		require.Equal(tb, 1, n, "nobody wrote the eventfd")
		return
	}
}

// FileConn turns a socket, which it takes over, into a connection that is closed
// when the test ends.
func FileConn(tb testing.TB, fd int) *net.UnixConn {
	tb.Helper()
	f := os.NewFile(uintptr(fd), "socket")
	c, err := net.FileConn(f)
	require.NoError(tb, err)
	require.NoError(tb, f.Close())
	tb.Cleanup(func() { _ = c.Close() }) // tests close it too
	return c.(*net.UnixConn)
}
