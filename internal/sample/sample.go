// Package sample bounds what a guest can make its host log. A guest causes log entries by
// breaking protocols, by crashing kernels and by coming and going, as often as it likes,
// and chooses words in them.
package sample

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds of what a Sampler lets through. A guest can cause about ten messages, whose
// fields it can make long: less than a megabyte an hour, see the test.
const (
	Interval = 10 * time.Minute
	Burst    = 5    // entries of one message in an Interval
	MaxText  = 512  // bytes of a field; the rest is cut off
	maxTexts = 2048 // bytes of all fields that an entry brings

	maxMessages = 64 // that are told apart; the others share a count
)

// Sampler lets through a Burst of entries of each message in each Interval and counts the
// rest: the next entry of the message that gets through has their number in the field
// "suppressed". It makes the text of fields printable and bounds it. Debug entries, which
// are written only when asked for, are not sampled. The zero value is ready; it must not be
// copied, and may be used by several goroutines.
type Sampler struct {
	mu     sync.Mutex
	counts map[message]*count
}

type message struct {
	level zapcore.Level
	text  string
}

// count is what became of a message since the interval began.
type count struct {
	began              time.Time
	passed, suppressed uint64
}

// Wrap returns a logger that writes what the sampler lets through. All loggers that one
// sampler wraps share its counts; wrapping a logger once more changes nothing.
func (s *Sampler) Wrap(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		if was, ok := c.(*core); ok && was.sampler == s {
			return c
		}
		return &core{Core: c, sampler: s}
	}))
}

// take reports whether an entry may be written, and how many of its message were
// suppressed before it.
func (s *Sampler) take(e zapcore.Entry) (suppressed uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[message]*count{}
	}
	m := message{e.Level, e.Message}
	c := s.counts[m]
	if c == nil && len(s.counts) >= maxMessages {
		m = message{}
		c = s.counts[m]
	}
	if c == nil {
		c = &count{began: e.Time}
		s.counts[m] = c
	}
	if e.Time.Sub(c.began) >= Interval {
		c.began, c.passed = e.Time, 0
	}
	if c.passed >= Burst {
		c.suppressed++
		return 0, false
	}
	c.passed++
	suppressed, c.suppressed = c.suppressed, 0
	return suppressed, true
}

// core is a zapcore.Core that writes what a sampler lets through.
type core struct {
	zapcore.Core
	sampler *Sampler
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{Core: c.Core.With(bounded(fields)), sampler: c.sampler}
}

// Check implements zapcore.Core.
func (c *core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return to
	}
	return to.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	var suppressed uint64
	if e.Level > zapcore.DebugLevel {
		var ok bool
		if suppressed, ok = c.sampler.take(e); !ok {
			return nil
		}
	}
	fields = bounded(fields)
	if suppressed > 0 {
		fields = append(fields, zap.Uint64("suppressed", suppressed))
	}
	return c.Core.Write(e, fields)
}

// bounded makes the texts of fields printable and short. Fields of other types that a
// guest could make long, such as lists, are written as text.
func bounded(fields []zapcore.Field) []zapcore.Field {
	out := slices.Clone(fields)
	left := maxTexts
	for i, f := range out {
		var text string
		switch f.Type {
		case zapcore.StringType:
			text = f.String
		case zapcore.ErrorType, zapcore.StringerType, zapcore.ReflectType, zapcore.ByteStringType, zapcore.BinaryType,
			zapcore.ArrayMarshalerType, zapcore.ObjectMarshalerType, zapcore.InlineMarshalerType:
			text = textOf(f)
		default:
			continue // a number, a time or a flag
		}
		text = Printable(text, min(MaxText, left))
		left -= len(text)
		out[i] = zap.String(f.Key, text)
	}
	return out
}

// textOf formats the value of a field.
func textOf(f zapcore.Field) string {
	if b, ok := f.Interface.([]byte); ok {
		return string(b[:min(len(b), MaxText)])
	}
	if err, ok := f.Interface.(error); ok {
		return errorText(err)
	}
	return fmt.Sprint(f.Interface)
}

// errorText keeps the first line of joined errors apart from the others by a separator:
// Printable would make a question mark of the newline.
func errorText(err error) string {
	if many, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return strings.ReplaceAll(many.Error(), "\n", "; ")
	}
	return err.Error()
}

// Printable makes a text that a guest chose fit for logs, terminals and tables: control
// characters (also those of C1), characters that only steer the layout (such as those that
// reverse the direction of writing), separators of lines and paragraphs, and invalid UTF-8
// become question marks. It is cut to the given number of bytes, at a character.
func Printable(text string, most int) string {
	var b strings.Builder
	b.Grow(min(len(text), most))
	for _, r := range text {
		if r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r) {
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
