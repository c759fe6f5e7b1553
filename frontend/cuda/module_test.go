package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
)

func TestModule(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.KernelAdd()
	c := newContext(t, g)
	m, err := c.LoadModule("dir/a.ptx", []byte("kernel add\nglobal v\n\x00\x00"))
	require.NoError(t, err)
	f, err := m.Function("add")
	require.NoError(t, err)
	again, err := m.Function("add")
	require.NoError(t, err)
	require.Same(t, f, again)
	require.Equal(t, 1, g.Calls["ModuleFunction"], "asked once")
	require.Equal(t, "add", f.Name())
	attr := f.Attributes()
	require.EqualValues(t, 16, attr.ParamBytes)
	attr.Params[0].Size = 99
	require.EqualValues(t, 8, f.Attributes().Params[0].Size, "a copy")

	_, err = m.Function("v")
	isResult(t, ErrNotFound, err)
	_, err = m.Function("sub")
	isResult(t, ErrNotFound, err)
	require.ErrorContains(t, err, `"sub"`)
	_, _, err = m.Global("add")
	isResult(t, ErrNotFound, err)

	for range 2 {
		p, n, err := m.Global("v")
		require.NoError(t, err)
		require.EqualValues(t, 64, n)
		require.NoError(t, c.MemcpyHtoD(p+4, []byte{1, 2, 3}))
		require.NoError(t, c.MemsetD8(p+63, 9, 1))
		b := readBack(t, c, p, 64)
		require.Equal(t, []byte{0, 1, 2, 3, 0}, b[3:8])
		require.Equal(t, byte(9), b[63])
		isResult(t, ErrInvalidValue, c.MemsetD8(p+63, 0, 2))
		isResult(t, ErrInvalidValue, c.MemFree(p))
	}
	require.Equal(t, 2, g.Calls["ModuleGlobal"], "asked once, and once for what is no variable")

	p, _, err := m.Global("v")
	require.NoError(t, err)
	require.NoError(t, m.Unload())
	isResult(t, ErrInvalidHandle, m.Unload())
	isResult(t, ErrInvalidHandle, f.Launch(one(nil), p, 1, 1))
	isResult(t, ErrInvalidValue, c.MemsetD8(p, 0, 1), "the variable is gone")
	_, err = m.Function("add")
	isResult(t, ErrInvalidHandle, err)
	_, _, err = m.Global("v")
	isResult(t, ErrInvalidHandle, err)
}

func TestModuleErrors(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	for _, source := range []string{"", "\x00\x00"} {
		_, err := c.LoadModule("empty.ptx", []byte(source))
		isResult(t, ErrInvalidValue, err)
		require.ErrorContains(t, err, "empty.ptx")
	}
	_, err := c.LoadModule("bad.ptx", []byte("kernel none"))
	isResult(t, ErrInvalidPTX, err)
	require.ErrorIs(t, err, syscall.EINVAL)
	var refused *drm.ModuleError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "bad.ptx:1:1", "the log is in the message")

	g.FailNext(1, "ModuleLoad", syscall.ENOMEM)
	_, err = c.LoadModule("bad.ptx", []byte("kernel none"))
	isResult(t, ErrOutOfMemory, err)

	_, err = c.LoadModule(strings.Repeat("directory/", 30)+"bad.ptx", []byte("kernel none"))
	require.ErrorContains(t, err, "directory/bad.ptx:1:1", "the end of a long name is kept")
}

// A driver that describes a kernel wrongly cannot make the program fail.
func TestModuleFunctionChecksAttributes(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	for name, attr := range map[string]drm.FunctionAttributes{
		"size":   {ParamBytes: 8, Params: []drm.FunctionParam{{Offset: 4, Size: 8}}},
		"offset": {ParamBytes: 8, Params: []drm.FunctionParam{{Offset: 9, Size: 0}}},
		"wrap":   {ParamBytes: 8, Params: []drm.FunctionParam{{Offset: 8, Size: math.MaxUint32}}},
		"bytes":  {ParamBytes: drm.MaxLaunch + 1},
	} {
		g.Kernels[name] = &cudatest.Kernel{Attributes: attr}
		m, err := c.LoadModule("m.ptx", []byte("kernel "+name))
		require.NoError(t, err)
		_, err = m.Function(name)
		isResult(t, ErrUnknown, err, name)
	}
}

