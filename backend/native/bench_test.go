package native_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
)

// Each benchmark runs on a file of this package and on one of a frontend with a local
// backend, which make the same calls of the same device.
func onBoth(b *testing.B, run func(b *testing.B, f drm.File)) {
	dev := softGPU(b)
	b.Run("native", func(b *testing.B) { run(b, openNative(b, dev)) })
	b.Run("local", func(b *testing.B) {
		f, err := serveLocal(b, dev)()
		require.NoError(b, err)
		b.Cleanup(func() { _ = f.Close() })
		run(b, f)
	})
}

// launches prepares a channel and the stream of a launch of one thread.
func launches(b *testing.B, f drm.File) (channel uint32, stream []byte) {
	m, err := f.ModuleLoad("m", []byte(source))
	require.NoError(b, err)
	fn, attr, err := f.ModuleFunction(m, "addone")
	require.NoError(b, err)
	channel, err = f.ChannelAlloc()
	require.NoError(b, err)
	return channel, drm.LaunchCmd{Function: fn, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Params: make([]byte, attr.ParamBytes)}.Append(nil) // n is 0: it returns at once
}

// BenchmarkLaunches measures launches of which many are on their way.
func BenchmarkLaunches(b *testing.B) {
	onBoth(b, func(b *testing.B, f drm.File) {
		channel, stream := launches(b, f)
		var seqno uint64
		var err error
		b.ReportAllocs()
		for b.Loop() {
			for range 64 {
				if seqno, err = f.Exec(channel, stream, nil); err != nil {
					b.Fatal(err)
				}
			}
			if err := f.Wait(drm.Point{Channel: channel, Seqno: seqno}, time.Minute); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(64*b.N), "ns/launch")
	})
}

// BenchmarkLaunchAndWait measures a launch that is waited for.
func BenchmarkLaunchAndWait(b *testing.B) {
	onBoth(b, func(b *testing.B, f drm.File) {
		channel, stream := launches(b, f)
		b.ReportAllocs()
		for b.Loop() {
			seqno, err := f.Exec(channel, stream, nil)
			if err == nil {
				err = f.Wait(drm.Point{Channel: channel, Seqno: seqno}, time.Minute)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMemory measures an object in VRAM that is made, mapped and closed.
func BenchmarkMemory(b *testing.B) {
	onBoth(b, func(b *testing.B, f drm.File) {
		base, err := f.GetParam(drm.ParamVRAMBase)
		require.NoError(b, err)
		size, err := f.GetParam(drm.ParamVRAMPage)
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			h, err := f.GemNew(size, drm.DomainVRAM, 0)
			if err == nil {
				err = f.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: h, Addr: base, Range: size}}, false)
			}
			if err == nil {
				err = f.GemClose(h)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
