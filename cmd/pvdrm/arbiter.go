package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/metrics"
	"pvdrm/backend/sched"
	"pvdrm/frontend"
)

// arbiterFlags say where an arbiter is, and how it arbitrates.
type arbiterFlags struct {
	socket, control string
	policy          string
	roster          string // file
	gpus            int    // 0 is one
	processors      int    // of the software GPU's kernels; 0: those of this process
	perUser         int
	capacity, most  []string // of the GPU, and of a guest; see parseAmounts
	metrics         string
}

// controlSocket is where the arbiter is asked and changed.
func (f *arbiterFlags) controlSocket() string {
	if f.control != "" {
		return f.control
	}
	return f.socket + arbiter.ControlSuffix
}

func newArbiter(g *global) *cobra.Command {
	f := arbiterFlags{policy: arbiter.DefaultPolicy, gpus: 1}
	c := &cobra.Command{
		Use:   "arbiter --socket SOCKET",
		Short: "Share GPUs among the backends of several guests",
		Long: `Hand out the right to run on a GPU to the backends that join, until interrupted. A
backend that alone has work runs without delay. With --gpus 2 it shares two GPUs, and
guests that use both (pvdrm run --device cuda:0,1 --arbiter SOCKET) get their turns on
both at the same time. The policies are

` + sched.About() + `
The command that starts a guest (pvdrm up, run or backend) takes the guest's seat at the
arbiter and passes the connection to the guest's backend, which cannot connect itself.
Without a roster, only root and the user who runs the arbiter may start guests, and the
flags --weight, --cap, --reserve, --class, --priority and --sla of that command set the
guest's share. With --roster FILE only the listed guests may join, with the listed
shares, if a listed user starts them and gives their key (--arbiter-key). The file is
TOML, and only its owner may have permission to read it:

  [[guest]]
  name = "a"
  key = "…"            # 32 hexadecimal digits, or key-file = "FILE": see new-key
  weight = 3           # and cap and reserve, in percent
  class = "latency"    # and priority = 5, sla = "50ms"
  users = [1000]       # default: the user who runs the arbiter, and root

The debt of a guest that leaves passes to the next guest of the same user, or of the same
entry of the roster. If the arbiter ends, backends go on alone (or wait, with
--wait-for-arbiter) and join again when it is back.

The commands below show and change a running arbiter, for the user who runs it, and root.
They connect to SOCKET` + arbiter.ControlSuffix + ` or to --control, and find the arbiter of pvdrm
up --guests without either.

As a service of systemd it takes over the sockets at these paths that systemd passes.`,
		Example: "  pvdrm arbiter --socket /tmp/arbiter &\n" +
			"  pvdrm up --arbiter /tmp/arbiter --guest a --weight 3 -- gdev run --repeat 20 --scale 64 loop &\n" +
			"  pvdrm up --arbiter /tmp/arbiter --guest b --weight 1 -- gdev run --repeat 20 --scale 64 loop\n" +
			"  pvdrm arbiter --socket /tmp/arbiter policy credit",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.socket == "" {
				return usageError{errors.New("give --socket")}
			}
			log, err := g.logger()
			if err != nil {
				return err
			}
			return f.serve(c.Context(), log)
		},
	}
	c.PersistentFlags().StringVar(&f.socket, "socket", "", "path of the socket to make, for those who start guests; of the commands: that of the arbiter to ask")
	c.PersistentFlags().StringVar(&f.control, "control", "", "path of the socket to make for the commands below, for the owner only (default SOCKET"+arbiter.ControlSuffix+"); of the commands: the one to ask at")
	c.Flags().StringVar(&f.policy, "policy", f.policy, "who runs next: "+strings.Join(sched.Names(), ", ")+"; with a time after it, such as wfq:10ms, slices are so long, and with "+wholeCommands+" after that, such as band"+wholeCommands+", kernels are not preempted")
	c.Flags().StringVar(&f.roster, "roster", "", "file that lists the guests that may join, with their keys and shares")
	c.Flags().IntVar(&f.gpus, "gpus", f.gpus, "how many GPUs to share, each by the same policy and with the same --capacity; under band and wfq guests with several of them have joint turns")
	c.Flags().IntVar(&f.perUser, "guests-per-user", arbiter.DefaultMaxPerUser, "most guests that one user may have started at a time")
	c.Flags().StringSliceVar(&f.capacity, "capacity", nil, "what the GPU has, such as channels=48,contexts=48,vram=8G, of which each guest is promised a part when it joins: by its --quota, else what --guest-most says; a guest for which too little is left is refused (default: no limits)")
	c.Flags().StringSliceVar(&f.most, "guest-most", nil, "with --capacity: the most that one guest may have, such as channels=6,vram=1G (default: an eighth of the capacity)")
	c.Flags().IntVar(&f.processors, "processors", 0, "processors for kernels of the software GPU: those of several guests run at the same time as long as their blocks have processors (default: those that the arbiter may use; 1: kernels run one after the other)")
	c.Flags().StringVar(&f.metrics, "metrics", "", "serve metrics for Prometheus at HOST:PORT, :PORT (loopback only) or unix:PATH")
	c.AddCommand(newArbiterPolicy(&f), newArbiterSet(&f), newArbiterStats(&f), newArbiterKey())
	return c
}

