package softgpu

import (
	"testing"

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
