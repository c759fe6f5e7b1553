package random

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// InClusters is FromBytes for a kernel whose blocks form clusters, and reach each other's shared
// memory.
func InClusters(data []byte) string {
	h := fnv.New64a()
	h.Write(data) // never fails
	w := &writer{rng: rand.New(&choices{data: data, more: rand.NewPCG(h.Sum64(), 0xc105)}), engines: true, cluster: 2 << (h.Sum64() & 1)}
	return w.kernel("Random kernel of a fuzzer, in clusters.", "")
}

// meet writes a barrier of the cluster.
func (w *writer) meet() {
	semantics, aligned := w.oneOf("", ".release", ".relaxed"), w.oneOf("", ".aligned")
	if semantics == ".relaxed" {
		w.line("fence.acq_rel.cluster;")
	}
	w.line("barrier.cluster.arrive%s%s;\nbarrier.cluster.wait%s%s;", semantics, aligned, w.oneOf("", ".acquire"), aligned)
}

// slot writes the address of the thread's 8 bytes in .shared of a block whose rank is the own one with
// some bits changed, in %t2.
func (w *writer) slot() {
	w.line("mov.u32 %%t0, shared;\nmov.u32 %%t1, %%tid.x;\nmad.lo.u32 %%t0, %%t1, 8, %%t0;")
	w.line("mov.u32 %%t1, %%cluster_ctarank;\nxor.b32 %%t1, %%t1, %d;\nmapa.shared::cluster.u32 %%t2, %%t0, %%t1;", w.rng.IntN(w.cluster))
}

// remote writes what a block does to the memory of another, between barriers of the cluster.
func (w *writer) remote() {
	l, r := w.register("l"), w.register("r")
	w.meet()
	switch w.rng.IntN(6) {
	case 0: // reads what the other has stored
		w.slot()
		w.line("st.shared.b64 [%%t0], %s;", l)
		w.meet()
		w.line("ld.shared::cluster.b64 %s, [%%t2];", w.register("l"))
	case 1: // stores there
		w.slot()
		w.line("st.shared::cluster.v2.b32 [%%t2], {%s, %s};", r, w.register("r"))
		w.meet()
		w.line("ld.shared.b64 %s, [%%t0];", l)
	case 2: // generic addresses
		w.slot()
		w.line("cvt.u64.u32 %%at, %%t2;\ncvta.shared::cluster.u64 %%at, %%at;\nst.b64 [%%at], %s;", l)
		w.meet()
		w.line("ld.shared.b32 %s, [%%t0+4];\ngetctarank.u64 %%t3, %%at;\nadd.u32 %s, %s, %%t3;", r, r, r)
	case 3: // all threads of the cluster on a word of one block, in any order
		w.line("st.shared.b64 [shared+16], 0x12345678;")
		w.meet()
		w.line("mov.u32 %%t0, shared;\nmapa.shared::cluster.u32 %%t2, %%t0, %d;\nred.relaxed.cluster.shared::cluster.%s [%%t2+16], %s;", w.rng.IntN(w.cluster),
			w.oneOf("add.u32", "min.s32", "max.u32", "xor.b32", "and.b32", "or.b32"), r)
		w.meet()
		w.line("ld.shared::cluster.b32 %s, [%%t2+16];", w.register("r"))
	case 4: // an exchange with the slot of another block
		w.slot()
		w.line("st.shared.b64 [%%t0], %s;", l)
		w.meet()
		w.line("atom.acq_rel.cluster.shared::cluster.%s %s, [%%t2], %s;", w.oneOf("exch.b64", "add.u64", "xor.b64", "max.s64"), w.register("l"), l)
		w.meet()
		w.line("ld.shared.b64 %s, [%%t0];", l)
	default:
		w.line("mov.u32 %%t0, %%%s;\nadd.u32 %s, %s, %%t0;\nmov.pred %%p3, %%is_explicit_cluster;\n@!%%p3 trap;", w.oneOf("cluster_ctarank", "cluster_nctarank", "clusterid.x",
			"nclusterid.x", "cluster_ctaid.x", "cluster_nctaid.x"), r, r)
	}
	w.meet()
}

// clusterRule is what the kernel says of its clusters.
func (w *writer) clusterRule() string {
	if w.cluster == 0 {
		return ""
	}
	return fmt.Sprintf(" .reqnctapercluster %d", w.cluster)
}
