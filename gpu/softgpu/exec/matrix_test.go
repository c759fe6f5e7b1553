package exec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// half16 is a small integer as an f16.
func half16(n int) uint16 {
	if n == 0 {
		return 0
	}
	_, e := math.Frexp(float64(n))
	m := math.Ldexp(math.Abs(float64(n)), 11-e)
	bits := uint16(e-1+15)<<10 + uint16(m) - 1<<10
	if n < 0 {
		bits |= 1 << 15
	}
	return bits
}

// hopper is source for sm_90.
func hopper(extra, body string) []byte {
	return bytes.Replace(source(extra, body), []byte("sm_70"), []byte("sm_90"), 1)
}

// runMatrix runs a body in one warp; %rd1 is BufA, %rd2 BufB with a page each, %r2 the thread.
func runMatrix(t testing.TB, extra, body string, fill func(m *exectest.Memory)) (*exectest.Memory, error) {
	t.Helper()
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", hopper(extra, body), m), "k")
	m.Map(exectest.BufA, 8192)
	m.Map(exectest.BufB, 8192)
	if fill != nil {
		fill(m)
	}
	return m, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), SharedBytes: 1024,
		Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(32))}, m, new(Control), 1)
}

// list names n registers from prefix0 on.
func list(prefix string, first, n int) string {
	s := ""
	for k := range n {
		s += fmt.Sprintf(", %s%d", prefix, first+k)
	}
	return "{" + s[2:] + "}"
}

// TestMatrixProduct multiplies matrices of small integers, whose product is exact, in all
// layouts and shapes.
func TestMatrixProduct(t *testing.T) {
	for shape, size := range map[string][3]int{"m16n16k16": {16, 16, 16}, "m32n8k16": {32, 8, 16}, "m8n32k16": {8, 32, 16}} {
		for layouts := range 16 {
			name := func(bit int) string { return [2]string{"row", "col"}[layouts>>bit&1] }
			t.Run(fmt.Sprintf("%s.%s.%s.%s.%s", shape, name(0), name(1), name(2), name(3)), func(t *testing.T) {
				rows, cols, depth := size[0], size[1], size[2]
				at := func(bit, row, col, tall, wide int) int {
					if layouts>>bit&1 == 1 {
						return col*tall + row
					}
					return row*wide + col
				}
				rnd := rand.New(rand.NewPCG(1, uint64(layouts)))
				a, b, c := make([]int, rows*depth), make([]int, depth*cols), make([]int, rows*cols)
				for _, x := range [][]int{a, b, c} {
					for n := range x {
						x[n] = rnd.IntN(31) - 15
					}
				}
				m, err := runMatrix(t, "", `.reg .b32 %x<8>; .reg .b32 %y<8>; .reg .f32 %z<8>;
					wmma.load.a.sync.aligned.`+name(0)+"."+shape+".f16 "+list("%x", 0, 8)+`, [%rd2];
					wmma.load.b.sync.aligned.`+name(1)+"."+shape+".global.f16 "+list("%y", 0, 8)+`, [%rd2+2048];
					wmma.load.c.sync.aligned.`+name(2)+"."+shape+".global.f32 "+list("%z", 0, 8)+`, [%rd2+4096];
					wmma.mma.sync.aligned.`+name(0)+"."+name(1)+"."+shape+".f32.f32 "+list("%z", 0, 8)+", "+list("%x", 0, 8)+", "+list("%y", 0, 8)+", "+list("%z", 0, 8)+`;
					wmma.store.d.sync.aligned.`+name(3)+"."+shape+".f32 [%rd1], "+list("%z", 0, 8)+";", func(m *exectest.Memory) {
					var raw [8192]byte
					for n, x := range a {
						binary.LittleEndian.PutUint16(raw[2*n:], half16(x))
					}
					for n, x := range b {
						binary.LittleEndian.PutUint16(raw[2048+2*n:], half16(x))
					}
					for n, x := range c {
						binary.LittleEndian.PutUint32(raw[4096+4*n:], math.Float32bits(float32(x)))
					}
					m.Write(exectest.BufB, raw[:])
				})
				require.NoError(t, err)
				got := readAll[float32](m, exectest.BufA, rows*cols)
				for row := range rows {
					for col := range cols {
						want := c[at(2, row, col, rows, cols)]
						for k := range depth {
							want += a[at(0, row, k, rows, depth)] * b[at(1, k, col, depth, cols)]
						}
						require.InDelta(t, want, got[at(3, row, col, rows, cols)], 0, "row %d, column %d", row, col)
					}
				}
			})
		}
	}
}

