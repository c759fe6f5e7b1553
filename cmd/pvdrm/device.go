package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sandbox"
	"pvdrm/backend/sched"
	"pvdrm/backend/session"
	"pvdrm/gpu"
	"pvdrm/gpu/cuda"
	"pvdrm/gpu/softgpu"
)

// deviceFlags choose and configure the GPU.
type deviceFlags struct {
	device string
	vram   string
	sms    int
	limit  time.Duration
	revoke time.Duration
	model  bool
	quotas []string
	box    string // sandboxOn or sandboxOff

	arbiter string // socket; "" for none
	guest   string // name at the arbiter
	weight  uint32
	cap     float64 // percent; 0 for none
	reserve float64 // percent
	wait    bool    // for an arbiter that is away

	gl glFlags
}

func (d *deviceFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&d.device, "device", deviceSoftGPU, "the GPU: softgpu, a software GPU that runs PTX, or cuda, the first NVIDIA GPU of this machine")
	c.Flags().StringVar(&d.vram, "vram", "", "memory of the GPU that guests get, bytes with a suffix K, M or G (default: 1G of the software GPU, which takes host memory only where it is written to; all of an NVIDIA GPU)")
	c.Flags().IntVar(&d.sms, "sms", 0, "streaming multiprocessors of the software GPU, threads of the host each; 0 means one for each processor")
	c.Flags().DurationVar(&d.revoke, "revoke-after", 0, "with --device cuda and --arbiter: stop a task, which can be run again later, that has run so long while another guest waits (default: never)")
	c.Flags().DurationVar(&d.limit, "launch-limit", 10*time.Second, "longest time that a kernel may run; one that runs longer is stopped and its context lost")
	c.Flags().BoolVar(&d.model, "model-time", false, "the software GPU reports modelled times, by cycles of each class of instructions, which do not depend on this machine")
	c.Flags().StringVar(&d.box, "sandbox", sandboxOn, "on: a backend process gives up its privileges and all system calls that it does not need, and so does what serves it; off: it does not")
	d.gl.add(c)
	c.Flags().StringSliceVar(&d.quotas, "quota", nil, "most that the guest may have, such as vram=512M,channels=16; of "+quotaNames()+"; the defaults are far more than programs need")
	c.Flags().StringVar(&d.arbiter, "arbiter", "", "socket of the arbiter (pvdrm arbiter) that shares the GPU among backends; without one this backend is the sole user")
	c.Flags().StringVar(&d.guest, "guest", fmt.Sprintf("guest-%d", os.Getpid()), "name of this guest at the arbiter")
	c.Flags().Uint32Var(&d.weight, "weight", 1, "share of the GPU at the arbiter, relative to the weights of the other guests that are active")
	c.Flags().Float64Var(&d.cap, "cap", 0, "most of the GPU's time that the arbiter gives this guest, percent; 0 is no limit")
	c.Flags().Float64Var(&d.reserve, "reserve", 0, "least of the GPU's time that the arbiter gives this guest while it has work, percent")
	c.Flags().BoolVar(&d.wait, "wait-for-arbiter", false, "while no arbiter answers, run nothing (default: go on as the sole user)")
}

// args are the flags as another pvdrm takes them, which may be in another directory.
func (d *deviceFlags) args() []string {
	socket := d.arbiter
	if path, err := filepath.Abs(socket); err == nil && socket != "" {
		socket = path
	}
	return append(d.gl.args(), "--device", d.device, "--vram", d.vram, "--sms", strconv.Itoa(d.sms), "--launch-limit", d.limit.String(), "--revoke-after", d.revoke.String(),
		"--arbiter", socket, "--guest", d.guest, "--weight", strconv.FormatUint(uint64(d.weight), 10), "--cap", formatPercent(d.cap), "--reserve", formatPercent(d.reserve), "--wait-for-arbiter="+strconv.FormatBool(d.wait),
		"--sandbox", d.box, "--model-time="+strconv.FormatBool(d.model), "--quota", strings.Join(d.quotas, ","))
}

func formatPercent(p float64) string { return strconv.FormatFloat(p, 'g', -1, 64) }

// share is what the guest wishes for at the arbiter.
func (d *deviceFlags) share() sched.Share {
	return sched.Share{Weight: d.weight, Cap: d.cap / percent, Reserve: d.reserve / percent}
}

// check finds what is wrong with the flags.
func (d *deviceFlags) check() error {
	if d.vram != "" {
		if _, err := parseBytes(d.vram); err != nil {
			return usageError{fmt.Errorf("--vram: %w", err)}
		}
	}
	if d.device != deviceSoftGPU && d.device != deviceCUDA {
		return usageError{fmt.Errorf("--device: there is no device %q, only softgpu and cuda", d.device)}
	}
	if d.limit <= 0 || d.limit >= arbiter.DefaultAnswerLimit {
		return usageError{fmt.Errorf("--launch-limit: choose more than 0 and less than %v, after which an arbiter gives a backend up", arbiter.DefaultAnswerLimit)}
	}
	if d.box != sandboxOn && d.box != sandboxOff {
		return usageError{fmt.Errorf("--sandbox: %q is neither %s nor %s", d.box, sandboxOn, sandboxOff)}
	}
	if err := d.share().Check(); err != nil {
		return usageError{fmt.Errorf("--weight, --cap, --reserve: %w", err)}
	}
	_, err := d.limits()
	return err
}

