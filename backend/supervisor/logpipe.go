package supervisor

import (
	"bytes"
	"io"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logPipe copies the standard error of a child and its workers into the parent's log.
type logPipe struct {
	log   *zap.Logger // through meter
	meter *meter
	done  chan struct{} // closed at the end of the pipe

	mu    sync.Mutex
	cause string // the line that says why the program crashed; escaped
}

// startLogPipe reads a pipe until its end, in the background.
func startLogPipe(from io.ReadCloser, log *zap.Logger, m *meter) *logPipe {
	p := &logPipe{log: log, meter: m, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer func() { _ = from.Close() }() // was read to its end
		r := lineReader{from: from, each: p.take}
		if err := r.run(); err != nil {
			p.log.Error("the log of the backend cannot be read", zap.Error(err))
		}
	}()
	return p
}

// take takes a line.
func (p *logPipe) take(line []byte, cut bool) {
	p.remember(line)
	if p.meter.spent(len(line)) {
		return
	}
	r, err := parseRecord(line)
	if err != nil {
		// A line that is not a record comes from a library, a worker, or the end of the program.
		r = record{level: zapcore.ErrorLevel, text: "a backend writes", fields: []zapcore.Field{zap.String("text", Escape(string(line)))}}
	}
	if cut {
		r.fields = append(r.fields, zap.Bool("cut", true))
	}
	if e := p.log.Check(r.level, r.text); e != nil {
		e.Write(r.fields...)
	}
}

// maxCause bounds the bytes that are kept of the reason of a crash.
const maxCause = 256

// remember keeps why the program crashed, as Go's runtime says it.
func (p *logPipe) remember(line []byte) {
	if !bytes.HasPrefix(line, []byte("fatal error: ")) && !bytes.HasPrefix(line, []byte("panic: ")) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == "" {
		p.cause = shorten(Escape(string(line)), maxCause)
	}
}

// crash returns why the program crashed, or "".
func (p *logPipe) crash() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}
