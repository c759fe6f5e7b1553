package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pvdrm/backend/gpuvm"
	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/suite"
)

// Modes that are none of GPUvm's: the driver on the card with nothing between, and a VM to which the
// card was passed through. That is the same, but for a domain of its own.
const (
	NativeMode      = "native"
	PassThroughMode = "pt"
)

// Modes of PVDRM beside them: local guests without and with the pool of granted memory, and the
// program linked onto PVDRM's device, which is what these are compared with, too.
const (
	PVDRMMode       = "pvdrm"
	PVDRMPoolMode   = "pvdrm-pool"
	PVDRMNativeMode = "pvdrm-native"
)

// SideCoreMode is mode fv with traps that a thread of the Aggregator polls for.
const SideCoreMode = "side-core"

// What a trap is.
const (
	TrapCall     = "call"     // of the Aggregator, by the guest's driver
	TrapDoorbell = "doorbell" // a request in shared memory, after which each side wakes the other
	TrapPage     = "page"     // such a request, for which both sides poll
	TrapPCI      = "pci"      // an instruction of a virtual machine, on a BAR of a PCI device
)

var trapNotes = map[string]string{
	TrapCall:     "calls within a thread",
	TrapDoorbell: "requests to another process, which each side wakes: by pipes, or in a virtual machine by an EXECBUFFER and its fence",
	TrapPage:     "requests to another process, for which both sides poll",
	TrapPCI:      "instructions of a virtual machine, on BARs of a PCI device that QEMU shows it by vfio-user",
}

// Traps are the kinds of traps.
func Traps() []string { return []string{TrapCall, TrapDoorbell, TrapPage, TrapPCI} }

// Separate reports whether a mode runs in a guest of its own process, and with which traps.
func Separate(mode, traps string) (string, bool) {
	_, err := gpuvm.ModeOf(mode)
	if mode == SideCoreMode {
		return TrapPage, true
	}
	return traps, err == nil && traps != TrapCall
}

// thesisModes is how many of gpuvm.Modes are the thesis's.
const thesisModes = 6

// ModeNames are the ways to use the software GPU that can be compared: the thesis's ten, then others.
func ModeNames() []string {
	names := []string{NativeMode, PassThroughMode}
	for i, m := range gpuvm.Modes {
		if i == thesisModes {
			names = append(names, PVDRMMode, PVDRMPoolMode, PVDRMNativeMode)
		}
		names = append(names, m.Name)
	}
	return append(names, SideCoreMode)
}

// CheckMode says whether a mode can be measured.
func CheckMode(name string) error {
	if slices.Contains(ModeNames(), name) {
		return nil
	}
	return fmt.Errorf("there is no mode %q, only %s", name, strings.Join(ModeNames(), ", "))
}

// ModeRow is what one phase of a program took in one mode: a line of JSON.
type ModeRow struct {
	Mode         string  `json:"mode"`
	Bench        string  `json:"bench"`
	Phase        string  `json:"phase"`               // of modePhases
	Seconds      float64 `json:"seconds"`             // median
	Ratio        float64 `json:"ratio"`               // to native in the same round, median; 0 where native was not measured
	RatioOwn     float64 `json:"ratio_own,omitempty"` // of PVDRM's modes: likewise to pvdrm-native
	TrapsBAR0    uint64  `json:"traps_bar0"`
	TrapsBAR1    uint64  `json:"traps_bar1"`
	TrapsBAR3    uint64  `json:"traps_bar3"`
	Scans        uint64  `json:"scans"`     // of channels' directories
	BARScans     uint64  `json:"bar_scans"` // of the tables of BAR1 and BAR3
	Entries      uint64  `json:"entries"`   // that both read
	Hypercalls   uint64  `json:"hypercalls"`
	MulticallOps uint64  `json:"multicall_ops"`
	Activations  uint64  `json:"activations"`
	Flushes      uint64  `json:"flushes"`
	Doorbells    uint64  `json:"doorbells"`
	Verified     bool    `json:"verified"`
	Guests       int     `json:"guests,omitempty"`   // that ran it at the same time; 0 for one
	Contexts     int     `json:"contexts,omitempty"` // of a guest, likewise
	VM           bool    `json:"vm,omitempty"`       // the guest is a virtual machine
}

