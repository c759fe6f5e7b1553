package check

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

var props = gpu.Properties{
	MaxThreads: 256, MaxBlockDim: [3]int{256, 256, 64}, MaxGridDim: [3]int{math.MaxInt32, 65535, 65535},
	SharedPerBlock: 1 << 10, MaxParamBytes: 32,
	VRAM:   gpu.Window{Base: 1 << 30, Size: 1 << 24, Page: 1 << 16},
	System: gpu.Window{Base: 1 << 40, Size: 1 << 24, Page: 1 << 12},
}

// verdict checks an error against a part of its message; "" stands for none.
func verdict(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, gpu.ErrInvalid)
	require.ErrorContains(t, err, want)
}

func TestVRAM(t *testing.T) {
	for size, want := range map[uint64]string{
		1 << 16: "", 1 << 40: "", 0: "positive multiple of 65536", 4096: "multiple", math.MaxUint64: "multiple",
	} {
		verdict(t, VRAM(&props, size), want)
	}
}

func TestSystem(t *testing.T) {
	pages, err := unix.Mmap(-1, 0, 4<<12, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(pages)) })
	for _, c := range []struct {
		name string
		runs [][]byte
		want string
	}{
		{name: "none", want: "no pages"},
		{name: "one", runs: [][]byte{pages}},
		{name: "two", runs: [][]byte{pages[2<<12:], pages[:1<<12]}},
		{name: "empty", runs: [][]byte{pages, nil}, want: "run 1 of 0 bytes"},
		{name: "cut page", runs: [][]byte{pages[:100]}, want: "run 0 of 100 bytes"},
		{name: "not at a page", runs: [][]byte{pages[8 : 8+4096]}, want: "run 0 of 4096 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, System(&props, c.runs), c.want) })
	}
}

func TestMap(t *testing.T) {
	const page, size = 1 << 16, 1 << 18
	w := props.VRAM
	both := gpu.ProtRead | gpu.ProtWrite
	for _, c := range []struct {
		name       string
		va, off, n uint64
		prot       gpu.Prot
		want       string
	}{
		{name: "all", va: w.Base, n: size, prot: both},
		{name: "last page", va: w.Base + w.Size - page, off: size - page, n: page, prot: gpu.ProtRead},
		{name: "address", va: w.Base + 4096, n: page, prot: both, want: "must be multiples"},
		{name: "offset", va: w.Base, off: 4096, n: page, prot: both, want: "must be multiples"},
		{name: "size", va: w.Base, n: page + 1, prot: both, want: "must be multiples"},
		{name: "nothing", va: w.Base, prot: both, want: "the size positive"},
		{name: "below the window", va: w.Base - page, n: page, prot: both, want: "do not lie in the window"},
		{name: "beyond the window", va: w.Base + w.Size - page, n: 2 * page, prot: both, want: "do not lie in the window"},
		{name: "around", va: w.Base, n: 1<<64 - page, prot: both, want: "do not lie in the window"},
		{name: "offset behind the end", va: w.Base, off: size + page, n: page, prot: both, want: "of a memory of"},
		{name: "end behind the end", va: w.Base, off: page, n: size, prot: both, want: "of a memory of"},
		{name: "no rights", va: w.Base, n: page, want: "rights 0x0"},
		{name: "writing only", va: w.Base, n: page, prot: gpu.ProtWrite, want: "rights 0x2"},
		{name: "more rights", va: w.Base, n: page, prot: 7, want: "rights 0x7"},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, Map(w, size, c.va, c.off, c.n, c.prot), c.want) })
	}
}

func TestUnmap(t *testing.T) {
	v, s := props.VRAM, props.System
	for _, c := range []struct {
		name  string
		va, n uint64
		want  string
	}{
		{name: "VRAM", va: v.Base, n: v.Size},
		{name: "system", va: s.Base + 1<<12, n: 1 << 12},
		{name: "page of the other window", va: v.Base, n: 1 << 12, want: "must be multiples"},
		{name: "nothing", va: v.Base, want: "the size positive"},
		{name: "no window", va: 0, n: 1 << 16, want: "do not lie in one window"},
		{name: "both windows", va: v.Base, n: s.Base + s.Size - v.Base, want: "do not lie in one window"},
		{name: "around", va: v.Base, n: math.MaxUint64, want: "do not lie in one window"},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, Unmap(&props, c.va, c.n), c.want) })
	}
}

