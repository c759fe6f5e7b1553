package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sandbox"
	"pvdrm/backend/sched"
	"pvdrm/backend/supervisor"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/points"
	"pvdrm/gpu/ptx/rewrite"
)

// deviceFlags choose and configure the GPU.
type deviceFlags struct {
	device      deviceName
	more        []deviceName // further devices of the guest
	vram        string
	sms         int // of the software GPU
	sm          capability
	limit       time.Duration // 0 for the default
	revoke      time.Duration
	revocations int
	singly      bool // work that comes again does not become graphs of the driver
	unfollowed  bool // no channel of a guest waits for another one on the GPU
	cudaLibs    string
	model       bool
	points      bool // kernels run in pieces
	counts      bool // of the software GPU: it logs what ran compiled
	log         *zap.Logger
	every       int  // looks after which each piece of a kernel ends, 0: when others want the GPU
	divide      bool // of the software GPU: kernels give way between blocks only
	quotas      []string
	box         string // sandboxOn or sandboxOff

	arbiter string // socket; "" for none
	place   int    // which of the arbiter's GPUs the device is; less than 0: the first, or of several devices the number
	inOrder bool   // of several devices it is the place in their order: the arbiter is there for these devices only
	key     string // file with the guest's key for it; "" for none
	ofRoot  bool   // root's arbiter is trusted, too
	guest   string // name at the arbiter
	weight  uint32
	cap     float64 // percent; 0 for none
	reserve float64 // percent
	service service
	wait    bool // for an arbiter that is away

	several bool // the command takes several devices

	parts cardParts // of a card that guests share
	peers peerFlags // the guest's other devices

	gl glFlags
}

func (d *deviceFlags) add(c *cobra.Command) {
	c.Flags().Var(deviceList{d}, "device", d.deviceHelp())
	for _, k := range deviceKinds {
		k.flags(d, c.Flags())
	}
	c.Flags().StringVar(&d.vram, "vram", "", "memory of the GPU that guests get, bytes with a suffix K, M or G (default: a quarter of the host's memory for the software GPU, which takes it only where it is written to; all of an NVIDIA GPU, where it counts what the driver takes for a guest, too)")
	c.Flags().DurationVar(&d.limit, "launch-limit", 0, "longest time that a kernel may run; one that runs longer is stopped and its context lost (0, the default: 10s; of a kernel that can be preempted only while another program waits for it, on an NVIDIA GPU a call of the same program)")
	c.Flags().BoolVar(&d.points, "automatic-points", false, "kernels that come as PTX look at heads of loops whether they are to leave the GPU, and save their state themselves: to compare with GPUs that can preempt, where --device cuda does so by itself if its driver cannot")
	c.Flags().IntVar(&d.every, "points-every", 0, "with --automatic-points, for tests: kernels look at each head of a loop, and leave the GPU at each so manieth look, up to 32 times a launch (0: when others want the GPU)")
	c.Flags().StringVar(&d.box, "sandbox", sandboxOn, "on: a backend process gives up its privileges and all system calls that it does not need, and so does what serves it; off: it does not")
	d.gl.add(c)
	d.peers.add(c)
	c.Flags().StringSliceVar(&d.quotas, "quota", nil, "most that the guest may have, such as vram=512M,channels=16; of "+quotaNames()+"; the defaults are far more than programs need")
	c.Flags().StringVar(&d.arbiter, "arbiter", "", "socket of the arbiter (pvdrm arbiter) that shares the GPU among backends; without one this backend is the sole user")
	c.Flags().IntVar(&d.place, "arbiter-gpu", -1, "with --arbiter: which GPU of an arbiter with several (pvdrm arbiter --gpus) the device is, counted from 0 (default: the first; of several devices that have one arbiter, each the one of its number)")
	c.Flags().StringVar(&d.key, "arbiter-key", "", "with --arbiter: file with the guest's key, where the arbiter has a roster (pvdrm arbiter new-key)")
	c.Flags().BoolVar(&d.ofRoot, "arbiter-root", false, "with --arbiter: trust one that root runs, and not only one of this user")
	c.Flags().StringVar(&d.guest, "guest", fmt.Sprintf("guest-%d", os.Getpid()), "name of this guest at the arbiter")
	c.Flags().Uint32Var(&d.weight, "weight", 1, "share of the GPU at the arbiter, relative to the weights of the other guests that are active")
	c.Flags().Float64Var(&d.cap, "cap", 0, "most of the GPU's time that the arbiter gives this guest, percent; 0 is no limit")
	c.Flags().Float64Var(&d.reserve, "reserve", 0, "least of the GPU's time that the arbiter gives this guest while it has work, percent")
	d.service.add(c.Flags())
	c.Flags().BoolVar(&d.wait, "wait-for-arbiter", false, "while no arbiter answers, run nothing (default: go on as the sole user)")
}

