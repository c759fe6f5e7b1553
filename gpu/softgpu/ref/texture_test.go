package ref

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/texture"
)

// Where TestTextures has its object, and the variable of a reference to it.
const (
	objectAt = bufA + pageSize
	texelsAt = objectAt + texture.Size
)

// TestTextures runs bodies on both engines, with an object in %rd5: memory must be the same.
func TestTextures(t *testing.T) {
	clamp := [3]texture.Mode{texture.Clamp, texture.Wrap, texture.Border}
	bytes := texture.Descriptor{Shape: texture.Shape2D, Format: texture.U8, Floats: true, Channels: 4, Width: 9, Height: 5, Linear: true, Address: clamp}
	levels, cube, layers := bytes, bytes, bytes
	levels.Levels, levels.LinearMip, levels.Bias, levels.MaxLevel, levels.SRGB = 4, true, 0.25, 3, true
	cube.Shape, cube.Width, cube.Height, cube.Channels = texture.ShapeCube, 4, 4, 1
	layers.Layered, layers.Layers, layers.Channels, layers.Normalized = true, 3, 1, true
	surface := texture.Descriptor{Surface: true, Shape: texture.Shape2D, Format: texture.S16, Channels: 2, Width: 8, Height: 4}
	for _, c := range []struct {
		body string
		d    texture.Descriptor
	}{
		{body: "tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%f1, %f2}];", d: bytes},
		{body: "tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [bound, {%f1, %f2}];", d: bytes},
		{body: "tex.base.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%f1, %f2}];", d: levels},
		{body: "tex.level.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%f1, %f2}], %f3;", d: levels},
		{body: "tex.level.2d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%rd5, {%r1, %r4}], %r4;", d: levels},
		{body: "tex.grad.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%f1, %f2}], {%f3, %f2}, {%f1, %f3};", d: levels},
		{body: "tex.cube.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%f1, %f2, %f3, %f3}];", d: cube},
		{body: "tex.a2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%r4, %f1, %f2, %f2}];", d: layers},
		{body: "tld4.g.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%f1, %f2}];", d: bytes},
		{body: "txq.level.width.b32 %r5, [%rd5], %r1; mov.b32 %f4, %r5; txq.channel_order.b32 %r5, [%rd5]; mov.b32 %f5, %r5;", d: levels},
		{body: "suq.width.b32 %r5, [%rd5]; mov.b32 %f4, %r5; sust.p.2d.v4.b32.clamp [%rd5, {%r1, %r4}], {%r1, -70000, %r1, %r1};", d: surface},
		{body: "shl.b32 %r6, %r1, 2; suld.b.2d.v2.b16.zero {%r5, %r7}, [%rd5, {%r6, %r4}]; mov.b32 %f4, %r5; mov.b32 %f5, %r7; sust.b.2d.b32.zero [%rd5, {%r6, %r4}], %r1;", d: surface},
		{body: "and.b32 %r6, %r1, 28; sured.b.add.2d.u32.zero [%rd5, {%r6, %r4}], %r1; sured.b.min.2d.s32.clamp [%rd5, {%r6, %r4}], %r4; sured.b.and.2d.b32.trap [%rd5, {4, 1}], %r6;", d: surface},
		{body: "tex.3d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd5, {%f1, %f2, %f3, %f3}];", d: bytes},
	} {
		t.Run(c.body, func(t *testing.T) {
			d := c.d
			d.Depth, d.Layers = 1, max(d.Layers, 1)
			n, err := d.Place()
			require.NoError(t, err)
			require.LessOrEqual(t, n, uint64(pageSize-texture.Size))
			d.Base = texelsAt
			var raw [texture.Size]byte
			d.Encode(&raw)
			text := source(".global .texref bound;", `ld.param.u64 %rd1, [a]; add.u64 %rd5, %rd1, 4096; mad.wide.u32 %rd2, %r1, 16, %rd1; rem.u32 %r4, %r1, 5;
				cvt.rn.f32.u32 %f7, %r1; fma.rn.f32 %f1, %f7, 0f3EBD70A4, 0fC0000000; fma.rn.f32 %f2, %f7, 0f3DE147AE, 0fBF800000; fma.rn.f32 %f3, %f7, 0fBD8F5C29, 0f3F800000;
				mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4; mov.f32 %f6, %f4; `+c.body+" st.global.v4.f32 [%rd2], {%f4, %f5, %f6, %f7};")
			fill := func() *memory {
				m := &memory{pages: map[uint64][]byte{}}
				for _, at := range []uint64{bufA, objectAt} {
					m.pages[at/pageSize] = make([]byte, pageSize)
				}
				for n := range m.pages[objectAt/pageSize] {
					m.pages[objectAt/pageSize][n] = byte(n*37>>2 + n)
				}
				copy(m.pages[objectAt/pageSize], raw[:])
				return m
			}
			l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, bufA)}
			bind := func(m *memory) { binary.LittleEndian.PutUint64(m.pages[dataBase/pageSize], objectAt) }

			slow := fill()
			p, err := compile(t, text, slow)
			require.NoError(t, err)
			bind(slow)
			k, _ := p.Kernel("k")
			slowErr := Run(k, l, slow, plenty)

			fast := fill()
			mod, err := ptx.Load("k.ptx", []byte(text))
			require.NoError(t, err)
			program, err := exec.Compile(mod)
			require.NoError(t, err)
			image, err := program.Link(dataBase)
			require.NoError(t, err)
			fast.pages[dataBase/pageSize] = append(image, make([]byte, pageSize-len(image))...)
			bind(fast)
			kernel, _ := program.Kernel("k")
			fastErr := exec.Run(kernel, l, fast, new(exec.Control), 1)

			require.Equal(t, slowErr != nil, fastErr != nil, "%v, %v", slowErr, fastErr)
			require.Equal(t, d.Shape == texture.Shape2D && c.d.Linear && c.body[:6] == "tex.3d", fastErr != nil, fmt.Sprint(fastErr))
			require.Equal(t, slow.pages, fast.pages)
		})
	}
}
