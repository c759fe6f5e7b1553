package drm

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sizes of arguments are those in the numbers: a wrong one would be a different ioctl.
func TestTableAgreesWithStructs(t *testing.T) {
	seen := map[uint32]string{}
	for _, e := range Table {
		require.NotNil(t, e.serve, e.Name)
		require.Equal(t, binary.Size(reflect.New(e.Argument).Interface()), e.Request.Size(), e.Name)
		require.EqualValues(t, e.Argument.Size(), e.Request.Size(), e.Name)
		require.NotEmpty(t, e.Doc, e.Name)
		require.Empty(t, seen[e.Request.Number()], e.Name)
		require.LessOrEqual(t, e.Request.Size(), MaxArgument)
		seen[e.Request.Number()] = e.Name
		got, ok := Lookup(e.Request)
		require.True(t, ok)
		require.Equal(t, e.Name, got.Name)
	}
	require.Equal(t, BindOpSize, binary.Size(BindOp{}))
}

// The numbers are those of the C headers; a few are spelled out here, computed
// by hand from drm.h and virtgpu_drm.h.
func TestNumbers(t *testing.T) {
	require.EqualValues(t, 0xc0406400, IoctlVersion)
	require.EqualValues(t, 0x40086409, IoctlGemClose)
	require.EqualValues(t, 0xc0106441, IoctlVirtgpuMap)
	require.EqualValues(t, 0xc0286442, IoctlVirtgpuExecbuffer)
	require.EqualValues(t, 0xc0386444, IoctlVirtgpuResourceCreate)
	require.EqualValues(t, 0xc0186449, IoctlVirtgpuGetCaps)
	for r, arg := range virtgpuArguments {
		require.Equal(t, binary.Size(arg), r.Size())
	}
}

func TestLookupUnknown(t *testing.T) {
	_, ok := Lookup(0xc0106300)
	require.False(t, ok, "another type")
	_, ok = Lookup(iowr(0xee, 8))
	require.False(t, ok)
	require.Equal(t, "PVDRM_EXEC", IoctlExec.String())
	require.True(t, IoctlExec.Reads() && IoctlExec.Writes())
	require.False(t, IoctlWait.Writes())
}

type recorder struct{ got []any }

func (r *recorder) Copy(c CopyCmd) error           { r.got = append(r.got, c); return nil }
func (r *recorder) Fill(c FillCmd) error           { r.got = append(r.got, c); return nil }
func (r *recorder) Task() error                    { r.got = append(r.got, TaskCmd{}); return nil }
func (r *recorder) Timestamp(c TimestampCmd) error { r.got = append(r.got, c); return nil }
func (r *recorder) Word(c WordCmd) error           { r.got = append(r.got, c); return nil }
func (r *recorder) Call(c CallCmd) error {
	c.Args = bytes.Clone(c.Args)
	r.got = append(r.got, c)
	return nil
}
func (r *recorder) Launch(c LaunchCmd) error {
	c.Params = append([]byte{}, c.Params...)
	r.got = append(r.got, c)
	return nil
}

func encode(cmds []any) (b []byte) {
	for _, c := range cmds {
		b = c.(interface{ Append([]byte) []byte }).Append(b)
	}
	return b
}

var sample = []any{
	TaskCmd{},
	CopyCmd{Dst: 1, Src: 2, Width: 3, Height: 4, DstPitch: 5, SrcPitch: 6},
	FillCmd{Dst: 1, Size: 2, Pattern: 0xabcd, Width: 4, Height: 1, Pitch: 9},
	LaunchCmd{Function: 7, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, SharedBytes: 8, Params: []byte{1, 2, 3}},
	LaunchCmd{Function: 8, Params: []byte{}},
	LaunchCmd{Function: 9, Grid: [3]uint32{1, 2, 3}, Params: []byte{1}, Cooperative: true},
	LaunchCmd{Function: 9, Grid: [3]uint32{2, 2, 3}, Cluster: [3]uint32{1, 2, 3}, Params: []byte{1}},
	LaunchCmd{Function: 9, Grid: [3]uint32{2, 2, 3}, Cluster: [3]uint32{2, 1, 1}, Params: []byte{}, Cooperative: true},
	LaunchCmd{Function: 9, Grid: [3]uint32{2, 2, 3}, Params: []byte{1}, Signal: 1 << 40},
	LaunchCmd{Function: 9, Grid: [3]uint32{2, 2, 3}, Cluster: [3]uint32{2, 1, 1}, Params: []byte{}, Cooperative: true, Signal: 4},
	TimestampCmd{Addr: 64},
	WordCmd{Addr: 64, Value: 1<<32 - 1, Size: 4},
	WordCmd{Addr: 64, Value: 1<<64 - 1, Size: 8, Op: WaitNor},
	CallCmd{Function: 3, Args: []byte{1, 2, 3}, Results: 64, ResultBytes: 24},
	CallCmd{Function: 4, ArgsAddr: 128, ArgsBytes: 999},
}

func TestCommandsRoundTrip(t *testing.T) {
	var r recorder
	n, err := WalkCommands(encode(sample), &r)
	require.NoError(t, err)
	require.Equal(t, len(sample), n)
	require.Equal(t, sample, r.got)
}

func TestCommandsMalformed(t *testing.T) {
	whole := encode(sample)
	for cut := 1; cut < len(whole); cut++ {
		var r recorder
		index, err := WalkCommands(whole[:cut], &r)
		if err != nil {
			require.ErrorIs(t, err, syscall.EINVAL)
			require.Len(t, r.got, index, "commands before the bad one were handed on")
		}
	}
	for name, b := range map[string][]byte{
		"zero length":       {1, 0, 0, 0, 0, 0, 0, 0},
		"unknown opcode":    {99, 0, 1, 0, 0, 0, 0, 0},
		"short copy":        {1, 0, 1, 0, 0, 0, 0, 0},
		"params past end":   LaunchCmd{}.Append(nil)[:launchBytes:launchBytes],
		"pattern of 3":      FillCmd{Size: 3}.Append(nil),
		"too much padding":  nil,
		"pattern too large": nil,
		"no signal":         LaunchCmd{Signal: 1}.Append(nil),
		"flags":             LaunchCmd{Signal: 1}.Append(nil),
	} {
		switch name {
		case "params past end":
			b[cmdHeader+28] = 9
		case "too much padding":
			b = LaunchCmd{Params: make([]byte, 16)}.Append(nil)
			b[cmdHeader+28] = 8
		case "no signal":
			b[cmdHeader] = 0
		case "flags":
			b[cmdHeader+signalBytes+3*4] = 2
		case "pattern too large":
			b = FillCmd{Size: 4}.Append(nil)
			b[len(b)-1] = 1
		}
		_, err := WalkCommands(b, &recorder{})
		require.ErrorIs(t, err, syscall.EINVAL, name)
	}
}

func FuzzWalkCommands(f *testing.F) {
	f.Add(encode(sample))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r recorder
		if _, err := WalkCommands(b, &r); err == nil {
			// What decodes whole encodes to a stream that decodes to the same.
			var again recorder
			_, err := WalkCommands(encode(r.got), &again)
			require.NoError(t, err)
			require.Equal(t, r.got, again.got)
		}
	})
}
