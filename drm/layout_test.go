package drm

import (
	"encoding/binary"
	"errors"
	"reflect"
	"structs"
	"testing"

	"github.com/stretchr/testify/require"
)

// virtgpuArguments maps the carrier's ioctls to their arguments.
var virtgpuArguments = map[Request]any{
	IoctlVirtgpuMap: VirtgpuMap{}, IoctlVirtgpuExecbuffer: VirtgpuExecbuffer{},
	IoctlVirtgpuResourceCreate: VirtgpuResourceCreate{}, IoctlVirtgpuFromHost: VirtgpuTransfer{},
	IoctlVirtgpuResourceInfo: VirtgpuResourceInfo{}, IoctlVirtgpuWait: VirtgpuWait{}, IoctlVirtgpuGetCaps: VirtgpuGetCaps{},
}

// allStructs is every struct that crosses the user API.
func allStructs() []any {
	var all []any
	for _, e := range Table {
		all = append(all, reflect.Zero(e.Argument).Interface())
		if e.Element != nil {
			all = append(all, reflect.Zero(e.Element).Interface())
		}
	}
	for _, a := range virtgpuArguments {
		all = append(all, a)
	}
	return all
}

// A struct that Go pads would differ from the packed size and, on another
// architecture, from the C struct: all padding is spelled out.
func TestStructsHaveNoHiddenPadding(t *testing.T) {
	for _, a := range allStructs() {
		typ := reflect.TypeOf(a)
		require.Equal(t, binary.Size(a), int(typ.Size()), typ.Name())
		require.Equal(t, reflect.TypeFor[structs.HostLayout](), typ.Field(0).Type, typ.Name())
		for i := 1; i < typ.NumField(); i++ {
			f := typ.Field(i)
			require.Contains(t, []reflect.Kind{reflect.Uint32, reflect.Int32, reflect.Uint64, reflect.Int64}, f.Type.Kind(), "%s.%s", typ, f.Name)
			require.Zero(t, f.Offset%f.Type.Size(), "%s.%s: 32-bit programs would see it elsewhere", typ, f.Name)
		}
	}
}

// Offsets of the structs that Linux defines, read off drm.h and virtgpu_drm.h
// by hand for x86-64. Those of PVDRM's own are in docs/protocol.md.
func TestOffsetsOfLinuxStructs(t *testing.T) {
	type field struct {
		name   string
		offset uintptr
	}
	for _, c := range []struct {
		value  any
		fields []field
	}{
		{Version{}, []field{{"Major", 0}, {"Minor", 4}, {"Patch", 8}, {"NameLen", 16}, {"Name", 24}, {"DateLen", 32}, {"Date", 40}, {"DescLen", 48}, {"Desc", 56}}},
		{GemClose{}, []field{{"Handle", 0}}},
		{GetCap{}, []field{{"Capability", 0}, {"Value", 8}}},
		{PrimeHandle{}, []field{{"Handle", 0}, {"Flags", 4}, {"FD", 8}}},
		{SyncobjCreate{}, []field{{"Handle", 0}, {"Flags", 4}}},
		{SyncobjWait{}, []field{{"Handles", 0}, {"TimeoutNS", 8}, {"Count", 16}, {"Flags", 20}, {"FirstSignaled", 24}, {"DeadlineNS", 32}}},
		{SyncobjArray{}, []field{{"Handles", 0}, {"Count", 8}}},
		{VirtgpuMap{}, []field{{"Offset", 0}, {"Handle", 8}}},
		{VirtgpuExecbuffer{}, []field{{"Flags", 0}, {"Size", 4}, {"Command", 8}, {"BOHandles", 16}, {"NumBOHandles", 24}, {"FenceFD", 28}, {"RingIdx", 32}}},
		{VirtgpuResourceCreate{}, []field{{"Target", 0}, {"Format", 4}, {"Bind", 8}, {"Width", 12}, {"Height", 16}, {"Depth", 20},
			{"ArraySize", 24}, {"LastLevel", 28}, {"NrSamples", 32}, {"Flags", 36}, {"BOHandle", 40}, {"ResHandle", 44}, {"Size", 48}, {"Stride", 52}}},
		{VirtgpuResourceInfo{}, []field{{"BOHandle", 0}, {"ResHandle", 4}, {"Size", 8}}},
		{VirtgpuTransfer{}, []field{{"BOHandle", 0}, {"X", 4}, {"Y", 8}, {"Z", 12}, {"Width", 16}, {"Height", 20}, {"Depth", 24},
			{"Level", 28}, {"Offset", 32}, {"Stride", 36}, {"LayerStride", 40}}},
		{VirtgpuWait{}, []field{{"Handle", 0}, {"Flags", 4}}},
		{VirtgpuGetCaps{}, []field{{"CapsetID", 0}, {"CapsetVer", 4}, {"Addr", 8}, {"Size", 16}}},
	} {
		typ := reflect.TypeOf(c.value)
		for _, want := range c.fields {
			f, ok := typ.FieldByName(want.name)
			require.True(t, ok, "%s.%s", typ, want.name)
			require.Equal(t, want.offset, f.Offset, "%s.%s", typ, want.name)
		}
	}
}

