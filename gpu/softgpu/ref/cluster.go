package ref

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

// cluster is the blocks that run together and reach each other's shared memory (section 2.2.3). A
// launch without clusters has clusters of one block.
type cluster struct {
	blocks   []*block // by rank
	dims     [3]uint32
	explicit bool
}

// clusters is how many blocks a cluster of a launch has in each dimension.
func (k *Kernel) clusters(l *exec.Launch, lim *exec.Limits) ([3]uint32, error) {
	dims, need, none := l.Cluster, k.fn.f.Cluster.Required, [3]uint32{}
	if dims == none {
		dims = need
	}
	if dims == none {
		return [3]uint32{1, 1, 1}, nil
	}
	most := uint64(lim.MaxCluster)
	if n := k.fn.f.Cluster.MaxRank; n > 0 {
		most = min(most, uint64(n))
	}
	count, fits := uint64(1), need == none || need == dims
	for d := range dims {
		fits = fits && dims[d] > 0 && l.Grid[d]%dims[d] == 0 && count <= most
		count *= uint64(dims[d])
	}
	if !fits || count > most {
		return none, fmt.Errorf("%w: clusters of %v of a grid of %v; at most %d blocks are possible, and the kernel requires %v", gpu.ErrCluster, dims, l.Grid, most, need)
	}
	return dims, nil
}

// newCluster makes the blocks of the cluster that begins at a block of the grid, each a copy of one.
func newCluster(dims, first [3]uint32, model block) *cluster {
	c := &cluster{dims: dims, explicit: model.launch.Cluster != [3]uint32{} || model.k.fn.f.Cluster.Required != [3]uint32{}}
	for z := range dims[2] {
		for y := range dims[1] {
			for x := range dims[0] {
				b := model
				b.id, b.cluster, b.rank = [3]uint32{first[0] + x, first[1] + y, first[2] + z}, c, uint64(len(c.blocks))
				b.shared = make([]byte, (b.k.dynamic+uint64(b.launch.SharedBytes)+127)&^127) // the unit of an H100
				b.begin()
				c.blocks = append(c.blocks, &b)
			}
		}
	}
	return c
}

// round gives each thread its turn. It reports false when all have exited.
func (c *cluster) round() bool {
	moved, left := false, false
	for _, b := range c.blocks {
		if b.live > 0 {
			m, l := b.round()
			moved, left = moved || m, left || l
		}
	}
	if !left {
		return false
	}
	for _, b := range c.blocks {
		moved = moved || b.meet(true)
	}
	if !moved {
		c.deadlock()
	}
	return true
}

// deadlock ends the kernel because every thread waits for another.
func (c *cluster) deadlock() {
	for _, b := range c.blocks {
		for _, t := range b.threads {
			if t.state != exited {
				t.fail(gpu.LostInstruction, "threads wait for each other at barriers that never complete")
			}
		}
	}
}

// barrierCluster is barrier.cluster (9.7.12). What PTX leaves open goes as on an H100: who waits
// without having arrived goes on.
func (t *thread) barrierCluster(i *ptx.Instr) {
	switch {
	case i.Mods.Mode == ptx.ModeArrive:
		t.came = true
		t.b.cluster.complete()
	case t.gone:
		t.gone = false
	case t.came:
		t.state = atCluster
	}
}

// complete ends the phase of the cluster's barrier if all threads that have not exited have arrived.
func (c *cluster) complete() {
	arrived := 0
	for _, b := range c.blocks {
		for _, t := range b.threads {
			if t.state == exited {
				continue
			}
			if !t.came {
				return
			}
			arrived++
		}
	}
	if arrived == 0 {
		return
	}
	for _, b := range c.blocks {
		for _, t := range b.threads {
			if t.state == atCluster {
				t.state = running
			} else {
				t.gone = t.gone || t.came
			}
			t.came = false
		}
	}
}

// place is the value of a special register that says where a block is in its cluster (section 10).
func (b *block) place(s ptx.Special) uint64 {
	dims := b.cluster.dims
	at := func(first ptx.Special) (d ptx.Special, in bool) { return s - first, s >= first && s < first+3 }
	if d, in := at(ptx.ClusterIDX); in {
		return uint64(b.id[d] / dims[d])
	}
	if d, in := at(ptx.NClusterIDX); in {
		return uint64(b.launch.Grid[d] / dims[d])
	}
	if d, in := at(ptx.ClusterCTAIDX); in {
		return uint64(b.id[d] % dims[d])
	}
	if d, in := at(ptx.ClusterNCTAIDX); in {
		return uint64(dims[d])
	}
	switch s {
	case ptx.ClusterCTARank:
		return b.rank
	case ptx.ClusterNCTARank:
		return uint64(len(b.cluster.blocks))
	}
	return bit(b.cluster.explicit)
}

// rankBits are the bits of an address that say in which block it lies.
const rankBits = uint64(0xff) << rankShift

// mapa is mapa (9.7.8): the address of the same place in another block.
func (t *thread) mapa(i *ptx.Instr) {
	ty := i.Mods.Type()
	a, rank := t.get(&i.Args[1], ty), min(t.get(&i.Args[2], ptx.U32), 0xff)
	t.set(&i.Args[0], a&^rankBits|rank<<rankShift, ty)
}

// rankOf is getctarank (9.7.8).
func (t *thread) rankOf(i *ptx.Instr) {
	t.set(&i.Args[0], t.get(&i.Args[1], i.Mods.Type())&rankBits>>rankShift, ptx.U32)
}

// async is st.async and red.async (9.7.8, 9.7.12): the access is made at once, and the mbarrier waits
// for that many bytes less.
func (t *thread) async(i *ptx.Instr) {
	ty, elems := i.Mods.Type(), elements(&i.Args[1])
	size := uint64(ty.Size())
	m := t.inCluster(i, &i.Args[0], size*uint64(len(elems)))
	bar := t.inCluster(i, &i.Args[2], 8)
	for n := range elems {
		x, to := t.get(&elems[n], ty), m[uint64(n)*size:][:size]
		if i.Op == ptx.OpRed {
			x = updated(i, read(to), x, 0, false)
		}
		write(to, x)
	}
	word := read(bar)
	left := signed(pendingBytes.of(word)) - int64(len(m))
	if left < -maxArrivals {
		t.fail(gpu.LostInstruction, fmt.Sprintf("mbarrier for %d bytes", left))
	}
	pendingBytes.set(&word, uint64(left))
	write(bar, t.arrive(word, 0, false))
}

// inCluster is the memory of an operand that must lie in the shared memory of the cluster.
func (t *thread) inCluster(i *ptx.Instr, o *ptx.Operand, size uint64) []byte {
	s, addr := t.address(i, o)
	if s == ptx.SpaceGeneric {
		if in, _ := window(addr); in != ptx.SpaceSharedCluster {
			e := t.lost(gpu.LostAddress, "outside of .shared")
			e.Addr, e.Write = addr, true
			panic(e)
		}
	}
	return t.bytes(s, addr, size, true)
}

// signed is the number in pendingBytes.
func signed(x uint64) int64 { return int64(x<<42) >> 42 }
