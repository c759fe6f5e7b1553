package cuda

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
	"pvdrm/gpu"
)

func TestInitErrors(t *testing.T) {
	for errno, want := range map[syscall.Errno]Result{
		syscall.ENODEV: ErrNoDevice, syscall.ENOENT: ErrNoDevice, syscall.ENXIO: ErrNoDevice,
		syscall.EACCES: ErrNotPermitted, syscall.ENOMEM: ErrOutOfMemory,
	} {
		g := cudatest.NewGPU(t)
		g.FailNext(1, "open", errno)
		_, err := Init(g.Opener)
		isResult(t, want, err)
		require.ErrorIs(t, err, errno)
	}
	for _, method := range []string{"Version", "GetParam"} {
		g := cudatest.NewGPU(t)
		g.FailNext(1, method, syscall.ENODEV)
		_, err := Init(g.Opener)
		isResult(t, ErrDeviceUnavailable, err, method)
		require.ErrorIs(t, err, syscall.ENODEV)
	}
	g := cudatest.NewGPU(t)
	g.Name = "virtio_gpu"
	_, err := Init(g.Opener)
	isResult(t, ErrDriverMismatch, err)
	require.ErrorContains(t, err, "virtio_gpu")
}

func TestDevice(t *testing.T) {
	g := cudatest.NewGPU(t)
	d, err := Init(g.Opener)
	require.NoError(t, err)
	require.Equal(t, 1, d.DeviceCount())
	require.NoError(t, d.Close())
	require.Zero(t, g.Open)
	require.NoError(t, d.Close())
	major, _ := d.Version()
	require.Equal(t, drm.DriverMajor, major)
	for _, i := range []int{-1, 1} {
		_, err = d.Device(i)
		isResult(t, ErrInvalidDevice, err)
	}
	dev := newDevice(t, g)
	require.Equal(t, "Fake GPU", dev.Name())
	require.EqualValues(t, 64<<20, dev.TotalMem())
	major, minor := dev.ComputeCapability()
	require.Equal(t, [2]int{7, 5}, [2]int{major, minor})
	for a, want := range map[Attribute]int{
		AttributeWarpSize: 32, AttributeMaxGridDimX: 1<<31 - 1, AttributeMaxSharedMemoryPerBlock: 48 << 10,
		AttributeComputeCapabilityMajor: 7, AttributeUnifiedAddressing: 1, AttributeIntegrated: 0,
	} {
		got, err := dev.Attribute(a)
		require.NoError(t, err)
		require.Equal(t, want, got, "attribute %d", a)
	}
	_, err = dev.Attribute(12345)
	isResult(t, ErrInvalidValue, err)

	g.Params[drm.ParamL2Bytes] = 1 << 40
	got, err := newDevice(t, g).Attribute(AttributeL2CacheSize)
	require.NoError(t, err)
	require.Equal(t, 1<<31-1, got, "an int in C")
}

func TestCreateContextErrors(t *testing.T) {
	for method, calls := range map[string]int{"open": 1, "GetParam": 6, "ChannelAlloc": 1} {
		for n := 1; n <= calls; n++ {
			g := cudatest.NewGPU(t)
			dev := newDevice(t, g)
			if method == "open" {
				require.NoError(t, dev.driver.Close())
			}
			g.FailNext(n, method, syscall.EBUSY)
			_, err := dev.CreateContext()
			isResult(t, ErrDeviceUnavailable, err, method)
			require.ErrorIs(t, err, syscall.EBUSY)
			require.Zero(t, g.Open)
		}
	}
	for p, v := range map[drm.Param]uint64{
		drm.ParamVRAMPage: 3, drm.ParamVRAMSize: ^uint64(0), drm.ParamSystemPage: 0,
		drm.ParamSystemBase: 1, drm.ParamVRAMBase: ^uint64(0) &^ (2<<20 - 1),
	} {
		g := cudatest.NewGPU(t)
		dev := newDevice(t, g)
		g.Params[p] = v
		_, err := dev.CreateContext()
		isResult(t, ErrUnknown, err, "param %d", p)
		require.ErrorContains(t, err, "window")
		require.Zero(t, g.Open)
	}
}

// The first context has the file that Init opened, the second one of its own.
func TestFilesOfContexts(t *testing.T) {
	g := cudatest.NewGPU(t)
	dev := newDevice(t, g)
	a, err := dev.CreateContext()
	require.NoError(t, err)
	require.Len(t, g.Opened, 1)
	b, err := dev.CreateContext()
	require.NoError(t, err)
	require.Len(t, g.Opened, 2)
	require.NotSame(t, a.fake(), b.fake())
	require.NoError(t, a.Destroy())
	require.NoError(t, b.Destroy())

	// A backend that went away after Init is no reason to fail.
	dev = newDevice(t, g)
	g.Opened[2].Gone = true
	c, err := dev.CreateContext()
	require.NoError(t, err)
	require.Same(t, g.Opened[3], c.fake())
	require.NoError(t, c.Destroy())

	g.FailNext(1, "Close", syscall.EIO)
	d, err := Init(g.Opener)
	require.NoError(t, err)
	isResult(t, ErrOperatingSystem, d.Close())
}

