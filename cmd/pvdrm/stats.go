package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/metrics"
	"pvdrm/backend/session"
	"pvdrm/backend/supervisor"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// backendStats is what a backend tells of itself.
type backendStats struct {
	PID    int                `json:"pid"`  // of the process that serves
	Kind   string             `json:"kind"` // "vm" or "local"
	Name   string             `json:"name"` // of the guest, as at the arbiter
	Device gpu.Stats          `json:"device"`
	Guest  session.GuestStats `json:"guest"`
	// Arbiter is the socket of the arbiter, "" without one, and Gate what the
	// backend counted of it.
	Arbiter string             `json:"arbiter,omitempty"`
	Place   int                `json:"arbiter_gpu,omitempty"` // its number there
	Gate    *arbiter.GateStats `json:"gate,omitempty"`
	// GL is what the renderer for the guest's OpenGL counted; nil without one.
	GL *virgl.Stats `json:"gl,omitempty"`
	// Share is what the arbiter counted of the guest: pvdrm stats asks it.
	Share *arbiter.GuestStats `json:"share,omitempty"`
}

// serveStats answers each connection to a socket with the statistics, as one
// JSON object, until ctx ends.
func serveStats(ctx context.Context, log *zap.Logger, l *net.UnixListener, stats func() (backendStats, error)) {
	context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	go func() {
		for {
			c, err := arbiter.AcceptPatiently(ctx, l, log)
			if err != nil {
				if ctx.Err() == nil {
					log.Error("statistics are no longer served", zap.Error(err))
				}
				return
			}
			if st, err := stats(); err == nil { // else the backend ends, as its reader sees
				_ = c.SetDeadline(time.Now().Add(time.Second)) // a reader that does not read must not keep others waiting
				_ = json.NewEncoder(c).Encode(st)              // nor does it matter if it is gone
			}
			_ = c.Close()
		}
	}()
}

// stats asks the process that serves for its counts. They may be anything, but texts
// are escaped, and what identifies the guest is what this process knows.
func (b *backendProcess) stats() (st backendStats, err error) {
	text, err := b.Statistics()
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return st, fmt.Errorf("statistics of a backend: %w", err)
	}
	st.clean()
	st.PID, st.Kind, st.Name, st.Arbiter, st.Share = b.PID(), b.kind, b.dev.guest, b.dev.arbiter, nil
	st.Place = max(b.dev.place, 0)
	return st, nil
}

// lostCauses are those for which contexts are lost.
var lostCauses = func() map[string]bool {
	all := map[string]bool{}
	for c := gpu.LostNone; c <= gpu.LostDevice; c++ {
		all[c.String()] = true
	}
	return all
}()

// clean makes statistics of a hostile backend fit to be shown and counted: texts are
// escaped, and of resources and causes those stay that there are.
func (st *backendStats) clean() {
	for i := range st.Guest.Clients {
		c := &st.Guest.Clients[i].Client
		*c = supervisor.Escape(*c)
	}
	seen := map[string]bool{} // Prometheus refuses all guests' metrics if one comes twice
	st.Guest.Quotas = slices.DeleteFunc(st.Guest.Quotas, func(q quota.Stats) bool {
		_, ok := quota.ByName(q.Resource)
		again := seen[q.Resource]
		seen[q.Resource] = true
		return !ok || again
	})
	maps.DeleteFunc(st.Guest.Lost, func(cause string, _ uint64) bool { return !lostCauses[cause] })
}

func readStats(path string) (st backendStats, err error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	const most, patience = 16 << 20, 5 * time.Second
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return st, err
	}
	if err := json.NewDecoder(io.LimitReader(c, most)).Decode(&st); err != nil {
		return st, fmt.Errorf("statistics from %s: %w", path, err)
	}
	return st, nil
}

// runningBackends asks all backends of this user, and their arbiters.
func runningBackends(ctx context.Context) (all []backendStats) {
	sockets, _ := filepath.Glob(filepath.Join(runRoot(), "vm-*", socketStats+"*")) // the pattern is good
	for _, path := range sockets {
		if st, err := readStats(path); err == nil { // else it ended between the look and the question
			all = append(all, st)
		}
	}
	return addShares(ctx, all)
}

