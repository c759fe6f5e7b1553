package local

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// slowDevice is a device whose contexts take until their end to allocate.
type slowDevice struct {
	gpu.Device
	allocating chan struct{} // receives when one begins
}

type slowContext struct {
	gpu.Context
	device *slowDevice
	closed func()
	ended  chan struct{}
}

func (d *slowDevice) NewContext(label string) (gpu.Context, error) {
	ctx, err := d.Device.NewContext(label)
	ended := make(chan struct{})
	return &slowContext{Context: ctx, device: d, ended: ended, closed: sync.OnceFunc(func() { close(ended) })}, err
}

func (c *slowContext) NewVRAM(uint64) (gpu.Memory, error) {
	c.device.allocating <- struct{}{}
	<-c.ended
	return nil, gpu.ErrClosed
}

func (c *slowContext) Close() error {
	c.closed()
	return c.Context.Close()
}

// A client that waits for the GPU to be done with its memory, and gives up, is gone at once: the
// server does not wait first.
func TestHangUpWhileFreeing(t *testing.T) {
	s := newServer(t, quota.Limits{})
	device := &slowDevice{Device: s.cfg.Device, allocating: make(chan struct{})}
	s.cfg.Device = device
	p := s.join(t)
	pipes := p.hello()
	mem := p.attach()
	ring, err := hypercall.New(mem, hypercall.DefaultLayout)
	require.NoError(t, err)
	requests := ring.Requests()
	ok, err := requests.Put(hypercall.Header{Op: hypercall.OpGemNew, ID: 1}, hypercall.GemNew{Handle: 1, Size: 1 << 16}.Append(nil))
	require.NoError(t, err)
	require.True(t, ok)
	requests.Publish()
	_, err = pipes[0].Write([]byte{1})
	require.NoError(t, err)
	<-device.allocating
	other := p.ask(hypercall.LocalMessage{Op: hypercall.LocalGrant}, nil, memfd(t, 4096, wantSeals))
	require.NoError(t, p.say(hypercall.LocalMessage{Op: hypercall.LocalFree, ID: other.ID}.Encode()))
	require.NoError(t, p.sock.Close())
	require.NoError(t, pipes[0].Close())
	p.requireGone()
}