func TestDestroyedContext(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.KernelAdd()
	c := newContext(t, g)
	f := mustFunction(t, c, "add")
	p, h, s, e := mustAlloc(t, c, 4096), mustHost(t, c, 4096), mustStream(t, c), mustEvent(t, c)
	require.NoError(t, c.MemcpyHtoD(p, make([]byte, 4096)))
	require.NoError(t, e.Record(s))
	require.NoError(t, c.Destroy())
	require.Nil(t, h.Bytes())
	for name, err := range everyCall(c, f, p, h, s, e) {
		isResult(t, ErrContextIsDestroyed, err, name)
	}
	isResult(t, ErrContextIsDestroyed, c.Destroy())
}

// everyCall calls everything that can fail, but Destroy.
func everyCall(c *Context, f *Function, p DevicePtr, h *HostMem, s *Stream, e *Event) map[string]error {
	b := make([]byte, 16)
	errs := map[string]error{
		"Synchronize":      c.Synchronize(),
		"MemFree":          c.MemFree(p),
		"MemcpyHtoD":       c.MemcpyHtoD(p, b),
		"MemcpyDtoH":       c.MemcpyDtoH(b, p),
		"MemcpyDtoD":       c.MemcpyDtoD(p, p+64, 16),
		"MemcpyDtoDAsync":  c.MemcpyDtoDAsync(p, p+64, 16, s),
		"MemcpyHtoDAsync":  c.MemcpyHtoDAsync(p, h, 0, 16, s),
		"MemcpyDtoHAsync":  c.MemcpyDtoHAsync(h, 0, p, 16, s),
		"Memcpy2D":         c.Memcpy2D(Copy2D{p, p + 64, 8, 8, 8, 2}),
		"MemsetD8":         c.MemsetD8(p, 0, 16),
		"MemsetD2D32Async": c.MemsetD2D32Async(p, 16, 0, 4, 1, s),
		"HostMem.Free":     h.Free(),
		"Launch":           f.Launch(one(nil), p, 1, 1),
		"Stream.Sync":      s.Synchronize(),
		"Stream.Query":     s.Query(),
		"Stream.WaitEvent": s.WaitEvent(e),
		"Stream.Destroy":   s.Destroy(),
		"Event.Record":     e.Record(nil),
		"Event.Sync":       e.Synchronize(),
		"Event.Query":      e.Query(),
		"Event.Destroy":    e.Destroy(),
		"Module.Unload":    f.m.Unload(),
	}
	_, errs["MemAlloc"] = c.MemAlloc(1)
	_, _, errs["MemAllocPitch"] = c.MemAllocPitch(1, 1, 4)
	_, _, errs["MemGetInfo"] = c.MemGetInfo()
	_, _, errs["MemGetAddressRange"] = c.MemGetAddressRange(p)
	_, errs["MemAllocHost"] = c.MemAllocHost(1)
	_, errs["LoadModule"] = c.LoadModule("m", []byte("kernel add"))
	_, errs["Function"] = f.m.Function("add")
	_, _, errs["Global"] = f.m.Global("v")
	_, errs["NewStream"] = c.NewStream()
	_, errs["NewEvent"] = c.NewEvent()
	_, errs["Elapsed"] = e.Elapsed(e)
	return errs
}

// The table of causes is compared with gpu's, which this package must not import.
func TestLostCauses(t *testing.T) {
	named := 0
	for cause := gpu.LostNone + 1; !strings.HasPrefix(cause.String(), "cause "); cause++ {
		require.NotEqual(t, ErrUnknown, lostResult(uint32(cause)), "%v", cause)
		named++
	}
	require.Equal(t, named, len(lostResults)-1)
	require.Equal(t, ErrUnknown, lostResult(0))
	require.Equal(t, ErrUnknown, lostResult(1<<31))
	for cause, want := range map[gpu.LostCause]Result{
		gpu.LostAddress: ErrIllegalAddress, gpu.LostAlign: ErrMisalignedAddress, gpu.LostInstruction: ErrIllegalInstruction,
		gpu.LostTrap: ErrAssert, gpu.LostTimeout: ErrLaunchTimeout, gpu.LostStack: ErrHardwareStack, gpu.LostDevice: ErrLaunchFailed,
	} {
		require.Equal(t, want, lostResult(uint32(cause)), "%v", cause)
	}
}

