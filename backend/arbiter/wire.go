package arbiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"pvdrm/backend/sched"
	"pvdrm/gpu"
)

// Version of the wire format. Minor versions add, major versions change.
const (
	VersionMajor = 1
	VersionMinor = 6
)

// Engine is a part of a GPU for which there is a token.
type Engine = gpu.Engine

// Engines of a GPU.
const (
	Compute = gpu.EngineCompute
	Copy    = gpu.EngineCopy
	Engines = gpu.Engines // how many there are
)

// Sizes in bytes. See the package comment for the layouts.
const (
	helloBytes   = 128
	messageBytes = 32
	maxText      = 256
	maxName      = 63
	keyBytes     = 16
	magic        = 0x52415650
)

// ErrWire is the error of a malformed message.
var ErrWire = errors.New("malformed message")

// Key proves the identity of a guest.
type Key [keyBytes]byte

// Hello has the name, the key and the wishes of a guest.
type Hello struct {
	GPU   uint32
	Name  string
	Key   Key
	Share sched.Share
	Needs Amounts // of the GPU; an amount of 0 is what the arbiter gives each guest
}

const (
	million  = 1_000_000
	helloKey = 24
	helloTo  = helloKey + keyBytes
	helloEnd = helloTo + maxName + 1
	// helloClasses is the minor version since which class, priority and SLA
	// follow the name, up to helloRest.
	helloClasses = 2
	helloRest    = helloEnd + 12
	// helloNeeds is the minor version since which needs follow, up to the end.
	helloNeeds = 4
)

// encode makes the message; the name must be valid.
func (h *Hello) encode() []byte {
	b := make([]byte, helloBytes)
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint16(b[4:], VersionMajor)
	le.PutUint16(b[6:], VersionMinor)
	le.PutUint32(b[8:], h.GPU)
	le.PutUint32(b[12:], h.Share.Weight)
	le.PutUint32(b[16:], millionths(h.Share.Cap))
	le.PutUint32(b[20:], millionths(h.Share.Reserve))
	copy(b[helloKey:], h.Key[:])
	copy(b[helloTo:helloEnd-1], h.Name)
	le.PutUint32(b[helloEnd:], uint32(h.Share.Class))
	le.PutUint32(b[helloEnd+4:], h.Share.Priority)
	le.PutUint32(b[helloEnd+8:], uint32(h.Share.SLA/time.Microsecond))
	le.PutUint32(b[helloRest:], h.Needs.Channels)
	le.PutUint32(b[helloRest+4:], h.Needs.Contexts)
	le.PutUint32(b[helloRest+8:], uint32(h.Needs.VRAM/MiB))
	return b
}

func millionths(part float64) uint32 { return uint32(math.Round(part * million)) }

// errVersion is a Hello of another major version.
var errVersion = errors.New("another version")

func decodeHello(b []byte) (h Hello, err error) {
	le := binary.LittleEndian
	if len(b) != helloBytes || le.Uint32(b) != magic {
		return h, fmt.Errorf("hello of %d bytes: %w", len(b), ErrWire)
	}
	if major := le.Uint16(b[4:]); major != VersionMajor {
		return h, fmt.Errorf("%w: the backend speaks version %d.%d, the arbiter %d.%d; use both from one release",
			errVersion, major, le.Uint16(b[6:]), VersionMajor, VersionMinor)
	}
	h.GPU = le.Uint32(b[8:])
	h.Share = sched.Share{Weight: le.Uint32(b[12:]),
		Cap: float64(le.Uint32(b[16:])) / million, Reserve: float64(le.Uint32(b[20:])) / million}
	copy(h.Key[:], b[helloKey:])
	name := b[helloTo:helloEnd]
	n := 0
	for n < len(name) && name[n] != 0 {
		n++
	}
	h.Name = string(name[:n])
	if err := checkName(h.Name); err != nil {
		return h, err
	}
	rest := b[helloEnd:]
	if le.Uint16(b[6:]) >= helloClasses {
		class := le.Uint32(rest)
		if class > math.MaxUint8 { // the scheduler refuses those that it does not know
			return h, fmt.Errorf("hello with class %d: %w", class, ErrWire)
		}
		h.Share.Class, h.Share.Priority = sched.Class(class), le.Uint32(rest[4:])
		h.Share.SLA = time.Duration(le.Uint32(rest[8:])) * time.Microsecond
		rest = b[helloRest:]
	}
	if le.Uint16(b[6:]) >= helloNeeds {
		h.Needs = Amounts{Channels: le.Uint32(rest), Contexts: le.Uint32(rest[4:]), VRAM: uint64(le.Uint32(rest[8:])) * MiB}
		if h.Needs.VRAM >= maxVRAM {
			return h, fmt.Errorf("hello with %d MiB of memory: %w", h.Needs.VRAM/MiB, ErrWire)
		}
		rest = nil
	}
	for _, c := range append(name[n:len(name):len(name)], rest...) {
		if c != 0 {
			return h, fmt.Errorf("hello with more after its end: %w", ErrWire)
		}
	}
	return h, nil
}

