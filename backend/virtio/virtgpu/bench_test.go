package virtgpu_test

import (
	"runtime"
	"slices"
	"testing"
)

// BenchmarkSubmit measures a submission of each kind, with a fence and without.
func BenchmarkSubmit(b *testing.B) {
	for _, kind := range []struct {
		name  string
		cmd   []byte
		fence uint64
	}{
		{name: "ours", cmd: doorbell},
		{name: "ours-fenced", cmd: doorbell, fence: 1},
		{name: "other", cmd: []byte("draw")},
		{name: "other-fenced", cmd: []byte("draw"), fence: 1},
	} {
		b.Run(kind.name, func(b *testing.B) {
			g, gl := newRenderingGPU(b)
			g.ok(ctxCreate, 1, make([]byte, 72))
			cmd := append(header(submit3D, 1, kind.fence), slices.Concat(words(uint32(len(kind.cmd)), 0), kind.cmd)...)
			ours := kind.cmd[0] == doorbell[0]
			b.ReportAllocs()
			for b.Loop() {
				g.control.Send(cmd, 24)
				if !ours {
					(<-gl.submits)(nil)
				} else {
					for g.rend.context(1) == nil { // the first command tells
						runtime.Gosched()
					}
					if s := <-g.rend.context(1).submits; s.fence != nil {
						s.fence()
					}
				}
				g.control.Wait()
			}
		})
	}
}
