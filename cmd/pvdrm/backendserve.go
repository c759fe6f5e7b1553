package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"pvdrm/backend/carrier/local"
	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/supervisor"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gpu"
)

// serveCommand is the hidden command that serves a guest; startBackend starts it.
const serveCommand = "backend-serve"

func newBackendServe(g *global) *cobra.Command {
	var dev deviceFlags
	var f backendFlags
	var birth string
	c := &cobra.Command{
		Use:    serveCommand,
		Short:  "Serve the guest of another pvdrm",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { // on the main thread
			child, err := supervisor.Adopt(birth, os.Args)
			if err == nil {
				err = f.serveChild(c.Context(), g, &dev, child)
			}
			if err == nil {
				return nil
			}
			code := exitFailed
			if errors.As(err, new(usageError)) {
				code = exitUsage
			}
			if untold := supervisor.Fail(err, code); untold != nil {
				return errors.Join(err, untold)
			}
			return exitError{code} // the parent says why
		},
	}
	dev.add(c)
	f.add(c)
	c.Flags().StringVar(&birth, supervisor.BirthFlag, "", "what the parent gives")
	return c
}

// serveChild serves the guest until it is gone, with --once, or the parent is.
func (f *backendFlags) serveChild(ctx context.Context, g *global, dev *deviceFlags, child *supervisor.Child) error {
	level, err := zapcore.ParseLevel(g.logLevel)
	if err != nil {
		return usageError{fmt.Errorf("--log: %w", err)}
	}
	log := supervisor.ChildLogger(level)
	ctx, cancel := child.Context(ctx)
	defer cancel()
	if f.card.on() {
		return f.serveCard(ctx, log, dev, child)
	}
	if err := dev.peers.take(child.Peers()); err != nil {
		return err
	}
	device, err := dev.open(log, child.Seat)
	if err != nil {
		return err
	}
	defer dev.peers.close()
	if f.vhostUser != "" {
		err = f.serveVM(ctx, log, dev, device, child)
	} else {
		err = f.serveLocal(ctx, log, dev, device, child)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, device.Close())
}

// begin confines this process, when all is open that it needs, and says that it serves.
func (f *backendFlags) begin(log *zap.Logger, dev *deviceFlags, child *supervisor.Child, stats func() backendStats) error {
	if err := child.Serve(func() ([]byte, error) { return json.Marshal(stats()) }); err != nil {
		return err
	}
	if dev.confined() {
		log.Info("confined to the system calls that serving needs")
	}
	return nil
}

// serveVM serves a virtual machine until ctx ends.
func (f *backendFlags) serveVM(ctx context.Context, log *zap.Logger, dev *deviceFlags, device gpu.Device, child *supervisor.Child) (err error) {
	limits, err := dev.limits()
	if err != nil {
		return err
	}
	limits = promised(limits, device)
	guest := &virtio.Guest{Device: device, Log: log}
	guest.SetLimits(limits)
	if err := dev.peers.lend(guest.Files()); err != nil {
		return err
	}
	gl, err := dev.openGL(log, limits, device, guest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeGL(gl)) }()
	components := []virtgpu.Component{pvdrm.Component{Guest: guest}}
	if gl != nil {
		components = append(components, gl)
	}
	gpu, err := virtgpu.New(virtgpu.Config{Components: components, DrawPointer: f.drawPointer, Log: log})
	if err != nil {
		return err
	}
	guest.Counts = func() (doorbells, interrupts uint64) {
		s := gpu.Stats()
		return s.Kicks, s.Interrupts
	}
	stats := ownStats(device, guest.Sessions)
	if gl != nil {
		stats = withGL(stats, gl)
	}
	if err := f.begin(log, dev, child, stats); err != nil {
		return err
	}
	log.Info("waiting for a virtual machine", zap.String("socket", f.vhostUser))
	if f.once {
		return serveOnce(ctx, child.Guest(), gpu)
	}
	return gpu.Serve(ctx, child.Guest())
}

// serveOnce serves the first connection only.
func serveOnce(ctx context.Context, l *net.UnixListener, gpu *virtgpu.Device) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer stop()
	conn, err := l.AcceptUnix()
	if err != nil {
		return fmt.Errorf("waiting for the virtual machine: %w", err)
	}
	_ = l.Close() // one guest is all
	return gpu.ServeConn(ctx, conn)
}

// serveLocal serves programs of this host until ctx ends.
func (f *backendFlags) serveLocal(ctx context.Context, log *zap.Logger, dev *deviceFlags, device gpu.Device, child *supervisor.Child) error {
	limits, err := dev.limits()
	if err != nil {
		return err
	}
	limits = promised(limits, device)
	server := local.NewServer(local.Config{Device: device, Log: log, Limits: limits})
	if err := dev.peers.lend(server.Guest()); err != nil {
		return err
	}
	if err := f.begin(log, dev, child, ownStats(device, server.Sessions)); err != nil {
		return err
	}
	log.Info("waiting for programs", zap.String("socket", f.local))
	return server.Serve(ctx, child.Guest())
}
