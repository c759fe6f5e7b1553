package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pvdrm/backend/sandbox"
	"pvdrm/backend/supervisor"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/bench"
	"pvdrm/internal/cudalibs/host"
)

// cudaLibsFlag names the host's libraries that guests call.
const cudaLibsFlag = "cuda-libs"

func addCUDAFlags(d *deviceFlags, fl *pflag.FlagSet) {
	fl.StringVar(&d.cudaLibs, cudaLibsFlag, "", "with --device cuda: directory of the host's cuBLAS, cuDNN and other CUDA libraries, or of a Python environment that has them, which guests call by name; several are separated by colons, and none turns it off; programs of pvdrm run and up get PVDRM's libraries of these names only where it is given (default: the worker opens those of the active Python environment, of /usr/local/cuda and where the system's loader looks)")
	fl.BoolVar(&d.singly, "no-driver-graphs", false, "with --device cuda: launch what a guest submits again and again, such as its CUDA graphs, kernel by kernel, in place of having NVIDIA's driver make graphs of it")
	fl.BoolVar(&d.unfollowed, "no-stream-waits", false, "with --device cuda: begin what waits for work of another stream when the backend has seen the end of that, in place of having the GPU wait")
	fl.IntVar(&d.revocations, "revocations", 0, "with --revoke-after: how often the same work is taken off the GPU at most; then it runs to its end (default 3)")
	fl.DurationVar(&d.revoke, "revoke-after", 0, "with --device cuda and --arbiter: take what has run so long while another guest waits off the GPU, to run again from its start later: a task, or a kernel of which the text shows that it may begin again (default: never)")
}

func cudaArgs(d *deviceFlags) []string {
	return []string{"--revoke-after", d.revoke.String(), "--revocations", strconv.Itoa(d.revocations), "--divide=" + strconv.FormatBool(d.divide), "--no-driver-graphs=" + strconv.FormatBool(d.singly), "--no-stream-waits=" + strconv.FormatBool(d.unfollowed), "--kernel-counts=" + strconv.FormatBool(d.counts), "--" + cudaLibsFlag, cudaLibsOf(d)}
}

func openCUDA(d *deviceFlags, vram uint64, gate gpu.Gate) (gpu.Device, error) {
	vram, err := cudaVRAM(d, vram)
	if err != nil {
		return nil, err
	}
	peers := d.peers.ofCUDA()
	var report func(gpu.Stats)
	if d.counts && d.log != nil {
		report = func(s gpu.Stats) {
			d.log.Warn(fmt.Sprintf("the guest launched %d kernels; the driver launched %d graphs of work that came again, and refused %d", s.Launches, s.Graphs, s.GraphsApart))
		}
	}
	return nvidia.New(nvidia.Config{Report: report, Number: d.device.number, Keeper: []string{sandbox.Program(), nvidia.KeeperCommand, fmt.Sprintf("--confine=%t", d.confined()), "--" + cudaLibsFlag + "=" + d.cudaLibs, fmt.Sprintf("--%s=%d", keeperVRAM, vram), fmt.Sprintf("--%s=%d", keeperPeers, len(peers))},
		Peers:     peers,
		VRAMBytes: vram, LaunchLimit: cmp.Or(d.limit, defaultLaunchLimit), LimitWaiting: d.limit == 0, RevokeAfter: d.revoke, Divide: d.divide, MaxReplays: d.revocations, Replays: d.revoke > 0, NoGraphs: d.singly, NoFollowing: d.unfollowed, Spares: spares(d), Gate: gate})
}

// keeperVRAM tells a keeper how much VRAM its workers may have.
const keeperVRAM = "vram"

// keeperPeers tells a keeper how many sockets to other keepers it has.
const keeperPeers = "peers"

// cudaVRAM is the limit of a guest's device memory: --vram, or its quota if that is less.
func cudaVRAM(d *deviceFlags, vram uint64) (uint64, error) {
	limits, err := d.limits()
	most := limits[quota.VRAM]
	if err != nil || most == 0 || vram != 0 && vram <= most {
		return vram, err
	}
	const page = 2 << 20
	return max(most/page, 1) * page, nil
}

