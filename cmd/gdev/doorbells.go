package main

import (
	"fmt"
	"os"

	"pvdrm/frontend"
)

// doorbells counts the exits of this guest as its backend sees them: every kick
// of a virtqueue, or wake-up and request of a local client, whoever makes it.
// It asks over a DRM file of its own, whose doorbells it leaves out.
type doorbells struct {
	file *frontend.File
	last uint64
}

func newDoorbells() (*doorbells, error) {
	file, err := frontend.OpenDefault()
	if err != nil {
		return nil, err
	}
	d := &doorbells{file: file}
	_, err = d.read()
	return d, err
}

func (d *doorbells) read() (uint64, error) {
	c, err := d.file.Counters()
	if err != nil {
		return 0, fmt.Errorf("asking the backend for its counters: %w", err)
	}
	// To ask is at most one doorbell, which has been counted on both sides by now.
	d.last = c.Doorbells - d.file.Doorbells()
	return d.last, nil
}

// count is the number so far. When the backend is gone it stays what it was:
// the program that runs meanwhile fails too, and says why.
func (d *doorbells) count() uint64 {
	n, err := d.read()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gdev:", err)
		return d.last
	}
	return n
}