// TestMatrixRounding is what the sums of a tensor core lose, by hand: 25 bits below the
// largest exponent are kept, and results are truncated.
func TestMatrixRounding(t *testing.T) {
	one := math.Float32frombits
	for _, c := range []struct {
		name string
		c    float32
		a, b [3]uint16 // f16 elements of row 0 of a and of column 0 of b
		want float32
	}{
		{name: "the smallest that is kept", c: -1, a: [3]uint16{0x3c00, 0x1000}, b: [3]uint16{0x3c00, 0x0400}, want: 0x1p-25},
		{name: "the largest that is lost", c: -1, a: [3]uint16{0x3c00, 0x0fff}, b: [3]uint16{0x3c00, 0x0400}, want: 0},
		{name: "truncated, not rounded", c: 1, a: [3]uint16{0x1000, 0x1000, 0x1000}, b: [3]uint16{0x0400, 0x0400, 0x0400}, want: 1},
		{name: "carried, four at once", c: one(0x3f7fffff), a: [3]uint16{0x1000, 0x1000}, b: [3]uint16{0x0400, 0x0400}, want: 1},
		{name: "towards zero", c: -1, a: [3]uint16{0x1000}, b: [3]uint16{0x0400}, want: -one(0x3f7fffff)},
		{name: "zero is positive", c: one(1 << 31), want: 0},
		{name: "infinite", c: one(0x7f7fffff), a: [3]uint16{0x7bff}, b: [3]uint16{0x7bff}, want: one(0x7f7fffff)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := runMatrix(t, "", `.reg .b32 %x<8>; .reg .b32 %y<8>; .reg .f32 %z<8>;
				wmma.load.a.sync.aligned.row.m16n16k16.f16 `+list("%x", 0, 8)+`, [%rd2];
				wmma.load.b.sync.aligned.col.m16n16k16.f16 `+list("%y", 0, 8)+`, [%rd2+2048];
				wmma.load.c.sync.aligned.row.m16n16k16.f32 `+list("%z", 0, 8)+`, [%rd2+4096];
				wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 `+list("%z", 0, 8)+", "+list("%x", 0, 8)+", "+list("%y", 0, 8)+", "+list("%z", 0, 8)+`;
				wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], `+list("%z", 0, 8)+";", func(m *exectest.Memory) {
				var raw [8192]byte
				for n := range c.a {
					binary.LittleEndian.PutUint16(raw[2*n:], c.a[n])
					binary.LittleEndian.PutUint16(raw[2048+2*n:], c.b[n])
				}
				binary.LittleEndian.PutUint32(raw[4096:], math.Float32bits(c.c))
				m.Write(exectest.BufB, raw[:])
			})
			require.NoError(t, err)
			require.Equal(t, math.Float32bits(c.want), readAll[uint32](m, exectest.BufA, 1)[0])
		})
	}
}

