// Package guest reaches a card of GPUvm from another process or a virtual machine, through a carrier:
// it is the Bus, and the Calls, of a lowlevel.Driver there. Accesses that trap go through a mailbox
// (package hypercall/trap), each of them and its answer before the next. Others are accesses of memory
// that the guest has granted, where the Aggregator's view of the apertures allows it.
//
// A Guest is used by one goroutine at a time.
package guest

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/carrier"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall"
	"pvdrm/hypercall/trap"
)

// Config says what a guest grants.
type Config struct {
	RAM  uint64 // bytes of system memory
	VRAM uint64 // most that it grants in place of VRAM, where accesses need not trap
}

// Guest is a VM's way to its card.
type Guest struct {
	carrier carrier.Carrier
	terms   trap.Terms
	box     *trap.Mailbox
	ram     *carrier.Pages
	vram    *carrier.Pages // nil where all accesses trap
	view    trap.View
	pages   []*carrier.Pages
	lost    error // why the card is gone
}

// Open opens a VM behind a carrier, which is the Guest's then, also when it fails.
func Open(c carrier.Carrier, config Config) (*Guest, error) {
	g := &Guest{carrier: c}
	if err := g.open(config); err != nil {
		return nil, errors.Join(fmt.Errorf("a VM of GPUvm: %w", err), g.Close())
	}
	return g, nil
}

// alloc makes granted memory.
func (g *Guest) alloc(size uint64) (*carrier.Pages, error) {
	p, err := g.carrier.Alloc((size + hw.SmallPage - 1) &^ (hw.SmallPage - 1))
	if err == nil {
		g.pages = append(g.pages, p)
	}
	return p, err
}

func (g *Guest) open(config Config) error {
	box, err := g.alloc(trap.MailboxBytes)
	if err != nil {
		return err
	}
	if g.box, err = trap.NewMailbox(box.Mem); err != nil {
		return err
	}
	attach := hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: box.ID, Layout: hypercall.DefaultLayout, Device: g.carrier.Capset().Device}
	if err := g.carrier.Attach(box, attach); err != nil {
		return err
	}
	if err := g.ask(trap.Request{Kind: trap.Ask}); err != nil {
		return err
	}
	if g.ram, err = g.alloc(config.RAM); err != nil {
		return err
	}
	grants := trap.Grants{RAM: g.ram.ID}
	if g.terms.Direct && config.VRAM > 0 {
		if g.vram, err = g.alloc(min(config.VRAM, g.terms.VRAM)); err != nil {
			return err
		}
		view, err := g.alloc(trap.ViewBytes(g.terms))
		if err != nil {
			return err
		}
		g.view = trap.NewView(view.Mem)
		grants.VRAM, grants.View = g.vram.ID, view.ID
	}
	if err := g.carrier.Settle(); err != nil {
		return err
	}
	return g.ask(trap.Request{Kind: trap.Open, Payload: grants.Encode()})
}

// ask makes a request that is answered with terms.
func (g *Guest) ask(r trap.Request) error {
	a, err := g.request(r)
	if err != nil {
		return err
	}
	g.terms, err = trap.DecodeTerms(a.Payload)
	return err
}

// request makes a request and waits for the answer.
func (g *Guest) request(r trap.Request) (trap.Answer, error) {
	if g.lost != nil {
		return trap.Answer{}, g.lost
	}
	g.box.Post(r)
	if !g.terms.Polled && !g.carrier.SleepExits() { // else to sleep is to ring
		g.lost = g.carrier.Kick()
	}
	for looks := 0; !g.box.Done() && g.lost == nil; looks++ {
		if g.terms.Polled && looks%lostLooks != lostLooks-1 {
			runtime.Gosched()
			continue
		}
		timeout := time.Duration(forever)
		if g.terms.Polled {
			timeout = 0 // only to learn that the Aggregator is gone
		}
		g.lost = g.carrier.Sleep(timeout)
	}
	if g.lost != nil {
		return trap.Answer{}, g.lost
	}
	a := g.box.Answer()
	if a.Failed {
		return a, errors.New(string(a.Payload))
	}
	return a, nil
}

const (
	forever   = -1
	lostLooks = 1 << 16 // looks of a poll, after which it asks the carrier
)

// Terms returns what the VM has.
func (g *Guest) Terms() trap.Terms { return g.terms }

// RAM is the VM's system memory.
func (g *Guest) RAM() []byte { return g.ram.Mem }

// VRAM is the granted memory that the first of the VM's VRAM is made of; nil where there is none.
func (g *Guest) VRAM() []byte {
	if g.vram == nil {
		return nil
	}
	return g.vram.Mem
}

// Size implements lowlevel.Bus.
func (g *Guest) Size(bar int) uint64 {
	switch bar {
	case hw.BAR0:
		return hw.BAR0Bytes
	case hw.BAR1:
		return g.terms.BAR1
	case hw.BAR3:
		return g.terms.BAR3
	}
	return 0
}

// shown returns the memory that an access of an aperture is one of: the word, or nil where it reads
// as ones; trap is set where it traps.
func (g *Guest) shown(bar int, off uint64) (word []byte, readOnly, traps bool) {
	entry := off / hw.SmallPage
	switch {
	case g.vram == nil || off%4 != 0 || off >= g.Size(bar) || bar == hw.BAR0:
		return nil, false, true
	case bar == hw.BAR3:
		entry += g.terms.BAR1 / hw.SmallPage
	}
	what, page := g.view.Get(int(entry))
	at := page*hw.SmallPage + off%hw.SmallPage
	switch {
	case what == trap.Traps:
		return nil, false, true
	case what == trap.Nothing || at >= uint64(len(g.vram.Mem)):
		return nil, false, false
	}
	return g.vram.Mem[at : at+4], what == trap.ShownReadOnly, false
}

// Read implements lowlevel.Bus. Where the card is gone it reads as ones, as PCI does.
func (g *Guest) Read(bar int, off uint64) uint32 {
	word, _, traps := g.shown(bar, off)
	if !traps {
		if word == nil {
			return ^uint32(0)
		}
		return hw.LoadHalf(word)
	}
	a, err := g.request(trap.Request{Kind: trap.Read, BAR: uint32(bar), Off: off})
	if err != nil {
		return ^uint32(0)
	}
	return a.Value
}

// Write implements lowlevel.Bus.
func (g *Guest) Write(bar int, off uint64, v uint32) {
	word, readOnly, traps := g.shown(bar, off)
	if traps {
		_, _ = g.request(trap.Request{Kind: trap.Write, BAR: uint32(bar), Off: off, Value: v}) // the bus reports no errors
		return
	}
	if word != nil && !readOnly {
		hw.StoreHalf(word, v)
	}
}

// Hypercall implements lowlevel.Calls.
func (g *Guest) Hypercall(ops []byte) error {
	_, err := g.request(trap.Request{Kind: trap.Call, Payload: ops})
	return err
}

// Counters returns what the Aggregator has counted of the VM.
func (g *Guest) Counters() (trap.Counters, error) {
	a, err := g.request(trap.Request{Kind: trap.Count})
	if err != nil {
		return trap.Counters{}, err
	}
	return trap.DecodeCounters(a.Payload)
}

// Lost returns why the card is gone; nil while it is there.
func (g *Guest) Lost() error { return g.lost }

// Close gives the VM back. What it was granted goes with the connection: to free one piece is to end
// the VM.
func (g *Guest) Close() error {
	var errs []error
	for _, p := range g.pages {
		errs = append(errs, unix.Munmap(p.Mem))
	}
	g.pages = nil
	return errors.Join(append(errs, g.carrier.Close())...)
}
