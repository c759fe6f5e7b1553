package file

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/file/fakegpu"
	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// rig is a file on a fake GPU whose batches end when the test says.
type rig struct {
	*File
	testing.TB
	dev   *fakegpu.Device
	guest *Guest

	mu      sync.Mutex
	pending []func(gpu.Result) // batches that the device has, in order
	reached map[uint32]uint64
	failed  map[uint32]*Failure
	ended   int
	stirred int
}

func newRig(tb testing.TB, limits quota.Limits) *rig {
	r := &rig{TB: tb, dev: &fakegpu.Device{}, guest: &Guest{}, reached: map[uint32]uint64{}, failed: map[uint32]*Failure{}}
	r.guest.SetLimits(limits)
	r.dev.Submit = func(_ []gpu.Command, done func(gpu.Result)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pending = append(r.pending, done)
	}
	r.dev.Closing = func() { // the context ends what it has
		for r.held() > 0 {
			r.end(gpu.Result{Err: gpu.ErrClosed})
		}
	}
	var err error
	r.File, err = Open(r.dev, r.guest, "test", r)
	require.NoError(tb, err)
	r.dev.Calls()
	return r
}

// Reached implements Observer.
func (r *rig) Reached(channel uint32, seqno uint64, failed *Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached[channel] = seqno
	if failed != nil {
		r.failed[channel] = failed
	}
}

// Ended implements Observer.
func (r *rig) Ended(uint32, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
}

// Stirred implements Observer.
func (r *rig) Stirred() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stirred++
}

// end ends the device's oldest batch.
func (r *rig) end(res gpu.Result) {
	r.Helper()
	r.mu.Lock()
	require.NotEmpty(r, r.pending, "the device has no batch")
	done := r.pending[0]
	r.pending = r.pending[1:]
	r.mu.Unlock()
	done(res)
}

// held is how many batches the device has.
func (r *rig) held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

// nothingBut checks that the guest has one context and nothing else but some resources.
func (r *rig) nothingBut(but ...quota.Resource) {
	r.Helper()
	allowed := map[quota.Resource]bool{quota.Contexts: true}
	for _, b := range but {
		allowed[b] = true
	}
	for res := range quota.Resources {
		if !allowed[res] {
			require.Zero(r, r.guest.Used(res), res.String())
		}
	}
}

// closed closes the file and checks that nothing is left.
func (r *rig) closed() {
	r.Helper()
	require.NoError(r, r.Close())
	for res := range quota.Resources {
		require.Zero(r, r.guest.Used(res), res.String())
	}
}

// channel opens a channel.
func (r *rig) channel(id uint32) *Channel {
	r.Helper()
	ch, err := r.NewChannel(id)
	require.NoError(r, err)
	return ch
}

// exec queues the next batch of a channel and returns its number.
func (r *rig) exec(ch *Channel, waits ...drm.Point) uint64 {
	r.Helper()
	seqno := ch.Submitted() + 1
	_, err := r.Exec(ch, seqno, waits, drm.TimestampCmd{Addr: 8}.Append(nil))
	require.NoError(r, err)
	return seqno
}

// load loads a module.
func (r *rig) load(id uint32) {
	r.Helper()
	l, err := r.LoadPart(id, "m", 0, 6, []byte("source"))
	require.NoError(r, err)
	l.Compile(r.Context())
	require.NoError(r, r.EndLoad(l))
}

// pages are granted memory that counts its releases.
func pages(source uint32, runs int, released *int) Pages {
	p := Pages{Source: source, Release: func() { *released++ }}
	for range runs {
		p.Runs = append(p.Runs, make([]byte, 4096))
	}
	return p
}

// payer pays so many bytes.
type payer struct {
	left   int
	events []string
}

func (p *payer) Pay(n uint64) error {
	if p.left < int(n) {
		return syscall.EDQUOT
	}
	p.left -= int(n)
	p.events = append(p.events, "pay")
	return nil
}

func (p *payer) Refund(n uint64) {
	p.left += int(n)
	p.events = append(p.events, "refund")
}

var errDevice = errors.New("the device fails")

// failing makes one kind of call of the device fail until the function that it returns is called.
func (r *rig) failing(call string) (mended func()) {
	r.dev.Fail = func(c string) error {
		if c == call {
			return errDevice
		}
		return nil
	}
	return func() { r.dev.Fail = nil }
}
