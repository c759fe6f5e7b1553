package softgpu

import (
	"math/bits"
	"sync"

	"pvdrm/gpu/softgpu/hw"
)

const framesPerBlock = hw.LargePage / hw.SmallPage

// extent is a range of VRAM.
type extent struct{ addr, size uint64 }

// frames knows which 4 KiB frames of VRAM are free. It keeps blocks of 2 MiB
// whole as long as it can: whole blocks are used for whole blocks only while
// others, already broken up, have room for the rest.
type frames struct {
	mu     sync.Mutex
	blocks []block
	free   uint64 // frames
	warm   uint64 // of those, frames that the host has given already, and those that are being zeroed to become such
}

// block is 2 MiB of VRAM; a set bit is a frame in use.
type block struct {
	used int
	bits [framesPerBlock / 64]uint64
	warm [framesPerBlock / 64]uint64 // a set bit is a free frame that the host has given, and that is zero
}

func newFrames(size uint64) *frames {
	n := size / hw.LargePage
	return &frames{blocks: make([]block, n), free: n * framesPerBlock}
}

// used returns the bytes in use.
func (f *frames) used() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return (uint64(len(f.blocks))*framesPerBlock - f.free) * hw.SmallPage
}

// alloc takes size bytes, a multiple of 4 KiB, in as few extents as it finds.
// It returns nil if there is not enough.
func (f *frames) alloc(size uint64) []extent {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := size / hw.SmallPage
	if n == 0 || n > f.free {
		return nil
	}
	var out []extent
	for whole := int(n / framesPerBlock); whole > 0; {
		first, count := f.wholeRun(whole)
		if count == 0 {
			break
		}
		for b := first; b < first+count; b++ {
			f.set(b, 0, framesPerBlock)
		}
		out = push(out, extent{uint64(first) * hw.LargePage, uint64(count) * hw.LargePage})
		whole -= count
		n -= uint64(count) * framesPerBlock
	}
	for n > 0 {
		b, at, count := f.smallRun(int(min(n, framesPerBlock)))
		f.set(b, at, count)
		out = push(out, extent{uint64(b)*hw.LargePage + uint64(at)*hw.SmallPage, uint64(count) * hw.SmallPage})
		n -= uint64(count)
	}
	return out
}

// allocContiguous takes size bytes, at most 2 MiB, in one piece.
func (f *frames) allocContiguous(size uint64) (addr uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int(size / hw.SmallPage)
	b, at, count := f.smallRun(n)
	if count < n {
		return 0, false
	}
	f.set(b, at, n)
	return uint64(b)*hw.LargePage + uint64(at)*hw.SmallPage, true
}

// heat reports whether an extent that is about to be released is to stay with the host's pages: as long as no more
// than so many bytes do.
func (f *frames) heat(e extent, most uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := e.size / hw.SmallPage
	if f.warm+n > most/hw.SmallPage {
		return false
	}
	f.warm += n
	return true
}

// cool calls cold for all extents that are free and have pages of the host. Nothing is allocated meanwhile.
func (f *frames) cool(cold func(extent)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.blocks {
		b := &f.blocks[i]
		for at := 0; at < framesPerBlock; at++ {
			first := at
			for at < framesPerBlock && b.warm[at/64]>>(at%64)&1 != 0 {
				at++
			}
			if at > first {
				cold(extent{uint64(i)*hw.LargePage + uint64(first)*hw.SmallPage, uint64(at-first) * hw.SmallPage})
				f.warm -= uint64(at - first)
			}
		}
		b.warm = [framesPerBlock / 64]uint64{}
	}
}

// release gives an extent back. Its frames are warm if heat was true of it.
func (f *frames) release(e extent, warm bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for frame, n := e.addr/hw.SmallPage, e.size/hw.SmallPage; n > 0; {
		b, at := int(frame/framesPerBlock), int(frame%framesPerBlock)
		count := min(int(n), framesPerBlock-at)
		f.clear(b, at, count, warm)
		frame += uint64(count)
		n -= uint64(count)
	}
}

// wholeRun finds the first run of n free blocks, or else the longest one.
func (f *frames) wholeRun(n int) (first, count int) {
	for b := 0; b < len(f.blocks); {
		start := b
		for b < len(f.blocks) && b-start < n && f.blocks[b].used == 0 {
			b++
		}
		if b-start > count {
			first, count = start, b-start
		}
		if count == n {
			return first, count
		}
		if b == start {
			b++
		}
	}
	return first, count
}

// smallRun finds n free frames in one block: in one that is broken up already,
// else in a whole one, else the longest run there is.
func (f *frames) smallRun(n int) (blk, at, count int) {
	whole := -1
	for b := range f.blocks {
		switch used := f.blocks[b].used; {
		case used == framesPerBlock:
			continue
		case used == 0:
			if whole < 0 {
				whole = b
			}
			continue
		}
		if a, c := f.blocks[b].run(n); c > count {
			blk, at, count = b, a, c
		}
		if count == n {
			return blk, at, count
		}
	}
	if whole >= 0 {
		return whole, 0, n
	}
	return blk, at, count
}

// run finds the first run of n free frames, or else the longest one.
func (b *block) run(n int) (at, count int) {
	for i := 0; i < framesPerBlock; {
		i = b.next(i, false)
		end := min(b.next(i, true), i+n)
		if end-i > count {
			at, count = i, end-i
		}
		if count == n {
			break
		}
		i = b.next(end, true)
	}
	return at, count
}

// next finds the first frame from i on that is in use, or that is free.
func (b *block) next(i int, used bool) int {
	for i < framesPerBlock {
		w := b.bits[i/64]
		if !used {
			w = ^w
		}
		if w >>= i % 64; w != 0 {
			return i + bits.TrailingZeros64(w)
		}
		i = (i/64 + 1) * 64
	}
	return framesPerBlock
}

func (f *frames) set(b, at, n int) {
	for i := at; i < at+n; i++ {
		f.blocks[b].bits[i/64] |= 1 << (i % 64)
		if w := &f.blocks[b].warm[i/64]; *w>>(i%64)&1 != 0 {
			*w &^= 1 << (i % 64)
			f.warm--
		}
	}
	f.blocks[b].used += n
	f.free -= uint64(n)
}

func (f *frames) clear(b, at, n int, warm bool) {
	for i := at; i < at+n; i++ {
		f.blocks[b].bits[i/64] &^= 1 << (i % 64)
		if warm {
			f.blocks[b].warm[i/64] |= 1 << (i % 64)
		}
	}
	f.blocks[b].used -= n
	f.free += uint64(n)
}

// push appends an extent, joining it to the last one where they touch.
func push(out []extent, e extent) []extent {
	if n := len(out); n > 0 && out[n-1].addr+out[n-1].size == e.addr {
		out[n-1].size += e.size
		return out
	}
	return append(out, e)
}
