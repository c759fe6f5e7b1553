//go:build amd64 && linux

package exec

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// spinning is a kernel that loads a word again and again, for ever.
const spinning = `.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 p) {
	.reg .u32 %r<3>; .reg .u64 %rd<3>; .reg .pred %p;
	ld.param.u64 %rd1, [p];
L:	ld.global.u32 %r1, [%rd1];
	add.u32 %r2, %r2, %r1;
	setp.ne.u32 %p, %r1, 12345;
	@%p bra L;
	st.global.u32 [%rd1], %r2;
	ret;
}`

// A kernel that loops in native code can be stopped, and is told of mappings
// that went.
func TestNativeStops(t *testing.T) {
	if err := NativeCode(); err != nil {
		t.Skip(err)
	}
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "spin.ptx", []byte(spinning), m), "spin")
	m.Map(exectest.BufA, 4096)
	ctl := new(Control)
	errs := make(chan error)
	go func() {
		errs <- Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1), Params: params(uint64(exectest.BufA)), Native: NativeAtOnce}, m, ctl, 1)
	}()
	ctl.FlushTLB()
	ctl.Stop(gpu.LostTimeout)
	var lost *gpu.LostError
	require.ErrorAs(t, <-errs, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
}

// Memory that vanishes under native code ends the kernel, and not the process.
func TestNativeLosesMemory(t *testing.T) {
	if err := NativeCode(); err != nil {
		t.Skip(err)
	}
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "spin.ptx", []byte(spinning), m), "spin")
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(page)) }()
	m.Pages[exectest.BufA], m.Prot[exectest.BufA] = page, gpu.ProtRead|gpu.ProtWrite
	errs := make(chan error)
	go func() {
		errs <- Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1), Params: params(uint64(exectest.BufA)), Native: NativeAtOnce}, m, new(Control), 1)
	}()
	require.NoError(t, unix.Mprotect(page, unix.PROT_NONE))
	var lost *gpu.LostError
	require.ErrorAs(t, <-errs, &lost)
	require.Equal(t, gpu.LostDevice, lost.Cause)
}

// A kernel may have barriers, and no register.
func TestNativeWithoutRegisters(t *testing.T) {
	for _, body := range []string{"barrier.cluster.arrive; barrier.cluster.wait;", "bar.sync 0;", "bar.warp.sync -1;"} {
		m := exectest.NewMemory(4096)
		const head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n"
		k := kernel(t, build(t, "k.ptx", []byte(head+body+"\nret;\n}\n"), m), "k")
		l := Launch{Grid: grid(2, 1, 1), Cluster: grid(2, 1, 1), Block: grid(64, 1, 1), Native: NativeAtOnce}
		require.NoError(t, Run(k, l, m, new(Control), 1), body)
	}
}
