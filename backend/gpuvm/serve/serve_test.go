package serve_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/local"
	"pvdrm/backend/gpuvm"
	"pvdrm/backend/gpuvm/serve"
	"pvdrm/frontend/carrier"
	dial "pvdrm/frontend/carrier/local"
	"pvdrm/frontend/lowlevel"
	"pvdrm/frontend/lowlevel/guest"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall"
	"pvdrm/hypercall/trap"
	"pvdrm/internal/suite"
)

// owner is a process that owns a card, in this one.
type owner struct {
	*gpuvm.Aggregator
	card *card.Card
	path string
}

// own serves local guests with parts of a card.
func own(t *testing.T, parts int, vram uint64, name string, polled bool) *owner {
	c, err := card.New(softgpu.Config{VRAMBytes: vram})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	a, err := gpuvm.New(c, parts)
	require.NoError(t, err)
	mode, err := gpuvm.ModeOf(name)
	require.NoError(t, err)
	o := &owner{Aggregator: a, card: c, path: filepath.Join(t.TempDir(), "s")}
	l, err := local.Listen(o.path)
	require.NoError(t, err)
	server := &serve.Server{Aggregator: a, Mode: mode, Polled: polled, Log: zap.NewNop()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- local.NewServer(local.Config{Attach: server.Attach, Features: hypercall.FeatureCard}).Serve(ctx, l)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return o
}

// reach connects to the owner.
func (o *owner) reach(t *testing.T) carrier.Carrier {
	c, err := dial.Open(o.path)
	require.NoError(t, err)
	require.Equal(t, uint64(hypercall.FeatureCard), c.Capset().Features)
	return c
}

// open opens a VM, which is closed at the end of the test.
func (o *owner) open(t *testing.T, ram, vram uint64) *guest.Guest {
	g, err := guest.Open(o.reach(t), guest.Config{RAM: ram, VRAM: vram})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// programs runs programs with the driver on a bus, and returns the counters of each.
func programs(t *testing.T, config lowlevel.Config, counts func() trap.Counters) (all []trap.Counters) {
	d, err := lowlevel.Open(config)
	require.NoError(t, err)
	for _, name := range []string{"nop", "loop", "madd"} {
		if raceDetector && name == "madd" {
			continue
		}
		before := counts()
		r, err := suite.RunRaw(name, func() (suite.RawDevice, error) { return d.NewContext() }, suite.Options{})
		require.NoError(t, err)
		require.True(t, r.Verified, "%s: %s", name, r.Error)
		all = append(all, counts().Sub(before))
	}
	require.NoError(t, d.Close())
	return all
}

// A carrier changes nothing in what is counted: a guest behind it counts what one counts whose traps
// are calls.
func TestCountsAreThoseOfCalls(t *testing.T) {
	for _, c := range []struct {
		mode   string
		polled bool
	}{{mode: "fv", polled: true}, {mode: "fv-opt"}, {mode: "fv-bar1"}, {mode: "pv"}, {mode: "pv-multicall"}, {mode: "pv-bar1", polled: true}, {mode: "nested"}} {
		t.Run(c.mode, func(t *testing.T) {
			const ram = 64 << 20
			mode, err := gpuvm.ModeOf(c.mode)
			require.NoError(t, err)
			o := own(t, 2, 0, c.mode, c.polled)
			memory := make([]byte, ram)
			vm, err := o.NewVM(mode, memory)
			require.NoError(t, err)
			config := lowlevel.Config{Bus: vm, RAM: memory, Base: vm.Base(), Multi: mode.Multi}
			if mode.PV {
				config.Calls = vm
			}
			want := programs(t, config, vm.Counters)
			vm.Close()

			g := o.open(t, ram, 1<<30)
			terms := g.Terms()
			require.Equal(t, mode.PV, terms.PV)
			require.Equal(t, c.polled, terms.Polled)
			config = lowlevel.Config{Bus: g, RAM: g.RAM(), Base: terms.Base, Multi: terms.Multi}
			if terms.PV {
				config.Calls = g
			}
			got := programs(t, config, func() trap.Counters {
				n, err := g.Counters()
				require.NoError(t, err)
				return n
			})
			require.Equal(t, want, got)
		})
	}
}

// word is the offset of a word of the window that shows the start of VRAM.
func word(i uint64) uint64 { return hw.WindowBase + 4*i }

// What a guest left in VRAM that was its own memory, the next guest does not see, nor can the first
// one reach what the next one has there.
func TestMemoryOfTheNextGuest(t *testing.T) {
	o := own(t, 1, 64<<20, "fv-opt", false)
	link := o.reach(t)
	first, err := guest.Open(link, guest.Config{RAM: 1 << 20, VRAM: 1 << 30})
	require.NoError(t, err)
	first.Write(hw.BAR0, word(5), 0xdeadbeef)
	require.Equal(t, uint32(0xdeadbeef), first.Read(hw.BAR0, word(5)))
	kept := first.VRAM()
	require.Equal(t, uint32(0xdeadbeef), hw.LoadHalf(kept[20:24]), "it is the guest's memory")
	_, err = guest.Open(o.reach(t), guest.Config{RAM: 1 << 20})
	require.ErrorContains(t, err, "in use")

	require.NoError(t, link.Close()) // as if it were killed, and its memory lived on in another process
	var second *guest.Guest
	require.Eventually(t, func() bool {
		second, err = guest.Open(o.reach(t), guest.Config{RAM: 1 << 20, VRAM: 1 << 30})
		return err == nil
	}, time.Minute, time.Millisecond)
	defer func() { require.NoError(t, second.Close()) }()
	require.Zero(t, second.Read(hw.BAR0, word(5)))
	hw.StoreHalf(kept[20:24], 7)
	require.Zero(t, second.Read(hw.BAR0, word(5)))
	second.Write(hw.BAR0, word(6), 9)
	require.Zero(t, hw.LoadHalf(kept[24:28]))
}
