package arbiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// A GPU of D channels takes D/C guests of C channels each; what one leaves, another may have.
func TestPromises(t *testing.T) {
	limits := Limits{Capacity: Amounts{Channels: 48, Contexts: 48, VRAM: 1 << 30}, Most: Amounts{Channels: 12, Contexts: 16}}
	h := newHost(t, Config{GPUs: []GPU{{Limits: limits}}})
	defer h.stop()
	join := func(name string, needs Amounts) (link, *page, error) {
		l, _, p, err := h.connect(&Hello{Name: name, Share: sched.Share{Weight: 1}, Needs: needs})
		return l, p, err
	}
	_, p, err := join("a", Amounts{})
	require.NoError(t, err)
	require.Equal(t, Amounts{Channels: 12, Contexts: 16, VRAM: 128 << 20}, p.promised(), "what it did not name")
	_, p, err = join("b", Amounts{Channels: 1, VRAM: 3 << 20})
	require.NoError(t, err)
	require.Equal(t, Amounts{Channels: 1, Contexts: 16, VRAM: 3 << 20}, p.promised())
	_, _, err = join("c", Amounts{Channels: 13})
	require.ErrorContains(t, err, "guest c: it needs 13 channels, and a guest may have 12: disk quota exceeded")
	last, _, err := join("c", Amounts{Contexts: 16})
	require.NoError(t, err)
	_, _, err = join("d", Amounts{Contexts: 1, Channels: 1})
	require.ErrorContains(t, err, "guest d: the GPU is full: 48 of its 48 contexts are promised to others, and it needs 1")
	require.ErrorContains(t, err, unix.EBUSY.Error())
	st := h.server().Stats()[0]
	require.Equal(t, Amounts{Channels: 25, Contexts: 48, VRAM: 259 << 20}, st.Promised)
	require.Equal(t, limits.Capacity, st.Capacity)
	last.close()
	require.Eventually(t, func() bool {
		_, _, err := join("d", Amounts{Contexts: 16, VRAM: 128 << 20})
		return err == nil
	}, time.Minute, ms)
}

// Without a capacity, guests get what they name, and nothing is refused.
func TestNoPromises(t *testing.T) {
	l, err := Limits{}.normal()
	require.NoError(t, err)
	for range 3 {
		got, err := l.promise(Amounts{Channels: 1 << 31}, Amounts{Channels: 1 << 31})
		require.NoError(t, err)
		require.Equal(t, Amounts{Channels: 1 << 31}, got)
	}
	for _, wrong := range []Limits{{Most: Amounts{Channels: 1}}, {Capacity: Amounts{VRAM: MiB}, Most: Amounts{VRAM: 2 * MiB}}} {
		_, err := wrong.normal()
		require.Error(t, err)
	}
	l, err = Limits{Capacity: Amounts{Channels: 9, Contexts: 1}}.normal()
	require.NoError(t, err)
	require.Equal(t, Amounts{Channels: 2, Contexts: 1}, l.Most)
}
