package hypercall

import (
	"encoding/binary"
	"fmt"
)

// LocalVersion is the version of the local carrier's messages. The first message of each side
// carries it, and a side that speaks another one refuses. In version 1, in which that field was
// 0, the backend made granted memory; now the client does.
const LocalVersion = 2

// LocalOp is a message of the local carrier's Unix socket (SOCK_SEQPACKET). A
// request is LocalBytes long and gets one answer of the same operation and
// length; file descriptors travel as SCM_RIGHTS.
type LocalOp uint16

// Operations of the local carrier. Everything else goes through the ring.
const (
	// LocalHello is the first request, with Version; a name of the client for logs follows it, at
	// most MaxClientName bytes. Answer: Version; the capset follows the message;
	// descriptors: the writing end of a pipe to wake the backend, the reading end of
	// one by which the backend wakes the frontend. What is written says nothing.
	LocalHello LocalOp = 1
	// LocalGrant grants memory; descriptor: a memfd that the client or another client of this
	// backend made, with the seals SHRINK, GROW and SEAL and neither WRITE nor FUTURE_WRITE, whose
	// size is a multiple of 4096; or, for objects only, another file of tmpfs. Answer: ID, Size.
	LocalGrant LocalOp = 2
	// LocalFree takes granted memory back. The answer comes when neither backend nor GPU uses it.
	LocalFree LocalOp = 3
	// LocalAttach is DoorbellAttach: the encoded Doorbell follows the message.
	LocalAttach LocalOp = 4
	// LocalExport asks for a descriptor of the memory ID, for another process.
	// Answer: descriptor: its memfd.
	LocalExport LocalOp = 5
)

// MaxClientName bounds the name of a client, bytes.
const MaxClientName = 64

// LocalBytes is the size of an encoded LocalMessage.
const LocalBytes = 32

const localMagic = 0x4c525650 // "PVRL"

// LocalMessage is a request or an answer on the local carrier's socket.
//
//	offset  size  field
//	0       4     magic "PVRL"
//	4       2     operation
//	6       2     answer: errno, 0 for success
//	8       4     id of the memory
//	12      4     of LocalHello: version, 2; else 0
//	16      8     size, bytes
//	24      8     reserved, 0
type LocalMessage struct {
	Op      LocalOp
	Errno   uint16
	ID      uint32
	Version uint32
	Size    uint64
}

// Encode returns the LocalBytes bytes of m.
func (m LocalMessage) Encode() []byte {
	b := make([]byte, LocalBytes)
	binary.LittleEndian.PutUint32(b, localMagic)
	binary.LittleEndian.PutUint16(b[4:], uint16(m.Op))
	binary.LittleEndian.PutUint16(b[6:], m.Errno)
	binary.LittleEndian.PutUint32(b[8:], m.ID)
	binary.LittleEndian.PutUint32(b[12:], m.Version)
	binary.LittleEndian.PutUint64(b[16:], m.Size)
	return b
}

// DecodeLocal decodes a message and returns what follows it.
func DecodeLocal(b []byte) (m LocalMessage, rest []byte, err error) {
	if len(b) < LocalBytes || binary.LittleEndian.Uint32(b) != localMagic {
		return m, nil, fmt.Errorf("%w: not of the local carrier (%d bytes)", ErrMessage, len(b))
	}
	m = LocalMessage{
		Op:      LocalOp(binary.LittleEndian.Uint16(b[4:])),
		Errno:   binary.LittleEndian.Uint16(b[6:]),
		ID:      binary.LittleEndian.Uint32(b[8:]),
		Version: binary.LittleEndian.Uint32(b[12:]),
		Size:    binary.LittleEndian.Uint64(b[16:]),
	}
	if m.Op < LocalHello || m.Op > LocalExport {
		return m, nil, fmt.Errorf("%w: local operation %d", ErrMessage, m.Op)
	}
	return m, b[LocalBytes:], nil
}
