package nvidia

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// Config says how to open a device. The zero value is a sound choice.
type Config struct {
	// Number is the ordinal of the CUDA device to open, as nvidia-smi -L numbers the GPUs.
	// Where the user has set CUDA_VISIBLE_DEVICES it counts among those.
	Number int
	// VRAMBytes is how much device memory contexts may have together, in whole
	// 2 MiB; 0 stands for all that the GPU has. Where workers are confined it counts all that they have
	// on the GPU: CUDA contexts, machine code, workspaces of libraries; and the Keeper holds them to it.
	VRAMBytes uint64
	// LaunchLimit is the time after which a running kernel is stopped and its
	// context lost (gpu.LostTimeout). 0 stands for 60 s; there is no limit when it
	// is negative.
	LaunchLimit time.Duration
	// LimitWaiting makes LaunchLimit count, of kernels that can be preempted, only the time for which
	// another call of their context waits for them in the driver. Others need not wait for such kernels.
	LimitWaiting bool
	// RevokeAfter is the time after which the task (gpu.Task) that runs, or with Replays a kernel that
	// may begin again, is taken off the GPU, to run again later, if the gate says that others want it.
	// 0 means never.
	RevokeAfter time.Duration
	// MaxReplays is how often one batch is revoked at most; then it runs to its end. 0 stands for 3.
	MaxReplays int
	// Replays makes VRAM outlive the worker that allocated it, so that a context can be revoked
	// (gpu.Revoker), or go on when its worker dies, with work that is no task. Allocating takes
	// longer then, and each command has a fence of its own.
	Replays bool
	// Spares is how many workers wait for contexts, besides the first one. Each has a CUDA context,
	// which takes VRAM.
	Spares int
	// Divide makes kernels that others wait for give way between parts of their grids, in place of being
	// stopped. Without it kernels are divided where the driver cannot stop them.
	Divide bool
	// NoGraphs has all commands started one by one. Otherwise work that comes again becomes graphs of the driver.
	NoGraphs bool
	// NoFollowing has the backend see the end of a batch before it begins one of another channel that waits for it.
	// Otherwise the GPU waits, where it can.
	NoFollowing bool
	// Report, if it is not nil, gets the counters of the device when it is closed.
	Report func(gpu.Stats)
	// Gate is asked before an engine is used; nil for a device of one process.
	Gate gpu.Gate
	// Keeper is the command that calls ServeKeeper, with VRAMBytes and the number of Peers; by default this
	// program with the arguments KeeperCommand, --vram and --peers.
	Keeper []string
	// Peers are the other GPUs of the guest, whose VRAM contexts can have, where the GPUs can (gpu.PeerSharer).
	Peers []Peer
}

// Peer is another GPU of a guest.
type Peer struct {
	Place  int      // among the guest's devices
	Number int      // as Config.Number
	Keeper *os.File // a socket (SOCK_SEQPACKET) to the keeper of its device; New closes it
}

const defaultLimit = 60 * time.Second

// maxSpares bounds Config.Spares: each worker takes VRAM, and channels of the GPU.
const maxSpares = 16

// device is an NVIDIA GPU. It implements gpu.Device.
type device struct {
	config Config
	props  gpu.Properties
	cache  imageCache
	keeper keeper

	compiler *compiler
	pool     *pool

	compute, copy engine

	unwatch, watched chan struct{} // end the watchdog, and its end; nil without one

	launches, copyBytes, faults, replays, preemptions, graphs, graphsApart atomic.Uint64

	names atomic.Uint64 // of memories that the keeper keeps
	stale []uint64      // those of memories that are not shared any more; under mu

	mu       sync.Mutex
	closed   bool
	contexts map[*context]struct{}
	channels int
	vramUsed uint64 // bytes

	closing sync.Once
}

// New opens a GPU. It fails where there is no NVIDIA driver or no such GPU; the error
// names the reason. Close the device when done.
func New(config Config) (gpu.Device, error) {
	d, err := newDevice(config)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	return d, nil
}