// PVDRM's own ioctls are in the order of their numbers, without gaps.
func TestTableOrder(t *testing.T) {
	own := uint32(commandBase)
	for _, e := range Table {
		if e.Request.Number() >= commandBase && e.Request.Number() < 0xa0 {
			require.Equal(t, own, e.Request.Number(), e.Name)
			require.Contains(t, e.Name, "PVDRM_")
			own++
		} else {
			require.NotContains(t, e.Name, "PVDRM_")
		}
		require.Equal(t, e.Name, e.Request.String())
		require.True(t, e.Request.IsDRM())
		require.True(t, e.Request.Reads(), "%s: every argument is read", e.Name)
	}
}

// As in Linux, the size in the request does not matter for finding it.
func TestLookupIgnoresTheSize(t *testing.T) {
	for i := range Table {
		e := &Table[i]
		for _, size := range []uint32{0, 4, 0x3fff} {
			got, ok := Lookup(ioc(dirRead|dirWrite, e.Request.Number(), size))
			require.True(t, ok)
			require.Same(t, e, got)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, e := range Table {
		f.Add(uint32(e.Request))
	}
	f.Add(uint32(0))
	f.Add(^uint32(0))
	f.Fuzz(func(t *testing.T, n uint32) {
		r := Request(n)
		require.NotEmpty(t, r.String())
		e, ok := Lookup(r)
		require.False(t, ok && !r.IsDRM())
		if ok {
			require.Equal(t, r.Number(), e.Request.Number())
		}
	})
}

// failing refuses the launch.
type failing struct{ recorder }

var errRefused = errors.New("refused")

func (*failing) Launch(LaunchCmd) error { return errRefused }

func TestWalkEndsAtTheSinksError(t *testing.T) {
	var sink failing
	index, err := WalkCommands(encode(sample), &sink)
	require.ErrorIs(t, err, errRefused)
	require.Equal(t, 3, index)
	require.Equal(t, sample[:3], sink.got)
}

// A stream has room for a launch of each kind with the most parameters, in a task.
func TestLargestLaunch(t *testing.T) {
	for _, want := range []LaunchCmd{
		{Function: 1}, {Function: 1, Cooperative: true},
		{Function: 1, Cluster: [3]uint32{1, 2, 3}}, {Function: 1, Cluster: [3]uint32{1, 2, 3}, Cooperative: true},
	} {
		var r recorder
		want.Params = make([]byte, MaxLaunch)
		for i := range want.Params {
			want.Params[i] = byte(i % 251)
		}
		b := want.Append(TaskCmd{}.Append(nil))
		require.LessOrEqual(t, len(b), MaxExecBytes)
		_, err := WalkCommands(b, &r)
		require.NoError(t, err)
		require.Equal(t, []any{TaskCmd{}, want}, r.got)
	}
}
