package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/drm/trace"
)

func newTrace(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Record the calls that a program makes on its GPU, look at them, and make them again",
		Long: `A trace holds every ioctl that a program made on its DRM file, with arguments,
results, errno and times, and what it wrote into mapped memory. Made again on
another device, or after a change, results and memory are compared.

In a virtual machine a program records itself when PVDRM_TRACE names a file:

  pvdrm up -- sh -c 'PVDRM_TRACE=/tmp/t gdev run madd >&2; cat /tmp/t' > madd.trace`,
	}
	c.AddCommand(newTraceRecord(g), newTraceShow(), newTraceReplay(g), newTraceDiff())
	return c
}

func newTraceRecord(g *global) *cobra.Command {
	var dev deviceFlags
	var out string
	c := &cobra.Command{
		Use:     "record [flags] -- PROGRAM [ARGUMENT ...]",
		Short:   "Run a program as a local guest and record its calls",
		Example: "  pvdrm trace record -o nn.trace -- gdev run nn",
		Args:    needProgram,
		RunE: func(c *cobra.Command, args []string) error {
			path, err := filepath.Abs(out)
			if err != nil {
				return fmt.Errorf("-o: %w", err)
			}
			if err := os.Setenv(trace.Env, path); err != nil {
				return fmt.Errorf("recording: %w", err)
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("-o: %w", err)
			}
			if err := runLocal(c.Context(), g, &dev, args); err != nil {
				return err
			}
			st, err := os.Stat(path)
			if err != nil {
				return fmt.Errorf("%s opened no DRM file of PVDRM, or not by its libraries: nothing was recorded", args[0])
			}
			progress("%s: %d bytes", out, st.Size())
			return nil
		},
	}
	c.Flags().SetInterspersed(false)
	dev.add(c)
	c.Flags().StringVarP(&out, "output", "o", "pvdrm.trace", "file to write; it is replaced")
	return c
}

// withTrace opens a trace for do.
func withTrace(path string, do func(*trace.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	r, err := trace.NewReader(f)
	if err == nil {
		err = do(r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func newTraceShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE",
		Short: "Print a trace, a call a line",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withTrace(args[0], func(r *trace.Reader) error { return trace.Show(r, c.OutOrStdout()) })
		},
	}
}

// Where a trace is replayed.
const (
	replayNative = "native"
	replayLocal  = "local"
)

func newTraceReplay(g *global) *cobra.Command {
	var dev deviceFlags
	var where string
	c := &cobra.Command{
		Use:   "replay [flags] FILE",
		Short: "Make the calls of a trace again, and say what differs first",
		Long: `Make the calls of a trace again and compare results, errors and memory. Handles,
points and addresses may be others than in the trace; pointers that lie in memory,
other than as arguments of kernels, are not translated. The exit code is 1 if
something differs.

In a virtual machine: pvdrm up -- gdev replay - < FILE`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch where {
			case replayNative:
				return replayOnDevice(c.Context(), g, &dev, args[0], c)
			case replayLocal:
				path, err := filepath.Abs(args[0])
				if err != nil {
					return err
				}
				return runLocal(c.Context(), g, &dev, []string{"gdev", "replay", path})
			}
			return usageError{fmt.Errorf("--on: %q is neither %s nor %s", where, replayNative, replayLocal)}
		},
	}
	dev.add(c)
	c.Flags().StringVar(&where, "on", replayLocal, "local: as a local guest; native: directly on the device, without a transport")
	return c
}

func replayOnDevice(_ context.Context, g *global, dev *deviceFlags, path string, c *cobra.Command) error {
	log, err := g.logger()
	if err != nil {
		return err
	}
	device, err := dev.open(log)
	if err != nil {
		return err
	}
	var report trace.Report
	err = withTrace(path, func(r *trace.Reader) error {
		report, err = trace.Replay(r, func() (drm.File, error) {
			f, err := native.Open(device, "replay")
			if err != nil {
				return nil, err // not a nil *native.File inside of an interface
			}
			return f, nil
		})
		return err
	})
	if err = errors.Join(err, device.Close()); err != nil {
		return err
	}
	if err := report.Print(c.OutOrStdout()); err != nil {
		return err
	}
	if len(report.Differences) > 0 {
		return exitError{1}
	}
	return nil
}

func newTraceDiff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff FILE FILE",
		Short: "Compare two traces of the same device, and say what differs first",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return withTrace(args[0], func(a *trace.Reader) error {
				return withTrace(args[1], func(b *trace.Reader) error {
					what, err := trace.Diff(a, b)
					if err != nil {
						return err
					}
					if what == "" {
						_, err = fmt.Fprintln(c.OutOrStdout(), "the traces are equal")
						return err
					}
					if _, err := fmt.Fprintln(c.OutOrStdout(), what); err != nil {
						return err
					}
					return exitError{1}
				})
			})
		},
	}
}
