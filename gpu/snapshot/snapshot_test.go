package snapshot

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// sample is a state with one of everything.
func sample() *State {
	return &State{
		Driver: "test",
		Memories: []Memory{
			{Size: 3 << 20, Data: []Extent{{Off: 0, Bytes: []byte("abc")}, {Off: 4096, Bytes: bytes.Repeat([]byte{7}, MaxExtent)}}},
			{System: true, Size: 8192},
		},
		Mappings: []Mapping{
			{VA: 1 << 30, Size: 1 << 20, Memory: 0, Off: 1 << 20, Write: true},
			{VA: 1 << 40, Size: 4096, Memory: 1, Off: 4096},
		},
		Heap: &Heap{VA: 1 << 39, Size: 1 << 20, Data: []Extent{{Off: 4096, Bytes: []byte{1, 2}}}, State: []byte("taken")},
		Modules: []Module{
			{File: "k.ptx", Source: []byte(".version 6.0"), VA: 1 << 41, Size: 4096, Data: []Extent{{Off: 8, Bytes: []byte{1}}}},
			{File: "none.ptx"},
		},
		Channels: []Channel{
			{Completed: 7, Batches: []Batch{
				{Begun: 2, Commands: []gpu.Command{
					&gpu.Task{},
					&gpu.Copy{Dst: 1, Src: 2, Width: 3, Height: 4, DstPitch: 5, SrcPitch: 6},
					&gpu.Fill{Dst: 1, Pattern: 2, Size: 4, Width: 5, Height: 6, Pitch: 7},
					&gpu.Timestamp{VA: 8},
					&gpu.Launch{Func: Kernel{Module: 1, Name: "f"}, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, SharedBytes: 7, Params: []byte{8}, Cooperative: true, Signal: 9},
					&gpu.Word{VA: 8, Value: 9, Size: 4, Op: gpu.WaitAnd},
					&gpu.Launch{Func: Kernel{Module: None, Name: "gone"}},
					(*gpu.Copy)(nil),
				}},
				{},
				{Launch: []byte("registers"), Commands: []gpu.Command{&gpu.Launch{Func: Kernel{Module: 0, Name: "f"}}}},
			}},
			{Failed: "it failed"},
		},
		Output: []byte("hello\n"),
	}
}

func encode(t *testing.T, s *State) []byte {
	var b bytes.Buffer
	require.NoError(t, Write(&b, s))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	for _, s := range []*State{{}, sample()} {
		b := encode(t, s)
		r := io.MultiReader(iotest.OneByteReader(bytes.NewReader(b)), bytes.NewReader([]byte("more")))
		got, err := Read(r, uint64(len(b)))
		require.NoError(t, err)
		require.Equal(t, s, got)
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "more", string(rest), "nothing is read beyond the end")
	}
}

// TestOdd checks that commands that a device refuses stay such.
func TestOdd(t *testing.T) {
	s := &State{Channels: []Channel{{Batches: []Batch{{Commands: []gpu.Command{
		nil, (*gpu.Word)(nil), (*gpu.Launch)(nil), (*gpu.Fill)(nil), (*gpu.Timestamp)(nil), &gpu.Launch{},
		&gpu.Launch{Func: Kernel{Module: None}, Params: make([]byte, MaxParams+1)},
	}}}}}}
	b := encode(t, s)
	got, err := Read(bytes.NewReader(b), uint64(len(b)))
	require.NoError(t, err)
	for _, cmd := range got.Channels[0].Batches[0].Commands {
		require.Equal(t, (*gpu.Copy)(nil), cmd)
	}
}

func TestCutOff(t *testing.T) {
	s := sample()
	s.Memories[0].Data = s.Memories[0].Data[:1]
	b := encode(t, s)
	for n := range b {
		_, err := Read(bytes.NewReader(b[:n]), math.MaxUint64)
		require.ErrorIs(t, err, gpu.ErrInvalid)
		_, err = Read(bytes.NewReader(b), uint64(n))
		require.ErrorIs(t, err, gpu.ErrInvalid)
	}
}

