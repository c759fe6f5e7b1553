package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// sink counts what a logger writes, and keeps the end of it.
type sink struct {
	bytes int
	last  bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	s.bytes += len(b)
	if s.last.Len() > 1<<16 {
		s.last.Reset()
	}
	return s.last.Write(b)
}

// encoders are the forms in which pvdrm logs.
var encoders = map[string]zapcore.Encoder{
	"JSON":    zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
	"console": zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
}

// logTo makes what a parent reads the log of a guest with.
func logTo(form string, s *sink) (*logPipe, *meter) {
	m := newMeter(zapcore.NewCore(encoders[form], zapcore.AddSync(s), zapcore.DebugLevel), "guest-1")
	return &logPipe{log: zap.New(m).With(zap.String("guest", "guest-1")), meter: m}, m
}

// flood writes lines for a time, as fast as it is read.
type flood struct {
	line  string
	until time.Time
}

func (f *flood) Read(b []byte) (int, error) {
	if !time.Now().Before(f.until) {
		return 0, io.EOF
	}
	time.Sleep(2 * time.Second) // a real one is faster, and only waits for its reader
	n := 0
	for range 10 {
		n += copy(b[n:], f.line)
	}
	return n, nil
}

// Whatever a backend writes, and however long, its host's log gets less than a megabyte an hour, and
// what it says when it crashes after that.
func TestLogOfAFlood(t *testing.T) {
	for name, line := range map[string]string{
		"usual":     `{"level":"info","ts":1,"msg":"client connected","client":"gdev[12]"}` + "\n",
		"errors":    `{"level":"error","ts":1,"msg":"GPU context lost","cause":"illegal address"}` + "\n",
		"text":      strings.Repeat("\x1b[2J\u202e", 40) + "\n",
		"backslash": `{"level":"warn","msg":"` + strings.Repeat(`\\`, 100) + `"}` + "\n",
		"empty":     "\n",
		"endless":   strings.Repeat("x", 1024),
	} {
		for form := range encoders {
			t.Run(name+" "+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var s sink
					p, m := logTo(form, &s)
					r := lineReader{from: &flood{line: line, until: time.Now().Add(time.Hour)}, each: p.take}
					require.NoError(t, r.run())
					require.Less(t, s.bytes, 1_000_000)
					if name == "usual" || name == "backslash" { // the others are as urgent
						p.take([]byte("panic: out of luck"), false)
						require.Contains(t, s.last.String(), "panic: out of luck")
					}
					m.close()
					require.Equal(t, name != "endless", strings.Contains(s.last.String(), "were dropped"), "that is one line")
				})
			})
		}
	}
}

// A flood has its reader wait, so that it costs little.
func TestFloodIsReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 64 << 20
		start := time.Now()
		r := lineReader{from: io.LimitReader(repeat('x'), size), each: func([]byte, bool) {}}
		require.NoError(t, r.run())
		require.GreaterOrEqual(t, time.Since(start), (size-readBurst)/readRate*time.Second)
	})
}

// repeat is an endless stream of one byte.
type repeat byte

func (r repeat) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r)
	}
	return len(b), nil
}

func TestBudgetComesBack(t *testing.T) {
	b := newBudget()
	now := time.Unix(1, 0)
	require.True(t, b.take(now, usualBytes, false))
	require.False(t, b.take(now, 1, false))
	require.True(t, b.take(now, urgentBytes, true))
	require.False(t, b.take(now, 1, true))
	require.True(t, b.spent(now, 1))
	n, due := b.notice(now, false)
	require.True(t, due)
	require.Equal(t, uint64(3), n)
	require.False(t, b.take(now, 1, false))
	_, due = b.notice(now.Add(noticeEvery/2), false)
	require.False(t, due, "it is told once in a while")
	for i := range 1000 { // in steps that are a fraction of a byte's time
		now = now.Add(time.Millisecond)
		require.Equal(t, (i+1)*usualRate/1000 < 50, b.spent(now, 50), "after %d ms", i)
	}
	require.True(t, b.take(now.Add(100*time.Hour), usualBytes, false))
	require.False(t, b.take(now.Add(100*time.Hour), usualBytes, false), "it holds so much at most")
	require.False(t, b.take(now, 1, false), "and a clock that goes back gives nothing")
}

