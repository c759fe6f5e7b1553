package ref

import (
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

// halves is a matrix of 8×8 elements of 16 bits.
type halves [8][8]uint64

// value is what a lane's register of the matrix holds: two neighbours of a row.
func (m *halves) value(lane int) uint64 {
	row := &m[lane/4]
	return row[lane%4*2] | row[lane%4*2+1]<<16
}

func (m *halves) setValue(lane int, x uint64) {
	m[lane/4][lane%4*2], m[lane/4][lane%4*2+1] = x&0xffff, x>>16
}

func (m *halves) transpose() {
	for r := range m {
		for c := range r {
			m[r][c], m[c][r] = m[c][r], m[r][c]
		}
	}
}

// matrixRow is the memory of a row whose address a thread has, which is in .shared.
func (t *thread) matrixRow(i *ptx.Instr, o *ptx.Operand, stores bool) []byte {
	s, addr := t.address(i, o)
	if s == ptx.SpaceGeneric {
		if in, _ := window(addr); in != ptx.SpaceSharedCluster {
			e := t.lost(gpu.LostAddress, "matrix outside of .shared")
			e.Addr, e.Write = addr, stores
			panic(e)
		}
		addr -= exec.SharedBase
	}
	return t.bytes(ptx.SpaceShared, addr, 16, stores)
}

// loadMatrices is ldmatrix (9.7.13): thread 8q+r has the address of row r of matrix q.
func loadMatrices(group []*thread) {
	i := group[0].wait
	list := make([]halves, i.Mods.Count)
	for _, t := range group {
		if lane := t.n % warpSize; lane/8 < len(list) {
			m := t.matrixRow(t.wait, &t.wait.Args[1], false)
			for c := range 8 {
				list[lane/8][lane%8][c] = read(m[2*c:][:2])
			}
		}
	}
	for q := range list {
		if i.Mods.Has(ptx.Trans) {
			list[q].transpose()
		}
		for _, t := range group {
			t.set(&elements(&t.wait.Args[0])[q], list[q].value(t.n%warpSize), ptx.B32)
		}
	}
}

// storeMatrices is stmatrix (9.7.13).
func storeMatrices(group []*thread) {
	i := group[0].wait
	list := make([]halves, i.Mods.Count)
	for q := range list {
		for _, t := range group {
			list[q].setValue(t.n%warpSize, t.get(&elements(&t.wait.Args[1])[q], ptx.B32))
		}
		if i.Mods.Has(ptx.Trans) {
			list[q].transpose()
		}
	}
	for _, t := range group {
		if lane := t.n % warpSize; lane/8 < len(list) {
			m := t.matrixRow(t.wait, &t.wait.Args[0], true)
			for c := range 8 {
				write(m[2*c:][:2], list[lane/8][lane%8][c])
			}
		}
	}
}

// transposeMatrix is movmatrix (9.7.13).
func transposeMatrix(group []*thread) {
	var m halves
	for _, t := range group {
		m.setValue(t.n%warpSize, t.get(&t.wait.Args[1], ptx.B32))
	}
	m.transpose()
	for _, t := range group {
		t.set(&t.wait.Args[0], m.value(t.n%warpSize), ptx.B32)
	}
}