func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	_, err := Read(iotest.ErrReader(broken), 1000)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, gpu.ErrInvalid)
}

func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*State)
		want   string
	}{
		{name: "memory of a mapping", change: func(s *State) { s.Mappings[0].Memory = 2 }, want: "object 2 of 2"},
		{name: "mapping of nothing", change: func(s *State) { s.Mappings[0].Size = 0 }, want: "mapping of"},
		{name: "mapping beyond its memory", change: func(s *State) { s.Mappings[0].Off = 3 << 20 }, want: "mapping of"},
		{name: "mapping that wraps", change: func(s *State) { s.Mappings[1].VA = math.MaxUint64 - 1023 }, want: "mapping of"},
		{name: "order of mappings", change: func(s *State) { s.Mappings[1].VA = 1<<30 + 4096 }, want: "mapping of"},
		{name: "contents of system memory", change: func(s *State) { s.Memories[1].Data = []Extent{{Off: 0, Bytes: []byte{1}}} }, want: "with contents"},
		{name: "extent beyond the end", change: func(s *State) { s.Memories[0].Data[1].Off = 3<<20 - 1 }, want: "at offset"},
		{name: "extents that overlap", change: func(s *State) { s.Memories[0].Data[1].Off = 2 }, want: "at offset"},
		{name: "heap", change: func(s *State) { s.Heap.Size = 4097 }, want: "at offset"},
		{name: "variables", change: func(s *State) { s.Modules[0].Size = 8 }, want: "at offset"},
		{name: "module of a launch", change: func(s *State) { s.Modules = s.Modules[:1] }, want: "module 1 of 1"},
		{name: "begun", change: func(s *State) { s.Channels[0].Batches[1].Begun = 1 << 40 }, want: "have begun"},
		{name: "launch of nothing", change: func(s *State) { s.Channels[0].Batches[1].Launch = []byte{1} }, want: "does not begin with one"},
		{name: "ended", change: func(s *State) { s.Channels[1].Completed = math.MaxUint64 }, want: "have ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sample()
			c.change(s)
			_, err := Read(bytes.NewReader(encode(t, s)), math.MaxUint64)
			require.ErrorIs(t, err, gpu.ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}
	b := encode(t, sample())
	b[8]++
	_, err := Read(bytes.NewReader(b), math.MaxUint64)
	require.ErrorContains(t, err, "its version is 6; this program reads version 5")
}

func TestWriteRefusesWhatReadDoes(t *testing.T) {
	s := sample()
	s.Output = make([]byte, MaxOutput+1)
	require.ErrorIs(t, Write(io.Discard, s), gpu.ErrTooLarge)
}

func TestExtents(t *testing.T) {
	b := make([]byte, 3*MaxExtent+100)
	require.Empty(t, Extents(0, b))
	b[5000] = 1
	b[len(b)-1] = 1
	require.Equal(t, []Extent{{Off: 1<<40 + 4096, Bytes: b[4096:8192]}, {Off: 1<<40 + 3*MaxExtent, Bytes: b[3*MaxExtent:]}}, Extents(1<<40, b))
	for i := range b {
		b[i] = 1
	}
	var all []byte
	for _, x := range Extents(0, b) {
		require.Equal(t, uint64(len(all)), x.Off)
		require.LessOrEqual(t, len(x.Bytes), MaxExtent)
		all = append(all, x.Bytes...)
	}
	require.Equal(t, b, all)
}

// FuzzRead feeds Read anything. What it accepts must be written as it was read.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	require.NoError(f, Write(&b, &State{}))
	f.Add(bytes.Clone(b.Bytes()))
	s := sample()
	s.Memories[0].Data = s.Memories[0].Data[:1]
	b.Reset()
	require.NoError(f, Write(&b, s))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Read(bytes.NewReader(b), 1<<20)
		if err != nil {
			require.ErrorIs(t, err, gpu.ErrInvalid)
			return
		}
		again := encode(t, s)
		require.True(t, bytes.HasPrefix(b, again))
	})
}
