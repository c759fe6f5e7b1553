package gpuvm

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// A guest changes commands, entries of its indirect buffer, its descriptor and its tables while the card
// fetches and the Aggregator scans. Each is read once: a channel runs something of what was there, or halts,
// and nothing of another VM changes.
func TestChangesAfterTheDoorbell(t *testing.T) {
	halts := 0
	for _, name := range []string{"fv", "fv-opt", "pv", "nested"} {
		a := newAggregator(t, 2, softgpu.Config{VRAMBytes: 128 << 20})
		other, _ := newVM(t, a, name, 8<<20)
		put(other, 0, 0)
		memory := a.vram.Bytes(other.base, other.size)
		for i := range memory {
			memory[i] = 0xa5
		}
		kept := bytes.Clone(memory)
		vm, _ := newVM(t, a, name, 8<<20)
		if vm.mode.PV {
			callAll(vm)
		} else {
			mapAll(vm)
		}
		bindChannel(vm, 0, atDirectory)
		right := []uint32{hw.OpFill | 10<<16, channelVA + actorData, 0, 0, 0, 4096, 0, 1, 0, 7, 4, hw.OpRelease | 4<<16, channelVA + actorData, 0, 9, 0}
		fetch(vm, right...)
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for r := rand.New(rand.NewPCG(1, 7)); ; {
				select {
				case <-stop:
					return
				default:
				}
				words := append([]uint32(nil), right...)
				words[r.IntN(len(words))] = []uint32{0, r.Uint32(), channelVA + uint32(vm.size), 1 << 31, 0xffff}[r.IntN(5)]
				fetch(vm, words...)
				switch r.IntN(4) {
				case 0:
					put(vm, atIndirect, []uint64{0, r.Uint64(), channelVA + atCommands | 1<<61, channelVA + atCommands | 3<<hw.IndirectShift}[r.IntN(4)])
				case 1:
					put(vm, entryAt(atTables, r.Uint64N(vm.size)&^(hw.LargePage-1), hw.LargePage), hostileEntry(vm, r, hw.LargePage))
				case 2:
					put(vm, atDescriptor+[]uint64{hw.DescIndirect, hw.DescNotifier, hw.DescLimit, hw.DescControl}[r.IntN(4)], r.Uint64()>>r.IntN(64))
				}
			}
		})
		rounds := uint64(400)
		if testing.Short() || raceDetector {
			rounds = 100
		}
		for i := range rounds {
			if vm.Read(hw.BAR0, hw.RegState)&hw.StateFaulty != 0 {
				halts++
				bindChannel(vm, 0, atDirectory)
			}
			if !vm.mode.PV {
				flushTable(vm, atDirectory)
			}
			vm.Write(hw.BAR1, hw.ControlPut, uint32(1-i%2))
		}
		close(stop)
		all.Wait()
		vm.Close()
		require.True(t, bytes.Equal(kept, memory), name)
	}
	require.Positive(t, halts, "some were wrong")
}