// A notice is as short as the budget counts on, whatever the guest's name.
func TestNoticesAreShort(t *testing.T) {
	for _, encoder := range encoders {
		for _, guest := range []string{"", strings.Repeat("x", 1000), strings.Repeat(`\`, 1000), strings.Repeat("\x1b", 1000)} {
			var s sink
			m := newMeter(zapcore.NewCore(encoder, zapcore.AddSync(&s), zapcore.DebugLevel), guest)
			require.NoError(t, m.tell(time.Now(), math.MaxUint64))
			require.NotZero(t, s.bytes)
			require.LessOrEqual(t, s.bytes, noticeBytes, s.last.String())
		}
	}
}

func TestRecords(t *testing.T) {
	for line, want := range map[string]string{
		`{"level":"info","ts":1.5,"caller":"x.go:1","msg":"joined","n":3,"f":0.5,"ok":true,"s":"text"}`: `INFO joined {"guest": "guest-1", "n": 3, "f": 0.5, "ok": true, "s": "text"}`,
		`{"level":"fatal","msg":"it ends"}`:                               `ERROR it ends {"guest": "guest-1"}`,
		`{"level":"warn","msg":"it is another","guest":"guest-2"}`:        `WARN it is another {"guest": "guest-1"}`,
		`{"level":"warn","msg":"a\nb\u001b[2J","\u202ekey":"\u009b31m"}`:  `WARN a\nb\x1b[2J {"guest": "guest-1", "\\u202ekey": "\\u009b31m"}`,
		`{"level":"warn","msg":7,"o":{"a":[1]},"none":null}`:              `WARN 7 {"guest": "guest-1", "o": "{\"a\":[1]}", "none": "null"}`,
		`{"level":"warn","msg":"x","n":1e999,"big":18446744073709551615}`: `WARN x {"guest": "guest-1", "n": "1e999", "big": 18446744073709552000}`,
		`panic: boom`:                  `ERROR a backend writes {"guest": "guest-1", "text": "panic: boom"}`,
		`{"level":"loud","msg":"x"}`:   `ERROR a backend writes {"guest": "guest-1", "text": "{\"level\":\"loud\",\"msg\":\"x\"}"}`,
		`{"level":"info","msg":"x"} {`: `ERROR a backend writes {"guest": "guest-1", "text": "{\"level\":\"info\",\"msg\":\"x\"} {"}`,
		`{"level":"info","a":1,"a":2}`: `ERROR a backend writes {"guest": "guest-1", "text": "{\"level\":\"info\",\"a\":1,\"a\":2}"}`,
		`{"level":"info","msg":"x"`:    `ERROR a backend writes {"guest": "guest-1", "text": "{\"level\":\"info\",\"msg\":\"x\""}`,
		`["level"]`:                    `ERROR a backend writes {"guest": "guest-1", "text": "[\"level\"]"}`,
	} {
		var s sink
		p, _ := logTo("console", &s)
		p.take([]byte(line), false)
		_, said, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(s.last.String()), "\t", " "), " ")
		require.Equal(t, want, said, line)
	}
}

// Whatever a backend writes becomes lines of the log, each one whole and harmless.
func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"level":"info","ts":1.5,"msg":"joined","n":3,"o":{"a":[1,"\u009b"]}}`+"\n"), uint8(3))
	f.Add([]byte("panic: \x1b[2J\xff\r\n\u202e\n{\"level\":\"error\"}\n{}"), uint8(0))
	f.Add(bytes.Repeat([]byte("y"), maxLine+10), uint8(7))
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		from := []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader, func(r io.Reader) io.Reader { return r }}[kind%4]
		for form := range encoders {
			var s sink
			p, _ := logTo(form, &s)
			each := func(line []byte, cut bool) {
				require.LessOrEqual(t, len(line), maxLine)
				require.NotContains(t, line, byte('\n'))
				require.True(t, !cut || len(line) == maxLine)
				p.take(line, cut)
			}
			r := lineReader{from: from(bytes.NewReader(b)), each: each}
			require.NoError(t, r.run())
			requireHarmless(t, p.crash())
			for line := range strings.Lines(s.last.String()) {
				requireHarmless(t, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", " "))
				if form == "JSON" {
					var fields map[string]any
					require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
					require.Equal(t, "guest-1", fields["guest"])
				}
			}
		}
	})
}

func TestLines(t *testing.T) {
	var got []string
	r := lineReader{from: iotest.HalfReader(strings.NewReader("one\n\n" + strings.Repeat("x", maxLine) + "\n" + strings.Repeat("y", maxLine+1) + "\nlast")),
		each: func(line []byte, cut bool) { got = append(got, fmt.Sprintf("%.5s %d %t", line, len(line), cut)) }}
	require.NoError(t, r.run())
	require.Equal(t, []string{"one 3 false", " 0 false", "xxxxx 8192 false", "yyyyy 8192 true", "last 4 false"}, got)
	broken := errors.New("broken")
	r = lineReader{from: iotest.ErrReader(broken), each: r.each}
	require.ErrorIs(t, r.run(), broken)
}

// A child writes few of the messages that its guest provokes without end.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		log := zap.New(sample(zapcore.NewCore(encoders["JSON"], zapcore.AddSync(&s), zapcore.DebugLevel)))
		for range 100_000 {
			log.Warn("client disconnected")
			time.Sleep(time.Millisecond)
		}
		require.Less(t, s.bytes, 100_000)
		log.Info("another message")
		require.Contains(t, s.last.String(), "another message")
	})
}
