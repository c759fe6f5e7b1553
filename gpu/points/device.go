package points

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx/rewrite"
	"pvdrm/internal/hostmem"
)

// Config says which kernels run in pieces, and how.
type Config struct {
	// Force has kernels run in pieces also in contexts that the device can preempt.
	Force bool
	// Area is how much VRAM each context has for the state of kernels; 0 stands for DefaultArea, or an
	// eighth of the device's if that is less.
	Area uint64
	// Short is how long a kernel may take for it to stay as it is: others wait no longer for such a one. 0
	// stands for DefaultShort, a negative time for none.
	Short time.Duration
	// Alone reports whether no other guest is at the GPU; nil stands for a function that never does. While it does,
	// and no other context has a channel, kernels stay as they are that took no more than Lone the last time, and those
	// that have no loops: who comes meanwhile waits for the one that runs. 0 stands for DefaultLone.
	Alone func() bool
	Lone  time.Duration
	// Sole says that no other guest can come, as where no arbiter shares the device: while no other context has a channel, kernels of
	// which nothing is known stay as they are, too.
	Sole bool
	// Limit is the device's limit for the time that a launch uses, in all its pieces; 0 is none. Beyond it a
	// launch is not asked to end any more, so that the device ends it.
	Limit time.Duration
	// Far has the signal lie in VRAM, where a look costs a GPU less than over PCIe. It gets there by a
	// copy.
	Far bool
	// Options are those of the rewriter. With Options.Count each piece ends at the Look-th look.
	Options rewrite.SuspendOptions
	Look    uint32
	// Pieces bounds how often a launch is asked to end; 0 is no bound.
	Pieces int
}

// Defaults of Config.
const (
	DefaultArea  = 64 << 20
	DefaultShort = 5 * time.Millisecond
	DefaultLone  = 250 * time.Millisecond // less than a guest takes to come
)

// maxContexts is how many contexts of a device may have kernels in pieces: each has a page of the host.
const maxContexts = 64

// Device is a device whose kernels may run in pieces.
type Device struct {
	gpu.Device
	config Config
	props  gpu.Properties
	page   uint64 // bytes of words that a context has
	region *hostmem.Region

	twins, wholes, pieces atomic.Uint64
	contexts              atomic.Int64 // that have a place in used, have had a channel and are not being closed

	mu   sync.Mutex
	used [maxContexts]*context // of the pages of region
}

// New wraps a device, which it closes when it is closed.
func New(d gpu.Device, c Config) (*Device, error) {
	p := d.Properties()
	if c.Area == 0 {
		c.Area = min(DefaultArea, p.VRAMBytes/8)
	}
	c.Area = (c.Area + p.VRAM.Page - 1) / p.VRAM.Page * p.VRAM.Page
	if c.Short == 0 {
		c.Short = DefaultShort
	}
	if c.Lone == 0 {
		c.Lone = DefaultLone
	}
	page := max(p.System.Page, hostmem.PageSize)
	if c.Area >= p.VRAM.Size || page >= p.System.Size {
		return nil, fmt.Errorf("%w: an area of %d bytes for kernels in pieces", gpu.ErrInvalid, c.Area)
	}
	region, err := hostmem.New(maxContexts * page) // now: a backend that is confined can make none
	if err != nil {
		return nil, fmt.Errorf("memory for signals: %w", err)
	}
	p.VRAM.Size -= c.Area
	p.System.Size -= page
	return &Device{Device: d, config: c, props: p, page: page, region: region}, nil
}

// Properties implements gpu.Device. Addresses at the ends of the windows are the wrapper's.
func (d *Device) Properties() gpu.Properties { return d.props }

// Counts returns how many launches ran as twins and as they were, and how many pieces the former had
// besides the first.
func (d *Device) Counts() (twins, wholes, pieces uint64) {
	return d.twins.Load(), d.wholes.Load(), d.pieces.Load()
}

// Stats implements gpu.Device.
func (d *Device) Stats() gpu.Stats {
	pieces := d.pieces.Load()
	st := d.Device.Stats()
	st.Launches -= min(pieces, st.Launches)
	st.Preemptions += pieces
	return st
}

// NewContext implements gpu.Device. A context that the device can preempt is left as it is, unless forced.
func (d *Device) NewContext(label string) (gpu.Context, error) {
	inner, err := d.Device.NewContext(label)
	if err != nil {
		return nil, err
	}
	c := &context{Context: inner, dev: d}
	if p, ok := inner.(gpu.Preempter); !d.config.Force && ok && p.Resume() == nil {
		return inner, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.slot = slices.Index(d.used[:], nil); c.slot < 0 {
		return inner, nil
	}
	d.used[c.slot] = c
	return c.offering(), nil
}

// alone reports whether no other context than its own can wait for a kernel: it has no channel.
func (d *Device) alone() bool {
	return d.contexts.Load() == 1 && (d.config.Sole || d.config.Alone != nil && d.config.Alone())
}

// words is the memory of a slot.
func (d *Device) words(slot int) []byte {
	return d.region.Bytes()[uint64(slot)*d.page:][:d.page:d.page]
}

// give frees a slot.
func (d *Device) give(slot int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used[slot] = nil
}

// Close implements gpu.Device.
func (d *Device) Close() error {
	err := d.Device.Close()
	d.mu.Lock()
	open := d.used
	d.mu.Unlock()
	for _, c := range open {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.region != nil {
		d.region.Release()
		d.region = nil
	}
	return err
}

// product multiplies sizes, of which none is 0. It reports false where that overflows.
func product(list ...uint64) (p uint64, ok bool) {
	p = 1
	for _, n := range list {
		var high uint64
		if high, p = bits.Mul64(p, n); high != 0 || p == 0 {
			return 0, false
		}
	}
	return p, true
}
