package softgpu

import (
	gocontext "context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// TestMain fails the tests that leave goroutines of the device behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := goroutines(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// goroutines returns the stacks of the goroutines that the device started. It
// gives those that are about to end the time to do so.
func goroutines() (left string) {
	for range 30_000 {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		left = ""
		for stack := range strings.SplitSeq(string(buf), "\n\n") {
			if strings.Contains(stack, "created by pvdrm/gpu/") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
}

func testDevice(t testing.TB, config Config) *device {
	d, err := newDevice(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func testContext(t testing.TB, d *device) (*context, *channel) {
	c, err := d.NewContext(t.Name())
	require.NoError(t, err)
	ch, err := c.NewChannel()
	require.NoError(t, err)
	return c.(*context), ch.(*channel)
}

func submit(t testing.TB, ch gpu.Channel, cmds ...gpu.Command) <-chan gpu.Result {
	results := make(chan gpu.Result, 1)
	require.NoError(t, ch.Submit(cmds, func(r gpu.Result) { results <- r }))
	return results
}

func TestConfig(t *testing.T) {
	c, err := Config{}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, Config{VRAMBytes: 1 << 30, SMs: runtime.GOMAXPROCS(0), MaxChannels: 64, Capability: 90, LaunchLimit: time.Minute}, c)
	for _, bad := range []Config{
		{VRAMBytes: 1}, {VRAMBytes: 2 << 20}, {VRAMBytes: 4<<20 + 4096}, {VRAMBytes: 512 << 30},
		{SMs: -1}, {Number: -1}, {Number: 64}, {SMs: 1 << 20}, {MaxChannels: -1}, {MaxChannels: 5000}, {VRAMBytes: 4 << 20, MaxChannels: 1024},
	} {
		_, err := New(bad)
		require.ErrorIs(t, err, gpu.ErrInvalid, "%+v", bad)
	}
	for _, good := range []Config{{VRAMBytes: 4 << 20}, {Number: 3, VRAMBytes: 256 << 30, SMs: 1024, MaxChannels: 4096}} {
		d := testDevice(t, good)
		p := d.Properties()
		require.Equal(t, good.VRAMBytes, p.VRAMBytes)
		require.Equal(t, good.Number, p.Number)
		require.LessOrEqual(t, p.VRAM.Base+p.VRAM.Size, p.System.Base)
		require.LessOrEqual(t, p.System.Base+p.System.Size, modules.Base)
		require.LessOrEqual(t, modules.Base+modules.Size, uint64(hw.AddressMax))
	}
}

func TestDescriptors(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 8 << 20, MaxChannels: 4})
	c, first := testContext(t, d)
	_, err := c.NewChannel()
	require.NoError(t, err)
	read := func(number int) (words [5]uint64) {
		for i := range words {
			words[i] = d.vram.Word(uint64(number)*4096 + []uint64{0x100, 0x108, 0x200, 0x110, 0x118}[i])
		}
		return words
	}
	require.Equal(t, [5]uint64{hw.StateOpen, 0, c.space.directory, 0, 0}, read(0))
	require.Equal(t, [5]uint64{hw.StateOpen, 1, c.space.directory, 0, 0}, read(1))
	require.Equal(t, [5]uint64{}, read(2))
	require.NoError(t, (<-submit(t, first)).Err)
	require.NoError(t, (<-submit(t, first)).Err)
	require.Equal(t, [5]uint64{hw.StateOpen, 0, c.space.directory, 2, 2}, read(0))
	require.Error(t, (<-submit(t, first, &gpu.Timestamp{})).Err)
	require.Equal(t, [5]uint64{hw.StateHalted, 0, c.space.directory, 3, 3}, read(0))
	require.NoError(t, c.Close())
	require.Equal(t, [5]uint64{}, read(0))
	require.Equal(t, [5]uint64{}, read(1))
}

// Engines find the page tables through the descriptor, and trust nothing in it.
func TestDescriptorNamesTheDirectory(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 8 << 20})
	for _, directory := range []uint64{0, 1, 12345, 8<<20 - 8, 8 << 20, 1<<64 - 8} {
		c, ch := testContext(t, d)
		m, err := c.NewVRAM(4096)
		require.NoError(t, err)
		require.NoError(t, c.Map(vramBase, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
		stamp := &gpu.Timestamp{VA: vramBase}
		require.NoError(t, (<-submit(t, ch, stamp)).Err)
		d.vram.SetWord(hw.Descriptor(ch.number)+hw.DescDirectory, directory)
		var lost *gpu.LostError
		require.ErrorAs(t, (<-submit(t, ch, stamp)).Err, &lost)
		require.Equal(t, gpu.LostAddress, lost.Cause)
		require.NoError(t, c.Close())
	}
}

// longFill makes a context with a fill that takes very long: one memory of
// 16 MiB, mapped again and again over 4 GiB of addresses.
func longFill(t *testing.T, d *device) (*context, gpu.Memory, <-chan gpu.Result) {
	c, ch := testContext(t, d)
	const size = 16 << 20
	m, err := c.NewVRAM(size)
	require.NoError(t, err)
	for at := uint64(0); at < vramWindow; at += size {
		require.NoError(t, c.Map(vramBase+at, m, 0, size, gpu.ProtRead|gpu.ProtWrite))
	}
	before := d.Stats().CopyBytes
	results := submit(t, ch, &gpu.Fill{Dst: vramBase, Pattern: 0xff, Size: 1, Width: vramWindow, Height: 1})
	for d.Stats().CopyBytes == before {
		runtime.Gosched()
	}
	return c, m, results
}

func TestLongTransfersGiveWay(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 64 << 20})
	c, _, long := longFill(t, d)
	other, ch := testContext(t, d)
	m, err := other.NewVRAM(4096)
	require.NoError(t, err)
	require.NoError(t, other.Map(vramBase, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
	require.NoError(t, (<-submit(t, ch, &gpu.Timestamp{VA: vramBase})).Err)
	require.Empty(t, long, "the short one overtook the long one")
	require.NoError(t, c.Close())
	require.ErrorIs(t, (<-long).Err, gpu.ErrClosed)
	require.Less(t, d.Stats().CopyBytes, uint64(vramWindow))
}

func TestUnmapDuringTransfer(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 64 << 20})
	c, m, long := longFill(t, d)
	require.NoError(t, m.Close())
	free := d.vram.alloc
	ext, err := free(16 << 20)
	require.NoError(t, err)
	var lost *gpu.LostError
	require.ErrorAs(t, (<-long).Err, &lost)
	require.Equal(t, gpu.LostAddress, lost.Cause)
	require.True(t, lost.Write)
	for _, e := range ext {
		require.Equal(t, make([]byte, e.size), d.vram.Bytes(e.addr, e.size), "nothing was written after Close had returned")
	}
	d.vram.free(ext...)
	require.NoError(t, c.Close())
}

