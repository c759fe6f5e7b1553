package suite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// bare is a device on a context of a gpu.Device, with nothing between them: so a
// program that fails here has a fault of its own or of the device.
type bare struct {
	gpu.Context
	props gpu.Properties
	ch    gpu.Channel
	mod   gpu.Module
	vram  uint64 // next free address of each window
	sys   uint64
	stage *hostPages // for write and read
	pages []*hostPages
}

// hostPages is host memory that the device reaches at va.
type hostPages struct {
	mem []byte
	va  uint64
}

func (h *hostPages) Bytes() []byte { return h.mem }

const readWrite = gpu.ProtRead | gpu.ProtWrite

func openBare(dev gpu.Device) (device, error) {
	ctx, err := dev.NewContext("gdev")
	if err != nil {
		return nil, err
	}
	ch, err := ctx.NewChannel()
	if err != nil {
		return nil, errors.Join(err, ctx.Close())
	}
	p := dev.Properties()
	b := &bare{Context: ctx, props: p, ch: ch, vram: p.VRAM.Base, sys: p.System.Base}
	b.stage, err = b.host(1 << 20)
	return b, err
}

// take reserves n bytes of a window, rounded up to pages, at *next.
func take(next *uint64, n uint64, w gpu.Window) (va, size uint64) {
	va, size = *next, (n+w.Page-1)&^(w.Page-1)
	*next += size
	return va, size
}

func (b *bare) alloc(n uint64) (cuda.DevicePtr, error) {
	va, size := take(&b.vram, n, b.props.VRAM)
	m, err := b.NewVRAM(size)
	if err != nil {
		return 0, err
	}
	return cuda.DevicePtr(va), b.Map(va, m, 0, size, readWrite)
}

func (b *bare) host(n uint64) (*hostPages, error) {
	va, size := take(&b.sys, n, b.props.System)
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	h := &hostPages{mem: mem, va: va}
	b.pages = append(b.pages, h)
	m, err := b.NewSystem([][]byte{mem})
	if err != nil {
		return nil, err
	}
	return h, b.Map(va, m, 0, size, readWrite)
}

func (b *bare) allocPinned(n uint64) (pinned, error) { return b.host(n) }

func (b *bare) do(cmds ...gpu.Command) error {
	done := make(chan gpu.Result, 1)
	if err := b.ch.Submit(cmds, func(r gpu.Result) { done <- r }); err != nil {
		return err
	}
	return (<-done).Err
}

func (b *bare) copy(dst, src uint64, n int) error {
	return b.do(&gpu.Copy{Dst: dst, Src: src, Width: uint64(n), Height: 1})
}

func (b *bare) write(dst cuda.DevicePtr, src []byte) error {
	for len(src) > 0 {
		n := copy(b.stage.mem, src)
		if err := b.copy(uint64(dst), b.stage.va, n); err != nil {
			return err
		}
		src, dst = src[n:], dst+cuda.DevicePtr(n)
	}
	return nil
}

func (b *bare) read(dst []byte, src cuda.DevicePtr) error {
	for len(dst) > 0 {
		n := min(len(dst), len(b.stage.mem))
		if err := b.copy(b.stage.va, uint64(src), n); err != nil {
			return err
		}
		copy(dst, b.stage.mem[:n])
		dst, src = dst[n:], src+cuda.DevicePtr(n)
	}
	return nil
}

func (b *bare) writePinned(dst cuda.DevicePtr, src pinned) error {
	return b.copy(uint64(dst), src.(*hostPages).va, len(src.Bytes()))
}

func (b *bare) readPinned(dst pinned, src cuda.DevicePtr) error {
	return b.copy(dst.(*hostPages).va, uint64(src), len(dst.Bytes()))
}

func (b *bare) fill(p cuda.DevicePtr, word uint32, n uint64) error {
	return b.do(&gpu.Fill{Dst: uint64(p), Pattern: word, Size: 4, Width: 4 * n, Height: 1})
}

func (b *bare) load(name string, ptx []byte) (err error) {
	b.mod, err = b.LoadModule(context.Background(), name, ptx, nil)
	return err
}

// launch waits for the kernel, so that its error is the launch's.
func (b *bare) launch(kernel string, grid, block dim, args ...any) error {
	f, err := b.mod.Function(kernel)
	if err != nil {
		return err
	}
	attr := f.Attributes()
	if len(args) != len(attr.Params) {
		return fmt.Errorf("kernel %s has %d parameters, not %d", kernel, len(attr.Params), len(args))
	}
	params := make([]byte, attr.ParamBytes)
	for i, arg := range args {
		var v uint64
		size := 4
		switch arg := arg.(type) {
		case cuda.DevicePtr:
			v, size = uint64(arg), 8
		case uint32:
			v = uint64(arg)
		case int32:
			v = uint64(uint32(arg))
		case float32:
			v = uint64(math.Float32bits(arg))
		default:
			return fmt.Errorf("kernel %s: argument %d is a %T", kernel, i, arg)
		}
		p := attr.Params[i]
		if p.Size != size {
			return fmt.Errorf("kernel %s: parameter %d has %d bytes, not %d", kernel, i, p.Size, size)
		}
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], v)
		copy(params[p.Offset:], word[:size])
	}
	return b.do(&gpu.Launch{
		Func: f, Params: params,
		Grid: [3]uint32{grid.x, grid.y, 1}, Block: [3]uint32{block.x, block.y, 1},
	})
}

