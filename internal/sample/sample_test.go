package sample

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A message that is logged again and again gets through a burst at a time, and tells
// with the next burst how many did not.
func TestSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, written := observer.New(zapcore.InfoLevel)
		var s Sampler
		log := s.Wrap(s.Wrap(zap.New(out)))
		for range 100 {
			log.With(zap.Int("session", 1)).Warn("session ended")
		}
		log.Error("other")
		require.Equal(t, Burst, written.FilterMessage("session ended").Len())
		require.Equal(t, 1, written.FilterMessage("other").Len(), "messages are counted one by one")
		time.Sleep(Interval)
		written.TakeAll()
		s.Wrap(zap.New(out)).Warn("session ended") // another logger of the same guest
		log.Warn("session ended")
		all := written.TakeAll()
		require.Len(t, all, 2)
		require.Equal(t, map[string]any{"suppressed": uint64(100 - Burst)}, all[0].ContextMap())
		require.Empty(t, all[1].ContextMap())
	})
}

// An hour of a guest that does what it can, entries of greatest length included, is less
// than a megabyte.
func TestHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		var s Sampler
		log := s.Wrap(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
			zapcore.AddSync(&written), zapcore.InfoLevel)))
		long := strings.Repeat("\u202e", 4<<10)
		for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(time.Second) {
			for _, message := range []string{"session ended", "GPU context lost", "client disconnected", "refused a command",
				"short command", "renderer ended", "queue broken", "viewer left"} {
				log.With(zap.String("client", long)).Warn(message, zap.String("kernel", long), zap.Error(errors.New(long)))
			}
		}
		require.Less(t, written.Len(), 1_000_000)
		require.NotContains(t, written.String(), "\u202e")
	})
}

// More messages than are told apart share one count, so that memory is bounded.
func TestMessages(t *testing.T) {
	out, written := observer.New(zapcore.InfoLevel)
	var s Sampler
	for i := range 10 * maxMessages {
		s.Wrap(zap.New(out)).Warn(fmt.Sprint("message ", i))
	}
	require.Equal(t, maxMessages+Burst, written.Len())
	require.Len(t, s.counts, maxMessages+1)
}

type list []string

func (l list) MarshalLogArray(e zapcore.ArrayEncoder) error {
	for _, s := range l {
		e.AppendString(s)
	}
	return nil
}

// Fields of all kinds that carry text are made printable and short.
func TestFields(t *testing.T) {
	out, written := observer.New(zapcore.DebugLevel)
	var s Sampler
	bad := "a\x1b[2J\u009b1m" + strings.Repeat("x", MaxText)
	s.Wrap(zap.New(out)).With(zap.String("with", bad)).Debug("message", zap.String("string", bad), zap.Error(errors.New(bad)),
		zap.NamedError("joined", errors.Join(errors.New("one"), errors.New("two"))), zap.Any("any", []string{bad}),
		zap.ByteString("bytes", []byte(bad)), zap.Array("array", list{bad}), zap.Int("number", 7), zap.Stringer("time", 7*time.Second))
	fields := written.All()[0].ContextMap()
	require.Equal(t, int64(7), fields["number"])
	require.Equal(t, "one; two", fields["joined"])
	require.Equal(t, "a?[2J?1m"+strings.Repeat("x", MaxText-8), fields["with"])
	total := 0
	for key, value := range fields {
		if text, ok := value.(string); ok {
			total += len(text)
			require.LessOrEqual(t, len(text), MaxText, key)
			require.Equal(t, text, Printable(text, MaxText), key)
		}
	}
	require.LessOrEqual(t, total, MaxText+maxTexts)
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"plain text, ünïcödé 漢字":       "plain text, ünïcödé 漢字",
		"tab\tnewline\nnul\x00del\x7f": "tab?newline?nul?del?",
		"C1 \u0085\u009b\u009f":        "C1 ???",
		"bidi \u202a\u202e\u2066\u2069\u200e\u200f\u061c": "bidi ???????",
		"lines \u2028\u2029":                              "lines ??",
		"zero width \u200b\ufeff":                         "zero width ??",
		"invalid \xff\xfe \xc3(\ufffd":                    "invalid ?? ?(?",
		"tags \U000e0041":                                 "tags ?",
	} {
		require.Equal(t, want, Printable(text, 100), "%q", text)
	}
	require.Equal(t, "äö", Printable("äöü", 5), "cut at a character")
	require.Empty(t, Printable("x", 0))
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b\u202e\xff", 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = min(max(most, 0), 1<<16)
		out := Printable(text, most)
		require.LessOrEqual(t, len(out), most)
		require.True(t, utf8.ValidString(out))
		for _, r := range out {
			require.False(t, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs), "%q", r)
		}
	})
}
