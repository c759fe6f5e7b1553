package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu/softgpu"
)

// A stream waits for a word that another stream writes, and meanwhile neither keeps the GPU busy
// nor holds up other streams.
func TestStreamsWaitForWords(t *testing.T) {
	h := startHost(t, softgpu.Config{SMs: 1})
	p := h.driverProgram(t)
	const nonBlocking = 1
	waiter, writer := p.handle("cuStreamCreate", nonBlocking), p.handle("cuStreamCreate", nonBlocking)
	memory := p.handle("cuMemAlloc_v2", 64)
	p.call("cuMemsetD32_v2", memory, 0, 16)
	p.call("cuCtxSynchronize") // the two streams do not wait for the legacy stream, which sets the memory

	// When the test has failed, the end of the program would wait for the stream.
	t.Cleanup(func() { p.result("cuStreamWriteValue64_v2", writer, memory, 1<<40+1, 0) })
	p.call("cuStreamWaitValue64_v2", waiter, memory, 1<<40, 0)
	p.call("cuMemsetD32Async", memory+8, 5, 1, waiter)
	p.call("cuMemsetD32Async", memory+16, 6, 1, writer)
	p.call("cuStreamSynchronize", writer)
	before := h.device.Stats()
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, cuda.ErrNotReady, p.result("cuStreamQuery", waiter))
	after := h.device.Stats()
	require.Equal(t, before.ComputeBusy, after.ComputeBusy)
	require.Equal(t, before.CopyBusy, after.CopyBusy)

	p.call("cuStreamWriteValue64_v2", writer, memory, 1<<40+1, 0)
	p.call("cuStreamSynchronize", waiter)
	p.call("cuMemcpyDtoH_v2", p.out, memory+8, 8)
	require.EqualValues(t, 5, p.mem.Word(p.out))
}

// A program that ends while a stream of it waits leaves nothing behind.
func TestProgramEndsWhileAStreamWaits(t *testing.T) {
	h := startHost(t, softgpu.Config{SMs: 1})
	p := newProgram(t, h.open(t))
	_, err := p.Exec(p.channel, drm.WordCmd{Addr: p.addr, Value: 0x5ca1ab1e, Size: 4, Op: drm.WaitEqual}.Append(nil), nil)
	require.NoError(t, err)
	time.Sleep(5 * time.Millisecond)
	require.NoError(t, p.Close())
	require.Eventually(t, func() bool { return h.device.Stats().Channels == 0 }, patience, time.Millisecond)
}
