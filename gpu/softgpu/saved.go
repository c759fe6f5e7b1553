package softgpu

import (
	"sync/atomic"

	"pvdrm/gpu/softgpu/exec"
)

// maxSaved bounds the host's memory for launches of a device that were preempted and wait for the
// engine. Where there is no room for the one that runs, it does not give way to other contexts of the
// device, and goes on before them when other processes had the engine: in the memory of blocks that
// run (package exec), as none of them does meanwhile.
const maxSaved = 24 << 20

// saved counts that memory.
type saved struct {
	bytes atomic.Int64 // of states
	more  atomic.Int64 // what would come to it if the launch that runs were preempted
}

// full reports whether the launch that runs, or has just been preempted, is to go on before others of
// the device.
func (s *saved) full() bool { return s.bytes.Load()+s.more.Load() > maxSaved }

// begins notes the launch that runs next, into which its state goes. Precondition: the engine is the
// channel's, up to stops.
func (k *task) begins() {
	d := k.channel.ctx.dev
	k.save(nil)
	d.compute.saved.more.Store(int64(k.kernel.StateBytes(&k.launch, d.config.SMs)))
}

// stops notes that none runs any more.
func (k *task) stops() { k.channel.ctx.dev.compute.saved.more.Store(0) }

// save counts a state in place of the one that the launch went on from; nil if there is none.
func (k *task) save(s *exec.State) {
	n := 0
	if s != nil {
		n = s.Bytes()
	}
	k.channel.ctx.dev.compute.saved.bytes.Add(int64(n - k.saved))
	k.saved = n
}