// TestRows compares rows with numbers that do not wrap around, at all edges.
func TestRows(t *testing.T) {
	edges := []uint64{0, 1, 2, 3, 1 << 12, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 33, 1 << 63, 1<<63 + 1, 1<<64 - 3, 1<<64 - 2, 1<<64 - 1}
	top := new(big.Int).SetUint64(math.MaxUint64)
	for _, va := range edges {
		for _, width := range edges {
			for _, height := range edges {
				for _, pitch := range edges {
					end := new(big.Int).SetUint64(va)
					ok := height > 0
					if height > 1 {
						ok = pitch >= width
						skip := new(big.Int).SetUint64(height - 1)
						end.Add(end, skip.Mul(skip, new(big.Int).SetUint64(pitch)))
					}
					end.Add(end, new(big.Int).SetUint64(width))
					ok = ok && end.Cmp(top) <= 0
					require.Equal(t, ok, rows("copy", va, width, height, pitch) == nil, "va %#x width %#x height %#x pitch %#x", va, width, height, pitch)
				}
			}
		}
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{name: "copy", err: Copy(&gpu.Copy{Width: 8, Height: 1})},
		{name: "copy nothing", err: Copy(&gpu.Copy{Height: 1})},
		{name: "nil copy", err: Copy(nil), want: "nil copy"},
		{name: "no rows", err: Copy(&gpu.Copy{Width: 8}), want: "a transfer of no rows"},
		{name: "source", err: Copy(&gpu.Copy{Width: 8, Height: 2, SrcPitch: 7, DstPitch: 8}), want: "source pitch 7"},
		{name: "destination", err: Copy(&gpu.Copy{Width: 8, Height: 2, SrcPitch: 8, DstPitch: 7}), want: "destination pitch 7"},
		{name: "fill", err: Fill(&gpu.Fill{Dst: 2, Size: 2, Width: 4, Height: 2, Pitch: 6})},
		{name: "pitch of one row", err: Fill(&gpu.Fill{Size: 4, Width: 4, Height: 1, Pitch: 3})},
		{name: "nil fill", err: Fill(nil), want: "nil fill"},
		{name: "no pattern", err: Fill(&gpu.Fill{Width: 4, Height: 1}), want: "a pattern of 0 bytes"},
		{name: "odd pattern", err: Fill(&gpu.Fill{Size: 3, Width: 3, Height: 1}), want: "a pattern of 3 bytes"},
		{name: "address of a fill", err: Fill(&gpu.Fill{Dst: 2, Size: 4, Width: 4, Height: 1}), want: "must be multiples"},
		{name: "width of a fill", err: Fill(&gpu.Fill{Size: 4, Width: 6, Height: 1}), want: "must be multiples"},
		{name: "pitch of a fill", err: Fill(&gpu.Fill{Size: 4, Width: 4, Height: 2, Pitch: 6}), want: "must be multiples"},
		{name: "fill that wraps", err: Fill(&gpu.Fill{Dst: 1<<64 - 4, Size: 4, Width: 8, Height: 1}), want: "wraps around"},
		{name: "timestamp", err: Timestamp(&gpu.Timestamp{VA: 8})},
		{name: "nil timestamp", err: Timestamp(nil), want: "nil timestamp"},
		{name: "address of a timestamp", err: Timestamp(&gpu.Timestamp{VA: 4}), want: "not a multiple of 8"},
	} {
		t.Run(c.name, func(t *testing.T) { verdict(t, c.err, c.want) })
	}
}

func TestLaunch(t *testing.T) {
	kernel := gpu.FunctionAttributes{Name: "k", ParamBytes: 12, SharedBytes: 1000, MaxThreads: 128}
	good := gpu.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: make([]byte, 12)}
	for _, c := range []struct {
		name   string
		change func(l *gpu.Launch, a *gpu.FunctionAttributes)
		want   string
	}{
		{name: "good", change: func(*gpu.Launch, *gpu.FunctionAttributes) {}},
		{name: "largest", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) {
			l.Grid, l.Block, l.SharedBytes = [3]uint32{math.MaxInt32, 65535, 65535}, [3]uint32{128, 1, 1}, 24
		}},
		{name: "empty grid", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.Grid[1] = 0 }, want: "grid [1 0 1]"},
		{name: "grid", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.Grid[2] = 65536 }, want: "grid [1 1 65536]"},
		{name: "empty block", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.Block[0] = 0 }, want: "block [0 1 1]"},
		{name: "block", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.Block[2] = 65 }, want: "block [1 1 65]"},
		{name: "threads of the kernel", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.Block[0] = 129 }, want: "the kernel allows 128"},
		{name: "threads of the device", change: func(l *gpu.Launch, a *gpu.FunctionAttributes) {
			l.Block, a.MaxThreads = [3]uint32{256, 256, 64}, 1<<30
		}, want: "allows 256"},
		{name: "shared", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.SharedBytes = 25 }, want: "1025 bytes of .shared"},
		{name: "shared around", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.SharedBytes = math.MaxUint32 }, want: "bytes of .shared"},
		{name: "few parameters", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.Params = nil }, want: "0 bytes of parameters; the kernel takes 12"},
		{name: "cooperative", change: func(l *gpu.Launch, _ *gpu.FunctionAttributes) { l.Cooperative = true }, want: "it is cooperative"},
		{name: "many parameters", change: func(l *gpu.Launch, a *gpu.FunctionAttributes) {
			l.Params, a.ParamBytes = make([]byte, 36), 36
		}, want: "the device allows 32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, a := good, kernel
			c.change(&l, &a)
			err := Launch(&props, &a, &l)
			verdict(t, err, c.want)
			if err != nil {
				require.ErrorContains(t, err, "launch of k: ")
			}
		})
	}
}
