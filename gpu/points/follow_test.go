package points_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/points"
	"pvdrm/gpu/softgpu"
)

// followed is a software GPU whose channels are gpu.Followers and take every batch.
type followed struct {
	gpu.Device
	points *[]gpu.Point // of the last batch
}

func (d followed) NewContext(name string) (gpu.Context, error) {
	c, err := d.Device.NewContext(name)
	return followedContext{c, d.points}, err
}

type followedContext struct {
	gpu.Context
	points *[]gpu.Point
}

func (c followedContext) NewChannel() (gpu.Channel, error) {
	ch, err := c.Context.NewChannel()
	return &follower{ch, c.points}, err
}

type follower struct {
	gpu.Channel
	points *[]gpu.Point
}

func (*follower) Follows() bool { return true }

func (f *follower) SubmitBehind(p []gpu.Point, cmds []gpu.Command, done func(gpu.Result)) (bool, error) {
	*f.points = p
	return true, f.Submit(cmds, done)
}

// Batches of which nothing runs in pieces reach the device with the points at which it waits. The others wait on the
// host, and so does what waits for a channel that has had such a batch: its batches count otherwise there.
func TestBehind(t *testing.T) {
	inner, err := softgpu.New(softgpu.Config{VRAMBytes: 96 << 20, MaxChannels: 9})
	require.NoError(t, err)
	var given []gpu.Point
	d, err := points.New(followed{inner, &given}, points.Config{Short: -1, Force: true, Area: 16 << 20})
	require.NoError(t, err)
	c, other := newClient(t, d, 1000), newClient(t, d, 1000)
	second, err := c.ctx.NewChannel()
	require.NoError(t, err)
	behind := func(ch gpu.Channel, p gpu.Point, cmds ...gpu.Command) bool {
		done := make(chan gpu.Result, 1)
		took, err := ch.(gpu.Follower).SubmitBehind([]gpu.Point{p}, cmds, func(r gpu.Result) { done <- r })
		require.NoError(t, err)
		if took {
			require.NoError(t, (<-done).Err)
		}
		return took
	}
	at := d.Properties().System.Base
	fill := &gpu.Fill{Dst: at, Pattern: 1, Size: 1, Width: 4, Height: 1}
	require.True(t, second.(gpu.Follower).Follows())
	require.True(t, behind(second, gpu.Point{Channel: c.ch, Batch: 7}, fill))
	require.Len(t, given, 1)
	require.IsType(t, &follower{}, given[0].Channel, "the device's channel")
	require.EqualValues(t, 7, given[0].Batch)
	require.False(t, behind(second, gpu.Point{Channel: other.ch, Batch: 1}, fill), "a channel of another context")
	require.False(t, behind(second, gpu.Point{Channel: c.ch, Batch: 1}, c.launch), "a launch in pieces")
	require.NoError(t, (<-c.start()).Err)
	require.False(t, behind(second, gpu.Point{Channel: c.ch, Batch: 1}, fill), "behind a channel that had one")
	require.NoError(t, second.Close())
	_, err = second.(gpu.Follower).SubmitBehind(nil, []gpu.Command{fill}, func(gpu.Result) {})
	require.ErrorIs(t, err, gpu.ErrClosed)
}
