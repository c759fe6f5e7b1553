package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/vmm"
	"pvdrm/vmm/vnc"
)

// screenFlags are those of `pvdrm up` that are about the guest's screen.
type screenFlags struct {
	display    string
	resolution string
	screenshot string

	viewers net.Listener // with --display vnc=…
	input   bool         // they have keyboard and pointer
}

func (f *screenFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.display, "display", vmm.NoDisplay, "where to show the guest's screen: none; vnc=:1 for viewers of this host at port 5901, vnc=HOST:1, vnc=unix:PATH, each with ,input=on for keyboard and pointer; gtk or sdl, where the host has a GPU")
	c.Flags().StringVar(&f.resolution, "resolution", "", "size of the guest's screen, WIDTHxHEIGHT (default: 1280x800)")
	c.Flags().StringVar(&f.screenshot, "screenshot", "", "when the program has ended, save a picture of the guest's screen to this PNG file")
}

// apply checks the flags and says what they mean for a machine. Viewers can connect
// from now on.
func (f *screenFlags) apply(ctx context.Context, cfg *vmm.Config) error {
	place, isVNC := strings.CutPrefix(f.display, "vnc=")
	if !isVNC {
		cfg.Display = f.display
	}
	if f.resolution != "" {
		if n, err := fmt.Sscanf(f.resolution+"\n", "%dx%d\n", &cfg.Width, &cfg.Height); n != 2 || err != nil {
			return usageError{fmt.Errorf("--resolution: %q is not of the form 1280x800", f.resolution)}
		}
	}
	if err := cfg.CheckScreen(); err != nil {
		return usageError{err}
	}
	if !isVNC {
		cfg.Input = f.shown()
		return nil
	}
	var network, address string
	var err error
	if network, address, f.input, err = vncAddress(place); err != nil {
		return usageError{fmt.Errorf("--display: %w", err)}
	}
	cfg.Input = f.input
	if f.viewers, err = new(net.ListenConfig).Listen(ctx, network, address); err != nil {
		return fmt.Errorf("--display: %w", err)
	}
	return nil
}

// vncPort is the port of a host's first VNC display.
const vncPort = 5900

// vncAddress is where to wait for viewers: place is [HOST]:DISPLAY or unix:PATH, with
// ,input=on behind it if they have keyboard and pointer.
func vncAddress(place string) (network, address string, input bool, err error) {
	place, input = strings.CutSuffix(place, ",input=on")
	if path, ok := strings.CutPrefix(place, "unix:"); ok {
		return "unix", path, input, nil
	}
	host, number, err := net.SplitHostPort(place)
	if err != nil {
		return "", "", false, fmt.Errorf("vnc=%s: %w", place, err)
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n > 65535-vncPort {
		return "", "", false, fmt.Errorf("vnc=%s: a display is a number from 0 to %d", place, 65535-vncPort)
	}
	if host == "" {
		host = "127.0.0.1" // whoever can connect sees the screen
	}
	return "tcp", net.JoinHostPort(host, strconv.FormatUint(n+vncPort, 10)), input, nil
}

// show lets viewers look at the machine's screen until the returned function is called.
func (f *screenFlags) show(ctx context.Context, log *zap.Logger, machine *vmm.VM) (stop func() error) {
	if f.viewers == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	var input vnc.Input
	if f.input {
		input = machine.Input(log)
	}
	ended := make(chan error, 1)
	go func() { ended <- vnc.Serve(ctx, f.viewers, "PVDRM guest", machine.Picture, input) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// close ends the wait for viewers of a machine that was never shown.
func (f *screenFlags) close() {
	if f.viewers != nil {
		_ = f.viewers.Close() // it may be closed already
	}
}

// single reports whether a flag needs a screen that is the only one.
func (f *screenFlags) single() bool { return f.screenshot != "" || f.shown() }

// shown reports whether somebody looks at the screen.
func (f *screenFlags) shown() bool { return f.display != vmm.NoDisplay && f.display != "" }

// window reports whether that is a window of QEMU's.
func (f *screenFlags) window() bool { return f.shown() && !strings.HasPrefix(f.display, "vnc=") }
