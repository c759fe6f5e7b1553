package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"pvdrm/backend/gpuvm"
	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/suite"
)

// Modes that are none of GPUvm's: the driver on the card with nothing between, and a VM to which the
// card was passed through. That is the same, but for a domain of its own.
const (
	NativeMode      = "native"
	PassThroughMode = "pt"
)

// ModeNames are the ways to reach a card that can be compared.
func ModeNames() []string {
	names := []string{NativeMode, PassThroughMode}
	for _, m := range gpuvm.Modes {
		names = append(names, m.Name)
	}
	return names
}

// laterModes are modes of the thesis and of its open questions that are not there yet.
var laterModes = []string{"pvdrm", "pvdrm-pool", "side-core", "nested"}

// CheckMode says whether a mode can be measured.
func CheckMode(name string) error {
	switch {
	case slices.Contains(ModeNames(), name):
		return nil
	case slices.Contains(laterModes, name):
		return fmt.Errorf("mode %s cannot be compared here yet; PVDRM itself is measured by pvdrm bench", name)
	}
	return fmt.Errorf("there is no mode %q, only %v", name, ModeNames())
}

// ModeRow is what one phase of a program took in one mode: a line of JSON.
type ModeRow struct {
	Mode         string  `json:"mode"`
	Bench        string  `json:"bench"`
	Phase        string  `json:"phase"`   // of modePhases
	Seconds      float64 `json:"seconds"` // median
	Ratio        float64 `json:"ratio"`   // to native in the same round, median; 0 where native was not measured
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
}

// modePhases are the phases of a program, and all of them together.
var modePhases = []string{"init", "htod", "launch", "dtoh", "close", "total"}

// modeRAM is the system memory of a VM. The host gives it when it is touched.
const modeRAM = 512 << 20

// modePlace is a card with a driver, in one mode. It is up while all rounds run.
type modePlace struct {
	name   string
	multi  bool
	ram    []byte
	card   *card.Card
	vm     *gpuvm.VM // nil natively
	driver *lowlevel.Driver
	socket *trapSocket // nil where traps are calls
}

// modeCounts are counters of a place.
type modeCounts struct {
	gpuvm.Counters
	doorbells uint64
}

func (p *modePlace) counts() (c modeCounts) {
	c.doorbells = p.driver.Doorbells()
	if p.vm != nil {
		c.Counters = p.vm.Counters()
	}
	return c
}

func (c modeCounts) sub(o modeCounts) modeCounts {
	return modeCounts{Counters: c.Sub(o.Counters), doorbells: c.doorbells - o.doorbells}
}

