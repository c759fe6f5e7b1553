package control

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Limits on the fields of a Start, besides MaxPayload for the whole.
const maxStrings = 4096

// Hello is the first message of the guest's init, when it is ready for calls.
type Hello struct {
	Version    uint32
	Kernel     string // release of the guest kernel
	RenderNode string // path of the DRM render node, empty where there is none
	Note       string // why there is no render node, for a person
}

// Start asks for a program to be run.
type Start struct {
	Argv       []string // Argv[0] is looked up in the guest's PATH
	Env        []string // "NAME=value", added to the guest's own
	Dir        string   // working directory, "/" where empty
	TTY        bool     // a terminal of its own in place of pipes
	Rows, Cols uint16   // size of that terminal
}

// Put asks for a file to be written. Its content follows on Stdin; the file appears, in place of any
// former one, once that stream is closed.
type Put struct {
	Path string // absolute
	Mode uint32 // permission bits
}

// Exit ends a call.
type Exit struct {
	Code    int32  // exit status; 128 + number where a signal ended the program
	Signal  uint32 // that signal, else 0
	Message string // why it could not be started or written, else empty

	// What the program lacked, by its own account: see internal/missing.
	Missing []string
	More    uint32 // texts that are not in Missing
}

// encoder appends the fields of a message.
type encoder []byte

func (e *encoder) u32(v uint32) { *e = binary.LittleEndian.AppendUint32(*e, v) }
func (e *encoder) str(s string) { e.u32(uint32(len(s))); *e = append(*e, s...) }
func (e *encoder) strs(s []string) {
	e.u32(uint32(len(s)))
	for _, v := range s {
		e.str(v)
	}
}

// decoder takes them off again. Its first error sticks, so that callers check once, in end.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrProtocol, what)
	}
	d.b = nil
}

func (d *decoder) u32() uint32 {
	if len(d.b) < 4 {
		d.fail("message cut short")
		return 0
	}
	v := binary.LittleEndian.Uint32(d.b)
	d.b = d.b[4:]
	return v
}

func (d *decoder) str() string {
	n := d.u32()
	if uint64(n) > uint64(len(d.b)) {
		d.fail("string longer than its message")
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) strs() []string {
	n := d.u32()
	if n > maxStrings {
		d.fail("too many strings")
	}
	var s []string
	for ; n > 0 && d.err == nil; n-- {
		s = append(s, d.str())
	}
	return s
}

func (d *decoder) end(t Type) error {
	if len(d.b) != 0 {
		d.fail("bytes after the message")
	}
	if d.err != nil {
		return fmt.Errorf("%v: %w", t, d.err)
	}
	return nil
}

// Encode returns the payload of a Hello frame.
func (m Hello) Encode() []byte {
	var e encoder
	e.u32(m.Version)
	e.str(m.Kernel)
	e.str(m.RenderNode)
	e.str(m.Note)
	return e
}

// DecodeHello is the inverse of Hello.Encode.
func DecodeHello(b []byte) (Hello, error) {
	d := decoder{b: b}
	m := Hello{Version: d.u32(), Kernel: d.str(), RenderNode: d.str(), Note: d.str()}
	return m, d.end(TypeHello)
}

// Encode returns the payload of a Start frame, or an error where the program cannot be named in one.
func (m Start) Encode() ([]byte, error) {
	if len(m.Argv) == 0 || m.Argv[0] == "" {
		return nil, fmt.Errorf("no program to run")
	}
	var e encoder
	flags := uint32(0)
	if m.TTY {
		flags = 1
	}
	e.u32(flags)
	e.u32(uint32(m.Rows)<<16 | uint32(m.Cols))
	e.str(m.Dir)
	e.strs(m.Argv)
	e.strs(m.Env)
	if len(e) > MaxPayload || len(m.Argv) > maxStrings || len(m.Env) > maxStrings {
		return nil, fmt.Errorf("arguments and environment take %d bytes in %d strings, more than the %d bytes in %d strings that fit: pass them in a file",
			len(e), len(m.Argv)+len(m.Env), MaxPayload, maxStrings)
	}
	for _, s := range append(append([]string{m.Dir}, m.Argv...), m.Env...) {
		if strings.ContainsRune(s, 0) {
			return nil, fmt.Errorf("argument %q has a NUL byte", s)
		}
	}
	return e, nil
}

// DecodeStart is the inverse of Start.Encode.
func DecodeStart(b []byte) (Start, error) {
	d := decoder{b: b}
	flags, size := d.u32(), d.u32()
	m := Start{TTY: flags&1 != 0, Rows: uint16(size >> 16), Cols: uint16(size), Dir: d.str(), Argv: d.strs(), Env: d.strs()}
	if flags > 1 {
		d.fail("unknown flags")
	}
	if len(m.Argv) == 0 || m.Argv[0] == "" {
		d.fail("no program")
	}
	return m, d.end(TypeStart)
}

// Encode returns the payload of a Put frame.
func (m Put) Encode() []byte {
	var e encoder
	e.u32(m.Mode)
	e.str(m.Path)
	return e
}

// DecodePut is the inverse of Put.Encode.
func DecodePut(b []byte) (Put, error) {
	d := decoder{b: b}
	m := Put{Mode: d.u32(), Path: d.str()}
	return m, d.end(TypePut)
}

// Encode returns the payload of an Exit frame.
func (m Exit) Encode() []byte {
	var e encoder
	e.u32(uint32(m.Code))
	e.u32(m.Signal)
	e.str(m.Message)
	e.strs(m.Missing)
	e.u32(m.More)
	return e
}

// DecodeExit is the inverse of Exit.Encode.
func DecodeExit(b []byte) (Exit, error) {
	d := decoder{b: b}
	m := Exit{Code: int32(d.u32()), Signal: d.u32(), Message: d.str(), Missing: d.strs(), More: d.u32()}
	return m, d.end(TypeExit)
}

// U32 returns the payload of a Window, Signal or Resize frame.
func U32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// Value returns the number in a Window, Signal or Resize frame that Receive returned.
func (f Frame) Value() uint32 { return binary.LittleEndian.Uint32(f.Payload) }

// Size packs a terminal's size as Resize frames and Start carry it.
func Size(rows, cols uint16) uint32 { return uint32(rows)<<16 | uint32(cols) }
