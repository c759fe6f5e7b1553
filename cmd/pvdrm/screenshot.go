package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"pvdrm/vmm"
	"pvdrm/vmm/qmp"
	"pvdrm/vmm/vnc"
)

func newScreenshot() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "screenshot FILE",
		Short: "Save a picture of a running guest's screen to a PNG file",
		Long: `Save a picture of the screen of a guest that pvdrm up runs. With --qmp it can be
any QEMU 7.1 or later that was started with -qmp unix:SOCKET,server=on,wait=off.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withQMP(c.Context(), socket, func(q *qmp.Client) error { return vmm.Screenshot(c.Context(), q, args[0]) })
		},
	}
	c.Flags().StringVar(&socket, "qmp", "", "QMP socket of the machine (default: that of the one that runs)")
	return c
}

// newView makes `pvdrm view`.
func newView(g *global) *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "view ([HOST]:DISPLAY | unix:PATH)[,input=on]",
		Short: "Show a running guest's screen to VNC viewers",
		Long: `Show the screen of a guest that pvdrm up runs to VNC viewers until it is
interrupted: pvdrm view :1 waits at port 5901 of this host. With --qmp it can be any
QEMU 7.1 or later that was started with -qmp unix:SOCKET,server=on,wait=off. A QMP
socket has one client at a time, so pvdrm screenshot has to wait meanwhile.

Viewers only look. With ,input=on they have keyboard and pointer; a machine of your own
needs -device virtio-keyboard-pci -device virtio-tablet-pci for that. There is no
password: whoever can connect can do that, so give unix:PATH, or a loopback address on
a host that you share with nobody.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			network, address, takes, err := vncAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			log, err := g.logger()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			return withQMP(ctx, socket, func(q *qmp.Client) error {
				l, err := new(net.ListenConfig).Listen(ctx, network, address)
				if err != nil {
					return err
				}
				go func() {
					select {
					case <-q.Done(): // the machine is gone
						cancel()
					case <-ctx.Done():
					}
				}()
				progress("viewers can connect to %s", l.Addr())
				var input vnc.Input
				if takes {
					input = &vmm.Input{Client: q, Log: log}
				}
				return vnc.Serve(ctx, l, "PVDRM guest", func(ctx context.Context) (*vnc.Picture, error) { return vmm.Picture(ctx, q) }, input)
			})
		},
	}
	c.Flags().StringVar(&socket, "qmp", "", "QMP socket of the machine (default: that of the one that runs)")
	return c
}

// withQMP calls f with a connection to a QMP socket; empty: that of the one guest
// that runs.
func withQMP(ctx context.Context, socket string, f func(*qmp.Client) error) error {
	if socket == "" {
		running, err := filepath.Glob(filepath.Join(runRoot(), "vm-*", socketQMP))
		if err != nil {
			return err
		}
		switch len(running) {
		case 0:
			return errors.New("no guest runs: start one with `pvdrm up`")
		case 1:
			socket = running[0]
		default:
			return fmt.Errorf("several guests run: choose one with --qmp: %q", running)
		}
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("the machine's QMP socket: %w", err)
	}
	client, err := qmp.New(ctx, conn)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(client)
}
