package exec

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
)

// source wraps a body in a kernel k(u64 a, u64 b, u32 n); extra stands at
// module scope.
func source(extra, body string) []byte {
	return []byte(".version 7.0\n.target sm_70\n.address_size 64\n" + extra + `
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
	.reg .b64 %rd<20>; .reg .b32 %r<20>; .reg .f32 %f<8>; .reg .pred %p<8>;
	ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
	mul.wide.u32 %rd3, %r2, 4; add.u64 %rd4, %rd1, %rd3;
` + body + "\n\tret;\n}\n")
}

// runBody runs a kernel made of body in one block, on 2 pages at bufA.
func runBody(t *testing.T, extra, body string, threads uint32) (*exectest.Memory, error) {
	t.Helper()
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source(extra, body), m), "k")
	m.Map(exectest.BufA, 8192)
	m.Map(exectest.BufB, 4096)
	m.Prot[exectest.BufB] = gpu.ProtRead
	return m, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), SharedBytes: 64,
		Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(threads))}, m, new(Control), 1)
}

func lost(t *testing.T, err error) *gpu.LostError {
	t.Helper()
	var e *gpu.LostError
	require.ErrorAs(t, err, &e)
	return e
}

func TestFaults(t *testing.T) {
	const shared = ".shared .align 4 .b8 s[100];"
	for _, c := range []struct {
		name, extra, body string
		cause             gpu.LostCause
		addr              uint64
		write             bool
		thread            uint32
		detail            string
	}{
		{name: "unmapped read", extra: "", body: "ld.global.u32 %r4, [%rd4+8188];", cause: gpu.LostAddress, addr: exectest.BufA + 8192, write: false, thread: 1, detail: "k.ptx:"},
		{name: "unmapped write", extra: "", body: "st.global.u32 [%rd4-4], %r2;", cause: gpu.LostAddress, addr: exectest.BufA - 4, write: true, thread: 0, detail: ""},
		{name: "one lane", extra: "", body: "setp.eq.u32 %p1, %r2, 17; @%p1 ld.global.u32 %r4, [%rd4+0x100000];", cause: gpu.LostAddress, addr: exectest.BufA + 0x100000 + 68, write: false, thread: 17, detail: ""},
		{name: "read only", extra: "", body: "st.global.u8 [%rd2], %r2;", cause: gpu.LostAddress, addr: exectest.BufB, write: true, thread: 0, detail: ""},
		{name: "read only atomic", extra: "", body: "red.global.add.u32 [%rd2], 1;", cause: gpu.LostAddress, addr: exectest.BufB, write: true, thread: 0, detail: ""},
		{name: "null", extra: "", body: "mov.u64 %rd5, 0; ld.u32 %r4, [%rd5];", cause: gpu.LostAddress, addr: 0, write: false, thread: 0, detail: ""},
		{name: "far", extra: "", body: "mov.u64 %rd5, -8; ld.u64 %rd6, [%rd5];", cause: gpu.LostAddress, addr: 1<<64 - 8, write: false, thread: 0, detail: ""},
		{name: "misaligned", extra: "", body: "ld.global.u32 %r4, [%rd4+2];", cause: gpu.LostAlign, addr: exectest.BufA + 2, write: false, thread: 0, detail: ""},
		{name: "misaligned vector", extra: "", body: "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd4];", cause: gpu.LostAlign, addr: exectest.BufA + 4, write: false, thread: 1, detail: ""},
		{name: "misaligned atomic", extra: "", body: "atom.global.add.u64 %rd6, [%rd4], 1;", cause: gpu.LostAlign, addr: exectest.BufA + 4, write: true, thread: 1, detail: ""},
		{name: "shared beyond", extra: shared, body: "mov.u32 %r4, s; mad.lo.u32 %r4, %r2, 8, %r4; st.shared.u32 [%r4], %r2;", cause: gpu.LostAddress, addr: 256, write: true, thread: 32, detail: ".shared"},
		{name: "shared wraps", extra: shared, body: "mov.u32 %r4, -4; ld.shared.u32 %r5, [%r4];", cause: gpu.LostAddress, addr: 1<<32 - 4, write: false, thread: 0, detail: ".shared"},
		{name: "shared far", extra: shared, body: "mov.u64 %rd5, -4; ld.shared.u32 %r5, [%rd5];", cause: gpu.LostAddress, addr: 1<<64 - 4, write: false, thread: 0, detail: ".shared"},
		{name: "generic shared", extra: shared, body: "mov.u64 %rd5, s; cvta.shared.u64 %rd5, %rd5; ld.u32 %r5, [%rd5+4096];", cause: gpu.LostAddress, addr: 4096, write: false, thread: 0, detail: ".shared"},
		{name: "local beyond", extra: "", body: ".local .b32 l[4]; mov.u64 %rd5, l; ld.local.u32 %r5, [%rd5+1048576];", cause: gpu.LostAddress, addr: 1 << 20, write: false, thread: 0, detail: ".local"},
		{name: "parameter written", extra: "", body: "mov.u64 %rd5, a; cvta.param.u64 %rd5, %rd5; st.u32 [%rd5], 1;", cause: gpu.LostAddress, addr: 0, write: true, thread: 0, detail: ".param"},
		{name: "trap", extra: "", body: "setp.eq.u32 %p1, %r2, 3; @%p1 trap;", cause: gpu.LostTrap, addr: 0, write: false, thread: 3, detail: "trap"},
		{name: "indexed branch", extra: "", body: "L: .branchtargets A; brx.idx %r2, L; A:", cause: gpu.LostInstruction, addr: 0, write: false, thread: 1, detail: "indexed branch"},
		{name: "call of nothing", extra: "", body: "P: .callprototype _ (); mov.u64 %rd5, 1234; call %rd5, P;", cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "indirect call"},
		{name: "call of another signature", extra: ".func f(.param .u32 x) { ret; }", body: "P: .callprototype _ (); mov.u64 %rd5, f; call %rd5, P;", cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "indirect call"},
		{name: "call of a kernel", extra: "", body: "P: .callprototype _ (.param .u64 a, .param .u64 b, .param .u32 n); mov.u64 %rd5, k; .param .u64 x; .param .u32 y; call %rd5, (x, x, y), P;",
			cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "indirect call"},
		{name: "recursion", extra: ".func f();\n.func f() { call f; ret; }", body: "call f;", cause: gpu.LostStack, addr: 0, write: false, thread: 0, detail: "call of f"},
		{name: "huge alloca", extra: "", body: "mov.u64 %rd5, 0x7fffffffffff; alloca.u64 %rd6, %rd5;", cause: gpu.LostStack, addr: 0, write: false, thread: 0, detail: "alloca"},
		{name: "alloca loop", extra: "", body: "L: alloca.u64 %rd6, 256; bra L;", cause: gpu.LostStack, addr: 0, write: false, thread: 0, detail: "alloca"},
		{name: "barrier number", extra: "", body: "bar.sync %r2;", cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "different"},
		{name: "barrier 16", extra: "", body: "mov.u32 %r4, 16; bar.sync %r4;", cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "barrier 16"},
		{name: "barrier count", extra: "", body: "bar.sync 0, %r2;", cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "threads"},
		{name: "barriers apart", extra: "", body: "setp.lt.u32 %p1, %r2, 32; @%p1 bra A; bar.sync 1; bra B; A: bar.sync 2; B:", cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "never complete: 32 threads at barrier 1, 32 threads at barrier 2"},
		{name: "barrier without a second warp", extra: "", body: "setp.lt.u32 %p1, %r2, 32; @%p1 bar.sync 1, 64;", cause: gpu.LostInstruction, addr: 0, write: false, thread: 0, detail: "never complete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := c.body
			if strings.HasPrefix(c.name, "alloca") || strings.HasPrefix(c.name, "huge") {
				body = strings.ReplaceAll(body, "256", "%rd10")
				body = "mov.u64 %rd10, 256; " + body
			}
			_, err := runBody(t, c.extra, body, 64)
			e := lost(t, err)
			require.Equal(t, c.cause, e.Cause, err)
			require.Equal(t, "k", e.Kernel)
			if c.cause == gpu.LostAddress || c.cause == gpu.LostAlign {
				require.Equal(t, fmt.Sprintf("%x", c.addr), fmt.Sprintf("%x", e.Addr))
				require.Equal(t, c.write, e.Write)
			}
			require.Equal(t, c.thread, e.Thread[0])
			require.Contains(t, e.Detail, c.detail)
		})
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ extra, body, want string }{
		{extra: ".extern .func nowhere();", body: "call nowhere;", want: "k.ptx:11:6: error: undefined function 'nowhere'"},
		{extra: ".extern .global .u32 g;", body: "ld.global.u32 %r4, [g];", want: "undefined symbol 'g'"},
		{extra: "", body: "st.param.u32 [n], %r1;", want: "cannot be written"},
		{extra: "", body: "wgmma.commit_group.sync.aligned;", want: "wgmma.commit_group"},
		{extra: ".global .b8 big[1000000000];", body: "", want: "bytes at most"},
		{extra: "", body: ".local .b8 big[10000000];", want: "bytes at most"},
		{extra: ".shared .b8 big[100000000];", body: "st.shared.u8 [big], 1;", want: "more than"},
	} {
		t.Run(c.want, func(t *testing.T) {
			mod, err := verified("k.ptx", source(c.extra, c.body))
			if err == nil {
				_, err = Compile(mod)
			}
			var e *gpu.BuildError
			require.ErrorAs(t, err, &e)
			require.Contains(t, err.Error(), c.want)
		})
	}
	mod, err := verified("k.ptx", []byte(".version 6.0\n.target sm_50\n.address_size 32\n"))
	require.NoError(t, err)
	_, err = Compile(mod)
	require.ErrorContains(t, err, "address_size 32")
}

