package exec

import (
	"testing"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/texture"
)

// BenchmarkTextures is what a fetch takes for each lane, beside loads from global memory:
// 256 of them in a loop, in 32 warps.
func BenchmarkTextures(b *testing.B) {
	plain := texture.Descriptor{Shape: texture.Shape2D, Format: texture.F32, Channels: 1, Width: 30, Height: 30, Address: [3]texture.Mode{texture.Clamp, texture.Clamp}}
	linear, bytes := plain, plain
	linear.Linear = true
	wrapped := linear
	wrapped.Normalized, wrapped.Address = true, [3]texture.Mode{}
	bytes.Format, bytes.Channels, bytes.Floats, bytes.Linear = texture.U8, 4, true, true
	levels := bytes
	levels.Levels, levels.LinearMip, levels.MaxLevel, levels.Height = 4, true, 4, 16
	whole := texture.Descriptor{Shape: texture.ShapeBuffer, Format: texture.F32, Channels: 1, Width: 1000}
	surface := texture.Descriptor{Surface: true, Shape: texture.Shape2D, Format: texture.F32, Channels: 1, Width: 30, Height: 30}
	const fetch = "tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd2, {%f1, %f2}];"
	for _, c := range []struct {
		name, body string
		d          texture.Descriptor
	}{
		{name: "global load", body: "ld.global.f32 %f4, [%rd18];", d: plain},
		{name: "scattered global load", body: "ld.global.f32 %f4, [%rd19];", d: plain},
		{name: "nearest", body: fetch, d: plain},
		{name: "linear", body: fetch, d: linear},
		{name: "linear wrapped", body: fetch, d: wrapped},
		{name: "linear bytes", body: fetch, d: bytes},
		{name: "level", body: "tex.level.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd2, {%f1, %f2}], 0f3FC00000;", d: levels},
		{name: "whole numbers", body: "tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%rd2, {%r2}];", d: whole},
		{name: "surface load", body: "suld.b.2d.b32.trap %r4, [%rd2, {%r18, 5}];", d: surface},
	} {
		b.Run(c.name, func(b *testing.B) {
			const loops, warps = 256, 32
			d := c.d
			m, k := texturesOf(b, &d, `cvt.rn.f32.u32 %f1, %r2; mul.f32 %f2, %f1, 0f3DE147AE; shl.b32 %r18, %r2, 2; and.b32 %r18, %r18, 63;
				cvt.u64.u32 %rd18, %r18; add.u64 %rd18, %rd18, %rd1; mul.lo.u32 %r19, %r2, 68; and.b32 %r19, %r19, 0xffc; cvt.u64.u32 %rd19, %r19; add.u64 %rd19, %rd19, %rd1; mov.u32 %r17, 0;
			again: `+c.body+" add.f32 %f1, %f1, 0f3DE147AE; add.u32 %r17, %r17, 1; setp.lt.u32 %p1, %r17, 256; @%p1 bra again;", "")
			l := Launch{Grid: grid(1, 1, 1), Block: grid(32*warps, 1, 1), SharedBytes: 64, Params: params(uint64(exectest.BufA), uint64(objectAt), uint32(32*warps))}
			start := cpuTime()
			for b.Loop() {
				runKernel(b, k, l, m, 1)
			}
			used := (cpuTime() - start).Seconds()
			b.ReportMetric(used/float64(b.N)*1e9/(loops*warps*32), "ns/lane")
			b.ReportMetric(0, "ns/op")
		})
	}
}