// addShares adds what the arbiters of the backends know of them, where these
// answer.
func addShares(ctx context.Context, all []backendStats) []backendStats {
	asked := map[string][]arbiter.GPUStats{}
	for i := range all {
		st := &all[i]
		if st.Arbiter == "" {
			continue
		}
		gpus, known := asked[st.Arbiter]
		if !known {
			answer, _ := arbiter.Ask(ctx, st.Arbiter+arbiter.ControlSuffix, arbiter.Command{}) // none without an answer
			gpus = answer.GPUs
			asked[st.Arbiter] = gpus
		}
		for _, g := range gpus {
			for j := 0; j < len(g.Guests) && g.Number == st.Place; j++ {
				if g.Guests[j].Name == st.Name {
					st.Share = &g.Guests[j]
				}
			}
		}
	}
	return all
}

func newStats() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats",
		Short: "Print the counters of the backends that run",
		Long: `Print what the backends of this user counted: doorbells (every virtqueue kick, or
wake-up of a local client), interrupts, ring entries and the multicalls they came
in, grants, pages mapped, and the time the backend polled and slept; for each
guest, and for each of its open DRM files. With --json also the quotas, the lost GPU
contexts and what the guest's arbiter counted. They are found where pvdrm up and
pvdrm run put their sockets; name that of another backend with --socket.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var all []backendStats
			if socket == "" {
				all = runningBackends(c.Context())
			} else {
				st, err := readStats(socket)
				if err != nil {
					return err
				}
				all = addShares(c.Context(), []backendStats{st})
			}
			if len(all) == 0 {
				return errors.New("no backend runs: start one with `pvdrm up` or `pvdrm run`")
			}
			return printStats(c.OutOrStdout(), all, asJSON)
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "statistics socket of one backend (pvdrm backend --stats)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, one for each backend")
	return c
}

func printStats(out io.Writer, all []backendStats, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		for _, st := range all {
			if err := enc.Encode(st); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "backend\tdoorbells\tinterrupts\tentries\tmulticalls\tlargest\tgrants\tMiB\tPTEs\tbatches\tpolled\tslept\t  client")
	const mib = 1 << 20
	for _, st := range all {
		row := func(exits string, c session.ClientStats) {
			n := c.Counters
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1fs\t%.1fs\t  %s\n", fmt.Sprintf("%s %d", st.Kind, st.PID), exits,
				n.Requests, n.Multicalls, n.LargestMulticall, n.Grants, n.GrantedBytes/mib, n.PTEs, n.Batches,
				time.Duration(n.PollingNS).Seconds(), time.Duration(n.SleepingNS).Seconds(), c.Client)
		}
		t := st.Guest.Total
		row(fmt.Sprintf("%d\t%d", t.Doorbells, t.Interrupts), session.ClientStats{Client: fmt.Sprintf("all %d so far", st.Guest.Sessions), Counters: t})
		for _, c := range st.Guest.Clients {
			row("\t", c)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, st := range all {
		for _, q := range st.Guest.Quotas {
			if q.Refused == 0 {
				continue
			}
			if _, err := fmt.Fprintf(out, "%s %d: %d requests refused by the quota of %d %s\n", st.Kind, st.PID, q.Refused, q.Limit, q.Resource); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownStats are the backendStats of this process, but for what its parent knows.
func ownStats(device gpu.Device, guest func() session.GuestStats) func() backendStats {
	return func() backendStats {
		st := backendStats{Device: device.Stats(), Guest: guest()}
		if d, ok := device.(gatedDevice); ok {
			gate := d.gate.Stats()
			st.Gate = &gate
		}
		return st
	}
}

// serveMetrics serves the metrics of this process at an address, until ctx ends.
// "" is nowhere.
func serveMetrics(ctx context.Context, addr string, collect func(*metrics.Page)) error {
	if addr == "" {
		return nil
	}
	l, err := metrics.Listen(addr)
	if err != nil {
		return err
	}
	metrics.Serve(ctx, l, collect)
	return nil
}

// addMetrics adds the metrics of a backend.
func addMetrics(p *metrics.Page, st backendStats) {
	p.AddBackend(metrics.Backend{Name: st.Name, Device: st.Device, Guest: st.Guest, Gate: st.Gate, GL: st.GL})
}
