package card

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// Where the tests put things in VRAM, the first 4 MiB of which channels see at the same addresses.
const (
	atDescriptor = 0x10000 // and 4 KiB for each channel
	atControl    = 0x20000 // likewise
	atNotifier   = 0x30000 // and 16 bytes
	atIndirect   = 0x40000 // and 4 KiB
	atCommands   = 0x50000 // and 64 KiB
	atRunList    = 0x90000
	atData       = 0xa0000
	atDirectory  = 0x100000
	atTables     = 0x200000
	atModule     = 0x300000
	mapped       = 4 << 20

	vramBytes = 16 << 20
	channels  = 4
)

type rig struct {
	testing.TB
	*Card
}

func newRig(t testing.TB) rig {
	c, err := New(softgpu.Config{VRAMBytes: vramBytes, MaxChannels: channels, SMs: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return rig{t, c}
}

// bind makes page tables and descriptors, and lets all channels run.
func (r rig) bind() {
	v := r.VRAM()
	v.SetWord(atDirectory, uint64(hw.MakePDE(atTables+hw.SmallTable, atTables)))
	for at := uint64(0); at < mapped; at += hw.LargePage {
		v.SetWord(atTables+hw.SmallTable+at/hw.LargePage*8, uint64(hw.MakePTE(hw.TargetVRAM, at, false)))
	}
	for i := range uint64(channels) {
		d := atDescriptor + i*hw.DescBytes
		v.SetWord(d+hw.DescControl, atControl+i*hw.ControlBytes)
		v.SetWord(d+hw.DescIndirect, (atIndirect+i<<12)|3<<hw.IndirectLog)
		v.SetWord(d+hw.DescNotifier, atNotifier+i*hw.NotifierBytes)
		v.SetWord(d+hw.DescDirectory, atDirectory)
		v.SetWord(d+hw.DescLimit, hw.AddressMax-1)
		v.SetWord(atRunList+8*i, i)
		r.set(hw.RegChannel+8*i, hw.Valid|uint32(d>>12))
	}
	r.set(hw.RegControl, hw.ControlValid|1)
	r.set(hw.RegRunList, atRunList>>12)
	r.set(hw.RegRunListUpdate, channels)
}

func (r rig) set(reg uint64, v uint32)    { r.Write(hw.BAR0, reg, v) }
func (r rig) get(reg uint64) uint32       { return r.Read(hw.BAR0, reg) }
func (r rig) state(channel int) uint32    { return r.get(hw.RegState + 8*uint64(channel)) }
func (r rig) doorbell(channel int) uint64 { return uint64(1+channel)*hw.ControlBytes + hw.ControlPut }

// words is a command.
func words(op uint32, w ...uint32) (b []byte) {
	b = binary.LittleEndian.AppendUint32(b, op|uint32(len(w))<<16)
	for _, x := range w {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

// submit names commands by entry n of the indirect buffer and rings.
func (r rig) submit(channel int, n uint64, commands ...[]byte) {
	at := atCommands + uint64(channel)<<16
	var all []byte
	for _, c := range commands {
		all = append(all, c...)
	}
	copy(r.VRAM().Bytes(at, uint64(len(all))), all)
	r.VRAM().SetWord(atIndirect+uint64(channel)<<12+8*n, at|uint64(len(all)/4)<<hw.IndirectShift)
	r.Write(hw.BAR1, r.doorbell(channel), uint32(n+1)%8)
}

// idle waits until a channel has nothing to do.
func (r rig) idle(channel int) {
	for r.state(channel)&hw.StateBusy != 0 {
		time.Sleep(100 * time.Microsecond)
	}
}

func release(va, value uint32) []byte { return words(hw.OpRelease, va, 0, value, 0) }

func TestRegisters(t *testing.T) {
	r := newRig(t)
	require.Equal(t, uint32(hw.CardID), r.get(hw.RegID))
	require.Equal(t, uint32(channels), r.get(hw.RegCount))
	require.Equal(t, uint32(vramBytes>>20), r.get(hw.RegVRAM))
	for _, reg := range []uint64{hw.RegWindow, hw.RegRunList, hw.RegFlushTable, hw.RegBAR1, hw.RegBAR3, hw.RegControl} {
		r.set(reg, 5)
		require.Equal(t, uint32(5), r.get(reg), "0x%x", reg)
	}
	for _, reg := range []uint64{hw.RegID, hw.RegCount, hw.RegVRAM, hw.RegState, hw.RegFault, 0x1000, hw.RegChannel + 8*channels, hw.BAR0Bytes - 4} {
		before := r.get(reg)
		r.set(reg, ^before)
		require.Equal(t, before, r.get(reg), "0x%x", reg)
	}
	require.Zero(t, r.Refused())
}

func TestWindow(t *testing.T) {
	r := newRig(t)
	r.set(hw.RegWindow, 0x30000>>hw.WindowShift)
	r.Write(hw.BAR0, hw.WindowBase+0x128, 0x12345678)
	require.Equal(t, uint64(0x12345678), r.VRAM().Word(0x30128))
	r.VRAM().SetWord(0x30000+hw.WindowBytes-8, 7<<32)
	require.Equal(t, uint32(7), r.Read(hw.BAR0, hw.WindowBase+hw.WindowBytes-4))
	require.Equal(t, uint64(7<<32), r.ReadSize(hw.BAR0, hw.WindowBase+hw.WindowBytes-8, 8))
	r.set(hw.RegWindow, vramBytes>>hw.WindowShift)
	r.Write(hw.BAR0, hw.WindowBase, 1)
	require.Equal(t, ^uint32(0), r.Read(hw.BAR0, hw.WindowBase), "beyond VRAM")
	require.Equal(t, uint64(2), r.Refused())
}

func TestSizes(t *testing.T) {
	r := newRig(t)
	for _, a := range []struct {
		bar  int
		off  uint64
		size int
	}{
		{bar: 0, off: hw.RegWindow, size: 8}, {bar: 0, off: hw.RegWindow, size: 2}, {bar: 0, off: hw.RegWindow + 1, size: 4},
		{bar: 0, off: hw.WindowBase + 4, size: 8}, {bar: 0, off: hw.WindowBase, size: 1}, {bar: 0, off: hw.WindowBase, size: 0},
		{bar: 0, off: hw.WindowBase, size: -4}, {bar: 0, off: hw.BAR0Bytes, size: 4}, {bar: 1, off: 1<<64 - 4, size: 4},
		{bar: 2, off: 0, size: 4}, {bar: -1, off: 0, size: 4}, {bar: 3, off: hw.BAR3Bytes - 4, size: 8},
	} {
		before := r.Refused()
		require.Equal(t, ^uint64(0), r.ReadSize(a.bar, a.off, a.size), "%+v", a)
		r.WriteSize(a.bar, a.off, a.size, 1)
		require.Equal(t, before+2, r.Refused(), "%+v", a)
	}
	require.Zero(t, r.get(hw.RegWindow))
	require.Zero(t, r.VRAM().Word(0))
}

// An aperture shows VRAM through its tables, keeps translations until they are flushed, and shows
// no system memory.
func TestAperture(t *testing.T) {
	for _, bar := range []struct {
		number   int
		register uint64
	}{{hw.BAR1, hw.RegBAR1}, {hw.BAR3, hw.RegBAR3}} {
		r := newRig(t)
		v := r.VRAM()
		require.Equal(t, ^uint32(0), r.Read(bar.number, 0), "no descriptor")
		base, err := r.Host().Add(make([]byte, hw.SmallPage))
		require.NoError(t, err)
		v.SetWord(atDescriptor+hw.DescDirectory, atDirectory)
		v.SetWord(atDescriptor+hw.DescLimit, hw.LargePage-1)
		v.SetWord(atDirectory, uint64(hw.MakePDE(atTables+hw.SmallTable, atTables)))
		entry := func(i uint64, e hw.PTE) { v.SetWord(atTables+8*i, uint64(e)) }
		entry(0, hw.MakePTE(hw.TargetVRAM, 0x3000, false))
		entry(1, hw.MakePTE(hw.TargetVRAM, 0x4000, true))
		entry(2, hw.MakePTE(hw.TargetSystem, base, false))
		entry(512, hw.MakePTE(hw.TargetVRAM, 0x3000, false))
		r.set(bar.register, hw.Valid|atDescriptor>>12)
		r.Write(bar.number, 0x10, 7)
		require.Equal(t, uint64(7), v.Word(0x3010))
		r.Write(bar.number, 0x1010, 8)
		require.Zero(t, v.Word(0x4010), "read-only")
		require.Zero(t, r.Read(bar.number, 0x1010))
		require.Equal(t, ^uint32(0), r.Read(bar.number, 0x2000), "system memory")
		require.Equal(t, ^uint32(0), r.Read(bar.number, hw.LargePage), "beyond the limit")

		entry(0, hw.MakePTE(hw.TargetVRAM, 0x5000, false))
		require.Equal(t, uint32(7), r.Read(bar.number, 0x10), "not flushed")
		r.set(hw.RegFlushTable, atDirectory>>hw.DirectoryUnit+16)
		r.set(hw.RegFlush, hw.Valid)
		require.Equal(t, uint32(7), r.Read(bar.number, 0x10), "another directory was")
		r.set(hw.RegFlushTable, atDirectory>>hw.DirectoryUnit)
		r.set(hw.RegFlush, hw.Valid)
		require.Zero(t, r.Read(bar.number, 0x10))
		r.set(bar.register, 0)
		require.Equal(t, ^uint32(0), r.Read(bar.number, 0x10))
	}
}

// A channel fetches, runs in order, and shows how far it has come.
func TestSubmit(t *testing.T) {
	r := newRig(t)
	r.bind()
	v := r.VRAM()
	fill := words(hw.OpFill, atData, 0, 0, 0, 64, 0, 1, 0, 0x01010101, 4)
	move := words(hw.OpCopy, atData+64, 0, atData, 0, 0, 0, 0, 0, 64, 0, 1, 0)
	r.submit(1, 0, fill, move, release(atData+128, 9))
	r.idle(1)
	require.Equal(t, uint64(0x0101010101010101), v.Word(atData+64+56))
	require.Equal(t, uint64(9), v.Word(atData+128))
	require.Equal(t, uint32(1), r.Read(hw.BAR1, r.doorbell(1)-4), "get")
	for n := uint64(1); n < 20; n++ { // around the buffer
		r.submit(1, n%8, release(atData+128, uint32(n)))
		r.idle(1)
		require.Equal(t, n, v.Word(atData+128))
	}
	require.Equal(t, uint32(hw.StateBound|hw.StateRuns), r.state(1))
	require.NotZero(t, r.Stats().CopyBytes, "the counters are the engines'")
}

// Channels that are not in the run list wait.
func TestRunList(t *testing.T) {
	r := newRig(t)
	r.bind()
	r.VRAM().SetWord(atRunList, 1)
	r.VRAM().SetWord(atRunList+8, 1<<40) // no channel
	r.set(hw.RegRunListUpdate, 1<<31)    // more than there is room for
	r.set(hw.RegRunListUpdate, 2)
	r.submit(0, 0, release(atData, 1))
	r.submit(1, 0, release(atData+8, 2))
	r.idle(1)
	require.Zero(t, r.VRAM().Word(atData))
	require.Equal(t, uint64(2), r.VRAM().Word(atData+8))
	r.VRAM().SetWord(atRunList, 0)
	r.set(hw.RegRunListUpdate, 1)
	r.idle(0)
	require.Equal(t, uint64(1), r.VRAM().Word(atData))
}

// TestHalts has a channel do what is wrong, while another goes on.
func TestHalts(t *testing.T) {
	for _, c := range []struct {
		name     string
		commands []byte
		cause    uint32
		addr     uint64
	}{
		{name: "a copy from nowhere", commands: words(hw.OpCopy, atData, 0, mapped, 0, 0, 0, 0, 0, 8, 0, 1, 0), cause: hw.CauseAddress, addr: mapped},
		{name: "a release that is not aligned", commands: release(atData+4, 1), cause: hw.CauseCommand},
		{name: "no such command", commands: words(77, 0), cause: hw.CauseCommand},
		{name: "no such slot", commands: words(hw.OpUnload, hw.ModuleSlots), cause: hw.CauseCommand},
		{name: "too few words", commands: words(hw.OpCopy, 1, 2, 3), cause: hw.CauseCommand},
		{name: "too many words", commands: words(hw.OpRelease, atData, 0, 1, 0, 0), cause: hw.CauseCommand},
		{name: "words that are not there", commands: binary.LittleEndian.AppendUint32(nil, hw.OpNop|9<<16), cause: hw.CauseCommand},
		{name: "a launch without a module", commands: words(hw.OpLaunch, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0), cause: hw.CauseCommand},
		{name: "a launch of a kernel number that there is not", commands: words(hw.OpLaunch, 0, hw.KernelSlots, 1, 1, 1, 1, 1, 1, 0, 0), cause: hw.CauseCommand},
		{name: "a module from nowhere", commands: words(hw.OpLoad, 0, 64, mapped+4096, 0, atData, 0), cause: hw.CauseAddress, addr: mapped + 4096},
		{name: "a reply to nowhere", commands: words(hw.OpLoad, 0, 0, atData, 0, mapped+8, 0), cause: hw.CauseAddress, addr: mapped + 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.bind()
			v := r.VRAM()
			r.submit(2, 0, c.commands, release(atData, 1))
			r.idle(2)
			require.Equal(t, uint32(hw.StateBound|hw.StateRuns|hw.StateFaulty), r.state(2))
			require.Equal(t, c.cause, r.get(hw.RegFault+2*hw.FaultBytes+8))
			require.Equal(t, c.addr, uint64(r.get(hw.RegFault+2*hw.FaultBytes)))
			require.Equal(t, uint64(hw.Valid|c.cause), v.Word(atNotifier+2*hw.NotifierBytes))
			require.Equal(t, c.addr, v.Word(atNotifier+2*hw.NotifierBytes+8))
			require.Zero(t, v.Word(atData), "nothing runs behind a fault")
			r.submit(2, 1, release(atData, 1))
			r.submit(3, 0, release(atData+8, 3))
			r.idle(3)
			require.Equal(t, uint64(3), v.Word(atData+8), "other channels go on")
			require.Zero(t, v.Word(atData))
			r.set(hw.RegKill, 2)
			require.Equal(t, uint32(hw.StateRuns), r.state(2))
			r.set(hw.RegChannel+16, hw.Valid|(atDescriptor+2*hw.DescBytes)>>12)
			r.submit(2, 0, release(atData, 4))
			r.idle(2)
			require.Equal(t, uint64(4), v.Word(atData), "it can be bound again")
		})
	}
}

// What descriptors and indirect buffers say is not trusted.
func TestBadDescriptors(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ word, value uint64 }{
		{hw.DescDirectory, 1<<64 - 8}, {hw.DescDirectory, vramBytes}, {hw.DescDirectory, 3},
		{hw.DescIndirect, 63 << hw.IndirectLog}, {hw.DescIndirect, 0}, {hw.DescIndirect, mapped | 3<<hw.IndirectLog},
	} {
		r.bind()
		r.VRAM().SetWord(atDescriptor+c.word, c.value)
		r.submit(0, 2, release(atData, 1))
		r.idle(0)
		require.NotZero(t, r.state(0)&hw.StateFaulty, "%+v", c)
	}
	for _, control := range []uint64{1<<64 - 4096, vramBytes, 8} {
		r.bind()
		r.VRAM().SetWord(atDescriptor+hw.DescControl, control)
		require.Equal(t, ^uint32(0), r.Read(hw.BAR1, hw.ControlBytes))
		r.submit(0, 0, release(atData, 7))
		r.idle(0)
		require.Equal(t, uint64(7), r.VRAM().Word(atData), "the doorbell needs no memory")
	}
	r.bind()
	r.VRAM().SetWord(atDescriptor+hw.DescLimit, hw.LargePage-1)
	r.submit(0, 0, release(hw.LargePage-8, 7), release(hw.LargePage, 8))
	r.idle(0)
	require.Equal(t, uint64(7), r.VRAM().Word(hw.LargePage-8))
	require.Equal(t, uint32(hw.LargePage), r.get(hw.RegFault), "beyond the limit")
	r.bind()
	r.VRAM().SetWord(atIndirect, 1<<63|atCommands)
	r.Write(hw.BAR1, r.doorbell(0), 1)
	r.idle(0)
	require.Equal(t, uint32(hw.CauseCommand), r.get(hw.RegFault+8), "a reserved bit")
}

// A kernel that does not end is ended by RegKill, and its module's memory is given back.
func TestKillKernel(t *testing.T) {
	r := newRig(t)
	r.bind()
	v := r.VRAM()
	text := []byte(".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry spin() {\nl: bra.uni l;\n}\n")
	copy(v.Bytes(atModule, uint64(len(text))), text)
	copy(v.Bytes(atModule+4096, 4), "spin")
	load := words(hw.OpLoad, 1, uint32(len(text)), atModule, 0, atData, 0)
	link := words(hw.OpLink, 1, 0, 0x10000, 0, atData, 0)
	find := words(hw.OpFind, 1, 5, atModule+4096, 0, 4, 0, atData, 0)
	r.submit(0, 0, load, link, find, release(atData+4096, 1))
	r.idle(0)
	require.Equal(t, uint64(1), v.Word(atData+4096))
	require.Equal(t, uint64(hw.ReplyOK), v.Word(atData), "%s", v.Bytes(atData+hw.ReplyBytes, 200))
	require.NotZero(t, r.Host().Held())
	r.submit(0, 1, words(hw.OpLaunch, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0), release(atData+4096, 2))
	r.set(hw.RegFlushTable, atDirectory>>hw.DirectoryUnit)
	r.set(hw.RegFlush, hw.Valid) // while it runs, or before
	r.set(hw.RegKill, 0)
	require.Equal(t, uint64(1), v.Word(atData+4096))
	require.Zero(t, r.Host().Held())
	r.bind()
	r.submit(0, 0, words(hw.OpLoad, 1, 3, atModule, 0, atData, 0), words(hw.OpLink, 2, 0, 0, 0, atData+8192, 0))
	r.idle(0)
	require.Equal(t, uint32(hw.ReplyRefused), uint32(v.Word(atData)), "no PTX")
	require.Equal(t, uint32(hw.ReplyRefused), uint32(v.Word(atData+8192)), "no module")
	require.Zero(t, r.Host().Held())
}

// storeKernel is a module with a kernel k that writes its parameter to the address that it is.
const storeKernel = `.version 6.3
.target sm_70
.address_size 64
.visible .entry k(.param .u64 p) {
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.global.u64 [%rd1], %rd1;
	ret;
}
`

// launchStore loads storeKernel from atModule, and its name from behind that, and launches it.
func launchStore(p uint32) [][]byte {
	return [][]byte{
		words(hw.OpLoad, 1, uint32(len(storeKernel)), atModule, 0, atData, 0),
		words(hw.OpLink, 1, 0, 0x10000, 0, atData, 0),
		words(hw.OpFind, 1, 5, atModule+4096, 0, 1, 0, atData, 0),
		words(hw.OpLaunch, 1, 5, 1, 1, 1, 1, 1, 1, 0, 8, p, 0),
		release(atData, 1),
	}
}

// A kernel reaches what its channel maps. One that reaches further halts the channel.
func TestLaunch(t *testing.T) {
	r := newRig(t)
	r.bind()
	v := r.VRAM()
	for channel, p := range []uint32{atData + 4096, mapped + 8} {
		copy(v.Bytes(atModule, 4096), storeKernel)
		copy(v.Bytes(atModule+4096, 1), "k")
		r.submit(channel, 0, launchStore(p)...)
		r.idle(channel)
	}
	require.Equal(t, uint64(atData+4096), v.Word(atData+4096))
	require.Zero(t, r.state(0)&hw.StateFaulty)
	require.NotZero(t, r.state(1)&hw.StateFaulty)
	require.Equal(t, uint32(hw.CauseAddress), r.get(hw.RegFault+hw.FaultBytes+8))
	require.Equal(t, uint32(mapped+8), r.get(hw.RegFault+hw.FaultBytes))
	require.Zero(t, v.Word(mapped+8))
	require.Equal(t, uint64(2), r.Stats().Launches)
}

// waitKernel is a module with a kernel w that ends when the word at the address that it is given is not zero.
const waitKernel = `.version 6.3
.target sm_70
.address_size 64
.visible .entry w(.param .u64 p) {
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [p];
again:
	ld.volatile.global.u32 %r1, [%rd1];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra again;
	ret;
}
`

// A kernel that runs walks the directory that the descriptor has since the last flush, not the one with which
// it began: that one may be another machine's by then.
func TestDirectoryOfKernelThatRuns(t *testing.T) {
	const otherDirectory, otherTables, va, zero, set = 0x180000, 0x280000, mapped, mapped, mapped + hw.LargePage
	r := newRig(t)
	r.bind()
	v := r.VRAM()
	large := func(tables, va, addr uint64) {
		v.SetWord(tables+hw.SmallTable+va/hw.LargePage*8, uint64(hw.MakePTE(hw.TargetVRAM, addr, false)))
	}
	v.SetWord(otherDirectory, uint64(hw.MakePDE(otherTables+hw.SmallTable, otherTables)))
	for at := uint64(0); at < mapped; at += hw.LargePage {
		large(otherTables, at, at)
	}
	large(atTables, va, zero)
	large(otherTables, va, set)
	v.SetWord(set, 1)
	copy(v.Bytes(atModule, 4096), waitKernel)
	copy(v.Bytes(atModule+4096, 1), "w")
	r.submit(0, 0,
		words(hw.OpLoad, 1, uint32(len(waitKernel)), atModule, 0, atData, 0),
		words(hw.OpLink, 1, 0, 0x10000, 0, atData, 0),
		words(hw.OpFind, 1, 5, atModule+4096, 0, 1, 0, atData, 0),
		release(atData+4096, 1),
		words(hw.OpLaunch, 1, 5, 1, 1, 1, 1, 1, 1, 0, 8, va, 0))
	defer r.set(hw.RegKill, 0)
	launched := func() bool { return r.Stats().Launches == 1 }
	require.Eventually(t, launched, time.Minute, time.Millisecond, "%s", v.Bytes(atData+hw.ReplyBytes, 200))
	time.Sleep(10 * time.Millisecond) // the kernel has most likely begun; if it has not, it sees the new directory at once
	require.NotZero(t, r.state(0)&hw.StateBusy)
	v.SetWord(atDescriptor+hw.DescDirectory, otherDirectory)
	r.set(hw.RegFlushTable, otherDirectory>>hw.DirectoryUnit)
	r.set(hw.RegFlush, hw.Valid)
	require.Eventually(t, func() bool { return r.state(0)&hw.StateBusy == 0 }, time.Minute, time.Millisecond)
	require.Zero(t, r.state(0)&hw.StateFaulty)
}

// What is given back counts, also while others have more than there is.
func TestHeldMemory(t *testing.T) {
	d := newRig(t).NewDomain()
	require.True(t, d.Hold(10, 10))
	require.False(t, d.Hold(1, 10))
	require.True(t, d.Hold(-1, 5))
	require.Equal(t, int64(9), d.Held())
}
