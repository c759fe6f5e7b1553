package vmm

import (
	"context"
	"errors"
	"io"
	"os"

	"pvdrm/vmm/control"
)

// Run runs a program in the guest and returns its exit code once it has ended and all of its output
// is written. stdin, stdout and stderr may be nil. A program that ends with another code than 0 is no
// error; one that cannot be started has code 126 or 127, as in a shell, and an error that says why.
// When ctx ends, the program is killed.
func (vm *VM) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (exitCode int, err error) {
	exit, err := vm.RunWith(ctx, control.Start{Argv: argv}, stdin, stdout, stderr)
	return int(exit.Code), err
}

// RunWith is Run with an environment, a directory or a terminal. It returns all that the guest's
// init says of the program's end.
func (vm *VM) RunWith(ctx context.Context, s control.Start, stdin io.Reader, stdout, stderr io.Writer) (control.Exit, error) {
	return vm.call(ctx, s, control.Streams{Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

func (vm *VM) call(ctx context.Context, s control.Start, streams control.Streams) (control.Exit, error) {
	exit, err := vm.control.Run(ctx, s, streams)
	switch {
	case err != nil && ctx.Err() == nil && vm.control.Err() != nil:
		return control.Exit{Code: -1}, vm.lost(err)
	case err != nil:
		return control.Exit{Code: -1}, err
	case exit.Message != "":
		return exit, errors.New(exit.Message)
	}
	return exit, nil
}

// Put writes a file in the guest, with the content of r. Directories are made as needed; the file
// appears complete or not at all.
func (vm *VM) Put(ctx context.Context, path string, mode os.FileMode, r io.Reader) error {
	err := vm.control.Put(ctx, control.Put{Path: path, Mode: uint32(mode.Perm())}, r)
	if err != nil && ctx.Err() == nil && vm.control.Err() != nil {
		return errors.Join(err, vm.lost(vm.control.Err()))
	}
	return err
}
