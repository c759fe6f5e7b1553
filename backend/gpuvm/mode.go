package gpuvm

import (
	"fmt"

	"pvdrm/hypercall/trap"
)

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
type Counters = trap.Counters