// args are the flags as another pvdrm takes them, which may be in another directory. One
// that serves a guest does not get the guest's key.
func (d *deviceFlags) args() []string {
	socket := d.arbiter
	if path, err := filepath.Abs(socket); err == nil && socket != "" {
		socket = path
	}
	args := append(append(d.gl.args(), d.peers.args()...), d.device.kind().args(d)...)
	return append(args, "--device", d.device.String(), "--vram", d.vram, "--launch-limit", d.limit.String(), "--automatic-points="+strconv.FormatBool(d.points), "--points-every", strconv.Itoa(d.every), "--arbiter", socket, "--guest", d.guest, "--weight", strconv.FormatUint(uint64(d.weight), 10), "--cap", formatPercent(d.cap), "--reserve", formatPercent(d.reserve), "--class", d.service.class.String(), "--priority", strconv.FormatUint(uint64(d.service.priority), 10), "--sla", d.service.sla.String(), "--wait-for-arbiter="+strconv.FormatBool(d.wait),
		"--sandbox", d.box, "--quota", strings.Join(d.quotas, ","))
}

func formatPercent(p float64) string { return strconv.FormatFloat(p, 'g', -1, 64) }

// entitled is who the guest is at the arbiter.
func (d *deviceFlags) entitled() entitled {
	return entitled{name: d.guest, weight: d.weight, cap: d.cap, reserve: d.reserve, service: d.service}
}

// share is what the guest wishes for at the arbiter.
func (d *deviceFlags) share() sched.Share { return d.entitled().share() }

// check finds what is wrong with the flags.
func (d *deviceFlags) check() error {
	if err := d.checkSeveral(); err != nil {
		return err
	}
	if d.vram != "" {
		if _, err := parseBytes(d.vram); err != nil {
			return usageError{fmt.Errorf("--vram: %w", err)}
		}
	}
	if d.limit < 0 || d.limit >= arbiter.DefaultAnswerLimit {
		return usageError{fmt.Errorf("--launch-limit %v: choose less than %v, after which an arbiter gives a backend up, and at least 0, which is the default", d.limit, arbiter.DefaultAnswerLimit)}
	}
	if d.box != sandboxOn && d.box != sandboxOff {
		return usageError{fmt.Errorf("--sandbox: %q is neither %s nor %s", d.box, sandboxOn, sandboxOff)}
	}
	if err := d.share().Check(); err != nil {
		return usageError{fmt.Errorf("--weight, --cap, --reserve, --class, --priority, --sla: %w", err)}
	}
	_, err := d.limits()
	return err
}

// join joins the arbiter, where connect takes the guest's seat; nil where there is none.
func (d *deviceFlags) join(log *zap.Logger, connect func() (*arbiter.Seat, error)) (*arbiter.Gate, error) {
	if d.arbiter == "" {
		return nil, nil
	}
	return d.gate(log, connect, d.device.kind().preempt(d))
}

// gate joins the arbiter, which there is. Preemptible says whether commands stop when it asks for that.
func (d *deviceFlags) gate(log *zap.Logger, connect func() (*arbiter.Seat, error), preemptible bool) (*arbiter.Gate, error) {
	lost := arbiter.GoAlone
	if d.wait {
		lost = arbiter.WaitForArbiter
	}
	gate, err := arbiter.Join(arbiter.GateConfig{Connect: connect, WhenLost: lost, Preemptible: preemptible, Turns: d.device.kind().turns, Log: log})
	if err != nil {
		return nil, fmt.Errorf("joining the arbiter at %s: %w", d.arbiter, err)
	}
	return gate, nil
}

// open opens the device. With an arbiter, connect takes the guest's seat there.
func (d *deviceFlags) open(log *zap.Logger, connect func() (*arbiter.Seat, error)) (gpu.Device, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	d.log = log
	vram, err := d.memory()
	if err != nil {
		return nil, err // check has found none
	}
	gate, err := d.join(log, connect)
	if err != nil {
		return nil, err
	}
	if gate == nil {
		return d.openPoints(vram, nil, nil)
	}
	compute, render := gpu.Split(gate)
	device, err := d.openPoints(vram, compute, gate.Single)
	if err != nil {
		gate.Close()
		return nil, err
	}
	return gatedDevice{device, gate, render}, nil
}

// openPoints opens the device, whose kernels run in pieces where it cannot preempt them, or with
// --automatic-points. Alone reports whether no other guest is there; it is nil where none can come.
func (d *deviceFlags) openPoints(vram uint64, gate gpu.Gate, alone func() bool) (gpu.Device, error) {
	kind := d.device.kind()
	device, err := kind.open(d, vram, gate)
	if err != nil || !d.points && !kind.refuses {
		return device, err
	}
	c := points.Config{Force: d.points, Limit: d.limit, Far: kind.far, Alone: alone, Sole: alone == nil}
	if d.every > 0 {
		c.Alone, c.Sole, c.Short, c.Pieces, c.Look, c.Options = nil, false, -1, mostPieces, uint32(d.every), rewrite.SuspendOptions{Interval: 1, Count: true}
	}
	wrapped, err := points.New(device, c)
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	return wrapped, nil
}

// mostPieces is how often a launch leaves the GPU at most with --points-every.
const mostPieces = 32

