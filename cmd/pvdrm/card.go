package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/local"
	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/gpuvm"
	"pvdrm/backend/gpuvm/serve"
	"pvdrm/backend/supervisor"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/hypercall"
)

// cardFlags say at which level a backend shares the GPU.
type cardFlags struct {
	mode  string // of gpuvm.Modes, interfaceDRM or interfaceSideCore
	traps string // trapsDoorbell or trapsPage
	vms   int
}

// Values of --interface that are no mode of GPUvm's, and of --traps.
const (
	interfaceDRM      = "drm"
	interfaceSideCore = "side-core"
	trapsDoorbell     = "doorbell"
	trapsPage         = "page"
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
	c.Flags().StringVar(&f.traps, "traps", trapsDoorbell, "with --interface: how an access that traps reaches the backend: "+trapsDoorbell+", or "+trapsPage+", which both poll")
	c.Flags().IntVar(&f.vms, "parts", 1, fmt.Sprintf("with --interface: parts that the card is divided into, one for each guest that it serves at a time; at most %d", gpuvm.MaxVMs))
}

// on reports whether guests are shown a card.
func (f *cardFlags) on() bool { return f.mode != "" && f.mode != interfaceDRM }

// args are the flags as another pvdrm takes them.
func (f *cardFlags) args() []string {
	if !f.on() {
		return nil
	}
	return []string{"--interface", f.mode, "--traps", f.traps, "--parts", fmt.Sprint(f.vms)}
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
	case f.traps != trapsDoorbell && f.traps != trapsPage:
		err = fmt.Errorf("--traps %s: choose %s or %s", f.traps, trapsDoorbell, trapsPage)
	case f.vms < 1 || f.vms > gpuvm.MaxVMs:
		err = fmt.Errorf("--parts: choose 1 to %d", gpuvm.MaxVMs)
	case len(dev.more) > 0:
		err = fmt.Errorf("--interface %s: a guest has one card; name one --device", f.mode)
	case dev.device.kind() != deviceKinds[0]:
		err = fmt.Errorf("--interface %s: only the software GPU is a card whose registers can be shared; leave --device out", f.mode)
	case dev.gl.mode == glOn:
		err = fmt.Errorf("--interface %s: a card has no OpenGL; leave --gl out", f.mode)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// cardVRAM is the memory of a card where --vram is not set.
const cardVRAM = 1 << 30

// serveCard serves GPUvm's guests until ctx ends.
func (f *backendFlags) serveCard(ctx context.Context, log *zap.Logger, dev *deviceFlags, child *supervisor.Child) (err error) {
	if err := errors.Join(dev.check(), f.card.check(dev)); err != nil {
		return err
	}
	mode, polled, _ := f.card.of() // check has found no error
	limits, _ := dev.limits()      // likewise
	vram := uint64(cardVRAM)
	if dev.vram != "" {
		vram, _ = parseBytes(dev.vram) // likewise
	}
	gate, err := dev.join(log, child.Seat)
	if err != nil {
		return err
	}
	var engines gpu.Gate // not a nil *arbiter.Gate in an interface
	if gate != nil {
		engines = gate
		defer gate.Close()
	}
	config := softGPUConfig(dev, vram, engines)
	c, err := card.New(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	a, err := gpuvm.New(c, f.card.vms)
	if err != nil {
		return err
	}
	server := &serve.Server{Aggregator: a, Mode: mode, Polled: polled, Log: log}
	stats := func() backendStats {
		st := backendStats{Device: c.Stats()}
		if gate != nil {
			g := gate.Stats()
			st.Gate = &g
		}
		return st
	}
	if f.vhostUser != "" {
		err = f.serveCardVM(ctx, log, dev, child, server, stats)
	} else if err = f.begin(log, dev, child, stats); err == nil {
		log.Info("waiting for programs", zap.String("socket", f.local), zap.String("interface", f.card.mode))
		l := local.NewServer(local.Config{Attach: server.Attach, Features: hypercall.FeatureCard, Limits: limits, Log: log})
		err = l.Serve(ctx, child.Guest())
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serveCardVM serves a virtual machine, whose drivers of the card open the render node.
func (f *backendFlags) serveCardVM(ctx context.Context, log *zap.Logger, dev *deviceFlags, child *supervisor.Child, server *serve.Server, stats func() backendStats) error {
	guest := &virtio.Guest{Attach: server.Attach, Features: hypercall.FeatureCard, Log: log}
	g, err := virtgpu.New(virtgpu.Config{Components: []virtgpu.Component{pvdrm.Component{Guest: guest}}, DrawPointer: f.drawPointer, Log: log})
	if err != nil {
		return err
	}
	if err := f.begin(log, dev, child, stats); err != nil {
		return err
	}
	log.Info("waiting for a virtual machine", zap.String("socket", f.vhostUser), zap.String("interface", f.card.mode))
	if f.once {
		return serveOnce(ctx, child.Guest(), g)
	}
	return g.Serve(ctx, child.Guest())
}
