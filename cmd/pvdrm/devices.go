package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/sample"
)

// deviceKind is a kind of GPU that backends can serve guests with. All that pvdrm knows of
// one stands in its row of deviceKinds.
type deviceKind struct {
	name  string // value of --device
	about string // for the help

	// flags adds the flags that only this kind has; args are those flags as set, for
	// another pvdrm.
	flags func(d *deviceFlags, fl *pflag.FlagSet)
	args  func(d *deviceFlags) []string

	memory  func() uint64             // default of --vram; 0 is all that the GPU has
	private bool                      // each backend has a device of its own, in memory of the host
	workers bool                      // contexts live in processes of their own
	turns   bool                      // the GPU serves backends in turn (arbiter.GateConfig.Turns)
	preempt func(d *deviceFlags) bool // whether commands can be preempted (arbiter.GateConfig.Preemptible)
	linked  bool                      // devices of this kind that one guest has may reach each other's memory
	refuses bool                      // it may turn out that kernels cannot be preempted after all
	far     bool                      // kernels reach memory of the host by a bus

	files       []string // of the host that its driver opens, as patterns
	threadNames bool     // its driver names threads, by writing to /proc
	hostPIDs    bool     // its driver does not start where /proc shows other process ids

	open     func(d *deviceFlags, vram uint64, gate gpu.Gate) (gpu.Device, error)
	commands func() []*cobra.Command // hidden commands: the processes that it starts; nil for none
	examine  func() []check          // for pvdrm doctor

	// For pvdrm bench: the native programs, the environment of their process, what else
	// measures the micro-benchmarks, and whether kernels are compared with C code.
	programs  func(device gpu.Device, number int) (programs, error)
	nativeEnv func(env []string) []string
	micros    func(f *benchFlags, r *bench.Report) []bench.Place
	clang     bool
}

// programs runs programs of the suite.
type programs func(agent.Request) (agent.Answer, error)

// deviceKinds are the kinds of devices; the first is the default.
var deviceKinds = []*deviceKind{
	{
		name:     "softgpu",
		about:    "a software GPU that runs PTX",
		flags:    addSoftGPUFlags,
		args:     softGPUArgs,
		memory:   softGPUMemory,
		private:  true,
		preempt:  func(*deviceFlags) bool { return true },
		open:     openSoftGPU,
		examine:  func() []check { return []check{checkCPUs(), checkNativeCode()} },
		programs: func(device gpu.Device, _ int) (programs, error) { return onDevice(device), nil },
		clang:    true,
	},
	{
		name:        "cuda",
		about:       "an NVIDIA GPU of this machine, numbered as nvidia-smi -L does",
		flags:       addCUDAFlags,
		args:        cudaArgs,
		memory:      func() uint64 { return 0 },
		workers:     true,
		turns:       true,
		files:       []string{"/dev/nvidia*"},
		threadNames: true,
		hostPIDs:    true,
		preempt:     (*deviceFlags).confined, // by the keeper, of a worker that it watches
		linked:      true,
		refuses:     true,
		far:         true,
		open:        openCUDA,
		commands:    newCUDAProcesses,
		examine:     func() []check { return []check{checkNVIDIA()} },
		programs:    func(_ gpu.Device, number int) (programs, error) { return onDriver(number) },
		nativeEnv:   cudaNativeEnv,
		micros:      cudaMicros,
	},
}

// deviceName names a device: its kind, and the number of one of that
// kind. The zero value is the first device of the default kind.
type deviceName struct {
	named  *deviceKind
	number int
}

// kind is the row of the device.
func (n *deviceName) kind() *deviceKind {
	if n.named == nil {
		return deviceKinds[0]
	}
	return n.named
}

// String returns what Set takes.
func (n *deviceName) String() string {
	if n.number == 0 {
		return n.kind().name
	}
	return n.kind().name + ":" + strconv.Itoa(n.number)
}

