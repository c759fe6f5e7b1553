package serve_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/gpuvm"
	"pvdrm/backend/gpuvm/serve"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/hypercall"
	"pvdrm/hypercall/trap"
)

// FuzzRequests has a guest make requests, 24 bytes each, of which the last 8 are what it writes somewhere
// into its VRAM before. Whatever it does, it is answered, and another VM's memory stays as it is.
func FuzzRequests(f *testing.F) {
	c, err := card.New(softgpu.Config{VRAMBytes: 64 << 20})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, c.Close()) })
	a, err := gpuvm.New(c, 2)
	require.NoError(f, err)
	victim, err := a.NewVM(gpuvm.Modes[0], make([]byte, 4096))
	require.NoError(f, err)
	f.Cleanup(victim.Close)
	const marked = 256
	for i := range uint64(marked) {
		victim.Write(0, word(i), 0xa5a5a5a5)
	}
	request := func(kind trap.Kind, bar byte, off uint64, v uint32, poke uint64) []byte {
		b := binary.LittleEndian.AppendUint64([]byte{byte(kind), bar, 0, 0}, off)
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, v), poke)
	}
	f.Add(byte(3), bytes.Join([][]byte{request(trap.Write, 0, 0x3000, 1<<31, 0x1000_0000_0200), request(trap.Write, 3, 0, 1, 0)}, nil))
	f.Add(byte(5), request(trap.Call, 0, 16, 7, 1))
	f.Fuzz(func(t *testing.T, mode byte, b []byte) {
		h := newHostile(t)
		server := &serve.Server{Aggregator: a, Mode: gpuvm.Modes[int(mode)%len(gpuvm.Modes)], Log: zap.NewNop()}
		g, err := server.Attach(h, hypercall.Doorbell{Resource: idBox}, "fuzz")
		require.NoError(t, err)
		defer g.Close()
		box, err := trap.NewMailbox(h.grants[idBox].Bytes())
		require.NoError(t, err)
		open := trap.Request{Kind: trap.Open, Payload: trap.Grants{RAM: idRAM, VRAM: idVRAM, View: idView}.Encode()}
		require.False(t, h.request(t, g, box, open).Failed)
		vram := h.grants[idVRAM].Bytes()
		for n := 0; len(b) >= 24 && n < 64; n++ {
			poke := binary.LittleEndian.Uint64(b[16:])
			binary.LittleEndian.PutUint32(vram[poke%(1<<21)&^3:], uint32(poke>>32))
			r := trap.Request{Kind: trap.Kind(b[0] % 8), BAR: uint32(b[1] % 5), Off: binary.LittleEndian.Uint64(b[4:]), Value: binary.LittleEndian.Uint32(b[12:])}
			if r.Kind == trap.Call {
				r.Payload = b[:len(b)/24*24][:min(len(b)/24*24, trap.MaxPayload)]
			}
			h.request(t, g, box, r)
			b = b[24:]
		}
		for i := range uint64(marked) {
			require.Equal(t, uint32(0xa5a5a5a5), victim.Read(0, word(i)))
		}
	})
}