// Memory that its owner truncates away costs the context, not the process.
func TestSystemMemoryGone(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 8 << 20})
	fd, err := unix.MemfdCreate("pages", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	for name, touch := range map[string]func(c *context) gpu.Command{
		"fill": func(c *context) gpu.Command {
			return &gpu.Fill{Dst: systemBase, Pattern: 1, Size: 4, Width: 8192, Height: 1}
		},
		"timestamp": func(c *context) gpu.Command { return &gpu.Timestamp{VA: systemBase + 4096} },
		"kernel": func(c *context) gpu.Command {
			l := launchOf(t, c, touchPTX, "touch")
			l.Params = binary.LittleEndian.AppendUint64(nil, systemBase+4096)
			return l
		},
	} {
		require.NoError(t, unix.Ftruncate(fd, 8192))
		pages, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.NoError(t, err)
		c, ch := testContext(t, d)
		m, err := c.NewSystem([][]byte{pages})
		require.NoError(t, err)
		require.NoError(t, c.Map(systemBase, m, 0, 8192, gpu.ProtRead|gpu.ProtWrite))
		cmd := touch(c)
		require.NoError(t, (<-submit(t, ch, cmd)).Err, name)
		require.NoError(t, unix.Ftruncate(fd, 4096))
		var lost *gpu.LostError
		require.ErrorAs(t, (<-submit(t, ch, cmd)).Err, &lost, name)
		require.Equal(t, gpu.LostDevice, lost.Cause, name)
		require.NoError(t, c.Close())
		require.NoError(t, unix.Munmap(pages))
	}
	_, ch := testContext(t, d)
	require.NoError(t, (<-submit(t, ch)).Err)
}