// Set reads the name of one device.
func (n *deviceName) Set(s string) error {
	name, digits, numbered := strings.Cut(s, ":")
	var names []string
	for _, k := range deviceKinds {
		if k.name != name {
			names = append(names, k.name)
			continue
		}
		*n = deviceName{named: k}
		if !numbered {
			return nil
		}
		number, err := strconv.ParseUint(digits, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not the number of a device, as in %s:1", digits, name)
		}
		n.number = int(number)
		return nil
	}
	return fmt.Errorf("unknown device %q (want %s, or one of these with a number, as in %s:1)", name, strings.Join(names, " or "), names[0])
}

// deviceHelp is the help of --device.
func (d *deviceFlags) deviceHelp() string {
	var kinds []string
	for _, k := range deviceKinds {
		kinds = append(kinds, k.name+", "+k.about)
	}
	help := "the GPU: " + strings.Join(kinds, "; or ") + ". The number is 0 where it is left out"
	if d.several {
		help += ". Several, as in softgpu:0,1, are several devices of the program"
	}
	return help
}

func addSoftGPUFlags(d *deviceFlags, fl *pflag.FlagSet) {
	fl.IntVar(&d.sms, "sms", 0, "streaming multiprocessors of the software GPU, threads of the host each; 0 means one for each processor")
	fl.Var(&d.sm, "sm", "compute capability that the software GPU reports, such as 7.5: programs choose their kernels by it; modules with instructions that it does not run are refused whatever it is")
	fl.BoolVar(&d.divide, "divide", false, "kernels give way to other guests between two blocks only, and not within one: to compare with GPUs that cannot preempt, where --device cuda does so by itself")
	fl.BoolVar(&d.counts, "kernel-counts", false, "log at the end what of each kernel the software GPU ran as native code, and why it interpreted the rest; of an NVIDIA GPU, how often its driver launched work of the guest as a graph")
	fl.BoolVar(&d.model, "model-time", false, "the software GPU reports modelled times, by cycles of each class of instructions, which do not depend on this machine")
}

func softGPUArgs(d *deviceFlags) []string {
	return []string{"--sms", strconv.Itoa(d.sms), "--sm", d.sm.String(), "--divide=" + strconv.FormatBool(d.divide), "--kernel-counts=" + strconv.FormatBool(d.counts), "--model-time=" + strconv.FormatBool(d.model)}
}

func openSoftGPU(d *deviceFlags, vram uint64, gate gpu.Gate) (gpu.Device, error) {
	if d.log != nil {
		log := new(sample.Sampler).Wrap(d.log)
		ptxexec.OnCompilerFailure(func(function, fault string) {
			log.Warn("the compiler to native code failed, which is a fault of PVDRM: please report it; the function is interpreted, with the same results",
				zap.String("function", sample.Printable(function, maxTallyName)), zap.String("fault", fault))
		})
	}
	return softgpu.New(softGPUConfig(d, vram, gate))
}

func softGPUConfig(d *deviceFlags, vram uint64, gate gpu.Gate) softgpu.Config {
	c := softgpu.Config{Number: d.device.number, VRAMBytes: vram, SMs: d.sms, Capability: int(d.sm), LaunchLimit: cmp.Or(d.limit, defaultLaunchLimit), LimitWaiting: d.limit == 0, ModelTime: d.model, Divide: d.divide, Gate: gate}
	if d.counts && d.log != nil {
		c.Report = func(rows []ptxexec.Tallied) { logTally(d.log, rows) }
	}
	return c
}

// softGPUMemory is the default size of the software GPU's memory: a quarter of the host's, at
// least 1 GiB. Programs find a GPU of a usual size, and one guest alone does not fill the host.
func softGPUMemory() uint64 {
	const least, most, unit = 1 << 30, 256 << 30, 64 << 20
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return least
	}
	return min(max(host.Totalram*uint64(host.Unit)/4, least), most) / unit * unit
}
