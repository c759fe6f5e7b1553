package clang

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/internal/suite"
)

// device runs kernels of a Library on memory of this process. It implements
// suite.RawDevice.
type device struct {
	*Library
	memory map[uint64][]byte // by address
}

// Device starts the threads of the C code, and returns a device that runs kernels on
// them until it is closed. There may be one at a time.
func (l *Library) Device() (suite.RawDevice, error) {
	if err := l.startThreads(); err != nil {
		return nil, err
	}
	return &device{l, map[uint64][]byte{}}, nil
}

// Load does nothing: the kernels are those of the library.
func (d *device) Load(string, []byte) error { return nil }

// Alloc maps pages that are there already, so that no kernel waits for them. Each is written
// once: under a hypervisor that keeps page tables of its own, the kernel's mapping of a page does
// not spare the first access to it.
func (d *device) Alloc(n uint64) (uint64, error) {
	m, err := d.AllocHost(n)
	for at := 0; at < len(m); at += os.Getpagesize() {
		m[at] = 0
	}
	return addressOf(m), err
}

// AllocHost implements suite.RawDevice.
func (d *device) AllocHost(n uint64) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes: %w", n, err)
	}
	d.memory[addressOf(m)] = m
	return m, nil
}

// at is the memory from an address to the end of its allocation, of at least n bytes.
func (d *device) at(p, n uint64) ([]byte, error) {
	for base, m := range d.memory {
		if p >= base && p-base <= uint64(len(m)) && uint64(len(m))-(p-base) >= n {
			return m[p-base:], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x are in no allocation", n, p)
}

// Write implements suite.RawDevice.
func (d *device) Write(dst uint64, src []byte, _ bool) error {
	m, err := d.at(dst, uint64(len(src)))
	copy(m, src)
	return err
}

// Read implements suite.RawDevice.
func (d *device) Read(dst []byte, src uint64, _ bool) error {
	m, err := d.at(src, uint64(len(dst)))
	copy(dst, m)
	return err
}

// Fill implements suite.RawDevice.
func (d *device) Fill(dst uint64, word uint32, n uint64) error {
	m, err := d.at(dst, 4*n)
	if err != nil {
		return err
	}
	for i := range n {
		binary.LittleEndian.PutUint32(m[4*i:], word)
	}
	return nil
}

// Sync does nothing: a launch has ended when it returns.
func (d *device) Sync() error { return nil }

// Close implements suite.RawDevice.
func (d *device) Close() error {
	d.endThreads()
	var errs []error
	for _, m := range d.memory {
		errs = append(errs, unix.Munmap(m))
	}
	clear(d.memory)
	return errors.Join(errs...)
}
