package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
	"pvdrm/frontend/gloop/host"
	"pvdrm/gpu/softgpu"
)

// Whatever a program does wrong, another one on the same GPU runs meanwhile, to its end and with the right result.
func TestBystander(t *testing.T) {
	for _, tc := range []struct {
		name           string
		module, kernel string
		threads        uint32
		args           []any // behind the word that kernels of module tasks have first
		want           error
	}{
		{name: "65 posts and one more", module: "tasks", kernel: "flood", threads: 1, args: []any{uint32(66)}, want: host.ErrSlots},
		{name: "calls apart", module: "tasks", kernel: "apart", threads: 64, want: host.ErrCoalesced},
		{name: "a slot twice", module: "hostile", kernel: "hostile", threads: 1, args: []any{attackTwice, uint32(1)}, want: abi.ErrProtocol},
		{name: "a state", module: "hostile", kernel: "hostile", threads: 1, args: []any{attackState, uint32(1)}, want: abi.ErrProtocol},
		{name: "never looks", module: "tasks", kernel: "deaf", threads: 1, want: cuda.ErrLaunchTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			both := newContexts(t, 2, softgpu.Config{VRAMBytes: 64 << 20, SMs: 1, LaunchLimit: 2 * time.Second})
			well := config(t, both[0], "throttle", "throttle")
			out, read := words(t, both[0], 1)
			const steps = 200_000 // which take longer than most of what is wrong
			ended := make(chan error, 1)
			bad := config(t, both[1], tc.module, tc.kernel)
			bad.Block[0] = tc.threads
			word, _ := words(t, both[1], 1)
			args := tc.args
			switch {
			case tc.kernel == "apart":
			case tc.module == "tasks":
				args = append([]any{word}, args...)
			}
			go func() {
				_, err := host.Run(minute(t), well, out, uint32(steps))
				ended <- err
			}()
			_, err := host.Run(minute(t), bad, args...)
			require.ErrorIs(t, err, tc.want)
			require.NoError(t, <-ended)
			require.Equal(t, []uint32{steps}, read())
			_, err = host.Run(minute(t), well, out, uint32(steps))
			require.NoError(t, err)
			require.Equal(t, []uint32{2 * steps}, read())
		})
	}
}