func TestBadLaunches(t *testing.T) {
	m := exectest.NewMemory(4096)
	p := build(t, "k.ptx", []byte(`.version 7.0
.target sm_70
.address_size 64
.shared .b8 s[40000];
.entry plain(.param .u32 x) { .reg .u32 %r; ret; }
.entry req() .reqntid 32, 2 { ret; }
.entry most() .maxntid 64 { ret; }
.entry shared() { st.shared.u8 [s], 1; ret; }
.entry stack() { .local .b8 l[40000]; ret; }
`), m)
	for _, c := range []struct {
		kernel string
		l      Launch
		want   string // "": it runs
	}{
		{kernel: "plain", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: make([]byte, 4)}, want: ""},
		{kernel: "plain", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: make([]byte, 3)}, want: "3 bytes of parameters"},
		{kernel: "plain", l: Launch{Grid: grid(1, 0, 1), Block: grid(1, 1, 1), Params: make([]byte, 4)}, want: "may be 0"},
		{kernel: "plain", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 0, 1), Params: make([]byte, 4)}, want: "may be 0"},
		{kernel: "plain", l: Launch{Grid: grid(1, 65536, 1), Block: grid(1, 1, 1), Params: make([]byte, 4)}, want: "grid"},
		{kernel: "plain", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 65), Params: make([]byte, 4)}, want: "block"},
		{kernel: "plain", l: Launch{Grid: grid(1, 1, 1), Block: grid(1024, 2, 1), Params: make([]byte, 4)}, want: "2048 threads, at most 1024"},
		{kernel: "plain", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: make([]byte, 4), SharedBytes: 1 << 31}, want: "shared"},
		{kernel: "req", l: Launch{Grid: grid(1, 1, 1), Block: grid(32, 2, 1)}, want: ""},
		{kernel: "req", l: Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1)}, want: "requires"},
		{kernel: "most", l: Launch{Grid: grid(1, 1, 1), Block: grid(65, 1, 1)}, want: "at most 64"},
		{kernel: "shared", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1)}, want: ""},
		{kernel: "shared", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), SharedBytes: 10000}, want: "shared"},
		{kernel: "stack", l: Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1)}, want: "local memory"},
	} {
		err := Run(kernel(t, p, c.kernel), c.l, m, new(Control), 1)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, gpu.ErrInvalid)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, c.kernel)
	}
}