// checkName accepts names that can stand in logs and metrics as they are.
func checkName(name string) error {
	if len(name) == 0 || len(name) > maxName {
		return fmt.Errorf("guest name of %d bytes; choose 1 to %d: %w", len(name), maxName, ErrWire)
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("guest name %q; choose letters, digits, dots, dashes and underscores: %w", name, ErrWire)
		}
	}
	return nil
}

// operation is the kind of a message.
type operation uint16

const (
	opWelcome operation = iota + 1
	opRefuse
	opGrant
	opRequest
	opCancel
	opYield
)

// operations has the sender of each operation. A message from the wrong side is malformed.
var operations = map[operation]struct {
	name        string
	fromArbiter bool
}{
	opWelcome: {"Welcome", true},
	opRefuse:  {"Refuse", true},
	opGrant:   {"Grant", true},
	opRequest: {"Request", false},
	opCancel:  {"Cancel", false},
	opYield:   {"Yield", false},
}

func (o operation) String() string {
	if info, ok := operations[o]; ok {
		return info.name
	}
	return fmt.Sprintf("operation %d", uint16(o))
}

// Flags of messages.
const (
	flagMore   = 1 // of Yield: the backend waits for the token again
	flagBeside = 2 // of Request, and of Yield with flagMore: for work that may run concurrently with such work of others
	// flagPreempt, of Request, and of Yield with flagMore: the backend looks at bitPreempt while
	// it works.
	flagPreempt = 4
	// flagTurns, of the same: for work that the GPU serves in turn with such work of others.
	flagTurns = 8
	// flagPart, of the same: for work that uses at most as many processors as the upper half of the flags says,
	// and may run concurrently with such work of others.
	flagPart = 16
	// flagFill, with flagPart: it can run on fewer.
	flagFill = 32
	// partShift is where that number is in the flags.
	partShift = 16
	maxPart   = 1<<16 - 1
)

// message is any message but Hello.
type message struct {
	op     operation
	engine Engine
	value  uint32 // flags, minor version or errno
	grant  uint64
	text   string // of Refuse
}

func (m message) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(m.op))
	b = le.AppendUint16(b, uint16(m.engine))
	b = le.AppendUint32(b, m.value)
	b = le.AppendUint64(b, m.grant)
	b = append(b, make([]byte, 16)...)
	return append(b, m.text[:min(len(m.text), maxText)]...)
}

func decodeMessage(b []byte, fromArbiter bool) (m message, err error) {
	le := binary.LittleEndian
	if len(b) < messageBytes || len(b) > messageBytes+maxText {
		return m, fmt.Errorf("message of %d bytes: %w", len(b), ErrWire)
	}
	m = message{op: operation(le.Uint16(b)), engine: Engine(le.Uint16(b[2:])), value: le.Uint32(b[4:]), grant: le.Uint64(b[8:])}
	info, known := operations[m.op]
	switch {
	case !known || info.fromArbiter != fromArbiter:
		return m, fmt.Errorf("%v: %w", m.op, ErrWire)
	case m.engine >= Engines:
		return m, fmt.Errorf("%v of %v: %w", m.op, m.engine, ErrWire)
	case le.Uint64(b[16:]) != 0 || le.Uint64(b[24:]) != 0:
		return m, fmt.Errorf("%v with reserved bytes that are not zero: %w", m.op, ErrWire)
	case m.op == opRefuse:
		m.text = string(b[messageBytes:])
	case len(b) != messageBytes:
		return m, fmt.Errorf("%v of %d bytes: %w", m.op, len(b), ErrWire)
	}
	return m, nil
}
