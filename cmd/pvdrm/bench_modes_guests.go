package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"pvdrm/backend/gpuvm"
	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
)

// guestsOf starts so many guests of a mode: of one card where the mode is GPUvm's, and otherwise as
// many as there are devices. The guests are to be closed before the last, which is what owns the card.
func (f *modesFlags) guestsOf(ctx context.Context, mode string, n int) (places []bench.ModePlace, owner io.Closer, err error) {
	owner = io.NopCloser(nil)
	defer func() {
		if err != nil {
			err = errors.Join(err, closeModes(places), owner.Close())
		}
	}()
	open := func() (bench.ModePlace, error) { return f.open(ctx, mode) }
	if m, known := gpuvm.ModeOf(mode); known == nil || mode == bench.SideCoreMode {
		card, err := f.startOwner(ctx, mode, n)
		if err != nil {
			return nil, owner, err
		}
		owner = card
		open = func() (bench.ModePlace, error) {
			cmd, err := f.guestOf(card, len(places))
			if err != nil {
				return nil, err
			}
			a, err := startAgent(ctx, cmd)
			if err != nil {
				return nil, err
			}
			return &agentMode{mode: mode, agent: a, multi: m.Multi, vm: f.vm}, nil
		}
	}
	for range n {
		p, err := open()
		if err != nil {
			return places, owner, fmt.Errorf("mode %s: %w", mode, err)
		}
		places = append(places, p)
	}
	return places, owner, nil
}

// guestOf is the command that runs an agent in a guest of a card: the machine of a part of it, or a
// process.
func (f *modesFlags) guestOf(card *ownerProcess, part int) (*exec.Cmd, error) {
	if f.vm {
		self, err := ownProgram()
		if err != nil {
			return nil, err
		}
		return exec.Command(self, append(f.machine(), "--interface", card.mode, "--traps", card.traps, "--gpu-socket", card.sockets[part], "--", "gdev", "agent")...), nil
	}
	gdev, err := findProgram("gdev")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(gdev, "agent")
	cmd.Env = append(ofProgram(os.Environ()), "PVDRM_SOCKET="+card.sockets[0])
	return cmd, nil
}

func closeModes(places []bench.ModePlace) (err error) {
	for _, p := range places {
		err = errors.Join(err, p.Close())
	}
	return err
}

// ownerProcess is a pvdrm backend that owns a card.
type ownerProcess struct {
	cmd     *exec.Cmd
	dir     *runDir
	sockets []string // of each machine; of processes one
	mode    string
	traps   string
}

// startOwner starts a process that shares a card among n guests.
func (f *modesFlags) startOwner(ctx context.Context, mode string, n int) (*ownerProcess, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, err
	}
	dir, err := newRunDir()
	if err != nil {
		return nil, err
	}
	traps, _ := bench.Separate(mode, f.traps)
	if traps == bench.TrapCall {
		traps = bench.TrapDoorbell // there is a process between
	}
	o := &ownerProcess{dir: dir, sockets: []string{dir.path(socketGPU)}, mode: mode, traps: traps}
	kind := localGuest
	if f.vm {
		kind = vhostUser
		if o.traps == bench.TrapPCI {
			kind = vfioUser
		}
		for i := 1; i < n; i++ {
			o.sockets = append(o.sockets, partSocket(o.sockets[0], i))
		}
	}
	o.cmd = exec.Command(self, "backend", "--"+kind.flag, o.sockets[0], "--interface", mode, "--traps", traps, "--parts", fmt.Sprint(n), "--vram", modeVRAM)
	to, from, err := startPiped(o.cmd)
	if err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	_, _ = to, from // it reads and writes nothing
	const patience, pause = time.Minute, 10 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		if _, err := os.Stat(o.sockets[len(o.sockets)-1]); err == nil {
			return o, nil
		}
		if ctx.Err() != nil || waited > patience {
			return nil, errors.Join(fmt.Errorf("mode %s: pvdrm backend does not open %s", mode, filepath.Base(o.sockets[0])), o.Close())
		}
		time.Sleep(pause)
	}
}

