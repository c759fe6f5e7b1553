package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/metrics"
	"pvdrm/backend/sched"
	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
)

// guestsFlags are those of `pvdrm up` that are about several guests.
type guestsFlags struct {
	count int
	// One of each guest, or none.
	weights, caps, reserves, classes, priorities, slas, names []string

	policy  string
	metrics string
}

// maxGuests bounds --guests: a machine each is more than hosts hold.
const maxGuests = 64

func (f *guestsFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.count, "guests", 1, "machines to boot on the GPU, or on several (--device softgpu:0,1), which an arbiter shares among them")
	c.Flags().StringSliceVar(&f.weights, "weights", nil, "with --guests: shares of the GPU, such as 50,30,20 (default: equal)")
	c.Flags().StringSliceVar(&f.caps, "caps", nil, "with --guests: most of the GPU's time for each, percent, such as 50,0,0; 0 is no limit")
	c.Flags().StringSliceVar(&f.reserves, "reserves", nil, "with --guests: least of the GPU's time for each while it has work, percent")
	c.Flags().StringSliceVar(&f.classes, "classes", nil, "with --guests: class of each, such as latency,batch: "+strings.Join(sched.ClassNames(), " or "))
	c.Flags().StringSliceVar(&f.priorities, "priorities", nil, fmt.Sprintf("with --guests: priority of each, 0 to %d", sched.MaxPriority))
	c.Flags().StringSliceVar(&f.slas, "slas", nil, "with --guests: SLA of each, such as 50ms,0; 0 is the default")
	c.Flags().StringSliceVar(&f.names, "names", nil, "with --guests: names (default: guest-1, guest-2 …)")
	c.Flags().StringVar(&f.policy, "policy", arbiter.DefaultPolicy, "with --guests and without --arbiter: who runs next: "+strings.Join(sched.Names(), ", ")+"; with "+wholeCommands+" after it, kernels are not preempted")
	c.Flags().StringVar(&f.metrics, "metrics", "", "serve metrics for Prometheus at HOST:PORT, :PORT (loopback only) or unix:PATH")
}

// entitled is a guest's name and what it wishes for at the arbiter.
type entitled struct {
	name         string
	weight       uint32
	cap, reserve float64 // percent
	service      service
}

// share is that wish as the arbiter takes it.
func (e entitled) share() sched.Share {
	return sched.Share{Weight: e.weight, Cap: e.cap / percent, Reserve: e.reserve / percent,
		Class: e.service.class, Priority: e.service.priority, SLA: e.service.sla}
}

// plan checks the flags and says who the guests are.
func (f *guestsFlags) plan() ([]entitled, error) {
	if f.count < 1 || f.count > maxGuests {
		return nil, usageError{fmt.Errorf("--guests: choose 1 to %d", maxGuests)}
	}
	plan := make([]entitled, f.count)
	for i := range plan {
		plan[i] = entitled{name: fmt.Sprintf("guest-%d", i+1), weight: 1}
	}
	percentage := func(s string) (float64, error) {
		p, err := strconv.ParseFloat(s, 64)
		if err != nil || !(p >= 0 && p <= percent) {
			return 0, fmt.Errorf("%q is not a number from 0 to %d", s, percent)
		}
		return p, nil
	}
	taken := map[string]bool{}
	for _, list := range []struct {
		name   string
		values []string
		set    func(e *entitled, value string) error
	}{
		{name: "--names", values: f.names, set: func(e *entitled, value string) error {
			if taken[value] {
				return fmt.Errorf("two guests are called %q", value)
			}
			taken[value] = true
			e.name = value
			return nil
		}},
		{name: "--weights", values: f.weights, set: func(e *entitled, value string) error {
			w, err := strconv.ParseUint(value, 10, 32)
			if err != nil || w < 1 || w > sched.MaxWeight {
				return fmt.Errorf("%q is not a number from 1 to %d", value, sched.MaxWeight)
			}
			e.weight = uint32(w)
			return nil
		}},
		{name: "--caps", values: f.caps, set: func(e *entitled, value string) (err error) { e.cap, err = percentage(value); return err }},
		{name: "--reserves", values: f.reserves, set: func(e *entitled, value string) (err error) { e.reserve, err = percentage(value); return err }},
		{name: "--classes", values: f.classes, set: func(e *entitled, value string) error { return e.service.class.UnmarshalText([]byte(value)) }},
		{name: "--priorities", values: f.priorities, set: func(e *entitled, value string) error {
			p, err := strconv.ParseUint(value, 10, 32)
			e.service.priority = uint32(p)
			return err
		}},
		{name: "--slas", values: f.slas, set: func(e *entitled, value string) (err error) {
			e.service.sla, err = time.ParseDuration(value)
			return err
		}},
	} {
		if n := len(list.values); n != 0 && n != f.count {
			return nil, usageError{fmt.Errorf("%s: %d values for %d guests", list.name, n, f.count)}
		}
		for i, value := range list.values {
			if err := list.set(&plan[i], value); err != nil {
				return nil, usageError{fmt.Errorf("%s: %w", list.name, err)}
			}
		}
	}
	sum := 0.0
	for _, e := range plan {
		sum += e.reserve
	}
	if sum > percent {
		return nil, usageError{fmt.Errorf("--reserves: %g %% in all; at most %d can be reserved", sum, percent)}
	}
	return plan, nil
}

// forSeveral reports whether there are flags that are for several guests.
func (f *guestsFlags) forSeveral() bool {
	return slices.ContainsFunc([][]string{f.weights, f.caps, f.reserves, f.classes, f.priorities, f.slas, f.names},
		func(list []string) bool { return list != nil })
}

