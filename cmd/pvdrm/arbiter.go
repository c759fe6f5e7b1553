package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/metrics"
	"pvdrm/backend/sched"
)

func newArbiter(g *global) *cobra.Command {
	var socket, metricsAddr string
	policy := arbiter.DefaultPolicy
	c := &cobra.Command{
		Use:   "arbiter --socket SOCKET",
		Short: "Share one GPU among the backends of several guests",
		Long: `Hand out the right to run on a GPU to the backends that join, until interrupted. Each
backend says its weight; while only one has work it runs as if it were alone. The
policies are ` + strings.Join(sched.Names(), ", ") + `.

The arbiter serves backends of the same user. If it ends, they go on alone (or wait,
with --wait-for-arbiter) and join again when it is back.

A running arbiter is looked at and changed with the commands below; it is asked at
SOCKET` + arbiter.ControlSuffix + `. That of pvdrm up --guests is found by itself.`,
		Example: "  pvdrm arbiter --socket /tmp/arbiter &\n" +
			"  pvdrm up --arbiter /tmp/arbiter --guest a --weight 3 -- gdev run --repeat 10 mmul &\n" +
			"  pvdrm up --arbiter /tmp/arbiter --guest b --weight 1 -- gdev run --repeat 10 mmul\n" +
			"  pvdrm arbiter --socket /tmp/arbiter policy credit",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if socket == "" {
				return usageError{errors.New("give --socket")}
			}
			log, err := g.logger()
			if err != nil {
				return err
			}
			a, err := startArbiter(c.Context(), log, socket, policy, nil)
			if err != nil {
				return err
			}
			if err := serveMetrics(c.Context(), metricsAddr, func(p *metrics.Page) { p.AddArbiter(a.server.Stats()) }); err != nil {
				return errors.Join(err, a.stop())
			}
			log.Info("waiting for backends", zap.String("socket", socket), zap.String("policy", policy))
			return a.wait()
		},
	}
	c.PersistentFlags().StringVar(&socket, "socket", "", "path of the socket to make, for backends; of the commands: that of the arbiter to ask")
	c.Flags().StringVar(&policy, "policy", policy, "who runs next: "+strings.Join(sched.Names(), ", "))
	c.Flags().StringVar(&metricsAddr, "metrics", "", "serve metrics for Prometheus at HOST:PORT, :PORT (loopback only) or unix:PATH")
	c.AddCommand(newArbiterPolicy(&socket), newArbiterSet(&socket), newArbiterStats(&socket))
	return c
}

// arbiterProcess is an arbiter in this process, with its control socket.
type arbiterProcess struct {
	server *arbiter.Server
	cancel context.CancelFunc
	ends   chan error // of its two sockets
}

