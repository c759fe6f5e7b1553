package ptx_test

import (
	"context"
	"fmt"
	"math"
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

// rewriter is a software GPU whose launches are launches of twins.
type rewriter struct {
	gpu.Device
	look  uint32 // kernels are suspended at each of so many looks, a few times; 0: they run in parts
	twins atomic.Int64
}

// suspendedTimes is how often a launch is suspended at most, before it runs to its end.
const suspendedTimes = 6

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
	kernels map[string]rewrite.Suspended
}

// rewrittenFunction is a kernel with its twin, nil where it has none.
type rewrittenFunction struct {
	gpu.Function
	twin gpu.Function
	is   rewrite.Suspended
}

// LoadModule is part of gpu.Context.
func (c *rewritingContext) LoadModule(ctx context.Context, name string, source []byte, reserve gpu.Reserve) (gpu.Module, error) {
	m, err := ptx.Load(name, source)
	if err != nil {
		return nil, err
	}
	kernels := map[string]rewrite.Suspended{}
	if c.r.look > 0 {
		changed, list, err := rewrite.Suspend(nil, m, source, eachLook)
		if err != nil {
			return nil, err
		}
		for _, k := range list {
			kernels[k.Name] = k
		}
		source = changed
	} else {
		r, err := rewrite.Split(nil, m, source)
		if err != nil {
			return nil, err
		}
		for _, k := range r.Kernels {
			kernels[k.Name] = rewrite.Suspended{Kernel: k}
		}
		source = r.Source
	}
	loaded, err := c.Context.LoadModule(ctx, name, source, reserve)
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

// rewritingChannel is a channel of a rewriter, with memory for the signal and the state of blocks.
type rewritingChannel struct {
	gpu.Channel
	r    *rewriter
	at   uint64
	size uint64
}

// NewChannel is part of gpu.Context.
func (c *rewritingContext) NewChannel() (gpu.Channel, error) {
	ch, err := c.Context.NewChannel()
	if err != nil || c.r.look == 0 {
		return &rewritingChannel{Channel: ch, r: c.r}, err
	}
	const size = 256 << 20
	p := c.r.Device.Properties().VRAM
	m, err := c.Context.NewVRAM(size)
	if err != nil {
		return nil, err
	}
	at := p.Base + p.Size - size
	return &rewritingChannel{ch, c.r, at, size}, c.Context.Map(at, m, 0, size, gpu.ProtRead|gpu.ProtWrite)
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
	if c.r.look == 0 {
		part := (all + 2) / 3
		for from := uint64(0); from < all; from += part {
			p := *l
			p.Func, p.Grid = f.twin, [3]uint32{uint32(min(part, all-from)), 1, 1}
			p.Params = rewrite.AppendRange(slices.Clone(l.Params), from, l.Grid)
			list = append(list, &p)
		}
		return list
	}
	stride := f.is.Stride(l.Block[0]*l.Block[1]*l.Block[2], l.SharedBytes)
	const head = 4096
	if all*stride > c.size-head {
		return nil
	}
	list = append(list, &gpu.Fill{Dst: c.at, Size: 4, Width: head + all*stride, Height: 1})
	for n := range suspendedTimes + 1 {
		look := c.r.look
		if n == suspendedTimes {
			look = math.MaxInt32
		}
		p := *l
		p.Func, p.Params = f.twin, rewrite.AppendState(slices.Clone(l.Params), c.at, c.at+head, stride)
		list = append(list, &gpu.Fill{Dst: c.at, Pattern: look, Size: 4, Width: 4, Height: 1}, &p)
	}
	return list
}

// The programs of the suite have the same results when their kernels run in parts, and when they are
// suspended.
func TestSuiteRewritten(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for _, look := range []uint32{0, 1, 100} {
		t.Run(fmt.Sprintf("each look %d", look), func(t *testing.T) {
			dev, err := softgpu.New(softgpu.Config{})
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			r := &rewriter{Device: dev, look: look}
			for _, b := range suite.All() {
				drv, err := cuda.Init(func() (drm.File, error) { return native.Open(r, "suite") })
				require.NoError(t, err)
				result, err := suite.Run(drv, b.Name, suite.Options{})
				require.NoError(t, err, b.Name)
				require.True(t, result.Verified, "%s: %s", b.Name, result.Error)
				require.NoError(t, drv.Close())
			}
			require.Positive(t, r.twins.Load())
			t.Logf("%d launches of twins", r.twins.Load())
		})
	}
}
