package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"pvdrm/frontend"
	libcudaapi "pvdrm/frontend/cuda/capi"
	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
)

// guestHome is where files of the host go in a guest.
const guestHome = "/root"

// guestFiles are files of the host that a program in the guest needs.
type guestFiles struct {
	paths   []string
	program bool // the first of them is the program

	inGuest string // the program, where the guest has it already; else empty
	cwd     string // where it runs, if no file was copied; else empty
}

// filesForGuest lists what must be copied, and looks whether it is there before
// a machine is booted for it.
func filesForGuest(f *upFlags, args []string) (g guestFiles, err error) {
	if f.image != guestimage.Base && len(args) > 0 && strings.ContainsRune(args[0], filepath.Separator) {
		if p, ok := f.share.program(args[0]); ok {
			g.inGuest = p
		} else if _, err := os.Stat(args[0]); err == nil || !filepath.IsAbs(args[0]) {
			g.paths, g.program = append(g.paths, args[0]), true
		}
	}
	g.cwd, _ = f.share.inRoot(".")
	g.paths = append(g.paths, f.copies...)
	names := map[string]string{}
	for _, p := range g.paths {
		st, err := os.Stat(p)
		if err != nil {
			return g, fmt.Errorf("to be copied into the guest: %w", err)
		}
		if !st.Mode().IsRegular() {
			return g, fmt.Errorf("to be copied into the guest: %s is no regular file", p)
		}
		name := filepath.Base(p)
		if other, twice := names[name]; twice {
			return g, fmt.Errorf("to be copied into the guest: %s and %s have the same name there", other, p)
		}
		names[name] = p
	}
	return g, nil
}

// copy writes the files into the guest, with their permissions.
func (g guestFiles) copy(ctx context.Context, machine *vmm.VM) error {
	for _, p := range g.paths {
		if err := copyFile(ctx, machine, p); err != nil {
			return fmt.Errorf("copying %s into the guest: %w", p, err)
		}
	}
	return nil
}

func copyFile(ctx context.Context, machine *vmm.VM, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return machine.Put(ctx, path.Join(guestHome, filepath.Base(name)), st.Mode().Perm(), f)
}

// args is the command line with the program's name in the guest.
func (g guestFiles) args(args []string) []string {
	if g.inGuest != "" {
		return append([]string{g.inGuest}, args[1:]...)
	}
	if !g.program {
		return args
	}
	return append([]string{path.Join(guestHome, filepath.Base(args[0]))}, args[1:]...)
}

// dir is where the program runs; empty: where it always does.
func (g guestFiles) dir() string {
	if len(g.paths) == 0 {
		return g.cwd
	}
	return guestHome
}

// guestEnv hands on the variables that programs of PVDRM look at.
func guestEnv() (env []string) {
	for _, name := range []string{libcudaapi.LogEnv, frontend.ConfigEnv} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