const touchPTX = `.version 6.0
.target sm_50
.address_size 64
.visible .entry touch(.param .u64 p)
{
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	st.global.u64 [%a], %a;
	ret;
}
`

// launchOf loads PTX and launches one of its kernels with one thread.
func launchOf(t testing.TB, c *context, source, name string) *gpu.Launch {
	mod, err := c.LoadModule(gocontext.Background(), "test.ptx", []byte(source), nil)
	require.NoError(t, err)
	f, err := mod.Function(name)
	require.NoError(t, err)
	return &gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
}

// TestLargeParameters checks the parameters that a kernel may have by compute capability. The kernel
// writes the sum of them, which it reads through an address, and the last, which it reads by name.
func TestLargeParameters(t *testing.T) {
	source := func(n int) []byte {
		return fmt.Appendf(nil, `.version 8.1
.target sm_70
.address_size 64
.visible .entry last(.param .u64 p, .param .align 4 .b8 big[%d])
{
	.reg .u64 %%a, %%at; .reg .b32 %%r, %%n, %%sum; .reg .pred %%more;
	ld.param.u64 %%a, [p]; ld.param.u32 %%r, [big+%d];
	st.global.u32 [%%a], %%r;
	mov.b64 %%at, big; mov.u32 %%n, %d; mov.u32 %%sum, 0;
next:
	ld.param.u32 %%r, [%%at];
	add.u32 %%sum, %%sum, %%r; add.u64 %%at, %%at, 4; sub.u32 %%n, %%n, 4;
	setp.ne.u32 %%more, %%n, 0; @%%more bra next;
	st.global.u32 [%%a+4], %%sum;
	ret;
}
`, n-8, n-12, n-8)
	}
	for capability, most := range map[int]int{60: 4352, 70: 32764, 90: 32764} {
		c, ch := testContext(t, testDevice(t, Config{VRAMBytes: 64 << 20, Capability: capability}))
		require.Equal(t, most, c.dev.props.MaxParamBytes)
		m, err := c.newVRAM(4096)
		require.NoError(t, err)
		require.NoError(t, c.Map(vramBase, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
		for _, n := range []int{4096, 4352, 4356, 12248, 12252, 32764, 32768} {
			if n > most {
				_, err = c.LoadModule(gocontext.Background(), "more.ptx", source(n), nil)
				var refused *gpu.BuildError
				require.ErrorAs(t, err, &refused, "sm_%d, %d bytes", capability, n)
				continue
			}
			l, sum, last := launchOf(t, c, string(source(n)), "last"), uint32(0), uint32(0)
			l.Params = binary.LittleEndian.AppendUint64(nil, vramBase)
			for k := range uint32(n/4 - 2) {
				last = k*2654435761 + uint32(n)
				sum += last
				l.Params = binary.LittleEndian.AppendUint32(l.Params, last)
			}
			for way := range 4 {
				if l.Cooperative = way&1 != 0; way&2 != 0 && capability >= 90 {
					l.Cluster = [3]uint32{1, 1, 1}
				}
				require.NoError(t, (<-submit(t, ch, l)).Err)
				_, addr, _ := m.place(0)
				require.Equal(t, uint64(sum)<<32|uint64(last), c.dev.vram.Word(addr), "sm_%d, %d bytes", capability, n)
			}
		}
		_, err = c.LoadModule(gocontext.Background(), "more.ptx", source(most+4), nil)
		require.Error(t, err)
	}
}

const endless = `.version 6.0
.target sm_50
.address_size 64
.visible .entry spin()
{
again:
	bra again;
}
`

const empty = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n"

// What compiling in the background has taken is charged once, by the engine's share of it, to the command that
// ends next.
func TestCompilingIsCharged(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 8 << 20, SMs: 2})
	c, ch := testContext(t, d)
	l := launchOf(t, c, empty, "empty")
	d.compiling.Store(int64(2 * time.Hour))
	require.NoError(t, (<-submit(t, ch, l)).Err)
	busy := d.Stats().ComputeBusy
	require.GreaterOrEqual(t, busy, time.Hour)
	require.NoError(t, (<-submit(t, ch, l)).Err)
	require.Less(t, d.Stats().ComputeBusy, busy+time.Hour)
	require.Less(t, d.Stats().LaunchTime, time.Hour, "kernels took no longer")
}

