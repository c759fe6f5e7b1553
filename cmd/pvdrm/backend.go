package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/local"
	"pvdrm/backend/metrics"
	"pvdrm/backend/sandbox"
	"pvdrm/backend/virtgpu"
	"pvdrm/backend/vm"
)

func newBackend(g *global) *cobra.Command {
	var dev deviceFlags
	var s serving
	c := &cobra.Command{
		Use:   "backend (--vhost-user SOCKET | --local SOCKET)",
		Short: "Serve one guest",
		Long: `Serve one guest on a GPU until interrupted. With --vhost-user the guest is a
virtual machine: give QEMU (10 or later) the options

  -object memory-backend-memfd,id=mem,size=1G,share=on
  -machine q35,memory-backend=mem
  -chardev socket,id=gpu,path=SOCKET
  -device vhost-user-gpu-pci,chardev=gpu

With --local the guest is a program of this host, which finds the socket in the
environment variable PVDRM_SOCKET.

The backend gives up all capabilities before it begins. Once it serves, it can
neither open nor remove files, nor start programs (see --sandbox). So its sockets
stay when it ends; the next backend at the same path replaces them. pvdrm up and
pvdrm run start theirs with namespaces and a root directory of their own, where the
host allows that, and remove the sockets.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if (s.vhostUser == "") == (s.local == "") {
				return usageError{errors.New("give one of --vhost-user and --local")}
			}
			log, err := g.logger()
			if err != nil {
				return err
			}
			log = log.With(zap.String("guest", dev.guest)) // several write to one stream
			if err := s.shed(log, &dev); err != nil {
				return err
			}
			if s.vhostUser != "" {
				return s.serveVM(c.Context(), log, &dev)
			}
			return s.serveLocal(c.Context(), log, &dev)
		},
	}
	dev.add(c)
	c.Flags().StringVar(&s.vhostUser, "vhost-user", "", "path of the vhost-user-gpu socket to make, for QEMU")
	c.Flags().StringVar(&s.local, "local", "", "path of the socket to make, for programs of this host")
	c.Flags().BoolVar(&s.once, "once", false, "with --vhost-user: end when the virtual machine has disconnected")
	c.Flags().BoolVar(&s.drawPointer, "draw-pointer", false, "with --vhost-user: draw the pointer into the pictures of the screen, for pvdrm view and screenshots; a window of QEMU's would show a second one")
	c.Flags().StringVar(&s.stats, "stats", "", "path of a socket to make, on which pvdrm stats asks for the counters")
	c.Flags().StringVar(&s.metrics, "metrics", "", "serve metrics for Prometheus at HOST:PORT, :PORT (loopback only) or unix:PATH")
	c.Flags().IntVar(&s.listenFD, "listen-fd", -1, "the guest's socket is listened on already, by this descriptor")
	c.Flags().IntVar(&s.readyFD, "ready-fd", -1, "write a byte to this descriptor when the socket is served")
	c.Flags().BoolVar(&s.ownMounts, "own-mounts", false, "this process has mount and process id namespaces of its own")
	c.Flags().BoolVar(&s.hasShed, "shed", false, "this process has given up its privileges")
	for _, name := range []string{"listen-fd", "ready-fd", "own-mounts", "shed"} { // of startBackend
		if err := c.Flags().MarkHidden(name); err != nil {
			panic(err) // the flag is some lines above
		}
	}
	return c
}

// serving says whom a backend serves, and how.
type serving struct {
	vhostUser, local string // one of these sockets
	stats            string // socket for statistics; may be empty
	metrics          string // address for metrics; may be empty
	once             bool
	drawPointer      bool

	// What startBackend has prepared.
	listenFD  int // of the guest's socket, where somebody listens already; else -1
	readyFD   int // gets a byte when the guest is served; -1 for none
	ownMounts bool
	hasShed   bool
}

// shed gives up the privileges of this process before it opens anything, where it
// is to be confined: it begins anew without them.
func (s *serving) shed(log *zap.Logger, dev *deviceFlags) error {
	if s.hasShed || !dev.confined() {
		return nil
	}
	if s.ownMounts {
		if err := dev.root(filepath.Dir(s.stats)).Enter(); err != nil {
			log.Warn("the backend sees more of the host's files than it needs", zap.Error(err))
		}
	}
	return sandbox.Shed(append(slices.Clip(os.Args), "--shed"))
}

// ready tells whoever started this process that the guest is served.
func (s *serving) ready() error {
	if s.readyFD < 0 {
		return nil
	}
	f := os.NewFile(uintptr(s.readyFD), "ready")
	_, err := f.Write([]byte{1})
	return errors.Join(err, f.Close())
}

// serveVM serves a virtual machine until ctx ends.
func (s *serving) serveVM(ctx context.Context, log *zap.Logger, dev *deviceFlags) (err error) {
	limits, err := dev.limits()
	if err != nil {
		return err
	}
	device, err := dev.open(log)
	if err != nil {
		return err
	}
	renderer := &vm.Renderer{Device: device, Log: log}
	renderer.SetLimits(limits)
	gl, err := dev.openGL(log, limits, device, renderer)
	if err != nil {
		return errors.Join(err, device.Close())
	}
	defer func() { err = errors.Join(err, closeGL(gl)) }()
	cfg := virtgpu.Config{Renderer: renderer, DrawPointer: s.drawPointer, Log: log}
	if gl != nil {
		cfg.GL = gl
	}
	gpu, err := virtgpu.New(cfg)
	if err != nil {
		return errors.Join(err, device.Close())
	}
	renderer.Counts = func() (doorbells, interrupts uint64) {
		s := gpu.Stats()
		return s.Kicks, s.Interrupts
	}
	stats := ownStats("vm", dev, device, renderer.Sessions)
	if gl != nil {
		stats = withGL(stats, gl)
	}
	if err := s.observe(ctx, log, stats); err != nil {
		return errors.Join(err, device.Close())
	}
	l, err := listenOn(vhostUser.network, s.vhostUser, s.listenFD)
	if err != nil {
		return errors.Join(err, device.Close())
	}
	if err := dev.confine(log); err != nil {
		return errors.Join(err, l.Close(), device.Close())
	}
	defer func() { _ = os.Remove(s.vhostUser) }() // Close of the listener may have done it, and a confined backend may not
	log.Info("waiting for a virtual machine", zap.String("socket", s.vhostUser))
	if err := s.ready(); err != nil {
		return errors.Join(err, l.Close(), device.Close())
	}
	if s.once {
		err = serveOnce(ctx, l, gpu)
	} else {
		err = gpu.Serve(ctx, l)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, device.Close())
}

// observe makes the counters visible where that is wanted, until ctx ends.
func (s *serving) observe(ctx context.Context, log *zap.Logger, stats func() backendStats) error {
	if s.stats != "" {
		if err := serveStats(ctx, log, s.stats, stats); err != nil {
			return err
		}
	}
	return serveMetrics(ctx, s.metrics, func(p *metrics.Page) { addMetrics(p, stats()) })
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
func (s *serving) serveLocal(ctx context.Context, log *zap.Logger, dev *deviceFlags) error {
	limits, err := dev.limits()
	if err != nil {
		return err
	}
	device, err := dev.open(log)
	if err != nil {
		return err
	}
	server := local.NewServer(local.Config{Device: device, Log: log, Limits: limits})
	if err := s.observe(ctx, log, ownStats("local", dev, device, server.Sessions)); err != nil {
		return errors.Join(err, device.Close())
	}
	l, err := listenOn(localGuest.network, s.local, s.listenFD)
	if err != nil {
		return errors.Join(err, device.Close())
	}
	if err := dev.confine(log); err != nil {
		return errors.Join(err, l.Close(), device.Close())
	}
	log.Info("waiting for programs", zap.String("socket", s.local))
	if err := s.ready(); err != nil {
		return errors.Join(err, l.Close(), device.Close())
	}
	err = server.Serve(ctx, l)
	return errors.Join(err, device.Close())
}

// listenOn makes a socket at path, or takes the one that fd is.
func listenOn(network, path string, fd int) (*net.UnixListener, error) {
	if fd < 0 {
		return local.ListenUnix(network, path)
	}
	file := os.NewFile(uintptr(fd), path)
	l, err := net.FileListener(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--listen-fd: %w", err), file.Close())
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("--listen-fd: %s is not a Unix socket", l.Addr()), l.Close(), file.Close())
	}
	return u, file.Close()
}

// listenUnix makes a stream socket at path, replacing a stale one.
func listenUnix(path string) (*net.UnixListener, error) { return local.ListenUnix("unix", path) }