func (b *bare) sync() error { return nil }

func (b *bare) close() error {
	errs := []error{b.Close()}
	for _, h := range b.pages {
		errs = append(errs, unix.Munmap(h.mem))
	}
	return errors.Join(errs...)
}

func softGPU(t testing.TB) gpu.Device {
	dev, err := softgpu.New(softgpu.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// recorder is a device that keeps what was read from another one.
type recorder struct {
	device
	reads *[][]byte
}

func (r recorder) read(dst []byte, src cuda.DevicePtr) error {
	err := r.device.read(dst, src)
	*r.reads = append(*r.reads, bytes.Clone(dst))
	return err
}

func (r recorder) readPinned(dst pinned, src cuda.DevicePtr) error {
	err := r.device.readPinned(dst, src)
	*r.reads = append(*r.reads, bytes.Clone(dst.Bytes()))
	return err
}

// player is a device that does nothing, and reads what was recorded.
type player struct{ reads [][]byte }

type heapMemory []byte

func (h heapMemory) Bytes() []byte { return h }

func (p *player) load(string, []byte) error                     { return nil }
func (p *player) alloc(uint64) (cuda.DevicePtr, error)          { return 1 << 32, nil }
func (p *player) allocPinned(n uint64) (pinned, error)          { return heapMemory(make([]byte, n)), nil }
func (p *player) write(cuda.DevicePtr, []byte) error            { return nil }
func (p *player) writePinned(cuda.DevicePtr, pinned) error      { return nil }
func (p *player) fill(cuda.DevicePtr, uint32, uint64) error     { return nil }
func (p *player) launch(string, dim, dim, ...any) error         { return nil }
func (p *player) sync() error                                   { return nil }
func (p *player) close() error                                  { return nil }
func (p *player) readPinned(dst pinned, _ cuda.DevicePtr) error { return p.read(dst.Bytes(), 0) }
func (p *player) read(dst []byte, _ cuda.DevicePtr) error {
	if len(p.reads) == 0 || len(p.reads[0]) != len(dst) {
		return errors.New("nothing like that was recorded")
	}
	copy(dst, p.reads[0])
	p.reads = p.reads[1:]
	return nil
}

// Every program must come to the right result on the software GPU, and must see
// when the result is wrong.
func TestPrograms(t *testing.T) {
	dev := softGPU(t)
	before := dev.Stats()
	programs := append(All(), Extra()...)
	if raceDetector {
		programs = []Bench{nopBench, maddBench, bpBench, nnBench, cpyBench, pincpyBench}
		if testing.Short() {
			programs = programs[:4] // TestScale has the others
		}
	}
	for _, b := range programs {
		t.Run(b.Name, func(t *testing.T) {
			var reads [][]byte
			res := run(b, func() (device, error) {
				d, err := openBare(dev)
				return recorder{d, &reads}, err
			}, Options{})
			require.Empty(t, res.Error)
			require.True(t, res.Verified)
			require.Equal(t, b.Name, res.Bench)
			require.Positive(t, res.Seconds.Init)
			require.Positive(t, res.Seconds.Close)
			t.Logf("%+v", res.Seconds)

			if b.Name == "nop" {
				require.Empty(t, reads)
				return
			}
			checkRefuses(t, b, reads)
		})
	}
	after := dev.Stats()
	require.Equal(t, before.VRAMUsed, after.VRAMUsed, "programs give back their memory")
	require.Equal(t, before.Channels, after.Channels)
}

// Programs come to the right result on larger input, too, and have more to do.
func TestScale(t *testing.T) {
	dev := softGPU(t)
	names := []string{"loop", "madd", "cpy", "pincpy", "bp", "bfs", "hs", "lud", "nn", "srad2", "long-madd"}
	if raceDetector {
		names = []string{"madd", "cpy", "pincpy", "nn"}
	}
	for _, name := range names {
		b, err := Find(name)
		require.NoError(t, err)
		res := run(b, func() (device, error) { return openBare(dev) }, Options{Scale: 2})
		require.Empty(t, res.Error, name)
		require.Equal(t, 2, res.Scale)
		t.Logf("%s %+v", name, res.Seconds)
	}
	for scale, ok := range map[int]bool{1: true, 64: true, MaxScale: true, 0: false, 3: false, -2: false, 2 * MaxScale: false} {
		require.Equal(t, ok, CheckScale(scale) == nil, scale)
	}
	require.Equal(t, 100, (&Env{scale: 1}).side(100))
	require.Equal(t, 200, (&Env{scale: 8}).side(100), "eight times the work of a cube")
	require.Equal(t, 300, (&Env{scale: 16}).side(100), "at least so much")
}

// checkRefuses runs a program on what it read in a good run, changed in one place.
func checkRefuses(t *testing.T, b Bench, reads [][]byte) {
	largest := reads[0]
	for _, r := range reads {
		if len(r) > len(largest) {
			largest = r
		}
	}
	play := func() Result {
		return run(b, func() (device, error) { return &player{reads}, nil }, Options{})
	}
	for name, at := range map[string]int{"first": 0, "middle": len(largest) / 8 * 4, "last": len(largest) - 4} {
		largest[at+2] ^= 0x40 // of a float, the upper half of its significand
		res := play()
		require.False(t, res.Verified, "the %s element is wrong", name)
		require.NotEmpty(t, res.Error)
		largest[at+2] ^= 0x40
	}
	clear(largest)
	require.False(t, play().Verified, "all is zero")
}
