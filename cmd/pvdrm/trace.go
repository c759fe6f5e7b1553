package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/drm/trace"
	guestimage "pvdrm/guest-image"
)

func newTrace(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Record the GPU calls of a program, and show, compare and replay them",
		Long: `A trace holds every ioctl that a program made on its DRM file, with arguments,
results, errno and times, and what it wrote into mapped memory. Made again on
another device, or after a change, results and memory are compared.

A program records itself when PVDRM_TRACE names a file, and so does pvdrm-run what
it runs; that is all that record does, apart from starting it.`,
	}
	c.AddCommand(newTraceRecord(g), newTraceShow(), newTraceReplay(g), newTraceDiff())
	return c
}

// Where a trace is recorded or replayed.
const (
	onNative = "native"
	onLocal  = "local"
	onVM     = "vm"
)

// placeError is that --on names none of the places.
func placeError(where string, places ...string) error {
	return usageError{fmt.Errorf("--on: %q is none of %s", where, strings.Join(places, ", "))}
}

func newTraceRecord(g *global) *cobra.Command {
	var dev deviceFlags
	var out, where, image string
	var copies []string
	c := &cobra.Command{
		Use:   "record [flags] -- PROGRAM [ARGUMENT ...]",
		Short: "Run a program in a guest and record its calls",
		Long: `Run a program as a local guest, or in a virtual machine, and record its calls. Of
a program in a virtual machine the standard output comes with its standard error.

Programs of PVDRM's libraries record themselves. Those that make ioctls themselves
run under pvdrm-run, which records them.`,
		Example: "  pvdrm trace record -o nn.trace -- gdev run nn\n  pvdrm trace record --on vm -o nn.trace -- gdev run nn\n  pvdrm trace record -o prog.trace -- pvdrm-run ./prog\n  pvdrm trace record --on vm --copy prog -o prog.trace -- pvdrm-run ./prog",
		Args:    needProgram,
		RunE: func(c *cobra.Command, args []string) (err error) {
			path, err := filepath.Abs(out)
			if err != nil {
				return fmt.Errorf("-o: %w", err)
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("-o: %w", err)
			}
			if _, err := os.Stat(filepath.Dir(path)); err != nil {
				return fmt.Errorf("-o: %w", err)
			}
			switch where {
			case onLocal:
				if len(copies) > 0 {
					return usageError{errors.New("--copy is for --on vm")}
				}
				if err = os.Setenv(trace.Env, path); err == nil {
					err = runLocal(c.Context(), g, &dev, args)
				}
			case onVM:
				err = recordInMachine(c.Context(), g, dev, image, path, copies, args)
			default:
				return placeError(where, onLocal, onVM)
			}
			st, missing := os.Stat(path)
			if missing == nil && st.Size() == 0 {
				err, missing = errors.Join(err, os.Remove(path)), os.ErrNotExist
			}
			switch {
			case err != nil:
				return err
			case missing != nil:
				return fmt.Errorf("%s opened no DRM file of PVDRM, or neither by its libraries nor under pvdrm-run: nothing was recorded", args[0])
			}
			progress("%s: %d bytes", out, st.Size())
			return nil
		},
	}
	c.Flags().SetInterspersed(false)
	dev.add(c)
	c.Flags().StringVarP(&out, "output", "o", "pvdrm.trace", "file to write; it is replaced")
	c.Flags().StringVar(&where, "on", onLocal, "local: as a local guest; vm: in a virtual machine")
	c.Flags().StringVar(&image, "image", guestimage.Base, "image of the virtual machine: "+strings.Join(guestimage.Kinds(), " or "))
	c.Flags().StringArrayVar(&copies, "copy", nil, "with --on vm: copy a file of the host to the guest's /root, where the program then runs; may be given several times")
	return c
}

// recordInMachine runs a program that records itself in a virtual machine, and
// has the trace written to path.
func recordInMachine(ctx context.Context, g *global, dev deviceFlags, image, path string, copies, args []string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	const script = `t=/tmp/pvdrm.trace; ` + trace.Env + `=$t "$@" >&2; code=$?; [ ! -e $t ] || cat $t; exit $code`
	err = upOnce(ctx, g, dev, image, copies, append([]string{"sh", "-c", script, "sh"}, args...), nil, file)
	return errors.Join(err, file.Close())
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

func newTraceReplay(g *global) *cobra.Command {
	var dev deviceFlags
	var where string
	c := &cobra.Command{
		Use:   "replay [flags] FILE",
		Short: "Make the calls of a trace again, and say what differs first",
		Long: `Make the calls of a trace again and compare results, errors and memory. Handles,
points and addresses may be others than in the trace; pointers that lie in memory,
other than as arguments of kernels, are not translated. The exit code is 1 if
something differs.`,
		Example: "  pvdrm trace replay nn.trace\n  pvdrm trace replay --on vm nn.trace\n  pvdrm trace replay --on native --device cuda nn.trace",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch where {
			case onNative:
				return replayOnDevice(g, &dev, args[0], c)
			case onLocal:
				path, err := filepath.Abs(args[0])
				if err != nil {
					return err
				}
				if _, err := os.Stat(path); err != nil {
					return err // and not the code of a replay that differs
				}
				return runLocal(c.Context(), g, &dev, []string{"gdev", "replay", path})
			case onVM:
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }() // it was only read
				return upOnce(c.Context(), g, dev, guestimage.Base, nil, []string{"gdev", "replay", "-"}, file, c.OutOrStdout())
			}
			return placeError(where, onLocal, onVM, onNative)
		},
	}
	dev.add(c)
	c.Flags().StringVar(&where, "on", onLocal, "local: as a local guest; vm: in a virtual machine; native: directly on the device, without a transport")
	return c
}

func replayOnDevice(g *global, dev *deviceFlags, path string, c *cobra.Command) error {
	log, err := g.logger()
	if err != nil {
		return err
	}
	device, err := dev.open(log, dev.connect)
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
