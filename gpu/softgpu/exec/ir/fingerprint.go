package ir

import (
	"encoding/binary"
	"hash"
	"hash/fnv"
)

// Fingerprint tells programs apart whose registers and positions mean different things:
// by their operations, the shape of their functions, and the address of their variables.
// It is the same in each process. Precondition: the program is linked.
func (p *Program) Fingerprint() uint64 {
	p.print.Do(func() {
		h := fnv.New64a()
		for i := range p.Code {
			in := &p.Code[i]
			put(h, in.Imm, uint64(in.D)|uint64(in.A)<<32, uint64(in.B)|uint64(in.C)<<32, uint64(in.E)|uint64(in.Guard)<<32,
				uint64(uint32(in.Target))|uint64(uint32(in.Other))<<32, uint64(in.Kind)|uint64(in.Op)<<8|uint64(in.Space)<<24|uint64(in.Align)<<32|uint64(in.Combine)<<40)
		}
		for _, f := range p.Funcs {
			h.Write([]byte(f.Name))
			put(h, uint64(f.Entry), uint64(f.End), uint64(f.Regs32), uint64(f.Regs64), uint64(f.Preds), uint64(f.LocalBytes), uint64(f.DynShared))
			put(h, uint64(len(f.Shared32)), uint64(len(f.Shared64)))
			for _, c := range f.Const32 {
				put(h, uint64(c.Reg), uint64(c.Value))
			}
			for _, c := range f.Const64 {
				put(h, uint64(c.Reg), c.Value)
			}
		}
		p.print.sum = h.Sum64()
	})
	return p.print.sum
}

// put adds words to a sum.
func put(h hash.Hash64, words ...uint64) {
	var b [8]byte
	for _, w := range words {
		binary.LittleEndian.PutUint64(b[:], w)
		h.Write(b[:])
	}
}