func TestLostContext(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		for cause, want := range map[gpu.LostCause]Result{gpu.LostAddress: ErrIllegalAddress, gpu.LostTimeout: ErrLaunchTimeout} {
			t.Run(fmt.Sprintf("%v lazy %v", cause, lazy), func(t *testing.T) {
				g := cudatest.NewGPU(t)
				g.KernelAdd()
				g.KernelFault(uint32(cause))
				g.Lazy = lazy
				c := newContext(t, g)
				f := mustFunction(t, c, "add")
				p, h, s, e := mustAlloc(t, c, 4096), mustHost(t, c, 4096), mustStream(t, c), mustEvent(t, c)
				require.NoError(t, c.MemcpyHtoD(p, make([]byte, 4096)))
				require.NoError(t, e.Record(s))
				require.NoError(t, mustFunction(t, c, "fault").Launch(one(s)))

				err := c.Synchronize()
				isResult(t, want, err)
				require.ErrorIs(t, err, syscall.EIO)
				require.ErrorContains(t, err, "kernel fault")
				for name, err := range everyCall(c, f, p, h, s, e) {
					isResult(t, want, err, name)
					require.ErrorIs(t, err, syscall.EIO)
				}
				require.Equal(t, 1, g.Calls["LostStatus"], "asked once")
				require.NotNil(t, h.Bytes(), "the memory is the program's until Destroy")
				require.NoError(t, c.Destroy())
				require.Nil(t, h.Bytes())

				other, err := c.Device().CreateContext()
				require.NoError(t, err, "the device is not lost")
				require.NoError(t, other.Destroy())
			})
		}
	}
}

// A context that is lost with nobody looking says so when it is destroyed.
func TestLostAtDestroy(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Lazy = true
	g.KernelFault(uint32(gpu.LostTrap))
	c := newContext(t, g)
	mustAlloc(t, c, 100)
	require.NoError(t, mustFunction(t, c, "fault").Launch(one(nil)))
	err := c.Destroy()
	isResult(t, ErrAssert, err)
	require.Zero(t, g.Open)
}

func TestBackendGone(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p := mustAlloc(t, c, 4096)
	c.fake().Gone = true
	err := c.MemcpyDtoH(make([]byte, 1), p)
	isResult(t, ErrDeviceUnavailable, err)
	require.ErrorIs(t, err, syscall.ENODEV)
	c.fake().Gone = false
	isResult(t, ErrDeviceUnavailable, c.Synchronize(), "it stays lost")
	c.fake().Gone = true
	require.NoError(t, c.Destroy())
	require.Zero(t, g.Open)
}

// EIO where the cause cannot be asked for.
func TestLostWithoutCause(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	require.NoError(t, c.MemsetD8(mustAlloc(t, c, 16), 1, 16))
	c.fake().AsyncErr = syscall.EIO
	g.FailNext(1, "LostStatus", syscall.ENODEV)
	err := c.Synchronize()
	isResult(t, ErrUnknown, err)
	require.ErrorIs(t, err, syscall.EIO)
	isResult(t, ErrUnknown, c.Synchronize())
}

// What a queued mapping did wrong is told by the next wait, once.
func TestAsyncError(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	require.NoError(t, c.MemsetD8(mustAlloc(t, c, 16), 1, 16))
	c.fake().AsyncErr = syscall.ENOMEM
	isResult(t, ErrOutOfMemory, c.Synchronize())
	require.NoError(t, c.Synchronize())
}

func TestResults(t *testing.T) {
	names := map[string]bool{}
	for r, text := range resultText {
		require.Regexp(t, `^CUDA_(SUCCESS|ERROR_[A-Z_]+)$`, text.name)
		require.NotEmpty(t, text.text)
		require.False(t, names[text.name], text.name)
		names[text.name] = true
		require.Contains(t, r.Error(), fmt.Sprintf("%s (%d)", r.String(), int(r)))
	}
	require.Equal(t, "CUresult 4711", Result(4711).String())
	for errno, want := range map[syscall.Errno]Result{
		syscall.EINVAL: ErrInvalidValue, syscall.ENOSPC: ErrOutOfMemory, syscall.ENOENT: ErrNotFound,
		syscall.ETIME: ErrNotReady, syscall.ENOTTY: ErrNotSupported, syscall.EPIPE: ErrOperatingSystem,
	} {
		require.Equal(t, want, resultOf(fmt.Errorf("x: %w", errno)))
	}
	require.Equal(t, ErrUnknown, resultOf(fmt.Errorf("no errno")))
	require.Equal(t, ErrInvalidPTX, resultOf(&drm.ModuleError{Err: syscall.EINVAL}))
	require.Equal(t, ErrOutOfMemory, resultOf(&drm.ModuleError{Err: syscall.ENOMEM}))
	require.Equal(t, ErrNotSupported, resultOf(&drm.ModuleError{Err: syscall.EOPNOTSUPP}))
}
