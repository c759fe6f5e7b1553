package ptx_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/rewrite"
	"pvdrm/gpu/softgpu"
	"pvdrm/internal/suite"
)

// rewriter is a software GPU whose launches are launches of twins, which run parts of their grids.
type rewriter struct {
	gpu.Device
	twins atomic.Int64
}

// NewContext is part of gpu.Device.
func (r *rewriter) NewContext(label string) (gpu.Context, error) {
	c, err := r.Device.NewContext(label)
	return &rewritingContext{Context: c, r: r}, err
}

// Properties is part of gpu.Device. The context has none of the interfaces beside gpu.Context.
func (r *rewriter) Properties() gpu.Properties {
	p := r.Device.Properties()
	p.Shares = false
	return p
}

// rewritingContext is a context of a rewriter.
type rewritingContext struct {
	gpu.Context
	r *rewriter
}

// rewrittenModule is a module with twins.
type rewrittenModule struct {
	gpu.Module
	kernels map[string]rewrite.Kernel
}

// rewrittenFunction is a kernel with its twin, nil where it has none.
type rewrittenFunction struct {
	gpu.Function
	twin gpu.Function
	is   rewrite.Kernel
}

// LoadModule is part of gpu.Context.
func (c *rewritingContext) LoadModule(ctx context.Context, name string, source []byte, reserve gpu.Reserve) (gpu.Module, error) {
	m, err := ptx.Load(name, source)
	if err != nil {
		return nil, err
	}
	kernels := map[string]rewrite.Kernel{}
	r, err := rewrite.Split(nil, m, source)
	if err != nil {
		return nil, err
	}
	for _, k := range r.Kernels {
		kernels[k.Name] = k
	}
	loaded, err := c.Context.LoadModule(ctx, name, r.Source, reserve)
	return &rewrittenModule{loaded, kernels}, err
}

// Function is part of gpu.Module.
func (m *rewrittenModule) Function(name string) (gpu.Function, error) {
	f, err := m.Module.Function(name)
	if err != nil {
		return nil, err
	}
	r := &rewrittenFunction{Function: f, is: m.kernels[name]}
	if r.is.Twin != "" {
		if r.twin, err = m.Module.Function(r.is.Twin); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// rewritingChannel is a channel of a rewriter.
type rewritingChannel struct {
	gpu.Channel
	r *rewriter
}

// NewChannel is part of gpu.Context.
func (c *rewritingContext) NewChannel() (gpu.Channel, error) {
	ch, err := c.Context.NewChannel()
	return &rewritingChannel{Channel: ch, r: c.r}, err
}

// Submit is part of gpu.Channel.
func (c *rewritingChannel) Submit(cmds []gpu.Command, done func(gpu.Result)) error {
	var list []gpu.Command
	for _, cmd := range cmds {
		l, ok := cmd.(*gpu.Launch)
		if !ok {
			list = append(list, cmd)
			continue
		}
		f := l.Func.(*rewrittenFunction)
		whole := *l
		whole.Func = f.Function
		twins := c.launches(f, l)
		if twins == nil {
			twins = []gpu.Command{&whole}
		} else {
			c.r.twins.Add(1)
		}
		list = append(list, twins...)
	}
	return c.Channel.Submit(list, done)
}

// launches returns what takes the place of one launch; nil where it stays.
func (c *rewritingChannel) launches(f *rewrittenFunction, l *gpu.Launch) (list []gpu.Command) {
	all := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
	if f.twin == nil {
		return nil
	}
	part := (all + 2) / 3
	for from := uint64(0); from < all; from += part {
		p := *l
		p.Func, p.Grid = f.twin, [3]uint32{uint32(min(part, all-from)), 1, 1}
		p.Params = rewrite.AppendRange(slices.Clone(l.Params), from, l.Grid)
		list = append(list, &p)
	}
	return list
}

// The programs of the suite have the same results when their kernels run in parts.
func TestSuiteRewritten(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	dev, err := softgpu.New(softgpu.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	r := &rewriter{Device: dev}
	verifySuite(t, r)
	require.Positive(t, r.twins.Load())
	t.Logf("%d launches of twins", r.twins.Load())
}

// verifySuite runs all programs of the suite on a device.
func verifySuite(t *testing.T, d gpu.Device) {
	for _, b := range suite.All() {
		drv, err := cuda.Init(func() (drm.File, error) { return native.Open(d, "suite") })
		require.NoError(t, err)
		result, err := suite.Run(drv, b.Name, suite.Options{})
		require.NoError(t, err, b.Name)
		require.True(t, result.Verified, "%s: %s", b.Name, result.Error)
		require.NoError(t, drv.Close())
	}
}
