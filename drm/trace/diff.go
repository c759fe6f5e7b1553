package trace

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
)

// symbols numbers symbols in the order in which they come up, so that traces of
// the same calls read the same whatever numbers a driver gave out.
type symbols map[string]int

func (s symbols) name(file uint32, k Kind, v uint64) string {
	switch k {
	case KindAddress:
		return "address" // which mapping it is, the VM_BIND says
	case KindBuffer:
		file = 0 // it is of all files
	}
	key := fmt.Sprintf("%d %d %d", file, k, v)
	if _, ok := s[key]; !ok {
		s[key] = len(s)
	}
	return fmt.Sprintf("#%d", s[key])
}

// canonical is what must be equal in two traces of the same program.
func (e *Event) canonical(s symbols) string {
	c := *e
	info, _ := e.Op.Info()
	c.Out = append([]uint64(nil), e.Out...)
	for i, f := range info.Out {
		if f.Varies {
			c.Out[i] = 0
		}
	}
	if info.privateIn {
		c.InBytes = nil
	}
	if info.privateOut {
		c.OutBytes = nil
	}
	return c.text(s)
}

// skips reports whether an event is of a wait that ran out.
func (e *Event) skips() bool { return rows[e.Op].polls && e.Errno == syscall.ETIME }

// Diff compares two traces, but for times, threads, numbers of symbols and what
// differs from device to device. It returns "" if they are equal, and otherwise
// says what differs first.
func Diff(a, b *Reader) (string, error) {
	names := [2]symbols{{}, {}}
	next := func(r *Reader, n int) (e *Event, text string, err error) {
		for {
			if e, err = r.Read(); err != nil {
				if errors.Is(err, io.EOF) {
					return nil, "", nil
				}
				return nil, "", err
			}
			if !e.skips() {
				return e, e.canonical(names[n]), nil
			}
		}
	}
	for count := 0; ; count++ {
		x, xs, err := next(a, 0)
		if err != nil {
			return "", fmt.Errorf("first trace: %w", err)
		}
		y, ys, err := next(b, 1)
		if err != nil {
			return "", fmt.Errorf("second trace: %w", err)
		}
		if x == nil && y == nil {
			return "", nil
		}
		if x == nil || y == nil || xs != ys {
			line := func(e *Event) string {
				if e == nil {
					return "(end)"
				}
				return e.text(raw{})
			}
			return strings.Join([]string{fmt.Sprintf("event %d differs:", count), "< " + line(x), "> " + line(y)}, "\n"), nil
		}
	}
}
