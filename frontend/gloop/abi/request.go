package abi

import (
	"fmt"
	"math"
	"net/netip"
	"syscall"
	"time"
)

// Limits of requests.
const (
	MaxText    = 4096    // bytes of a path
	MaxMove    = 1 << 30 // bytes of one read, write, send or receive
	maxTimeout = 24 * time.Hour
)

// Linux' numbers of open's flags, which the header has too.
const (
	OpenWriteOnly = 1
	OpenReadWrite = 2
	OpenCreate    = 0o100
	OpenExclusive = 0o200
	OpenTruncate  = 0o1000

	openFlags = OpenWriteOnly | OpenReadWrite | OpenCreate | OpenExclusive | OpenTruncate
)

// Names of operations, as messages have them.
var opNames = [opEnd]string{
	OpOpen: "fs::open", OpClose: "fs::close", OpStat: "fs::fstat", OpTruncate: "fs::ftruncate",
	OpRead: "fs::read", OpWrite: "fs::write", OpConnect: "net::connect", OpBind: "net::bind",
	OpUnbind: "net::unbind", OpAccept: "net::accept", OpDisconnect: "net::close",
	OpReceive: "net::receive", OpSend: "net::send",
}

// String is the name of the operation in gloop.h.
func (o Op) String() string {
	if o < opEnd && opNames[o] != "" {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint32(o))
}

// Moves reports whether the operation has a buffer.
func (o Op) Moves() bool {
	return o == OpRead || o == OpWrite || o == OpReceive || o == OpSend
}

// Check finds what is wrong with a request, as the errno that its callback gets; 0 if nothing is.
func (r *Request) Check() syscall.Errno {
	switch {
	case r.Op == 0 || r.Op >= opEnd:
		return syscall.ENOSYS
	case r.Timeout > uint64(maxTimeout), r.Port > math.MaxUint16:
		return syscall.EINVAL
	case r.Op.Moves() && (r.Size > MaxMove || r.Address+r.Size < r.Address):
		return syscall.EINVAL
	case r.Offset > math.MaxInt64-MaxMove:
		return syscall.EINVAL
	case r.Op == OpReceive && r.Flags&^FlagAll != 0, r.Op != OpReceive && r.Op != OpOpen && r.Flags != 0:
		return syscall.EINVAL
	case r.Op == OpOpen && (r.Flags&^openFlags != 0 || r.Flags&3 == 3 || r.Text == 0):
		return syscall.EINVAL
	case r.Op == OpOpen && r.Text >= MaxText:
		return syscall.ENAMETOOLONG
	}
	return 0
}

// Endpoint is the address of a connection or a server.
func (r *Request) Endpoint() netip.AddrPort {
	ip := netip.AddrFrom4([4]byte{byte(r.IP >> 24), byte(r.IP >> 16), byte(r.IP >> 8), byte(r.IP)})
	return netip.AddrPortFrom(ip, uint16(r.Port))
}
