package main

import (
	"fmt"
	"os"

	"pvdrm/frontend"
)

// exits counts the doorbells and interrupts of this guest as its backend sees
// them: every kick of a virtqueue, or wake-up and request of a local client,
// whoever makes it. It asks over a DRM file of its own, whose doorbells it leaves out.
type exits struct {
	file                  *frontend.File
	doorbells, interrupts uint64 // as read last
	failed                bool   // that was said
}

func newExits() (*exits, error) {
	file, err := frontend.OpenDefault()
	if err != nil {
		return nil, err
	}
	e := &exits{file: file}
	return e, e.read()
}

func (e *exits) read() error {
	c, err := e.file.Counters()
	if err != nil {
		return fmt.Errorf("asking the backend for its counters: %w", err)
	}
	// To ask is at most one doorbell, which has been counted on both sides by now.
	e.doorbells, e.interrupts = c.Doorbells-e.file.Doorbells(), c.Interrupts
	return nil
}

// count is the numbers so far. When the backend is gone they stay what they
// were: the program that runs meanwhile fails too, and says why.
func (e *exits) count() (doorbells, interrupts uint64) {
	if err := e.read(); err != nil && !e.failed {
		e.failed = true
		fmt.Fprintln(os.Stderr, "gdev:", err)
	}
	return e.doorbells, e.interrupts
}
