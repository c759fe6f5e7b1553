package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
)

// ask sends a command to the arbiter at a socket, or to the one that this user's
// backends have joined if there is one only.
func (f *arbiterFlags) ask(c *cobra.Command, command arbiter.Command) (arbiter.Answer, error) {
	socket := f.socket
	if socket == "" && f.control == "" {
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
	at := arbiterFlags{socket: socket, control: f.control}
	return arbiter.Ask(c.Context(), at.controlSocket(), command)
}

func newArbiterPolicy(f *arbiterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "policy [NAME]",
		Short: "Show the policy of a running arbiter, or change it",
		Long: `Show the policy of a running arbiter, or change it while the GPU is in use, to one of

` + sched.About() + `
Usage stays, accounts begin empty, and no guest loses anything.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			answer, err := f.ask(c, arbiter.Command{Policy: strings.Join(args, "")})
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

func newArbiterSet(f *arbiterFlags) *cobra.Command {
	var weight uint32
	var most, least float64
	var kind service
	c := &cobra.Command{
		Use:   "set GUEST",
		Short: "Show the share of a connected guest, or change it",
		Long: `Show the share of a guest at a running arbiter, or change it, until the guest's
backend connects again. What is not given stays as it is.`,
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
			kind.change(c.Flags(), &change)
			answer, err := f.ask(c, arbiter.Command{Guest: args[0], Share: &change})
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
	kind.add(c.Flags())
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
	if s.Class != sched.Batch {
		text += fmt.Sprintf(", class %v", s.Class)
	}
	if s.Priority > 0 {
		text += fmt.Sprintf(", priority %d", s.Priority)
	}
	if s.SLA > 0 {
		text += fmt.Sprintf(", SLA %v", s.SLA)
	}
	return text
}

func newArbiterStats(f *arbiterFlags) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats",
		Short: "Print what a running arbiter has counted",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			answer, err := f.ask(c, arbiter.Command{})
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
		if g.Capacity != (arbiter.Amounts{}) {
			fmt.Fprintf(out, "promised to guests: %s\n", promisedText(g.Promised, g.Capacity))
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "engine\tbusy\twaited\tcommands\tpreempted\tentitled\tused\t  guest\t")
		for _, guest := range g.Guests {
			for e, st := range guest.Engines {
				fmt.Fprintf(w, "%v\t%v\t%v\t%d\t%d\t%.0f %%\t%.0f %%\t  %s\t  %s\n", arbiter.Engine(e), st.Busy.Round(time.Millisecond), st.Waited.Round(time.Millisecond),
					st.Commands, st.Preempted, st.Fraction*percent, st.Usage*percent, guest.Name, shareText(guest.Share))
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func newArbiterKey() *cobra.Command {
	return &cobra.Command{
		Use:   "new-key FILE",
		Short: "Make a key for a guest of a roster",
		Long: `Make a file with a new random key, which only its owner can read. The roster names it
with key-file, or has its text as key; who starts the guest names it with
--arbiter-key.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return arbiter.WriteNewKey(args[0]) },
	}
}
