package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
)

// completeAgainst checks the flags of a comparison with another build, and fills in its
// defaults: those of a quick bench, but for the rounds.
func (f *benchFlags) completeAgainst(c *cobra.Command) error {
	changed := c.Flags().Changed
	for _, other := range []string{"scale", "ablation", "csv", "html", "quick"} {
		if changed(other) {
			return fmt.Errorf("--against goes without --%s", other)
		}
	}
	if f.only == onlyClang {
		return errors.New("--against compares builds of pvdrm: it goes without clang")
	}
	st, err := os.Stat(f.against)
	if err != nil {
		return fmt.Errorf("--against: %w", err)
	}
	if st.IsDir() || st.Mode()&0o111 == 0 {
		return fmt.Errorf("--against: %s is no program; name the pvdrm of another tree, where `make build` has made it: TREE/bin/pvdrm", f.against)
	}
	if f.benches == nil {
		f.benches = quickBenches
	}
	if !changed("micro-time") {
		f.microTime = quickMicro
	}
	if f.runs < bench.LeastRounds {
		return fmt.Errorf("--runs %d: a comparison needs %d rounds or more, or its intervals are not of 95 %%", f.runs, bench.LeastRounds)
	}
	if !changed("modes") { // the floor is not ours to make better or worse
		f.modes = slices.DeleteFunc(f.modes, func(m string) bool { return m == string(bench.Floor) })
	}
	if slices.Contains(f.modes, string(bench.Floor)) {
		return fmt.Errorf("--modes: --against goes without %s", bench.Floor)
	}
	f.given = given(c.Flags(), new(deviceFlags).add)
	return nil
}

// given returns the arguments that set the flags which add adds as they are set in
// flags. What was not given is left out: another build may not know it.
func given(flags *pflag.FlagSet, add func(*cobra.Command)) (args []string) {
	var group cobra.Command
	add(&group)
	flags.Visit(func(p *pflag.Flag) {
		if group.Flags().Lookup(p.Name) == nil {
			return
		}
		value := p.Value.String()
		if list, ok := p.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		args = append(args, "--"+p.Name+"="+value)
	})
	return args
}

// runAgainst compares this build with another, and reports.
func (f *benchFlags) runAgainst(ctx context.Context, out io.Writer) (err error) {
	files, err := createFiles([]reportTo[bench.DuelReport]{{f.json, bench.DuelReport.WriteJSON}})
	if err != nil {
		return err
	}
	r, err := f.duel(ctx)
	if err != nil && len(r.Rows) == 0 {
		return errors.Join(err, files.close())
	}
	return files.report(r, errors.Join(err, r.WriteText(out)), len(r.Wrong) > 0 || len(r.Worse()) > 0)
}

// duel starts the agents of both builds, measures and ends them.
func (f *benchFlags) duel(ctx context.Context) (r bench.DuelReport, err error) {
	self, err := ownProgram()
	if err != nil {
		return r, err
	}
	theirs, err := filepath.Abs(f.against)
	if err != nil {
		return r, fmt.Errorf("--against: %w", err)
	}
	var agents []*agentProcess
	defer func() {
		for _, a := range agents {
			err = errors.Join(err, a.stop())
		}
	}()
	load := loadAverage() // before the machines boot
	d := bench.Duel{Micro: f.only != onlySuite, Runs: f.runs}
	if f.only != onlyMicro {
		d.Benches = f.benches
	}
	for _, mode := range bench.Modes {
		if !slices.Contains(f.modes, string(mode)) {
			continue
		}
		var both [2]*agentProcess
		for i, program := range []string{self, theirs} {
			if both[i], err = f.startAgent(ctx, program, mode, f.given); err != nil {
				return r, fmt.Errorf("%s: %w", program, err)
			}
			agents = append(agents, both[i])
		}
		for _, c := range f.configsOf(mode) {
			series := bench.Series{Mode: mode, Config: c}
			side := func(a *agentProcess) place {
				return place{agent: a, series: series, budget: f.microTime, known: map[string]string{}}
			}
			d.Pairs = append(d.Pairs, bench.Pair{Ours: side(both[0]), Theirs: side(both[1])})
		}
	}
	status := newStatus()
	defer status.clear()
	r, err = d.Run(ctx, status.show)
	h := agent.Here()
	r.Header = bench.Header{Date: time.Now(), Command: "pvdrm " + strings.Join(os.Args[1:], " "), Runs: f.runs, Facts: []bench.Fact{
		{Name: "host", Value: describe(h)},
		{Name: "load before", Value: load},
		{Name: "this", Value: fmt.Sprintf("%s, %s, %s", self, version, runtime.Version())},
		{Name: "other", Value: fmt.Sprintf("%s, %s", theirs, versionOf(ctx, theirs))},
	}}
	return r, err
}

// versionOf asks a pvdrm for its version.
func versionOf(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return "of unknown version"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}
