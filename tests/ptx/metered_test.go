package ptx_test

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// metered is a device that adds up the processor time of the process while a channel has launches to run. On a
// machine that others use, too, that says what kernels cost; the time of the engine does not.
type metered struct {
	gpu.Device
	mu    sync.Mutex
	under int           // submissions that have not ended
	since time.Duration // processor time when the first of them came
	used  time.Duration
}

func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (d *metered) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under == 0 {
		d.since = processorTime()
	}
	if d.under += n; d.under == 0 {
		d.used += processorTime() - d.since
	}
}

type meteredContext struct {
	gpu.Context
	dev *metered
}

type meteredChannel struct {
	gpu.Channel
	dev *metered
}

func (d *metered) NewContext(label string) (gpu.Context, error) {
	c, err := d.Device.NewContext(label)
	return meteredContext{c, d}, err
}

func (c meteredContext) NewChannel() (gpu.Channel, error) {
	ch, err := c.Context.NewChannel()
	return meteredChannel{ch, c.dev}, err
}

func (ch meteredChannel) Submit(cmds []gpu.Command, done func(gpu.Result)) error {
	for _, c := range cmds {
		if _, ok := c.(*gpu.Launch); !ok {
			continue
		}
		ch.dev.count(1)
		err := ch.Channel.Submit(cmds, func(r gpu.Result) { ch.dev.count(-1); done(r) })
		if err != nil {
			ch.dev.count(-1)
		}
		return err
	}
	return ch.Channel.Submit(cmds, done)
}
