package host

import (
	"context"
	"fmt"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
)

// Run runs a program to its end: until no logical block and no callback is left. Args are the
// arguments of the kernel after the gloop::Launch, as for cuda.Function.Launch.
//
// When ctx ends, Run asks the kernel to leave, ends what is under way and returns its error. A kernel
// that never looks at the signal runs until its launch ends, or the device's limit ends it.
func Run(ctx context.Context, cfg Config, args ...any) (stats Stats, err error) {
	if err := cfg.check(); err != nil {
		return stats, err
	}
	f, err := cfg.Module.Function(cfg.Kernel)
	if err != nil {
		return stats, err
	}
	cfg.place(f)
	p, err := newProgram(cfg)
	if err != nil {
		return stats, err
	}
	defer func() {
		if failed := p.close(err != nil); err == nil { // a lost context fails there again
			err = failed
		}
		stats = p.stats()
	}()
	for {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		if err := p.launch(ctx, f, args); err != nil {
			return stats, err
		}
		over, err := p.settle(ctx)
		if over || err != nil {
			return stats, err
		}
	}
}

// launch runs the kernel once.
func (p *program) launch(ctx context.Context, f *cuda.Function, args []any) error {
	p.begin()
	config := cuda.LaunchConfig{Grid: [3]uint32{uint32(p.cfg.Blocks), 1, 1}, Block: p.cfg.Block, Shared: p.cfg.Shared,
		Stream: p.stream, Signal: p.memory.granted.DevicePtr()}
	start := time.Now()
	if err := f.Launch(config, append([]any{p.memory.launch(&p.cfg, p.sequence)}, args...)...); err != nil {
		return err
	}
	stop := p.watch(ctx)
	err := p.stream.Synchronize()
	broken := stop()
	p.count(func(s *Stats) { s.Launches++; s.GPU += time.Since(start) })
	if err != nil {
		return err
	}
	if broken == nil {
		_, broken = p.take() // requests of the last moment
	}
	return broken
}

// settle reads how the blocks have left, and waits for an event if all of them do.
func (p *program) settle(ctx context.Context) (over bool, err error) {
	over = true
	waits := make([]uint64, 0, p.cfg.Blocks)
	blocks := make([]int, 0, p.cfg.Blocks)
	var callbacks, looks uint64
	ready := false
	for b := range p.cfg.Blocks {
		r, ok := p.table.Report(b, p.sequence)
		if !ok {
			return false, fmt.Errorf("block %d has not reported how it left: %w", b, abi.ErrProtocol)
		}
		callbacks += r.Callbacks
		looks += r.Looks
		switch r.State {
		case abi.StateDone:
			continue
		case abi.StateSuspended:
			ready = true
		case abi.StateWaiting:
			waits, blocks = append(waits, r.Seen), append(blocks, b)
		case abi.StateFailed:
			return false, fmt.Errorf("block %d, logical block %d: %w", b, r.Logical, faultOf(r.Error))
		default:
			return false, fmt.Errorf("block %d has left in state %d: %w", b, r.State, abi.ErrProtocol)
		}
		over = false
	}
	p.count(func(s *Stats) { s.Callbacks, s.Looks = callbacks, looks })
	if over || ready {
		return over, nil
	}
	return false, p.await(ctx, blocks, waits)
}

func faultOf(f abi.Fault) error {
	switch f {
	case abi.FaultSlots:
		return ErrSlots
	case abi.FaultCoalesced:
		return ErrCoalesced
	case abi.FaultVersion:
		return ErrVersion
	}
	return fmt.Errorf("fault %d: %w", f, abi.ErrProtocol)
}
