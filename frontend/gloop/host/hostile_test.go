package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
	"pvdrm/frontend/gloop/host"
)

// Attacks of testdata/hostile.cu.
const (
	attackTwice = uint32(iota)
	attackGarbage
	attackState
	attackNothing
	attackHostWords
)

// A kernel that breaks the protocol ends its own program, and the next one runs.
func TestHostileKernels(t *testing.T) {
	c := newContext(t, 1)
	cfg := config(t, c, "hostile", "hostile")
	well := config(t, c, "throttle", "throttle")
	out, read := words(t, c, 1)
	for name, tc := range map[string]struct {
		attack uint32
		want   string
	}{
		"a slot twice":   {attackTwice, "has a request under way"},
		"a state":        {attackState, "has left in state 77"},
		"no report":      {attackNothing, "has not reported"},
		"the host's own": {attackHostWords, ""},
	} {
		_, err := host.Run(minute(t), cfg, tc.attack, uint32(1))
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, abi.ErrProtocol, name)
		require.ErrorContains(t, err, tc.want, name)
	}
	for seed := range uint32(20) {
		stats, err := host.Run(minute(t), cfg, attackGarbage, seed)
		require.NoError(t, err)
		require.LessOrEqual(t, stats.Requests, uint64(64))
	}
	_, err := host.Run(minute(t), well, out, uint32(100))
	require.NoError(t, err)
	require.Equal(t, []uint32{100}, read())
}

// Buffers in granted memory are found by their addresses, and no others.
func TestGrantedBuffersHaveBounds(t *testing.T) {
	c := newContext(t, 1)
	cfg := config(t, c, "io", "ask")
	h, err := c.MemAllocHost(4096)
	require.NoError(t, err)
	cfg.Memory = []*cuda.HostMem{h}
	at := uint64(h.DevicePtr())
	const first = 3
	got := ask(t, c, cfg, "/proc/self/stat",
		abi.Request{Op: abi.OpOpen},
		abi.Request{Op: abi.OpRead, Handle: first, Address: at + 4092, Size: 4},
		abi.Request{Op: abi.OpRead, Handle: first, Address: at, Size: 4},
		abi.Request{Op: abi.OpRead, Handle: first, Address: at + 4092, Size: 5}, // goes through a bounce buffer, which refuses it
		abi.Request{Op: abi.OpRead, Handle: first, Address: at - 1, Size: 2})
	require.Equal(t, []int64{first, 4, 4}, got[:3])
	require.Negative(t, got[3])
	require.Negative(t, got[4])
}
