package hostile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"

	"pvdrm/drm"
	"pvdrm/frontend"
)

// kernelAdd is the well-behaved one of the kernels below.
const kernelAdd = "add"

// kernels are what the attacks run on the GPU.
const kernels = `
.version 6.3
.target sm_70
.address_size 64
.global .align 4 .u32 answer = 42;
.visible .entry add(.param .u64 p)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
	add.u32 %r1, %r1, 1;
	st.global.u32 [%rd1], %r1;
	ret;
}
.visible .entry forever(.param .u64 p)
{
LOOP:
	bra LOOP;
}
`

// session is a file with what it takes to run a kernel.
type session struct {
	*frontend.File
	channel uint32
	module  uint32
	base    uint64 // where its page is mapped
	mem     []byte // of that page
}

func prepare(f *frontend.File) (*session, error) {
	s := &session{File: f}
	var err error
	if s.channel, err = f.ChannelAlloc(); err != nil {
		return nil, err
	}
	if s.module, err = f.ModuleLoad("hostile.ptx", []byte(kernels)); err != nil {
		return nil, err
	}
	if s.base, err = f.GetParam(drm.ParamSystemBase); err != nil {
		return nil, err
	}
	handle, err := f.GemNew(4096, drm.DomainSystem, 0)
	if err != nil {
		return nil, err
	}
	if s.mem, err = f.GemMap(handle); err != nil {
		return nil, err
	}
	return s, f.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: handle, Addr: s.base, Range: 4096}}, false)
}

// check is that a session that was not attacked works still.
func (s *session) check() error {
	was := binary.LittleEndian.Uint32(s.mem)
	if err := s.launch(kernelAdd, s.base); err != nil {
		return fmt.Errorf("a file that was not attacked: %w", err)
	}
	if now := binary.LittleEndian.Uint32(s.mem); now != was+1 {
		return fmt.Errorf("a file that was not attacked has %d where %d belongs", now, was+1)
	}
	return nil
}

// launch runs a kernel on one address and waits for its end.
func (s *session) launch(kernel string, addr uint64) error {
	id, _, err := s.ModuleFunction(s.module, kernel)
	if err != nil {
		return err
	}
	return s.run(drm.LaunchCmd{Function: id, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Params: binary.LittleEndian.AppendUint64(nil, addr)}.Append(nil))
}

func (s *session) run(stream []byte) error {
	seqno, err := s.Exec(s.channel, stream, nil)
	if err != nil {
		return err
	}
	return s.Wait(drm.Point{Channel: s.channel, Seqno: seqno}, patience)
}

// mustFault is that a command was stopped by a fault.
func mustFault(err error, what string) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s went through", what)
	case errors.Is(err, syscall.EIO):
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// vram makes a mapped object of device memory.
func (s *session) vram(size uint64) (handle uint32, addr uint64, err error) {
	if addr, err = s.GetParam(drm.ParamVRAMBase); err != nil {
		return 0, 0, err
	}
	if handle, err = s.GemNew(size, drm.DomainVRAM, 0); err != nil {
		return 0, 0, err
	}
	return handle, addr, s.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: handle, Addr: addr, Range: size}}, false)
}

