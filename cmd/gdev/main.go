// Command gdev runs the programs of the Gdev benchmark suite on the GPU that
// PVDRM gives to this guest, and checks their results.
package main

import (
	"os"

	"pvdrm/cmd/gdev/suite"
	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/cuda"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr, openGPU))
}

// openGPU finds the GPU: that of a local guest or of a virtual machine.
func openGPU() (runner, error) {
	drv, err := cuda.Init(func() (drm.File, error) {
		file, err := frontend.OpenDefault()
		if err != nil {
			return nil, err // not a nil *frontend.File inside of an interface
		}
		return file, nil
	})
	if err != nil {
		return nil, err
	}
	bells, err := newDoorbells()
	if err != nil {
		return nil, err
	}
	return func(name string) (suite.Result, error) {
		return suite.Run(drv, name, suite.Options{Doorbells: bells.count})
	}, nil
}