func TestLaunchLimit(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 8 << 20, LaunchLimit: 20 * time.Millisecond})
	c, ch := testContext(t, d)
	l := launchOf(t, c, endless, "spin")
	l.Grid[0], l.Block[0] = 100, 256
	_, other := testContext(t, d)
	results := submit(t, ch, l)
	queued := submit(t, ch)
	r := <-results
	var lost *gpu.LostError
	require.ErrorAs(t, r.Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
	require.Equal(t, "spin", lost.Kernel)
	require.ErrorIs(t, (<-queued).Err, lost)
	require.Equal(t, error(lost), c.Err())
	require.NoError(t, (<-submit(t, other)).Err)
	st := d.Stats()
	require.Equal(t, uint64(1), st.Faults)
	require.GreaterOrEqual(t, st.ComputeBusy, 20*time.Millisecond)
}

// A kernel may run as long as only its own context waits for the engine. Another context gets
// the engine by preemption, but where time is modelled: there the limit ends the kernel.
func TestLimitWaiting(t *testing.T) {
	const limit = 500 * time.Millisecond // a kernel may get no processor for a part of it
	for _, modelled := range []bool{false, true} {
		d := testDevice(t, Config{VRAMBytes: 8 << 20, LaunchLimit: limit, LimitWaiting: true, ModelTime: modelled})
		c, ch := testContext(t, d)
		own, err := c.NewChannel()
		require.NoError(t, err)
		results := submit(t, ch, launchOf(t, c, endless, "spin"))
		queued := submit(t, own, launchOf(t, c, endless, "spin"))
		select {
		case r := <-results:
			require.Fail(t, "it ended", r.Err)
		case <-time.After(3 * limit):
		}
		other, waiting := testContext(t, d)
		next := submit(t, waiting, launchOf(t, other, empty, "empty"))
		if !modelled {
			require.NoError(t, (<-next).Err)
			require.Empty(t, results)
			continue
		}
		var lost *gpu.LostError
		require.ErrorAs(t, (<-results).Err, &lost)
		require.Equal(t, gpu.LostTimeout, lost.Cause)
		require.ErrorIs(t, (<-queued).Err, lost)
		require.NoError(t, (<-next).Err)
	}
}

// Another process that shares the GPU counts as another context does.
func TestLimitWaitingAtGate(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 8 << 20, LaunchLimit: 40 * time.Millisecond, LimitWaiting: true, Gate: sharedGate{newTestGate()}})
	c, ch := testContext(t, d)
	var lost *gpu.LostError
	require.ErrorAs(t, (<-submit(t, ch, launchOf(t, c, endless, "spin"))).Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
}

