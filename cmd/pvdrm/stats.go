package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pvdrm/backend/session"
	"pvdrm/gpu"
)

// backendStats is what a backend tells of itself.
type backendStats struct {
	PID    int                `json:"pid"`
	Kind   string             `json:"kind"` // "vm" or "local"
	Device gpu.Stats          `json:"device"`
	Guest  session.GuestStats `json:"guest"`
}

// serveStats answers each connection to the socket with the statistics, as one
// JSON object, until ctx ends.
func serveStats(ctx context.Context, path string, stats func() backendStats) error {
	l, err := listenUnix(path)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept, and removes the socket
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(time.Second)) // a reader that does not read must not keep others waiting
			_ = json.NewEncoder(c).Encode(stats())         // nor does it matter if it is gone
			_ = c.Close()
		}
	}()
	return nil
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

func newStats() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats",
		Short: "Print the counters of the backends that run",
		Long: `Print what the backends of this user counted: doorbells (every virtqueue kick, or
wake-up of a local client), interrupts, ring entries and the multicalls they came
in, grants, pages mapped, and the time the backend polled and slept; for each
guest, and for each of its open DRM files. They are found where pvdrm up and
pvdrm run put their sockets; name that of another backend with --socket.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			sockets := []string{socket}
			if socket == "" {
				var err error
				if sockets, err = filepath.Glob(filepath.Join(runRoot(), "vm-*", socketStats)); err != nil {
					return err
				}
			}
			var all []backendStats
			for _, path := range sockets {
				st, err := readStats(path)
				if err != nil && socket == "" {
					continue // it ended between the look and the question
				}
				if err != nil {
					return err
				}
				all = append(all, st)
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

// ownStats is the backendStats of this process.
func ownStats(kind string, device gpu.Device, guest func() session.GuestStats) func() backendStats {
	return func() backendStats {
		return backendStats{PID: os.Getpid(), Kind: kind, Device: device.Stats(), Guest: guest()}
	}
}
