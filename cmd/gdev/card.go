package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"pvdrm/frontend"
	"pvdrm/frontend/carrier"
	"pvdrm/frontend/lowlevel"
	"pvdrm/frontend/lowlevel/guest"
	"pvdrm/hypercall"
	"pvdrm/hypercall/trap"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/suite"
)

// cardGuest is a VM's way to its card.
type cardGuest interface {
	lowlevel.Bus
	lowlevel.Calls
	Terms() trap.Terms
	RAM() []byte
	Counters() (trap.Counters, error)
	Lost() error
	Close() error
}

// cardGPU is a card of GPUvm with its driver, in this process.
type cardGPU struct {
	guest  cardGuest
	driver *lowlevel.Driver
}

// What a local guest grants; the host gives it when it is touched.
const (
	localRAM  = 512 << 20
	localVRAM = 1 << 30
)

// grants are what this guest gives to its card: in a virtual machine shares of its memory, which
// all must be there.
func grants(c carrier.Carrier) (guest.Config, error) {
	if !c.SleepExits() {
		return guest.Config{RAM: localRAM, VRAM: localVRAM}, nil
	}
	n, err := available()
	part := n / 20 &^ (1<<20 - 1) // cpy has 128 MiB of its own, and pincpy pins as much
	return guest.Config{RAM: min(7*part, localRAM), VRAM: min(4*part, localVRAM)}, err
}

// available is how much memory is left in this machine.
func available() (uint64, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(info)) {
		words := strings.Fields(line)
		if len(words) >= 2 && words[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(words[1], 10, 40)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo does not say how much memory is available")
}

// openCard opens the card that this guest is shown; nil where it is shown PVDRM's device.
func openCard() (*cardGPU, error) {
	if dir := guest.FindPCI(guest.PCIDevices); dir != "" {
		return openPCI(dir)
	}
	c, err := frontend.DefaultCarrier()
	if err != nil {
		return nil, err
	}
	if c.Capset().Features&hypercall.FeatureCard == 0 {
		return nil, c.Close()
	}
	config, err := grants(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	opened, err := guest.Open(c, config)
	if err != nil {
		return nil, err
	}
	return driveCard(opened, nil)
}

// openPCI opens a card in a slot of this machine.
func openPCI(dir string) (*cardGPU, error) {
	ram, err := available()
	if err != nil {
		return nil, err
	}
	opened, err := guest.OpenPCI(dir, min(ram/2, localRAM)&^(2<<20-1))
	if err != nil {
		return nil, err
	}
	return driveCard(opened, opened.Frames())
}

// driveCard starts the driver of a card.
func driveCard(opened cardGuest, frames []uint64) (_ *cardGPU, err error) {
	g := &cardGPU{guest: opened}
	t := g.guest.Terms()
	lower := lowlevel.Config{Bus: g.guest, RAM: g.guest.RAM(), Base: t.Base, Frames: frames, Multi: t.Multi}
	if t.PV {
		lower.Calls = g.guest
	}
	if g.driver, err = lowlevel.Open(lower); err != nil {
		return nil, errors.Join(err, g.guest.Lost(), g.guest.Close())
	}
	return g, nil
}

// run is a runner.
func (g *cardGPU) run(name string, opts suite.Options) (suite.Result, error) {
	before := g.driver.Doorbells()
	opts.Exits = func() (doorbells, interrupts uint64) { return g.driver.Doorbells() - before, 0 }
	return suite.RunRaw(name, func() (suite.RawDevice, error) { return g.driver.NewContext() }, opts)
}

// counts are the counters of now. Where the card is gone they are zero: the program reports that.
func (g *cardGPU) counts() agent.PhaseCounts {
	c, err := g.guest.Counters()
	if err != nil {
		c = trap.Counters{}
	}
	return agent.PhaseCounts{Counters: c, Doorbells: g.driver.Doorbells()}
}

// serve is `gdev agent` on a card. Unlike PVDRM's, whose driver is a part of the program, the driver
// of a card outlives programs, so that they all run here.
func (g *cardGPU) serve(in io.Reader, out io.Writer) error {
	err := agent.Serve(in, out, func(req agent.Request) (a agent.Answer, err error) {
		switch {
		case req.Hello:
			h := agent.Here()
			a.Hello = &h
			return a, nil
		case req.Micro || req.Floor:
			return a, errors.New("a card has no such programs")
		case req.Contexts > 0:
			a.Results, err = agent.Together(req.Contexts, func() (suite.Result, error) {
				return suite.RunRaw(req.Bench, func() (suite.RawDevice, error) { return g.driver.NewShared() }, suite.Options{})
			})
			return a, err
		}
		a.Result = &suite.Result{}
		a.Phases, err = agent.ByPhase(g.counts, func(passed func(string)) (err error) {
			*a.Result, err = g.run(req.Bench, suite.Options{Scale: max(req.Scale, 1), Known: req.Known, Passed: passed})
			return err
		})
		return a, err
	})
	return errors.Join(err, g.close())
}

func (g *cardGPU) close() error { return errors.Join(g.driver.Close(), g.guest.Close()) }

// print writes what the card counted of a program.
func (c cardCounts) print(w io.Writer, bench string, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Bench string     `json:"bench"`
			Card  cardCounts `json:"card"`
		}{bench, c})
	}
	_, err := fmt.Fprintf(w, "  traps      %d of BAR0, %d of BAR1, %d of BAR3\n"+
		"  tables     %d scans of directories and %d of apertures, %d entries; %d hypercalls of %d operations\n"+
		"  channels   %d activations, %d flushes; %d refusals\n",
		c.TrapsBAR0, c.TrapsBAR1, c.TrapsBAR3, c.Scans, c.BARScans, c.Entries, c.Hypercalls, c.Operations, c.Activations, c.Flushes, c.Refused)
	return err
}

// cardCounts are the counters of a program.
type cardCounts trap.Counters
