package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/hypercall"
)

// What Orders lists, and the name of the module that is held.
const (
	HoldTheCompiler = "hold-the-compiler"
	AllocateBeside  = "allocate-beside"
	HeldModule      = "held"
)

// holdTheCompiler has a module compiled, and takes granted pages back meanwhile that the
// file uses. It ends when the module is compiled.
func holdTheCompiler(open Opener, _ *rand.Rand) error {
	return withRaw(open, func(r *raw) error {
		pages, err := r.Alloc(4096)
		if err != nil {
			return err
		}
		grant := hypercall.GemGrant{Handle: 1, Resource: pages.ID, Size: 4096}
		errno, err := r.ask(hypercall.OpGemGrant, grant.Append(nil))
		if err == nil && errno == syscall.ENOENT { // the ring was faster than the queue that tells of the pages
			if err = r.Settle(); err == nil {
				errno, err = r.ask(hypercall.OpGemGrant, grant.Append(nil))
			}
		}
		if err != nil || errno != 0 {
			return fmt.Errorf("granting a page: %w", errors.Join(err, errno))
		}
		n := copy(r.ring.Bulk(), kernels)
		load := hypercall.ModuleLoad{Module: 1, Bytes: uint32(n), Total: uint64(n), Name: HeldModule}
		if err := r.send(hypercall.OpModuleLoad, load.Append(nil)); err != nil {
			return err
		}
		if err := r.Free(pages); err != nil {
			return fmt.Errorf("taking a page back: %w", err)
		}
		errno, err = r.answer()
		if err == nil && errno != 0 {
			err = fmt.Errorf("the module was refused: %w", errno)
		}
		return err
	})
}

// allocateBeside allocates, maps, uses and frees memory, of files of its own.
func allocateBeside(open Opener, _ *rand.Rand) error {
	for range 3 {
		err := withFile(open, func(f *frontend.File) error {
			s, err := prepare(f)
			if err != nil {
				return err
			}
			for range 3 {
				const size = 1 << 20 // more than lies in the pool
				handle, err := f.GemNew(size, drm.DomainSystem, 0)
				if err != nil {
					return err
				}
				if err := f.GemClose(handle); err != nil {
					return err
				}
			}
			return s.check()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
