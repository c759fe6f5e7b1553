package ref

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// field is some bits of an mbarrier, whose layout is exec's: PTX leaves it open (9.7.12,
// mbarrier).
type field struct{ shift, bits int }

var (
	pendingArrivals  = field{shift: 0, bits: 20}
	expectedArrivals = field{shift: 20, bits: 20}
	pendingBytes     = field{shift: 40, bits: 22}
	phaseOf          = field{shift: 63, bits: 1}
)

func (f field) of(x uint64) uint64 { return x >> f.shift & (1<<f.bits - 1) }

func (f field) set(x *uint64, v uint64) {
	*x = *x&^((1<<f.bits-1)<<f.shift) | v&(1<<f.bits-1)<<f.shift
}

// maxArrivals is the most that an mbarrier counts.
const maxArrivals = 1<<20 - 1

// mbarrier is mbarrier, and the arrival of cp.async (9.7.12).
func (t *thread) mbarrier(i *ptx.Instr) {
	m := &i.Mods
	if m.Mode == ptx.ModePendingCount {
		t.set(&i.Args[0], pendingArrivals.of(t.get(&i.Args[1], ptx.B64)), ptx.B32)
		return
	}
	args, result := i.Args, &ptx.Operand{Kind: ptx.OperandSink}
	if args[0].Kind != ptx.OperandAddr {
		result, args = &args[0], args[1:]
	}
	s, addr := t.address(i, &args[0])
	if s == ptx.SpaceGeneric {
		if in, _ := window(addr); in != ptx.SpaceSharedCluster {
			t.fail(gpu.LostAddress, "mbarrier outside of .shared")
		}
	}
	memory := t.bytes(s, addr, 8, true)
	word := read(memory)
	before := word
	switch m.Mode {
	case ptx.ModeTestWait, ptx.ModeTryWait:
		phase := phaseOf.of(word)
		if m.Has(ptx.Parity) {
			t.set(result, bit(phase != t.get(&args[1], ptx.U32)&1), ptx.Pred)
		} else {
			t.set(result, bit(phase != phaseOf.of(t.get(&args[1], ptx.B64))), ptx.Pred)
		}
		return
	case ptx.ModeInval:
		return
	case ptx.ModeInit:
		n := t.get(&args[1], ptx.U32)
		if n == 0 || n > maxArrivals {
			t.fail(gpu.LostInstruction, fmt.Sprintf("mbarrier for %d arrivals", n))
		}
		word = 0
		pendingArrivals.set(&word, n)
		expectedArrivals.set(&word, n)
		write(memory, word)
		return
	}
	if m.HasWord(ptx.CompleteBytes) {
		t.complete(s, addr, t.get(&args[1], ptx.U32))
		return
	}
	count := uint64(1)
	switch {
	case m.Has(ptx.ExpectTx):
		n := t.get(&args[1], ptx.U32)
		sum := signed(pendingBytes.of(word)) + int64(n)
		if n > maxArrivals || sum > maxArrivals {
			t.fail(gpu.LostInstruction, fmt.Sprintf("mbarrier for %d bytes", sum))
		}
		pendingBytes.set(&word, uint64(sum))
		if m.Mode == ptx.ModeNone {
			count = 0
		}
	case i.Op == ptx.OpCp && !m.Has(ptx.NoInc):
		return // it counts itself before it arrives
	case len(args) > 1:
		count = t.get(&args[1], ptx.U32)
	}
	if m.Mode != ptx.ModeNone {
		word = t.arrive(word, count, m.Mode == ptx.ModeArriveDrop)
	}
	write(memory, word)
	t.set(result, before, ptx.B64)
}

// arrive counts arrivals at an mbarrier, whose phase may end.
func (t *thread) arrive(word, count uint64, drop bool) uint64 {
	left, each := pendingArrivals.of(word), expectedArrivals.of(word)
	if count > left {
		t.fail(gpu.LostInstruction, fmt.Sprintf("%d arrivals at an mbarrier that waits for %d", count, left))
	}
	left -= count
	if drop {
		each -= min(count, each)
	}
	if left == 0 && pendingBytes.of(word) == 0 {
		left = each
		phaseOf.set(&word, 1-phaseOf.of(word))
	}
	pendingArrivals.set(&word, left)
	expectedArrivals.set(&word, each)
	return word
}
