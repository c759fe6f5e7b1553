package cuda

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu"
)

// newDevice initializes the driver. The end of the test closes it.
func newDevice(t *testing.T, g *fakeGPU) *Device {
	t.Helper()
	d, err := Init(g.opener)
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
func newContext(t *testing.T, g *fakeGPU) *Context {
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

func (c *Context) fake() *fakeFile { return c.file.(*fakeFile) }

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

// kernel adds a kernel to the device. Sizes are those of its parameters, each
// at a multiple of its size.
func (g *fakeGPU) kernel(name string, run func(f *fakeFile, params []byte) *gpu.LostError, sizes ...uint32) *fakeKernel {
	k := &fakeKernel{run: run}
	for _, n := range sizes {
		align := min(n, 8)
		at := (k.attr.ParamBytes + align - 1) / align * align
		k.attr.Params = append(k.attr.Params, drm.FunctionParam{Offset: at, Size: n})
		k.attr.ParamBytes = at + n
	}
	g.kernels[name] = k
	return k
}

// kernelAdd adds a kernel "add(ptr, n, v)": v is added to n int32 at ptr.
func (g *fakeGPU) kernelAdd() {
	g.kernel("add", func(f *fakeFile, p []byte) *gpu.LostError {
		n := uint64(binary.LittleEndian.Uint32(p[8:]))
		b, err := f.at(binary.LittleEndian.Uint64(p), n*4, true)
		if err != nil {
			return f.lost
		}
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], binary.LittleEndian.Uint32(b[i:])+binary.LittleEndian.Uint32(p[12:]))
		}
		return nil
	}, 8, 4, 4)
}

// kernelFault adds a kernel "fault" without parameters that loses the context.
func (g *fakeGPU) kernelFault(cause gpu.LostCause) {
	g.kernel("fault", func(*fakeFile, []byte) *gpu.LostError {
		return &gpu.LostError{Cause: cause, Kernel: "fault"}
	})
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
