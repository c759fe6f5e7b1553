// Package serve serves guests of other processes and virtual machines with the Aggregator: it is what
// the carriers attach a guest's file to in place of a session. A guest hands over accesses that trap
// through a mailbox (package hypercall/trap) in memory that it has granted.
//
// Each guest has a goroutine, which serves its mailbox: when the carrier says that the guest has rung,
// or all the time where traps are polled. The goroutine owns the mailbox and the VM's end. What a guest
// grants for its VM stays in use until the VM has ended: where the guest takes some of it back, the VM
// ends. Guest.mu guards what other goroutines look at; no lock of another package is taken while it is
// held.
package serve

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/gpuvm"
	"pvdrm/backend/session"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/hypercall/trap"
)

// Server serves guests with VMs of one Aggregator.
type Server struct {
	Aggregator *gpuvm.Aggregator
	Mode       gpuvm.Mode
	Polled     bool // mailboxes are polled
	Log        *zap.Logger

	// Part is the part of the card that guests have, one at a time; gpuvm.AnyPart: each has one that is free.
	Part int
	// Join returns the gate at which what a VM in a part submits waits; nil where nothing waits.
	Join func(part int) (Gate, error)
}

// Gate is a gate that is left when it is not needed any more.
type Gate interface {
	gpu.Gate
	Close()
}

// How an idle goroutine polls: at once, and after so many looks with pauses.
const (
	busyLooks = 20_000
	idlePause = 50 * time.Microsecond
)

