package softgpu

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/parallel"
)

// device is one software GPU. It implements gpu.Device.
type device struct {
	config Config
	limits exec.Limits
	props  gpu.Properties
	vram   *vram
	epoch  time.Time // zero of the device's clock

	compute engine
	copy    engine
	workers parallel.Pool // of kernels
	waiting exec.Waiting  // launches by kernels
	tally   *exec.Tally   // for Config.Report; nil without

	launches, copyBytes, faults atomic.Uint64
	preemptions                 atomic.Uint64 // of commands
	replays                     atomic.Uint64 // launches that were revoked, and begin again
	kept                        atomic.Int64  // bytes saved for launches that may be revoked
	asleep                      atomic.Int64  // nanoseconds of Stats.ComputeAsleep
	compiling                   atomic.Int64  // nanoseconds of a processor, in the background; see compiled
	output                      atomic.Int64  // bytes that contexts keep of what kernels print
	mappings                    mappings
	programs                    programs

	mu       sync.Mutex
	closed   bool
	contexts map[*context]struct{}
	slots    []bool // channel numbers in use
	open     int    // how many

	closing sync.Once
}

// New makes a device. Errors wrap gpu.ErrInvalid where the configuration is
// at fault. Close it when done.
func New(config Config) (gpu.Device, error) {
	d, err := newDevice(config)
	if err != nil {
		return nil, fmt.Errorf("softgpu: %w", err)
	}
	return d, nil
}

func newDevice(config Config) (*device, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	v, err := newVRAM(config.VRAMBytes)
	if err != nil {
		return nil, err
	}
	v.reserve(uint64(config.MaxChannels) * hw.DescBytes)
	limits := config.limits()
	d := &device{
		config:   config,
		limits:   limits,
		props:    config.properties(limits),
		vram:     v,
		epoch:    time.Now(),
		compute:  engine{kind: gpu.EngineCompute, gate: config.Gate, modelled: config.ModelTime},
		copy:     engine{kind: gpu.EngineCopy, gate: config.Gate, modelled: config.ModelTime},
		contexts: map[*context]struct{}{},
		slots:    make([]bool, config.MaxChannels),
	}
	if config.Report != nil {
		d.tally = new(exec.Tally)
	}
	d.compute.yield, d.copy.yield = d.compute.yields, d.copy.yields
	if gate := config.Gate; gate != nil {
		d.workers.Linger = func() bool { return gate.Alone(gpu.EngineCompute) }
	}
	return d, nil
}

// Properties implements gpu.Device.
func (d *device) Properties() gpu.Properties { return d.props }

// now is the device's clock: nanoseconds since it was opened, or, where time is
// modelled, in which its engines were busy.
func (d *device) now() uint64 {
	if d.config.ModelTime {
		return uint64(d.compute.busyTime() + d.copy.busyTime())
	}
	return uint64(time.Since(d.epoch))
}

// NewContext implements gpu.Device.
func (d *device) NewContext(label string) (gpu.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("new context %q: device %w", label, gpu.ErrClosed)
	}
	s, err := newSpace(d.vram, &d.mappings)
	if err != nil {
		return nil, fmt.Errorf("new context %q: %w", label, err)
	}
	c := newContext(d, label, s)
	d.contexts[c] = struct{}{}
	return c, nil
}

// compiled takes the share of the compute engine that compiling kernels in the background has used since the
// last call: it takes one of the processors. The command that ends is charged for it. Modelled times do not
// count it.
func (d *device) compiled() time.Duration {
	if d.compiling.Load() == 0 {
		return 0
	}
	return time.Duration(d.compiling.Swap(0)) / time.Duration(d.config.SMs)
}

// forget drops a context that has closed.
func (d *device) forget(c *context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.contexts, c)
}

// Stats implements gpu.Device.
func (d *device) Stats() gpu.Stats {
	d.mu.Lock()
	open := d.open
	d.mu.Unlock()
	times, launched := d.compute.ended()
	return gpu.Stats{
		ComputeAsleep: time.Duration(d.asleep.Load()),
		ComputeBusy:   d.compute.busyTime(),
		CopyBusy:      d.copy.busyTime(),
		Launches:      d.launches.Load(),
		LaunchTimes:   times,
		LaunchTime:    launched,
		CopyBytes:     d.copyBytes.Load(),
		Preemptions:   d.preemptions.Load(),
		Faults:        d.faults.Load(),
		Replays:       d.replays.Load(),
		VRAMUsed:      d.vram.used(),
		Channels:      open,
	}
}

// VRAMUsed implements gpu.Device.
func (d *device) VRAMUsed() uint64 { return d.vram.used() }

// openSlot takes a channel number and writes its descriptor.
func (d *device) openSlot(directory uint64) (number int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	number = slices.Index(d.slots, false)
	if number < 0 {
		return 0, fmt.Errorf("%w: all %d of the device are open", gpu.ErrBusy, len(d.slots))
	}
	d.slots[number] = true
	d.open++
	desc := hw.Descriptor(number)
	d.vram.SetWord(desc+hw.DescNumber, uint64(number))
	d.vram.SetWord(desc+hw.DescDirectory, directory)
	d.vram.SetWord(desc+hw.DescLimit, hw.AddressMax-1)
	d.vram.SetWord(desc+hw.DescState, hw.StateOpen)
	return number, nil
}

// closeSlot gives a channel number back. Preconditions: the channel is idle.
func (d *device) closeSlot(c *channel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.raw {
		clear(d.vram.Bytes(c.descriptor, hw.DescBytes))
	}
	d.slots[c.number] = false
	d.open--
}

// Close implements gpu.Device.
func (d *device) Close() error {
	var err error
	d.closing.Do(func() {
		d.mu.Lock()
		d.closed = true
		var open []*context
		for c := range d.contexts {
			open = append(open, c)
		}
		d.mu.Unlock()
		for _, c := range open {
			c.end(gpu.ErrClosed) // all stop at once, so that closing waits for the slowest only
		}
		for _, c := range open {
			c.Close()
		}
		err = d.vram.Unmap()
		if d.tally != nil {
			d.config.Report(d.tally.Rows())
		}
	})
	return err
}
