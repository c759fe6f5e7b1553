package micro

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// measureBatched measures the ring itself, without the driver above it.
func measureBatched(t Target) (r Result, err error) {
	const ops = 1 << 14
	if r.NS, err = onBareRing(t, ops, func(b *bareRing) error { return b.nulls(ops) }); err != nil {
		return r, err
	}
	one, err := measureNull(Target{Open: t.Open, Budget: t.Budget / 4})
	r.BaselineNS = one.NS
	return r, err
}

// measureBare measures the ring itself, one operation at a time: what is left of a
// call when the driver above takes no time.
func measureBare(t Target) (r Result, err error) {
	r.NS, err = onBareRing(t, calls, func(b *bareRing) error {
		for range calls {
			if err := b.null(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.BaselineNS, err = getppid(t.Budget / 4)
	return r, err
}

// onBareRing is the median time of one of n operations that do makes on a ring of
// its own, in ns.
func onBareRing(t Target, n int, do func(*bareRing) error) (ns float64, err error) {
	c, err := t.Carrier()
	if err != nil {
		return 0, err
	}
	b, err := newBareRing(c)
	if err == nil {
		ns, err = median(t.Budget, n, func() error { return do(b) })
	}
	return ns, errors.Join(err, c.Close())
}

// bareRing is a ring that is driven by hand. It never sleeps.
type bareRing struct {
	carrier carrier.Carrier
	ring    *hypercall.Ring
	req     *hypercall.Producer
	cpl     *hypercall.Consumer
	buf     []byte
}

func newBareRing(c carrier.Carrier) (*bareRing, error) {
	layout := hypercall.DefaultLayout
	pages, err := c.Alloc((layout.Bytes() + pageBytes - 1) &^ (pageBytes - 1))
	if err != nil {
		return nil, err
	}
	ring, err := hypercall.New(pages.Mem, layout)
	if err == nil {
		err = c.Attach(pages, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: pages.ID, Layout: layout})
	}
	if err != nil {
		return nil, err
	}
	return &bareRing{carrier: c, ring: ring, req: ring.Requests(), cpl: ring.Completions(),
		buf: make([]byte, hypercall.MaxMessage)}, nil
}

// batch is how many null operations are published at once.
const batch = 64

// stuck is how long a backend may take to answer anything at all.
const stuck = 20 * time.Second

var errStuck = fmt.Errorf("the backend does not answer: %w", syscall.ENODEV)

// looks is how often null looks for its answer between two looks at the clock.
const looks = 4096

// null makes one null operation and waits for its answer.
func (b *bareRing) null() error {
	if _, err := b.req.Put(hypercall.Header{Op: hypercall.OpNop, Flags: hypercall.FlagAnswer}, nil); err != nil {
		return err
	}
	if b.req.Publish() {
		if err := b.carrier.Kick(); err != nil {
			return err
		}
	}
	var begin time.Time
	for look := 1; !b.cpl.Ready(); look++ {
		if look%looks > 0 {
			continue
		}
		if now := time.Now(); begin.IsZero() {
			begin = now
		} else if now.Sub(begin) > stuck {
			return errStuck
		}
		runtime.Gosched()
	}
	h, _, _, err := b.cpl.Get(b.buf)
	if err == nil && h.Errno != 0 {
		err = fmt.Errorf("null operation: %w", syscall.Errno(h.Errno))
	}
	return err
}

// nulls sends n null operations and waits for all of their answers.
func (b *bareRing) nulls(n int) error {
	last := time.Now()
	for sent, answered := 0, 0; answered < n; {
		before := sent + answered
		for end := min(n, sent+batch); sent < end; sent++ {
			ok, err := b.req.Put(hypercall.Header{Op: hypercall.OpNop, Flags: hypercall.FlagAnswer, ID: uint32(sent)}, nil)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
		}
		if b.req.Publish() {
			if err := b.carrier.Kick(); err != nil {
				return err
			}
		}
		for {
			h, _, ok, err := b.cpl.Get(b.buf)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if h.Errno != 0 {
				return fmt.Errorf("null operation: %w", syscall.Errno(h.Errno))
			}
			answered++
		}
		if sent+answered != before {
			last = time.Now()
			continue
		}
		if b.ring.State() == hypercall.StateEnded || time.Since(last) > stuck {
			return errStuck
		}
		runtime.Gosched()
	}
	return nil
}