func TestLaunchArguments(t *testing.T) {
	g := cudatest.NewGPU(t)
	var got []byte
	g.AddKernel("k", func(_ *cudatest.File, p []byte) *cudatest.Fault { got = append([]byte(nil), p...); return nil },
		8, 4, 4, 8, 8, 4, 8, 1, 1, 2, 2, 12, 4, 8)
	g.AddKernel("none", func(_ *cudatest.File, p []byte) *cudatest.Fault { got = p; return nil })
	c := newContext(t, g)
	f := mustFunction(t, c, "k")
	args := []any{DevicePtr(1 << 40), int32(-2), uint32(3), int64(-4), uint64(5), float32(1.5), 2.5,
		int8(-1), uint8(2), int16(-3), uint16(4), []byte("twelve bytes"), -6, -7}
	require.NoError(t, f.Launch(one(nil), args...))
	le := binary.LittleEndian
	var want []byte
	want = le.AppendUint64(want, 1<<40)
	want = le.AppendUint32(want, 0xfffffffe)
	want = le.AppendUint32(want, 3)
	want = le.AppendUint64(want, 0xfffffffffffffffc)
	want = le.AppendUint64(want, 5)
	want = le.AppendUint32(want, math.Float32bits(1.5))
	want = le.AppendUint32(want, 0) // alignment
	want = le.AppendUint64(want, math.Float64bits(2.5))
	want = append(want, 0xff, 2, 0xfd, 0xff, 4, 0, 0, 0)
	want = append(want, "twelve bytes"...)
	want = le.AppendUint32(want, 0xfffffffa)
	want = le.AppendUint64(want, 0xfffffffffffffff9)
	require.Equal(t, want, got)

	require.NoError(t, mustFunction(t, c, "none").Launch(one(nil)))
	require.Empty(t, got)

	launches := g.Calls["Exec"]
	with := func(i int, v any) []any {
		a := append([]any(nil), args...)
		a[i] = v
		return a
	}
	for name, a := range map[string][]any{
		"none":              nil,
		"one short":         args[:len(args)-1],
		"one more":          append(args[:len(args):len(args)], 1),
		"int32 for 8":       with(0, int32(1)),
		"pointer for 4":     with(1, DevicePtr(1)),
		"float64 for 4":     with(5, 1.5),
		"int too large":     with(1, 1<<32),
		"int too small":     with(1, -1<<31-1),
		"int for 1":         with(7, 1),
		"bytes too short":   with(11, []byte("short")),
		"bytes too long":    with(1, []byte("12345")),
		"string":            with(11, "twelve bytes"),
		"nil":               with(0, nil),
		"Go pointer":        with(0, new(int)),
		"function as a ptr": with(0, f),
	} {
		isResult(t, ErrInvalidValue, f.Launch(one(nil), a...), name)
	}
	require.Equal(t, launches, g.Calls["Exec"], "nothing ran")
	require.ErrorContains(t, f.Launch(one(nil), with(5, 1.5)...), "kernel k: argument 5: a float64 for a parameter of 4 bytes")
}

