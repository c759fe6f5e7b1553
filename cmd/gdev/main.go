// Command gdev runs the programs of the Gdev benchmark suite on the GPU that
// PVDRM gives to this guest, and checks their results.
package main

import (
	"os"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/cuda"
	"pvdrm/internal/bench/baseline"
	"pvdrm/internal/suite"
)

func main() {
	var log counterLog
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr, &log, log.openGPU))
}

// openGPU finds the GPU: that of a local guest or of a virtual machine, or the
// floor, which is none.
func (l *counterLog) openGPU(onFloor bool) (runner, error) {
	if onFloor {
		drv, err := cuda.Init(openFloor)
		if err != nil {
			return nil, err
		}
		return func(name string, opts suite.Options) (suite.Result, error) {
			res, err := suite.Run(drv, name, opts)
			res.Verified, res.Error = false, "" // nothing was computed
			return res, err
		}, drv.Close()
	}
	card, err := openCard()
	if err != nil {
		return nil, err
	}
	if card != nil {
		return l.onCard(card), nil // the driver ends with this process
	}
	drv, err := cuda.Init(l.open)
	if err != nil {
		return nil, err
	}
	// Each program opens a file of its own, the first too: that is a part of its work.
	if err := drv.Close(); err != nil {
		return nil, err
	}
	l.closed = nil
	count, err := newExits()
	if err != nil {
		return nil, err
	}
	return func(name string, opts suite.Options) (suite.Result, error) {
		opts.Exits = count.count
		return suite.Run(drv, name, opts)
	}, nil
}

func openFile() (drm.File, error) {
	file, err := frontend.OpenDefault()
	if err != nil {
		return nil, err // not a nil *frontend.File inside of an interface
	}
	return file, nil
}

func openFloor() (drm.File, error) { return baseline.Open(), nil }