// modePhases are the phases of a program, and all of them together.
var modePhases = []string{"init", "htod", "launch", "dtoh", "close", "total"}

// modeRAM is the system memory of a VM. The host gives it when it is touched.
const modeRAM = 512 << 20

// ModePlace runs programs in one mode. It is up while all rounds run.
type ModePlace interface {
	// RunMode runs a program once: a row for each of the phases, without ratios. It returns the
	// rows of a result that is wrong, too, and an error beside them.
	RunMode(ctx context.Context, bench string) ([]ModeRow, error)
	// RunContexts runs a program in so many contexts at the same time: rows of each, without counters.
	RunContexts(ctx context.Context, bench string, contexts int) ([][]ModeRow, error)
	Close() error
}

// modePlace is a card with a driver in this process.
type modePlace struct {
	name   string
	multi  bool
	ram    []byte
	card   *card.Card
	vm     *gpuvm.VM // nil natively
	driver *lowlevel.Driver
	wrap   func(lowlevel.Bus) lowlevel.Bus // nil: it is driven as it is
}

func (p *modePlace) counts() (c agent.PhaseCounts) {
	c.Doorbells = p.driver.Doorbells()
	if p.vm != nil {
		c.Counters = p.vm.Counters()
	}
	return c
}

// OpenMode starts a card of GPUvm and its driver.
func OpenMode(name string) (ModePlace, error) {
	p := &modePlace{name: name}
	if err := p.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("mode %s: %w", name, err), p.Close())
	}
	return p, nil
}

func (p *modePlace) open() (err error) {
	p.ram, err = unix.Mmap(-1, 0, modeRAM, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("memory of a VM: %w", err)
	}
	if p.card, err = card.New(softgpu.Config{}); err != nil {
		return err
	}
	config := lowlevel.Config{Bus: p.card, RAM: p.ram}
	switch p.name {
	case NativeMode:
		config.Base, err = p.card.Host().Add(p.ram)
	case PassThroughMode:
		domain := p.card.NewDomain()
		for i := range p.card.Read(hw.BAR0, hw.RegCount) {
			p.card.SetDomain(int(i), domain)
		}
		config.Base, err = domain.Add(p.ram)
	default:
		err = p.startVM(&config)
	}
	if err != nil {
		return err
	}
	if p.wrap != nil {
		config.Bus = p.wrap(config.Bus)
	}
	p.driver, err = lowlevel.Open(config)
	return err
}

// startVM makes a VM of the card, with all of it.
func (p *modePlace) startVM(config *lowlevel.Config) error {
	mode, err := gpuvm.ModeOf(p.name)
	if err != nil {
		return err
	}
	a, err := gpuvm.New(p.card, 1)
	if err != nil {
		return err
	}
	if p.vm, err = a.NewVM(mode, p.ram); err != nil {
		return err
	}
	p.multi = mode.Multi
	config.Bus, config.Base, config.Multi = p.vm, p.vm.Base(), mode.Multi
	if mode.PV {
		config.Calls = p.vm
	}
	return nil
}

// Close implements ModePlace.
func (p *modePlace) Close() (err error) {
	if p.driver != nil {
		err = p.driver.Close()
	}
	if p.vm != nil {
		p.vm.Close()
	}
	if p.card != nil {
		err = errors.Join(err, p.card.Close())
	}
	if p.ram != nil {
		err = errors.Join(err, unix.Munmap(p.ram))
	}
	return err
}

