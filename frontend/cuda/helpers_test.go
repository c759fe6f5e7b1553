package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/cudatest"
)

// newDevice initializes the driver. The end of the test closes it.
func newDevice(t *testing.T, g *cudatest.GPU) *Device {
	t.Helper()
	d, err := Init(g.Opener)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	dev, err := d.Device(0)
	require.NoError(t, err)
	return dev
}

// Tests count calls, which must not depend on the machine.
func init() { staged = stagingOn(false) }

// newContext makes a context that the end of the test destroys, unless the test
// did, and checks that nothing is left of it.
func newContext(t *testing.T, g *cudatest.GPU) *Context {
	t.Helper()
	c, err := newDevice(t, g).CreateContext()
	require.NoError(t, err)
	t.Cleanup(func() {
		if !c.destroyed {
			require.NoError(t, c.Destroy())
		}
	})
	return c
}

func (c *Context) fake() *cudatest.File { return c.file.(*cudatest.File) }

// isResult checks that err carries a Result and names the call.
func isResult(t require.TestingT, want Result, err error, words ...any) {
	var r Result
	require.ErrorAs(t, err, &r, words...)
	require.Equal(t, want, r, "%v", err)
	require.ErrorIs(t, err, want)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Regexp(t, `^cu[A-Z]`, err.Error())
}

func mustAlloc(t require.TestingT, c *Context, n uint64) DevicePtr {
	p, err := c.MemAlloc(n)
	require.NoError(t, err)
	return p
}

func mustHost(t require.TestingT, c *Context, n uint64) *HostMem {
	h, err := c.MemAllocHost(n)
	require.NoError(t, err)
	return h
}

func mustStream(t require.TestingT, c *Context) *Stream {
	s, err := c.NewStream()
	require.NoError(t, err)
	return s
}

func mustEvent(t require.TestingT, c *Context) *Event {
	e, err := c.NewEvent()
	require.NoError(t, err)
	return e
}

func readBack(t require.TestingT, c *Context, p DevicePtr, n int) []byte {
	b := make([]byte, n)
	require.NoError(t, c.MemcpyDtoH(b, p))
	return b
}

// noise is n bytes that look random and depend on the seed alone.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b) // never fails
	return b
}

func mustFunction(t require.TestingT, c *Context, name string) *Function {
	m, err := c.LoadModule(name+".ptx", []byte("kernel "+name))
	require.NoError(t, err)
	f, err := m.Function(name)
	require.NoError(t, err)
	return f
}

// one is a launch of one thread on a stream.
func one(s *Stream) LaunchConfig {
	return LaunchConfig{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Stream: s}
}