// readAfterFree looks for what it, or another, left in memory.
func readAfterFree(open Opener, rng *rand.Rand) error {
	const size, rounds = 4 << 20, 8
	for range rounds {
		err := withFile(open, func(f *frontend.File) error {
			s, err := prepare(f)
			if err != nil {
				return err
			}
			handle, addr, err := s.vram(size)
			if err != nil {
				return err
			}
			at := addr + uint64(rng.IntN(size/4096))*4096
			peek := drm.CopyCmd{Dst: s.base, Src: at, Width: 4096, Height: 1}.Append(nil)
			s.mem[0] = 1
			if err := s.run(peek); err != nil {
				return err
			}
			if !bytes.Equal(s.mem, make([]byte, len(s.mem))) {
				return errors.New("new device memory is not zero: it shows what another left there")
			}
			fill := drm.FillCmd{Dst: addr, Pattern: rng.Uint32() | 1, Size: 4, Width: size, Height: 1}.Append(nil)
			if err := s.run(fill); err != nil {
				return err
			}
			if err := s.GemClose(handle); err != nil {
				return err
			}
			return mustFault(s.run(peek), "a read of freed memory")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// touchOthersMemory reads and writes where another file of the same guest has
// its memory, which is mapped at the same addresses, and everywhere else.
func touchOthersMemory(open Opener, rng *rand.Rand) error {
	return withFile(open, func(victim *frontend.File) error {
		v, err := prepare(victim)
		if err != nil {
			return err
		}
		_, secret, err := v.vram(4 << 20)
		if err != nil {
			return err
		}
		if err := v.run(drm.FillCmd{Dst: secret, Pattern: 0x5ec4e7, Size: 4, Width: 4 << 20, Height: 1}.Append(nil)); err != nil {
			return err
		}
		for n := range 12 {
			addr := secret
			if n > 0 {
				addr = rng.Uint64() >> rng.IntN(60) &^ 3
			}
			err := withFile(open, func(f *frontend.File) error {
				s, err := prepare(f)
				if err != nil {
					return err
				}
				if addr-s.base < 4096 {
					return nil // its own page
				}
				if n%2 == 0 {
					return mustFault(s.launch(kernelAdd, addr), fmt.Sprintf("a kernel's access to 0x%x", addr))
				}
				return mustFault(s.run(drm.CopyCmd{Dst: s.base, Src: addr, Width: 64, Height: 1}.Append(nil)), fmt.Sprintf("a copy from 0x%x", addr))
			})
			if err != nil {
				return err
			}
		}
		if err := v.run(drm.CopyCmd{Dst: v.base, Src: secret, Width: 4096, Height: 1}.Append(nil)); err != nil {
			return err
		}
		for i := 0; i < 4096; i += 4 {
			if binary.LittleEndian.Uint32(v.mem[i:]) != 0x5ec4e7 {
				return errors.New("another file's memory was changed")
			}
		}
		return nil
	})
}

// takeAllChannels makes channels until it is refused, and more.
func takeAllChannels(open Opener, _ *rand.Rand) error {
	const most = 1 << 12
	return withFile(open, func(f *frontend.File) error {
		for range most {
			if _, err := f.ChannelAlloc(); err != nil {
				if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
					return nil
				}
				return fmt.Errorf("the error of the last channel: %w", err)
			}
		}
		return fmt.Errorf("%d channels for one file", most)
	})
}

// takeAllMemory allocates device memory until it is refused.
func takeAllMemory(open Opener, _ *rand.Rand) error {
	return withFile(open, func(f *frontend.File) error {
		const size, most = 64 << 20, 1 << 13
		for range most {
			if _, err := f.GemNew(size, drm.DomainVRAM, 0); err != nil {
				if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOSPC) {
					return nil
				}
				return fmt.Errorf("the error of the last object: %w", err)
			}
		}
		return fmt.Errorf("%d GiB of device memory for one file", size*most>>30)
	})
}

// loopForEver runs a kernel without end, which must be stopped.
func loopForEver(open Opener, _ *rand.Rand) error {
	return withFile(open, func(f *frontend.File) error {
		s, err := prepare(f)
		if err != nil {
			return err
		}
		return mustFault(s.launch("forever", 0), "an endless kernel")
	})
}

// faultOnTheGPU loses one context after the other.
func faultOnTheGPU(open Opener, rng *rand.Rand) error {
	for range 10 {
		err := withFile(open, func(f *frontend.File) error {
			s, err := prepare(f)
			if err != nil {
				return err
			}
			return mustFault(s.launch(kernelAdd, uint64(rng.IntN(4096))|1), "a misaligned access")
		})
		if err != nil {
			return err
		}
	}
	return nil
}