// TestMatrixFaults are addresses that matrices cannot have.
func TestMatrixFaults(t *testing.T) {
	const regs = ".reg .b32 %x<8>; .reg .b64 %w<4>;"
	load := func(kind, space, n, rest string) string {
		return regs + "wmma.load." + kind + space + "." + n + " " + rest + ";"
	}
	for _, c := range []struct {
		name, body string
		cause      gpu.LostCause
	}{
		{name: "unmapped", body: load("a.sync.aligned.row.m16n16k16", ".global", "f16", list("%x", 0, 8)+", [%rd2+8192]"), cause: gpu.LostAddress},
		{name: "rows far apart", body: load("a.sync.aligned.row.m16n16k16", ".global", "f16", list("%x", 0, 8)+", [%rd2], -1"), cause: gpu.LostAddress},
		{name: "odd", body: load("a.sync.aligned.row.m16n16k16", ".global", "f16", list("%x", 0, 8)+", [%rd2+1]"), cause: gpu.LostAlign},
		{name: "beyond .shared", body: regs + "mov.u32 %r4, 1000;" + load("c.sync.aligned.col.m16n16k16", ".shared", "f32", list("%x", 0, 8)+", [%r4], 16")[len(regs):], cause: gpu.LostAddress},
		{name: "half a byte", body: load("a.sync.aligned.row.m8n8k32", ".global", "s4", "{%x0}, [%rd2], 33"), cause: gpu.LostAlign},
		{name: "stored beyond", body: regs + "wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%rd1+8190], {%w0, %w1};", cause: gpu.LostAlign},
		{name: "ldmatrix from global memory", body: regs + "ldmatrix.sync.aligned.m8n8.x1.b16 {%x0}, [%rd1];", cause: gpu.LostAddress},
		{name: "ldmatrix from a row that is not aligned", body: regs + "mov.u32 %r4, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x0}, [%r4];", cause: gpu.LostAlign},
		{name: "cp.async to a place that is not aligned", body: regs + "mov.u32 %r4, 8; cp.async.cg.shared.global [%r4], [%rd1], 16;", cause: gpu.LostAlign},
		{name: "cp.async beyond .shared", body: regs + "mov.u32 %r4, -8; cp.async.ca.shared.global [%r4], [%rd1], 8, 4;", cause: gpu.LostAddress},
		{name: "cp.async from nowhere", body: regs + "mov.u32 %r4, 8; cp.async.ca.shared.global [%r4], [%rd1+65536], 8;", cause: gpu.LostAddress},
		{name: "mbarrier for nothing", body: "mov.u32 %r4, 8; mbarrier.init.shared.b64 [%r4], 0;", cause: gpu.LostInstruction},
		{name: "mbarrier with too many arrivals", body: "mov.u32 %r4, 8; mbarrier.init.shared.b64 [%r4], 1; bar.warp.sync -1; mbarrier.arrive.shared.b64 _, [%r4], 2;", cause: gpu.LostInstruction},
		{name: "mbarrier for too many bytes", body: "mov.u32 %r4, 8; mbarrier.init.shared.b64 [%r4], 1; mbarrier.expect_tx.shared.b64 [%r4], -1;", cause: gpu.LostInstruction},
		{name: "mbarrier in global memory", body: "mbarrier.inval.b64 [%rd1];", cause: gpu.LostAddress},
		{name: "mbarrier between words", body: "mov.u32 %r4, 4; mbarrier.inval.shared.b64 [%r4];", cause: gpu.LostAlign},
		{name: "stmatrix beyond .shared", body: regs + "mov.u32 %r4, 65536; stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r4], {%x0, %x1};", cause: gpu.LostAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := runMatrix(t, "", c.body, nil)
			var lost *gpu.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, c.cause, lost.Cause, lost)
		})
	}
}