// TestSharedMemoryOfABlock runs kernels with as much shared memory as each capability has, static and
// dynamic, and refuses a byte more.
func TestSharedMemoryOfABlock(t *testing.T) {
	source := func(static int) string {
		return fmt.Sprintf(`.version 8.0
.target sm_50
.address_size 64
.extern .shared .align 4 .b8 more[];
.visible .entry last(.param .u64 p)
{
	.shared .align 4 .b8 s[%d];
	.reg .u64 %%a; .reg .b32 %%r, %%n; .reg .pred %%same;
	ld.param.u64 %%a, [p];
	mov.u32 %%r, s; mov.u32 %%n, more;
	setp.eq.u32 %%same, %%r, %%n;
	mov.u32 %%n, %%dynamic_smem_size;
	add.u32 %%r, %%r, %%n;
	st.shared.u32 [%%r+%d], 77;
	ld.shared.u32 %%r, [%%r+%d];
	st.global.u32 [%%a], %%r;
	ret;
}
`, static, static-4, static-4)
	}
	for capability, kib := range map[int]int{50: 48, 61: 48, 70: 96, 75: 64, 80: 163, 86: 99, 90: 227, 100: 227, 120: 99} {
		c, _ := testContext(t, testDevice(t, Config{VRAMBytes: 64 << 20, Capability: capability}))
		most := kib << 10
		require.Equal(t, most, c.dev.props.SharedPerBlock, "sm_%d", capability)
		m, err := c.newVRAM(4096)
		require.NoError(t, err)
		require.NoError(t, c.Map(vramBase, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
		_, addr, _ := m.place(0)
		for static, dynamic := range map[int]int{1024: most - 1024, most: 0} {
			ch, err := c.NewChannel() // which does not outlive the refused launch
			require.NoError(t, err)
			l := launchOf(t, c, source(static), "last")
			l.Params, l.SharedBytes = binary.LittleEndian.AppendUint64(nil, vramBase), uint32(dynamic)
			c.dev.vram.SetWord(addr, 0)
			require.NoError(t, (<-submit(t, ch, l)).Err)
			require.EqualValues(t, 77, c.dev.vram.Word(addr), "sm_%d, %d bytes of static .shared", capability, static)
			l.SharedBytes++
			require.ErrorContains(t, (<-submit(t, ch, l)).Err, "bytes of .shared", "sm_%d", capability)
		}
		_, err = c.LoadModule(gocontext.Background(), "more.ptx", []byte(source(most+4)), nil)
		require.ErrorContains(t, err, "bytes of .shared", "sm_%d", capability)
	}
}

// TestTargetsOfOneCapability loads PTX for some GPUs alone: sm_90a runs on 9.0 and nowhere else, sm_100f
// on 10.0 and the later ones of its family.
func TestTargetsOfOneCapability(t *testing.T) {
	for target, takes := range map[string]map[int]bool{
		"sm_90":   {80: true, 90: true, 100: true},
		"sm_90a":  {80: false, 90: true, 100: false, 120: false},
		"sm_100a": {90: false, 100: true, 103: false},
		"sm_100f": {90: false, 100: true, 103: true, 110: false, 120: false},
		"sm_103f": {100: false, 103: true},
		"sm_121f": {120: false, 121: true},
	} {
		for capability, want := range takes {
			err := Check(gocontext.Background(), Config{VRAMBytes: 8 << 20, Capability: capability}, "k.ptx", []byte(".version 9.0\n.target "+target+"\n.visible .entry k() { ret; }"))
			if want {
				require.NoError(t, err, "%s on %d", target, capability)
				continue
			}
			require.ErrorContains(t, err, "k.ptx:2:9: error: .target "+target+" is for compute capability", "on %d", capability)
		}
	}
}

func TestModuleLimits(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 8 << 20, Capability: 61})
	c, _ := testContext(t, d)
	before := d.Stats().VRAMUsed
	const header = ".version 6.0\n.target sm_50\n.address_size 64\n"
	for name, src := range map[string]string{
		"parameters": header + ".visible .entry f(.param .align 8 .b8 p[5000]) { ret; }",
		".shared":    header + ".visible .entry f() { .shared .b8 s[49153]; .reg .u32 %r; mov.u32 %r, s; ret; }",
		".const":     header + ".const .b8 c[65537];\n.visible .entry f() { .reg .u64 %r; mov.u64 %r, c; ret; }",
	} {
		_, err := c.LoadModule(gocontext.Background(), "big.ptx", []byte(src), nil)
		var build *gpu.BuildError
		require.ErrorAs(t, err, &build, name)
		require.NotEmpty(t, build.Diagnostics, name)
	}
	_, err := c.LoadModule(gocontext.Background(), "big.ptx", []byte(header+".visible .global .b8 g[16777216];\n.visible .entry f() { ret; }"), nil)
	require.ErrorIs(t, err, gpu.ErrNoMemory, "more than VRAM")
	require.Equal(t, before, d.Stats().VRAMUsed)
}
