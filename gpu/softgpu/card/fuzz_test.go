package card

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/hw"
)

// FuzzCommands runs hostile command words. Whatever they say, the channel comes to rest, and memory
// that it does not map stays as it is.
func FuzzCommands(f *testing.F) {
	r := newRig(f)
	f.Add(release(atData, 1))
	f.Add(words(hw.OpCopy, atData, 0, 0, 0, 0, 0, 0, 0, 64, 0, 1, 0))
	f.Add(words(hw.OpFill, atData, 0, 0, 0, 64, 0, 1, 0, 1, 4))
	f.Add(words(hw.OpLoad, 0, 8, atData, 0, atData, 0))
	f.Add(words(hw.OpLink, 0, 0, 0, 0, atData, 0))
	f.Add(words(hw.OpFind, 0, 0, atData, 0, 4, 0, atData, 0))
	f.Add(words(hw.OpLaunch, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0))
	f.Add(append(words(hw.OpUnload, 7), words(hw.OpNop)...))
	f.Add(bytes.Join(launchStore(atData+4096), nil))
	outside := r.VRAM().Bytes(mapped, vramBytes-mapped)
	marked := bytes.Repeat([]byte{0xa5}, len(outside))
	copy(outside, marked)
	f.Fuzz(func(t *testing.T, commands []byte) {
		commands = commands[:min(len(commands), 1<<12)&^3]
		clear(r.VRAM().Bytes(0, mapped))
		copy(r.VRAM().Bytes(atModule, 4096), storeKernel)
		copy(r.VRAM().Bytes(atModule+4096, 1), "k")
		r.bind()
		r.submit(0, 0, commands)
		r.idle(0)
		require.True(t, bytes.Equal(marked, outside))
		r.set(hw.RegKill, 0)
		require.Zero(t, r.Host().Held())
	})
}

// FuzzAccess makes hostile accesses of registers, apertures and doorbells, 16 bytes each.
func FuzzAccess(f *testing.F) {
	r := newRig(f)
	access := func(bar, size byte, off uint64, v uint32) []byte {
		b := binary.LittleEndian.AppendUint64([]byte{bar, size, 0, 0}, off)
		return binary.LittleEndian.AppendUint32(b, v)
	}
	f.Add(access(0, 4, hw.RegChannel, hw.Valid))
	f.Add(access(0, 4, hw.RegWindow, 3))
	f.Add(bytes.Join([][]byte{access(0, 4, hw.RegRunList, 0), access(0, 4, hw.RegRunListUpdate, 200), access(1, 4, 0x108c, 5), access(0, 4, hw.RegKill, 0)}, nil))
	f.Add(access(0, 4, hw.RegFlush, hw.Valid))
	f.Fuzz(func(t *testing.T, b []byte) {
		clear(r.VRAM().Bytes(0, vramBytes))
		r.bind()
		for i := 0; len(b) >= 16 && i < 64; i++ {
			bar, size, write := int(int8(b[0])), int(int8(b[1])), b[2]&1 == 0
			off, v := binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint32(b[12:])
			if write {
				r.WriteSize(bar, off, size, uint64(v)<<32|uint64(v))
			} else {
				r.ReadSize(bar, off, size)
			}
			b = b[16:]
		}
		for i := range channels {
			r.set(hw.RegKill, uint32(i))
			require.Zero(t, r.state(i)&^hw.StateRuns)
		}
	})
}