// startArbiter starts an arbiter that ends with ctx. Who observes may be nil.
func startArbiter(ctx context.Context, log *zap.Logger, socket, policy string, observe func(arbiter.Use)) (*arbiterProcess, error) {
	s, err := arbiter.NewServer(arbiter.Config{GPUs: []arbiter.GPU{{Policy: policy}}, Observe: observe, Log: log})
	if err != nil {
		return nil, usageError{fmt.Errorf("--policy: %w", err)}
	}
	const ownerOnly = 0o600
	l, err := arbiter.Listen(socket, ownerOnly)
	if err != nil {
		return nil, err
	}
	control, err := arbiter.ListenControl(socket + arbiter.ControlSuffix)
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

// wait waits until it has ended. It may be called once.
func (a *arbiterProcess) wait() error { return errors.Join(<-a.ends, <-a.ends) }

func (a *arbiterProcess) stop() error {
	a.cancel()
	return a.wait()
}

// ask sends a command to the arbiter at a socket, or to the one that this user's
// backends have joined if there is one only.
func ask(c *cobra.Command, socket string, command arbiter.Command) (arbiter.Answer, error) {
	if socket == "" {
		var found []string
		for _, st := range runningBackends(c.Context()) {
			if st.Arbiter != "" && !slices.Contains(found, st.Arbiter) {
				found = append(found, st.Arbiter)
			}
		}
		if len(found) == 0 {
			return arbiter.Answer{}, errors.New("no running backend has joined an arbiter: start some with pvdrm up --guests, or name one with --socket")
		}
		if len(found) > 1 {
			return arbiter.Answer{}, usageError{fmt.Errorf("%d arbiters are in use: say which with --socket", len(found))}
		}
		socket = found[0]
	}
	return arbiter.Ask(c.Context(), socket+arbiter.ControlSuffix, command)
}

func newArbiterPolicy(socket *string) *cobra.Command {
	return &cobra.Command{
		Use:   "policy [NAME]",
		Short: "Show the policy of a running arbiter, or change it",
		Long: `Show the policy of a running arbiter, or change it while the GPU is in use: to ` + strings.Join(sched.Names(), ", ") + `.
Credit and usage stay, and no guest loses anything.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			answer, err := ask(c, *socket, arbiter.Command{Policy: strings.Join(args, "")})
			if err != nil {
				return err
			}
			for _, g := range answer.GPUs {
				fmt.Fprintln(c.OutOrStdout(), g.Policy)
			}
			return nil
		},
	}
}

const percent = 100

func newArbiterSet(socket *string) *cobra.Command {
	var weight uint32
	var most, least float64
	c := &cobra.Command{
		Use:   "set GUEST",
		Short: "Show the share of a connected guest, or change it",
		Long: `Show the share of a guest at a running arbiter, or change it, until the guest's
backend connects anew. What is not given stays as it is.`,
		Example: "  pvdrm arbiter set guest-1 --weight 30 --cap 50",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var change arbiter.ShareChange
			if c.Flags().Changed("weight") {
				change.Weight = &weight
			}
			if c.Flags().Changed("cap") {
				most /= percent
				change.Cap = &most
			}
			if c.Flags().Changed("reserve") {
				least /= percent
				change.Reserve = &least
			}
			answer, err := ask(c, *socket, arbiter.Command{Guest: args[0], Share: &change})
			if err != nil {
				return err
			}
			for _, g := range answer.GPUs {
				for _, guest := range g.Guests {
					if guest.Name == args[0] {
						fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", guest.Name, shareText(guest.Share))
					}
				}
			}
			return nil
		},
	}
	c.Flags().Uint32Var(&weight, "weight", 1, fmt.Sprintf("relative to the weights of the other guests that are active, 1 to %d", sched.MaxWeight))
	c.Flags().Float64Var(&most, "cap", 0, "most of the GPU's time it may have, percent; 0 is no limit")
	c.Flags().Float64Var(&least, "reserve", 0, "least of the GPU's time it gets while it has work, percent")
	return c
}

func shareText(s sched.Share) string {
	text := fmt.Sprintf("weight %d", max(s.Weight, 1))
	if s.Cap > 0 {
		text += fmt.Sprintf(", cap %g %%", s.Cap*percent)
	}
	if s.Reserve > 0 {
		text += fmt.Sprintf(", reserve %g %%", s.Reserve*percent)
	}
	return text
}

func newArbiterStats(socket *string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats",
		Short: "Print what a running arbiter has counted",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			answer, err := ask(c, *socket, arbiter.Command{})
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(answer)
			}
			return printArbiter(c.OutOrStdout(), answer.GPUs)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printArbiter(out io.Writer, gpus []arbiter.GPUStats) error {
	for _, g := range gpus {
		fmt.Fprintf(out, "GPU %d, policy %s\n", g.Number, g.Policy)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "engine\tbusy\twaited\tcommands\tentitled\tused\t  guest\t")
		for _, guest := range g.Guests {
			for e, st := range guest.Engines {
				fmt.Fprintf(w, "%v\t%v\t%v\t%d\t%.0f %%\t%.0f %%\t  %s\t  %s\n", arbiter.Engine(e), st.Busy.Round(time.Millisecond), st.Waited.Round(time.Millisecond),
					st.Commands, st.Fraction*percent, st.Usage*percent, guest.Name, shareText(guest.Share))
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
