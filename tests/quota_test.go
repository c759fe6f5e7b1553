package tests

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backend "pvdrm/backend/local"
	"pvdrm/backend/session"
	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/local"
	"pvdrm/gpu/softgpu"
)

// startQuota starts a backend whose guest may have so much.
func startQuota(t *testing.T, limits session.Limits) *host {
	t.Helper()
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 256 << 20})
	require.NoError(t, err)
	return startServer(t, backend.Config{Device: device, Limits: limits})
}

// quotas are those of the guest, by name.
func (h *host) quotas() map[string]session.QuotaStats {
	all := map[string]session.QuotaStats{}
	for _, q := range h.server.Sessions().Quotas {
		all[q.Resource] = q
	}
	return all
}

// A guest gets what its quotas say, by errno, over all its files together; what
// it gives back, it may have again; a file that is closed leaves nothing.
func TestQuotasOfAGuest(t *testing.T) {
	const page = 64 << 10
	h := startQuota(t, session.Limits{session.VRAM: 4 * page, session.Granted: 8 << 20, session.Channels: 3,
		session.Contexts: 3, session.Modules: 2, session.ModuleText: 8 << 10})
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
	}, 10*time.Second, time.Millisecond)

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
	_, err = b.ModuleLoad("two.ptx", []byte(addOne))
	require.NoError(t, err)
	_, err = b.ModuleLoad("three.ptx", []byte(addOne))
	require.ErrorIs(t, err, syscall.ENOSPC, "modules")
	require.NoError(t, a.ModuleUnload(m))
	require.Eventually(t, func() bool {
		_, err := b.ModuleLoad("three.ptx", []byte(addOne))
		return err == nil
	}, 10*time.Second, time.Millisecond)

	c := h.open(t)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return h.quotas()["contexts"].Used == 2 }, 10*time.Second, time.Millisecond)
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
	}, 10*time.Second, time.Millisecond, "something stays charged")
}

func TestTooManyFiles(t *testing.T) {
	h := startQuota(t, session.Limits{session.Contexts: 2})
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
	h := startQuota(t, session.Limits{session.Queued: 4})
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
	require.Eventually(t, func() bool { return h.quotas()["queued"].Refused > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, p.Close(), fmt.Sprint("with ", last, " batches queued"))
	require.Eventually(t, func() bool { return h.quotas()["queued"].Used == 0 }, 10*time.Second, time.Millisecond)
}

// One guest that takes all channels that there are for it does not keep another
// guest from working: each backend counts for itself (the attack of section 6.3
// of the disengaged scheduling paper).
func TestChannelExhaustion(t *testing.T) {
	greedy, modest := startQuota(t, session.Limits{}), startQuota(t, session.Limits{})
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
	require.GreaterOrEqual(t, taken, 64)
	p := newProgram(t, modest.open(t))
	require.NoError(t, p.run(p.launch(p.addr, 1)))
}