// cudaLibsOf is what a backend, which sees little of the environment, gets of --cuda-libs: the
// directories themselves.
func cudaLibsOf(d *deviceFlags) string {
	if d.cudaLibs == host.None {
		return host.None
	}
	return strings.Join(cudaLibDirs(d), string(filepath.ListSeparator))
}

// givesStubs says whether programs of guests find PVDRM's libraries of the names of cuBLAS, cuDNN and others.
func (d *deviceFlags) givesStubs() bool { return d.cudaLibs != "" && d.cudaLibs != host.None }

// cudaLibDirs are the directories of --cuda-libs.
func cudaLibDirs(d *deviceFlags) (dirs []string) {
	if d.cudaLibs == host.None {
		return nil
	}
	for _, dir := range host.Directories(d.cudaLibs) {
		if abs, err := filepath.Abs(dir); err == nil {
			dirs = append(dirs, abs)
		}
	}
	return dirs
}

// spareWorkers is how many workers wait for contexts where these are revoked: one to take over, and
// one while the next is started.
const spareWorkers = 2

func spares(d *deviceFlags) int {
	if d.revoke > 0 {
		return spareWorkers
	}
	return 0
}

// cudaNativeEnv is the environment of a process that runs programs on NVIDIA's driver.
func cudaNativeEnv(env []string) []string {
	return append(nvidia.InOrder(env), "GODEBUG="+withoutPreemption(os.Getenv("GODEBUG")))
}

// cudaMicros are the micro-benchmarks in C on NVIDIA's driver.
func cudaMicros(f *benchFlags, r *bench.Report) []bench.Place {
	return []bench.Place{driverPlace{number: f.dev.device.number, budget: f.microTime, report: r}}
}

// newCUDAProcesses makes the commands behind gpu/nvidia: the process that a guest
// process's CUDA context lives in, and the one that starts such processes.
func newCUDAProcesses() []*cobra.Command {
	const confine = "confine"
	var confined bool
	var libraries string
	var vram uint64
	var others int
	worker := &cobra.Command{
		Use:    "cuda-worker",
		Short:  "Hold a CUDA context for a backend",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { // on the main thread
			if !confined {
				return nvidia.ServeWorker(nil, libraries)
			}
			return nvidia.ServeWorker(confineWorker, libraries)
		},
	}
	keeper := &cobra.Command{
		Use:    nvidia.KeeperCommand,
		Short:  "Start processes that hold CUDA contexts",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { // on the main thread
			if err := supervisor.RestoreStacks(); err != nil {
				return err
			}
			if confined {
				if err := sandbox.EnterCUDAKeeper(); err != nil {
					return err
				}
			}
			return nvidia.ServeKeeper([]string{sandbox.Program(), worker.Use, fmt.Sprintf("--%s=%t", confine, confined), "--" + cudaLibsFlag + "=" + libraries}, vram, others)
		},
	}
	keeper.Flags().IntVar(&others, keeperPeers, 0, "sockets to the keepers of the guest's other GPUs")
	keeper.Flags().Uint64Var(&vram, keeperVRAM, 0, "bytes of VRAM that the workers may have together; 0: any number")
	for _, c := range []*cobra.Command{worker, keeper} {
		c.Flags().BoolVar(&confined, confine, false, "workers give up the system calls that they do not need")
		c.Flags().StringVar(&libraries, cudaLibsFlag, "", "directories of NVIDIA's libraries")
	}
	return []*cobra.Command{worker, keeper}
}

// confineWorker confines a worker of an NVIDIA GPU to what it asks the driver for.
func confineWorker(requests []nvidia.Request) error {
	ioctls := make([]sandbox.Ioctl, len(requests))
	for i, r := range requests {
		ioctls[i] = sandbox.Ioctl(r)
	}
	return sandbox.EnterRenderer(ioctls)
}

// checkNVIDIA looks for the driver; that there is a GPU behind it, a first use tells.
func checkNVIDIA() check {
	version, err := nvidia.Probe()
	if err != nil {
		return check{name: "NVIDIA GPU", detail: err.Error(), mend: "not needed: --device cuda is not offered without it, the software GPU is"}
	}
	return check{name: "NVIDIA GPU", ok: true, detail: "driver for CUDA " + version + ": --device cuda can be used"}
}