// serve is an arbiter until ctx ends.
func (f *arbiterFlags) serve(ctx context.Context, log *zap.Logger) error {
	if f.perUser < 1 {
		return usageError{errors.New("--guests-per-user: choose at least 1")}
	}
	if f.gpus < 1 || f.gpus > frontend.MaxDevices {
		return usageError{fmt.Errorf("--gpus: choose 1 to %d", frontend.MaxDevices)}
	}
	if f.processors < 0 {
		return usageError{errors.New("--processors: choose at least 1, or 0 for those that the arbiter may use")}
	}
	a, err := f.start(ctx, log, nil)
	if err != nil {
		return err
	}
	if err := serveMetrics(ctx, f.metrics, func(p *metrics.Page) { p.AddArbiter(a.server.Stats()) }); err != nil {
		return errors.Join(err, a.stop())
	}
	log.Info("waiting for backends", zap.String("socket", f.socket), zap.String("policy", f.policy))
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.Warn("systemd does not hear that the arbiter is ready", zap.Error(err))
	}
	return a.wait()
}

// arbiterProcess is an arbiter in this process, with its control socket.
type arbiterProcess struct {
	server *arbiter.Server
	cancel context.CancelFunc
	ends   chan error // of its two sockets
}

// startArbiter starts an arbiter for guests of this process that ends with ctx. Who observes may be nil.
func startArbiter(ctx context.Context, log *zap.Logger, socket, policy string, observe func(arbiter.Use)) (*arbiterProcess, error) {
	f := arbiterFlags{socket: socket, policy: policy, perUser: arbiter.DefaultMaxBackends}
	return f.start(ctx, log, observe)
}

// wholeCommands is added to the name of a policy that is not to preempt.
const wholeCommands = ":whole"

// policyOf returns what --policy names: a policy, how long its slices are, and whether it preempts where
// it can.
func policyOf(name string) (g arbiter.GPU) {
	var whole bool
	if g.Policy, whole = strings.CutSuffix(name, wholeCommands); whole {
		g.Settings.Preempt = sched.NoWait
	}
	policy, slice, found := strings.Cut(g.Policy, ":")
	if d, err := time.ParseDuration(slice); found && err == nil && d > 0 { // else there is no such policy
		g.Policy, g.Settings.Slice = policy, d
		if !whole {
			g.Settings.Preempt = d
		}
	}
	return g
}

// start starts an arbiter that ends with ctx.
func (f *arbiterFlags) start(ctx context.Context, log *zap.Logger, observe func(arbiter.Use)) (*arbiterProcess, error) {
	gpu := policyOf(f.policy)
	gpu.Processors = f.processors
	var err error
	if gpu.Limits.Capacity, err = parseAmounts("capacity", f.capacity); err != nil {
		return nil, err
	}
	if gpu.Limits.Most, err = parseAmounts("guest-most", f.most); err != nil {
		return nil, err
	}
	gpus := max(f.gpus, 1)
	// A guest has a seat at each GPU, and counts once.
	cfg := arbiter.Config{GPUs: slices.Repeat([]arbiter.GPU{gpu}, gpus), MaxPerUser: f.perUser * gpus, MaxBackends: arbiter.DefaultMaxBackends * gpus, Observe: observe, Log: log}
	const ownerOnly, everybody = os.FileMode(0o600), os.FileMode(0o666)
	mode := ownerOnly
	if f.roster != "" {
		roster, err := arbiter.ReadRoster(f.roster)
		if err != nil {
			return nil, err
		}
		cfg.Admit = roster.Admit
		if roster.Shared() {
			mode = everybody // who may join is decided by user and key
		}
	}
	s, err := arbiter.NewServer(cfg)
	if err != nil {
		return nil, usageError{fmt.Errorf("--policy, --capacity, --guest-most: %w", err)}
	}
	l, err := listenArbiter("unixpacket", f.socket, func() (*net.UnixListener, error) { return arbiter.Listen(f.socket, mode) })
	if err != nil {
		return nil, err
	}
	control, err := listenArbiter("unix", f.controlSocket(), func() (*net.UnixListener, error) { return arbiter.ListenControl(f.controlSocket()) })
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &arbiterProcess{server: s, cancel: cancel, ends: make(chan error, 2)}
	for _, serve := range []func() error{
		func() error { return s.Serve(ctx, l) },
		func() error { return s.ServeControl(ctx, control) },
	} {
		go func() { // one without the other is of no use
			defer cancel()
			a.ends <- serve()
		}()
	}
	return a, nil
}

// listenArbiter returns the socket at path that systemd has passed, or else makes it.
func listenArbiter(network, path string, listen func() (*net.UnixListener, error)) (*net.UnixListener, error) {
	if l, err := activated(network, path); l != nil || err != nil {
		return l, err
	}
	return listen()
}

// wait waits until it has ended. It may be called once.
func (a *arbiterProcess) wait() error { return errors.Join(<-a.ends, <-a.ends) }

func (a *arbiterProcess) stop() error {
	a.cancel()
	return a.wait()
}