// Close ends the process.
func (o *ownerProcess) Close() error {
	_ = o.cmd.Process.Signal(os.Interrupt) // it may have ended
	_ = o.cmd.Wait()                       // and how does not matter
	return o.dir.remove()
}

// runGuests measures 1, 2, 4 and so on guests at a time.
func (f *modesFlags) runGuests(ctx context.Context, show func(string)) (rows []bench.ModeRow, err error) {
	for _, mode := range f.modes {
		for _, n := range f.guests {
			places, owner, err := f.guestsOf(ctx, mode, n)
			if err != nil {
				return rows, err
			}
			for _, b := range f.benches {
				show(fmt.Sprintf("%d guests: %s in mode %s", n, b, mode))
				var runs [][]bench.ModeRow
				for round := range f.runs {
					found, e := together(ctx, places, b)
					err = errors.Join(err, e)
					if round > 0 || f.runs == 1 {
						runs = append(runs, found...)
					}
				}
				if len(runs) > 0 {
					rows = append(rows, bench.GuestRows(n, 0, runs)...)
				}
			}
			if err = errors.Join(err, closeModes(places), owner.Close()); err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// together runs a program in all places at the same time.
func together(ctx context.Context, places []bench.ModePlace, name string) (runs [][]bench.ModeRow, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range places {
		all.Go(func() {
			r, e := p.RunMode(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if r != nil {
				runs = append(runs, r)
			}
			err = errors.Join(err, e)
		})
	}
	all.Wait()
	return runs, err
}

// runContexts measures 1, 2, 4 and so on contexts of one guest at a time.
func (f *modesFlags) runContexts(ctx context.Context, show func(string)) (rows []bench.ModeRow, err error) {
	for _, mode := range f.modes {
		p, err := f.open(ctx, mode)
		if err != nil {
			return rows, err
		}
		for _, b := range f.benches {
			for _, n := range f.contexts {
				show(fmt.Sprintf("%d contexts: %s in mode %s", n, b, mode))
				var runs [][]bench.ModeRow
				for round := range f.runs {
					found, e := p.RunContexts(ctx, b, n)
					err = errors.Join(err, e)
					if round > 0 || f.runs == 1 {
						runs = append(runs, found...)
					}
				}
				if len(runs) > 0 {
					rows = append(rows, bench.GuestRows(0, n, runs)...)
				}
			}
		}
		if err = errors.Join(err, p.Close()); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// RunContexts implements bench.ModePlace.
func (m *agentMode) RunContexts(ctx context.Context, name string, contexts int) ([][]bench.ModeRow, error) {
	a, err := m.agent.Do(ctx, agent.Request{Bench: name, Config: m.config, Contexts: contexts})
	if err != nil {
		return nil, err
	}
	return bench.ResultRows(m.mode, a.Results), nil
}

// checkMany checks numbers of guests and of contexts.
func (f *modesFlags) checkMany() error {
	for name, list := range map[string][]int{"guests": f.guests, "contexts": f.contexts} {
		for _, n := range list {
			if n < 1 || n > gpuvm.MaxVMs {
				return fmt.Errorf("--%s %s: choose from 1 to %d", name, strings.Trim(fmt.Sprint(list), "[]"), gpuvm.MaxVMs)
			}
		}
	}
	if f.many() && (f.vm && f.contexts != nil || f.guests != nil && f.contexts != nil) {
		return errors.New("--guests, --contexts: give one of them, and --contexts without --vm")
	}
	if f.contexts != nil && slices.Contains(f.modes, bench.PVDRMNativeMode) {
		return errors.New("--contexts: leave pvdrm-native out of --modes; its programs run one by one")
	}
	return nil
}

// many reports whether several run a program at the same time.
func (f *modesFlags) many() bool { return f.guests != nil || f.contexts != nil }
