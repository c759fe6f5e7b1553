// Package exectest holds what tests of the stages share: an address space, random
// registers, and a comparison of loads and stores.
package exectest

import (
	"sync"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// The kernels of testdata/cl, as clang compiles them, against the same
// algorithm in Go.

const (
	BufA = 0x1000_0000
	BufB = 0x2000_0000
	BufC = 0x3000_0000
)

// Memory is an address space of pages of one size.
type Memory struct {
	Mu    sync.RWMutex
	size  uint64
	Pages map[uint64][]byte
	Prot  map[uint64]gpu.Prot
}

func NewMemory(page uint64) *Memory {
	return &Memory{size: page, Pages: map[uint64][]byte{}, Prot: map[uint64]gpu.Prot{}}
}

func (m *Memory) Lookup(va uint64) ([]byte, uint64, gpu.Prot, bool) {
	m.Mu.RLock()
	defer m.Mu.RUnlock()
	base := va &^ (m.size - 1)
	p, ok := m.Pages[base]
	return p, base, m.Prot[base], ok
}

// Map maps zero pages for [va, va+n).
func (m *Memory) Map(va, n uint64) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	for base := va &^ (m.size - 1); base < va+n; base += m.size {
		if m.Pages[base] == nil {
			m.Pages[base] = tlb.WordBytes(make([]uint64, m.size/8))
			m.Prot[base] = gpu.ProtRead | gpu.ProtWrite
		}
	}
}

func (m *Memory) Write(va uint64, b []byte) {
	m.Map(va, uint64(len(b)))
	for i := range b {
		m.Pages[(va+uint64(i))&^(m.size-1)][(va+uint64(i))&(m.size-1)] = b[i]
	}
}

func (m *Memory) Read(va, n uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = m.Pages[(va+uint64(i))&^(m.size-1)][(va+uint64(i))&(m.size-1)]
	}
	return b
}