func newDevice(config Config) (*device, error) {
	if config.VRAMBytes%vramPage != 0 {
		return nil, fmt.Errorf("%w: VRAM of %d bytes; choose a multiple of 2 MiB", gpu.ErrInvalid, config.VRAMBytes)
	}
	if config.Number < 0 || config.Number > math.MaxInt32 {
		return nil, fmt.Errorf("%w: device number %d; choose 0 or more", gpu.ErrInvalid, config.Number)
	}
	if config.Spares < 0 || config.Spares > maxSpares {
		return nil, fmt.Errorf("%w: %d workers that wait; choose 0 to %d", gpu.ErrInvalid, config.Spares, maxSpares)
	}
	config.MaxReplays = cmp.Or(config.MaxReplays, defaultReplays)
	if config.LaunchLimit == 0 {
		config.LaunchLimit = defaultLimit
	}
	if config.Keeper == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("finding pvdrm's own file: %w", err)
		}
		config.Keeper = []string{self, KeeperCommand, fmt.Sprintf("--vram=%d", config.VRAMBytes), fmt.Sprintf("--peers=%d", len(config.Peers))}
	}
	k, err := startKeeper(&config)
	if err != nil {
		return nil, err
	}
	compiler := newCompiler(k)
	compiler.prepare() // it starts as long as the first worker, at the same time
	p, err := k.startProcess()
	if err != nil {
		k.Close()
		compiler.close()
		if e, ok := errors.AsType[*driverError](err); ok && e.Code == resultInvalidDevice {
			err = fmt.Errorf("there is no CUDA device %d; nvidia-smi -L lists those of this machine, of which CUDA_VISIBLE_DEVICES may hide some: %w", config.Number, err)
		}
		return nil, err
	}
	props := p.props
	props.Number = config.Number
	props.SharesMapped = !config.Replays && p.unstoppable == nil
	props.Peers = peersOf(&config, &props)
	props.Words = props.Words && !config.Replays // a wait cannot begin again
	if config.VRAMBytes != 0 {
		props.VRAMBytes = min(props.VRAMBytes, config.VRAMBytes)
	}
	d := &device{
		config: config, props: props, keeper: k, compiler: compiler, pool: newPool(k, config.Spares, p),
		compute:  engine{kind: gpu.EngineCompute, gate: config.Gate, turn: make(chan struct{}, 1)},
		copy:     engine{kind: gpu.EngineCopy, gate: config.Gate, turn: make(chan struct{}, 1)},
		contexts: map[*context]struct{}{},
	}
	if config.Gate != nil {
		d.unwatch, d.watched = make(chan struct{}), make(chan struct{})
		go d.watchdog()
	}
	return d, nil
}

// Probe says whether there is an NVIDIA driver, by its version, such as "13.0".
// It does not touch the GPU, nor say whether there is one.
func Probe() (version string, err error) {
	drv, err := openDriver()
	if err != nil {
		return "", err
	}
	var v int32
	if err := drv.check("cuDriverGetVersion", drv.driverGetVersion(&v)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), nil
}

// Properties implements gpu.Device.
func (d *device) Properties() gpu.Properties { return d.props }

// NewContext implements gpu.Device. It takes as long as the driver needs for a
// new process on the GPU, some hundred milliseconds.
func (d *device) NewContext(label string) (gpu.Context, error) {
	c, err := d.newContext(label)
	if err != nil {
		return nil, fmt.Errorf("new context %q: %w", label, err)
	}
	return c, nil
}

