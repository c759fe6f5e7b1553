package drm

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// freeing is a Driver that frees channels.
type freeing struct {
	Driver
	freed []uint32
}

func (d *freeing) ChannelFree(channel uint32) error {
	if channel > MaxChannels {
		return syscall.ENOENT
	}
	d.freed = append(d.freed[:0], channel)
	return nil
}

// An argument is served as it is, extended with zeroes, cut, and where it is not aligned.
func TestIoctlArguments(t *testing.T) {
	d := &freeing{}
	whole := []byte{0, 7, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9}
	for _, arg := range [][]byte{whole[1:], whole[1:9], whole[1:5], whole[1:2]} {
		require.NoError(t, Ioctl(d, IoctlChannelFree, arg, nil))
		require.Equal(t, []uint32{7}, d.freed)
	}
	require.NoError(t, Ioctl(d, IoctlChannelFree, nil, nil))
	require.Equal(t, []uint32{0}, d.freed)
	require.ErrorContains(t, Ioctl(d, IoctlChannelFree, []byte{255}, nil), "PVDRM_CHANNEL_FREE: ")
	require.ErrorIs(t, Ioctl(d, IoctlChannelFree, make([]byte, MaxArgument+1), nil), syscall.EINVAL)
	require.ErrorIs(t, Ioctl(d, iow(0xee, 8), nil, nil), syscall.ENOTTY)
}

// BenchmarkIoctl measures what an ioctl costs before its driver has it.
func BenchmarkIoctl(b *testing.B) {
	d, arg := &freeing{freed: make([]uint32, 1)}, make([]byte, 8)
	b.ReportAllocs()
	for b.Loop() {
		if err := Ioctl(d, IoctlChannelFree, arg, nil); err != nil {
			b.Fatal(err)
		}
	}
}
