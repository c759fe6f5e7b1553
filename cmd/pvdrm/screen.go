package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pvdrm/vmm"
	"pvdrm/vmm/vnc"
)

// screenFlags are those of `pvdrm up` that are about the guest's screen.
type screenFlags struct {
	display    string
	resolution string
	screenshot string

	viewers net.Listener // with --display vnc=…
}

func (f *screenFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.display, "display", vmm.NoDisplay, "where to show the guest's screen: none; vnc=:1 for viewers of this host at port 5901, vnc=HOST:1, vnc=unix:PATH; gtk or sdl, where the host has a GPU")
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
		return nil
	}
	network, address, err := vncAddress(place)
	if err != nil {
		return usageError{fmt.Errorf("--display: %w", err)}
	}
	if f.viewers, err = new(net.ListenConfig).Listen(ctx, network, address); err != nil {
		return fmt.Errorf("--display: %w", err)
	}
	return nil
}

// vncPort is the port of a host's first VNC display.
const vncPort = 5900

// vncAddress is where to wait for viewers: place is [HOST]:DISPLAY or unix:PATH.
func vncAddress(place string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(place, "unix:"); ok {
		return "unix", path, nil
	}
	host, number, err := net.SplitHostPort(place)
	if err != nil {
		return "", "", fmt.Errorf("vnc=%s: %w", place, err)
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n > 65535-vncPort {
		return "", "", fmt.Errorf("vnc=%s: a display is a number from 0 to %d", place, 65535-vncPort)
	}
	if host == "" {
		host = "127.0.0.1" // whoever can connect sees the screen
	}
	return "tcp", net.JoinHostPort(host, strconv.FormatUint(n+vncPort, 10)), nil
}

// show lets viewers look at the machine's screen until the returned function is called.
func (f *screenFlags) show(ctx context.Context, machine *vmm.VM) (stop func() error) {
	if f.viewers == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- vnc.Serve(ctx, f.viewers, "PVDRM guest", machine.Picture) }()
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
func (f *screenFlags) single() bool { return f.screenshot != "" || f.display != vmm.NoDisplay }
