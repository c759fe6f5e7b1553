package vhostuser

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// request is the type of a message (QEMU's docs/interop/vhost-user.rst, "Front-end
// message types").
type request uint32

const (
	reqGetFeatures         request = 1
	reqSetFeatures         request = 2
	reqSetOwner            request = 3
	reqResetOwner          request = 4
	reqSetMemTable         request = 5
	reqSetVringNum         request = 8
	reqSetVringAddr        request = 9
	reqSetVringBase        request = 10
	reqGetVringBase        request = 11
	reqSetVringKick        request = 12
	reqSetVringCall        request = 13
	reqSetVringErr         request = 14
	reqGetProtocolFeatures request = 15
	reqSetProtocolFeatures request = 16
	reqGetQueueNum         request = 17
	reqSetVringEnable      request = 18
	reqGetConfig           request = 24
	reqSetConfig           request = 25
	reqGPUSetSocket        request = 33
	reqResetDevice         request = 34
)

// Header of a message: request, flags and payload size, 32 bits each.
const (
	headerSize   = 12
	flagVersion  = 1
	flagReply    = 1 << 2
	flagNeedAck  = 1 << 3
	versionMask  = 3
	maxPayload   = 4096 // far above any message that is understood
	maxRegions   = 8    // of a SET_MEM_TABLE; one descriptor each
	regionSize   = 32
	memTableHead = 8
	configHead   = 12
	maxConfig    = 256
	vringIndex   = 0xff
	vringNoFD    = 1 << 8
)

// Protocol features (same document, "Protocol features"). SHMFD for in-flight
// descriptors is not among them: QEMU uses it for block devices only. Nor is MQ:
// the number of queues is fixed.
const (
	protoReplyAck    uint64 = 1 << 3
	protoConfig      uint64 = 1 << 9
	protoResetDevice uint64 = 1 << 13

	offeredProto = protoReplyAck | protoConfig | protoResetDevice
)

// Feature bits that belong to the transport (virtio 1.2, section 6).
const (
	featLogAll         uint64 = 1 << 26 // vhost: log writes for migration
	featIndirect       uint64 = 1 << 28
	featEventIdx       uint64 = 1 << 29
	featProtocol       uint64 = 1 << 30 // vhost-user: protocol features exist
	featVersion1       uint64 = 1 << 32
	featAccessPlatform uint64 = 1 << 33 // addresses are behind an IOMMU
	featPacked         uint64 = 1 << 34
	featInOrder        uint64 = 1 << 35

	offeredRing = featIndirect | featEventIdx | featProtocol | featVersion1
	// Bits that would change what the ring means. Others that were not offered are
	// QEMU's own and harmless: it passes on what the guest took from it.
	refusedRing = featLogAll | featAccessPlatform | featPacked | featInOrder
)

// ErrProtocol wraps every complaint about a front end that breaks the protocol.
var ErrProtocol = errors.New("vhost-user protocol violation")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
}

// message is one message with the descriptors that came along.
type message struct {
	req     request
	needAck bool
	payload []byte
	fds     []int // owned; those that were taken are -1
}

// parseHeader decodes a header and returns the size of the payload.
func parseHeader(b *[headerSize]byte) (m message, size int, err error) {
	le := binary.LittleEndian
	m.req = request(le.Uint32(b[0:]))
	flags := le.Uint32(b[4:])
	n := le.Uint32(b[8:])
	if flags&versionMask != flagVersion {
		return m, 0, violation("message %v: version %d, want %d", m.req, flags&versionMask, flagVersion)
	}
	if flags&flagReply != 0 {
		return m, 0, violation("message %v: a reply to no request", m.req)
	}
	if n > maxPayload {
		return m, 0, violation("message %v: payload of %d bytes, at most %d", m.req, n, maxPayload)
	}
	m.needAck = flags&flagNeedAck != 0
	return m, int(n), nil
}

// encodeReply makes the answer to a message.
func encodeReply(req request, payload []byte) []byte {
	le := binary.LittleEndian
	b := make([]byte, headerSize, headerSize+len(payload))
	le.PutUint32(b[0:], uint32(req))
	le.PutUint32(b[4:], flagVersion|flagReply)
	le.PutUint32(b[8:], uint32(len(payload)))
	return append(b, payload...)
}

// u64 decodes a payload of one number. Precondition: the size was checked.
func (m *message) u64() uint64 { return binary.LittleEndian.Uint64(m.payload) }

// vringState decodes struct vhost_vring_state. Precondition: the size was checked.
func (m *message) vringState() (index, num uint32) {
	le := binary.LittleEndian
	return le.Uint32(m.payload), le.Uint32(m.payload[4:])
}

// takeFD gives descriptor i to the caller, who must close it.
func (m *message) takeFD(i int) int {
	fd := m.fds[i]
	m.fds[i] = -1
	return fd
}

// closeFDs closes the descriptors that nobody took.
func (m *message) closeFDs() {
	for _, fd := range m.fds {
		if fd >= 0 {
			_ = unix.Close(fd) // received, never used: nothing to lose
		}
	}
	m.fds = nil
}

// memRegion is one entry of a memory table.
type memRegion struct {
	guest, size, user, offset uint64
}

// decodeMemTable decodes the payload of SET_MEM_TABLE.
func decodeMemTable(b []byte) ([]memRegion, error) {
	le := binary.LittleEndian
	if len(b) < memTableHead {
		return nil, violation("memory table of %d bytes", len(b))
	}
	n := le.Uint32(b)
	if n == 0 || n > maxRegions {
		return nil, violation("memory table with %d regions, want 1 to %d", n, maxRegions)
	}
	b = b[memTableHead:]
	if len(b) < int(n)*regionSize {
		return nil, violation("memory table of %d regions is cut short", n)
	}
	regions := make([]memRegion, n)
	for i := range regions {
		e := b[i*regionSize:]
		regions[i] = memRegion{le.Uint64(e), le.Uint64(e[8:]), le.Uint64(e[16:]), le.Uint64(e[24:])}
	}
	return regions, nil
}

// vringAddr holds the addresses of a ring, in the front end's address space.
type vringAddr struct {
	desc, used, avail uint64
}

// decodeVringAddr decodes struct vhost_vring_addr. Precondition: the size was checked.
func decodeVringAddr(b []byte) (index uint32, a vringAddr, err error) {
	le := binary.LittleEndian
	if flags := le.Uint32(b[4:]); flags != 0 {
		return 0, a, violation("ring flags %#x: logging is not offered", flags)
	}
	return le.Uint32(b), vringAddr{le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])}, nil
}

// decodeConfig decodes the head of GET_CONFIG and SET_CONFIG.
func decodeConfig(b []byte) (offset, size uint32, region []byte, err error) {
	le := binary.LittleEndian
	if len(b) < configHead {
		return 0, 0, nil, violation("configuration message of %d bytes", len(b))
	}
	offset, size = le.Uint32(b), le.Uint32(b[4:])
	region = b[configHead:]
	if offset > maxConfig || size > maxConfig-offset {
		return 0, 0, nil, violation("configuration space bytes %d+%d, at most %d", offset, size, maxConfig)
	}
	if len(region) != int(size) {
		return 0, 0, nil, violation("configuration message says %d bytes and carries %d", size, len(region))
	}
	return offset, size, region, nil
}

// checkEventfd makes sure that a received descriptor can be used as an eventfd:
// reading and writing it must not block, and must not touch a file.
func checkEventfd(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != 0 { // an eventfd has no file type
		return errors.New("not an eventfd")
	}
	return unix.SetNonblock(fd, true)
}