// open opens the device.
func (d *deviceFlags) open(log *zap.Logger) (gpu.Device, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	var vram uint64 // 0 is the device's default
	if d.vram != "" {
		var err error
		if vram, err = parseBytes(d.vram); err != nil {
			return nil, err // check has found none
		}
	}
	if d.arbiter == "" {
		return d.make(vram, nil)
	}
	lost := arbiter.GoAlone
	if d.wait {
		lost = arbiter.WaitForArbiter
	}
	gate, err := arbiter.Join(arbiter.GateConfig{Socket: d.arbiter, WhenLost: lost, Log: log,
		Hello: arbiter.Hello{Name: d.guest, Share: d.share()}})
	if err != nil {
		return nil, fmt.Errorf("joining the arbiter at %s: %w", d.arbiter, err)
	}
	compute, render := gpu.Split(gate)
	device, err := d.make(vram, compute)
	if err != nil {
		gate.Close()
		return nil, err
	}
	return gatedDevice{device, gate, render}, nil
}

// make makes the device behind a gate, or none.
func (d *deviceFlags) make(vram uint64, gate gpu.Gate) (gpu.Device, error) {
	if d.device == deviceCUDA {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("finding pvdrm's own file: %w", err)
		}
		return cuda.New(cuda.Config{Keeper: []string{self, cuda.KeeperCommand, fmt.Sprintf("--confine=%t", d.box == sandboxOn)},
			VRAMBytes: vram, LaunchLimit: d.limit, RevokeAfter: d.revoke, Gate: gate})
	}
	return softgpu.New(softgpu.Config{VRAMBytes: vram, SMs: d.sms, LaunchLimit: d.limit, ModelTime: d.model, Gate: gate})
}

// newCUDAProcesses makes the commands behind gpu/cuda: the process that a guest
// process's CUDA context lives in, and the one that starts such processes.
func newCUDAProcesses() []*cobra.Command {
	const confine = "confine"
	var confined bool
	worker := &cobra.Command{
		Use:    "cuda-worker",
		Short:  "Hold a CUDA context for a backend",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { // on the main thread
			if !confined {
				return cuda.ServeWorker(nil)
			}
			return cuda.ServeWorker(func() error { return sandbox.EnterRenderer(true) })
		},
	}
	keeper := &cobra.Command{
		Use:    cuda.KeeperCommand,
		Short:  "Start processes that hold CUDA contexts",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { // on the main thread
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding pvdrm's own file: %w", err)
			}
			return cuda.ServeKeeper([]string{self, worker.Use, fmt.Sprintf("--%s=%t", confine, confined)})
		},
	}
	for _, c := range []*cobra.Command{worker, keeper} {
		c.Flags().BoolVar(&confined, confine, false, "workers give up the system calls that they do not need")
	}
	return []*cobra.Command{worker, keeper}
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
	for r := range session.Resources {
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}

// limits reads --quota.
func (d *deviceFlags) limits() (l session.Limits, err error) {
	for _, q := range d.quotas {
		name, value, _ := strings.Cut(q, "=")
		r, ok := session.ResourceByName(name)
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

// Values of --device: that which is always there, and that of NVIDIA.
const (
	deviceSoftGPU = "softgpu"
	deviceCUDA    = "cuda"
)

// Values of --sandbox.
const (
	sandboxOn  = "on"
	sandboxOff = "off"
)

// confined says whether a backend is to give up what it does not need.
func (d *deviceFlags) confined() bool { return d.box == sandboxOn }

// root is what a backend with namespaces of its own sees of the host's files: with the
// directory of its sockets, that of its arbiter's, and devices.
func (d *deviceFlags) root(writable string) sandbox.Root {
	r := sandbox.Root{Writable: writable}
	if d.arbiter != "" {
		// The directory, since an arbiter that starts anew makes another socket.
		r.Visible = append(r.Visible, filepath.Dir(d.arbiter))
	}
	if d.gl.node != "" {
		r.Visible = append(r.Visible, d.gl.node)
	}
	if d.device == deviceCUDA {
		r.Visible = append(r.Visible, "/dev/nvidia*")
		r.ThreadNames = true
	}
	if d.gl.node != "" || d.device == deviceCUDA {
		r.Visible = append(r.Visible, sandbox.GPUFiles...)
	}
	return r
}

// confine enters the sandbox, where that was asked for and is possible.
func (d *deviceFlags) confine(log *zap.Logger) error {
	if !d.confined() {
		return nil
	}
	if err := sandbox.Enter(); err != nil {
		return err
	}
	log.Info("confined to the system calls that serving needs")
	return nil
}
