package trace

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
)

// drawEvent makes any event that a Writer takes.
func drawEvent(t *rapid.T) *Event {
	e := &Event{
		Op:     Op(rapid.IntRange(1, int(lastOp)).Draw(t, "op")),
		File:   rapid.Uint32().Draw(t, "file"),
		Thread: rapid.Uint32().Draw(t, "thread"),
		Start:  time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "start")),
		Took:   time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "took")),
		Errno:  syscall.Errno(rapid.IntRange(0, maxErrno).Draw(t, "errno")),
	}
	info, _ := e.Op.Info()
	list := func(n int) (v []uint64) {
		for range n {
			v = append(v, rapid.Uint64().Draw(t, "number"))
		}
		return v
	}
	strings := func(n int) (v [][]byte) {
		for range n {
			// Few long ones, so that some come again.
			v = append(v, bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte") % 4}, rapid.IntRange(0, 60).Draw(t, "length")))
		}
		return v
	}
	e.In, e.Out = list(len(info.In)), list(len(info.Out))
	e.InBytes, e.OutBytes = strings(len(info.InBytes)), strings(len(info.OutBytes))
	return e
}

// What was written is what is read.
func TestEventsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []*Event
		var b bytes.Buffer
		w := NewWriter(&b)
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			e := drawEvent(t)
			require.NoError(t, w.Write(e))
			events = append(events, e)
		}
		require.NoError(t, w.Flush())
		r, err := NewReader(bytes.NewReader(b.Bytes()))
		require.NoError(t, err)
		for _, want := range events {
			got, err := r.Read()
			require.NoError(t, err)
			// Empty and missing byte strings are the same.
			for i := range got.InBytes {
				require.True(t, bytes.Equal(want.InBytes[i], got.InBytes[i]))
			}
			for i := range got.OutBytes {
				require.True(t, bytes.Equal(want.OutBytes[i], got.OutBytes[i]))
			}
			got.InBytes, got.OutBytes = want.InBytes, want.OutBytes
			require.Equal(t, want, got)
		}
		_, err = r.Read()
		require.ErrorIs(t, err, io.EOF)
	})
}

// A trace that ends early is refused where it ends.
func TestTruncatedTraces(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for range 3 {
		require.NoError(t, w.Write(&Event{Op: OpModuleLoad, Out: []uint64{1}, InBytes: [][]byte{[]byte("name"), bytes.Repeat([]byte("x"), 100)}, OutBytes: [][]byte{nil}}))
	}
	require.NoError(t, w.Flush())
	ends := 0 // of events: there a reader cannot know that more belongs to it
	for n := range b.Len() {
		err := readAll(b.Bytes()[:n])
		if err == nil {
			ends++
			continue
		}
		require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
	}
	require.Equal(t, 3, ends)
	require.NoError(t, readAll(b.Bytes()))
}

func readAll(data []byte) error {
	r, err := NewReader(bytes.NewReader(data))
	for err == nil {
		var e *Event
		if e, err = r.Read(); err == nil {
			e.text(raw{})
			e.canonical(symbols{})
		}
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, ErrFormat) {
		return nil
	}
	return err
}

func TestForeignFiles(t *testing.T) {
	for name, data := range map[string]string{
		"empty":            "",
		"something else":   "\x7fELF\x02\x01\x01 and so on",
		"another version":  magic + "\x02",
		"unknown event":    magic + "\x01\xff",
		"a huge string":    magic + "\x01\x0c\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"a bad reference":  magic + "\x01\x0c\x00\x00\x00\x00\x00\x01\x07",
		"a negative errno": magic + "\x01\x01\x00\x00\x00\x00\xff\xff\x03",
	} {
		require.ErrorIs(t, readAll([]byte(data)), ErrFormat, name)
	}
}

func TestMappingsAreCut(t *testing.T) {
	var s space
	s.bind([]drm.BindOp{{Op: drm.BindMap, Handle: 1, Addr: 0x10000, Range: 0x4000, BOOffset: 0x100000}})
	s.bind([]drm.BindOp{{Op: drm.BindUnmap, Addr: 0x11000, Range: 0x1000}})
	_, ok := s.find(0x11800)
	require.False(t, ok)
	m, ok := s.find(0x12800)
	require.True(t, ok)
	require.Equal(t, mapping{0x12000, 0x2000, 1, 0x102000}, m)
	m, ok = s.find(0x10fff)
	require.True(t, ok)
	require.Equal(t, mapping{0x10000, 0x1000, 1, 0x100000}, m)
	require.Equal(t, []span{{1, 0x102010, 0x102020}}, s.written(drm.FillCmd{Dst: 0x12010, Size: 4, Width: 16, Height: 1}.Append(nil)))
	s.drop(1)
	require.Empty(t, s.maps)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(magic + "\x01\x01\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := readAll(data); err != nil {
			require.ErrorIs(t, err, ErrFormat)
		}
	})
}
