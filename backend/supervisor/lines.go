package supervisor

import (
	"bytes"
	"io"
	"time"
)

// Bounds of what is read of a child's log pipe. The pipe fills when it is read more slowly than it
// is written, and the child waits: so it costs its parent little time, whatever it writes.
const (
	maxLine   = 8 << 10 // bytes of a line; the rest of it is skipped
	readBurst = 1 << 20 // bytes
	readRate  = 1 << 20 // bytes a second, after the burst
)

// lineReader splits a stream into lines of bounded length, at a bounded rate.
type lineReader struct {
	from io.Reader
	each func(line []byte, cut bool) // called for each line; line is valid during the call

	pace bucket
	line []byte
	cut  bool // the line was longer
}

// run reads to the end of the stream.
func (r *lineReader) run() error {
	r.pace = bucket{most: readBurst, rate: readRate}
	buf := make([]byte, 16<<10)
	for {
		n, err := r.from.Read(buf)
		r.take(buf[:n])
		if err != nil {
			r.end()
			if err == io.EOF {
				return nil
			}
			return err
		}
		time.Sleep(r.pace.wait(time.Now(), int64(n)))
	}
}

// take takes the next bytes of the stream.
func (r *lineReader) take(b []byte) {
	for len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte{'\n'})
		if room := maxLine - len(r.line); len(part) > room {
			part, r.cut = part[:room], true
		}
		r.line = append(r.line, part...)
		if whole {
			r.flush()
		}
		b = rest
	}
}

// end takes the end of the stream: a last line may have no end.
func (r *lineReader) end() {
	if len(r.line) > 0 {
		r.flush()
	}
}

func (r *lineReader) flush() {
	r.each(r.line, r.cut)
	r.line, r.cut = r.line[:0], false
}
