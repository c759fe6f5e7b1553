package gpuvm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/hostmem"
	"pvdrm/internal/suite"
)

// Programs run without a part of the card, and take of it what they touch. What they had goes back.
func TestProgramsInFrames(t *testing.T) {
	for _, name := range []string{"fv", "fv-opt", "pv-multicall"} {
		a := newDynamic(t, softgpu.Config{VRAMBytes: 256 << 20})
		other, _ := newVM(t, a, name, hw.LargePage)
		put(other, 0, 5)
		mode, err := ModeOf(name)
		require.NoError(t, err)
		for range 2 {
			vm, ram := newVM(t, a, name, 64<<20)
			require.Equal(t, uint32(hw.MaxChannels), vm.Read(hw.BAR0, hw.RegCount), "a VM sees all channels")
			config := lowlevel.Config{Bus: vm, RAM: ram, Base: vm.Base(), Multi: mode.Multi}
			if mode.PV {
				config.Calls = vm
			}
			d, err := lowlevel.Open(config)
			require.NoError(t, err)
			for _, program := range []string{"nop", "madd"} {
				if raceDetector && program == "madd" {
					continue
				}
				r, err := suite.RunRaw(program, func() (suite.RawDevice, error) { return d.NewContext() }, suite.Options{})
				require.NoError(t, err)
				require.True(t, r.Verified, "%s: %s", program, r.Error)
			}
			require.Zero(t, vm.Counters().Refused)
			used := a.pool.Used()
			require.Greater(t, used, uint64(frameBytes))
			require.Less(t, used, vm.size, "it has what it touched")
			vm.Close()
			require.Equal(t, uint64(frameBytes), a.pool.Used(), "the other one's")
			require.Len(t, a.free, hw.MaxChannels)
		}
	}
}

// Frames and channels that are used up are refused, and are zero and free for the next VM.
func TestFramesEnd(t *testing.T) {
	a := newDynamic(t, softgpu.Config{VRAMBytes: 128 << 20})
	all := a.vram.Size() - a.start
	first, _ := newVM(t, a, "fv", hw.LargePage)
	a.part = all &^ (frameBytes - 1) // the second sees the whole card
	second, _ := newVM(t, a, "fv", hw.LargePage)
	window := func(vm *VM, addr uint64, v uint32) {
		set(vm, hw.RegWindow, uint32(addr>>hw.WindowShift))
		vm.Write(hw.BAR0, hw.WindowBase+addr&0xffff, v)
	}
	window(first, 0, 7)
	set(first, hw.RegWindow, 0x20)
	require.Zero(t, first.Read(hw.BAR0, hw.WindowBase), "what has no frame reads as zero, and takes none")
	require.Equal(t, uint64(frameBytes), a.pool.Used())
	for addr := uint64(0); addr < second.size; addr += frameBytes {
		window(second, addr, 9)
	}
	require.Equal(t, uint64(1), second.Counters().Refused, "the first has one of them")
	window(first, frameBytes, 1)
	require.Equal(t, uint64(1), first.Counters().Refused)
	require.Equal(t, uint32(7), uint32(first.word(0)))

	bind := func(vm *VM, i uint64) bool {
		set(vm, hw.RegChannel+hw.ChannelBytes*i, hw.Valid|uint32(atDescriptor>>12))
		return vm.Read(hw.BAR0, hw.RegState+hw.ChannelBytes*i)&hw.StateBound != 0
	}
	for i := range uint64(hw.MaxChannels - 1) {
		require.True(t, bind(second, i))
	}
	require.True(t, bind(first, 5))
	require.False(t, bind(first, 6), "the card has no more")
	set(second, hw.RegKill, 3)
	require.True(t, bind(first, 6))
	second.Close()
	for addr := uint64(frameBytes); addr < first.size; addr += frameBytes {
		window(first, addr, 1)
		require.Zero(t, first.word(addr+8))
	}
	require.Equal(t, 1, bytes.Count(dump(first)[:8], []byte{7}))
	_, err := NewDynamic(a.card, 2, 1<<40)
	require.Error(t, err)
	nested, err := ModeOf("nested")
	require.NoError(t, err)
	_, err = a.NewVM(nested, make([]byte, hw.SmallPage))
	require.ErrorIs(t, err, errNested)
}

// Memory that a guest has granted takes the place of frames when they are allocated, and is left when the
// VM ends.
func TestGrantedFrames(t *testing.T) {
	a := newDynamic(t, softgpu.Config{VRAMBytes: 128 << 20})
	mode, err := ModeOf("fv-opt")
	require.NoError(t, err)
	const granted = 3*frameBytes + hw.SmallPage
	file, err := hostmem.New(granted)
	require.NoError(t, err)
	defer file.Release()
	view := make([]byte, 4*(a.bar1.window+a.bar3.window)/hw.SmallPage)
	mem := file.Bytes()
	vm, err := a.NewGuest(mode, Memory{RAM: [][]byte{make([]byte, hw.LargePage)}, VRAM: [][]byte{mem[:hw.SmallPage], mem[hw.SmallPage:]}, View: view})
	require.NoError(t, err)
	for i, addr := range []uint64{8, frameBytes, 3 * frameBytes, 4*frameBytes + 8} {
		put(vm, addr, uint64(i+1))
	}
	require.Equal(t, []byte{1, 2, 3}, []byte{mem[8], mem[frameBytes], mem[3*frameBytes]})
	put(vm, granted, 4) // in the same frame, behind it
	vm.Close()
	require.Equal(t, byte(1), mem[8], "it is the guest's still")
	require.Zero(t, a.pool.Used())
	next, _ := newVM(t, a, "fv", hw.LargePage)
	for addr := uint64(0); addr < next.size; addr += frameBytes {
		at, ok := next.claim(addr)
		require.True(t, ok)
		require.Equal(t, frameBytes, bytes.Count(a.vram.Bytes(at, frameBytes), []byte{0}))
	}
}
