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
			return screenshot(c.Context(), socket, args[0])
		},
	}
	c.Flags().StringVar(&socket, "qmp", "", "QMP socket of the machine (default: that of the one that runs)")
	return c
}

func screenshot(ctx context.Context, socket, path string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("the machine's QMP socket: %w", err)
	}
	client, err := qmp.New(ctx, conn)
	if err != nil {
		return err
	}
	defer client.Close()
	return vmm.Screenshot(ctx, client, path)
}
