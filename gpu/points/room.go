package points

import (
	"sync"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx/rewrite"
	"pvdrm/internal/hostmem"
)

// room is what a launch in pieces has of its context: state in the area, and words.
//
// The words in granted memory are the signal, and whether there is more to do behind this piece. With
// Config.Far the kernel has both in VRAM: the signal in granted memory is then what the device stores, and
// is copied there; behind it lie the 0, 0 and the 1 from which words in VRAM are set.
type room struct {
	c          *context
	words      uint64 // address
	host       []byte // the same
	far, state uint64 // addresses in the area
	bytes      uint64 // of it
	sending    sync.WaitGroup
}

const (
	wordBytes = 64
	farBytes  = 16
	areaAlign = 256

	offSignal = 0
	offMore   = 4
	offZeros  = 16
	offOne    = 24
)

// give gives it back. No launch uses it any more.
func (r *room) give() {
	r.sending.Wait()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.area.Give(r.far, r.bytes)
	r.c.words.Give(r.words, wordBytes)
	r.c.leave()
}

// begin returns what is done before the first piece: threads have not begun.
func (r *room) begin(blocks, threads, stride uint64) *gpu.Fill {
	return &gpu.Fill{Dst: r.state, Size: 4, Width: rewrite.HeadBytes(threads), Height: blocks, Pitch: stride}
}

// pieces returns the commands of a piece. With ask the device asks it to end.
func (r *room) pieces(l *gpu.Launch, stride uint64, ask bool) []gpu.Command {
	config := &r.c.dev.config
	look := uint32(0)
	if config.Options.Count {
		look = config.Look
		if !ask {
			look = 1<<31 - 1
		}
	}
	hostmem.SwapUint32(r.host, offSignal, look)
	hostmem.SwapUint32(r.host, offMore, 0)
	hostmem.SwapUint32(r.host, offZeros, look)
	hostmem.SwapUint32(r.host, offZeros+4, 0)
	hostmem.SwapUint32(r.host, offOne, 1)
	at := r.words
	if config.Far {
		at = r.far
	}
	piece := *l
	piece.Params = rewrite.AppendState(append([]byte(nil), l.Params...), at, r.state, stride)
	if ask && !config.Options.Count {
		piece.Signal = r.words
	}
	if !config.Far {
		return []gpu.Command{&piece}
	}
	return []gpu.Command{&gpu.Copy{Dst: r.far, Src: r.words + offZeros, Width: 8, Height: 1}, &piece,
		&gpu.Copy{Dst: r.words + offMore, Src: r.far + 4, Width: 4, Height: 1}}
}

// asked reports whether the device has asked the piece to end.
func (r *room) asked() bool {
	return !r.c.dev.config.Options.Count && hostmem.LoadUint32(r.host, offSignal) != 0
}

// more reports whether there is more to do behind the piece that has ended.
func (r *room) more() bool { return hostmem.LoadUint32(r.host, offMore) != 0 }

// send brings the signal to VRAM. It reports false where that is not possible now.
func (r *room) send() bool {
	f := &r.c.far
	f.Lock()
	defer f.Unlock()
	if f.channel == nil {
		ch, err := r.c.Context.NewChannel()
		if err != nil {
			return false // the device has none left
		}
		f.channel = ch
	}
	r.sending.Add(1)
	cmd := &gpu.Copy{Dst: r.far, Src: r.words + offOne, Width: 4, Height: 1}
	if f.channel.Submit([]gpu.Command{cmd}, func(gpu.Result) { r.sending.Done() }) != nil {
		r.sending.Done() // the context has ended
	}
	return true
}