// Kernels have up to 32,764 bytes of parameters, in launches of each kind, in tasks and in batches.
func TestLargeParameters(t *testing.T) {
	g := cudatest.NewGPU(t)
	var got []byte
	keep := func(_ *cudatest.File, p []byte) *cudatest.Fault { got = bytes.Clone(p); return nil }
	for _, n := range []uint32{4096, 12248, 12252, drm.MaxLaunch, drm.MaxLaunch + 4} {
		g.AddKernel(fmt.Sprint("k", n), keep, n)
	}
	c := newContext(t, g)
	s := mustStream(t, c)
	for _, n := range []int{4096, 12248, 12252, drm.MaxLaunch} {
		f := mustFunction(t, c, fmt.Sprint("k", n))
		arg := make([]byte, n)
		for i := range arg {
			arg[i] = byte(i % 251)
		}
		for name, cfg := range map[string]LaunchConfig{
			"plain":       {},
			"cooperative": {Cooperative: true},
			"cluster":     {Cluster: [3]uint32{1, 1, 1}},
			"both":        {Cluster: [3]uint32{1, 1, 1}, Cooperative: true},
		} {
			cfg.Grid, cfg.Block, cfg.Stream = [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, s
			b := c.NewBatch()
			for way, launch := range map[string]func() error{
				"arguments": func() error { return f.Launch(cfg, arg) },
				"packed":    func() error { return f.LaunchPacked(cfg, arg) },
				"task":      func() error { return s.Task(func() error { return f.Launch(cfg, arg) }) },
				"batch": func() error {
					return errors.Join(b.AddKernel(f, cfg, arg), b.AddKernel(f, cfg, arg), b.Queue(s))
				},
			} {
				got = nil
				require.NoError(t, launch(), "%s, %s, %d bytes", name, way, n)
				require.NoError(t, s.Synchronize())
				require.Equal(t, arg, got, "%s, %s, %d bytes", name, way, n)
			}
		}
	}
	m, err := c.LoadModule("more.ptx", []byte("kernel k32768"))
	require.NoError(t, err)
	_, err = m.Function("k32768")
	isResult(t, ErrUnknown, err)
	require.ErrorContains(t, err, "32768 bytes of parameters, of which 32764 are possible")
}

func TestLaunchConfig(t *testing.T) {
	g := cudatest.NewGPU(t)
	runs := 0
	k := g.AddKernel("k", func(*cudatest.File, []byte) *cudatest.Fault { runs++; return nil })
	k.Attributes.SharedBytes, k.Attributes.MaxThreads = 1024, 512
	c := newContext(t, g)
	f := mustFunction(t, c, "k")
	one := [3]uint32{1, 1, 1}
	const most = math.MaxUint32
	for _, r := range []struct {
		name string
		cfg  LaunchConfig
		want Result
	}{
		{name: "largest", cfg: LaunchConfig{Grid: [3]uint32{1<<31 - 1, 65535, 65535}, Block: [3]uint32{8, 1, 64}, Shared: 47 << 10}, want: Success},
		{name: "zero value", cfg: LaunchConfig{}, want: ErrInvalidValue},
		{name: "no block", cfg: LaunchConfig{Grid: one}, want: ErrInvalidValue},
		{name: "grid y 0", cfg: LaunchConfig{Grid: [3]uint32{1, 0, 1}, Block: one}, want: ErrInvalidValue},
		{name: "grid x", cfg: LaunchConfig{Grid: [3]uint32{1 << 31, 1, 1}, Block: one}, want: ErrInvalidValue},
		{name: "grid z", cfg: LaunchConfig{Grid: [3]uint32{1, 1, 65536}, Block: one}, want: ErrInvalidValue},
		{name: "block z", cfg: LaunchConfig{Grid: one, Block: [3]uint32{1, 1, 65}}, want: ErrInvalidValue},
		{name: "threads", cfg: LaunchConfig{Grid: one, Block: [3]uint32{1024, 2, 1}}, want: ErrInvalidValue},
		{name: "all ones", cfg: LaunchConfig{Grid: one, Block: [3]uint32{most, most, most}}, want: ErrInvalidValue},
		{name: "kernel's threads", cfg: LaunchConfig{Grid: one, Block: [3]uint32{513, 1, 1}}, want: ErrInvalidValue},
		{name: "shared", cfg: LaunchConfig{Grid: one, Block: one, Shared: 47<<10 + 1}, want: ErrInvalidValue},
		{name: "shared wraps", cfg: LaunchConfig{Grid: one, Block: one, Shared: most}, want: ErrInvalidValue},
	} {
		err := f.Launch(r.cfg)
		if r.want == Success {
			require.NoError(t, err, r.name)
			continue
		}
		isResult(t, r.want, err, r.name)
		require.ErrorContains(t, err, "kernel k", r.name)
	}
	require.Equal(t, 1, runs)

	k.Attributes.Regs, k.Attributes.MaxThreads = 72, 896 // as an H100's driver has it
	f = mustFunction(t, newContext(t, g), "k")
	require.NoError(t, f.Launch(LaunchConfig{Grid: one, Block: [3]uint32{896, 1, 1}}))
	err := f.Launch(LaunchConfig{Grid: one, Block: [3]uint32{897, 1, 1}})
	isResult(t, ErrLaunchOutOfResources, err)
	require.ErrorContains(t, err, "897 threads with 72 registers each, but the device has registers for 896: compile it with __launch_bounds__(897)")
}
