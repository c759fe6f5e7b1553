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
		"empty":                               "",
		"something else":                      "\x7fELF\x02\x01\x01 and so on",
		"another version":                     magic + "\x03",
		"unknown event":                       magic + "\x01\xff",
		"an operation that its version lacks": magic + "\x01\x17\x00\x00\x00\x00\x00\x00\x01",
		"a huge string":                       magic + "\x01\x0c\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"a bad reference":                     magic + "\x01\x0c\x00\x00\x00\x00\x00\x01\x07",
		"a negative errno":                    magic + "\x01\x01\x00\x00\x00\x00\xff\xff\x03",
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
	require.Equal(t, []span{
		{handle: 1, from: 0x102010, to: 0x102020},
	}, s.written(drm.FillCmd{Dst: 0x12010, Size: 4, Width: 16, Height: 1}.Append(nil)))
	s.drop(1)
	require.Empty(t, s.maps)
}

// Traces of earlier versions are read.
func TestVersions(t *testing.T) {
	for v, last := range lastOps {
		require.NoError(t, readAll([]byte(magic+string(rune(v)))))
		require.NoError(t, readAll([]byte(magic+string(rune(v))+string(rune(OpClose))+"\x00\x00\x00\x00\x00")))
		require.LessOrEqual(t, last, lastOp)
	}
	require.Contains(t, lastOps, byte(Version))
}

// What one file's work may be writing is left alone by whichever file has the
// same memory, by whichever handle.
func TestSharedMemoryInFlight(t *testing.T) {
	w := NewWriter(io.Discard)
	a, b := Record(nil, w), Record(nil, w)
	a.buffers[1], a.buffers[2], b.buffers[7], b.buffers[8] = 1, 1, 1, 2
	a.flights = []flight{{drm.Point{Channel: 1, Seqno: 1}, []span{
		{handle: 1, to: 64},
		{handle: 3, to: 64},
	}}}
	require.ElementsMatch(t, []span{
		{handle: 1, to: 64},
		{handle: 3, to: 64},
		{handle: 2, to: 64},
	}, a.flying())
	require.Equal(t, []span{
		{handle: 7, to: 64},
	}, b.flying())

	// They look at it once, whoever looks.
	mem := make([]byte, 2*PageBytes)
	w.mem.mapped(a.recording, 1, mem)
	w.mem.mapped(b.recording, 7, mem)
	w.mem.mapped(b.recording, 9, mem)
	mem[PageBytes] = 1
	a.lookWritten()
	require.Equal(t, a.objects[1].sums, b.objects[7].sums)
	require.NotEqual(t, a.objects[1].sums, b.objects[9].sums)
	w.mem.closed(b.recording, 7)
	require.Nil(t, b.objects[7])
	require.Empty(t, b.flying())
	b.End()
	b.event(OpVersion, 0, nil, Event{Out: numbers(0, 0, 0), OutBytes: [][]byte{nil, nil}}) // goes nowhere
	require.NoError(t, w.Flush())
}

// Each operation has a row, and each ioctl with operations of its own the name that drm gives it.
func TestRows(t *testing.T) {
	for op := Op(1); op <= lastOp; op++ {
		row, ok := op.Info()
		require.True(t, ok)
		require.NotEmpty(t, row.Name, "operation %d", op)
		switch op {
		case OpOpen, OpWritten, OpSeen, OpIoctl:
			require.Nil(t, row.call, "%s: Replay does it without the file", row.Name)
			continue
		}
		require.NotNil(t, row.call, row.Name)
		if _, is := drm.Lookup(row.Request); op != OpClose && op != OpMmap {
			require.True(t, is, row.Name)
		}
	}
}

// What no call of the driver came of is recorded as it was made, and shown by drm's row.
func TestRefusedIoctls(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	err := Record(nil, w).Call(17, drm.IoctlExec, func(_ drm.Driver, a *Argument) error {
		a.In, a.Out = []byte{1}, []byte{2}
		return syscall.EFAULT
	})
	require.ErrorIs(t, err, syscall.EFAULT)
	require.ErrorIs(t, Record(nil, w).Call(17, 0x64ff, func(drm.Driver, *Argument) error { return syscall.ENOTTY }), syscall.ENOTTY)
	arg := []byte{5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}
	require.NoError(t, Record(nil, w).Call(17, drm.IoctlGetCap, func(_ drm.Driver, a *Argument) error {
		a.In, a.Out = arg, arg
		return nil
	}))
	require.NoError(t, w.Flush())
	r, err := NewReader(&out)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, Show(r, &text))
	require.Contains(t, text.String(), "thread 17  file 2 IOCTL GET_CAP(request=0xc010640c, argument={Capability=5, Value=3}), argument={Capability=5, Value=3}\n")
	require.Contains(t, text.String(), "thread 17  file 0 IOCTL PVDRM_EXEC(request=0xc0386448, argument=01) = EFAULT, argument=02\n")
	require.Contains(t, text.String(), "thread 17  file 1 IOCTL(request=0x64ff, argument=) = ENOTTY\n")
}

// seeds are traces of one event: each operation, and each ioctl as one of which only the argument
// is recorded.
func seeds(t require.TestingT) (traces [][]byte) {
	seed := func(e Event) {
		var b bytes.Buffer
		w := NewWriter(&b)
		require.NoError(t, w.Write(&e))
		require.NoError(t, w.Flush())
		traces = append(traces, b.Bytes())
	}
	for op := Op(1); op <= lastOp; op++ {
		row, _ := op.Info()
		seed(Event{Op: op, In: make([]uint64, len(row.In)), Out: make([]uint64, len(row.Out)),
			InBytes: make([][]byte, len(row.InBytes)), OutBytes: make([][]byte, len(row.OutBytes))})
	}
	for _, row := range drm.Table {
		arg := make([]byte, row.Request.Size())
		seed(Event{Op: OpIoctl, In: numbers(uint64(row.Request)), InBytes: [][]byte{arg}, OutBytes: [][]byte{arg}})
	}
	return traces
}

func TestSeeds(t *testing.T) {
	for _, trace := range seeds(t) {
		require.NoError(t, readAll(trace))
	}
}

func FuzzReader(f *testing.F) {
	for _, trace := range seeds(f) {
		f.Add(trace)
	}
	f.Add([]byte(magic + "\x02\x17\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte(magic + "\x01\x01\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := readAll(data); err != nil {
			require.ErrorIs(t, err, ErrFormat)
		}
	})
}
