package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/carrier/local"
	"pvdrm/backend/carrier/vfiouser"
	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/gpuvm"
	"pvdrm/backend/gpuvm/pci"
	"pvdrm/backend/gpuvm/serve"
	"pvdrm/backend/supervisor"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/hypercall"
)

// cardFlags say at which level a backend shares the GPU.
type cardFlags struct {
	mode  string // of gpuvm.Modes, interfaceDRM or interfaceSideCore
	traps string // trapsDoorbell or trapsPage
	vms   int

	weights []string // of the parts, or none

	partition string // partitionStatic or partitionDynamic
	quota     string // of VRAM, with partitionDynamic; "" for all of it
}

// cardParts are what the process that owns a card needs for the guests that share it.
type cardParts struct {
	seats   []entitled // who they are at the arbiter; empty: the guest of the other flags, alone
	sockets []string   // of all machines but the first
}

// Values of --interface that are no mode of GPUvm's, and of --traps.
const (
	interfaceDRM      = "drm"
	interfaceSideCore = "side-core"
	trapsDoorbell     = "doorbell"
	trapsPage         = "page"
	trapsPCI          = "pci"
	partitionStatic   = "static"
	partitionDynamic  = "dynamic"
)

// interfaces are the values of --interface.
func interfaces() (names []string) {
	names = append(names, interfaceDRM)
	for _, m := range gpuvm.Modes {
		names = append(names, m.Name)
	}
	return append(names, interfaceSideCore)
}

func (f *cardFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.mode, "interface", interfaceDRM, fmt.Sprintf("level at which the software GPU is shared: drm, which is PVDRM, or a mode of GPUvm, in which guests drive a card by its registers (docs/gpuvm.md): one of %s", strings.Join(interfaces()[1:], ", ")))
	c.Flags().StringVar(&f.traps, "traps", trapsDoorbell, "with --interface: how an access that traps reaches the backend: "+trapsDoorbell+", or "+trapsPage+", which both poll; of machines also "+trapsPCI+": a PCI device with real BARs, which takes QEMU 11.1")
	c.Flags().IntVar(&f.vms, "parts", 1, fmt.Sprintf("with --interface: parts that the card is divided into, one for each guest that it serves at a time; at most %d. A backend of machines has a socket for each: --vhost-user names the first, and the others have -2, -3 … after its name", gpuvm.MaxVMs))
	c.Flags().StringVar(&f.partition, "partition", partitionStatic, "with --interface: how guests share VRAM and channels: "+partitionStatic+", equal parts, or "+partitionDynamic+", what each uses as long as there is some")
	c.Flags().StringVar(&f.quota, "part-vram", "", "with --partition dynamic: most VRAM that a guest may have, bytes with a suffix K, M or G (default: all that the card has)")
	c.Flags().StringSliceVar(&f.weights, "part-weights", nil, "with --interface and --arbiter: weights of the parts, such as 3,1, each of which is a guest of its own there (default: --weight for each)")
}

// on reports whether guests are shown a card.
func (f *cardFlags) on() bool { return f.mode != "" && f.mode != interfaceDRM }

// args are the flags as another pvdrm takes them.
func (f *cardFlags) args() []string {
	if !f.on() {
		return nil
	}
	return []string{"--interface", f.mode, "--traps", f.traps, "--parts", fmt.Sprint(f.vms), "--partition", f.partition, "--part-vram", f.quota}
}

// of returns the mode of GPUvm, and whether traps are polled for.
func (f *cardFlags) of() (m gpuvm.Mode, polled bool, err error) {
	if f.mode == interfaceSideCore {
		m, err = gpuvm.ModeOf("fv")
		return m, true, err
	}
	m, err = gpuvm.ModeOf(f.mode)
	return m, f.traps == trapsPage, err
}