// RunMode implements ModePlace.
func (p *modePlace) RunMode(_ context.Context, name string) (rows []ModeRow, err error) {
	var r suite.Result
	counts, err := agent.ByPhase(p.counts, func(passed func(string)) (err error) {
		r, err = suite.RunRaw(name, func() (suite.RawDevice, error) { return p.driver.NewContext() }, suite.Options{Passed: passed})
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.Error != "" {
		err = fmt.Errorf("%s in mode %s: %s", name, p.name, r.Error)
	}
	return CountedRows(p.name, r, counts, p.multi), err
}

// RunContexts implements ModePlace.
func (p *modePlace) RunContexts(_ context.Context, name string, contexts int) ([][]ModeRow, error) {
	results, err := agent.Together(contexts, func() (suite.Result, error) {
		return suite.RunRaw(name, func() (suite.RawDevice, error) { return p.driver.NewShared() }, suite.Options{})
	})
	return ResultRows(p.name, results), err
}

// ResultRows are the rows of each of the results.
func ResultRows(mode string, results []suite.Result) (runs [][]ModeRow) {
	for _, r := range results {
		runs = append(runs, ModeRows(mode, r))
	}
	return runs
}

// CountedRows are the rows of a result of GPUvm's with what was counted in its phases. Multi is set
// where hypercalls carry several operations.
func CountedRows(mode string, r suite.Result, counts map[string]agent.PhaseCounts, multi bool) []ModeRow {
	rows := ModeRows(mode, r)
	for i, phase := range modePhases {
		c, row := counts[phase], &rows[i]
		row.TrapsBAR0, row.TrapsBAR1, row.TrapsBAR3 = c.TrapsBAR0, c.TrapsBAR1, c.TrapsBAR3
		row.Scans, row.BARScans, row.Entries = c.Scans, c.BARScans, c.Entries
		row.Hypercalls, row.Activations, row.Flushes = c.Hypercalls, c.Activations, c.Flushes
		row.Doorbells = c.Doorbells
		if multi {
			row.MulticallOps = c.Operations
		}
	}
	return rows
}

// ModeRows are the rows of a result, without counters but for the doorbells of PVDRM, of which only
// the total is known.
func ModeRows(mode string, r suite.Result) (rows []ModeRow) {
	s := r.Seconds
	seconds := []float64{s.Init, s.HtoD, s.Launch, s.DtoH, s.Close, s.Total()}
	for i, phase := range modePhases {
		rows = append(rows, ModeRow{Mode: mode, Bench: r.Bench, Phase: phase, Seconds: seconds[i], Verified: r.Verified})
	}
	rows[len(rows)-1].Doorbells = r.Doorbells
	return rows
}

// RunModes runs programs in modes, in rounds: each round runs each program once in each mode. With
// more than one round the first warms up. Open starts what runs a mode; it is closed at the end. A
// result that is wrong is reported by its rows, and by an error beside them.
func RunModes(ctx context.Context, modes, benches []string, open func(mode string) (ModePlace, error), rounds int, show func(string)) (rows []ModeRow, err error) {
	places := make([]ModePlace, 0, len(modes))
	defer func() {
		for _, p := range places {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, name := range modes {
		show("starting mode " + name)
		p, err := open(name)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	found := map[[2]string][][]ModeRow{} // by program and mode
	var wrong error
	for round := range rounds {
		for _, b := range benches {
			for i, p := range places {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				show(fmt.Sprintf("round %d of %d: %s in mode %s", round+1, rounds, b, modes[i]))
				r, err := p.RunMode(ctx, b)
				if r == nil {
					return nil, fmt.Errorf("mode %s: %w", modes[i], err)
				}
				wrong = errors.Join(wrong, err)
				if round > 0 || rounds == 1 {
					found[[2]string{b, modes[i]}] = append(found[[2]string{b, modes[i]}], r)
				}
			}
		}
	}
	for _, b := range benches {
		of := func(mode string) [][]ModeRow { return found[[2]string{b, mode}] }
		for _, m := range modes {
			rows = append(rows, modeRows(of(m), of(NativeMode), of(PVDRMNativeMode))...)
		}
	}
	return rows, wrong
}

// modeRows are the rows of a program in one mode, from those of its rounds, of native's and of
// PVDRM's own native's.
func modeRows(runs, native, own [][]ModeRow) (rows []ModeRow) {
	for i := range modePhases {
		row := runs[len(runs)-1][i] // counters are the same in all
		ratio := func(base [][]ModeRow) float64 {
			var ratios []float64
			for n, r := range runs {
				if n < len(base) && base[n][i].Seconds > 0 {
					ratios = append(ratios, r[i].Seconds/base[n][i].Seconds)
				}
			}
			return spread(ratios).Median
		}
		var seconds []float64
		for _, r := range runs {
			seconds = append(seconds, r[i].Seconds)
			row.Verified = row.Verified && r[i].Verified
		}
		row.Seconds, row.Ratio = spread(seconds).Median, ratio(native)
		if row.Mode == PVDRMMode || row.Mode == PVDRMPoolMode {
			row.RatioOwn = ratio(own)
		}
		rows = append(rows, row)
	}
	return rows
}
