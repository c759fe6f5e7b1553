package gpuvm

import "fmt"

// Mode is a way to virtualize the card.
type Mode struct {
	Name  string
	Remap bool // BAR3 is mapped into the guest
	BAR1  bool // BAR1 is, too, but for control pages
	Lazy  bool // directories are scanned at activation
	PV    bool // page tables are changed by hypercalls
	Multi bool // many operations a hypercall: a matter of the guest's driver

	// Nested has the card walk the guest's own tables, and a second level behind them (hw.MMU).
	Nested bool
}

// Modes are all of them: those of the thesis in its order, then two that remap BAR1, which it names
// as left out, and one of a card that it asks for.
var Modes = []Mode{
	{Name: "fv"},
	{Name: "fv-remap", Remap: true},
	{Name: "fv-lazy", Lazy: true},
	{Name: "fv-opt", Remap: true, Lazy: true},
	{Name: "pv", PV: true},
	{Name: "pv-multicall", PV: true, Multi: true},
	{Name: "fv-bar1", Remap: true, Lazy: true, BAR1: true},
	{Name: "pv-bar1", PV: true, Multi: true, BAR1: true},
	{Name: "nested", Remap: true, Nested: true},
}

// ModeOf finds a mode by name.
func ModeOf(name string) (Mode, error) {
	for _, m := range Modes {
		if m.Name == name {
			return m, nil
		}
	}
	return Mode{}, fmt.Errorf("gpuvm: there is no mode %q", name)
}

// Counters count what a VM did since it was made.
type Counters struct {
	TrapsBAR0   uint64 // accesses that trapped
	TrapsBAR1   uint64
	TrapsBAR3   uint64
	Scans       uint64 // of directories of channels
	BARScans    uint64 // of the tables of BAR1 and BAR3
	Entries     uint64 // read by scans
	Changed     uint64 // of them, those whose shadow changed
	Hypercalls  uint64
	Operations  uint64 // in them
	Activations uint64 // doorbells of bound channels
	Flushes     uint64 // TLB flushes, of any directory
	Refused     uint64 // entries, registers and accesses that name what is not the VM's
}

// Sub returns what was counted since an earlier time.
func (c Counters) Sub(o Counters) Counters {
	c.TrapsBAR0 -= o.TrapsBAR0
	c.TrapsBAR1 -= o.TrapsBAR1
	c.TrapsBAR3 -= o.TrapsBAR3
	c.Scans -= o.Scans
	c.BARScans -= o.BARScans
	c.Entries -= o.Entries
	c.Changed -= o.Changed
	c.Hypercalls -= o.Hypercalls
	c.Operations -= o.Operations
	c.Activations -= o.Activations
	c.Flushes -= o.Flushes
	c.Refused -= o.Refused
	return c
}
