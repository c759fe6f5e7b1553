package virtio_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/hypercall"
)

// These are contexts without memory of a guest, which needs a device: package component/pvdrm tests
// sessions through one.

// open makes a guest with one context. At the end of the test none may be open.
func open(t *testing.T) (*virtio.Guest, virtgpu.Context) {
	t.Helper()
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 16 << 20})
	require.NoError(t, err)
	g := &virtio.Guest{Device: device, Log: zap.NewNop()}
	t.Cleanup(func() {
		require.Zero(t, g.Open())
		for _, q := range g.Sessions().Quotas {
			require.Zero(t, q.Used, q.Resource)
		}
		require.NoError(t, device.Close())
	})
	c, err := g.NewContext(1, "test")
	require.NoError(t, err)
	require.Equal(t, 1, g.Open())
	return g, c
}

// wait waits for the end of a call, which calls done once.
func wait(t *testing.T, call func(done func(error))) error {
	t.Helper()
	ended := make(chan error, 2)
	call(func(err error) { ended <- err })
	select {
	case err := <-ended:
		require.Empty(t, ended, "it ends once")
		return err
	case <-time.After(time.Minute):
		require.Fail(t, "the call does not end")
		return nil
	}
}

func submit(t *testing.T, c virtgpu.Context, cmd []byte, fenced bool) error {
	t.Helper()
	return wait(t, func(done func(error)) { c.Submit(cmd, fenced, done) })
}

func shut(t *testing.T, c virtgpu.Context) {
	t.Helper()
	require.NoError(t, wait(t, c.Close))
}

func ring(op hypercall.DoorbellOp) []byte {
	return hypercall.Doorbell{Op: op, Resource: 7, Layout: hypercall.DefaultLayout}.Encode()
}

func TestDoorbellsOutOfOrder(t *testing.T) {
	_, c := open(t)
	for _, fenced := range []bool{false, true} {
		for _, cmd := range [][]byte{
			nil,
			[]byte("virgl"),
			make([]byte, 32),
			ring(hypercall.DoorbellKick)[:31],
			append(ring(hypercall.DoorbellKick), 0),
			ring(99),
			ring(hypercall.DoorbellKick),
			ring(hypercall.DoorbellArm),
		} {
			require.Error(t, submit(t, c, cmd, fenced), "%q", cmd)
		}
	}
	require.NoError(t, submit(t, c, ring(hypercall.DoorbellAttach), true))
	require.Error(t, submit(t, c, ring(hypercall.DoorbellAttach), true), "once")
	shut(t, c)
}

// A ring that is not there leaves a context without a session, in which nothing waits.
func TestContextWithoutSession(t *testing.T) {
	_, c := open(t)
	require.NoError(t, submit(t, c, ring(hypercall.DoorbellAttach), false))
	for range 3 {
		require.NoError(t, submit(t, c, ring(hypercall.DoorbellKick), false))
		require.NoError(t, submit(t, c, ring(hypercall.DoorbellArm), true))
		require.NoError(t, submit(t, c, ring(hypercall.DoorbellArm), false))
	}
	require.NoError(t, wait(t, func(done func(error)) { c.Detach(7, done) }), "its ring, that was never there")
	require.NoError(t, wait(t, func(done func(error)) { c.Detach(8, done) }))
	require.NoError(t, wait(t, func(done func(error)) { c.Transfer(virtgpu.Transfer{Resource: 7}, done) }))
	shut(t, c)
}

// Calls that arrive while the session is being made end in their order.
func TestCallsWhileAttaching(t *testing.T) {
	_, c := open(t)
	const calls = 20
	ended := make(chan int, calls)
	c.Submit(ring(hypercall.DoorbellAttach), false, func(error) {})
	for i := range calls {
		c.Detach(uint32(100+i), func(error) { ended <- i })
	}
	for i := range calls {
		require.Equal(t, i, <-ended)
	}
	shut(t, c)
}

func TestCloseAtOnce(t *testing.T) {
	g, c := open(t)
	shut(t, c)
	for i := range 10 {
		c, err := g.NewContext(uint32(2+i), "test")
		require.NoError(t, err)
		c.Submit(ring(hypercall.DoorbellAttach), false, func(error) {})
		shut(t, c)
	}
}

func TestCountsOfTheGuest(t *testing.T) {
	g, c := open(t)
	shut(t, c)
	require.Zero(t, g.Sessions().Total.Doorbells)
	g.Counts = func() (doorbells, interrupts uint64) { return 3, 4 }
	total := g.Sessions().Total
	require.EqualValues(t, 3, total.Doorbells)
	require.EqualValues(t, 4, total.Interrupts)
}
