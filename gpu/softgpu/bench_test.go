package softgpu

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// BenchmarkSubmit is the way of an empty batch through a channel and back.
func BenchmarkSubmit(b *testing.B) {
	_, ch := testContext(b, testDevice(b, Config{VRAMBytes: 8 << 20}))
	done := make(chan gpu.Result, 1)
	for b.Loop() {
		_ = ch.Submit(nil, func(r gpu.Result) { done <- r })
		<-done
	}
}

// BenchmarkCopy copies 16 MiB from system memory, in runs of 64 KiB, to VRAM.
func BenchmarkCopy(b *testing.B) {
	const size = 16 << 20
	c, ch := testContext(b, testDevice(b, Config{VRAMBytes: 64 << 20}))
	host := hostPages(b, size)
	var runs [][]byte
	for at := 0; at < size; at += 64 << 10 {
		runs = append([][]byte{host[at:][:64<<10]}, runs...)
	}
	sys, err := c.NewSystem(runs)
	require.NoError(b, err)
	vram, err := c.NewVRAM(size)
	require.NoError(b, err)
	require.NoError(b, c.Map(systemBase, sys, 0, size, gpu.ProtRead))
	require.NoError(b, c.Map(vramBase, vram, 0, size, gpu.ProtRead|gpu.ProtWrite))
	cmd := []gpu.Command{&gpu.Copy{Dst: vramBase, Src: systemBase, Width: size, Height: 1}}
	done := make(chan gpu.Result, 1)
	b.SetBytes(size)
	for b.Loop() {
		_ = ch.Submit(cmd, func(r gpu.Result) { done <- r })
		<-done
	}
}

// BenchmarkMap maps and unmaps 64 MiB of VRAM, with large and with small pages.
func BenchmarkMap(b *testing.B) {
	for _, pages := range []struct {
		name string
		skew uint64
	}{{"large", 0}, {"small", hw.SmallPage}} {
		b.Run(pages.name, func(b *testing.B) {
			const size = 64 << 20
			c, _ := testContext(b, testDevice(b, Config{VRAMBytes: 128 << 20}))
			m, err := c.NewVRAM(size)
			require.NoError(b, err)
			for b.Loop() {
				_ = c.Map(vramBase+pages.skew, m, 0, size, gpu.ProtRead|gpu.ProtWrite)
				_ = c.Unmap(vramBase+pages.skew, size)
			}
		})
	}
}

// BenchmarkLookup is a TLB miss.
func BenchmarkLookup(b *testing.B) {
	const size = 64 << 20
	c, _ := testContext(b, testDevice(b, Config{VRAMBytes: 128 << 20}))
	m, err := c.NewVRAM(size)
	require.NoError(b, err)
	require.NoError(b, c.Map(vramBase, m, 0, size, gpu.ProtRead))
	w := view{c.space, hw.View{MMU: &c.space.MMU, Directory: c.space.directory}}
	va := uint64(0)
	for b.Loop() {
		_, _, _, ok := w.Lookup(vramBase + va%size)
		if !ok {
			b.Fatal("not mapped")
		}
		va += 12345 * 64
	}
}

// megabyte is a module of 1 MB with so many kernels, k0 and so on, which end soon where their parameter is 0.
func megabyte(kernels int) []byte {
	text := []byte(".version 6.0\n.target sm_50\n.address_size 64\n")
	for k := range kernels {
		text = fmt.Appendf(text, ".visible .entry k%d(.param .u32 n) {\n.reg .b32 %%value<9>; .reg .pred %%p;\nld.param.u32 %%value1, [n];\n", k)
		text = append(text, "AGAIN: setp.eq.u32 %p, %value1, 0;\n@%p bra END;\n"...)
		for n := 0; len(text) < (k+1)<<20/kernels; n++ {
			text = fmt.Appendf(text, "mad.lo.u32 %%value2, %%value3, %d, %%value4;\nxor.b32 %%value3, %%value2, %%value1;\n", n%64)
		}
		text = append(text, "sub.u32 %value1, %value1, 1;\nbra AGAIN;\nEND: ret;\n}\n"...)
	}
	return text
}

// BenchmarkFirstLaunch loads a module of 1 MB and launches one of its kernels, on more warps than it takes to
// have it compiled. It reports how long the two take, with a source that is new each time, and again, when the device has
// kept the program.
func BenchmarkFirstLaunch(b *testing.B) {
	for _, kernels := range []int{1, 8} {
		b.Run(fmt.Sprint(kernels), func(b *testing.B) {
			text := megabyte(kernels)
			c, ch := testContext(b, testDevice(b, Config{VRAMBytes: 8 << 20}))
			var loading, launching [2]time.Duration
			for n := 0; b.Loop(); n++ {
				source := fmt.Appendf(text[:len(text):len(text)], "// %d\n", n)
				for again := range 2 {
					start := time.Now()
					m, err := c.LoadModule(b.Context(), "k.ptx", source, nil)
					require.NoError(b, err)
					f, err := m.Function("k0")
					require.NoError(b, err)
					loaded := time.Now()
					r := <-submit(b, ch, &gpu.Launch{Func: f, Grid: [3]uint32{256, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: make([]byte, 4)})
					require.NoError(b, r.Err)
					launching[again] += time.Since(loaded)
					loading[again] += loaded.Sub(start)
					require.NoError(b, m.Close())
				}
			}
			for again, name := range []string{"", "again-"} {
				b.ReportMetric(loading[again].Seconds()*1e3/float64(b.N), name+"load-ms")
				b.ReportMetric(launching[again].Seconds()*1e3/float64(b.N), name+"launch-ms")
			}
		})
	}
}

// BenchmarkLaunch is a kernel of one thread that does nothing, and its completion.
func BenchmarkLaunch(b *testing.B) {
	c, ch := testContext(b, testDevice(b, Config{VRAMBytes: 8 << 20}))
	cmd := []gpu.Command{launchOf(b, c, empty, "empty")}
	done := make(chan gpu.Result, 1)
	for b.Loop() {
		_ = ch.Submit(cmd, func(r gpu.Result) { done <- r })
		<-done
	}
}
