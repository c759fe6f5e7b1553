// Command pvdrm-run runs a program that was not written for PVDRM and serves the
// DRM ioctls that it makes, in a virtual machine or as a local guest.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"pvdrm/drm/trace"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/frontend/carrier/virtio"
	"pvdrm/frontend/cuda/rt"
	"pvdrm/frontend/interpose"
)

// Exit codes of pvdrm-run itself; otherwise it is the program's.
const (
	exitUsage    = 2
	exitFailed   = 125
	exitNotFound = 127
)

const usage = `pvdrm-run [-v] PROGRAM [ARGUMENT ...]

Runs a program whose DRM ioctls PVDRM serves: whatever it, or a program that it
starts, opens as /dev/dri/renderD128 is a DRM file of the driver "pvdrm", with the
ioctls in include/uapi/pvdrm_drm.h. The program needs no library of PVDRM and may be linked
statically. It needs Linux 5.19 or later. The calls are recorded in the file that PVDRM_TRACE
names (pvdrm trace record).

  -v   print the calls that fail, with the reason

In a virtual machine of PVDRM:  pvdrm-run ./prog
On the host, as a local guest:  pvdrm run -- pvdrm-run ./prog

pvdrm-run ends when the program and all that it started have ended. The exit code
is the program's, 128 and the number of the signal that ended it, 2 for a wrong
command line, 125 for a failure of pvdrm-run itself and 127 for no such program.
`

// init keeps the main goroutine on the main thread: the thread under the filter
// (package interpose) must be one that ends with its goroutine, which that does not.
func init() { runtime.LockOSThread() }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("pvdrm-run", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // what is wrong is printed below
	verbose := flags.Bool("v", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err == nil && flags.NArg() == 0:
		err = errors.New("which program?")
	}
	if err != nil {
		fmt.Fprintf(stderr, "pvdrm-run: %v\n\n%s", err, usage)
		return exitUsage
	}
	path, err := exec.LookPath(flags.Arg(0))
	if err != nil && !errors.Is(err, exec.ErrDot) {
		fmt.Fprintf(stderr, "pvdrm-run: %v\n", err)
		return exitNotFound
	}
	cfg := interpose.Config{Path: path, Args: flags.Args(), Env: environment(), Signals: signals(), Report: func(error) {}}
	if *verbose {
		cfg.Report = func(err error) { fmt.Fprintf(stderr, "pvdrm-run: %v\n", err) }
	}
	code, err := supervise(cfg)
	if err != nil {
		fmt.Fprintf(stderr, "pvdrm-run: %v\n", err)
		return exitFailed
	}
	return code
}

// environment is the program's: it finds the library for programs that have a CUDA runtime in them
// where `make build`, an installed prefix and the guest image have it.
func environment() []string {
	env := os.Environ()
	self, err := os.Executable()
	if err != nil {
		return env // which does without
	}
	for _, dir := range []string{"lib", "../lib/pvdrm", "../lib"} {
		path := filepath.Join(filepath.Dir(self), dir, rt.StaticLibrary)
		if with := rt.WithStatic(env, path); !slices.Equal(with, env) {
			return rt.WithCompilers(with)
		}
	}
	return env
}

// supervise runs the program on the GPU that this process has.
func supervise(cfg interpose.Config) (code int, err error) {
	if socket := os.Getenv(frontend.SocketEnv); socket != "" {
		cfg.Node, err = interpose.StandIn()
		cfg.Open = func(waits func()) (*frontend.File, error) {
			c, err := local.Open(socket)
			if err != nil {
				return nil, err
			}
			return frontend.NewSeparate(c, waits)
		}
	} else {
		var path string
		if path, err = virtio.Find(); err != nil {
			return 0, fmt.Errorf("no PVDRM device: %w; on a host: pvdrm run -- pvdrm-run PROGRAM", err)
		}
		cfg.Node, err = interpose.RenderNode(path)
		cfg.Follow = true
		cfg.Open = func(waits func()) (*frontend.File, error) {
			c, err := virtio.Open(path)
			if err != nil {
				return nil, err
			}
			return frontend.NewSeparate(c, waits)
		}
	}
	if err != nil {
		return 0, err
	}
	if cfg.Trace, err = trace.ToEnv(); err != nil {
		return 0, err
	}
	if cfg.Trace == nil {
		return interpose.Run(cfg)
	}
	// The file is ours: the program's libraries must not begin it anew.
	cfg.Env = slices.DeleteFunc(cfg.Env, func(v string) bool { return strings.HasPrefix(v, trace.Env+"=") })
	code, err = interpose.Run(cfg)
	return code, errors.Join(err, cfg.Trace.Flush())
}

// signals are those that are handed on to the program. What a terminal sends it
// sends to the program too.
func signals() <-chan os.Signal {
	ours := make(chan os.Signal, 16)
	signal.Notify(ours, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT)
	if term.IsTerminal(int(os.Stdin.Fd())) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGQUIT) // not ours to die of
	} else {
		signal.Notify(ours, unix.SIGINT, unix.SIGQUIT)
	}
	return ours
}
