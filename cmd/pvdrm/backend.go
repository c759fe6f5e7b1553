package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/metrics"
)

// backendFlags are those of `pvdrm backend` that are not about the GPU.
type backendFlags struct {
	vhostUser, local string // one of these sockets, or vfioUser
	vfioUser         string
	stats            string // socket for statistics; may be empty
	metrics          string // address for metrics; may be empty
	once             bool
	drawPointer      bool
	card             cardFlags
}

func newBackend(g *global) *cobra.Command {
	var dev deviceFlags
	var f backendFlags
	c := &cobra.Command{
		Use:   "backend (--vhost-user SOCKET | --local SOCKET | --vfio-user SOCKET)",
		Short: "Serve one guest",
		Long: `Serve one guest on a GPU until interrupted. With --vhost-user the guest is a
virtual machine: give QEMU (10 or later) the options

  -object memory-backend-memfd,id=mem,size=1G,share=on
  -machine q35,memory-backend=mem
  -chardev socket,id=gpu,path=SOCKET
  -device vhost-user-gpu-pci,chardev=gpu

With --local the guest is a program of this host, which finds the socket in the
environment variable PVDRM_SOCKET.

With --interface the backend owns a card and shares it at the level of its registers
among --parts guests (docs/gpuvm.md). Each machine has a socket then: SOCKET,
SOCKET-2 and so on. With --vfio-user and --traps pci machines see a PCI device; give
QEMU (11.1 or later) the first two options and

  -device '{"driver":"vfio-user-pci","x-no-posted-writes":true,
    "socket":{"type":"unix","path":"SOCKET"}}'

As pvdrm up and pvdrm run do, pvdrm backend starts and supervises a process that
serves the guest. That process drops all privileges before it begins, and all system
calls that it does not need once it serves (see --sandbox). It gets a user,
namespaces, a root directory and a control group of its own as far as the host allows;
a warning names the missing ones, and pvdrm doctor names the remedy.

As a service of systemd that is activated by its sockets, it takes over the socket at
the given path.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			log, err := g.logger()
			if err != nil {
				return err
			}
			if err := errors.Join(dev.check(), f.card.check(&dev)); err != nil {
				return err
			}
			kind, socket := f.carrier()
			if err := f.card.share(&dev, kind, socket); err != nil {
				return err
			}
			return f.serve(c.Context(), g, log, &dev)
		},
	}
	dev.add(c)
	f.add(c)
	c.Flags().StringVar(&f.stats, "stats", "", "path of a socket to make, on which pvdrm stats asks for the counters")
	c.Flags().StringVar(&f.metrics, "metrics", "", "serve metrics for Prometheus at HOST:PORT, :PORT (loopback only) or unix:PATH")
	return c
}

// add adds what the process that serves needs to know, too.
func (f *backendFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.vhostUser, vhostUser.flag, "", "path of the vhost-user-gpu socket to make, for QEMU")
	c.Flags().StringVar(&f.vfioUser, vfioUser.flag, "", "with --interface and --traps pci: path of the vfio-user socket to make, for QEMU 11.1 (-device vfio-user-pci)")
	c.Flags().StringVar(&f.local, localGuest.flag, "", "path of the socket to make, for programs of this host")
	c.Flags().BoolVar(&f.once, "once", false, "with --vhost-user: end when the virtual machine has disconnected")
	f.card.add(c)
	c.Flags().BoolVar(&f.drawPointer, "draw-pointer", false, "with --vhost-user: draw the pointer into the pictures of the screen, for pvdrm view and screenshots; a window of QEMU's would show a second one")
}

// carrier is how the guest reaches its backend, and where.
func (f *backendFlags) carrier() (kind carrierKind, socket string) {
	switch {
	case f.vhostUser != "":
		return vhostUser, f.vhostUser
	case f.vfioUser != "":
		return vfioUser, f.vfioUser
	}
	return localGuest, f.local
}

// check finds what is wrong with the sockets.
func (f *backendFlags) check() error {
	given := 0
	for _, socket := range []string{f.vhostUser, f.vfioUser, f.local} {
		if socket != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return usageError{errors.New("give one of --vhost-user, --local and, with --traps pci, --vfio-user")}
	case (f.vfioUser != "") != (f.card.traps == trapsPCI):
		return usageError{errors.New("--traps pci and --vfio-user belong together: BARs are shown by vfio-user")}
	case f.vfioUser != "" && !f.card.on():
		return usageError{errors.New("--vfio-user: name the way to share the card by --interface")}
	}
	return nil
}

// serve starts the process that serves, and waits for its end or that of ctx.
func (f *backendFlags) serve(ctx context.Context, g *global, log *zap.Logger, dev *deviceFlags) error {
	kind, socket := f.carrier()
	more := f.card.args()
	if f.once {
		more = append(more, "--once")
	}
	if f.drawPointer {
		more = append(more, "--draw-pointer")
	}
	// Its sockets are removed at the end, and not when ctx has ended: the process has
	// the guest's until then.
	b, err := startBackend(ctx, g, log, dev, kind, socket, f.stats, more...)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := serveMetrics(ctx, f.metrics, func(p *metrics.Page) {
		if st, err := b.stats(); err == nil { // else it has ended
			addMetrics(p, st)
		}
	}); err != nil {
		return err
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.Warn("systemd does not hear that the backend is ready", zap.Error(err))
	}
	select {
	case <-ctx.Done():
		return nil
	case <-b.Done():
	}
	if err := b.Err(); err != nil {
		return fmt.Errorf("the backend ended: %w", err)
	}
	return nil
}