// defaultLaunchLimit is what --launch-limit means where it is not set.
const defaultLaunchLimit = 10 * time.Second

// memory is the size of the device's memory; 0 is all that the GPU has.
func (d *deviceFlags) memory() (uint64, error) {
	if d.vram != "" {
		return parseBytes(d.vram)
	}
	return d.device.kind().memory(), nil
}

// taking says which seat at the arbiter is the guest's.
func (d *deviceFlags) taking() (t arbiter.Taking, err error) {
	limits, err := d.limits()
	if err != nil {
		return t, err
	}
	t = arbiter.Taking{Socket: d.arbiter, Hello: arbiter.Hello{Name: d.guest, GPU: uint32(max(d.place, 0)), Share: d.share(), Needs: needs(limits)}}
	if d.ofRoot {
		t.Owners = []uint32{uint32(os.Geteuid()), 0}
	}
	if d.key != "" {
		if t.Hello.Key, err = arbiter.ReadKey(d.key); err != nil {
			return t, fmt.Errorf("--arbiter-key: %w", err)
		}
	}
	return t, nil
}

// connect takes the guest's seat for a device of this process.
func (d *deviceFlags) connect() (*arbiter.Seat, error) {
	taking, err := d.taking()
	if err != nil {
		return nil, err
	}
	return taking.Connect()
}

// demand says what a guest's backend is to serve with.
func (d *deviceFlags) demand(limits quota.Limits, kind carrierKind) supervisor.Demand {
	demand := supervisor.Demand{Limits: limits, Workers: d.device.kind().workers, Weight: d.weight}
	if d.device.kind().private {
		demand.VRAM, _ = d.memory() // check has found no error
	}
	if kind == vhostUser && d.gl.mode != glOff {
		demand.Renderer = rendererBytes(limits)
	}
	return demand
}

// gatedDevice is a device that leaves its arbiter when it is closed.
type gatedDevice struct {
	gpu.Device
	gate   *arbiter.Gate
	render gpu.Gate // for what is rendered beside the device
}

// Close is part of gpu.Device.
func (d gatedDevice) Close() error {
	defer d.gate.Close() // when nothing waits at it any more
	return d.Device.Close()
}

// parseBytes reads a number of bytes with an optional suffix K, M or G (powers of 1024).
func parseBytes(s string) (uint64, error) {
	digits, shift := s, 0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMG", s[n-1]); i >= 0 {
			digits, shift = s[:n-1], 10*(i+1)
		}
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v == 0 || v > 1<<46>>shift {
		return 0, fmt.Errorf("%q is not a number of bytes such as 512M or 4G", s)
	}
	return v << shift, nil
}

// quotaNames lists what --quota takes.
func quotaNames() string {
	var names []string
	for r := range quota.Resources {
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}

// localModules is the quota of a local guest's memory for modules. Libraries such as CuPy's parts of Thrust
// have some 30 MB of PTX in one module, and who runs a program here trusts it with more than a guest.
const localModules = "module-memory=4G"

// trustModules sets localModules, unless --quota limits modules.
func (d *deviceFlags) trustModules() {
	if !slices.ContainsFunc(d.quotas, func(q string) bool { return strings.HasPrefix(q, "module-") }) {
		d.quotas = append(d.quotas, localModules)
	}
}

// limits reads --quota.
func (d *deviceFlags) limits() (l quota.Limits, err error) {
	for _, q := range d.quotas {
		name, value, _ := strings.Cut(q, "=")
		r, ok := quota.ByName(name)
		if !ok {
			return l, usageError{fmt.Errorf("--quota: %q is none of %s", name, quotaNames())}
		}
		if r.Bytes() {
			l[r], err = parseBytes(value)
		} else if l[r], err = strconv.ParseUint(value, 10, 32); err == nil && l[r] == 0 {
			err = errors.New("choose at least 1")
		}
		if err != nil {
			return l, usageError{fmt.Errorf("--quota %s: %w", q, err)}
		}
	}
	return l, nil
}

// Values of --sandbox.
const (
	sandboxOn  = "on"
	sandboxOff = "off"
)

// confined says whether a backend is to give up what it does not need.
func (d *deviceFlags) confined() bool { return d.box == sandboxOn }

// devices are those of the host that a backend opens, by itself or by its workers.
func (d *deviceFlags) devices() (v supervisor.Devices, err error) {
	v.Root.Visible = append(d.gl.files(), d.device.kind().files...)
	v.Root.ThreadNames = d.device.kind().threadNames || d.gl.byNumber()
	if v.Root.Visible == nil {
		return v, nil
	}
	// A device is for the members of its group: root can put a backend into it, and
	// others leave it where they are.
	v.KeepGroups = os.Geteuid() != 0
	v.Groups, err = sandbox.DeviceGroups(v.Root.Visible...)
	v.Root.Visible = append(v.Root.Visible, sandbox.GPUFiles...)
	if d.device.kind().threadNames {
		v.Root.Visible = append(v.Root.Visible, cudaLibDirs(d)...)
	}
	return v, err
}