// TestMatrixOfFewLanes runs matrices with less than a warp: what lanes that do not exist
// have is not defined, but nothing faults.
func TestMatrixOfFewLanes(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", hopper(".shared .align 16 .b8 s[512];", `.reg .b32 %x<8>; .reg .f32 %z<8>; mov.u32 %r4, s;
		ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 `+list("%x", 0, 4)+`, [%r4];
		mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 `+list("%z", 0, 4)+", "+list("%x", 0, 4)+`, {%x4, %x5}, `+list("%z", 4, 4)+`;
		movmatrix.sync.aligned.m8n8.trans.b16 %x0, %x1; st.global.f32 [%rd1], %z0;`), m), "k")
	m.Map(exectest.BufA, 8192)
	m.Map(exectest.BufB, 8192)
	require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(5, 1, 1), SharedBytes: 64,
		Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(32))}, m, new(Control), 1))
}

func TestMatrixTargets(t *testing.T) {
	for target, ok := range map[string]bool{"sm_75": false, "sm_80": true, "sm_90a": true} {
		m, err := ptx.Load("k.ptx", []byte(".version 7.0\n.target "+target+"\n.address_size 64\n.visible .entry k()\n{ .reg .b32 %x<8>; .reg .f32 %z<8>;\n"+
			"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "+list("%z", 0, 4)+", "+list("%x", 0, 4)+", {%x4, %x5}, "+list("%z", 4, 4)+"; ret; }"))
		require.NoError(t, err)
		_, err = Compile(m)
		if ok {
			require.NoError(t, err, target)
		} else {
			require.ErrorContains(t, err, "needs .target sm_80 or higher")
		}
	}
}

// benchProduct runs mma again and again.
func benchProduct(b *testing.B, mma string, setup string, multiplications float64) {
	m := exectest.NewMemory(4096)
	k := kernel(b, build(b, "k.ptx", hopper("", `.reg .b32 %x<16>; .reg .f32 %z<8>; .reg .u32 %n;`+setup+`
		mov.u32 %n, 0;
	L:	`+mma+`
		add.u32 %n, %n, 1; setp.lt.u32 %p1, %n, 1000; @%p1 bra L;
		st.global.f32 [%rd1], %z0;`), m), "k")
	m.Map(exectest.BufA, 8192)
	m.Map(exectest.BufB, 8192)
	l := Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), SharedBytes: 64, Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(32))}
	start := cpuTime()
	for b.Loop() {
		require.NoError(b, Run(k, l, m, new(Control), 1))
	}
	used := (cpuTime() - start).Seconds()
	b.ReportMetric(used/float64(b.N)/1000*1e9, "ns/mma")
	b.ReportMetric(multiplications*1000*float64(b.N)/used/1e9, "GMAC/s")
}

// numbers fills %x0 to %x15 with f16s of several exponents that differ from lane to lane.
const numbers = `mul.lo.u32 %x0, %r2, 0x9e3779b1; and.b32 %x0, %x0, 0x3fff3fff; xor.b32 %x1, %x0, 0x05550aaa; xor.b32 %x2, %x0, 0x80040771;
	xor.b32 %x3, %x1, 0x00118099; xor.b32 %x4, %x2, 0x03330420; xor.b32 %x5, %x3, 0x81000077;`

func BenchmarkMmaHalf(b *testing.B) {
	benchProduct(b, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "+list("%z", 0, 4)+", "+list("%x", 0, 4)+", {%x4, %x5}, "+list("%z", 0, 4)+";", numbers, 16*8*16)
}

func BenchmarkMmaBytes(b *testing.B) {
	benchProduct(b, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "+list("%x", 8, 4)+", "+list("%x", 0, 4)+", {%x4, %x5}, "+list("%x", 8, 4)+";", numbers, 16*8*32)
}

func BenchmarkWmmaHalf(b *testing.B) {
	benchProduct(b, `wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7}, [%rd2];
		wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 `+list("%z", 0, 8)+", {%y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7}, "+list("%x", 0, 8)+", "+list("%z", 0, 8)+";",
		".reg .b32 %y<8>;"+numbers, 16*16*16)
}

// BenchmarkMatrixRows is ldmatrix of four matrices and stmatrix of them, each again and again.
func BenchmarkMatrixRows(b *testing.B) {
	const place = "mov.u32 %x6, s; mad.lo.u32 %x6, %r2, 16, %x6; mov.u32 %n, 0;"
	for name, op := range map[string]string{
		"load": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 " + list("%x", 0, 4) + ", [%x6];", "load trans": "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 " + list("%x", 0, 4) + ", [%x6];",
		"store": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%x6], " + list("%x", 0, 4) + ";",
	} {
		b.Run(name, func(b *testing.B) { benchProduct(b, op, ".shared .align 16 .b8 s[512];"+numbers+place, 0) })
	}
}
