// Package progmemtest is the memory of a program that tests make up.
package progmemtest

import (
	"encoding/binary"
	"sync"
	"syscall"

	"pvdrm/internal/progmem"
)

// Memory is 64 KiB of memory of a program, at made-up addresses from Base on. The zero value is ready.
type Memory struct {
	mu   sync.Mutex
	mem  [Bytes]byte
	used uint64
}

// Base is the first address, and Bytes how many there are.
const (
	Base  = 0x10000
	Bytes = 1 << 16
)

func (m *Memory) at(addr uint64, n int) ([]byte, error) {
	if addr < Base || addr-Base > uint64(len(m.mem)) || n > len(m.mem)-int(addr-Base) {
		return nil, syscall.EFAULT
	}
	return m.mem[addr-Base:][:n], nil
}

// Read copies len(p) bytes at addr.
func (m *Memory) Read(p []byte, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.at(addr, len(p))
	copy(p, b)
	return err
}

// ReadParts reads ranges one after the other.
func (m *Memory) ReadParts(p []byte, parts []progmem.Range) error {
	for _, r := range parts {
		if err := m.Read(p[:r.Bytes], r.Addr); err != nil {
			return err
		}
		p = p[r.Bytes:]
	}
	return nil
}

// Write copies p to addr.
func (m *Memory) Write(addr uint64, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.at(addr, len(p))
	copy(b, p)
	return err
}

// Keep returns the address of a copy of b.
func (m *Memory) Keep(b []byte) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	addr := Base + m.used
	m.used = (m.used + uint64(copy(m.mem[m.used:], b)) + 15) &^ 15
	return addr
}

// Rewind returns a function that gives back what is kept from now on.
func (m *Memory) Rewind() func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.used
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.used = used
	}
}

// Word returns the number of 64 bits at addr, 0 where there is none.
func (m *Memory) Word(addr uint64) uint64 {
	b := make([]byte, 8)
	if m.Read(b, addr) != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}