// Endless kernels end when they are told to, wherever they loop.
func TestStop(t *testing.T) {
	for name, c := range map[string]struct{ extra, body string }{
		"loop":      {extra: "", body: "L: bra L;"},
		"divergent": {extra: "", body: "L: setp.lt.u32 %p1, %r2, 5; @%p1 bra L; M: bra M;"},
		"two":       {extra: "", body: "L: add.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra L; bra L;"},
		"indexed":   {extra: "", body: "A: and.b32 %r4, %r2, 1; T: .branchtargets A, B; brx.idx %r4, T; B: bra A;"},
		"spin":      {extra: "", body: "L: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;"},
		"barrier":   {extra: "", body: "L: bar.sync 0; bra L;"},
		"calls":     {extra: ".func f() { ret; }", body: "L: call f; bra L;"},
		"tree":      {extra: ".func f(.reg .u32 %n)\n{ .reg .u32 %m; .reg .pred %p; setp.eq.u32 %p, %n, 0; @%p ret; sub.u32 %m, %n, 1; call f, (%m); call f, (%m); ret; }", body: "call f, (60);"},
	} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", source(c.extra, c.body), m), "k")
			m.Map(exectest.BufA, 8192)
			ctl := new(Control)
			done := make(chan error)
			go func() {
				done <- Run(k, Launch{Grid: grid(5, 1, 1), Block: grid(96, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(0))}, m, ctl, 2)
			}()
			time.Sleep(5 * time.Millisecond) // most are in their loop by then; the others are stopped as well
			ctl.Stop(gpu.LostTimeout)
			ctl.Stop(gpu.LostDevice)
			e := lost(t, <-done)
			require.Equal(t, gpu.LostTimeout, e.Cause)
			require.Equal(t, gpu.LostTimeout, ctl.Stopped())
		})
	}
}

