package gputest

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

const header = ".version 6.0\n.target sm_50\n.address_size 64\n"

var moduleTests = []test{
	{"build errors", func(r *rig) {
		c := r.client()
		for name, src := range map[string]string{
			"empty":               "",
			"no PTX":              "hello, world",
			"unknown instruction": header + ".visible .entry f() { frobnicate.u32 %r1; ret; }",
			"undeclared register": header + ".visible .entry f() { mov.u32 %r1, 1; ret; }",
			"undeclared label":    header + ".visible .entry f() { bra nowhere; }",
			"cut off":             header + ".visible .entry f() { ret;",
			"binary":              "\x7fELF\x00\x01\x02",
		} {
			_, err := c.LoadModule(context.Background(), "bad.ptx", []byte(src), nil)
			var build *gpu.BuildError
			require.ErrorAs(r, err, &build, name)
			require.NotEmpty(r, build.Diagnostics, name)
			for _, d := range build.Diagnostics {
				require.Equal(r, "bad.ptx", d.File, name)
				require.Positive(r, d.Line, name)
				require.Positive(r, d.Col, name)
				require.NotEmpty(r, d.Message, name)
			}
		}
		c.alive()
	}},
	{"too large for the device", func(r *rig) {
		c := r.client()
		before := r.dev.Stats().VRAMUsed
		_, err := c.LoadModule(context.Background(), "huge.ptx", []byte(header+".visible .global .b8 huge[1099511627776];\n.visible .entry f() { ret; }"), nil)
		require.Error(r, err)
		require.Equal(r, before, r.dev.Stats().VRAMUsed)
		c.alive()
	}},
	{"functions", func(r *rig) {
		c := r.client()
		a := c.function("store").Attributes()
		require.Equal(r, "store", a.Name)
		require.Equal(r, []gpu.Param{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}}, a.Params)
		require.Equal(r, 12, a.ParamBytes)
		require.Zero(r, a.SharedBytes)
		require.Positive(r, a.MaxThreads)
		a = c.function("reverse").Attributes()
		require.Equal(r, 256, a.SharedBytes)
		require.Equal(r, 64, a.MaxThreads)
		_, err := c.mod.Function("nonesuch")
		require.ErrorIs(r, err, gpu.ErrNotFound)
		_, err = c.mod.Function("counter")
		require.ErrorIs(r, err, gpu.ErrNotFound)
	}},
	{"globals", func(r *rig) {
		c := r.client()
		c.function("variables")
		for name, want := range map[string]struct {
			size  uint64
			words []uint32
		}{
			"counter": {4, []uint32{7}},
			"primes":  {16, []uint32{2, 3, 5, 7}},
			"scratch": {64, make([]uint32, 16)},
		} {
			addr, size, err := c.mod.Global(name)
			require.NoError(r, err)
			require.Equal(r, want.size, size, name)
			require.False(r, r.props.VRAM.Contains(addr, size), name)
			require.False(r, r.props.System.Contains(addr, size), name)
			data := c.read(addr, size)
			for i, w := range want.words {
				require.Equal(r, w, binary.LittleEndian.Uint32(data[4*i:]), name)
			}
		}
		_, _, err := c.mod.Global("nonesuch")
		require.ErrorIs(r, err, gpu.ErrNotFound)
		_, _, err = c.mod.Global("store")
		require.ErrorIs(r, err, gpu.ErrNotFound)
	}},
	{"each load has variables of its own", func(r *rig) {
		a, b := r.client(), r.client()
		out := a.device(8)
		l := a.kernel("variables", out.va)
		first := a.mod
		a.mod = nil
		second := a.kernel("variables", out.va)
		addr, _, err := first.Global("counter")
		require.NoError(r, err)
		a.do(set(addr, 1000))
		a.do(l)
		require.Equal(r, []byte{0xe8, 3, 0, 0, 5, 0, 0, 0}, a.read(out.va, 8))
		a.do(second)
		require.Equal(r, []byte{7, 0, 0, 0, 5, 0, 0, 0}, a.read(out.va, 8))
		theirs := b.device(8)
		b.do(b.kernel("variables", theirs.va))
		require.Equal(r, []byte{7, 0, 0, 0, 5, 0, 0, 0}, b.read(theirs.va, 8))
	}},
	{"cannot be unmapped", func(r *rig) {
		c := r.client()
		c.function("variables")
		addr, _, err := c.mod.Global("counter")
		require.NoError(r, err)
		page := r.props.VRAM.Page
		require.ErrorIs(r, c.Unmap(addr&^(page-1), page), gpu.ErrInvalid)
		c.alive()
	}},
	{"close", func(r *rig) {
		c := r.client()
		b := c.device(4096)
		before := r.dev.Stats().VRAMUsed
		l := c.kernel("store", b.va, uint32(1))
		require.NoError(r, c.mod.Close())
		require.NoError(r, c.mod.Close(), "twice")
		require.LessOrEqual(r, r.dev.Stats().VRAMUsed, before)
		_, err := c.mod.Function("store")
		require.ErrorIs(r, err, gpu.ErrClosed)
		_, _, err = c.mod.Global("counter")
		require.ErrorIs(r, err, gpu.ErrClosed)
		require.ErrorIs(r, c.try(l).Err, gpu.ErrInvalid)
		c.mod = nil
		c.alive()
	}},
	{"variables are reserved", func(r *rig) {
		c := r.client()
		before := r.dev.Stats().VRAMUsed
		var asked []uint64
		refused := errors.New("not that much")
		_, err := c.LoadModule(context.Background(), "kernels.ptx", kernels, func(n uint64) error {
			asked = append(asked, n)
			require.Equal(r, before, r.dev.Stats().VRAMUsed, "nothing is allocated yet")
			return refused
		})
		require.ErrorIs(r, err, refused)
		require.Len(r, asked, 1)
		require.GreaterOrEqual(r, asked[0], uint64(84), "counter, primes and scratch")
		require.Equal(r, before, r.dev.Stats().VRAMUsed)
		_, err = c.LoadModule(context.Background(), "none.ptx", []byte(header+".visible .entry f() { ret; }"), func(uint64) error {
			return refused
		})
		require.NoError(r, err, "there are no variables")
		c.alive()
	}},
	{"canceled", func(r *rig) {
		c := r.client()
		before := r.dev.Stats().VRAMUsed
		why := errors.New("the user has gone")
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := c.LoadModule(ctx, "kernels.ptx", kernels, func(uint64) error {
			cancel(why)
			return nil
		})
		require.ErrorIs(r, err, why, "on the way")
		_, err = c.LoadModule(ctx, "kernels.ptx", kernels, nil)
		require.ErrorIs(r, err, why, "before")
		require.Equal(r, before, r.dev.Stats().VRAMUsed)
		c.alive()
	}},
	{"closed while it loads", func(r *rig) {
		c := r.client()
		before := r.dev.Stats().VRAMUsed
		_, err := c.LoadModule(context.Background(), "kernels.ptx", kernels, func(uint64) error {
			return c.Close()
		})
		require.ErrorIs(r, err, gpu.ErrClosed)
		require.LessOrEqual(r, r.dev.Stats().VRAMUsed, before)
		r.client().alive()
	}},
	{"what it keeps", func(r *rig) {
		c := r.client()
		c.function("store")
		require.Positive(r, c.mod.HostBytes())
		require.LessOrEqual(r, c.mod.HostBytes(), gpu.ModuleMemory(uint64(len(kernels))))
	}},
	{"load and close again and again", func(r *rig) {
		c := r.client()
		c.alive()
		before := r.dev.Stats().VRAMUsed
		for range 20 {
			mod, err := c.LoadModule(context.Background(), "kernels.ptx", kernels, nil)
			require.NoError(r, err)
			require.NoError(r, mod.Close())
		}
		require.Equal(r, before, r.dev.Stats().VRAMUsed)
	}},
}
