package capi

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
	"pvdrm/internal/progmem/progmemtest"
)

type fakeMemory = progmemtest.Memory

const memoryBase = progmemtest.Base

// program is one that calls the library, on a fake GPU.
type program struct {
	t      *testing.T
	gpu    *cudatest.GPU
	second *cudatest.GPU // nil: there is one
	mem    *fakeMemory
	lib    *Library
	out    uint64 // room for a result of 8 bytes
	thread uint64

	mu      sync.Mutex
	invoked []uint64 // the words that functions of the program got
}

var symbolsByName = func() map[string]int {
	byName := map[string]int{}
	for i, s := range symbols {
		byName[s.Name] = i
	}
	return byName
}

// newProgram starts a program that has called cuInit. The end of the test closes the library and
// checks that nothing is left on the device.
func newProgram(t *testing.T) *program {
	p := newIdleProgram(t)
	p.ok("cuInit", 0)
	return p
}

// newIdleProgram is newProgram without cuInit.
func newIdleProgram(t *testing.T) *program {
	p := &program{t: t, gpu: cudatest.NewGPU(t), mem: new(fakeMemory), thread: 1}
	p.out = p.mem.Keep(make([]byte, 64))
	p.lib = New(Config{
		Open:   []cuda.Opener{p.gpu.Opener},
		Memory: p.mem,
		Symbol: func(i int) uint64 { return uint64(i) + 1 },
		Invoke: func(fn, a, b, c uint64) uint64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.invoked = append(p.invoked, fn, a, b, c)
			return 0
		},
		Logf: t.Logf,
	})
	t.Cleanup(p.lib.Close)
	return p
}

// newProgramInContext is newProgram with a current context.
func newProgramInContext(t *testing.T) *program {
	p := newProgram(t)
	p.ok("cuCtxCreate_v2", p.out, 0, 0)
	return p
}

// on returns the program as another of its threads.
func (p *program) on(thread uint64) *program {
	q := &program{t: p.t, gpu: p.gpu, mem: p.mem, lib: p.lib, out: p.mem.Keep(make([]byte, 64)), thread: thread}
	return q
}

func (p *program) call(name string, args ...uint64) cuda.Result {
	p.t.Helper()
	i, known := symbolsByName()[name]
	require.True(p.t, known, name)
	var all [MaxArgs]uint64
	copy(all[:], args)
	return p.lib.Call(i, p.thread, &all, Stack{})
}

func (p *program) ok(name string, args ...uint64) {
	p.t.Helper()
	require.Equal(p.t, cuda.Success, p.call(name, args...), name)
}

func (p *program) gives(want cuda.Result, name string, args ...uint64) {
	p.t.Helper()
	require.Equal(p.t, want, p.call(name, args...), "%s%#x", name, args)
}

func (p *program) word(addr uint64) uint64 {
	p.t.Helper()
	var b [8]byte
	require.NoError(p.t, p.mem.Read(b[:], addr))
	return binary.LittleEndian.Uint64(b[:])
}

// word64 and word32 return what a call writes to its first argument.
func (p *program) word64(name string, args ...uint64) uint64 {
	p.t.Helper()
	p.ok(name, append([]uint64{p.out}, args...)...)
	return p.word(p.out)
}

func (p *program) word32(name string, args ...uint64) uint32 {
	p.t.Helper()
	return uint32(p.word64(name, args...))
}

// second64 returns what a call writes to its second argument.
func (p *program) second64(name string, first uint64, args ...uint64) uint64 {
	p.t.Helper()
	p.ok(name, append([]uint64{first, p.out}, args...)...)
	return p.word(p.out)
}

func (p *program) text(s string) uint64 { return p.mem.Keep(append([]byte(s), 0)) }

func (p *program) words(values ...uint64) uint64 {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return p.mem.Keep(b)
}

func (p *program) halves(values ...uint32) uint64 {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return p.mem.Keep(b)
}

// managed allocates managed memory of 4 KiB. The fake GPU cannot place it at its address on the
// device, so the program has it elsewhere.
func (p *program) managed() (own, device uint64) {
	p.t.Helper()
	x, ok := find[*context](p.lib, p.word64("cuCtxGetCurrent"))
	require.True(p.t, ok)
	h, err := x.MemAllocManaged(4096)
	require.NoError(p.t, err)
	return h.Address(), uint64(h.DevicePtr())
}

// function loads a module with a kernel of the fake GPU.
func (p *program) function(name string) uint64 {
	p.t.Helper()
	return p.word64("cuModuleGetFunction", p.word64("cuModuleLoadData", p.text("kernel "+name)), p.text(name))
}