// openMode starts a card and its driver.
func openMode(name string, traps string) (p *modePlace, err error) {
	p = &modePlace{name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	p.ram, err = unix.Mmap(-1, 0, modeRAM, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return p, fmt.Errorf("memory of a VM: %w", err)
	}
	if p.card, err = card.New(softgpu.Config{}); err != nil {
		return p, err
	}
	config := lowlevel.Config{Bus: p.card, RAM: p.ram}
	switch name {
	case NativeMode:
		config.Base, err = p.card.Host().Add(p.ram)
	case PassThroughMode:
		domain := p.card.NewDomain()
		for i := range p.card.Read(hw.BAR0, hw.RegCount) {
			p.card.SetDomain(int(i), domain)
		}
		config.Base, err = domain.Add(p.ram)
	default:
		err = p.startVM(&config, traps)
	}
	if err != nil {
		return p, err
	}
	p.driver, err = lowlevel.Open(config)
	return p, err
}

// startVM makes a VM of the card, with all of it.
func (p *modePlace) startVM(config *lowlevel.Config, traps string) error {
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
	if traps != TrapSocket {
		return nil
	}
	if p.socket, err = newTrapSocket(p.vm); err != nil {
		return err
	}
	config.Bus = p.socket
	if mode.PV {
		config.Calls = p.socket
	}
	return nil
}

func (p *modePlace) close() (err error) {
	if p.driver != nil {
		err = p.driver.Close()
	}
	if p.socket != nil {
		err = errors.Join(err, p.socket.close())
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

// run runs a program once: a row for each phase, without its ratio.
func (p *modePlace) run(name string) (rows []ModeRow, err error) {
	counts, last := map[string]modeCounts{}, p.counts()
	first := last
	passed := func(phase string) {
		now := p.counts()
		d, sum := now.sub(last), counts[phase]
		counts[phase] = d.sub(modeCounts{}.sub(sum)) // d + sum
		last = now
	}
	r, err := suite.RunRaw(name, func() (suite.RawDevice, error) { return p.driver.NewContext() }, suite.Options{Passed: passed})
	if err != nil {
		return nil, err
	}
	if r.Error != "" {
		err = fmt.Errorf("%s in mode %s: %s", name, p.name, r.Error)
	}
	counts["total"] = p.counts().sub(first)
	s := r.Seconds
	seconds := []float64{s.Init, s.HtoD, s.Launch, s.DtoH, s.Close, s.Total()}
	for i, phase := range modePhases {
		c := counts[phase]
		row := ModeRow{Mode: p.name, Bench: name, Phase: phase, Seconds: seconds[i],
			TrapsBAR0: c.TrapsBAR0, TrapsBAR1: c.TrapsBAR1, TrapsBAR3: c.TrapsBAR3,
			Scans: c.Scans, BARScans: c.BARScans, Entries: c.Entries, Hypercalls: c.Hypercalls,
			Activations: c.Activations, Flushes: c.Flushes, Doorbells: c.doorbells, Verified: r.Verified}
		if p.multi {
			row.MulticallOps = c.Operations
		}
		rows = append(rows, row)
	}
	return rows, err
}

// RunModes runs programs in modes, in rounds: each round runs each program once in each mode. With
// more than one round the first warms up. Traps is TrapCall or TrapSocket. A result that is wrong is reported by its rows, and by an
// error beside them.
func RunModes(ctx context.Context, modes, benches []string, traps string, rounds int, show func(string)) (rows []ModeRow, err error) {
	places := make([]*modePlace, 0, len(modes))
	defer func() {
		for _, p := range places {
			err = errors.Join(err, p.close())
		}
	}()
	for _, name := range modes {
		p, err := openMode(name, traps)
		if err != nil {
			return nil, fmt.Errorf("mode %s: %w", name, err)
		}
		places = append(places, p)
	}
	found := map[[2]string][][]ModeRow{} // by program and mode
	var wrong error
	for round := range rounds {
		for _, b := range benches {
			for _, p := range places {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				show(fmt.Sprintf("round %d of %d: %s in mode %s", round+1, rounds, b, p.name))
				r, err := p.run(b)
				if r == nil {
					return nil, err
				}
				wrong = errors.Join(wrong, err)
				if round > 0 || rounds == 1 {
					found[[2]string{b, p.name}] = append(found[[2]string{b, p.name}], r)
				}
			}
		}
	}
	for _, b := range benches {
		for _, m := range modes {
			rows = append(rows, modeRows(found[[2]string{b, m}], found[[2]string{b, NativeMode}])...)
		}
	}
	return rows, wrong
}

// modeRows are the rows of a program in one mode, from those of its rounds and of native's.
func modeRows(runs, native [][]ModeRow) (rows []ModeRow) {
	for i := range modePhases {
		row := runs[len(runs)-1][i] // counters are the same in all
		var seconds, ratios []float64
		for n, r := range runs {
			seconds = append(seconds, r[i].Seconds)
			if n < len(native) && native[n][i].Seconds > 0 {
				ratios = append(ratios, r[i].Seconds/native[n][i].Seconds)
			}
			row.Verified = row.Verified && r[i].Verified
		}
		row.Seconds, row.Ratio = spread(seconds).Median, spread(ratios).Median
		rows = append(rows, row)
	}
	return rows
}
