package hostile

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/hypercall"
)

// forgeIDs names objects, channels, modules and grants that this file does not
// have; another one of the same guest has them.
func forgeIDs(open Opener, rng *rand.Rand) error {
	return withFile(open, func(f *frontend.File) error {
		victim, err := prepare(f)
		if err != nil {
			return err
		}
		err = withRaw(open, func(r *raw) error {
			for n := range 200 {
				id := uint32(n)
				if n >= 100 {
					id = rng.Uint32()
				}
				for _, q := range []struct {
					op      hypercall.Op
					payload []byte
				}{
					{hypercall.OpGemClose, hypercall.ID{ID: id}.Append(nil)},
					{hypercall.OpChannelFree, hypercall.ID{ID: id}.Append(nil)},
					{hypercall.OpModuleUnload, hypercall.ID{ID: id}.Append(nil)},
					{hypercall.OpExec, hypercall.Exec{Channel: id, Seqno: 1}.Append(nil)},
					{hypercall.OpModuleFunction, hypercall.Symbol{Module: id, Function: 1, Name: kernelAdd}.Append(nil)},
					{hypercall.OpModuleGlobal, hypercall.Symbol{Module: id, Name: "answer"}.Append(nil)},
				} {
					if err := r.refused(q.op, q.payload); err != nil {
						return err
					}
				}
				if id == r.pages.ID {
					continue // it is ours
				}
				grant := hypercall.GemGrant{Handle: 5, Resource: id, Size: 4096}
				if err := r.refused(hypercall.OpGemGrant, grant.Append(nil)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return victim.check()
	})
}

// mapForeignWindows maps an object of its own where it has no window, twice, out
// of its bounds, and around the end of the address space.
func mapForeignWindows(open Opener, rng *rand.Rand) error {
	return withFile(open, func(f *frontend.File) error {
		const size = 64 << 10
		handle, err := f.GemNew(size, drm.DomainSystem, 0)
		if err != nil {
			return err
		}
		var base, length uint64
		if base, err = f.GetParam(drm.ParamSystemBase); err == nil {
			length, err = f.GetParam(drm.ParamSystemSize)
		}
		if err != nil {
			return err
		}
		if err := f.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: handle, Addr: base, Range: size}}, false); err != nil {
			return err
		}
		wrong := []drm.BindOp{
			{Addr: base, Range: size},                            // taken
			{Addr: base + length - 4096, Range: size},            // over the end
			{Addr: base - 4096, Range: size},                     // below
			{Addr: 0, Range: size},                               // nowhere
			{Addr: ^uint64(4095), Range: size},                   // wraps around
			{Addr: base + 1<<20, Range: 0},                       // empty
			{Addr: base + 1<<20, Range: ^uint64(4095)},           // wraps around
			{Addr: base + 1<<20, Range: size, BOOffset: 4096},    // beyond the object
			{Addr: base + 1<<20, Range: 4096, BOOffset: 1 << 63}, // likewise
			{Addr: base + 1<<20 + 7, Range: 4096},                // cuts pages
		}
		for range 200 {
			wrong = append(wrong, drm.BindOp{Addr: outside(rng, base, length), Range: size})
		}
		for _, op := range wrong {
			op.Op, op.Handle = drm.BindMap, handle
			if err := f.VMBind([]drm.BindOp{op}, false); err == nil {
				return errors.New("a mapping outside of the windows or of the object was made")
			}
			op.Op, op.Handle = drm.BindUnmap, 0
			if op.Addr == base || op.Addr == base-4096 {
				continue // it names what is mapped
			}
			if err := f.VMBind([]drm.BindOp{op}, false); err == nil {
				return errors.New("what is not mapped was unmapped")
			}
		}
		return nil
	})
}

// outside returns an address that is not in the window.
func outside(rng *rand.Rand, base, length uint64) uint64 {
	for {
		if a := rng.Uint64() >> rng.IntN(64) &^ 4095; a < base-1<<20 || a >= base+length {
			return a
		}
	}
}

// floodTheRing sends requests and never reads an answer.
func floodTheRing(open Opener, _ *rand.Rand) error {
	return withRaw(open, func(r *raw) error {
		for n, end := 0, time.Now().Add(300*time.Millisecond); time.Now().Before(end); n++ {
			if _, err := r.req.Put(hypercall.Header{Op: hypercall.OpProperties}, nil); err != nil {
				return errGone
			}
			if r.req.Publish() || n%64 == 0 {
				if err := r.kick(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// ringTheDoorbell rings for nothing.
func ringTheDoorbell(open Opener, _ *rand.Rand) error {
	return withRaw(open, func(r *raw) error {
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
			if err := r.kick(); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeWhatWasSent rewrites requests while the backend reads them.
func changeWhatWasSent(open Opener, rng *rand.Rand) error {
	for range 10 {
		err := withRaw(open, func(r *raw) error {
			stop := make(chan struct{})
			var scribbler sync.WaitGroup
			seed := rng.Uint64()
			scribbler.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 1))
				for {
					select {
					case <-stop:
						return
					default:
						scribble(r.pages.Mem[requestSlots:requestSlots+16<<10], rng)
					}
				}
			})
			defer scribbler.Wait()
			defer close(stop)
			for n, end := 0, time.Now().Add(30*time.Millisecond); time.Now().Before(end); n++ {
				op := hypercall.Ops[n%len(hypercall.Ops)].Op
				ok, err := r.req.Put(hypercall.Header{Op: op, ID: uint32(n), Flags: hypercall.FlagAnswer}, make([]byte, 8*rng.IntN(16)))
				if err != nil {
					return errGone
				}
				if r.req.Publish() || !ok {
					if err := r.kick(); err != nil {
						return err
					}
				}
				if _, _, _, err := r.cpl.Get(r.buf); err != nil {
					return errGone
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// requestSlots is where the requests begin in a ring of the default layout.
const requestSlots = 0x2000

// scribble changes some words.
func scribble(mem []byte, rng *rand.Rand) {
	for range 64 {
		at := rng.IntN(len(mem)/4) * 4
		binary.LittleEndian.PutUint32(mem[at:], rng.Uint32()>>rng.IntN(32))
	}
}

// lieAboutTheRing writes random words into the ring's head: counters, flags and
// the records of channels.
func lieAboutTheRing(open Opener, rng *rand.Rand) error {
	for range 50 {
		err := withRaw(open, func(r *raw) error {
			for range 1 + rng.IntN(4) {
				at := rng.IntN(requestSlots/4) * 4
				binary.LittleEndian.PutUint32(r.pages.Mem[at:], rng.Uint32()>>rng.IntN(32))
			}
			for range 8 {
				if _, err := r.req.Put(hypercall.Header{Op: hypercall.OpNop, Flags: hypercall.FlagAnswer}, nil); err != nil {
					return errGone
				}
				r.req.Publish()
				if err := r.kick(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// openWithoutEnd opens files until it is refused.
func openWithoutEnd(open Opener, _ *rand.Rand) error {
	const enough = 300
	var all []*raw
	var refusal error
	for len(all) < enough && refusal == nil {
		r, err := openRaw(open)
		if refusal = err; err == nil {
			all = append(all, r)
		}
	}
	var errs []error
	for _, r := range all {
		errs = append(errs, r.end())
	}
	if len(all) == 0 {
		errs = append(errs, refusal)
	}
	return errors.Join(errs...)
}

// hangUp goes away in the middle of everything.
func hangUp(open Opener, rng *rand.Rand) error {
	for range 20 {
		err := withRaw(open, func(r *raw) error {
			for n := range rng.IntN(40) {
				op := hypercall.Ops[rng.IntN(len(hypercall.Ops))].Op
				if _, err := r.req.Put(hypercall.Header{Op: op, ID: uint32(n)}, make([]byte, rng.IntN(64))); err != nil {
					return errGone
				}
			}
			r.req.Publish()
			return r.kick()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
