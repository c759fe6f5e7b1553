package nvidia

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pathOn is the path of a worker whose driver only counts: launch is called for each kernel with
// how many there were before, and the loop ends once no command is left. It returns the commands
// that have a fence.
func pathOn(t *testing.T, l lane, launch func(n uint32) result) (fenced func() []uint32) {
	spin, rest := spinTime, restTime
	spinTime, restTime = time.Millisecond, 0
	t.Cleanup(func() { spinTime, restTime = spin, rest })
	var fences []uint32
	started := uint32(0)
	const noDescriptor = -1 // the path cannot sleep
	p := &path{extra: new([5]uintptr), size: make([]byte, 8)}
	p.w = &worker{lane: l, wake: noDescriptor, drv: &driver{
		streamQuery: func(uintptr) result { return resultOK },
		launchKernel: func(uintptr, *launchArgs, uintptr, *[5]uintptr) result {
			started++
			return launch(started - 1)
		},
		streamWriteValue32: func(_ uintptr, at uint64, number uint32) result {
			fences = append(fences, number)
			l.store(offFences+int(at), number)
			return resultOK
		},
	}}
	p.streams[1] = stream{handle: 1}
	p.streams[2] = stream{handle: 2}
	return func() []uint32 {
		require.ErrorIs(t, p.loop(), unix.EBADF)
		return fences
	}
}

// A quiet command leaves its fence to one that comes while it is being started.
func TestQuietCommandsShareFences(t *testing.T) {
	const commands = 12
	for _, test := range []struct {
		name    string
		channel func(number uint32) uint8
		quiet   func(number uint32) bool
		ahead   uint32 // commands that are published before the first one is started
		code    func(number uint32) result
		want    []uint32
	}{
		{name: "each comes during the one before", ahead: 1, want: []uint32{9, 12}},
		{name: "all are there", ahead: commands, want: []uint32{9, 12}},
		{name: "one is not quiet", ahead: 1, quiet: func(n uint32) bool { return n != 4 }, want: []uint32{3, 4, 12}},
		{name: "one is of another channel", ahead: 1, channel: func(n uint32) uint8 { return 1 + uint8(n/6)%2 }, want: []uint32{5, 11, 12}},
		{name: "one is refused", ahead: 1, code: func(n uint32) result {
			if n == 6 {
				return resultInvalidValue
			}
			return resultOK
		}, want: []uint32{5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := testLane()
			published := uint32(0)
			publish := func() {
				e := entry{kind: entryLaunch, last: true, quiet: true, channel: 1, number: published + 1}
				if test.quiet != nil {
					e.quiet = test.quiet(e.number)
				}
				if test.channel != nil {
					e.channel = test.channel(e.number)
				}
				l.publish(published, &e, nil)
				published++
			}
			fenced := pathOn(t, l, func(n uint32) result {
				for n+1 >= published && published < commands {
					publish()
				}
				if test.code != nil {
					return test.code(n + 1)
				}
				return resultOK
			})
			for published < test.ahead {
				publish()
			}
			require.Equal(t, test.want, fenced())
		})
	}
}
