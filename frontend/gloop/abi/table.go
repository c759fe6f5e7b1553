package abi

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

// ErrProtocol is the cause when a kernel breaks the protocol of slots.
var ErrProtocol = errors.New("the kernel broke the protocol of GLoop's slots")

// Ref names a slot of a block.
type Ref struct{ Block, Slot int }

// Table is the host's side of all blocks of a program.
type Table struct {
	blocks []Block

	mu    sync.Mutex
	taken []uint64 // bits of Posted that were taken, by block
	under []uint64 // slots whose request is under way
	done  []uint64 // Block.Done as it was written last
}

// NewTable makes the table of blocks whose words are zero.
func NewTable(blocks []Block) *Table {
	n := len(blocks)
	return &Table{blocks: blocks, taken: make([]uint64, n), under: make([]uint64, n), done: make([]uint64, n)}
}

// Take calls serve with each request that was handed over since the last call, and returns how many.
// Each is a copy that is not decoded yet. A request of a slot that has one under way is ErrProtocol.
func (t *Table) Take(serve func(Ref, Request)) (n int, err error) {
	for b := range t.blocks {
		fresh, wrong := t.take(b)
		if wrong != 0 {
			return n, fmt.Errorf("block %d, slot %d has a request under way, and posts another: %w", b, bits.TrailingZeros64(wrong), ErrProtocol)
		}
		for ; fresh != 0; fresh &= fresh - 1 {
			i := bits.TrailingZeros64(fresh)
			serve(Ref{Block: b, Slot: i}, t.blocks[b].Requests[i].load())
			n++
		}
	}
	return n, nil
}

// take marks what is new in a block as under way.
func (t *Table) take(b int) (fresh, wrong uint64) {
	posted := atomic.LoadUint64(&t.blocks[b].Posted)
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh = posted ^ t.taken[b]
	if wrong = fresh & t.under[b]; wrong != 0 {
		return 0, wrong
	}
	t.taken[b] = posted
	t.under[b] |= fresh
	return fresh, 0
}

// Complete hands a result to the device. The caller has got the request from Take.
func (t *Table) Complete(r Ref, value int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bit := uint64(1) << r.Slot
	if t.under[r.Block]&bit == 0 {
		panic("gloop: a request is completed twice") // a bug of the caller
	}
	b := &t.blocks[r.Block]
	atomic.StoreInt64(&b.Results[r.Slot], value)
	t.under[r.Block] &^= bit
	t.done[r.Block] ^= bit
	atomic.StoreUint64(&b.Done, t.done[r.Block])
}

// UnderWay returns how many requests are.
func (t *Table) UnderWay() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.under {
		n += bits.OnesCount64(u)
	}
	return n
}

// Ended reports whether requests of a block have ended whose results the loop has not seen, as it
// reported.
func (t *Table) Ended(block int, seen uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done[block] != seen
}

// Report copies the report of a block, and says whether it is one of the launch.
func (t *Table) Report(block int, sequence uint32) (r Report, ok bool) {
	from, to := t.blocks[block].Report.words(), r.words()
	to[0] = atomic.LoadUint64(&from[0]) // has the sequence, which is written last
	if r.Sequence != sequence {
		return r, false
	}
	for i := 1; i < len(to); i++ {
		to[i] = atomic.LoadUint64(&from[i])
	}
	return r, true
}

// load copies a request out of shared memory, each word once.
func (r *Request) load() (c Request) {
	to := c.words()
	for i := range to {
		to[i] = atomic.LoadUint64(&r.words()[i])
	}
	return c
}