// Workers see by themselves that the time is over, in loops that do not wait for
// other warps.
func TestDeadline(t *testing.T) {
	for name, body := range map[string]string{
		"loop":      "L: bra L;",
		"divergent": "L: setp.lt.u32 %p1, %r2, 5; @%p1 bra L; M: bra M;",
		"spin":      "L: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;",
	} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
			m.Map(exectest.BufA, 8192)
			ctl := &Control{Deadline: time.Now().Add(time.Millisecond)}
			err := Run(k, Launch{Grid: grid(5, 1, 1), Block: grid(96, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(0))}, m, ctl, 2)
			require.Equal(t, gpu.LostTimeout, lost(t, err).Cause)
		})
	}
}

// A fault in one block ends the others, which would run for ever.
func TestFaultEndsAll(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", "setp.ne.u32 %p1, %r3, 3; L: @%p1 bra L; trap;"), m), "k")
	err := Run(k, Launch{Grid: grid(8, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(0), uint64(0), uint32(0))}, m, new(Control), 4)
	e := lost(t, err)
	require.Equal(t, gpu.LostTrap, e.Cause)
	require.Equal(t, [3]uint32{3, 0, 0}, e.Block)
}

// After FlushTLB no worker uses an old translation.
func TestFlushTLB(t *testing.T) {
	m := exectest.NewMemory(4096)
	// Copies [a] to [b] until [a] is not 0.
	k := kernel(t, build(t, "k.ptx", source("", "L: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L; st.global.u32 [%rd2], %r4;"), m), "k")
	m.Map(exectest.BufA, 4096)
	m.Map(exectest.BufB, 4096)
	ctl := new(Control)
	ctl.FlushTLB() // nothing runs
	done := make(chan error)
	go func() {
		done <- Run(k, Launch{Grid: grid(2, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(0))}, m, ctl, 2)
	}()
	for range 10 {
		m.Mu.Lock()
		m.Pages[exectest.BufA] = make([]byte, 4096) // another page of zeros
		m.Mu.Unlock()
		ctl.FlushTLB()
	}
	page := make([]byte, 4096)
	page[0] = 42
	m.Mu.Lock()
	m.Pages[exectest.BufA] = page
	m.Mu.Unlock()
	ctl.FlushTLB()
	require.NoError(t, <-done)
	require.Equal(t, []uint32{42}, readAll[uint32](m, exectest.BufB, 1))
	ctl.FlushTLB()
}

// Memory that vanishes under a kernel, as a guest's may, ends the kernel.
func TestVanishedMemory(t *testing.T) {
	fd, err := unix.MemfdCreate("exec", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	require.NoError(t, unix.Ftruncate(fd, 4096))
	page, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(page)) }()
	require.NoError(t, unix.Ftruncate(fd, 0))

	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", "ld.global.u32 %r4, [%rd4];"), m), "k")
	m.Pages[exectest.BufA], m.Prot[exectest.BufA] = page, gpu.ProtRead
	err = Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
	require.Equal(t, gpu.LostDevice, lost(t, err).Cause)
}

func TestBadSpace(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", "ld.global.u32 %r4, [%rd4];"), m), "k")
	m.Pages[exectest.BufA] = make([]byte, 100)
	err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
	require.Equal(t, gpu.LostDevice, lost(t, err).Cause)
	require.ErrorContains(t, err, "bad page")
}

