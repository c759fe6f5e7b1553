package exec

import "testing"

// partedRound has even and odd lanes part around an operation, of which %r8 names the lanes.
func partedRound(operation string) string {
	return "and.b32 %r8, %r2, 1; setp.eq.u32 %p2, %r8, 1; @%p2 bra ODD; mov.u32 %r8, 0x55555555; " + operation + " add.u32 %r6, %r6, %r7; bra.uni BOTH; ODD: mov.u32 %r8, 0xaaaaaaaa; " + operation + " xor.b32 %r6, %r6, %r7; BOTH: "
}

// leftOps are operations that once left native code, or were calls of the interpreter's function.
var leftOps = map[string]string{
	"nothing":          "",
	"add.cc":           "add.cc.u32 %r7, %r6, %r6; addc.cc.u32 %r7, %r7, %r6; addc.u32 %r6, %r7, 0;",
	"add.cc of 64 bit": "add.cc.u64 %rd7, %rd4, %rd4; addc.cc.u64 %rd7, %rd7, %rd4; addc.u64 %rd7, %rd7, 0;",
	"mad.cc":           "mad.lo.cc.u32 %r7, %r6, %r6, %r6; madc.hi.u32 %r6, %r7, %r6, %r6;",
	"parted":           partedRound("mov.u32 %r7, 1;"),
	"parted shfl":      partedRound("shfl.sync.bfly.b32 %r7, %r6, 2, 0x1f, %r8;"),
	"parted ballot":    partedRound("vote.sync.ballot.b32 %r7, %p2, %r8;"),
	"parted redux":     partedRound("redux.sync.add.u32 %r7, %r6, %r8;"),
	"parted match":     partedRound("match.any.sync.b32 %r7, %r6, %r8;"),
	"tiles":            "mov.u32 %r8, %laneid; and.b32 %r8, %r8, 24; shl.b32 %r8, 0xff, %r8; shfl.sync.bfly.b32 %r7, %r6, 4, 0x181f, %r8; add.u32 %r6, %r6, %r7;",
	"laneid":           "mov.u32 %r7, %laneid; add.u32 %r6, %r6, %r7;",
	"held":             "mov.u32 %r10, 0; J: bar.sync 0; add.u32 %r10, %r10, 1; setp.gt.u32 %p2, %r10, 2; @%p2 bra GO; and.b32 %r8, %r2, %r10; setp.eq.u32 %p2, %r8, 0; @%p2 bra J; red.shared.add.u32 [%r13+3000], 1; bra.uni J; GO: ",
	"bar.red":          "bar.red.popc.u32 %r7, 0, %p1; add.u32 %r6, %r6, %r7;",
	"named":            "setp.gt.u32 %p2, %r9, 3; selp.u32 %r8, 2, 3, %p2; bar.sync %r8, 128;",
	"arrive":           "setp.gt.u32 %p2, %r9, 3; @%p2 bra CO; bar.arrive 4, 256; bar.sync 5, 256; bra.uni BOTH; CO: bar.sync 4, 256; bar.arrive 5, 256; BOTH: ",
}

// BenchmarkLeft is the loop of BenchmarkBarriers with an operation in each round.
func BenchmarkLeft(b *testing.B) {
	for name, op := range leftOps {
		b.Run(name, func(b *testing.B) { benchRing(b, op, 1, "cpu-ns/round") })
	}
}
