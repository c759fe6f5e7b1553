package tests

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/capi"
	"pvdrm/gpu/softgpu"
)

// meetPTX is a kernel whose blocks wait for each other, as those of a cooperative launch do:
// the first thread of each counts its block and spins until all are counted. It ends only if all
// blocks of the grid run together.
const meetPTX = `.version 6.0
.target sm_50
.address_size 64
.visible .entry meet(.param .u64 counter, .param .u32 blocks)
{
	.reg .pred %p<3>;
	.reg .u32 %r<5>;
	.reg .u64 %d<2>;
	ld.param.u64 %d1, [counter];
	ld.param.u32 %r1, [blocks];
	mov.u32 %r2, %tid.x;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 bra DONE;
	atom.global.add.u32 %r3, [%d1], 1;
SPIN:
	ld.volatile.global.u32 %r4, [%d1];
	setp.lt.u32 %p2, %r4, %r1;
	@%p2 bra SPIN;
DONE:
	bar.sync 0;
	ret;
}
` + "\x00"

// driverProgram is a program of one thread that calls libcuda.
type driverProgram struct {
	t   *testing.T
	mem *programMemory
	lib *capi.Library
	out uint64 // room for one result
}

func (h *host) driverProgram(t *testing.T) *driverProgram {
	mem := &programMemory{}
	p := &driverProgram{t: t, mem: mem, lib: h.libcuda(t, mem), out: mem.Keep(make([]byte, 8))}
	t.Cleanup(p.lib.Close)
	p.call("cuInit", 0)
	p.call("cuCtxCreate_v2", p.out, 0, 0)
	return p
}

func (p *driverProgram) result(name string, args ...uint64) cuda.Result {
	var all [capi.MaxArgs]uint64
	copy(all[:], args)
	return p.lib.Call(symbolsByName()[name], 1, &all, capi.Stack{})
}

func (p *driverProgram) call(name string, args ...uint64) {
	p.t.Helper()
	require.Equal(p.t, cuda.Success, p.result(name, args...), name)
}

// get returns the integer of 32 bits that a call writes to its first argument.
func (p *driverProgram) get(name string, args ...uint64) uint64 {
	p.t.Helper()
	p.call(name, append([]uint64{p.out}, args...)...)
	return uint64(uint32(p.mem.Word(p.out)))
}

// handle returns the word that a call writes to its first argument.
func (p *driverProgram) handle(name string, args ...uint64) uint64 {
	p.t.Helper()
	p.call(name, append([]uint64{p.out}, args...)...)
	return p.mem.Word(p.out)
}

func words(values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// A grid of as many blocks as occupancy promises runs all of them together, whatever the block's
// size: one that waits for all of its blocks ends.
func TestPromisedBlocksRunTogether(t *testing.T) {
	for _, multiprocessors := range []int{1, 3, 8} {
		for _, threads := range []uint64{1, 32, 256, 1024} {
			t.Run(fmt.Sprintf("%d multiprocessors, %d threads", multiprocessors, threads), func(t *testing.T) {
				p := startHost(t, softgpu.Config{SMs: multiprocessors}).driverProgram(t)
				module := p.handle("cuModuleLoadData", p.mem.Keep([]byte(meetPTX)))
				kernel := p.handle("cuModuleGetFunction", module, p.mem.Keep([]byte("meet\x00")))
				counter := p.handle("cuMemAlloc_v2", 4)

				each := p.get("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, threads, 0)
				require.Positive(t, each)
				blocks := each * p.get("cuDeviceGetAttribute", uint64(cuda.AttributeMultiprocessorCount), 0)

				arguments := p.mem.Keep(make([]byte, 16))
				require.NoError(t, p.mem.Write(arguments, words(p.mem.Keep(words(counter)), p.mem.Keep(words(blocks)))))
				for range 3 {
					p.call("cuMemsetD32_v2", counter, 0, 1)
					p.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, 0, arguments, 0)
					p.call("cuCtxSynchronize")
				}
				p.call("cuMemsetD32_v2", counter, 0, 1)
				p.call("cuLaunchCooperativeKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, 0, arguments)
				p.call("cuCtxSynchronize")
				tooMany := p.result("cuLaunchCooperativeKernel", kernel, blocks+1, 1, 1, threads, 1, 1, 0, 0, arguments)
				require.Equal(t, cuda.ErrCooperativeTooLarge, tooMany)
				p.call("cuMemcpyDtoH_v2", p.out, counter, 4)
				require.EqualValues(t, blocks, uint32(p.mem.Word(p.out)))
			})
		}
	}
}
