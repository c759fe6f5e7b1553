package tests

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backend "pvdrm/backend/carrier/local"
	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// startQuota starts a backend whose guest may have so much.
func startQuota(t *testing.T, limits quota.Limits) *host {
	t.Helper()
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 256 << 20})
	require.NoError(t, err)
	return startServer(t, backend.Config{Device: device, Limits: limits})
}

// quotas are those of the guest, by name.
func (h *host) quotas() map[string]quota.Stats {
	all := map[string]quota.Stats{}
	for _, q := range h.server.Sessions().Quotas {
		all[q.Resource] = q
	}
	return all
}

// A guest gets what its quotas say, by errno, over all its files together; what
// it gives back, it may have again; a file that is closed leaves nothing.
func TestQuotasOfAGuest(t *testing.T) {
	const page = 64 << 10
	h := startQuota(t, quota.Limits{quota.VRAM: 4*page + 2*4096, quota.Granted: 8 << 20, quota.Channels: 3,
		quota.Contexts: 3, quota.Modules: 2, quota.ModuleText: 8 << 10})
	a, b := h.open(t), h.open(t)

	var handles []uint32
	for len(handles) < 4 {
		n, err := a.GemNew(page, drm.DomainVRAM, 0)
		require.NoError(t, err)
		handles = append(handles, n)
	}
	_, err := b.GemNew(page, drm.DomainVRAM, 0)
	require.ErrorIs(t, err, syscall.ENOMEM, "what one file has, the other has not")
	require.NoError(t, a.GemClose(handles[0]))
	require.Eventually(t, func() bool {
		_, err := b.GemNew(page, drm.DomainVRAM, 0)
		return err == nil
	}, patience, time.Millisecond)

	_, err = a.GemNew(16<<20, drm.DomainSystem, 0)
	require.ErrorIs(t, err, syscall.ENOMEM)

	for range 3 {
		_, err = a.ChannelAlloc()
		require.NoError(t, err)
	}
	_, err = b.ChannelAlloc()
	require.ErrorIs(t, err, syscall.EBUSY)

	m, err := a.ModuleLoad("one.ptx", []byte(addOne))
	require.NoError(t, err)
	_, err = a.ModuleLoad("long.ptx", []byte(addOne+strings.Repeat("// more\n", 1000)))
	require.ErrorIs(t, err, syscall.ENOSPC, "text")
	_, err = a.ModuleLoad("unfinished.ptx", make([]byte, 1<<20))
	require.ErrorIs(t, err, syscall.EFBIG, "what it might become")
	_, err = b.ModuleLoad("two.ptx", []byte(addOne))
	require.NoError(t, err)
	_, err = b.ModuleLoad("three.ptx", []byte(addOne))
	require.ErrorIs(t, err, syscall.ENOSPC, "modules")
	require.NoError(t, a.ModuleUnload(m))
	require.Eventually(t, func() bool {
		_, err := b.ModuleLoad("three.ptx", []byte(addOne))
		return err == nil
	}, patience, time.Millisecond)

	c := h.open(t)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return h.quotas()["contexts"].Used == 2 }, patience, time.Millisecond)
	for _, q := range []string{"vram", "granted", "channels", "modules", "module-text"} {
		require.Positive(t, h.quotas()[q].Refused, q)
	}
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Eventually(t, func() bool {
		for _, q := range h.quotas() {
			if q.Used != 0 {
				return false
			}
		}
		return true
	}, patience, time.Millisecond, "something stays charged")
}

// Variables of modules count as VRAM, before they are made.
func TestVariablesAreVRAM(t *testing.T) {
	h := startQuota(t, quota.Limits{quota.VRAM: 1 << 20})
	f := h.open(t)
	source := func(bytes int) []byte {
		return fmt.Appendf([]byte(addOne), "\n.visible .global .b8 large[%d];\n", bytes)
	}
	_, err := f.ModuleLoad("large.ptx", source(200<<20))
	require.ErrorIs(t, err, syscall.ENOMEM)
	var module uint32
	module, err = f.ModuleLoad("half.ptx", source(600<<10))
	require.NoError(t, err)
	require.GreaterOrEqual(t, h.quotas()["vram"].Used, uint64(600<<10))
	_, err = f.ModuleLoad("half.ptx", source(600<<10))
	require.ErrorIs(t, err, syscall.ENOMEM, "two are too much")
	require.NoError(t, f.ModuleUnload(module))
	require.Eventually(t, func() bool { return h.quotas()["vram"].Used == 0 }, patience, time.Millisecond)
	require.NoError(t, f.Close())
	require.Eventually(t, func() bool { return h.quotas()["module-memory"].Used == 0 }, patience, time.Millisecond)
}

func TestTooManyFiles(t *testing.T) {
	h := startQuota(t, quota.Limits{quota.Contexts: 2})
	a := newProgram(t, h.open(t))
	h.open(t)
	c, err := local.Open(h.socket)
	require.NoError(t, err)
	_, err = frontend.New(c)
	require.Error(t, err)
	require.NoError(t, a.run(a.launch(a.addr, 1)))
}

// Work that exceeds the queue is refused, in its place of the order.
func TestTooMuchQueued(t *testing.T) {
	h := startQuota(t, quota.Limits{quota.Queued: 4})
	p := newProgram(t, h.open(t))
	f, _, err := p.ModuleFunction(p.module, "forever")
	require.NoError(t, err)
	_, err = p.Exec(p.channel, drm.LaunchCmd{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}.Append(nil), nil)
	require.NoError(t, err)
	other, err := p.ChannelAlloc()
	require.NoError(t, err)
	var last uint64
	for range 5 {
		last, err = p.Exec(other, p.launch(p.addr, 1), nil)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return h.quotas()["queued"].Refused > 0 }, patience, time.Millisecond)
	require.NoError(t, p.Close(), fmt.Sprint("with ", last, " batches queued"))
	require.Eventually(t, func() bool { return h.quotas()["queued"].Used == 0 }, patience, time.Millisecond)
}

// sharedDevice is a device of several backends, which none of them closes.
type sharedDevice struct{ gpu.Device }

func (sharedDevice) Close() error { return nil }

// A guest that opens channels until it is refused leaves some of the device's to another guest:
// quotas bound each guest, and not only the device all of them (the attack of section 6.3 of the
// disengaged scheduling paper).
func TestChannelExhaustion(t *testing.T) {
	const each, all = 64, 100 // channels of a guest, and of the device
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 256 << 20, MaxChannels: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	cfg := backend.Config{Device: sharedDevice{device}, Limits: quota.Limits{quota.Channels: each}}
	empty := device.Stats().VRAMUsed
	greedy, modest := startServer(t, cfg), startServer(t, cfg)
	// Each server looks at the whole device when it ends, so the other's files have to be gone by then.
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return device.Stats().VRAMUsed == empty }, patience, time.Millisecond)
	})
	taken := 0
	for full := false; !full; {
		f := greedy.open(t)
		was := taken
		for {
			if _, err := f.ChannelAlloc(); err != nil {
				require.True(t, errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOSPC), err)
				break
			}
			taken++
		}
		full = taken == was
	}
	require.Equal(t, each, taken)
	require.Equal(t, each, device.Stats().Channels, "both guests share the device")
	p := newProgram(t, modest.open(t))
	require.NoError(t, p.run(p.launch(p.addr, 1)))
}
