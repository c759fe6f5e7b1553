package gpuvm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// storesKernel has a kernel k that writes a value to n words from an address on.
const storesKernel = `.version 6.3
.target sm_70
.address_size 64
.visible .entry k(.param .u64 to, .param .u64 value, .param .u64 n) {
	.reg .b64 %rd<4>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [to];
	ld.param.u64 %rd2, [value];
	ld.param.u64 %rd3, [n];
again:
	st.global.u64 [%rd1], %rd2;
	add.u64 %rd1, %rd1, 8;
	sub.u64 %rd3, %rd3, 1;
	setp.ne.u64 %p1, %rd3, 0;
	@%p1 bra again;
	ret;
}
`

// stores has a kernel on channel 0 write words, and returns the channel's state when it is idle.
func stores(vm *VM, to, value, n uint64) uint32 {
	const module, name, answer = 0x60000, 0x62000, 0x64000
	at, _ := vm.claim(module)
	copy(vm.agg.vram.Bytes(at, hw.SmallPage), storesKernel)
	put(vm, name, 'k')
	low := func(v uint64) uint32 { return uint32(v) }
	high := func(v uint64) uint32 { return uint32(v >> 32) }
	fetch(vm,
		hw.OpLoad|6<<16, 1, uint32(len(storesKernel)), channelVA+module, 0, channelVA+answer, 0,
		hw.OpLink|6<<16, 1, 0, channelVA+0x66000, 0, channelVA+answer, 0,
		hw.OpFind|8<<16, 1, 5, channelVA+name, 0, 1, 0, channelVA+answer, 0,
		hw.OpLaunch|16<<16, 1, 5, 1, 1, 1, 1, 1, 1, 0, 24, low(to), high(to), low(value), high(value), low(n), high(n))
	put(vm, atIndirect+8, vm.word(atIndirect))
	put(vm, atIndirect+16, vm.word(atIndirect))
	bindChannel(vm, 0, atDirectory)
	vm.Write(hw.BAR1, hw.ControlPut, 1)
	for {
		if s := vm.Read(hw.BAR0, hw.RegState); s&hw.StateBusy == 0 {
			return s
		}
	}
}

// A kernel overwrites the page tables and the descriptor of its own VM, through its own mapping, with what
// names other memory. None of it is reached then, and the channel that tries is halted.
func TestKernelOverwritesItsTables(t *testing.T) {
	for _, name := range []string{"fv", "fv-opt", "pv", "nested"} {
		a := newAggregator(t, 2, softgpu.Config{VRAMBytes: 128 << 20})
		other, _ := newVM(t, a, name, 8<<20)
		vm, _ := newVM(t, a, name, 8<<20)
		memory := a.vram.Bytes(other.base, other.size)
		copy(memory, bytes.Repeat([]byte{0xa5}, 1<<20))
		kept := bytes.Clone(memory)
		if vm.mode.PV {
			callAll(vm)
		} else {
			mapAll(vm)
		}
		const va = channelVA + hw.DirectorySpan
		put(vm, atDirectory+va/hw.DirectorySpan*hw.EntryBytes, uint64(hw.MakePDE(atSecond+hw.SmallTable, atSecond)))
		if vm.mode.PV { // a channel keeps the directory that it was given
			require.NotNil(t, vm.channels[0].granted)
		}
		for _, addr := range []uint64{vm.size, other.base + vm.size, 1<<40 - hw.SmallPage, vm.ram + 8<<20} {
			for _, target := range []hw.Target{hw.TargetVRAM, hw.TargetSystem} {
				if target == hw.TargetVRAM && addr < vm.size {
					continue // its own
				}
				entry := uint64(hw.MakePTE(target, addr, false))
				require.Zero(t, stores(vm, channelVA+atSecond, entry, 512)&hw.StateFaulty, name)
				require.Equal(t, entry, vm.word(atSecond+511*8), "%s: the kernel wrote its own table", name)
				flushTable(vm, atDirectory)
				require.NotZero(t, stores(vm, va, 7, 1)&hw.StateFaulty, "%s: 0x%x", name, addr)
			}
		}
		require.Zero(t, stores(vm, channelVA+atDescriptor+hw.DescDirectory, other.base+vm.size, 1)&hw.StateFaulty)
		require.Equal(t, other.base+vm.size, vm.word(atDescriptor+hw.DescDirectory))
		activate(vm, 0)
		flushTable(vm, atDirectory)
		require.True(t, bytes.Equal(kept, memory), name)
		sound(t, vm)
	}
}
