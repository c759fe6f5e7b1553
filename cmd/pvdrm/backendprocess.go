package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/carrier/local"
	"pvdrm/backend/supervisor"
)

// backendProcess is a process that serves a guest's GPU, and what this one does for it.
type backendProcess struct {
	*supervisor.Backend
	kind    string // of guest, for statistics
	dev     deviceFlags
	cancel  context.CancelFunc // of what is served here
	sockets []string           // to remove at the end
}

// carrierKind says how a guest reaches its backend.
type carrierKind struct {
	flag    string // of `pvdrm backend`
	network string // type of its socket
	name    string // for statistics
}

var (
	vhostUser  = carrierKind{flag: "vhost-user", network: "unix", name: "vm"}
	vfioUser   = carrierKind{flag: "vfio-user", network: "unix", name: "vm"}
	localGuest = carrierKind{flag: "local", network: "unixpacket", name: "local"}
)

// startBackend starts the process that serves a guest at socket, with further
// arguments, and returns when it serves. Its statistics are served at another socket,
// unless that is "". It is to be called on the main goroutine; see main.
func startBackend(ctx context.Context, g *global, log *zap.Logger, dev *deviceFlags, kind carrierKind, socket, stats string, more ...string) (*backendProcess, error) {
	cfg, err := dev.backend(g, kind, socket, more)
	if err != nil {
		return nil, errors.Join(err, closeFiles(dev.peers.files))
	}
	cfg.Peers = dev.peers.files
	cfg.Log = log
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &backendProcess{kind: kind.name, dev: *dev, cancel: cancel}
	if cfg.Guest, err = b.listen(kind.network, socket); err != nil {
		b.stop()
		return nil, errors.Join(err, closeFiles(cfg.Peers))
	}
	for _, path := range dev.parts.sockets {
		l, err := b.listen(kind.network, path)
		if err != nil {
			b.stop()
			return nil, errors.Join(err, closeListeners(append(cfg.More, cfg.Guest)), closeFiles(cfg.Peers))
		}
		cfg.More = append(cfg.More, l)
	}
	var counts *net.UnixListener
	if stats != "" {
		if counts, err = b.listen("unix", stats); err != nil {
			b.stop()
			return nil, errors.Join(err, closeListeners(append(cfg.More, cfg.Guest)), closeFiles(cfg.Peers))
		}
	}
	if b.Backend, err = supervisor.Start(ctx, cfg); err == nil {
		if counts != nil {
			serveStats(life, log, counts, b.stats)
		}
		return b, nil
	}
	if counts != nil {
		err = errors.Join(err, counts.Close())
	}
	b.stop()
	return nil, told(err)
}

func closeListeners(listeners []*net.UnixListener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// backend says which backend to start for the flags.
func (d *deviceFlags) backend(g *global, kind carrierKind, socket string, more []string) (cfg supervisor.Config, err error) {
	self, err := os.Executable()
	if err != nil {
		return cfg, fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	limits, err := d.limits()
	if err != nil {
		return cfg, err
	}
	cfg = supervisor.Config{Name: d.guest, Confine: d.confined(), PIDs: true, Bounds: supervisor.BoundsOf(d.demand(limits, kind))}
	cfg.Command = append([]string{self, serveCommand, "--" + kind.flag, socket, "--log", g.logLevel}, append(more, d.args()...)...)
	if cfg.Devices, err = d.devices(); err != nil {
		return cfg, fmt.Errorf("devices of the backend: %w", err)
	}
	if d.confined() && (d.device.kind().hostPIDs || d.gl.byNumber()) {
		_, denied := probeView()
		cfg.PIDs = denied == nil
	}
	if d.arbiter == "" {
		return cfg, nil
	}
	taking, err := d.taking()
	if err != nil {
		return cfg, err
	}
	seats := []arbiter.Taking{taking}
	if len(d.parts.seats) > 0 {
		seats = nil
	}
	for _, e := range d.parts.seats {
		one := taking
		one.Hello.Name, one.Hello.Share = e.name, e.share()
		seats = append(seats, one)
	}
	cfg.Seats = len(seats)
	cfg.Seat = func(ctx context.Context, number int) (*arbiter.Seat, error) { return arbiter.Take(ctx, seats[number]) }
	return cfg, nil
}

// told is why a backend did not start: the command line, if that is what it found wrong.
func told(err error) error {
	var failed *supervisor.FailedError
	if errors.As(err, &failed) && failed.Code == exitUsage {
		return usageError{err}
	}
	return err
}

// listen makes a socket, or takes over that of systemd, which stays.
func (b *backendProcess) listen(network, path string) (*net.UnixListener, error) {
	l, err := activated(network, path)
	if l != nil || err != nil {
		return l, err
	}
	if l, err = local.ListenUnix(network, path); err == nil {
		l.SetUnlinkOnClose(false) // stop removes it
		b.sockets = append(b.sockets, path)
	}
	return l, err
}

// explain returns what is behind an error of the machine: the end of one of its
// backends, if that failed.
func explain(ctx context.Context, backends []*backendProcess, err error) error {
	if ctx.Err() != nil {
		return err
	}
	late := time.After(time.Second) // both ends come at about the same time
	for _, b := range backends {
		select {
		case <-b.Done():
			if b.Err() != nil {
				return fmt.Errorf("the backend ended (%w), so the machine was stopped: %w", b.Err(), err)
			}
		case <-late:
			late = time.After(0)
		}
	}
	return err
}

// stop ends the backend, waits for its end and removes its sockets.
func (b *backendProcess) stop() {
	b.cancel()
	if b.Backend != nil {
		b.Stop()
	}
	for _, path := range b.sockets {
		_ = os.Remove(path) // somebody may have removed it with its directory
	}
}