func TestLink(t *testing.T) {
	mod, err := verified("k.ptx", []byte(`.version 7.0
.target sm_70
.address_size 64
.func f() { ret; }
.global .u32 x = 7;
.const .align 16 .b8 bytes[5] = {1, 2, 3};
.global .align 8 .u64 ptrs[3] = {x, generic(bytes)+2, f};
.global .f64 d = 0d3ff8000000000000;
.global .f32 v[2][2] = {{1.0, 2.0}, {3.0}};
.visible .entry k(.param .u64 out) { .reg .u64 %o, %a; .reg .u32 %r;
 ld.param.u64 %o, [out]; ld.global.u64 %a, [ptrs]; ld.u32 %r, [%a]; st.global.u32 [%o], %r; ld.const.u8 %r, [bytes+1]; st.global.u32 [%o+4], %r; ret; }
`))
	require.NoError(t, err)
	p, err := Compile(mod)
	require.NoError(t, err)
	_, _, ok := p.Global("x")
	require.False(t, ok, "not linked yet")
	size, align := p.DataBytes()
	require.EqualValues(t, 8+8+24+8+16, size)
	k := kernel(t, p, "k")
	require.ErrorIs(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: make([]byte, 8)}, exectest.NewMemory(4096), new(Control), 1), gpu.ErrInvalid)
	_, err = p.Link(align / 2)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	image, err := p.Link(dataBase)
	require.NoError(t, err)
	require.Len(t, image, int(size))
	_, err = p.Link(dataBase)
	require.ErrorIs(t, err, gpu.ErrInvalid)

	m := exectest.NewMemory(4096)
	m.Write(dataBase, image)
	m.Map(exectest.BufA, 4096)
	addr, n, ok := p.Global("ptrs")
	require.True(t, ok)
	require.EqualValues(t, 24, n)
	x, _, _ := p.Global("x")
	bytes, _, _ := p.Global("bytes")
	require.Equal(t, []uint64{x, bytes + 2, ir.FuncBase}, readAll[uint64](m, addr, 3))
	v, _, _ := p.Global("v")
	require.Equal(t, []float32{1, 2, 3, 0}, readAll[float32](m, v, 4))
	runKernel(t, k, Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA))}, m, 1)
	require.Equal(t, []uint32{7, 2}, readAll[uint32](m, exectest.BufA, 2))
	_, ok = p.Kernel("f")
	require.False(t, ok)
}

// A Program serves many runs at a time.
func TestConcurrentRuns(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", "atom.global.add.u32 %r4, [%rd1], 1;"), m), "k")
	m.Map(exectest.BufA, 4096)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			errs[i] = Run(k, Launch{Grid: grid(10, 1, 1), Block: grid(100, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 2)
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []uint32{8000}, readAll[uint32](m, exectest.BufA, 1))
}

func TestAttributes(t *testing.T) {
	p := build(t, "k.ptx", []byte(`.version 7.0
.target sm_70
.address_size 64
.shared .align 16 .b8 one[1000];
.shared .b8 two[2000];
.extern .shared .align 16 .b8 dyn[];
.const .b8 c[12];
.func touch() { st.shared.u8 [two], 1; ret; }
.entry a(.param .u8 x, .param .u64 y, .param .align 16 .b8 z[20]) .maxntid 128 { .local .b8 l[20]; st.shared.u8 [one], 1; ret; }
.entry b() { st.shared.u8 [dyn], 1; call touch; ret; }
.entry both() { st.shared.u8 [one], 1; call touch; ret; }
`), exectest.NewMemory(4096))
	a := kernel(t, p, "a").Attributes()
	require.Equal(t, []gpu.Param{{Offset: 0, Size: 1}, {Offset: 8, Size: 8}, {Offset: 16, Size: 20}}, a.Params)
	require.Equal(t, 36, a.ParamBytes)
	require.Equal(t, 1000, a.SharedBytes)
	require.Equal(t, 12, a.ConstBytes)
	require.Equal(t, 32, a.LocalBytes)
	require.Equal(t, 128, a.MaxThreads)
	require.GreaterOrEqual(t, kernel(t, p, "b").Attributes().SharedBytes, 2000)
	require.Equal(t, 3000, kernel(t, p, "both").Attributes().SharedBytes)
}