// check finds what is wrong with the flags.
func (f *cardFlags) check(dev *deviceFlags) error {
	if !f.on() {
		return nil
	}
	_, _, err := f.of()
	switch {
	case err != nil:
		err = fmt.Errorf("--interface %s: choose one of %s", f.mode, strings.Join(interfaces(), ", "))
	case f.traps != trapsDoorbell && f.traps != trapsPage && f.traps != trapsPCI:
		err = fmt.Errorf("--traps %s: choose %s, %s or %s", f.traps, trapsDoorbell, trapsPage, trapsPCI)
	case f.traps == trapsPCI && f.mode == interfaceSideCore:
		err = fmt.Errorf("--traps %s: the interface %s polls a page; leave --traps out", f.traps, f.mode)
	case f.partition != partitionStatic && f.partition != partitionDynamic:
		err = fmt.Errorf("--partition %s: choose %s or %s", f.partition, partitionStatic, partitionDynamic)
	case f.quota != "" && f.partition != partitionDynamic:
		err = errors.New("--part-vram: it is for --partition dynamic; static parts are equal")
	case f.vms < 1 || f.vms > gpuvm.MaxVMs:
		err = fmt.Errorf("--parts: choose 1 to %d", gpuvm.MaxVMs)
	case len(dev.more) > 0:
		err = fmt.Errorf("--interface %s: a guest has one card; name one --device", f.mode)
	case dev.device.kind() != deviceKinds[0]:
		err = fmt.Errorf("--interface %s: only the software GPU is a card whose registers can be shared; leave --device out", f.mode)
	case dev.gl.mode == glOn:
		err = fmt.Errorf("--interface %s: a card has no OpenGL; leave --gl out", f.mode)
	case dev.counts:
		err = fmt.Errorf("--interface %s: a card does not count what its kernels do; leave --kernel-counts out", f.mode)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// share says who the guests of the parts are at the arbiter, and where machines connect; socket is that
// of the first.
func (f *cardFlags) share(dev *deviceFlags, kind carrierKind, socket string) error {
	if !f.on() || f.vms == 1 {
		if len(f.weights) > 0 {
			return usageError{errors.New("--part-weights: it is for --interface with several --parts; for one there is --weight")}
		}
		return nil
	}
	one := guestsFlags{count: f.vms, weights: f.weights}
	plan, err := one.plan()
	if err != nil {
		return usageError{fmt.Errorf("--part-weights: %w", err)}
	}
	for i, e := range plan {
		seat := dev.entitled()
		seat.name = fmt.Sprintf("%s-%d", dev.guest, i+1)
		if len(f.weights) > 0 {
			seat.weight = e.weight
		}
		dev.parts.seats = append(dev.parts.seats, seat)
		if i > 0 && kind != localGuest {
			dev.parts.sockets = append(dev.parts.sockets, partSocket(socket, i))
		}
	}
	return nil
}

// carrier is how machines reach the card.
func (f *cardFlags) carrier() carrierKind {
	if f.on() && f.traps == trapsPCI {
		return vfioUser
	}
	return vhostUser
}

// partSocket is where the machine of a part connects, from 0 on.
func partSocket(socket string, part int) string { return fmt.Sprintf("%s-%d", socket, part+1) }

// aggregator shares a card as the flags say.
func (f *cardFlags) aggregator(c *card.Card) (*gpuvm.Aggregator, error) {
	if f.partition != partitionDynamic {
		return gpuvm.New(c, f.vms)
	}
	quota := uint64(0)
	if f.quota != "" {
		var err error
		if quota, err = parseBytes(f.quota); err != nil {
			return nil, usageError{fmt.Errorf("--part-vram: %w", err)}
		}
	}
	return gpuvm.NewDynamic(c, f.vms, quota)
}

// cardVRAM is the memory of a card where --vram is not set.
const cardVRAM = 1 << 30

// serveCard serves GPUvm's guests until ctx ends.
func (f *backendFlags) serveCard(ctx context.Context, log *zap.Logger, dev *deviceFlags, child *supervisor.Child) (err error) {
	if err := errors.Join(dev.check(), f.card.check(dev)); err != nil {
		return err
	}
	mode, polled, _ := f.card.of() // check has found no error
	vram := uint64(cardVRAM)
	if dev.vram != "" {
		vram, _ = parseBytes(dev.vram) // likewise
	}
	config := softGPUConfig(dev, vram, nil) // each VM has a gate
	c, err := card.New(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	a, err := f.card.aggregator(c)
	if err != nil {
		return err
	}
	server := serve.Server{Aggregator: a, Mode: mode, Polled: polled, Log: log}
	gates := &cardGates{dev: dev, child: child, log: log}
	if dev.arbiter != "" {
		server.Join = gates.join
	}
	stats := func() backendStats { return backendStats{Device: c.Stats(), Gate: gates.stats()} }
	switch {
	case f.vhostUser != "":
		err = f.serveCardVMs(ctx, log, dev, child, server, stats)
	case f.vfioUser != "":
		err = f.serveCardPCI(ctx, log, dev, child, server, stats)
	default:
		err = f.serveCardLocal(ctx, log, dev, child, server, stats)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serveCardLocal serves programs of this host.
func (f *backendFlags) serveCardLocal(ctx context.Context, log *zap.Logger, dev *deviceFlags, child *supervisor.Child, server serve.Server, stats func() backendStats) error {
	limits, _ := dev.limits() // check has found no error
	if err := f.begin(log, dev, child, stats); err != nil {
		return err
	}
	log.Info("waiting for programs", zap.String("socket", f.local), zap.String("interface", f.card.mode))
	l := local.NewServer(local.Config{Attach: server.Attach, Features: hypercall.FeatureCard, Limits: limits, Log: log})
	return l.Serve(ctx, child.Guest())
}

// serveCardVMs serves virtual machines, whose drivers of the card open the render node. Where there are
// several, each has a part of its own.
func (f *backendFlags) serveCardVMs(ctx context.Context, log *zap.Logger, dev *deviceFlags, child *supervisor.Child, server serve.Server, stats func() backendStats) error {
	var machines []*virtgpu.Device
	for i := range child.Guests() {
		own := server
		if len(child.Guests()) > 1 {
			own.Part = i + 1
		}
		guest := &virtio.Guest{Attach: own.Attach, Features: hypercall.FeatureCard, Log: log}
		g, err := virtgpu.New(virtgpu.Config{Components: []virtgpu.Component{pvdrm.Component{Guest: guest}}, DrawPointer: f.drawPointer, Log: log})
		if err != nil {
			return err
		}
		machines = append(machines, g)
	}
	if err := f.begin(log, dev, child, stats); err != nil {
		return err
	}
	log.Info("waiting for virtual machines", zap.String("socket", f.vhostUser), zap.Int("machines", len(machines)), zap.String("interface", f.card.mode))
	return serveAll(ctx, child.Guests(), func(ctx context.Context, i int, l *net.UnixListener) error {
		if f.once {
			return serveOnce(ctx, l, machines[i])
		}
		return machines[i].Serve(ctx, l)
	})
}

// serveAll serves at several sockets, until the first that fails ends all.
func serveAll(ctx context.Context, sockets []*net.UnixListener, serve func(ctx context.Context, i int, l *net.UnixListener) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for i, l := range sockets {
		all.Go(func() {
			if err := serve(ctx, i, l); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// serveCardPCI shows each machine a PCI device.
func (f *backendFlags) serveCardPCI(ctx context.Context, log *zap.Logger, dev *deviceFlags, child *supervisor.Child, server serve.Server, stats func() backendStats) error {
	var devices []*pci.Device // a confined process makes no files
	for i := range child.Guests() {
		own := server
		if len(child.Guests()) > 1 {
			own.Part = i + 1
		}
		d, err := pci.New(&own)
		if err != nil {
			return err
		}
		defer d.Close()
		devices = append(devices, d)
	}
	if err := f.begin(log, dev, child, stats); err != nil {
		return err
	}
	log.Info("waiting for virtual machines", zap.String("socket", f.vfioUser), zap.Int("machines", len(child.Guests())), zap.String("interface", f.card.mode))
	return serveAll(ctx, child.Guests(), func(ctx context.Context, i int, l *net.UnixListener) error {
		return vfiouser.ServeEach(ctx, l, f.once, log, devices[i])
	})
}

// cardGates are the gates of the guests that share a card.
type cardGates struct {
	dev   *deviceFlags
	child *supervisor.Child
	log   *zap.Logger

	mu   sync.Mutex
	open []*arbiter.Gate
}

// cardGate is the gate of one of them.
type cardGate struct {
	*arbiter.Gate
	all *cardGates
}

// join takes the seat of a part.
func (g *cardGates) join(part int) (serve.Gate, error) {
	gate, err := g.dev.gate(g.log, func() (*arbiter.Seat, error) { return g.child.SeatOf(part - 1) }, false)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = append(g.open, gate)
	return cardGate{gate, g}, nil
}

// Close leaves the arbiter.
func (c cardGate) Close() {
	c.all.mu.Lock()
	c.all.open = slices.DeleteFunc(c.all.open, func(o *arbiter.Gate) bool { return o == c.Gate })
	c.all.mu.Unlock()
	c.Gate.Close()
}

// stats adds up what the gates have counted; nil where there is none.
func (g *cardGates) stats() *arbiter.GateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.open) == 0 {
		return nil
	}
	sum := arbiter.GateStats{}
	for _, gate := range g.open {
		one := gate.Stats()
		sum.Joined = sum.Joined || one.Joined
		sum.Lost += one.Lost
		for e := range one.Waits {
			for i, n := range one.Waits[e] {
				sum.Waits[e][i] += n
			}
			sum.Waited[e] += one.Waited[e]
		}
	}
	return &sum
}