// Attach begins to serve a guest whose mailbox lies in the memory that the doorbell names. It is a
// session.Attacher.
func (s *Server) Attach(c session.Carrier, d hypercall.Doorbell, label string) (session.Attached, error) {
	grant, err := c.Grant(d.Resource)
	if err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	mem, release, err := grant.MapContiguous()
	if err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	box, err := trap.NewMailbox(mem)
	if err != nil {
		release()
		return nil, err
	}
	g := &Guest{server: s, carrier: c, log: s.Log.With(zap.String("client", label)), box: box, releases: []func(){release},
		grants: []uint32{d.Resource}, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	g.watched, _ = trap.NewMailbox(mem) // it was right just now
	g.end = sync.OnceFunc(func() { close(g.stop) })
	go g.serve()
	return g, nil
}

// Guest is a guest that is served.
type Guest struct {
	server   *Server
	carrier  session.Carrier
	log      *zap.Logger
	box      *trap.Mailbox
	opened   bool
	vm       *gpuvm.VM // nil until it is opened
	gate     Gate      // nil without
	releases []func()

	wake  chan struct{}
	stop  chan struct{}
	end   func() // closes it
	ended chan struct{}

	mu      sync.Mutex
	grants  []uint32 // that are in use
	watched *trap.Mailbox
	over    bool // the mailbox is no longer mapped
}

var _ session.Attached = (*Guest)(nil)

// Kick is part of session.Attached: the guest has rung.
func (g *Guest) Kick() {
	select {
	case g.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// FrontendAsleep is part of session.Attached. That a guest arms is its doorbell, too: so a trap takes
// one exit.
func (g *Guest) FrontendAsleep() bool {
	g.Kick()
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.over && g.watched.Unanswered()
}

// Revoke is part of session.Attached. A VM cannot do without what it was given.
func (g *Guest) Revoke(id uint32, done func()) {
	g.mu.Lock()
	used := slices.Contains(g.grants, id)
	g.mu.Unlock()
	if !used {
		done()
		return
	}
	g.End()
	go func() {
		<-g.ended
		done()
	}()
}

// End is part of session.Attached.
func (g *Guest) End() { g.end() }

// Ended is part of session.Attached.
func (g *Guest) Ended() <-chan struct{} { return g.ended }

// Close is part of session.Attached.
func (g *Guest) Close() {
	g.End()
	<-g.ended
}

// serve is the goroutine of the guest.
func (g *Guest) serve() {
	defer close(g.ended)
	for g.await() {
		r, ok, err := g.box.Take()
		if !ok {
			continue
		}
		a := trap.Answer{}
		if err == nil {
			a, err = g.do(r)
		}
		if err != nil {
			g.log.Debug("a guest's request failed", zap.Error(err))
			a = trap.Answer{Failed: true, Value: ^uint32(0), Payload: []byte(err.Error())}
		}
		g.box.Reply(a)
		if !g.server.Polled || r.Kind == trap.Ask { // then the guest knows that it is to poll
			g.carrier.Notify()
		}
	}
	if g.vm != nil {
		g.vm.Close()
	}
	if g.gate != nil {
		g.gate.Close()
	}
	g.mu.Lock()
	g.over, g.grants = true, nil
	g.mu.Unlock()
	for _, release := range g.releases {
		release()
	}
	g.carrier.Notify()
}

// await returns when there may be a request, or false when the guest is to be served no more.
func (g *Guest) await() bool {
	for looks := 0; g.server.Polled && !g.box.Pending(); looks++ {
		select {
		case <-g.stop:
			return false
		default:
		}
		if looks < busyLooks {
			runtime.Gosched()
			continue
		}
		time.Sleep(idlePause)
	}
	select {
	case <-g.stop:
		return false
	default:
	}
	if g.server.Polled || g.box.Pending() {
		return true
	}
	select {
	case <-g.wake:
		return true
	case <-g.stop:
		return false
	}
}

// do does what a request asks for.
func (g *Guest) do(r trap.Request) (a trap.Answer, err error) {
	if r.Kind == trap.Ask {
		a.Payload = g.terms().Encode()
		return a, nil
	}
	if r.Kind == trap.Open {
		return g.open(r.Payload)
	}
	if g.vm == nil {
		return a, errors.New("gpuvm: the guest has not opened its VM")
	}
	switch r.Kind {
	case trap.Read:
		a.Value = g.vm.Read(int(r.BAR), r.Off)
	case trap.Write:
		g.vm.Write(int(r.BAR), r.Off, r.Value)
	case trap.Call:
		err = g.vm.Hypercall(r.Payload)
	case trap.Count:
		a.Payload = g.vm.Counters().Encode()
	}
	return a, err
}

func (g *Guest) terms() trap.Terms {
	t := g.server.Aggregator.Terms(g.server.Mode)
	t.Polled = g.server.Polled
	return t
}

// open makes the VM.
func (g *Guest) open(payload []byte) (a trap.Answer, err error) {
	if g.opened { // or failed to: what was granted stays in use until the end
		return a, errors.New("gpuvm: a guest opens its VM once")
	}
	g.opened = true
	grants, err := trap.DecodeGrants(payload)
	if err != nil {
		return a, err
	}
	memory := gpuvm.Memory{}
	if memory.RAM, err = g.runs(grants.RAM); err == nil && grants.VRAM != 0 {
		if memory.VRAM, err = g.runs(grants.VRAM); err == nil {
			memory.View, err = g.whole(grants.View)
		}
	}
	if err != nil {
		return a, fmt.Errorf("gpuvm: granted memory: %w", err)
	}
	if g.vm, g.gate, err = g.server.Begin(memory); err != nil {
		return a, err
	}
	t := g.terms()
	t.Base = g.vm.Base()
	a.Payload = t.Encode()
	return a, nil
}

// Begin makes a VM and has it join its gate, which is nil where there is none. Both are the caller's to
// close, the VM first.
func (s *Server) Begin(memory gpuvm.Memory) (vm *gpuvm.VM, gate Gate, err error) {
	if vm, err = s.Aggregator.NewGuestIn(s.Part, s.Mode, memory); err != nil {
		return nil, nil, err
	}
	if s.Join == nil {
		return vm, nil, nil
	}
	if gate, err = s.Join(vm.Part()); err != nil {
		vm.Close()
		return nil, nil, err
	}
	vm.Schedule(gate)
	return vm, gate, nil
}

// use finds granted memory, of which it is noted that it is in use.
func (g *Guest) use(id uint32) (session.Grant, error) {
	g.mu.Lock()
	g.grants = append(g.grants, id) // first: to take it back ends the VM
	g.mu.Unlock()
	return g.carrier.Grant(id)
}

// runs are the pages of granted memory.
func (g *Guest) runs(id uint32) ([][]byte, error) {
	grant, err := g.use(id)
	if err != nil {
		return nil, err
	}
	runs, release, err := grant.Acquire()
	if err == nil {
		g.releases = append(g.releases, release)
	}
	return runs, err
}

// whole is granted memory in one piece.
func (g *Guest) whole(id uint32) ([]byte, error) {
	grant, err := g.use(id)
	if err != nil {
		return nil, err
	}
	mem, release, err := grant.MapContiguous()
	if err == nil {
		g.releases = append(g.releases, release)
	}
	return mem, err
}