func (d *device) newContext(label string) (*context, error) {
	if d.pool.ended() {
		return nil, fmt.Errorf("device %w", gpu.ErrClosed)
	}
	d.compiler.prepare() // it may have ended
	p, err := d.pool.take()
	d.pool.fill()
	if err != nil {
		if e, ok := errors.AsType[*driverError](err); ok && e.Code == resultOutOfMemory {
			err = fmt.Errorf("%w: %w", gpu.ErrNoMemory, err)
		}
		return nil, err
	}
	c := newContext(d, label, p)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		c.Close()
		return nil, fmt.Errorf("device %w", gpu.ErrClosed)
	}
	d.contexts[c] = struct{}{}
	d.mu.Unlock()
	if has := d.keeper.ledger.total(); has > d.props.VRAMBytes {
		c.Close()
		return nil, fmt.Errorf("%w: the driver takes %d MiB for CUDA contexts and libraries, and there are %d MiB; choose a larger --vram", gpu.ErrNoMemory, has>>20, d.props.VRAMBytes>>20)
	}
	d.sweep(c) // of contexts that have ended
	return c, nil
}

// forget drops a context that has closed.
func (d *device) forget(c *context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.contexts, c)
}

// charge counts n bytes of VRAM as used.
func (d *device) charge(n uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	used := max(d.vramUsed, d.keeper.ledger.total())
	if left := d.props.VRAMBytes - min(used, d.props.VRAMBytes); n > left {
		return fmt.Errorf("%w: %d bytes asked for, %d of %d left", gpu.ErrNoMemory, n, left, d.props.VRAMBytes)
	}
	d.vramUsed += n
	return nil
}

func (d *device) discharge(n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vramUsed -= n
}

// openChannel counts a channel.
func (d *device) openChannel() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.channels == d.props.MaxChannels {
		return fmt.Errorf("%w: all %d of the device are open", gpu.ErrBusy, d.channels)
	}
	d.channels++
	return nil
}

func (d *device) closeChannel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.channels--
}

// Stats implements gpu.Device.
func (d *device) Stats() gpu.Stats {
	d.mu.Lock()
	open := d.channels
	d.mu.Unlock()
	times, launched := d.compute.ended()
	return gpu.Stats{
		ComputeBusy: d.compute.usage.time(), CopyBusy: d.copy.usage.time(),
		Launches: d.launches.Load(), LaunchTimes: times, LaunchTime: launched, CopyBytes: d.copyBytes.Load(), Faults: d.faults.Load(), Replays: d.replays.Load(), Preemptions: d.preemptions.Load(),
		Graphs: d.graphs.Load(), GraphsApart: d.graphsApart.Load(),
		VRAMUsed: d.VRAMUsed(), VRAMOccupied: d.keeper.ledger.total(), Channels: open,
	}
}

// VRAMUsed implements gpu.Device.
func (d *device) VRAMUsed() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.vramUsed
}

// Close implements gpu.Device.
func (d *device) Close() error {
	d.closing.Do(func() {
		if d.unwatch != nil {
			close(d.unwatch)
			<-d.watched
		}
		d.mu.Lock()
		d.closed = true
		open := slices.Collect(maps.Keys(d.contexts))
		d.mu.Unlock()
		d.pool.close()
		for _, c := range open {
			c.end(gpu.ErrClosed) // all stop at once, so that closing waits for the slowest only
		}
		for _, c := range open {
			c.Close()
		}
		if d.config.Report != nil {
			d.config.Report(d.Stats())
		}
		d.keeper.Close()
		d.pool.await()
		d.compiler.close()
	})
	return nil
}

// imageCache keeps what was compiled, by the hash of its source, so that each
// source is compiled once for all contexts of the device.
type imageCache struct {
	mu    sync.Mutex
	bytes int
	order []key // oldest first
	image map[key][]byte
}

type key [sha256.Size]byte

// cacheBytes bounds the cache.
const cacheBytes = 64 << 20

func (c *imageCache) get(k key) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.image[k]
}

func (c *imageCache) put(k key, image []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.image == nil {
		c.image = map[key][]byte{}
	}
	if _, ok := c.image[k]; ok || len(image) > cacheBytes {
		return
	}
	for c.bytes+len(image) > cacheBytes {
		c.bytes -= len(c.image[c.order[0]])
		delete(c.image, c.order[0])
		c.order = c.order[1:]
	}
	c.image[k], c.bytes, c.order = image, c.bytes+len(image), append(c.order, k)
}