// plan checks the flags that are about the number of guests.
func (f *upFlags) plan(args []string) ([]entitled, error) {
	plan, err := f.guests.plan()
	switch {
	case err != nil:
		return nil, err
	case len(plan) == 1 && f.guests.forSeveral():
		return nil, usageError{errors.New("--weights, --caps, --reserves, --classes, --priorities, --slas and --names are for several --guests; for one there are --weight, --cap, --reserve, --class, --priority, --sla and --guest")}
	case len(plan) > 1 && (len(args) == 0 || f.screen.single()):
		return nil, usageError{errors.New("several guests need a PROGRAM to run, and have no single screen to show or save")}
	}
	return plan, nil
}

// upSeveral boots several machines, each with all devices, and runs args in all of them. The
// first error takes all down; a program that fails does not.
func (f *upFlags) upSeveral(ctx context.Context, g *global, log *zap.Logger, plan []entitled, image guestimage.Image, files guestFiles, args []string) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dev := f.dev
	var own *arbiterProcess
	if dev.arbiter == "" {
		dir, e := newRunDir()
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, dir.remove()) }()
		dev.arbiter, dev.inOrder = dir.path(socketArbiter), true
		shares := arbiterFlags{socket: dev.arbiter, policy: f.guests.policy, gpus: 1 + len(dev.more), perUser: arbiter.DefaultMaxBackends}
		// It outlives ctx: the backends need it until they are down.
		if own, err = shares.start(context.WithoutCancel(ctx), log, nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.stop()) }()
	}
	one := *f
	if one.cfg.CPUs == 0 {
		one.cfg.CPUs = vmm.DefaultCPUs(len(plan))
	}
	out, errs := &lines{to: os.Stdout}, &lines{to: os.Stderr}
	guests := make([]*guest, 0, len(plan))
	defer func() {
		for _, o := range guests {
			err = errors.Join(err, o.end())
		}
	}()
	if f.card.on() { // the first one's backend has a part and a seat for each
		one.card.vms, dev.parts.seats = len(plan), plan
	}
	for i, e := range plan {
		dev.guest, dev.weight, dev.cap, dev.reserve, dev.service = e.name, e.weight, e.cap, e.reserve, e.service
		if err := dev.check(); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		begin := func() (*guest, error) { return one.begin(ctx, g, log, dev) }
		if f.card.on() && i > 0 {
			begin = func() (*guest, error) { return guests[0].beside(i) }
		}
		o, err := begin()
		if err != nil {
			return err
		}
		guests = append(guests, o)
		prefix := e.name + ": "
		o.stdout, o.stderr = &prefixed{to: out, prefix: prefix}, &prefixed{to: errs, prefix: prefix}
		o.say = func(format string, args ...any) { progress(prefix+format, args...) }
	}
	if err := serveGuestMetrics(ctx, f.guests.metrics, guests, own); err != nil {
		return err
	}
	codes := make([]int, len(guests))
	var all sync.WaitGroup
	for i, o := range guests {
		all.Go(func() {
			code, err := o.live(ctx, log, image, files, args)
			o.stdout.(*prefixed).flush()
			o.stderr.(*prefixed).flush()
			if err != nil {
				cancel(fmt.Errorf("%s: %w", plan[i].name, err))
			}
			codes[i] = code
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, code := range codes {
		if code != 0 {
			return exitError{code}
		}
	}
	return nil
}

// beside is a further guest that has a part of the card of this one.
func (o *guest) beside(i int) (*guest, error) {
	run, err := newRunDir()
	if err != nil {
		return nil, err
	}
	return &guest{flags: o.flags, run: run, backends: o.backends, sockets: []string{partSocket(o.sockets[0], i)}, owner: o}, nil
}

// serveGuestMetrics serves the metrics of guests' backends, which have no network
// of their own to do so, and of an arbiter, or nil, until ctx ends.
func serveGuestMetrics(ctx context.Context, addr string, guests []*guest, own *arbiterProcess) error {
	return serveMetrics(ctx, addr, func(p *metrics.Page) {
		for _, o := range guests {
			if o.owner != nil {
				continue
			}
			for _, b := range o.backends {
				if st, err := b.stats(); err == nil { // else it has ended
					addMetrics(p, st)
				}
			}
		}
		if own != nil {
			p.AddArbiter(own.server.Stats())
		}
	})
}

// lines is a stream that several guests write whole lines to.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// maxLine bounds what is kept of a line that does not end.
const maxLine = 64 << 10

// prefixed puts a guest's name before each of its lines. Its owner writes from
// one goroutine at a time.
type prefixed struct {
	mu     sync.Mutex // the console and the program may write at once
	to     *lines
	prefix string
	rest   []byte // of a line without its end
}

// Write implements io.Writer.
func (p *prefixed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	p.rest = append(p.rest, b...)
	for {
		i := bytes.IndexByte(p.rest, '\n')
		if i < 0 && len(p.rest) < maxLine {
			return n, nil
		}
		if i < 0 {
			i = len(p.rest) - 1
		}
		if err := p.put(bytes.TrimRight(p.rest[:i+1], "\r\n")); err != nil {
			return 0, err
		}
		p.rest = append(p.rest[:0], p.rest[i+1:]...)
	}
}

// put writes a line.
func (p *prefixed) put(line []byte) error {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	_, err := fmt.Fprintf(p.to.to, "%s%s\n", p.prefix, line)
	return err
}

// flush writes a last line that has no end.
func (p *prefixed) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) > 0 {
		_ = p.put(p.rest) // nobody reads any more
		p.rest = nil
	}
}
