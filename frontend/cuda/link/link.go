// Package link links PTX: it makes one module of several sources, as NVIDIA's linker makes one
// program of several object files (PTX ISA 8.5, section 11.6).
//
// gpu/ptx parses the sources. Their directives at module scope are resolved, merged and printed;
// the bodies of functions stay the text that they were, but for names, so that a device with a
// compiler of its own gets each instruction as it was written. Symbols of one source that another
// one has too get another name. Debug information is left out: its file numbers and labels are
// those of one source.
//
// Sources may be hostile. Their number and size are bounded here, what the parser makes of them
// is bounded by gpu/ptx. A Linker is used by one goroutine at a time.
package link

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pvdrm/drm"
	"pvdrm/gpu/ptx"
)

// MaxUnits is the number of sources that a Linker takes.
const MaxUnits = 4096

// Kind says what was wrong.
type Kind int

// Kinds of an Error.
const (
	NotPTX      Kind = iota // the source is no PTX at all
	Syntax                  // the source is damaged PTX
	Symbols                 // symbols of the sources do not fit together, or are missing
	Unsupported             // sources that could be linked, but not here
	Broken                  // a source failed before
)

// Error is why sources are not linked.
type Error struct {
	Kind Kind
	Log  string // in the words of NVIDIA's linker where it has some
}

func (e *Error) Error() string { return strings.TrimSuffix(e.Log, "\n") }

// fail makes an error with a line as NVIDIA's linker writes it.
func fail(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Log: fmt.Sprintf("error   : "+format+"\n", args...)}
}

// Runtime are the functions that devices have and that no source needs to define.
var Runtime = []string{"vprintf", "malloc", "free", "__assertfail", "__assert_fail",
	"__pvdrm_parameter_bytes", "__pvdrm_kernel_attribute", "__pvdrm_launch", "__pvdrm_synchronize",
	"__pvdrm_last_error"}

// unit is one source.
type unit struct {
	name    string
	source  []byte
	m       *ptx.Module
	globals map[string]ptx.Linkage // of the names that other units see
	renamed map[string]string      // symbols of this unit that have another name in the result
}

// Linker takes sources and makes a module of them.
type Linker struct {
	units   []*unit
	bytes   int
	broken  bool
	runtime bool               // of the device, may be added
	symbols map[string]*symbol // that units share
	done    []byte             // the result, once it was asked for
}

// New makes a Linker without sources.
func New() *Linker { return &Linker{symbols: map[string]*symbol{}} }

// Add takes a source. The name stands for it in messages. After an error that is an *Error of
// another kind than NotPTX nothing can be linked.
func (l *Linker) Add(name string, source []byte) error {
	if l.broken {
		return &Error{Kind: Broken, Log: "error   : a source before could not be linked\n"}
	}
	err := l.add(name, source)
	var e *Error
	l.broken = err != nil && (!errors.As(err, &e) || e.Kind != NotPTX)
	return err
}

func (l *Linker) add(name string, source []byte) error {
	source = withCurrentGraph(bytes.TrimRight(source, "\x00"))
	if l.done = nil; len(l.units) == MaxUnits {
		return fail(Unsupported, "more than %d sources", MaxUnits)
	}
	if len(source) > drm.MaxSource-l.bytes {
		return fail(Unsupported, "more than %d bytes of sources", drm.MaxSource)
	}
	if !bytes.Contains(source, []byte(".version")) {
		return fail(NotPTX, "'%s' is no PTX", name)
	}
	m, err := ptx.LoadUnit(nil, name, source)
	if err != nil {
		return &Error{Kind: Syntax, Log: err.Error() + "\n"}
	}
	u := &unit{name: name, source: source, m: m, renamed: map[string]string{}}
	if err := l.fits(u); err != nil {
		return err
	}
	u.share()
	for _, d := range m.Directives {
		if err := l.declare(u, d); err != nil {
			return err
		}
	}
	l.units, l.bytes = append(l.units, u), l.bytes+len(source)
	return nil
}

// Empty reports whether there are no sources.
func (l *Linker) Empty() bool { return len(l.units) == 0 }

// fits checks that a source is for the same kind of device as those before it.
func (l *Linker) fits(u *unit) error {
	if len(l.units) == 0 {
		return nil
	}
	first := l.units[0]
	if first.m.AddressSize != u.m.AddressSize {
		return fail(Unsupported, "Address size doesn't match for '%s', first specified in '%s'", u.name, first.name)
	}
	if a, b := options(first.m), options(u.m); !slices.Equal(a, b) {
		return fail(Unsupported, "Options of .target don't match for '%s', first specified in '%s'", u.name, first.name)
	}
	return nil
}

// options are those of .target that say how code is to be compiled, without the defaults and
// without the one about debug information.
func options(m *ptx.Module) []string {
	var all []string
	for _, o := range m.TargetOpts {
		if o != "debug" && o != "texmode_unified" {
			all = append(all, o)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// header makes the module that all sources go into: that of the newest PTX and of the newest
// device that one of them asks for.
func (l *Linker) header() *ptx.Module {
	m := &ptx.Module{Version: [2]int{6, 3}, Target: "sm_75", AddressSize: 64}
	for i, u := range l.units {
		if i == 0 {
			m.Version, m.Target, m.AddressSize, m.TargetOpts = u.m.Version, u.m.Target, u.m.AddressSize, options(u.m)
		}
		if slices.Compare(u.m.Version[:], m.Version[:]) > 0 {
			m.Version = u.m.Version
		}
		if newer(u.m.Target, m.Target) {
			m.Target = u.m.Target
		}
		m.Unsized = m.Unsized || u.m.Unsized
	}
	return m
}

// newer reports whether a target such as sm_90a is one of newer devices than another, or of fewer.
func newer(a, b string) bool {
	x, restX := architecture(a)
	y, restY := architecture(b)
	return x > y || x == y && len(restX) > len(restY)
}

func architecture(target string) (n uint64, rest string) {
	_, digits, _ := strings.Cut(target, "_")
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	n, err := strconv.ParseUint(digits[:end], 10, 32)
	if err != nil {
		return 0, digits
	}
	return n, digits[end:]
}
